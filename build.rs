//! Checks the built-in shader includes and makes the table of them. A fault in one fails the build.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    if let Err(message) = run() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?).join("shaders");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files).map_err(|e| format!("shaders/: {e}"))?;
    // The order of a directory differs from machine to machine; the table must not.
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let source = std::fs::read_to_string(file).map_err(|e| format!("{name}: {e}"))?;
        check(&name, &source)?;
        let _ = writeln!(table, "    ({name:?}, include_str!({:?})),", file.display().to_string());
    }
    table.push(']');
    let out = PathBuf::from(std::env::var("OUT_DIR").map_err(|e| e.to_string())?).join("built_in.rs");
    std::fs::write(&out, table).map_err(|e| format!("{}: {e}", out.display()))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "wgsl") {
            files.push(path);
        }
    }
    Ok(())
}

/// An include is valid by itself: it may lean on nothing that its users have to bring.
fn check(name: &str, source: &str) -> Result<(), String> {
    let module = naga::front::wgsl::parse_str(source).map_err(|e| e.emit_to_string_with_path(source, name))?;
    let mut validator =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty());
    validator.validate(&module).map(|_| ()).map_err(|e| e.emit_to_string_with_path(source, name))
}
