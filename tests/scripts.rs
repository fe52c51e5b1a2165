//! Every sample script, run by the binary under validation and checked against plain Rust.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "references/kept.rs"]
mod kept;
#[path = "references/pictures.rs"]
mod pictures;
#[path = "references/ruin.rs"]
mod ruin;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// No script takes near this long on any machine; a hang is a failure, not a stall.
const LIMIT: Duration = Duration::from_secs(300);

type Check = fn(&Output);

/// A script, what it is given and what it is held against.
struct Script {
    name: &'static str,
    /// It is given the test's assets.
    assets: bool,
    /// Key of the texture that becomes its picture.
    picture: Option<&'static str>,
    check: Check,
}

const fn plain(name: &'static str, check: Check) -> Script {
    Script { name, assets: false, picture: None, check }
}

const fn with_assets(name: &'static str) -> Script {
    Script { name, assets: true, picture: None, check: ok }
}

const fn drawn(name: &'static str, picture: &'static str, check: Check) -> Script {
    Script { name, assets: false, picture: Some(picture), check }
}

/// The scripts, each with its reference.
const SCRIPTS: &[Script] = &[
    plain("blur.luau", blur),
    plain("game_of_life.luau", game_of_life),
    plain("histogram.luau", histogram),
    plain("nbody.luau", nbody),
    plain("prefix_sum.luau", prefix_sum),
    drawn("deform.luau", "picture", pictures::deform),
    drawn("reaction_diffusion.luau", "picture", pictures::reaction_diffusion),
    drawn("temporal.luau", "picture", pictures::temporal),
    drawn("volume.luau", "picture", pictures::volume),
    Script { assets: true, ..drawn("hierarchy.luau", "picture", ruin::ruin) },
    with_assets("conformance/assets.luau"),
    plain("conformance/buffers.luau", ok),
    plain("conformance/declarations.luau", ok),
    plain("conformance/buffer_namespace.luau", ok),
    plain("conformance/hierarchies.luau", ok),
    plain("conformance/inspect.luau", ok),
    with_assets("conformance/meshes.luau"),
    with_assets("conformance/neighbours.luau"),
    plain("conformance/programs.luau", ok),
    plain("conformance/shared_types.luau", ok),
    plain("conformance/textures.luau", ok),
];

/// Modules that scripts require; they are not run by themselves.
const MODULES: &[&str] = &["conformance/lib/check.luau"];

/// What a script printed.
struct Output {
    name: &'static str,
    lines: Vec<String>,
    keys: BTreeMap<String, String>,
    /// RGBA of the picture, row by row, and its width.
    picture: Option<(Vec<[u8; 4]>, usize)>,
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

fn run(script: &Script) -> Output {
    let name = script.name;
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name.replace('/', "_")).with_extension("png");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashfall"));
    command.args(["run", "--validate"]).arg(folder().join(name));
    if script.assets {
        command.arg("--assets").arg(folder().join("assets"));
    }
    if let Some(key) = script.picture {
        command.arg("--png").arg(format!("{key}={}", file.display()));
    }
    let mut child = command
        .env_remove("RUST_LOG")
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
                child.wait().unwrap();
                panic!("{name} did not end within {LIMIT:?}\n{}\n{}", out.join().unwrap(), err.join().unwrap());
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let (out, err) = (out.join().unwrap(), err.join().unwrap());
    assert!(status.success(), "{name}: {status}\n{out}\n{err}");
    // Warnings may stand there (programs.luau provokes some), a word of the validation layer may not.
    assert!(!err.to_lowercase().contains("validation"), "{name}:\n{err}");
    let picture = script.picture.map(|_| decode(&file));
    let output = Output { name, lines: out.lines().map(str::to_owned).collect(), keys: keys(&out), picture };
    kept::keep_or_compare(&output, &file);
    output
}

fn keys(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(|l| l.split_once(": ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn decode(file: &Path) -> (Vec<[u8; 4]>, usize) {
    let mut reader =
        png::Decoder::new(std::io::BufReader::new(std::fs::File::open(file).unwrap())).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgba, png::BitDepth::Eight));
    (bytes.as_chunks::<4>().0.to_vec(), info.width as usize)
}

#[test]
fn scripts_match_their_references() {
    for script in SCRIPTS {
        (script.check)(&run(script));
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
    let mut listed: Vec<&str> = SCRIPTS.iter().map(|s| s.name).chain(MODULES.iter().copied()).collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
}

fn ok(out: &Output) {
    assert_eq!(out.lines.last().map(String::as_str), Some("ok"), "{}: {:?}", out.name, out.lines);
}

/// FNV-1a, 32 bits, over whatever units a script says it takes: bytes, or words where there are many.
fn fnv1a(units: impl IntoIterator<Item = u32>) -> String {
    let hash = units.into_iter().fold(0x811C_9DC5u32, |hash, unit| (hash ^ unit).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

/// The little-endian bytes of words.
fn bytes(words: &[u32]) -> impl Iterator<Item = u32> + '_ {
    words.iter().flat_map(|word| word.to_le_bytes()).map(u32::from)
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
    let pixels: Vec<u32> = (0..h).flat_map(|y| (0..w).map(move |x| (x, y))).map(|(x, y)| pixel(x, y)).collect();
    assert_eq!(out.text("checksum"), fnv1a(bytes(&pixels)));
}

fn game_of_life(out: &Output) {
    const N: usize = 256;
    let mut cells = vec![[false; N]; N];
    let text = std::fs::read_to_string(folder().join("glider_gun.rle")).unwrap();
    let body: String = text.lines().filter(|l| !l.starts_with('#') && !l.starts_with("x ")).collect();
    // The gun is 36 by 9 and lies across the corner of the torus.
    let (left, top) = (N - 18, N - 4);
    let (mut x, mut y, mut run) = (left, top, String::new());
    for c in body.split('!').next().unwrap().chars() {
        let n: usize = run.parse().unwrap_or(1);
        match c {
            '0'..='9' => {
                run.push(c);
                continue;
            }
            'o' => (0..n).for_each(|i| cells[y % N][(x + i) % N] = true),
            '$' => (x, y) = (left, y + n),
            _ => {}
        }
        if matches!(c, 'o' | 'b') {
            x += n;
        }
        run.clear();
    }
    assert_eq!(cells.iter().flatten().filter(|c| **c).count(), 36, "the gun has 36 cells");
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
    assert_eq!(out.text("population"), flat.iter().sum::<u32>().to_string());
    assert_eq!(out.text("checksum"), fnv1a(bytes(&flat)));
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
    assert_eq!(out.text("checksum"), fnv1a(bytes(&bins)));
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
    assert_eq!(out.text("checksum"), fnv1a(sums));
}

/// What a simulation leaves, in the order of the script's keys.
struct Bodies {
    positions: Vec<[f64; 3]>,
    sum: Vec<f64>,
    momentum: Vec<f64>,
    energy: Vec<f64>,
}

/// The script's integration, all in one type of float.
macro_rules! simulate {
    ($f:ty) => {{
        const N: usize = 4096;
        let mut state = 1u32;
        let mut random = || {
            state = (state * 75 + 74) % 65537;
            f64::from(state % 65536) / 65536.0
        };
        let mut position = Vec::with_capacity(N);
        let mut mass = Vec::with_capacity(N);
        for _ in 0..N {
            // Rounded to f32 in either case: that is what the device starts from.
            position.push([0; 3].map(|_| <$f>::from((random() * 2.0 - 1.0) as f32)));
            mass.push(<$f>::from(((1.0 + random()) / N as f64) as f32));
        }
        let (dt, softening) = (<$f>::from(0.01f32), <$f>::from(0.0025f32));
        let mut velocity: Vec<[$f; 3]> = vec![[0.0; 3]; N];
        // Sums over all bodies are taken in f64 by the script as well.
        let energy = |position: &[[$f; 3]], velocity: &[[$f; 3]]| -> f64 {
            let mut total = 0.0;
            for (i, own) in position.iter().enumerate() {
                let mut potential: $f = 0.0;
                for (k, other) in position.iter().enumerate() {
                    let d = [other[0] - own[0], other[1] - own[1], other[2] - own[2]];
                    if k != i {
                        potential -= mass[k] / (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening).sqrt();
                    }
                }
                let square: f64 = velocity[i].iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
                total += f64::from(mass[i]) * (f64::from(potential) + square) / 2.0;
            }
            total
        };
        let first = energy(&position, &velocity);
        for _ in 0..50 {
            for (own, v) in position.iter().zip(&mut velocity) {
                let mut pull: [$f; 3] = [0.0; 3];
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
        let last = energy(&position, &velocity);
        let total = |values: &[[$f; 3]], weight: &dyn Fn(usize) -> f64| {
            (0..3)
                .map(|axis| values.iter().enumerate().map(|(i, v)| f64::from(v[axis]) * weight(i)).sum())
                .collect::<Vec<f64>>()
        };
        Bodies {
            sum: total(&position, &|_| 1.0),
            momentum: total(&velocity, &|i| f64::from(mass[i])),
            energy: vec![first, last],
            positions: position.iter().map(|p| p.map(f64::from)).collect(),
        }
    }};
}

// Tolerances against both references. On lavapipe the device agrees with f32 on the CPU to 1e-9 and is away from f64 by at
// most 4e-7 in a position, 7e-6 in a sum of 4096 of them, 2e-9 in the momentum and 7e-9 in the energy. Other devices add
// in the same order but may fuse products and round a root or a quotient by a few units: some thirty times that.
const POSITION: f64 = 1e-5;
const SUM: f64 = 5e-4;
const MOMENTUM: f64 = 1e-7;
const ENERGY: f64 = 1e-6;

fn nbody(out: &Output) {
    let close = |what: &str, actual: &[f64], expected: &[f64], tolerance: f64| {
        assert_eq!(actual.len(), expected.len(), "{what}");
        for (a, e) in actual.iter().zip(expected) {
            assert!((a - e).abs() <= tolerance, "{what}: {actual:?}, expected {expected:?} within {tolerance}");
        }
    };
    let (single, double) = (simulate!(f32), simulate!(f64));
    for (what, expected) in [("f32", &single), ("f64", &double)] {
        for (i, p) in expected.positions.iter().enumerate().take(16) {
            let key = format!("body{i}");
            close(&format!("{key}, {what}"), &out.numbers(&key), p, POSITION);
        }
        close(&format!("sum, {what}"), &out.numbers("sum"), &expected.sum, SUM);
        close(&format!("momentum, {what}"), &out.numbers("momentum"), &expected.momentum, MOMENTUM);
        close(&format!("energy, {what}"), &out.numbers("energy"), &expected.energy, ENERGY);
    }
}
