//! One device's outputs held against another's: with `ASHFALL_KEEP=DIR` each script's keys and picture are written there,
//! with `ASHFALL_COMPARE=DIR` they are compared with what another device left there.

use std::path::{Path, PathBuf};

use super::{ENERGY, MOMENTUM, Output, POSITION, SUM, decode, keys};

/// How far the numbers of a script's key, named by its start, may be from the other device's. Every other key is equal
/// to the letter. Each device may be this far from the reference; that they are as near to each other is stricter.
const NUMBERS: &[(&str, &str, f64)] = &[
    ("nbody.luau", "body", POSITION),
    ("nbody.luau", "sum", SUM),
    ("nbody.luau", "momentum", MOMENTUM),
    ("nbody.luau", "energy", ENERGY),
    // The sine of one device, see the reference.
    ("deform.luau", "vertex", 2.0 * 0.35 / 2048.0),
    // Of some 42000 and 7400.
    ("reaction_diffusion.luau", "totals", 0.5),
    ("reaction_diffusion.luau", "line", 5e-4),
    // Samples of 73728, which a quotient's last place decides.
    ("temporal.luau", "hits", 3.0),
];

/// How far a script's picture may be: the mean over the pixels of the greatest difference among the channels, in parts
/// of 255, and the share of the pixels that are off by more than 8 of them. The reasons stand with the references.
const PICTURES: &[(&str, f64, f64)] = &[
    ("deform.luau", 0.3, 0.005),
    ("hierarchy.luau", 0.3, 0.005),
    ("reaction_diffusion.luau", 0.5, 0.01),
    ("temporal.luau", 0.01, 0.0),
    ("volume.luau", 0.6, 0.0),
];

fn place(variable: &str, out: &Output) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(variable)?);
    std::fs::create_dir_all(&folder).unwrap();
    Some(folder.join(out.name.replace('/', "_")))
}

/// Keeps a script's output, or compares it, as the environment asks.
pub fn keep_or_compare(out: &Output, drawn: &Path) {
    if let Some(file) = place("ASHFALL_KEEP", out) {
        let lines: String = out.keys.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        std::fs::write(file.with_extension("txt"), lines).unwrap();
        if out.picture.is_some() {
            std::fs::copy(drawn, file.with_extension("png")).unwrap();
        }
    }
    if let Some(file) = place("ASHFALL_COMPARE", out) {
        compare(out, &file);
    }
}

fn compare(out: &Output, file: &Path) {
    let name = out.name;
    let text = file.with_extension("txt");
    let kept = keys(&std::fs::read_to_string(&text).unwrap_or_else(|error| panic!("{}: {error}", text.display())));
    assert!(kept.keys().eq(out.keys.keys()), "{name}: other keys than in {}", text.display());
    for (key, value) in &out.keys {
        let other = &kept[key];
        let Some((.., tolerance)) = NUMBERS.iter().find(|(script, start, _)| *script == name && key.starts_with(start))
        else {
            assert_eq!(value, other, "{name}: {key}");
            continue;
        };
        let parse = |text: &str| -> Vec<f64> { text.split_whitespace().map(|n| n.parse().unwrap()).collect() };
        let (own, other) = (parse(value), parse(other));
        assert_eq!(own.len(), other.len(), "{name}: {key}");
        let apart = own.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        println!("{name}: {key}: {apart:.2e} apart, {tolerance:.2e} allowed");
        assert!(own.iter().zip(&other).all(|(a, b)| (a - b).abs() <= *tolerance), "{name}: {key}: {own:?}, {other:?}");
    }
    let Some((pixels, width)) = &out.picture else {
        println!("{name}: {} keys equal", out.keys.len());
        return;
    };
    let (mean_allowed, off_allowed) = PICTURES
        .iter()
        .find(|(script, ..)| *script == name)
        .map(|(_, mean, off)| (*mean, *off))
        .unwrap_or_else(|| panic!("{name}: no tolerance for its picture"));
    let (other, other_width) = decode(&file.with_extension("png"));
    assert_eq!((pixels.len(), *width), (other.len(), other_width), "{name}");
    let apart = |(a, b): (&[u8; 4], &[u8; 4])| a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
    let differences: Vec<u8> = pixels.iter().zip(&other).map(apart).collect();
    let count = differences.len() as f64;
    let mean = differences.iter().map(|d| f64::from(*d)).sum::<f64>() / count;
    let off = differences.iter().filter(|d| **d > 8).count() as f64 / count;
    let most = differences.iter().max().unwrap();
    println!("{name}: picture: mean {mean:.4} apart, {mean_allowed} allowed; most {most}; {off:.5} by more than 8");
    assert!(mean <= mean_allowed && off <= off_allowed, "{name}: the pictures differ");
}
