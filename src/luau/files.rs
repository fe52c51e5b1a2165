//! `fs.readFile`: the files beside a script, for the command line.

use crate::files::{ACCEPTED, inside};
use mlua::{Lua, Value};
use std::path::{Path, PathBuf};

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
