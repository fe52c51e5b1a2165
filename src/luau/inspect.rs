//! `compute.observe` and its kin, `renderer`, `substrate`, and the buffer handles that the last gives out.

use super::Host;
use super::args::{Refusal, boolean_or, field, number, string, table};
use super::compute::no;
use super::register::{Answer, Entry};
use crate::error::Error;
use crate::inspect::{Presence, ResourceKind, ResourceRow};
use crate::registry::BufferDesc;
use mlua::{Lua, Table, Value};

pub(super) const ENTRIES: &[Entry] = &[
    Entry { name: "observe", arity: 0, body: observe },
    Entry { name: "resources", arity: 1, body: resources },
    Entry { name: "diagnose", arity: 1, body: diagnose },
    Entry { name: "absentReasons", arity: 0, body: absent_reasons },
];

pub(super) const RENDERER: &[Entry] = &[Entry { name: "gpuMemory", arity: 0, body: gpu_memory }];

pub(super) const PROFILER: &[Entry] = &[Entry { name: "gpuFrame", arity: 0, body: gpu_frame }];

/// Methods of a buffer's handle.
pub(super) const BUFFER: &[Entry] = &[Entry { name: "destroy", arity: 1, body: super::compute::destroy_buffer }];

pub(super) const SUBSTRATE: &[Entry] = &[Entry { name: "createBuffer", arity: 2, body: create_buffer }];

fn row(lua: &Lua, row: &ResourceRow) -> mlua::Result<Table> {
    let t = lua.create_table()?;
    t.raw_set("key", row.key.as_str())?;
    t.raw_set("kind", row.kind.name())?;
    let owner = lua.create_table()?;
    owner.raw_set("shader", row.owner.shader.as_str())?;
    owner.raw_set("name", row.owner.name.as_str())?;
    owner.raw_set("serial", row.owner.serial as f64)?;
    t.raw_set("owner", owner)?;
    t.raw_set("bytes", row.bytes as f64)?;
    t.raw_set("format", row.format)?;
    if let Some([width, height, depth]) = row.size {
        t.raw_set("width", width)?;
        t.raw_set("height", height)?;
        t.raw_set("depth", depth)?;
    }
    t.raw_set("usage", lua.create_sequence_from(row.usage.iter().copied())?)?;
    t.raw_set("createdFrame", row.created_frame as f64)?;
    Ok(t)
}

fn list<'a>(lua: &Lua, rows: impl Iterator<Item = &'a ResourceRow>) -> mlua::Result<Table> {
    let rows: Vec<Table> = rows.map(|r| row(lua, r)).collect::<mlua::Result<_>>()?;
    lua.create_sequence_from(rows)
}

fn observe(lua: &Lua, host: &Host, _: [Value; 5]) -> Answer {
    let gpu = host.gpu.borrow();
    let inventory = gpu.inventory();
    let t = lua.create_table()?;
    t.raw_set("published", inventory.published())?;
    t.raw_set("generation", inventory.generation() as f64)?;
    t.raw_set("resources", list(lua, inventory.rows().iter())?)?;
    let totals = lua.create_table()?;
    totals.raw_set("count", inventory.rows().len() as f64)?;
    totals.raw_set("bytes", total(inventory.rows()) as f64)?;
    let by_kind = lua.create_table()?;
    for kind in ResourceKind::ALL {
        let of_kind: Vec<&ResourceRow> = inventory.rows().iter().filter(|r| r.kind == *kind).collect();
        if !of_kind.is_empty() {
            let entry = lua.create_table()?;
            entry.raw_set("count", of_kind.len() as f64)?;
            entry.raw_set("bytes", of_kind.iter().map(|r| r.bytes).sum::<u64>() as f64)?;
            by_kind.raw_set(kind.name(), entry)?;
        }
    }
    totals.raw_set("byKind", by_kind)?;
    t.raw_set("totals", totals)?;
    Ok((Value::Table(t), Value::Nil))
}

fn total(rows: &[ResourceRow]) -> u64 {
    rows.iter().map(|r| r.bytes).sum()
}

/// The owner in a value: a name, a guid, or a handle that carries one.
fn owner_of(value: &Value) -> Result<String, Refusal> {
    const ACCEPTED: &str = "a shader's handle, guid or identity";
    match value {
        Value::Table(t) => {
            for name in ["guid", "identity"] {
                if let Value::String(s) = t.get::<Value>(name)? {
                    return Ok(s.to_string_lossy());
                }
            }
            Err(Refusal::value("owner", value, ACCEPTED))
        }
        Value::String(s) if s.as_bytes().is_empty() => Err(Refusal::value("owner", value, ACCEPTED)),
        other => string(other, "owner", ACCEPTED),
    }
}

fn resources(lua: &Lua, host: &Host, [owner, ..]: [Value; 5]) -> Answer {
    // An asset's identity stands for its guid, which is what keys carry; a guid stands for itself, so that what an
    // asset made stays reachable when the asset is gone.
    let owner = if owner.is_nil() { None } else { Some(owner_of(&owner)?) };
    let owner = owner.map(|o| host.assets.borrow_mut().resolve(&o).map_or(o, |asset| asset.guid.clone()));
    let gpu = host.gpu.borrow();
    let wanted = gpu.inventory().rows().iter().filter(|r| owner.as_ref().is_none_or(|o| r.owner.shader == *o));
    Ok((Value::Table(list(lua, wanted)?), Value::Nil))
}

fn diagnose(lua: &Lua, host: &Host, [key, ..]: [Value; 5]) -> Answer {
    let key = super::compute::buffer_key(&key, "key", "a resource key (string)")?;
    let gpu = host.gpu.borrow();
    let (presence, current) = gpu.diagnose(&key);
    let t = lua.create_table()?;
    t.raw_set("exists", presence == Presence::Resident)?;
    t.raw_set("reason", presence.name())?;
    t.raw_set("current", current)?;
    if let Some(found) = gpu.inventory().rows().iter().find(|r| *r.key == *key) {
        t.raw_set("resource", row(lua, found)?)?;
    }
    t.raw_set("key", &*key)?;
    Ok((Value::Table(t), Value::Nil))
}

fn absent_reasons(lua: &Lua, _: &Host, _: [Value; 5]) -> Answer {
    Ok((Value::Table(lua.create_sequence_from(Presence::NAMES.iter().copied())?), Value::Nil))
}

fn gpu_memory(lua: &Lua, host: &Host, _: [Value; 5]) -> Answer {
    let t = lua.create_table()?;
    for (name, bytes) in host.services.gpu_memory(&host.gpu.borrow()) {
        t.raw_set(name, bytes as f64)?;
    }
    Ok((Value::Table(t), Value::Nil))
}

fn gpu_frame(lua: &Lua, host: &Host, _: [Value; 5]) -> Answer {
    let Some(timed) = host.services.gpu_frame(&mut host.gpu.borrow_mut()) else {
        let reason = match host.gpu.borrow().info().timestamps {
            true => "no timed frame has finished yet: frames are timed from the first call on",
            false => "this device writes no timestamps",
        };
        return Ok((Value::Nil, Value::String(lua.create_string(reason)?)));
    };
    let t = lua.create_table()?;
    t.raw_set("frame", timed.frame as f64)?;
    t.raw_set("ms", timed.ms)?;
    let rows: Vec<Table> = timed
        .rows
        .iter()
        .map(|row| {
            let t = lua.create_table()?;
            t.raw_set("label", row.label.as_str())?;
            t.raw_set("dispatches", row.dispatches)?;
            t.raw_set("ms", row.ms)?;
            t.raw_set("sharedMs", row.shared_ms)?;
            Ok(t)
        })
        .collect::<mlua::Result<_>>()?;
    t.raw_set("rows", lua.create_sequence_from(rows)?)?;
    Ok((Value::Table(t), Value::Nil))
}

/// Owner of the buffers that no shader holds.
const OWN: &str = "substrate";

fn create_buffer(lua: &Lua, host: &Host, [name, opts, ..]: [Value; 5]) -> Answer {
    owned_buffer(lua, host, OWN, &name, &opts)
}

/// A handle to a new buffer that `owner` holds, or nil and the reason.
pub(super) fn owned_buffer(lua: &Lua, host: &Host, owner: &str, name: &Value, opts: &Value) -> Answer {
    let name = string(name, "name", super::compute::NAME)?;
    let desc = buffer_desc(opts)?;
    let made = host.services.create_buffer(&mut host.gpu.borrow_mut(), owner, &name, desc);
    match made {
        Ok(key) => Ok((Value::Table(buffer_handle(lua, &key, &name, desc.size)?), Value::Nil)),
        Err(error @ Error::Argument { .. }) => Err(super::args::rename(error, "opts.")),
        Err(error) => {
            let (_, reason) = no(lua, error)?;
            Ok((Value::Nil, reason))
        }
    }
}

/// A handle that works wherever a buffer's name does.
pub(super) fn buffer_handle(lua: &Lua, key: &str, name: &str, size: u64) -> mlua::Result<Table> {
    let handle = lua.create_table()?;
    handle.raw_set("key", key)?;
    handle.raw_set("name", name)?;
    handle.raw_set("size", size as f64)?;
    super::register::give_methods(lua, &handle, "BufferHandle")?;
    Ok(handle)
}

/// `{ size, readback? }`.
pub(super) fn buffer_desc(opts: &Value) -> Result<BufferDesc, Refusal> {
    let opts = table(opts, "opts", "a table { size, readback? }")?;
    let size = field(opts, "size")?;
    let readback = boolean_or(&field(opts, "readback")?, "opts.readback", true)?;
    match number(&size) {
        // Whether it is too much is for the device to say.
        Some(n) if n.is_finite() && n > 0.0 && n % 4.0 == 0.0 => {
            Ok(BufferDesc { readback, ..BufferDesc::new(n as u64) })
        }
        _ => Err(Refusal::value("opts.size", &size, "a positive multiple of 4 (bytes)")),
    }
}
