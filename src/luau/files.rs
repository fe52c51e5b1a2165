//! `fs.readFile`: the files beside a script, for the command line.

use mlua::{Lua, Value};
use std::path::{Component, Path, PathBuf};

/// Puts a read-only `fs` table into the globals.
pub(super) fn install(lua: &Lua, folder: PathBuf) -> mlua::Result<()> {
    let read = lua.create_function(move |lua, path: Value| match read(&folder, &path) {
        Ok(bytes) => Ok((Value::Nil, Value::String(lua.create_string(bytes)?))),
        Err(reason) => Ok((Value::String(lua.create_string(format!("fs.readFile: {reason}"))?), Value::Nil)),
    })?;
    let error: mlua::Function = lua.globals().get("error")?;
    let source = "local raw, error = ... return function(path) local problem, text = raw(path) if problem then error(problem, 2) end return text end";
    let wrapped: mlua::Function = lua.load(source).set_name("=[fs.readFile]").call((read, error))?;
    let fs = lua.create_table()?;
    fs.raw_set("readFile", wrapped)?;
    fs.set_readonly(true);
    lua.globals().raw_set("fs", fs)
}

fn read(folder: &Path, path: &Value) -> Result<Vec<u8>, String> {
    let Value::String(text) = path else {
        return Err(format!("path: got {}; expected {ACCEPTED}", super::args::describe(path)));
    };
    let text = text.to_string_lossy();
    std::fs::read(inside(folder, &text)?).map_err(|e| format!("\"{text}\": {e}"))
}

const ACCEPTED: &str = "a relative path inside the script's folder";

/// The file behind a relative path in a folder or below; nothing outside it, not even by a link.
fn inside(folder: &Path, text: &str) -> Result<PathBuf, String> {
    let relative = Path::new(text);
    let refuse = || format!("path: got \"{text}\"; expected {ACCEPTED}");
    if relative.components().any(|c| !matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(refuse());
    }
    let say = |e: std::io::Error| format!("\"{text}\": {e}");
    let folder = folder.canonicalize().map_err(say)?;
    let full = folder.join(relative).canonicalize().map_err(say)?;
    // A link may lead out of the folder even where the path does not.
    if full.starts_with(&folder) { Ok(full) } else { Err(refuse()) }
}

/// The text of a file in a folder or below, for includes of shaders that lie there.
///
/// # Errors
/// A message that names the path, for one that leads out of the folder, is not there or is not UTF-8.
pub fn read_beside(folder: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(inside(folder, path)?).map_err(|e| format!("\"{path}\": {e}"))
}
