//! `require`: built-in module paths, scripts in the script's folder, and modules of the host.
//!
//! A module is run once; every further `require` of it gets the same value. Its body may yield: a task that requires it
//! meanwhile waits, and two that wait for each other are refused.

use super::Host;
use super::args::describe;
use super::register::NAMESPACES;
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, Table, Value};
use std::path::PathBuf;
use std::rc::Rc;

/// Where the namespaces are found as modules: this and the namespace's name in lower case.
const BUILT_IN: &str = "@builtin/modules/api/engine/";

const ACCEPTED: &str = "\"./file\" or \"../file\" in the script's folder, or \"@builtin/modules/api/engine/compute\" and the other namespaces";

/// Puts `require` into the globals.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, folder: Option<PathBuf>) -> mlua::Result<()> {
    let built_in = lua.create_table()?;
    for (path, _) in NAMESPACES {
        if !path.contains('.') {
            let namespace: Table = lua.globals().get(*path)?;
            built_in.raw_set(format!("{BUILT_IN}{}", path.to_ascii_lowercase()), namespace)?;
        }
    }
    let host = Rc::clone(host);
    // Answers a problem; or the module's key and the function that makes it.
    let find = lua.create_function(move |lua, (path, from): (Value, Option<String>)| {
        let from = from.unwrap_or_default();
        let found = match &path {
            Value::String(text) => locate(lua, &host, folder.as_deref(), &text.to_string_lossy(), &from),
            other => Err(format!("path: got {}; expected {ACCEPTED}", describe(other))),
        };
        match found {
            Ok((key, body)) => Ok((Value::Nil, Value::String(lua.create_string(key)?), Value::Function(body))),
            Err(reason) => {
                Ok((Value::String(lua.create_string(format!("require: {reason}"))?), Value::Nil, Value::Nil))
            }
        }
    })?;
    let source = include_str!("require.luau");
    let require: mlua::Function = lua.load(source).set_name("=[require]").call((find, built_in))?;
    lua.globals().raw_set("require", require)
}

/// A script's text as a function. Bytecode is not taken: nothing checks it, and it can break out of the sandbox.
pub(super) fn text_only(lua: &Lua, name: &str, source: &[u8]) -> mlua::Result<Function> {
    // Bytecode starts with its version's number, which no text does. Luau's own word for it is "binary chunk".
    if source.first().is_some_and(|byte| *byte < b'\t') {
        return Err(mlua::Error::runtime(format!("{name}: got compiled Luau; expected source text")));
    }
    lua.load(source).set_name(format!("={name}")).set_mode(ChunkMode::Text).into_function()
}

/// A module's key and body. Files and the host's modules have keys of their own kind: neither may pass for the other.
type Located = (String, Function);

fn locate(lua: &Lua, host: &Host, folder: Option<&std::path::Path>, path: &str, from: &str) -> Result<Located, String> {
    let say = |e: mlua::Error| match e {
        mlua::Error::RuntimeError(text) => text,
        other => other.to_string(),
    };
    if !path.starts_with('.') {
        let source = host.modules.source(path);
        let source = source.ok_or_else(|| format!("got \"{path}\"; expected {ACCEPTED}"))?;
        let body = text_only(lua, path, &source).map_err(say)?;
        return Ok((format!("host:{path}"), body));
    }
    let folder = folder.ok_or_else(|| format!("got \"{path}\": this host gives scripts no files"))?;
    // Relative to the requiring script, whose name is its path where it came from a file.
    let beside = std::path::Path::new(from).strip_prefix(folder).ok().and_then(|p| p.parent());
    let relative = beside.unwrap_or(std::path::Path::new("")).join(path);
    let plain = normal(&relative).ok_or_else(|| format!("\"{path}\" leads out of the script's folder"))?;
    let file = [format!("{plain}.luau"), format!("{plain}/init.luau"), plain.clone()]
        .into_iter()
        .find(|name| folder.join(name).is_file())
        .ok_or_else(|| format!("there is no \"{plain}.luau\" in the script's folder"))?;
    let text = crate::files::read_beside(folder, &file)?;
    let name = folder.join(&file).display().to_string();
    let body = text_only(lua, &name, text.as_bytes()).map_err(say)?;
    Ok((format!("file:{name}"), body))
}

/// A relative path without `.` and `..`; `None` when it leads out.
fn normal(path: &std::path::Path) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => _ = parts.pop()?,
            std::path::Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            _ => return None,
        }
    }
    Some(parts.join("/"))
}
