//! The scripts that end in a picture, done again in plain Rust.

use super::Output;

pub type Vec3 = [f32; 3];

pub fn add(a: Vec3, b: Vec3) -> Vec3 {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}
pub fn scale(a: Vec3, s: f32) -> Vec3 {
    a.map(|x| x * s)
}
pub fn dot(a: Vec3, b: Vec3) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
pub fn normalize(a: Vec3) -> Vec3 {
    scale(a, 1.0 / dot(a, a).sqrt())
}

/// How far a picture is from its reference.
pub struct Distance {
    pub mean: f64,
    most: u8,
    /// Part of the pixels that are off by more than the given amount.
    pub off: f64,
}

pub fn compare(out: &Output, over: u8, reference: impl Fn(usize, usize) -> Vec3) -> Distance {
    let (pixels, width) = out.picture.as_ref().unwrap();
    let (mut sum, mut most, mut off) = (0u64, 0u8, 0usize);
    for (i, pixel) in pixels.iter().enumerate() {
        let expected = reference(i % width, i / width).map(|c| (c.clamp(0.0, 1.0) * 255.0).round() as u8);
        let apart = (0..3).map(|c| pixel[c].abs_diff(expected[c])).max().unwrap();
        assert_eq!(pixel[3], 255);
        sum += u64::from(apart);
        most = most.max(apart);
        off += usize::from(apart > over);
    }
    let count = pixels.len() as f64;
    let distance = Distance { mean: sum as f64 / count, most, off: off as f64 / count };
    eprintln!("{}: mean {:.4}, most {}, off by more than {over}: {:.5}", out.name, distance.mean, most, distance.off);
    distance
}

// ---- volume ----

pub fn volume(out: &Output) {
    const N: usize = 64;
    let (width, height) = (320usize, 240usize);
    let blobs: Vec<(Vec3, f32)> = (0..12)
        .map(|i| {
            let angle = f64::from(i) * 0.9;
            let p = [0.5 + 0.26 * angle.cos(), 0.15 + 0.7 * f64::from(i) / 11.0, 0.5 + 0.26 * angle.sin()];
            (p.map(|x| x as f32), 0.17)
        })
        .collect();
    let mut fog = vec![[0.0f32; 4]; N * N * N];
    for (i, texel) in fog.iter_mut().enumerate() {
        let p = [i % N, i / N % N, i / N / N].map(|x| (x as f32 + 0.5) / N as f32);
        let (mut density, mut color) = (0.0, [0.0; 3]);
        for (k, (at, radius)) in blobs.iter().enumerate() {
            let d = add(p, scale(*at, -1.0));
            let own = (1.0 - dot(d, d) / (radius * radius)).max(0.0).powi(2);
            let t = k as f32 / 12.0;
            density += own;
            color = add(color, scale([1.0 - t, 0.4 + 0.3 * t, t], own));
        }
        let c = scale(color, 1.0 / density.max(1e-4));
        *texel = [c[0], c[1], c[2], density].map(|x| half::f16::from_f32(x).to_f32());
    }
    let sample = |p: Vec3| -> [f32; 4] {
        let at = p.map(|x| x * N as f32 - 0.5);
        let mut sum = [0.0; 4];
        for corner in 0..8usize {
            let mut weight = 1.0;
            let mut index = 0;
            for axis in (0..3).rev() {
                let (low, fraction) = (at[axis].floor(), at[axis] - at[axis].floor());
                let up = corner >> axis & 1;
                weight *= if up == 1 { fraction } else { 1.0 - fraction };
                index = index * N + (low as i64 + up as i64).clamp(0, N as i64 - 1) as usize;
            }
            (0..4).for_each(|c| sum[c] += weight * fog[index][c]);
        }
        sum
    };
    let toward = [0.48, 0.64, -0.6];
    let distance = compare(out, 8, |x, y| {
        let ndc = [(x as f32 + 0.5 - 160.0) / 240.0, (y as f32 + 0.5 - 120.0) / 240.0];
        let start = [0.5 + ndc[0] * 1.1, 0.5 - ndc[1] * 1.1];
        let (mut through, mut light) = (1.0, [0.0; 3]);
        for i in 0..96 {
            let p = [start[0], start[1], (i as f32 + 0.5) / 96.0];
            if start.iter().any(|s| !(0.0..=1.0).contains(s)) {
                continue;
            }
            let here = sample(p);
            if here[3] > 0.001 {
                let shade: f32 = (1..=6).map(|k| sample(add(p, scale(toward, k as f32 * 0.04)))[3]).sum();
                let lit = 0.25 + 0.75 * (-shade * 0.7).exp();
                let opacity = 1.0 - (-here[3] * 12.0 / 96.0).exp();
                light = add(light, scale([here[0], here[1], here[2]], through * opacity * lit));
                through *= 1.0 - opacity;
            }
        }
        let t = y as f32 / height as f32;
        let sky = [0.05 + 0.2 * t, 0.06 + 0.24 * t, 0.1 + 0.3 * t];
        add(light, scale(sky, through))
    });
    assert_eq!(out.picture.as_ref().unwrap().1, width);
    // Devices filter with weights of eight bits, which is a step of a few parts in 255 at the blobs' edges.
    assert!(distance.mean < 0.6 && distance.most <= 8, "{} {}", distance.mean, distance.most);
}

// ---- temporal ----

fn pcg(state: u32) -> (u32, u32) {
    let state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    let word = ((state >> ((state >> 28) + 4)) ^ state).wrapping_mul(277_803_737);
    (state, (word >> 22) ^ word)
}

pub fn temporal(out: &Output) {
    let (width, height, frames) = (192u32, 128u32, 64u32);
    let mut hits = vec![0u32; frames as usize];
    let mut mean = vec![[0.0f32; 3]; (width * height) as usize];
    for frame in 0..frames {
        for y in 0..height {
            for x in 0..width {
                let p = [x as f32 + 0.5, y as f32 + 0.5];
                let d = ((p[0] - 96.0).powi(2) + (p[1] - 64.0).powi(2)).sqrt();
                let ring = if (d / 12.0) as u32 & 1 == 0 { 0.85 } else { 0.25 };
                let chance = [ring, p[0] / 192.0, p[1] / 128.0];
                let mut state = pcg((frame * height + y) * width + x).1;
                let own = &mut mean[(y * width + x) as usize];
                for c in 0..3 {
                    let (next, word) = pcg(state);
                    state = next;
                    let hit = ((word >> 8) as f32 / 16_777_216.0) < chance[c];
                    hits[frame as usize] += u32::from(hit);
                    own[c] += (f32::from(u8::from(hit)) - own[c]) / (frame + 1) as f32;
                }
            }
        }
    }
    // A quotient may be off by a unit in the last place, which turns one sample in some millions.
    let told = out.numbers("hits");
    assert_eq!(told.len(), hits.len());
    for (told, expected) in told.iter().zip(&hits) {
        assert!((told - f64::from(*expected)).abs() <= 3.0, "{told} hits, expected {expected}");
    }
    let distance = compare(out, 1, |x, y| mean[y * width as usize + x]);
    assert!(distance.off < 1e-3 && distance.most <= 8, "{} {}", distance.off, distance.most);
}

// ---- reaction and diffusion ----

pub fn reaction_diffusion(out: &Output) {
    const N: usize = 40;
    let at = |x: usize, y: usize, z: usize| (z % N * N + y % N) * N + x % N;
    let mut now = vec![[1.0f32, 0.0]; N * N * N];
    for (c, r) in [([12, 13, 16], 3i32), ([27, 24, 22], 5), ([13, 30, 20], 3)] {
        for (i, cell) in now.iter_mut().enumerate() {
            let d = [i % N, i / N % N, i / N / N].iter().zip(c).map(|(a, b)| (*a as i32 - b).pow(2)).sum::<i32>();
            if d <= r * r {
                *cell = [0.5, 0.25];
            }
        }
    }
    for _ in 0..700 {
        let before = now.clone();
        for (i, cell) in now.iter_mut().enumerate() {
            let (x, y, z) = (i % N, i / N % N, i / N / N);
            let own = before[i];
            let around = [
                at(x + 1, y, z),
                at(x + N - 1, y, z),
                at(x, y + 1, z),
                at(x, y + N - 1, z),
                at(x, y, z + 1),
                at(x, y, z + N - 1),
            ];
            let sum = around.iter().fold([0.0, 0.0], |s, k| [s[0] + before[*k][0], s[1] + before[*k][1]]);
            let reaction = own[0] * own[1] * own[1];
            cell[0] = own[0] + 0.12 * (sum[0] - 6.0 * own[0]) + (0.03 * (1.0 - own[0]) - reaction);
            cell[1] = own[1] + 0.06 * (sum[1] - 6.0 * own[1]) + (reaction - 0.09 * own[1]);
        }
    }
    let totals = now.iter().fold([0.0f64; 2], |t, c| [t[0] + f64::from(c[0]), t[1] + f64::from(c[1])]);
    for (told, expected) in out.numbers("totals").iter().zip(totals) {
        assert!((told / expected - 1.0).abs() < 1e-4, "{told}, expected {expected}");
    }
    let line = out.numbers("line");
    assert_eq!(line.len(), N);
    for (x, told) in line.iter().enumerate() {
        let expected = f64::from(now[at(x, 24, 22)][1]);
        assert!((told - expected).abs() < 5e-4, "at {x}: {told}, expected {expected}");
    }
    let sample = |p: Vec3| -> f32 {
        let low = p.map(|x| (x - 0.5).floor());
        (0..8usize)
            .map(|corner| {
                let mut weight = 1.0;
                let mut cell = [0; 3];
                for axis in 0..3 {
                    let (f, up) = (p[axis] - 0.5 - low[axis], corner >> axis & 1);
                    weight *= if up == 1 { f } else { 1.0 - f };
                    cell[axis] = (low[axis] as i64 + up as i64).rem_euclid(N as i64) as usize;
                }
                weight * now[at(cell[0], cell[1], cell[2])][1]
            })
            .sum()
    };
    let step = |axis: usize, p: Vec3| {
        let mut o = [0.0; 3];
        o[axis] = 0.5;
        sample(add(p, o)) - sample(add(p, scale(o, -1.0)))
    };
    let distance = compare(out, 8, |x, y| {
        let mut p = [(x as f32 + 0.5) / 6.0, (y as f32 + 0.5) / 6.0, 0.0];
        while p[2] < N as f32 {
            if sample(p) > 0.2 {
                let gradient = [step(0, p), step(1, p), step(2, p)].map(|g| g + 1e-6);
                let lit = 0.15 + 0.85 * dot(scale(normalize(gradient), -1.0), normalize([-0.5, -0.6, -0.7])).max(0.0);
                let t = p[2] / N as f32;
                return [0.95 - 0.75 * t, 0.85 - 0.5 * t, 0.6].map(|c| lit * c);
            }
            p[2] += 0.25;
        }
        [0.05, 0.06, 0.09]
    });
    // Where the surface is seen edge-on, the smallest difference decides whether it is hit.
    assert!(distance.mean < 0.5 && distance.off < 0.01, "{} {}", distance.mean, distance.off);
}

// ---- deform ----

pub fn deform(out: &Output) {
    let (around, across, frames) = (96usize, 32usize, 30);
    let (width, height) = (320usize, 240usize);
    struct Vertex {
        p: Vec3,
        n: Vec3,
        u: f32,
        v: f32,
    }
    let mut vertices = Vec::new();
    let mut triangles = Vec::new();
    for i in 0..around {
        let a = std::f64::consts::TAU * i as f64 / around as f64;
        for k in 0..across {
            let b = std::f64::consts::TAU * k as f64 / across as f64;
            let n = [a.cos() * b.cos(), b.sin(), a.sin() * b.cos()];
            let p = [a.cos() + 0.4 * n[0], 0.4 * n[1], a.sin() + 0.4 * n[2]];
            let (u, v) = (i as f32 / around as f32, k as f32 / across as f32);
            vertices.push(Vertex { p: p.map(|x| x as f32), n: n.map(|x| x as f32), u, v });
            let at = |i: usize, k: usize| i % around * across + k % across;
            let corners = [at(i, k), at(i + 1, k), at(i + 1, k + 1), at(i, k + 1)];
            triangles.push([corners[0], corners[2], corners[1]]);
            triangles.push([corners[0], corners[3], corners[2]]);
        }
    }
    let step = 1.0 / frames as f32;
    for _ in 0..frames {
        for vertex in &mut vertices {
            let t = 0.5 * step * vertex.p[1];
            let (s, c) = (2.0 * t / (1.0 + t * t), (1.0 - t * t) / (1.0 + t * t));
            let turn = |p: Vec3| [c * p[0] - s * p[2], p[1], s * p[0] + c * p[2]];
            let swell = 0.35 * step * (((vertex.u * 6.0).fract() - 0.5) * std::f32::consts::TAU).sin();
            vertex.p = turn(add(vertex.p, scale(vertex.n, swell)));
            vertex.n = turn(vertex.n);
        }
    }
    // Vulkan lets sin be off by 2^-11, so the swelling by 0.35 times that over all frames, in each axis; the twist then
    // carries an error from one axis to another.
    let tolerance = 2.0 * 0.35 / 2048.0;
    for i in [0usize, 777, 1500, 3071] {
        for (told, expected) in out.numbers(&format!("vertex{i}")).iter().zip(vertices[i].p) {
            assert!((told - f64::from(expected)).abs() < tolerance, "vertex {i}: {told}, expected {expected}");
        }
    }
    // Nearness and colour of each pixel.
    let mut pixels = vec![(0.0f32, [0.09, 0.104, 0.14]); width * height];
    let seen = |p: Vec3| {
        let (y, z) = (0.6216 * p[1] + 0.7833 * p[2], -0.7833 * p[1] + 0.6216 * p[2]);
        let scale = height as f32 / 3.4;
        [width as f32 / 2.0 + scale * p[0], height as f32 / 2.0 - scale * y, 0.5 - z / 4.0]
    };
    let edge = |a: Vec3, b: Vec3, p: [f32; 2]| (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]);
    for corners in &triangles {
        let [one, two, three] = corners.map(|i| &vertices[i]);
        let [a, b, c] = [one, two, three].map(|v| seen(v.p));
        let area = edge(a, b, [c[0], c[1]]);
        let range = |axis: usize, most: usize| {
            let low = a[axis].min(b[axis]).min(c[axis]).max(0.0) as usize;
            let high = a[axis].max(b[axis]).max(c[axis]).clamp(0.0, most as f32 - 1.0) as usize;
            low..=high
        };
        for y in range(1, height) {
            for x in range(0, width) {
                let p = [x as f32 + 0.5, y as f32 + 0.5];
                let w = [edge(b, c, p), edge(c, a, p), edge(a, b, p)].map(|e| e / area);
                if w.iter().any(|w| w.is_nan() || *w < 0.0) {
                    continue;
                }
                let near = dot(w, [a[2], b[2], c[2]]);
                let pixel = &mut pixels[y * width + x];
                if near > pixel.0 {
                    let normal = add(add(scale(one.n, w[0]), scale(two.n, w[1])), scale(three.n, w[2]));
                    let lit = dot(normalize(normal), normalize([0.5, 0.7, -0.6])).max(0.0);
                    let stripe = if dot(w, [one.v, two.v, three.v]).fract() < 0.5 { 1.0 } else { 0.6 };
                    let shade = (stripe * (0.15 + 0.85 * lit) * 255.0).clamp(1.0, 255.0).floor() / 255.0;
                    *pixel = (near, scale([1.0, 0.72, 0.35], shade));
                }
            }
        }
    }
    let distance = compare(out, 4, |x, y| pixels[y * width + x].1);
    // Pixels on an edge fall to one triangle or its neighbour.
    assert!(distance.mean < 0.3 && distance.off < 0.005, "{} {}", distance.mean, distance.off);
}
