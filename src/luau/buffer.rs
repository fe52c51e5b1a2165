//! `Buffer`: float buffers on the host that can be promoted to the device.

use super::Host;
use super::args::{Refusal, field, number, string, table, whole};
use super::compute::{key_of, key_value, no, yes};
use super::register::{Answer, Entry};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::readback::ReadState;
use crate::registry::{BufferDesc, BufferId};
use mlua::{Lua, Value};
use std::collections::BTreeMap;

pub(super) const ENTRIES: &[Entry] = &[
    Entry { name: "create", arity: 2, body: create },
    Entry { name: "destroy", arity: 1, body: destroy },
    Entry { name: "size", arity: 1, body: size },
    Entry { name: "read", arity: 3, body: read },
    Entry { name: "write", arity: 3, body: write },
    Entry { name: "zero", arity: 1, body: zero },
    Entry { name: "copy", arity: 2, body: copy },
    Entry { name: "uploadAsStorage", arity: 2, body: upload_as_storage },
    Entry { name: "syncToGpu", arity: 1, body: sync_to_gpu },
    Entry { name: "syncFromGpu", arity: 1, body: sync_from_gpu },
    Entry { name: "isReadbackReady", arity: 1, body: is_readback_ready },
    Entry { name: "completeReadback", arity: 2, body: complete_readback },
    Entry { name: "gpuName", arity: 1, body: gpu_name },
    Entry { name: "unregisterStorage", arity: 1, body: unregister_storage },
];

/// Floats in one buffer at most: 4 GiB of them, past what a binding can hold on any driver.
const MOST: u64 = 1 << 30;

/// One host buffer.
struct FloatBuffer {
    stride: u64,
    count: u64,
    data: Vec<f32>,
    /// The device buffer it was promoted to. Stale once somebody destroys or replaces that by name.
    promoted: Option<BufferId>,
}

/// The host buffers by handle. Handles are never reused.
#[derive(Default)]
pub(crate) struct FloatBuffers {
    list: BTreeMap<u64, FloatBuffer>,
    last: u64,
}

/// The handle in a value; a number that names nothing is for the caller to answer, anything else is refused.
fn handle(value: &Value, field: &str) -> Result<u64, Refusal> {
    let n =
        number(value).ok_or_else(|| Refusal::value(field, value, "a handle that Buffer.create returned (number)"))?;
    // Handles are small positive whole numbers; 0 is none of them.
    Ok(if n.fract() == 0.0 && n > 0.0 { n as u64 } else { 0 })
}

fn nil() -> Answer {
    Ok((Value::Nil, Value::Nil))
}

fn create(_: &Lua, host: &Host, [first, second, ..]: [Value; 5]) -> Answer {
    let (stride, count, prefix) = match &first {
        Value::Table(t) => (field(t, "stride")?, field(t, "count")?, "opts."),
        _ => (first, second, ""),
    };
    let stride = whole(&stride, format_args!("{prefix}stride"), 1, MOST)?;
    let count = whole(&count, format_args!("{prefix}count"), 1, MOST)?;
    let floats = stride * count;
    if floats > MOST {
        return Err(Refusal::new(
            format_args!("{prefix}stride * {prefix}count"),
            format_args!("{floats} floats"),
            format_args!("at most {MOST} floats"),
        ));
    }
    let mut data = Vec::new();
    if data.try_reserve_exact(floats as usize).is_err() {
        return Err(Refusal::text(format!("out of memory: {} bytes", floats * 4)));
    }
    data.resize(floats as usize, 0.0);
    let mut buffers = host.floats.borrow_mut();
    buffers.last += 1;
    let id = buffers.last;
    buffers.list.insert(id, FloatBuffer { stride, count, data, promoted: None });
    Ok((Value::Number(id as f64), Value::Nil))
}

fn destroy(_: &Lua, host: &Host, [buffer, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    match host.floats.borrow_mut().list.remove(&id) {
        Some(gone) => {
            release(&mut host.gpu.borrow_mut(), gone.promoted);
            yes(true)
        }
        None => yes(false),
    }
}

/// Destroys a promoted buffer unless somebody has already. Whether it was there.
fn release(gpu: &mut Gpu, promoted: Option<BufferId>) -> bool {
    promoted.is_some_and(|id| gpu.destroy_buffer(id).is_ok())
}

fn size(_: &Lua, host: &Host, [buffer, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    match host.floats.borrow().list.get(&id) {
        Some(b) => Ok((Value::Number(b.stride as f64), Value::Number(b.count as f64))),
        None => nil(),
    }
}

/// A range of floats, or `None` when it is not inside the buffer.
fn range(buffer: &FloatBuffer, offset: f64, count: f64) -> Option<std::ops::Range<usize>> {
    let whole = |n: f64| n >= 0.0 && n.fract() == 0.0 && n <= buffer.data.len() as f64;
    if !whole(offset) || !whole(count) {
        return None;
    }
    let (start, end) = (offset as usize, offset as usize + count as usize);
    (end <= buffer.data.len()).then_some(start..end)
}

fn float(value: &Value, field: &str) -> Result<f64, Refusal> {
    number(value).ok_or_else(|| Refusal::value(field, value, "a number of floats"))
}

fn read(lua: &Lua, host: &Host, [buffer, offset, len, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    let (offset, len) = (float(&offset, "offset")?, float(&len, "len")?);
    let buffers = host.floats.borrow();
    let Some(found) = buffers.list.get(&id) else { return nil() };
    let Some(range) = range(found, offset, len) else { return nil() };
    let list = lua.create_sequence_from(found.data[range].iter().map(|f| f64::from(*f)))?;
    Ok((Value::Table(list), Value::Nil))
}

fn write(lua: &Lua, host: &Host, [buffer, offset, values, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    let offset = float(&offset, "offset")?;
    let list = table(&values, "values", "an array of numbers")?;
    // Read out before anything changes: a bad value leaves the buffer as it was.
    let mut floats = Vec::with_capacity(list.raw_len());
    for i in 1..=list.raw_len() {
        let value: Value = list.raw_get(i)?;
        floats.push(number(&value).ok_or_else(|| Refusal::value(format_args!("values[{i}]"), &value, "a number"))? as f32);
    }
    let mut buffers = host.floats.borrow_mut();
    let Some(found) = buffers.list.get_mut(&id) else { return no(lua, unknown(id)) };
    match range(found, offset, floats.len() as f64) {
        Some(range) => {
            found.data[range].copy_from_slice(&floats);
            yes(true)
        }
        None => no(
            lua,
            format_args!(
                "{} floats at offset {offset} do not lie inside the buffer's {}",
                floats.len(),
                found.data.len()
            ),
        ),
    }
}

fn unknown(id: u64) -> Error {
    Error::Unknown { kind: "Buffer handle", name: id.to_string() }
}

fn zero(lua: &Lua, host: &Host, [buffer, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    match host.floats.borrow_mut().list.get_mut(&id) {
        Some(found) => {
            found.data.fill(0.0);
            yes(true)
        }
        None => no(lua, unknown(id)),
    }
}

fn copy(lua: &Lua, host: &Host, [to, from, ..]: [Value; 5]) -> Answer {
    let (to, from) = (handle(&to, "dstHandle")?, handle(&from, "srcHandle")?);
    let mut buffers = host.floats.borrow_mut();
    let Some(source) = buffers.list.get(&from) else { return no(lua, unknown(from)) };
    let (stride, data) = (source.stride, source.data.clone());
    let Some(target) = buffers.list.get_mut(&to) else { return no(lua, unknown(to)) };
    if target.stride != stride {
        return no(lua, format_args!("the strides differ: {} and {stride}", target.stride));
    }
    if target.data.len() < data.len() {
        return no(lua, format_args!("{} floats do not fit into {}", data.len(), target.data.len()));
    }
    target.data[..data.len()].copy_from_slice(&data);
    yes(true)
}

fn upload_as_storage(lua: &Lua, host: &Host, [buffer, name, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    let name = if name.is_nil() { format!("Buffer:{id}") } else { string(&name, "name", "a buffer name (string)")? };
    let mut buffers = host.floats.borrow_mut();
    let Some(found) = buffers.list.get_mut(&id) else {
        return Ok((Value::Nil, Value::String(lua.create_string(unknown(id).to_string())?)));
    };
    let mut gpu = host.gpu.borrow_mut();
    release(&mut gpu, found.promoted.take());
    let bytes: &[u8] = bytemuck::cast_slice(&found.data);
    let made = gpu.create_buffer(&name, BufferDesc::new(bytes.len() as u64)).and_then(|gpu_id| {
        gpu.write_buffer(gpu_id, 0, bytes)?;
        Ok(gpu_id)
    });
    match made {
        Ok(gpu_id) => {
            found.promoted = Some(gpu_id);
            Ok((Value::String(lua.create_string(name)?), Value::Nil))
        }
        Err(error @ Error::Argument { .. }) => Err(error.into()),
        Err(error) => Ok((Value::Nil, Value::String(lua.create_string(error.to_string())?))),
    }
}

fn sync_to_gpu(lua: &Lua, host: &Host, [buffer, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    let buffers = host.floats.borrow();
    let Some(found) = buffers.list.get(&id) else { return no(lua, unknown(id)) };
    let Some(promoted) = found.promoted else { return no(lua, NOT_PROMOTED) };
    match host.gpu.borrow_mut().write_buffer(promoted, 0, bytemuck::cast_slice(&found.data)) {
        Ok(()) => yes(true),
        Err(Error::Stale { .. }) => no(lua, GONE),
        Err(error) => no(lua, error),
    }
}

const GONE: &str = "its device buffer was destroyed or replaced: uploadAsStorage promotes it again";
const NOT_PROMOTED: &str = "the buffer is not on the device: uploadAsStorage promotes it";

fn sync_from_gpu(lua: &Lua, host: &Host, [buffer, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    let buffers = host.floats.borrow();
    let reason = |text: String| Ok((Value::Nil, Value::String(lua.create_string(text)?)));
    let Some(found) = buffers.list.get(&id) else { return reason(unknown(id).to_string()) };
    let Some(promoted) = found.promoted else { return reason(NOT_PROMOTED.to_owned()) };
    match host.gpu.borrow_mut().read_buffer(promoted) {
        Ok(key) => Ok((key_value(lua, key)?, Value::Nil)),
        Err(Error::Stale { .. }) => reason(GONE.to_owned()),
        Err(error) => reason(error.to_string()),
    }
}

fn is_readback_ready(_: &Lua, host: &Host, [token, ..]: [Value; 5]) -> Answer {
    yes(host.gpu.borrow_mut().read_state(key_of(&token)) == ReadState::Ready)
}

fn complete_readback(lua: &Lua, host: &Host, [token, buffer, ..]: [Value; 5]) -> Answer {
    let key = key_of(&token);
    let id = handle(&buffer, "handle")?;
    let mut buffers = host.floats.borrow_mut();
    let mut gpu = host.gpu.borrow_mut();
    // Everything that can be refused is looked at before the token is spent.
    let Some(found) = buffers.list.get_mut(&id) else { return no(lua, unknown(id)) };
    match gpu.read_state(key) {
        ReadState::Ready => {}
        ReadState::Pending => return no(lua, "the readback is not ready"),
        ReadState::Unknown => return no(lua, "the token names no readback, or was used already"),
    }
    let bytes = gpu.read_size(key).unwrap_or(0);
    let capacity = found.data.len() as u64 * 4;
    if bytes != capacity {
        return no(lua, format_args!("the readback has {bytes} bytes, the buffer {capacity}"));
    }
    let taken = gpu.take_read(key, |bytes| {
        let (words, _) = bytes.as_chunks::<4>();
        for (to, from) in found.data.iter_mut().zip(words) {
            *to = f32::from_le_bytes(*from);
        }
    });
    match taken {
        Ok(taken) => yes(taken.is_some()),
        Err(error) => no(lua, error),
    }
}

fn gpu_name(lua: &Lua, host: &Host, [buffer, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    let buffers = host.floats.borrow();
    let gpu = host.gpu.borrow();
    match buffers.list.get(&id).and_then(|b| b.promoted).and_then(|p| gpu.buffer_name(p)) {
        Some(name) => Ok((Value::String(lua.create_string(name)?), Value::Nil)),
        None => nil(),
    }
}

fn unregister_storage(lua: &Lua, host: &Host, [buffer, ..]: [Value; 5]) -> Answer {
    let id = handle(&buffer, "handle")?;
    let mut buffers = host.floats.borrow_mut();
    let Some(found) = buffers.list.get_mut(&id) else { return no(lua, unknown(id)) };
    let promoted = found.promoted.take();
    yes(release(&mut host.gpu.borrow_mut(), promoted))
}
