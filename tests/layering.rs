//! Who may use what: each heavy dependency in one place, the pure modules free of all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Lines of a file that are code, without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|l| l.split("//").next().unwrap_or_default()).filter(|l| !l.trim().is_empty())
}

/// (crate path, the folders and files that may name it).
const PLACES: &[(&str, &[&str])] = &[
    ("ash::", &["vk/"]),
    ("gpu_allocator::", &["vk/"]),
    ("mlua::", &["luau/", "main.rs"]),
    ("naga::", &["bvh/tests/shader.rs", "shader/"]),
    ("gltf::", &["mesh/"]),
    ("serde_saphyr::", &["asset/"]),
    ("png::", &["picture.rs"]),
    ("clap::", &["main.rs"]),
    ("tracing_subscriber::", &["main.rs"]),
];

#[test]
fn dependencies_stay_where_they_belong() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 30);
    for file in &files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        for (path, places) in PLACES {
            // A longer path that ends the same is another crate.
            let named = code(&text).any(|l| {
                l.match_indices(path).any(|(at, _)| !l[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
            });
            assert!(!named || places.iter().any(|p| name.starts_with(p)), "{name} names {path}");
        }
        let tests_only = name.ends_with("tests.rs");
        let unsafe_code = code(&text).any(|l| l.contains("unsafe ") && !l.contains("unsafe_code"));
        assert!(tests_only || !unsafe_code || name.starts_with("vk/"), "{name} has unsafe code");
        assert!(text.lines().count() <= 700, "{name} is over 700 lines");
    }
}
