//! `meshcpu`, and dispatches over the vertices of a mesh.

use super::Host;
use super::args::{Payload, Refusal, Word, field, string, table};
use super::asset::reference;
use super::compute::{NAME, buffer_key, no, workgroups, yes};
use super::program;
use super::register::{Answer, Entry};
use crate::asset::{Asset, AssetKind};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::mesh::{LAYOUT, Mesh, MeshError, VERTEX_BYTES};
use crate::registry::{Bind, BufferId};
use mlua::{BorrowedStr, Lua, Table, Value};
use smallvec::SmallVec;

pub(super) const ENTRIES: &[Entry] = &[
    Entry { name: "put", arity: 2, body: put },
    Entry { name: "load", arity: 1, body: load },
    Entry { name: "unload", arity: 1, body: unload },
    Entry { name: "info", arity: 1, body: info },
    Entry { name: "vertexBuffer", arity: 1, body: vertex_buffer },
];

impl Host {
    /// Reads a mesh asset into the store, unless it is there.
    pub fn load_mesh(&self, asset: &Asset) -> Result<(), String> {
        if self.meshes.borrow().get(&asset.guid).is_none() {
            let mesh = self.assets.borrow_mut().mesh(&asset.guid)?;
            self.meshes.borrow_mut().put(&asset.guid, mesh);
        }
        Ok(())
    }

    /// The guid that a reference to a mesh means: itself where the store has it, else that of the asset.
    pub(super) fn mesh_guid(&self, reference: &str) -> String {
        if self.meshes.borrow().get(reference).is_some() {
            return reference.to_owned();
        }
        let asset = self.assets.borrow_mut().resolve(reference).filter(|a| a.kind == AssetKind::Mesh);
        asset.map_or_else(|| reference.to_owned(), |a| a.guid.clone())
    }

    /// The vertices of a mesh on the device; a mesh asset is loaded by its first use.
    fn vertices(&self, gpu: &mut Gpu, reference: &str) -> Result<BufferId, Error> {
        let mut meshes = self.meshes.borrow_mut();
        if let Some(id) = meshes.vertex_buffer(gpu, reference)? {
            return Ok(id);
        }
        let asset = self.assets.borrow_mut().resolve(reference).filter(|a| a.kind == AssetKind::Mesh);
        if let Some(asset) = asset {
            if let Some(id) = meshes.vertex_buffer(gpu, &asset.guid)? {
                return Ok(id);
            }
            drop(meshes);
            self.load_mesh(&asset).map_err(|reason| Error::argument("model", reason, "a mesh that can be read"))?;
            if let Some(id) = self.meshes.borrow_mut().vertex_buffer(gpu, &asset.guid)? {
                return Ok(id);
            }
        }
        Err(Error::Unknown { kind: "mesh", name: reference.to_owned() })
    }
}

const GUID: &str = "a guid (string)";
const PARTS: &str = "a table { positions, normals?, uvs?, indices? }";

fn put(_: &Lua, host: &Host, [guid, parts, ..]: [Value; 5]) -> Answer {
    let guid = string(&guid, "guid", GUID)?;
    if guid.is_empty() {
        return Err(Refusal::new("guid", "an empty string", GUID));
    }
    let parts = table(&parts, "mesh", PARTS)?;
    let positions = floats::<3>(parts, "positions")?.ok_or_else(|| {
        Refusal::value("mesh.positions", &Value::Nil, "an array of numbers, a buffer or a binary string")
    })?;
    let (normals, uvs) = (floats::<3>(parts, "normals")?, floats::<2>(parts, "uvs")?);
    let indices = words::<3, u32>(parts, "indices", Word::U32)?;
    let refuse = |e: MeshError| Refusal::new(format_args!("mesh.{}", e.field), e.given, e.accepted);
    let mesh = Mesh::new(positions, normals, uvs, indices).map_err(refuse)?;
    host.meshes.borrow_mut().put(&guid, mesh);
    yes(true)
}

fn floats<const N: usize>(parts: &Table, name: &str) -> Result<Option<Vec<[f32; N]>>, Refusal>
where
    [f32; N]: bytemuck::Pod,
{
    words(parts, name, Word::F32)
}

/// A part of a mesh: groups of `N` words.
fn words<const N: usize, T: bytemuck::Pod>(
    parts: &Table,
    name: &str,
    word: Word,
) -> Result<Option<Vec<[T; N]>>, Refusal>
where
    [T; N]: bytemuck::Pod,
{
    let value = field(parts, name)?;
    if value.is_nil() {
        return Ok(None);
    }
    let path = format!("mesh.{name}");
    let payload = Payload::new(&value, &path, true)?;
    let bytes = payload.bytes();
    if !bytes.is_multiple_of(4 * N as u64) {
        let given = format!("{bytes} bytes, {} words", bytes / 4);
        return Err(Refusal::new(path, given, format_args!("a multiple of {N} words")));
    }
    let mut list = vec![bytemuck::Zeroable::zeroed(); bytes as usize / (4 * N)];
    payload.write(bytemuck::cast_slice_mut(&mut list), word, &path)?;
    Ok(Some(list))
}

fn load(lua: &Lua, host: &Host, [value, ..]: [Value; 5]) -> Answer {
    let reason = match host.asset_of(&value, "ref")? {
        Some(asset) if asset.kind == AssetKind::Mesh => match host.load_mesh(&asset) {
            Ok(()) => return Ok((Value::String(lua.create_string(&asset.guid)?), Value::Nil)),
            Err(reason) => reason,
        },
        Some(asset) => format!("\"{}\" is a {}, not a mesh", asset.identity, asset.kind.name()),
        None => host.no_asset(&reference(&value, "ref")?),
    };
    Ok((Value::Nil, Value::String(lua.create_string(reason)?)))
}

fn unload(_: &Lua, host: &Host, [value, ..]: [Value; 5]) -> Answer {
    let guid = host.mesh_guid(&reference(&value, "guid")?);
    yes(host.meshes.borrow_mut().unload(&guid))
}

fn info(lua: &Lua, host: &Host, [value, ..]: [Value; 5]) -> Answer {
    let guid = host.mesh_guid(&reference(&value, "guid")?);
    let Some(mesh) = host.meshes.borrow().get(&guid) else {
        let reason = format!("no mesh is resident as \"{guid}\"");
        return Ok((Value::Nil, Value::String(lua.create_string(reason)?)));
    };
    let t = lua.create_table()?;
    t.raw_set("guid", guid)?;
    t.raw_set("vertices", mesh.positions().len())?;
    t.raw_set("triangles", mesh.indices().len())?;
    let (low, high) = mesh.bounds();
    let bounds = lua.create_table()?;
    bounds.raw_set("min", lua.create_sequence_from(low)?)?;
    bounds.raw_set("max", lua.create_sequence_from(high)?)?;
    t.raw_set("bounds", bounds)?;
    t.raw_set("layout", layout(lua)?)?;
    Ok((Value::Table(t), Value::Nil))
}

/// How a vertex lies in the buffer that `dispatchOnVertices` binds.
fn layout(lua: &Lua) -> mlua::Result<Table> {
    let mut rows = Vec::new();
    for attribute in LAYOUT {
        let row = lua.create_table()?;
        row.raw_set("name", attribute.name)?;
        row.raw_set("offset", attribute.offset)?;
        row.raw_set("components", attribute.components)?;
        rows.push(row);
    }
    let t = lua.create_table()?;
    t.raw_set("stride", VERTEX_BYTES)?;
    t.raw_set("attributes", lua.create_sequence_from(rows)?)?;
    Ok(t)
}

/// The handle of a mesh's vertices on the device, to be bound, read or destroyed like any buffer.
fn vertex_buffer(lua: &Lua, host: &Host, [value, ..]: [Value; 5]) -> Answer {
    let reference = reference(&value, "guid")?;
    let mut gpu = host.gpu.borrow_mut();
    match host.vertices(&mut gpu, &reference) {
        Ok(id) => {
            let (key, size) = (gpu.buffer_name(id).unwrap_or_default(), gpu.buffer_desc(id).map_or(0, |d| d.size));
            Ok((Value::Table(super::inspect::buffer_handle(lua, key, &reference, size)?), Value::Nil))
        }
        Err(error) => Ok((Value::Nil, no(lua, error)?.1)),
    }
}

// ---- dispatchOnVertices ----

/// The binding that takes the vertices, if a program has one of this name; binding 0 otherwise.
const VERTICES: &str = "vertices";

pub(super) fn dispatch_on_vertices(_: &Lua, host: &Host, [shader, opts, ..]: [Value; 5]) -> Answer {
    let shader = program::name(&shader, "shaderNameOrHandle")?;
    let opts = table(&opts, "opts", "a table { model, buffers?, workgroups }")?;
    let model = reference(&field(opts, "model")?, "opts.model")?;
    let list = field(opts, "buffers")?;
    let mut buffers: SmallVec<[BorrowedStr; 8]> = SmallVec::new();
    if !list.is_nil() {
        let list = table(&list, "opts.buffers", "an array of buffer names")?;
        for i in 1..=list.raw_len() {
            let value: Value = list.raw_get(i)?;
            buffers.push(buffer_key(&value, format_args!("opts.buffers[{i}]"), NAME)?);
        }
    }
    let groups = workgroups(opts)?;
    let mut gpu = host.gpu.borrow_mut();
    if let Err(error) = run(host, &mut gpu, &shader, &model, &buffers, groups) {
        tracing::debug!("dispatch of \"{shader}\" over \"{model}\" refused: {error}");
    }
    yes(true)
}

fn run(
    host: &Host,
    gpu: &mut Gpu,
    shader: &str,
    model: &str,
    buffers: &[BorrowedStr],
    groups: [u32; 3],
) -> Result<(), Error> {
    let program = gpu.find_program(shader).or_else(|| host.asset_program(gpu, shader));
    let vertices = host.vertices(gpu, model);
    let mut binds: SmallVec<[Bind; 16]> = SmallVec::new();
    let mut missing = None;
    for name in buffers {
        match gpu.find_buffer(name) {
            Some(id) => binds.push(Bind::Buffer(id)),
            None => missing = missing.or_else(|| Some(Error::Unknown { kind: "buffer", name: name.to_string() })),
        }
    }
    let error = match (program, vertices, missing) {
        (Some(program), Ok(vertices), None) => {
            let at = gpu.binding_of(program, VERTICES).unwrap_or(0).min(binds.len());
            binds.insert(at, Bind::Buffer(vertices));
            return gpu.dispatch_with(program, &binds, groups);
        }
        (None, ..) => Error::Unknown { kind: "program", name: shader.to_owned() },
        (_, Err(error), _) | (_, _, Some(error)) => error,
    };
    // The pair is (shader, mesh), whatever else is bound.
    let guid = host.mesh_guid(model);
    let key = program.and_then(|p| gpu.program_key(p)).unwrap_or(shader).to_owned();
    gpu.dispatch_failed(&key, &[&guid], &error);
    Err(error)
}
