//! Textures, histories, samplers, and dispatches that bind them.

use super::Host;
use super::args::{Payload, Refusal, Word, boolean_or, field, field_or, number, string, table, text, whole};
use super::compute::{NAME, Written, buffer_key, key_value, no, run, yes};
use super::program;
use super::register::{Answer, Entry};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::readback::ReadKey;
use crate::registry::Bind;
use crate::texture::{Format, SamplerDesc, TextureDesc, TextureRole};
use mlua::{BorrowedStr, Lua, Table, Value};
use smallvec::SmallVec;

pub(super) const ENTRIES: &[Entry] = &[
    Entry { name: "createTexture3D", arity: 2, body: create_texture_3d },
    Entry { name: "writeTexture3D", arity: 2, body: write_texture_3d },
    Entry { name: "writeFloatsTexture3D", arity: 3, body: write_floats_texture_3d },
    Entry { name: "readTexture3D", arity: 1, body: read_texture_3d },
    Entry { name: "destroyTexture3D", arity: 1, body: |_, host, a| destroy(host, a, TextureRole::Volume) },
    Entry { name: "createStorageTexture2D", arity: 2, body: create_storage_texture_2d },
    Entry { name: "destroyStorageTexture2D", arity: 1, body: |_, host, a| destroy(host, a, TextureRole::Target) },
    Entry { name: "createTextureHistory", arity: 2, body: create_texture_history },
    Entry { name: "destroyTextureHistory", arity: 1, body: destroy_texture_history },
    Entry { name: "createSampler", arity: 2, body: create_sampler },
    Entry { name: "destroySampler", arity: 1, body: destroy_sampler },
    Entry { name: "copyBufferToTexture", arity: 5, body: copy_buffer_to_texture },
    Entry { name: "destroyTexture", arity: 1, body: |_, host, a| destroy(host, a, TextureRole::Cached) },
    Entry { name: "textureFormatBytes", arity: 1, body: texture_format_bytes },
    Entry { name: "dispatchEx", arity: 2, body: dispatch_ex },
];

const TEXTURE: &str = "a texture name (string)";

/// A format by name, or `default` for nil.
fn format_or(value: &Value, field: &str, default: Format) -> Result<Format, Refusal> {
    let accepted = || format!("one of {}", Format::NAMES.join(", "));
    match value {
        Value::Nil => Ok(default),
        Value::String(s) => {
            Format::from_name(&s.to_string_lossy()).ok_or_else(|| Refusal::value(field, value, accepted()))
        }
        other => Err(Refusal::value(field, other, accepted())),
    }
}

/// `{ width, height, depth?, format?, storage? }`.
fn desc_of(opts: &Table, role: TextureRole) -> Result<TextureDesc, Refusal> {
    let axis = |name: &str| whole(&field(opts, name)?, format_args!("opts.{name}"), 1, u64::from(u32::MAX));
    let depth = if role == TextureRole::Volume { axis("depth")? } else { 1 };
    Ok(TextureDesc {
        role,
        width: axis("width")? as u32,
        height: axis("height")? as u32,
        depth: depth as u32,
        format: format_or(&field(opts, "format")?, "opts.format", Format::Rgba16f)?,
        storage: role != TextureRole::Volume || boolean_or(&field(opts, "storage")?, "opts.storage", true)?,
    })
}

/// True, or the refusal of a mistake, or false and the reason of what the device will not do.
fn created<T>(lua: &Lua, result: Result<T, Error>, prefix: &str) -> Answer {
    match result {
        Ok(_) => yes(true),
        Err(Error::Argument { field, given, accepted }) => {
            let prefix = if field == "name" || field == "bufferName" { "" } else { prefix };
            Err(Refusal::new(format_args!("{prefix}{field}"), given, accepted))
        }
        Err(error) => no(lua, error),
    }
}

fn create_texture_3d(lua: &Lua, host: &Host, [name, opts, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", TEXTURE)?;
    let opts = table(&opts, "opts", "a table { width, height, depth, format?, storage? }")?;
    let desc = desc_of(opts, TextureRole::Volume)?;
    created(lua, host.gpu.borrow_mut().create_texture(&name, desc), "opts.")
}

fn create_storage_texture_2d(lua: &Lua, host: &Host, [name, opts, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", TEXTURE)?;
    let opts = table(&opts, "opts", "a table { width, height, format? }")?;
    let desc = desc_of(opts, TextureRole::Target)?;
    created(lua, host.gpu.borrow_mut().create_texture(&name, desc), "opts.")
}

fn create_texture_history(lua: &Lua, host: &Host, [name, opts, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", TEXTURE)?;
    let opts = table(&opts, "opts", "a table { width, height, format? }")?;
    let desc = desc_of(opts, TextureRole::History)?;
    created(lua, host.gpu.borrow_mut().create_history(&name, desc), "opts.")
}

fn destroy(host: &Host, [name, ..]: [Value; 5], role: TextureRole) -> Answer {
    let name = string(&name, if role == TextureRole::Cached { "textureKey" } else { "name" }, TEXTURE)?;
    let mut gpu = host.gpu.borrow_mut();
    match gpu.find_texture(role, &name) {
        Some(id) => yes(gpu.destroy_texture(id).is_ok()),
        None => yes(false),
    }
}

fn destroy_texture_history(_: &Lua, host: &Host, [name, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", TEXTURE)?;
    yes(host.gpu.borrow_mut().destroy_history(&name))
}

fn no_volume(lua: &Lua, name: &str) -> Answer {
    no(lua, Error::Unknown { kind: "3D texture", name: name.to_owned() })
}

fn write_texture_3d(lua: &Lua, host: &Host, [name, data, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", TEXTURE)?;
    let payload = Payload::new(&data, "data", true)?;
    let size = match payload {
        // An array carries one byte an entry.
        Payload::Numbers(_, count) => count as u64,
        _ => payload.bytes(),
    };
    let mut gpu = host.gpu.borrow_mut();
    let Some(id) = gpu.find_texture(TextureRole::Volume, &name) else { return no_volume(lua, &name) };
    let written = gpu.write_texture_with(id, size, |to| payload.write(to, Word::U8, "data").map_err(Written::Refused));
    answer(lua, written, "data")
}

fn answer(lua: &Lua, written: Result<(), Written>, data: &str) -> Answer {
    match written {
        Ok(()) => yes(true),
        Err(Written::Refused(refusal)) => Err(refusal),
        Err(Written::Failed(Error::Argument { given, accepted, .. })) => Err(Refusal::new(data, given, accepted)),
        Err(Written::Failed(error)) => no(lua, error),
    }
}

fn write_floats_texture_3d(lua: &Lua, host: &Host, [name, floats, format, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", TEXTURE)?;
    let list = table(&floats, "floats", "an array of numbers")?;
    let format = match &format {
        Value::Table(opts) => format_or(&field(opts, "format")?, "opts.format", Format::Rgba16f)?,
        other => format_or(other, "formatOrOpts", Format::Rgba16f)?,
    };
    let mut gpu = host.gpu.borrow_mut();
    let Some(id) = gpu.find_texture(TextureRole::Volume, &name) else { return no_volume(lua, &name) };
    let own = gpu.texture_desc(id).map_or(format, |desc| desc.format);
    if own != format {
        let accepted = format!("\"{}\", the format of the texture", own.name());
        return Err(Refusal::new("formatOrOpts", format_args!("\"{}\"", format.name()), accepted));
    }
    let step = format.channel_bytes() as usize;
    let written = gpu.write_texture_with(id, list.raw_len() as u64 * step as u64, |to| {
        for (i, slot) in to.chunks_exact_mut(step).enumerate() {
            let value: Value = list.raw_get(i + 1).map_err(|e| Written::Refused(e.into()))?;
            let value = number(&value).ok_or_else(|| {
                Written::Refused(Refusal::value(format_args!("floats[{}]", i + 1), &value, "a number"))
            })?;
            format.pack(value as f32, slot);
        }
        Ok(())
    });
    answer(lua, written, "floats")
}

fn read_texture_3d(lua: &Lua, host: &Host, [name, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", TEXTURE)?;
    let mut gpu = host.gpu.borrow_mut();
    let started = match gpu.find_texture(TextureRole::Volume, &name) {
        Some(id) => gpu.read_texture(id),
        None => Err(Error::Unknown { kind: "3D texture", name }),
    };
    match started {
        Ok(key) => Ok((key_value(lua, key)?, Value::Nil)),
        Err(error) => Ok((key_value(lua, ReadKey::default())?, Value::String(lua.create_string(error.to_string())?))),
    }
}

fn create_sampler(lua: &Lua, host: &Host, [name, opts, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", "a sampler name (string)")?;
    let mut desc = SamplerDesc { filter: true, clamp: true };
    if !opts.is_nil() {
        let opts = table(&opts, "opts", "a table { filter?, clamp? }")?;
        desc.filter = boolean_or(&field(opts, "filter")?, "opts.filter", true)?;
        desc.clamp = boolean_or(&field(opts, "clamp")?, "opts.clamp", true)?;
    }
    created(lua, host.gpu.borrow_mut().create_sampler(&name, desc), "opts.")
}

fn destroy_sampler(_: &Lua, host: &Host, [name, ..]: [Value; 5]) -> Answer {
    let name = string(&name, "name", "a sampler name (string)")?;
    let mut gpu = host.gpu.borrow_mut();
    match gpu.find_sampler(&name) {
        Some(id) => yes(gpu.destroy_sampler(id)),
        None => yes(false),
    }
}

fn copy_buffer_to_texture(lua: &Lua, host: &Host, [buffer, key, width, height, format]: [Value; 5]) -> Answer {
    let buffer = buffer_key(&buffer, "bufferName", NAME)?;
    let key = string(&key, "textureKey", TEXTURE)?;
    let axis = |value: &Value, field: &str| whole(value, field, 1, u64::from(u32::MAX)).map(|n| n as u32);
    let (width, height) = (axis(&width, "width")?, axis(&height, "height")?);
    let known = [Format::Rgba8, Format::Rgba16f, Format::Rgba32f];
    let given = format;
    let format = format_or(&given, "format", Format::Rgba16f)?;
    if !known.contains(&format) {
        return Err(Refusal::value("format", &given, "one of rgba8, rgba16f, rgba32f"));
    }
    let desc = TextureDesc { role: TextureRole::Cached, width, height, depth: 1, format, storage: false };
    let mut gpu = host.gpu.borrow_mut();
    let Some(from) = gpu.find_buffer(&buffer) else {
        return no(lua, Error::Unknown { kind: "buffer", name: buffer.to_owned() });
    };
    created(lua, gpu.copy_buffer_to_texture(from, &key, desc), "")
}

fn texture_format_bytes(_: &Lua, _: &Host, [format, ..]: [Value; 5]) -> Answer {
    let name = string(&format, "format", "a format name (string)")?;
    Ok((Value::Number(Format::from_name(&name).map_or(0.0, |f| f.bytes() as f64)), Value::Nil))
}

// ---- dispatchEx ----

/// The one table of resource kinds.
const KINDS: &[(&str, Kind)] = &[
    ("texture_2d", Kind::Texture2d),
    ("texture_3d", Kind::Texture3d),
    ("storage_2d", Kind::Storage2d),
    ("history_prev", Kind::HistoryPrev),
    ("history_curr", Kind::HistoryCurr),
    ("sampler", Kind::Sampler),
    ("buffer", Kind::Buffer),
    ("scene_depth", Kind::SceneDepth),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Texture2d,
    Texture3d,
    Storage2d,
    HistoryPrev,
    HistoryCurr,
    Sampler,
    Buffer,
    SceneDepth,
}

/// What a dispatch names.
pub(super) type Named = SmallVec<[Item; 8]>;

/// One resource that a dispatch names.
pub(super) struct Item {
    pub kind: Kind,
    pub name: Name,
    /// Its place in the script's list, from 1.
    pub entry: u32,
    /// Its place in the entry's own list, from 1; 0 without one.
    pub element: u32,
}

/// A name as the script holds it.
pub(super) enum Name {
    Script(BorrowedStr),
    Fixed(&'static str),
}

impl std::ops::Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Script(text) => text,
            Self::Fixed(text) => text,
        }
    }
}

pub(super) fn dispatch_ex(_: &Lua, host: &Host, [shader, opts, ..]: [Value; 5]) -> Answer {
    let shader = program::name(&shader, "shaderNameOrHandle")?;
    let opts = table(&opts, "opts", "a table { resources, workgroups }")?;
    let resources = field(opts, "resources")?;
    let list = table(&resources, "opts.resources", "an array of { kind, name }")?;
    let mut named = Named::new();
    for i in 1..=list.raw_len() {
        let value: Value = list.raw_get(i)?;
        let resource = table(&value, format_args!("opts.resources[{i}]"), "a table { kind, name }")?;
        let kind_value = field_or(resource, "kind", 1)?;
        let found = match &kind_value {
            Value::String(s) => KINDS.iter().find(|(name, _)| name.as_bytes() == &*s.as_bytes()).map(|(_, kind)| *kind),
            _ => None,
        };
        let Some(kind) = found else {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            let path = format_args!("opts.resources[{i}].kind");
            return Err(Refusal::value(path, &kind_value, format_args!("one of {}", names.join(", "))));
        };
        let name = field_or(resource, "name", 2)?;
        let path = format_args!("opts.resources[{i}].name");
        let mut push = |name, element| named.push(Item { kind, name, entry: i as u32, element });
        match &name {
            _ if kind == Kind::SceneDepth => push(Name::Fixed("scene_depth"), 0),
            Value::Table(_) if kind == Kind::Buffer => push(Name::Script(buffer_key(&name, path, NAME)?), 0),
            // An array of textures takes a list of names.
            Value::Table(names) => {
                for j in 1..=names.raw_len() {
                    let name: Value = names.raw_get(j)?;
                    let name = text(&name, format_args!("{path}[{j}]"), "a name (string)")?;
                    push(Name::Script(name), j as u32);
                }
            }
            name => push(Name::Script(text(name, path, "a name (string)")?), 0),
        }
    }
    run(host, &shader, ("resources", &named), opts)
}

/// Turns names into ids; the first that is not there is the reason.
pub(super) fn resolve(gpu: &Gpu, (list, named): (&str, &Named)) -> Result<SmallVec<[Bind; 16]>, Error> {
    let mut binds = SmallVec::new();
    for Item { kind, name, entry, element } in named {
        let texture = |role| gpu.find_texture(role, name).map(Bind::Texture);
        let history =
            |current: bool| gpu.history(name).map(|(now, before)| Bind::Texture(if current { now } else { before }));
        let found = match kind {
            Kind::Buffer => gpu.find_buffer(name).map(Bind::Buffer),
            Kind::Sampler => gpu.find_sampler(name).map(Bind::Sampler),
            Kind::Texture3d => texture(TextureRole::Volume),
            Kind::Storage2d => texture(TextureRole::Target),
            // What a shader wrote can be sampled as well as what a buffer filled.
            Kind::Texture2d => texture(TextureRole::Cached).or_else(|| texture(TextureRole::Target)),
            Kind::HistoryPrev => history(false),
            Kind::HistoryCurr => history(true),
            Kind::SceneDepth => gpu.scene_depth().map(Bind::Texture),
        };
        let Some(bind) = found else {
            let accepted = match kind {
                Kind::SceneDepth => "a scene depth image, which this host supplies none of".to_owned(),
                Kind::Buffer => "the name of a live buffer".to_owned(),
                Kind::Sampler => "the name of a live sampler".to_owned(),
                Kind::Texture3d => "the name of a live 3D texture".to_owned(),
                Kind::Texture2d => "the name of a live 2D texture".to_owned(),
                Kind::Storage2d => "the name of a live 2D storage texture".to_owned(),
                Kind::HistoryPrev | Kind::HistoryCurr => "the name of a live texture history".to_owned(),
            };
            let path = match element {
                0 => format!("{list}[{entry}]"),
                _ => format!("{list}[{entry}].name[{element}]"),
            };
            return Err(Error::argument(path, format!("\"{}\"", &**name), accepted));
        };
        binds.push(bind);
    }
    Ok(binds)
}
