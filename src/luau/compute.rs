//! `compute`: buffers, readbacks, dispatches.

use super::Host;
use super::args::{MAX_EXACT, Payload, Refusal, Word, field, rename, string, table, text, whole, whole_or};
use super::program;
use super::register::{Answer, Entry};
use super::texture::{Item, Kind, Name, Named, resolve};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::readback::{ReadKey, ReadState, key_text, parse_key};
use mlua::{BorrowedStr, Lua, Table, Value};
use smallvec::SmallVec;

pub(super) const ENTRIES: &[Entry] = &[
    Entry { name: "createBuffer", arity: 2, body: create_buffer },
    Entry { name: "destroyBuffer", arity: 1, body: destroy_buffer },
    Entry { name: "writeBuffer", arity: 3, body: |lua, host, a| write(lua, host, a, &WRITE_FLOATS) },
    Entry { name: "writeBufferU32", arity: 3, body: |lua, host, a| write(lua, host, a, &WRITE_WORDS) },
    Entry { name: "writeBufferBytes", arity: 3, body: |lua, host, a| write(lua, host, a, &WRITE_BYTES) },
    Entry { name: "readBuffer", arity: 1, body: read_buffer },
    Entry { name: "readbackState", arity: 1, body: readback_state },
    Entry { name: "isReadbackReady", arity: 1, body: is_readback_ready },
    Entry { name: "getReadbackResult", arity: 1, body: |lua, host, a| take(lua, host, a, floats) },
    Entry { name: "getReadbackResultU32", arity: 1, body: |lua, host, a| take(lua, host, a, words) },
    Entry { name: "getReadbackResultBytes", arity: 1, body: |lua, host, a| take(lua, host, a, bytes) },
    Entry { name: "registerShader", arity: 2, body: program::register_shader },
    Entry { name: "compile", arity: 2, body: program::compile },
    Entry { name: "registerShaderEx", arity: 2, body: program::register_shader_ex },
    Entry { name: "destroyShaderEx", arity: 1, body: program::destroy },
    Entry { name: "setParam", arity: 3, body: program::set_param },
    Entry { name: "destroyShader", arity: 1, body: program::destroy },
    Entry { name: "programState", arity: 1, body: program::state },
    Entry { name: "failing", arity: 0, body: program::failing },
    Entry { name: "dispatch", arity: 2, body: dispatch },
    Entry { name: "dispatchOnVertices", arity: 2, body: super::mesh::dispatch_on_vertices },
    Entry { name: "compileByName", arity: 1, body: super::asset::compile_by_name },
];

pub(super) const NAME: &str = "a buffer name (string) or handle";

/// The key of a buffer: its name, or what its handle carries.
pub(super) fn buffer_key(value: &Value, field: impl std::fmt::Display, accepted: &str) -> Result<BorrowedStr, Refusal> {
    match value {
        Value::Table(handle) => match handle.raw_get::<Value>("key")? {
            key @ Value::String(_) => text(&key, field, accepted),
            _ => Err(Refusal::value(field, value, accepted)),
        },
        other => text(other, field, accepted),
    }
}

pub(super) fn yes(value: bool) -> Answer {
    Ok((Value::Boolean(value), Value::Nil))
}

/// `false` and why: for what is no mistake of the script but a state of the world it may ask about.
pub(super) fn no(lua: &Lua, reason: impl std::fmt::Display) -> Answer {
    Ok((Value::Boolean(false), Value::String(lua.create_string(reason.to_string())?)))
}

fn no_buffer(name: &str) -> Error {
    Error::Unknown { kind: "buffer", name: name.to_owned() }
}

fn create_buffer(lua: &Lua, host: &Host, [name, opts, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", NAME)?;
    let desc = super::inspect::buffer_desc(&opts)?;
    match host.gpu.borrow_mut().create_buffer(&name, desc) {
        Ok(_) => yes(true),
        Err(error @ Error::Argument { .. }) => {
            let prefix = if matches!(&error, Error::Argument { field, .. } if field == "size") { "opts." } else { "" };
            Err(rename(error, prefix))
        }
        Err(error) => no(lua, error),
    }
}

pub(super) fn destroy_buffer(_: &Lua, host: &Host, [name, ..]: [Value; 5]) -> Answer {
    let name = buffer_key(&name, "name", NAME)?;
    let mut gpu = host.gpu.borrow_mut();
    match gpu.find_buffer(&name) {
        Some(id) => yes(gpu.destroy_buffer(id).is_ok()),
        None => yes(false),
    }
}

/// What sets the three write functions apart.
struct Write {
    data: &'static str,
    offset: &'static str,
    /// Bytes of one unit of the offset.
    unit: u64,
    word: Word,
    numbers: bool,
}

const WRITE_FLOATS: Write = Write { data: "values", offset: "offset", unit: 4, word: Word::F32, numbers: true };
const WRITE_WORDS: Write = Write { data: "values", offset: "offsetBytes", unit: 1, word: Word::U32, numbers: true };
const WRITE_BYTES: Write = Write { data: "bytes", offset: "offsetBytes", unit: 1, word: Word::U32, numbers: false };

fn write(lua: &Lua, host: &Host, [name, data, offset, ..]: [Value; 5], form: &Write) -> Answer {
    let name = buffer_key(&name, "name", NAME)?;
    let payload = Payload::new(&data, form.data, form.numbers)?;
    // Within 2^53 before the unit is applied, so the product cannot overflow.
    let offset = whole_or(&offset, form.offset, 0)? * form.unit;
    let mut gpu = host.gpu.borrow_mut();
    let Some(id) = gpu.find_buffer(&name) else { return no(lua, no_buffer(&name)) };
    let size = payload.bytes();
    let written =
        gpu.write_buffer_with(id, offset, size, |to| payload.write(to, form.word, form.data).map_err(Written::Refused));
    match written {
        Ok(()) => yes(true),
        Err(Written::Refused(refusal)) => Err(refusal),
        Err(Written::Failed(Error::Argument { field, given, accepted })) => {
            let field = if field == "offset" { form.offset } else { form.data };
            Err(Refusal::new(field, given, accepted))
        }
        Err(Written::Failed(error)) => no(lua, error),
    }
}

/// Where a write went wrong: in what the script gave, or behind it.
pub(super) enum Written {
    Refused(Refusal),
    Failed(Error),
}

impl From<Error> for Written {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn read_buffer(lua: &Lua, host: &Host, [name, ..]: [Value; 5]) -> Answer {
    let name = buffer_key(&name, "name", NAME)?;
    let mut gpu = host.gpu.borrow_mut();
    let started = match gpu.find_buffer(&name) {
        Some(id) => gpu.read_buffer(id),
        None => Err(no_buffer(&name)),
    };
    match started {
        Ok(key) => Ok((key_value(lua, key)?, Value::Nil)),
        // The empty key is the answer; the reason beside it costs a caller nothing.
        Err(error) => Ok((key_value(lua, ReadKey::default())?, Value::String(lua.create_string(error.to_string())?))),
    }
}

pub(super) fn key_value(lua: &Lua, key: ReadKey) -> mlua::Result<Value> {
    Ok(Value::String(lua.create_string(key_text(key))?))
}

/// The key in a script value; anything but a key's text is the empty key.
pub(super) fn key_of(value: &Value) -> ReadKey {
    match value {
        Value::String(s) => parse_key(&s.as_bytes()),
        _ => ReadKey::default(),
    }
}

fn readback_state(lua: &Lua, host: &Host, [key, ..]: [Value; 5]) -> Answer {
    let state = host.gpu.borrow_mut().read_state(key_of(&key));
    Ok((Value::String(lua.create_string(state.name())?), Value::Nil))
}

fn unknown_key(key: &Value) -> Refusal {
    Refusal::value(
        "resultKey",
        key,
        "a key that readBuffer() returned and that was not drained yet (readbackState() tells without raising)",
    )
}

fn is_readback_ready(_: &Lua, host: &Host, [key, ..]: [Value; 5]) -> Answer {
    match host.gpu.borrow_mut().read_state(key_of(&key)) {
        ReadState::Ready => yes(true),
        ReadState::Pending => yes(false),
        ReadState::Unknown => Err(unknown_key(&key)),
    }
}

fn take(lua: &Lua, host: &Host, [key, ..]: [Value; 5], convert: fn(&Lua, &[u8]) -> mlua::Result<Value>) -> Answer {
    let mut gpu = host.gpu.borrow_mut();
    let id = key_of(&key);
    if gpu.read_state(id) == ReadState::Unknown {
        return Err(unknown_key(&key));
    }
    match gpu.take_read(id, |bytes| convert(lua, bytes))? {
        None => Ok((Value::Nil, Value::Nil)),
        Some(value) => Ok((value?, Value::Nil)),
    }
}

fn floats(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    each_word(lua, bytes, |word| f64::from(f32::from_le_bytes(word)))
}

fn words(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    each_word(lua, bytes, |word| f64::from(u32::from_le_bytes(word)))
}

/// One number a word. Texels of one or two bytes may end inside a word, which zeros then fill.
fn each_word(lua: &Lua, bytes: &[u8], number: fn([u8; 4]) -> f64) -> mlua::Result<Value> {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then_some(last);
    Ok(Value::Table(lua.create_sequence_from(words.iter().copied().chain(last).map(number))?))
}

fn bytes(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    Ok(Value::Buffer(lua.create_buffer(bytes)?))
}

// ---- dispatch ----

pub(super) fn dispatch(_: &Lua, host: &Host, [shader, opts, ..]: [Value; 5]) -> Answer {
    let shader = program::name(&shader, "shaderNameOrHandle")?;
    let opts = table(&opts, "opts", "a table { buffers, workgroups }")?;
    // No name is copied on this path: Luau's own strings are looked up.
    let buffers = field(opts, "buffers")?;
    let list = if buffers.is_nil() { None } else { Some(table(&buffers, "opts.buffers", "an array of buffer names")?) };
    let mut named = Named::new();
    for i in 1..=list.map_or(0, Table::raw_len) {
        let value: Value = list.map_or(Ok(Value::Nil), |l| l.raw_get(i))?;
        let name = Name::Script(buffer_key(&value, format_args!("opts.buffers[{i}]"), NAME)?);
        named.push(Item { kind: Kind::Buffer, name, entry: i as u32, element: 0 });
    }
    run(host, &shader, ("buffers", &named), opts)
}

/// Dispatches what the list of that name in `opts` names.
pub(super) fn run(host: &Host, shader: &str, named: (&str, &Named), opts: &Table) -> Answer {
    let groups = workgroups(opts)?;
    let mut gpu = host.gpu.borrow_mut();
    // What a dispatch lacks is a recorded failure, not a raised one: its program may be pending and its buffers may
    // have been destroyed by somebody else, and neither is this line's mistake.
    if let Err(error) = resolve_and_dispatch(host, &mut gpu, shader, named, groups) {
        tracing::debug!("dispatch of \"{shader}\" refused: {error}");
    }
    yes(true)
}

fn resolve_and_dispatch(
    host: &Host,
    gpu: &mut Gpu,
    shader: &str,
    named: (&str, &Named),
    groups: [u32; 3],
) -> Result<(), Error> {
    let binds = resolve(gpu, named);
    // A name that no program has may be an asset's; the first dispatch asks for its program.
    let program = gpu.find_program(shader).or_else(|| host.asset_program(gpu, shader));
    let error = match (program, binds) {
        (Some(program), Ok(binds)) => return gpu.dispatch_with(program, &binds, groups),
        (None, _) => Error::Unknown { kind: "program", name: shader.to_owned() },
        (_, Err(error)) => error,
    };
    let names: SmallVec<[&str; 8]> = named.1.iter().map(|item| &*item.name).collect();
    let key = program.and_then(|p| gpu.program_key(p)).unwrap_or(shader).to_owned();
    gpu.dispatch_failed(&key, &names, &error);
    Err(error)
}

/// `{ x, y?, z? }`; what is left out is 1. Zero and over-limit counts are the device's to judge.
pub(super) fn workgroups(opts: &Table) -> Result<[u32; 3], Refusal> {
    let value = field(opts, "workgroups")?;
    let list = table(&value, "opts.workgroups", "an array of one to three workgroup counts")?;
    let mut groups = [1; 3];
    let count = list.raw_len();
    if count == 0 || count > 3 {
        return Err(Refusal::new("opts.workgroups", format_args!("{count} entries"), "one to three workgroup counts"));
    }
    for (i, group) in groups.iter_mut().enumerate().take(count) {
        let value: Value = list.raw_get(i + 1)?;
        let n = whole(&value, format_args!("opts.workgroups[{}]", i + 1), 0, MAX_EXACT)?;
        // Any count past u32 is past every device's limit and is refused as one.
        *group = u32::try_from(n).unwrap_or(u32::MAX);
    }
    Ok(groups)
}
