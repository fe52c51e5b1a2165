//! Programs: registering, compiling, parameters, states and outcomes.

use super::Host;
use super::args::{Refusal, boolean_or, describe, field, field_or, number, string, table, text, whole};
use super::compute::{dispatch, no, yes};
use super::register::{Answer, Entry};
use super::texture::dispatch_ex;
use crate::asset::{Asset, AssetKind};
use crate::error::Error;
use crate::inspect::DispatchRecord;
use crate::shader::{
    BindingDecl, BindingKind, DeclaredAccess, Interface, MOST_IN_ARRAY, ParamDecl, ParamType, ProgramSource,
};
use crate::texture::Format;
use mlua::{BorrowedStr, Lua, Table, Value};
use std::rc::Rc;

pub(super) const ENTRIES: &[Entry] = &[
    Entry { name: "compile", arity: 2, body: compile },
    Entry { name: "destroy", arity: 1, body: destroy },
    Entry { name: "dispatch", arity: 2, body: dispatch },
    Entry { name: "dispatchEx", arity: 2, body: dispatch_ex },
    Entry { name: "setParam", arity: 3, body: set_param },
    Entry { name: "status", arity: 1, body: status },
    Entry { name: "dispatchOnVertices", arity: 2, body: super::mesh::dispatch_on_vertices },
];

const PROGRAM: &str = "a program name, an asset's identity or guid (string), or an asset's handle";

/// A program as a script names it: its name, or the guid that a handle carries. Nothing is looked up.
pub(super) fn name(value: &Value, field: &str) -> Result<BorrowedStr, Refusal> {
    match value {
        Value::Table(handle) => match handle.raw_get::<Value>("guid")? {
            guid @ Value::String(_) => text(&guid, field, PROGRAM),
            _ => Err(Refusal::value(field, value, PROGRAM)),
        },
        other => text(other, field, PROGRAM),
    }
}

/// The key that a program is registered under.
pub(super) enum Key {
    /// As the script gave it.
    Script(BorrowedStr),
    /// The guid of the asset that the script named.
    Asset(Rc<Asset>),
}

impl std::ops::Deref for Key {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Script(text) => text,
            Self::Asset(asset) => &asset.guid,
        }
    }
}

/// The key behind a name: a name that no program has may be an asset's, whose program has the guid for its key.
fn key(host: &Host, value: &Value, field: &str) -> Result<Key, Refusal> {
    let name = name(value, field)?;
    if host.gpu.borrow().find_program(&name).is_some() {
        return Ok(Key::Script(name));
    }
    let asset = host.assets.borrow_mut().resolve(&name).filter(|a| a.kind == AssetKind::ComputeShader);
    Ok(asset.map_or(Key::Script(name), Key::Asset))
}

/// For a handle without options, or an asset's name without them: the asset as it lies in its files.
fn from_asset(lua: &Lua, host: &Host, name: &Value, opts: &Value) -> Option<Answer> {
    let without = match opts {
        Value::Nil => true,
        // Options beside the source may be given for an asset; its files say the same and are what counts.
        Value::Table(t) => matches!(name, Value::Table(_)) && t.get::<Value>("source").is_ok_and(|s| s.is_nil()),
        _ => false,
    };
    let reference = self::name(name, "nameOrHandle").ok().filter(|_| without)?;
    match host.asset_program(&mut host.gpu.borrow_mut(), &reference) {
        Some(_) => Some(yes(true)),
        None if matches!(name, Value::Table(_)) => {
            Some(no(lua, format_args!("no compute shader asset is known as \"{}\"", &*reference)))
        }
        None => None,
    }
}

fn source_of(opts: &Table, key: &str, interface: Interface) -> Result<ProgramSource, Refusal> {
    let source = string(&field(opts, "source")?, "opts.source", "WGSL source (string)")?;
    let mut entry = field(opts, "entryPoint")?;
    let mut entry_field = "opts.entryPoint";
    if entry.is_nil() {
        // The reference spells it `entry` for one of the registering functions.
        entry = field(opts, "entry")?;
        entry_field = "opts.entry";
    }
    let entry_point =
        if entry.is_nil() { None } else { Some(string(&entry, entry_field, "an entry point name (string)")?) };
    let label = field(opts, "label")?;
    let label = if label.is_nil() { None } else { Some(string(&label, "opts.label", "a label (string)")?) };
    Ok(ProgramSource { entry_point, label, ..ProgramSource::new(key, source, interface) })
}

fn request(lua: &Lua, host: &Host, source: ProgramSource) -> Answer {
    let include = |name: &str| host.assets.borrow_mut().include("", name);
    match host.gpu.borrow_mut().compile_with(source, &include) {
        Ok(_) => yes(true),
        Err(Error::Argument { field, given, accepted }) => {
            let field = if field == "name" { field } else { format!("opts.{field}") };
            Err(Refusal::new(field, given, accepted))
        }
        Err(error) => no(lua, error),
    }
}

pub(super) fn register_shader(lua: &Lua, host: &Host, [name, opts, ..]: [Value; 5]) -> Answer {
    if let Some(answer) = from_asset(lua, host, &name, &opts) {
        return answer;
    }
    let key = self::name(&name, "nameOrHandle")?;
    let opts = table(&opts, "opts", "a table { source, entryPoint?, bindings?, readOnlyBindings? }")?;
    let count = field(opts, "bindings")?;
    let bindings = if count.is_nil() { None } else { Some(whole(&count, "opts.bindings", 0, 1024)? as u32) };
    let list = field(opts, "readOnlyBindings")?;
    let read_only = if list.is_nil() {
        None
    } else {
        Some(read_only(table(&list, "opts.readOnlyBindings", "an array of binding numbers")?)?)
    };
    let source = source_of(opts, &key, Interface::Reflected { bindings, read_only, kinds: None })?;
    request(lua, host, source)
}

fn read_only(list: &Table) -> Result<Vec<u32>, Refusal> {
    let mut numbers = Vec::new();
    no_map(list, "opts.readOnlyBindings", "an array of binding numbers")?;
    for i in 1..=list.raw_len() {
        let value: Value = list.raw_get(i)?;
        // Whether the number is one of the declared bindings is for the source to say.
        match number(&value) {
            Some(n) if n >= 0.0 && n.fract() == 0.0 => numbers.push(n as u32),
            _ => {
                let accepted = "the number of a binding, from 0";
                return Err(Refusal::value(format_args!("opts.readOnlyBindings[{i}]"), &value, accepted));
            }
        }
    }
    Ok(numbers)
}

pub(super) fn compile(lua: &Lua, host: &Host, [name, opts, ..]: [Value; 5]) -> Answer {
    if let Some(answer) = from_asset(lua, host, &name, &opts) {
        return answer;
    }
    let key = self::name(&name, "nameOrHandle")?;
    let opts = table(&opts, "opts", "a table { source, entryPoint?, bindings, params? }")?;
    let bindings = each(opts, "bindings", BINDING_FIELDS, binding)?;
    let params = each(opts, "params", PARAM_FIELDS, param)?;
    let source = source_of(opts, &key, Interface::Declared { bindings, params })?;
    request(lua, host, source)
}

/// The entries of an optional list, each with its path. A field that is none of `known` is warned of: it may be
/// somebody's note, and it may be a mistyped name.
fn each<T>(
    opts: &Table,
    name: &str,
    known: &[&str],
    read: fn(&Table, &str) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let value = field(opts, name)?;
    if value.is_nil() {
        return Ok(Vec::new());
    }
    let list = table(&value, format_args!("opts.{name}"), "an array of tables")?;
    no_map(list, format_args!("opts.{name}"), "an array of tables")?;
    let mut out = Vec::new();
    for i in 1..=list.raw_len() {
        let path = format!("opts.{name}[{i}]");
        let entry: Value = list.raw_get(i)?;
        let entry = table(&entry, &path, "a table")?;
        for pair in entry.pairs::<Value, Value>() {
            if let (Value::String(key), _) = pair?
                && !known.iter().any(|k| key == *k)
            {
                tracing::warn!("{path}.{}: not looked at; known are {}", key.to_string_lossy(), known.join(", "));
            }
        }
        out.push(read(entry, &path)?);
    }
    Ok(out)
}

/// Refuses a table with nothing but named fields where a list is wanted: it would read as an empty list.
fn no_map(list: &Table, path: impl std::fmt::Display, accepted: &str) -> Result<(), Refusal> {
    if list.raw_len() == 0
        && let Some(pair) = list.pairs::<Value, Value>().next()
    {
        let (key, _) = pair?;
        return Err(Refusal::new(path, format_args!("a table with the field {}", describe(&key)), accepted));
    }
    Ok(())
}

const BINDING_FIELDS: &[&str] = &["name", "kind", "access", "element", "format", "array", "label"];
const PARAM_FIELDS: &[&str] = &["name", "type", "default", "label"];
const EXPECTED_FIELDS: &[&str] = &["name", "kind", "format", "readOnly", "label"];

fn format_of(value: &Value, path: impl std::fmt::Display) -> Result<Option<Format>, Refusal> {
    let accepted = || format!("one of {}", Format::NAMES.join(", "));
    match value {
        Value::Nil => Ok(None),
        Value::String(s) => match Format::from_name(&s.to_string_lossy()) {
            Some(format) => Ok(Some(format)),
            None => Err(Refusal::value(path, value, accepted())),
        },
        other => Err(Refusal::value(path, other, accepted())),
    }
}

/// A binding kind by one of its two names.
fn kind_of(
    value: &Value,
    path: impl std::fmt::Display,
    name: fn(BindingKind) -> &'static str,
) -> Result<BindingKind, Refusal> {
    let known = || BindingKind::ALL.iter().copied().filter(|k| !name(*k).is_empty());
    let found = match value {
        Value::String(s) => known().find(|k| name(*k) == s.to_string_lossy()),
        _ => None,
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = known().map(name).collect();
        Refusal::value(path, value, format_args!("one of {}", names.join(", ")))
    })
}

fn binding(entry: &Table, path: &str) -> Result<BindingDecl, Refusal> {
    let name = string(&field_or(entry, "name", 1)?, format_args!("{path}.name"), "a WGSL identifier (string)")?;
    let kind = kind_of(&field_or(entry, "kind", 2)?, format_args!("{path}.kind"), BindingKind::declared_name)?;
    let access = field(entry, "access")?;
    let access = match access.is_nil() {
        true => kind.default_access(),
        false => {
            let accepted = format!("one of {}", DeclaredAccess::NAMES.join(", "));
            let name = string(&access, format_args!("{path}.access"), &accepted)?;
            DeclaredAccess::from_name(&name)
                .ok_or_else(|| Refusal::value(format_args!("{path}.access"), &access, accepted))?
        }
    };
    let element = field(entry, "element")?;
    let element = match element.is_nil() {
        true => "f32".to_owned(),
        false => string(&element, format_args!("{path}.element"), "a WGSL type (string)")?,
    };
    let format = format_of(&field(entry, "format")?, format_args!("{path}.format"))?.unwrap_or(Format::Rgba16f);
    let array = field(entry, "array")?;
    let array = match array.is_nil() {
        true => None,
        false => Some(whole(&array, format_args!("{path}.array"), 1, u64::from(MOST_IN_ARRAY))? as u32),
    };
    Ok(BindingDecl { name, kind, access, element, format, array })
}

/// One entry of a registered shader's `bindings`: what the source is expected to declare there.
fn expected(entry: &Table, path: &str) -> Result<(BindingKind, Option<Format>), Refusal> {
    let kind = kind_of(&field_or(entry, "kind", 1)?, format_args!("{path}.kind"), BindingKind::registered_name)?;
    Ok((kind, format_of(&field(entry, "format")?, format_args!("{path}.format"))?))
}

/// Bindings whose entry says `readOnly`.
fn marked_read_only(opts: &Table) -> Result<Vec<u32>, Refusal> {
    let marks = each(opts, "bindings", EXPECTED_FIELDS, |entry, path| {
        boolean_or(&field(entry, "readOnly")?, format_args!("{path}.readOnly"), false)
    })?;
    Ok((0..).zip(marks).filter_map(|(i, marked)| marked.then_some(i)).collect())
}

pub(super) fn register_shader_ex(lua: &Lua, host: &Host, [name, opts, ..]: [Value; 5]) -> Answer {
    if let Some(answer) = from_asset(lua, host, &name, &opts) {
        return answer;
    }
    let key = self::name(&name, "nameOrHandle")?;
    let opts = table(&opts, "opts", "a table { source, entry?, bindings? }")?;
    let (kinds, read_only) = match field(opts, "bindings")?.is_nil() {
        true => (None, None),
        false => (Some(each(opts, "bindings", EXPECTED_FIELDS, expected)?), Some(marked_read_only(opts)?)),
    };
    let source = source_of(opts, &key, Interface::Reflected { bindings: None, read_only, kinds })?;
    request(lua, host, source)
}

fn param(entry: &Table, path: &str) -> Result<ParamDecl, Refusal> {
    let name = string(&field_or(entry, "name", 1)?, format_args!("{path}.name"), "a WGSL identifier (string)")?;
    let ty = field_or(entry, "type", 2)?;
    let accepted = ParamType::NAMES.join(", ");
    let ty = match &ty {
        Value::Nil => ParamType::F32,
        Value::String(s) => ParamType::from_name(&s.to_string_lossy())
            .ok_or_else(|| Refusal::value(format_args!("{path}.type"), &ty, format_args!("one of {accepted}")))?,
        other => return Err(Refusal::value(format_args!("{path}.type"), other, format_args!("one of {accepted}"))),
    };
    let mut default = [0.0; 16];
    let value = field_or(entry, "default", 3)?;
    let count = ty.components();
    match &value {
        Value::Nil => {}
        Value::Boolean(b) if count == 1 => default[0] = f64::from(u8::from(*b)),
        Value::Table(list) if count > 1 => {
            if list.raw_len() != count {
                return Err(Refusal::new(
                    format_args!("{path}.default"),
                    format_args!("{} numbers", list.raw_len()),
                    format_args!("{count} numbers"),
                ));
            }
            for (i, slot) in default.iter_mut().enumerate().take(count) {
                let item: Value = list.raw_get(i + 1)?;
                *slot = number(&item)
                    .ok_or_else(|| Refusal::value(format_args!("{path}.default[{}]", i + 1), &item, "a number"))?;
            }
        }
        other if count > 1 => {
            return Err(Refusal::value(format_args!("{path}.default"), other, format_args!("{count} numbers")));
        }
        other => {
            default[0] =
                number(other).ok_or_else(|| Refusal::value(format_args!("{path}.default"), other, "a number"))?;
        }
    }
    Ok(ParamDecl { name, ty, default })
}

pub(super) fn destroy(_: &Lua, host: &Host, [name, ..]: [Value; 5]) -> Answer {
    let key = key(host, &name, "name")?;
    let mut gpu = host.gpu.borrow_mut();
    match gpu.find_program(&key) {
        Some(id) => yes(gpu.destroy_program(id).is_ok()),
        None => yes(false),
    }
}

pub(super) fn set_param(lua: &Lua, host: &Host, [name, prop, value, ..]: [Value; 5]) -> Answer {
    let key = key(host, &name, "name")?;
    let prop = string(&prop, "prop", "a parameter name (string)")?;
    let given = match &value {
        Value::Boolean(b) => f64::from(u8::from(*b)),
        other => number(other).ok_or_else(|| Refusal::value("value", other, "a number"))?,
    };
    let (field, component) = component_of(&prop);
    let mut gpu = host.gpu.borrow_mut();
    match gpu.find_program(&key) {
        // Kept for the first compile: a program is often tuned before its asset has loaded.
        None if gpu.set_early_param(&key, field, component, given) => yes(true),
        None => no(
            lua,
            format_args!(
                "no program is registered as \"{}\", and too many parameters wait for programs that never came",
                &*key
            ),
        ),
        Some(id) => {
            if gpu.set_param(id, field, component, given)? {
                return yes(true);
            }
            let (key, value) = (&*key, describe(&value));
            let reason = format!("program \"{key}\" declares no parameter \"{prop}\" (value {value})");
            tracing::warn!("setParam: {reason}");
            no(lua, reason)
        }
    }
}

/// The name and the component in it, spelled as WGSL does: `color` and `color.x` are component 0 of `color`, `color.y`
/// and `color[1]` component 1, `view[2].y` and `view[2][1]` row 1 of column 2, component 9.
fn component_of(prop: &str) -> (&str, usize) {
    let last = |text: &'_ str| -> Option<(usize, usize)> {
        if let Some(index) = text.strip_suffix(']') {
            let (name, digit) = index.rsplit_once('[')?;
            return Some((name.len(), digit.parse().ok().filter(|c| *c < 4)?));
        }
        let (name, letter) = text.rsplit_once('.')?;
        let component = ["xr", "yg", "zb", "wa"].iter().position(|l| letter.len() == 1 && l.contains(letter))?;
        Some((name.len(), component))
    };
    let Some((end, row)) = last(prop) else { return (prop, 0) };
    match prop[..end].strip_suffix(']').and_then(|_| last(&prop[..end])) {
        Some((start, column)) => (&prop[..start], 4 * column + row),
        None => (&prop[..end], row),
    }
}

pub(super) fn state(lua: &Lua, host: &Host, [name, ..]: [Value; 5]) -> Answer {
    let key = key(host, &name, "ref")?;
    let gpu = host.gpu.borrow();
    let (state, reason) = match gpu.find_program(&key) {
        Some(id) => gpu.program_state(id),
        None => (crate::registry::ProgramState::Absent, None),
    };
    let text = |s: &str| lua.create_string(s).map(Value::String);
    Ok((text(state.name())?, reason.map_or(Ok(Value::Nil), text)?))
}

pub(super) fn failing(lua: &Lua, host: &Host, _: [Value; 5]) -> Answer {
    let rows = host.gpu.borrow().failing();
    Ok((Value::Table(records(lua, rows)?), Value::Nil))
}

pub(super) fn status(lua: &Lua, host: &Host, [name, ..]: [Value; 5]) -> Answer {
    let key = key(host, &name, "key")?;
    let rows = host.gpu.borrow().status(&key);
    Ok((Value::Table(records(lua, rows)?), Value::Nil))
}

fn records(lua: &Lua, rows: Vec<DispatchRecord>) -> mlua::Result<Table> {
    let mut list = Vec::with_capacity(rows.len());
    for row in rows {
        let t = lua.create_table()?;
        t.raw_set("shader", row.shader)?;
        t.raw_set("target", row.target)?;
        t.raw_set("dispatches", row.dispatches as f64)?;
        t.raw_set("failures", row.failures as f64)?;
        t.raw_set("ok", row.ok)?;
        t.raw_set("lastFrame", row.last_frame as f64)?;
        t.raw_set("lastFailedFrame", row.last_failed_frame.map(|f| f as f64))?;
        t.raw_set("lastError", row.last_error)?;
        list.push(t);
    }
    lua.create_sequence_from(list)
}

#[cfg(test)]
mod tests {
    use super::component_of;

    #[test]
    fn components_are_spelled_as_in_wgsl() {
        let cases = [
            ("color", ("color", 0)),
            ("color.x", ("color", 0)),
            ("color.a", ("color", 3)),
            ("color[2]", ("color", 2)),
            ("view[2].y", ("view", 9)),
            ("view[3][3]", ("view", 15)),
            ("view[4]", ("view[4]", 0)),
            ("a.xy", ("a.xy", 0)),
            ("a.q", ("a.q", 0)),
            ("a.", ("a.", 0)),
            ("[1]", ("", 1)),
            ("]", ("]", 0)),
            ("", ("", 0)),
        ];
        for (prop, expected) in cases {
            assert_eq!(component_of(prop), expected, "{prop}");
        }
    }
}
