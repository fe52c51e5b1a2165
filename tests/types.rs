//! Every script against the type definitions, in strict mode, by Luau's own type checker.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use luau_analyze::Checker;
use std::path::{Path, PathBuf};

/// Printed by `ashfall types`; taken from the source so that this test links no second Luau.
const TYPES: &str = include_str!("../src/luau/types.d.luau");

fn scripts(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scripts(&path, out);
        } else if path.extension().is_some_and(|e| e == "luau") {
            out.push(path);
        }
    }
}

fn faults(checker: &mut Checker, source: &str) -> Vec<String> {
    // All are checked alike, whether they ask for it or not; the line itself may stand in a file only once.
    let strict = format!("--!strict\n{}", source.replacen("--!strict", "--", 1));
    let result = checker.check(&strict).expect("a checked source");
    assert!(!result.timed_out);
    // The checker sees one file at a time: what a module returns is any type to it.
    let told = result.diagnostics.iter().filter(|d| !d.message.starts_with("Unknown require: "));
    told.map(|d| format!("{}:{}: {}", d.line, d.col + 1, d.message)).collect()
}

#[test]
fn every_script_is_well_typed() {
    let mut checker = Checker::new().expect("a checker");
    checker.add_definitions(TYPES).expect("well-formed definitions");
    // It would pass anything if the definitions were not taken in.
    for wrong in [
        "compute.createBuffer(5, { size = 4 })",
        "compute.createBuffer('a', { size = 'large' })",
        "compute.dispatch('a', {})",
        "compute.nothing()",
        "local n: number = compute.readBuffer('a')",
        "asset.list('sound')",
        "local h = assert(substrate.createBuffer('x', { size = 4 })) h.key = 'y'",
    ] {
        assert!(!faults(&mut checker, wrong).is_empty(), "passed: {wrong}");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files = Vec::new();
    scripts(&folder, &mut files);
    files.sort();
    assert!(files.len() > 15);
    let mut all = Vec::new();
    for file in &files {
        let source = std::fs::read_to_string(file).unwrap();
        let name = file.strip_prefix(&folder).unwrap().display();
        all.extend(faults(&mut checker, &source).into_iter().map(|f| format!("{name}:{f}")));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
