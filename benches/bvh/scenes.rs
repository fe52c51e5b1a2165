//! Scenes of about as many triangles as asked for, within the unit cube or near it.

use ashfall::bvh::{Attributes, Instance};
use ashfall::mesh::Mesh;
use obvhs::triangle::Triangle;
use std::sync::Arc;

/// Numbers that look random.
pub struct Random(pub u32);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let word = ((self.0 >> ((self.0 >> 28) + 4)) ^ self.0).wrapping_mul(277_803_737);
        (word >> 22) ^ word
    }

    /// A number from one to another.
    pub fn within(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.word() >> 8) as f32 / 16_777_216.0
    }

    /// A unit vector.
    pub fn direction(&mut self) -> [f32; 3] {
        let (z, turn) = (self.within(-1.0, 1.0), self.within(0.0, std::f32::consts::TAU));
        let r = (1.0 - z * z).sqrt();
        [r * turn.cos(), r * turn.sin(), z]
    }
}

pub type Scene = fn(usize) -> Vec<Instance>;

pub const ALL: [(&str, Scene); 4] =
    [("terrain", terrain), ("instances", balls), ("architecture", architecture), ("soup", soup)];

const IDENTITY: [f32; 16] = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];

fn place(mesh: &Arc<Mesh>, transform: [f32; 16]) -> Instance {
    Instance { mesh: Arc::clone(mesh), transform, attributes: Attributes::from_slice(&[0.5; 12]) }
}

/// Scaled, turned about the vertical axis, and moved.
fn at([a, b, c]: [f32; 3], turn: f32, [x, y, z]: [f32; 3]) -> [f32; 16] {
    let (s, k) = turn.sin_cos();
    [a * k, 0.0, c * s, x, 0.0, b, 0.0, y, -a * s, 0.0, c * k, z, 0.0, 0.0, 0.0, 1.0]
}

fn grid(columns: usize, rows: usize, point: impl Fn(f32, f32) -> [f32; 3]) -> Arc<Mesh> {
    let points = (0..=rows).flat_map(|r| (0..=columns).map(move |c| (c, r)));
    let positions = points.map(|(c, r)| point(c as f32 / columns as f32, r as f32 / rows as f32)).collect();
    let quad = |c: usize, r: usize| {
        let a = (r * (columns + 1) + c) as u32;
        let b = a + columns as u32 + 1;
        [[a, b, a + 1], [a + 1, b, b + 1]]
    };
    let indices = (0..rows).flat_map(|r| (0..columns).flat_map(move |c| quad(c, r))).collect();
    Arc::new(Mesh::new(positions, None, None, Some(indices)).unwrap())
}

fn terrain(count: usize) -> Vec<Instance> {
    let side = (count as f32 / 2.0).sqrt() as usize;
    let height = |x: f32, z: f32| {
        let waves = [(7.0, 5.0, 0.1), (23.0, 17.0, 0.03), (61.0, 43.0, 0.01), (211.0, 177.0, 0.003)];
        waves.iter().map(|(a, b, h)| h * (a * x).sin() * (b * z + a).cos()).sum::<f32>()
    };
    vec![place(&grid(side, side, |x, z| [x, height(x, z), z]), IDENTITY)]
}

fn ball(rings: usize) -> Arc<Mesh> {
    use std::f32::consts::{PI, TAU};
    grid(2 * rings, rings, |u, v| {
        let (b, a) = (u * TAU, v * PI);
        let r = 1.0 + 0.1 * (5.0 * a).sin() * (7.0 * b).sin();
        [r * a.sin() * b.cos(), r * a.cos(), r * a.sin() * b.sin()]
    })
}

fn balls(count: usize) -> Vec<Instance> {
    let mesh = ball(32);
    let mut random = Random(5);
    (0..count.div_ceil(mesh.indices().len()))
        .map(|_| {
            let scale = [0; 3].map(|_| random.within(0.01, 0.05));
            let to = [random.within(0.0, 1.0), random.within(0.0, 0.4), random.within(0.0, 1.0)];
            place(&mesh, at(scale, random.within(0.0, 6.3), to))
        })
        .collect()
}

/// Floors of long walls, frames and furniture: large triangles of two a side, thin ones, and fine things among them.
fn architecture(count: usize) -> Vec<Instance> {
    let cube = Arc::new(
        Mesh::new(
            (0..8).map(|i| [0, 1, 2].map(|a| if i >> a & 1 == 1 { 1.0 } else { 0.0 })).collect(),
            None,
            None,
            Some(vec![
                [0, 1, 3],
                [0, 3, 2],
                [4, 7, 5],
                [4, 6, 7],
                [0, 5, 1],
                [0, 4, 5],
                [2, 3, 7],
                [2, 7, 6],
                [0, 2, 6],
                [0, 6, 4],
                [1, 5, 7],
                [1, 7, 3],
            ]),
        )
        .unwrap(),
    );
    let fine = ball(24);
    let mut random = Random(11);
    let mut all = Vec::new();
    let mut left = count;
    let rooms = 8;
    let mut put = |mesh: &Arc<Mesh>, transform| {
        left = left.saturating_sub(mesh.indices().len());
        all.push(place(mesh, transform));
        left > 0
    };
    for i in 0..=rooms {
        let t = i as f32 / rooms as f32;
        put(&cube, at([1.0, 0.4, 0.002], 0.0, [0.0, 0.0, t]));
        put(&cube, at([0.002, 0.4, 1.0], 0.0, [t, 0.0, 0.0]));
    }
    for floor in 0..5 {
        put(&cube, at([1.0, 0.002, 1.0], 0.0, [0.0, 0.1 * floor as f32, 0.0]));
    }
    loop {
        let floor = (random.word() % 4) as f32 * 0.1 + 0.002;
        let (x, z) = (random.within(0.0, 0.97), random.within(0.0, 0.97));
        // A table: a top, four legs; now and then turned, with things on it; beams and cables along the ceiling.
        let turn = if random.word().is_multiple_of(3) { random.within(0.0, 6.3) } else { 0.0 };
        let (w, h, d) = (random.within(0.005, 0.03), random.within(0.005, 0.03), random.within(0.005, 0.03));
        let mut more = put(&cube, at([w, 0.0006, d], turn, [x, floor + h, z]));
        for leg in 0..4 {
            let (s, k) = turn.sin_cos();
            let (a, b) = ((leg & 1) as f32 * w * 0.95, (leg >> 1) as f32 * d * 0.95);
            more = put(&cube, at([0.0008, h, 0.0008], turn, [x + a * k + b * s, floor, z - a * s + b * k]));
        }
        if random.word().is_multiple_of(10) {
            let s = random.within(0.0005, 0.004);
            more = put(&fine, at([s, s, s], 0.0, [x, floor + h + s, z]));
        }
        if random.word().is_multiple_of(4) {
            let long = random.within(0.05, 0.9).min(1.0 - x);
            let size = if random.word().is_multiple_of(2) {
                [long, 0.0005, 0.0005]
            } else {
                [0.0005, 0.0005, long.min(1.0 - z)]
            };
            more = put(&cube, at(size, 0.0, [x, floor + 0.09, z]));
        }
        if !more {
            return all;
        }
    }
}

fn soup(count: usize) -> Vec<Instance> {
    let mut random = Random(3);
    let positions = (0..count).flat_map(|_| {
        let c = [0; 3].map(|_| random.within(0.0, 1.0));
        let size = random.within(0.001, 0.02);
        [0; 3].map(|_| c.map(|x| x + random.within(-size, size)))
    });
    let mesh = Mesh::new(positions.collect(), None, None, None).unwrap();
    vec![place(&Arc::new(mesh), IDENTITY)]
}

/// The triangles in the world.
pub fn placed(instances: &[Instance]) -> Vec<Triangle> {
    let each = |i: &Instance| {
        let (mesh, m) = (Arc::clone(&i.mesh), i.transform);
        let point = move |p: [f32; 3]| {
            let row = |r: usize| m[r] * p[0] + m[r + 1] * p[1] + m[r + 2] * p[2] + m[r + 3];
            glam::Vec3A::new(row(0), row(4), row(8))
        };
        (0..mesh.indices().len()).map(move |t| {
            let [v0, v1, v2] = mesh.indices()[t].map(|v| point(mesh.positions()[v as usize]));
            Triangle { v0, v1, v2 }
        })
    };
    instances.iter().flat_map(each).collect()
}
