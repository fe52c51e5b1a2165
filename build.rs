//! Checks the built-in shader includes, and makes the tables of them and of the built-in assets. A fault in an
//! include fails the build.

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
        check(&name, &surrounded(&root, &source)?)?;
        let _ = writeln!(table, "    ({name:?}, include_str!({:?})),", file.display().to_string());
    }
    table.push(']');
    write("built_in.rs", &table)?;
    write("built_in_assets.rs", &assets(&root.join("builtin"))?)
}

fn write(name: &str, text: &str) -> Result<(), String> {
    let out = PathBuf::from(std::env::var("OUT_DIR").map_err(|e| e.to_string())?).join(name);
    std::fs::write(&out, text).map_err(|e| format!("{}: {e}", out.display()))
}

/// The table of built-in shader assets: path without extension, WGSL, bindings. The WGSL lacks the declarations that
/// are generated from the bindings, so it is compiled by a unit test rather than here.
fn assets(root: &Path) -> Result<String, String> {
    let say = |e: std::io::Error| format!("shaders/builtin: {e}");
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(root).map_err(say)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().map_err(say)?;
    folders.sort();
    let mut table = String::from("&[\n");
    for folder in &folders {
        let name = folder.file_stem().unwrap_or_default().to_string_lossy();
        let file = |name: &str| format!("include_str!({:?})", folder.join(name).display().to_string());
        let (wgsl, yaml) = (file("shader.wgsl"), file("bindings.yaml"));
        let _ = writeln!(table, "    (\"shaders/{name}\", {wgsl}, {yaml}),");
    }
    table.push(']');
    Ok(table)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.ends_with("builtin") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "wgsl") {
            files.push(path);
        }
    }
    Ok(())
}

/// An include is valid by itself: it may lean on nothing that its users have to bring.
/// An include with the ones that it includes itself, and with the buffers that its comments ask the shader to declare.
fn surrounded(root: &Path, source: &str) -> Result<String, String> {
    let mut text = String::new();
    for line in source.lines() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(name) => {
                text += &std::fs::read_to_string(root.join(name)).map_err(|e| format!("{name}: {e}"))?;
            }
            None => text += line,
        }
        text.push('\n');
    }
    let asked = source.lines().filter_map(|line| line.strip_prefix("//     var<"));
    for (binding, rest) in asked.enumerate() {
        let _ = writeln!(text, "@group(0) @binding({binding}) var<{rest};");
    }
    Ok(text)
}

fn check(name: &str, source: &str) -> Result<(), String> {
    let module = naga::front::wgsl::parse_str(source).map_err(|e| e.emit_to_string_with_path(source, name))?;
    let mut validator =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty());
    validator.validate(&module).map(|_| ()).map_err(|e| e.emit_to_string_with_path(source, name))
}
