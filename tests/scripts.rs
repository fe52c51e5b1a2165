//! Every sample script, run by the binary under validation and checked against plain Rust.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// No script takes near this long on any machine; a hang is a failure, not a stall.
const LIMIT: Duration = Duration::from_secs(300);

type Check = fn(&Output);

/// The sample scripts, each with its reference.
const SCRIPTS: &[(&str, Check)] = &[
    ("blur.luau", blur),
    ("game_of_life.luau", game_of_life),
    ("histogram.luau", histogram),
    ("nbody.luau", nbody),
    ("prefix_sum.luau", prefix_sum),
    ("conformance/buffers.luau", ok),
    ("conformance/buffer_namespace.luau", ok),
    ("conformance/programs.luau", ok),
    ("conformance/shared_types.luau", ok),
];

/// What a script printed.
struct Output {
    name: &'static str,
    lines: Vec<String>,
    keys: BTreeMap<String, String>,
}

impl Output {
    fn text(&self, key: &str) -> &str {
        self.keys.get(key).unwrap_or_else(|| panic!("{}: no line \"{key}: ...\" in {:?}", self.name, self.lines))
    }

    fn numbers(&self, key: &str) -> Vec<f64> {
        self.text(key).split_whitespace().map(|n| n.parse().unwrap()).collect()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

fn run(name: &'static str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ashfall"))
        .args(["run", "--validate"])
        .arg(folder().join(name))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // Both pipes are drained while the child runs: a full one would block it.
    let mut pipes = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let out = std::thread::spawn(move || {
        let mut text = String::new();
        pipes.0.read_to_string(&mut text).map(|_| text).unwrap()
    });
    let err = std::thread::spawn(move || {
        let mut text = String::new();
        pipes.1.read_to_string(&mut text).map(|_| text).unwrap()
    });
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > LIMIT => {
                child.kill().unwrap();
                panic!("{name} did not end within {LIMIT:?}");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let (out, err) = (out.join().unwrap(), err.join().unwrap());
    assert!(status.success(), "{name}: {status}\n{out}\n{err}");
    let keys = out.lines().filter_map(|l| l.split_once(": ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    Output { name, lines: out.lines().map(str::to_owned).collect(), keys }
}

#[test]
fn scripts_match_their_references() {
    for (name, check) in SCRIPTS {
        check(&run(name));
    }
}

#[test]
fn no_script_goes_unrun() {
    let mut found = Vec::new();
    let mut folders = vec![folder()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "luau") {
                found.push(path.strip_prefix(folder()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    let mut listed: Vec<&str> = SCRIPTS.iter().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
}

fn ok(out: &Output) {
    assert_eq!(out.lines.last().map(String::as_str), Some("ok"), "{}: {:?}", out.name, out.lines);
}

/// The word-wise mix that the scripts print as `checksum`.
fn rotated(words: impl Iterator<Item = u32>) -> String {
    format!("{:08x}", words.fold(0u32, |hash, word| hash.rotate_left(5) ^ word))
}

fn blur(out: &Output) {
    let (w, h) = (509i32, 383i32);
    let source = |x: i32, y: i32, channel: u32| -> u32 {
        let (x, y) = (x.clamp(0, w - 1), y.clamp(0, h - 1));
        match channel {
            0 => ((x * 7 + y * 3) % 256) as u32,
            1 => ((x ^ y) & 255) as u32,
            2 => ((x * y) % 256) as u32,
            _ => (255 - y % 256) as u32,
        }
    };
    let pixel = |x: i32, y: i32| -> u32 {
        (0..4).fold(0, |packed, channel| {
            let mut sum = 0;
            for (dy, wy) in [(-1, 1), (0, 2), (1, 1)] {
                for (dx, wx) in [(-1, 1), (0, 2), (1, 1)] {
                    sum += wx * wy * source(x + dx, y + dy, channel);
                }
            }
            packed | ((sum + 8) / 16) << (8 * channel)
        })
    };
    assert_eq!(out.text("corner"), format!("{:08x}", pixel(0, 0)));
    assert_eq!(
        out.text("checksum"),
        rotated((0..h).flat_map(|y| (0..w).map(move |x| (x, y))).map(|(x, y)| pixel(x, y)))
    );
}

fn game_of_life(out: &Output) {
    const N: usize = 256;
    let mut cells = vec![[false; N]; N];
    let text = std::fs::read_to_string(folder().join("glider_gun.rle")).unwrap();
    let body: String = text.lines().filter(|l| !l.starts_with('#') && !l.starts_with("x ")).collect();
    let (mut x, mut y, mut run) = (20, 20, String::new());
    for c in body.chars() {
        let n: usize = run.parse().unwrap_or(1);
        match c {
            '0'..='9' => {
                run.push(c);
                continue;
            }
            'o' => (0..n).for_each(|i| cells[y][x + i] = true),
            '$' => (x, y) = (20, y + n),
            _ => {}
        }
        if matches!(c, 'o' | 'b') {
            x += n;
        }
        run.clear();
    }
    for _ in 0..150 {
        let before = cells.clone();
        for (y, row) in cells.iter_mut().enumerate() {
            for (x, cell) in row.iter_mut().enumerate() {
                let around = [N - 1, 0, 1].iter().flat_map(|dy| [N - 1, 0, 1].map(|dx| (dx, *dy)));
                let alive =
                    around.filter(|d| *d != (0, 0)).filter(|(dx, dy)| before[(y + dy) % N][(x + dx) % N]).count();
                *cell = alive == 3 || alive == 2 && before[y][x];
            }
        }
    }
    let flat: Vec<u32> = cells.iter().flatten().map(|c| u32::from(*c)).collect();
    let hash = flat.iter().fold(0x811C_9DC5u32, |h, c| (h ^ c).wrapping_mul(0x0100_0193));
    assert_eq!(out.text("population"), flat.iter().sum::<u32>().to_string());
    assert_eq!(out.text("checksum"), format!("{hash:08x}"));
    // A gun fires a glider every 30 generations: the pattern has grown.
    assert!(flat.iter().sum::<u32>() > 36);
}

fn histogram(out: &Output) {
    const BYTES: usize = 4 << 20;
    let unit: Vec<u8> = (0..251 * 4u32).map(|i| (i * i % 251) as u8).collect();
    let mut bins = [0u32; 256];
    let filled = BYTES / unit.len() * unit.len();
    unit.iter().cycle().take(filled).for_each(|b| bins[usize::from(*b)] += 1);
    bins[0] += (BYTES - filled) as u32;
    let expected: Vec<f64> = bins.iter().map(|b| f64::from(*b)).collect();
    assert_eq!(out.numbers("bins"), expected);
}

fn prefix_sum(out: &Output) {
    let mut state = 12345u32;
    let mut sum = 0u32;
    let sums: Vec<u32> = (0..1 << 20)
        .map(|_| {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
            sum = sum.wrapping_add(state);
            sum
        })
        .collect();
    assert_eq!(out.text("last"), sum.to_string());
    assert_eq!(out.text("checksum"), rotated(sums.into_iter()));
}

/// The same integration in f64. The device's f32 sums 4096 terms in another order and its square roots may be off
/// in the last place: per step the relative error of a force is near 1e-6, so positions of size 1 that move by 0.01
/// a step stay within 1e-4 over 50 steps, except where two bodies pass closer than the softening.
fn nbody(out: &Output) {
    const N: usize = 4096;
    let mut state = 1u32;
    let mut random = || {
        state = (state * 75 + 74) % 65537;
        f64::from(state % 65536) / 65536.0
    };
    let mut position = Vec::with_capacity(N);
    let mut mass = Vec::with_capacity(N);
    for _ in 0..N {
        position.push([0; 3].map(|_| f64::from((random() * 2.0 - 1.0) as f32)));
        mass.push(f64::from(((1.0 + random()) / N as f64) as f32));
    }
    let (dt, softening) = (f64::from(0.01f32), f64::from(0.0025f32));
    let mut velocity = vec![[0.0f64; 3]; N];
    for _ in 0..50 {
        for (own, v) in position.iter().zip(&mut velocity) {
            let mut pull = [0.0; 3];
            for (other, m) in position.iter().zip(&mass) {
                let d = [other[0] - own[0], other[1] - own[1], other[2] - own[2]];
                let r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening;
                let scale = m / (r2 * r2.sqrt());
                (0..3).for_each(|axis| pull[axis] += d[axis] * scale);
            }
            (0..3).for_each(|axis| v[axis] += pull[axis] * dt);
        }
        for (p, v) in position.iter_mut().zip(&velocity) {
            (0..3).for_each(|axis| p[axis] += v[axis] * dt);
        }
    }
    let close = |what: &str, actual: &[f64], expected: &[f64], tolerance: f64| {
        for (a, e) in actual.iter().zip(expected) {
            assert!((a - e).abs() <= tolerance, "{what}: {actual:?}, expected {expected:?} within {tolerance}");
        }
        assert_eq!(actual.len(), expected.len());
    };
    for (i, p) in position.iter().enumerate().take(8) {
        let key = format!("body{i}");
        close(&key, &out.numbers(&key), p, 1e-4);
    }
    let sum = |values: &[[f64; 3]], weight: &dyn Fn(usize) -> f64| {
        (0..3).map(|axis| values.iter().enumerate().map(|(i, v)| v[axis] * weight(i)).sum()).collect::<Vec<f64>>()
    };
    // Errors of 4096 bodies largely cancel; 1e-5 a body on average would be a fault.
    close("sum", &out.numbers("sum"), &sum(&position, &|_| 1.0), 0.04);
    close("momentum", &out.numbers("momentum"), &sum(&velocity, &|i| mass[i]), 1e-6);
}
