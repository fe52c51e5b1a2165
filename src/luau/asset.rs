//! `asset`, the handles it gives out, and programs that come from assets.

use super::Host;
use super::args::{Refusal, string, text};
use super::compute::{dispatch, no, yes};
use super::mesh::dispatch_on_vertices;
use super::program;
use super::register::{Answer, Entry};
use super::texture::dispatch_ex;
use crate::asset::{Asset, AssetKind};
use crate::gpu::Gpu;
use crate::registry::ProgramId;
use crate::shader::{Interface, ProgramSource};
use mlua::{Lua, Table, Value};
use std::rc::Rc;

pub(super) const ENTRIES: &[Entry] = &[
    Entry { name: "resolve", arity: 1, body: resolve },
    Entry { name: "load", arity: 1, body: load },
    Entry { name: "list", arity: 1, body: list },
];

/// Methods of a compute shader's handle; the handle is the first argument.
pub(super) const SHADER: &[Entry] = &[
    Entry { name: "load", arity: 1, body: load },
    Entry { name: "dispatch", arity: 2, body: dispatch },
    Entry { name: "dispatchEx", arity: 2, body: dispatch_ex },
    Entry { name: "dispatchOnVertices", arity: 2, body: dispatch_on_vertices },
    Entry { name: "setParam", arity: 3, body: program::set_param },
    Entry { name: "createBuffer", arity: 3, body: create_buffer },
    Entry { name: "status", arity: 1, body: program::status },
    Entry { name: "destroy", arity: 1, body: program::destroy },
];

/// Methods of a mesh's handle.
pub(super) const MESH: &[Entry] = &[Entry { name: "load", arity: 1, body: load }];

impl Host {
    /// The program of a compute shader asset, asked for now if it was not before. `None` when the reference is no
    /// shader's.
    pub fn asset_program(&self, gpu: &mut Gpu, reference: &str) -> Option<ProgramId> {
        let asset = self.assets.borrow_mut().resolve(reference)?;
        if asset.kind != AssetKind::ComputeShader {
            return None;
        }
        if let Some(id) = gpu.find_program(&asset.guid) {
            return Some(id);
        }
        // Scripts may have used the asset's names before it was there.
        gpu.adopt_key(reference, &asset.guid);
        for name in asset.short_names().iter().chain([&asset.identity]) {
            // A name that several assets have is none of them.
            if self.assets.borrow_mut().resolve(name).is_some_and(|a| a.guid == asset.guid) {
                gpu.adopt_key(name, &asset.guid);
            }
        }
        self.compile_asset(gpu, &asset)
    }

    /// Reads an asset's files and asks for its program. One whose files cannot be read is `failed`, with the reason.
    fn compile_asset(&self, gpu: &mut Gpu, asset: &Asset) -> Option<ProgramId> {
        let source = self.assets.borrow_mut().shader(&asset.guid);
        let asked = match source {
            Ok(source) => {
                let kept = source.clone();
                match gpu.compile_with(source, &|name| self.assets.borrow_mut().include(&asset.guid, name)) {
                    // A declaration that is not well-formed is no mistake of the line that dispatches.
                    Err(error @ crate::Error::Argument { .. }) => {
                        let reason = format!("{}: {error}", asset.path);
                        gpu.compile_failed(&kept, reason)
                    }
                    other => other,
                }
            }
            Err(reason) => {
                let interface = Interface::Declared { bindings: Vec::new(), params: Vec::new() };
                gpu.compile_failed(&ProgramSource::new(&*asset.guid, "", interface), reason)
            }
        };
        asked.inspect_err(|error| tracing::warn!("{}: {error}", asset.identity)).ok()
    }

    /// Why a reference names no asset.
    pub fn no_asset(&self, reference: &str) -> String {
        let all = self.assets.borrow_mut().list();
        let named = all.iter().filter(|asset| asset.short_names().iter().any(|name| name == reference));
        let several: Vec<&str> = named.map(|asset| asset.identity.as_str()).collect();
        match several.len() {
            0 => format!("no asset is known as \"{reference}\""),
            _ => format!("several assets are known as \"{reference}\": {}", several.join(", ")),
        }
    }

    /// Compiles the shaders in use whose files have changed. Once a frame.
    pub fn reload_assets(&self) {
        let changed = self.assets.borrow_mut().changed();
        for guid in changed {
            let mut gpu = self.gpu.borrow_mut();
            let asset = self.assets.borrow_mut().resolve(&guid);
            if let (Some(asset), Some(_)) = (asset, gpu.find_program(&guid)) {
                tracing::info!("{}: its files have changed", asset.identity);
                self.compile_asset(&mut gpu, &asset);
            }
        }
    }

    /// The asset of a reference: a handle, or its guid, identity, path or name.
    pub fn asset_of(&self, value: &Value, field: &str) -> Result<Option<Rc<Asset>>, Refusal> {
        let reference = reference(value, field)?;
        Ok(self.assets.borrow_mut().resolve(&reference))
    }
}

const ACCEPTED: &str = "an asset's guid, identity, path or name (string), or its handle";

/// What a handle stands for, or the text of a reference.
pub(super) fn reference(value: &Value, field: &str) -> Result<mlua::BorrowedStr, Refusal> {
    match value {
        Value::Table(handle) => match handle.raw_get::<Value>("guid")? {
            guid @ Value::String(_) => text(&guid, field, ACCEPTED),
            _ => Err(Refusal::value(field, value, ACCEPTED)),
        },
        other => text(other, field, ACCEPTED),
    }
}

/// A handle: the asset's facts, with the methods of its kind.
fn handle(lua: &Lua, asset: &Asset) -> mlua::Result<Table> {
    let t = lua.create_table()?;
    t.raw_set("guid", asset.guid.as_str())?;
    t.raw_set("identity", asset.identity.as_str())?;
    t.raw_set("name", asset.name.as_str())?;
    t.raw_set("kind", asset.kind.name())?;
    t.raw_set("path", asset.path.as_str())?;
    let methods = match asset.kind {
        AssetKind::ComputeShader => "ShaderHandle",
        AssetKind::Mesh => "MeshHandle",
    };
    super::register::give_methods(lua, &t, methods)?;
    Ok(t)
}

fn unknown(lua: &Lua, host: &Host, reference: &str) -> Answer {
    Ok((Value::Nil, Value::String(lua.create_string(host.no_asset(reference))?)))
}

fn resolve(lua: &Lua, host: &Host, [value, ..]: [Value; 5]) -> Answer {
    match host.asset_of(&value, "ref")? {
        Some(asset) => Ok((Value::Table(handle(lua, &asset)?), Value::Nil)),
        None => unknown(lua, host, &reference(&value, "ref")?),
    }
}

/// `asset.load(ref)` and `ref:load()`: a shader's compile is asked for, a mesh is read into the store.
fn load(lua: &Lua, host: &Host, [value, ..]: [Value; 5]) -> Answer {
    let Some(asset) = host.asset_of(&value, "ref")? else { return unknown(lua, host, &reference(&value, "ref")?) };
    match asset.kind {
        AssetKind::ComputeShader => {
            host.asset_program(&mut host.gpu.borrow_mut(), &asset.guid);
        }
        AssetKind::Mesh => {
            if let Err(reason) = host.load_mesh(&asset) {
                return Ok((Value::Nil, Value::String(lua.create_string(reason)?)));
            }
        }
    }
    Ok((Value::Table(handle(lua, &asset)?), Value::Nil))
}

fn list(lua: &Lua, host: &Host, [kind, ..]: [Value; 5]) -> Answer {
    let accepted = || {
        let names: Vec<&str> = AssetKind::ALL.iter().map(|k| k.name()).collect();
        format!("nil, or one of {}", names.join(", "))
    };
    let wanted = match &kind {
        Value::Nil => None,
        value => {
            let name = string(value, "kind", &accepted())?;
            Some(AssetKind::from_name(&name).ok_or_else(|| Refusal::value("kind", value, accepted()))?)
        }
    };
    let assets = host.assets.borrow_mut().list();
    let handles: Vec<Table> = assets
        .iter()
        .filter(|a| wanted.is_none_or(|k| k == a.kind))
        .map(|a| handle(lua, a))
        .collect::<mlua::Result<_>>()?;
    Ok((Value::Table(lua.create_sequence_from(handles)?), Value::Nil))
}

/// `compute.compileByName`: asks for an asset's program ahead of its first dispatch.
pub(super) fn compile_by_name(lua: &Lua, host: &Host, [value, ..]: [Value; 5]) -> Answer {
    let reference = reference(&value, "ref")?;
    match host.asset_program(&mut host.gpu.borrow_mut(), &reference) {
        Some(_) => yes(true),
        None => match host.asset_of(&value, "ref")? {
            Some(asset) => {
                no(lua, format_args!("\"{}\" is a {}, not a computeShader", asset.identity, asset.kind.name()))
            }
            None => no(lua, host.no_asset(&reference)),
        },
    }
}

/// `shader:createBuffer(name, opts)`: a buffer that the shader owns.
fn create_buffer(lua: &Lua, host: &Host, [shader, name, opts, ..]: [Value; 5]) -> Answer {
    let owner = reference(&shader, "self")?;
    super::inspect::owned_buffer(lua, host, &owner, &name, &opts)
}
