//! The one table of script functions, and how each becomes a Luau function.

use super::args::Refusal;
use super::{Host, asset, buffer, compute, hierarchy, inspect, mesh, program, texture};
use mlua::{Function, Lua, Table, Value};
use std::rc::Rc;

/// One or two results: a second that is nil is not returned.
pub(crate) type Answer = Result<(Value, Value), Refusal>;

/// A script function: at most five arguments, which is the most the script reference has.
pub(crate) type Body = fn(&Lua, &Host, [Value; 5]) -> Answer;

/// One function of a namespace.
pub(crate) struct Entry {
    pub name: &'static str,
    /// Arguments it takes.
    pub arity: usize,
    pub body: Body,
}

/// The namespaces and their functions; one namespace may come in several parts.
pub(crate) const NAMESPACES: &[(&str, &[Entry])] = &[
    ("compute", compute::ENTRIES),
    ("compute", texture::ENTRIES),
    ("compute", inspect::ENTRIES),
    ("compute", hierarchy::ENTRIES),
    ("compute.program", program::ENTRIES),
    ("Buffer", buffer::ENTRIES),
    ("asset", asset::ENTRIES),
    ("meshcpu", mesh::ENTRIES),
    ("profiler", inspect::PROFILER),
    ("renderer", inspect::RENDERER),
    ("substrate", inspect::SUBSTRATE),
];

/// The methods of handles, under the names that the type definitions give the handles.
pub(crate) const METHODS: &[(&str, &[Entry])] =
    &[("ShaderHandle", asset::SHADER), ("MeshHandle", asset::MESH), ("BufferHandle", inspect::BUFFER)];

/// Puts every namespace into the globals.
pub(crate) fn install(lua: &Lua, host: &Rc<Host>) -> mlua::Result<()> {
    let mut tables: Vec<(&str, Table)> = Vec::new();
    for (path, entries) in NAMESPACES {
        let table = match tables.iter().find(|(p, _)| p == path) {
            Some((_, table)) => table.clone(),
            None => {
                let table = lua.create_table()?;
                match path.split_once('.') {
                    Some((parent, name)) => lua.globals().get::<Table>(parent)?.raw_set(name, &table)?,
                    None => lua.globals().raw_set(*path, &table)?,
                }
                tables.push((path, table.clone()));
                table
            }
        };
        for entry in *entries {
            table.raw_set(entry.name, function(lua, host, &format!("{path}.{}", entry.name), entry)?)?;
        }
    }
    if let Some((_, compute)) = tables.iter().find(|(path, _)| *path == "compute") {
        compute.raw_set(hierarchy::SLICED.name, hierarchy::sliced(lua, host, compute)?)?;
    }
    for (handle, entries) in METHODS {
        let methods = lua.create_table()?;
        for entry in *entries {
            methods.raw_set(entry.name, function(lua, host, &format!("{handle}:{}", entry.name), entry)?)?;
        }
        methods.set_readonly(true);
        let meta = lua.create_table()?;
        meta.raw_set("__index", methods)?;
        meta.raw_set("__metatable", *handle)?;
        meta.set_readonly(true);
        lua.set_named_registry_value(handle, meta)?;
    }
    for (_, table) in tables {
        table.set_readonly(true);
    }
    Ok(())
}

/// Makes a table a handle: read-only, with the methods of that name.
pub(crate) fn give_methods(lua: &Lua, table: &Table, handle: &str) -> mlua::Result<()> {
    let meta: Table = lua.named_registry_value(handle)?;
    table.set_metatable(Some(meta))?;
    table.set_readonly(true);
    Ok(())
}

/// A Luau function of exactly the entry's arity.
///
/// An error from Rust would reach a script's `pcall` as a userdata. Scripts expect a string with file and line, so
/// the Rust side answers with the message as its first result and the Luau side raises it one level up, where the
/// script called.
fn function(lua: &Lua, host: &Rc<Host>, title: &str, entry: &Entry) -> mlua::Result<Function> {
    let raw = raw(lua, host, title, entry.body)?;
    let parameters = ["a", "b", "c", "d", "e"].get(..entry.arity).unwrap_or_default().join(", ");
    let source = format!(
        "local raw, error = ... return function({parameters}) \
         local problem, x, y = raw({parameters}) \
         if problem ~= nil then error(problem, 2) end \
         if y ~= nil then return x, y end return x end"
    );
    let error: Function = lua.globals().get("error")?;
    lua.load(source).set_name(format!("=[{title}]")).call((raw, error))
}

/// The Rust side of a function: its first result is the message of an error, if it is one, and then come its own.
pub(super) fn raw(lua: &Lua, host: &Rc<Host>, title: &str, body: Body) -> mlua::Result<Function> {
    let (host, title) = (Rc::clone(host), title.to_owned());
    lua.create_function(move |lua, (a, b, c, d, e): (Value, Value, Value, Value, Value)| {
        match body(lua, &host, [a, b, c, d, e]) {
            Ok((x, y)) => Ok((Value::Nil, x, y)),
            Err(refusal) => {
                Ok((Value::String(lua.create_string(format!("{title}: {refusal}"))?), Value::Nil, Value::Nil))
            }
        }
    })
}
