//! The verbs: each validates everything it was given, then appends its commands. No Vulkan, no Luau.
//!
//! A refused call leaves the arena byte for byte as it was. Nothing here allocates in a steady frame.

mod dispatch;
#[cfg(test)]
mod tests;
mod texture;

use crate::arena::Arena;
use crate::command::{Clear, Fill, Prepare, Read, Upload, View};
use crate::error::{Error, Result};
use crate::handle::Id;
use crate::inspect::{Inventory, Ledger};
use crate::plan::text::Names;
use crate::registry::{
    BufferDesc, BufferId, MAX_EARLY_KEYS, Program, ProgramId, ProgramState, Registry, Resident, Resource, Shape,
    remember,
};
use crate::ring::Slice;
use crate::shader::{Interface, ProgramSource};
use crate::texture::Format;
use smallvec::SmallVec;

/// What the device can do with a format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatSupport {
    /// Shaders can sample it.
    pub sampled: bool,
    /// Shaders can sample it with linear filtering.
    pub linear: bool,
    /// Shaders can read and write it as a storage texture.
    pub storage: bool,
}

/// The device's limits, as far as recording needs them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The device's name, for messages.
    pub device: String,
    /// Most workgroups of one dispatch, per axis.
    pub max_workgroups: [u32; 3],
    /// Largest buffer, in bytes.
    pub max_buffer_bytes: u64,
    /// Largest range a storage binding may have, in bytes.
    pub max_storage_range: u64,
    /// Largest range a uniform binding may have, in bytes.
    pub max_uniform_range: u64,
    /// Most texels of a 2D texture, per axis.
    pub max_texture_2d: u32,
    /// Most texels of a 3D texture, per axis.
    pub max_texture_3d: u32,
    /// What the device can do with each format, in the order of [`Format::ALL`].
    pub formats: [FormatSupport; Format::ALL.len()],
}

/// A frame being recorded, and the names it is recorded with.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub arena: Arena,
    pub registry: Registry,
    pub ledger: Ledger,
    pub inventory: Inventory,
    pub limits: Limits,
    /// Number of the frame being recorded, from 1.
    pub frame: u64,
    requests: u64,
    serials: u64,
    /// Programs whose parameter block was staged this frame.
    staged: Vec<ProgramId>,
    /// Program slots to reuse once no command of this frame names them.
    removed_programs: Vec<u32>,
    /// Buffers whose first touch is an upload of this frame that needs no zeros under it.
    overwritten: Vec<u32>,
}

impl Recorder {
    pub fn new(limits: Limits) -> Self {
        Self {
            arena: Arena::default(),
            registry: Registry::default(),
            ledger: Ledger::default(),
            inventory: Inventory::default(),
            limits,
            frame: 1,
            requests: 0,
            serials: 0,
            staged: Vec::new(),
            removed_programs: Vec::new(),
            overwritten: Vec::new(),
        }
    }

    // ---- buffers ----

    pub fn check_buffer(&self, desc: &BufferDesc) -> Result<()> {
        if desc.size == 0 || !desc.size.is_multiple_of(4) {
            return Err(Error::argument("size", format!("{} bytes", desc.size), "a positive multiple of 4 bytes"));
        }
        if desc.size > self.limits.max_buffer_bytes {
            return Err(Error::Limit {
                what: "size".into(),
                given: desc.size,
                limit: self.limits.max_buffer_bytes,
                device: self.limits.device.clone(),
            });
        }
        Ok(())
    }

    /// Names a buffer. A live one of that name loses it and is returned for release.
    pub fn add_buffer(&mut self, name: &str, desc: BufferDesc) -> (BufferId, Option<BufferId>) {
        let id = self.add_resource(name, Shape::Buffer(desc));
        (id, self.registry.buffer_names.insert(name.into(), id))
    }

    /// Takes a buffer out of the registry. The slot is recycled when the device is done with it.
    pub fn remove_buffer(&mut self, id: BufferId) -> bool {
        let Some(buffer) = self.registry.resources.remove(id) else { return false };
        if self.registry.buffer_names.get(&buffer.name) == Some(&id) {
            self.registry.buffer_names.remove(&buffer.name);
        }
        self.ledger.forget_buffer(id);
        self.inventory.went(&buffer.name);
        true
    }

    pub fn add_resource<K>(&mut self, name: &str, shape: Shape) -> Id<K> {
        self.serials += 1;
        self.inventory.came();
        let (serial, created_frame) = (self.serials, self.frame);
        self.registry.resources.insert(Resource {
            name: name.into(),
            shape,
            serial,
            created_frame,
            mesh: None,
            fresh: true,
        })
    }

    pub fn buffer(&self, id: BufferId) -> Result<(&Resource, BufferDesc)> {
        let found = self.registry.resources.get(id).and_then(|r| Some((r, *r.buffer()?)));
        found.ok_or_else(|| stale("buffer", id))
    }

    /// Whether nothing that reached the device has touched a buffer yet.
    pub fn untouched(&self, id: BufferId) -> bool {
        self.registry.resources.get(id).is_some_and(|buffer| buffer.fresh)
    }

    pub fn check_write(&self, id: BufferId, offset: u64, bytes: u64) -> Result<()> {
        check_range(self.buffer(id)?.1.size, offset, bytes)
    }

    /// Takes a new buffer's name away until [`Recorder::hand_over`], so that nobody reads or destroys it meanwhile. The
    /// caller writes every byte of it, which spares it its zeros.
    pub fn withhold(&mut self, id: BufferId) {
        let Some(buffer) = self.registry.resources.get_mut(id) else { return };
        self.registry.buffer_names.remove(&buffer.name);
        if std::mem::take(&mut buffer.fresh) {
            self.overwritten.push(id.index());
        }
    }

    /// Gives a withheld buffer its name.
    pub fn hand_over(&mut self, id: BufferId) {
        if let Some(buffer) = self.registry.resources.get(id) {
            self.registry.buffer_names.insert(buffer.name.clone(), id);
        }
    }

    /// Appends an upload that [`Recorder::check_write`] has let through.
    pub fn upload(&mut self, id: BufferId, offset: u64, size: u64, from: Slice) {
        let Some(buffer) = self.registry.resources.get_mut(id) else { return };
        let all = buffer.buffer().map_or(0, |desc| desc.size);
        if std::mem::take(&mut buffer.fresh) {
            if (offset, size) == (0, all) {
                self.overwritten.push(id.index());
            } else {
                clear(&mut self.arena, id.index(), all);
            }
        }
        self.arena.push(&Upload { buffer: id.index(), segment: from.segment, source: from.offset, offset, size });
    }

    /// Why a buffer cannot be read, if so; its size otherwise.
    pub fn check_read(&self, id: BufferId) -> Result<u64> {
        let (buffer, desc) = self.buffer(id)?;
        if !desc.readback {
            return Err(Error::argument(
                "buffer",
                format!("\"{}\"", buffer.name),
                "a buffer created without readback = false",
            ));
        }
        Ok(desc.size)
    }

    /// Appends a copy of the whole buffer to a readback slice.
    pub fn read(&mut self, id: BufferId, to: Slice) {
        let Some(buffer) = self.registry.resources.get_mut(id) else { return };
        let size = buffer.buffer().map_or(0, |desc| desc.size);
        if std::mem::take(&mut buffer.fresh) {
            clear(&mut self.arena, id.index(), size);
        }
        self.arena.push(&Read { buffer: id.index(), segment: to.segment, offset: 0, destination: to.offset, size });
    }

    // ---- programs ----

    /// Files a request to compile. Returns the program and the request's number.
    pub fn request_program(&mut self, source: &ProgramSource) -> (ProgramId, u64) {
        self.requests += 1;
        let declared = match &source.interface {
            Interface::Declared { params, .. } => params.clone(),
            Interface::Reflected { .. } => Vec::new(),
        };
        let id = match self.registry.program_names.get(source.key.as_str()) {
            Some(id) => *id,
            None => {
                let id = self.registry.programs.insert(Program {
                    key: source.key.as_str().into(),
                    state: ProgramState::Pending,
                    error: None,
                    request: 0,
                    resident: None,
                    declared: Vec::new(),
                    set: self.registry.early.remove(source.key.as_str()).unwrap_or_default(),
                });
                self.registry.program_names.insert(source.key.as_str().into(), id);
                id
            }
        };
        if let Some(program) = self.registry.programs.get_mut(id) {
            program.state = ProgramState::Pending;
            program.error = None;
            program.request = self.requests;
            program.declared = declared;
        }
        (id, self.requests)
    }

    /// Whether an answer to `request` is still wanted.
    pub fn wants(&self, id: ProgramId, request: u64) -> bool {
        self.registry.programs.get(id).is_some_and(|p| p.request == request)
    }

    /// Makes a compiled program the one that dispatches bind. Returns the pipeline it replaces.
    pub fn program_ready(&mut self, id: ProgramId, mut resident: Resident) -> Option<u32> {
        let program = self.registry.programs.get_mut(id)?;
        for s in &program.set {
            if !resident.params.write(&mut resident.block, &s.name, s.component, s.value) {
                let (key, name, value) = (&program.key, &s.name, s.value);
                tracing::warn!("program \"{key}\" declares no parameter \"{name}\", which was set to {value}");
            }
        }
        let written: SmallVec<[bool; 8]> = resident.writes().collect();
        program.state = ProgramState::Ready;
        let before = program.resident.replace(resident).map(|r| r.pipeline);
        self.ledger.program_known(&program.key, &written);
        before
    }

    pub fn program_failed(&mut self, id: ProgramId, error: String) {
        if let Some(program) = self.registry.programs.get_mut(id) {
            program.state = ProgramState::Failed;
            program.error = Some(error);
        }
    }

    /// Takes a program out of the registry. Returns the pipeline it held.
    pub fn remove_program(&mut self, id: ProgramId) -> Option<Option<u32>> {
        let program = self.registry.programs.remove(id)?;
        self.registry.program_names.remove(&program.key);
        self.ledger.forget_program(id, &program.key);
        self.removed_programs.push(id.index());
        Some(program.resident.map(|r| r.pipeline))
    }

    pub fn program_state(&self, id: ProgramId) -> (ProgramState, Option<&str>) {
        match self.registry.programs.get(id) {
            None => (ProgramState::Absent, None),
            Some(p) => (p.state, p.error.as_deref()),
        }
    }

    /// Sets one component of a parameter; later dispatches see it. False when the program declares none such.
    pub fn set_param(&mut self, id: ProgramId, name: &str, component: usize, value: f64) -> Result<bool> {
        let program = self.registry.programs.get_mut(id).ok_or_else(|| stale("program", id))?;
        let declared = program.declared.iter().any(|p| p.name == name && component < p.ty.components());
        // A request that failed leaves another program bound, with parameters of its own.
        let bound = program
            .resident
            .as_ref()
            .is_some_and(|r| r.params.fields.iter().any(|f| *f.name == *name && component < f.ty.components()));
        if !declared && !bound {
            return Ok(false);
        }
        remember(&mut program.set, name, component, value);
        if let Some(resident) = &mut program.resident {
            resident.params.write(&mut resident.block, name, component, value);
            resident.staged = None;
        }
        Ok(true)
    }

    /// Keeps a value for a program that is yet to come. False when too many keys are waiting.
    pub fn set_early(&mut self, key: &str, name: &str, component: usize, value: f64) -> bool {
        let early = &mut self.registry.early;
        if !early.contains_key(key) && early.len() >= MAX_EARLY_KEYS {
            return false;
        }
        remember(early.entry(key.into()).or_default(), name, component, value);
        true
    }

    pub fn adopt_key(&mut self, name: &str, key: &str) {
        if name == key || self.registry.program_names.contains_key(name) {
            return;
        }
        self.ledger.rename(name, key);
        for s in self.registry.early.remove(name).unwrap_or_default() {
            let known = self.registry.early.entry(key.into()).or_default();
            // What was set under the key itself was meant for it.
            if !known.iter().any(|k| k.name == s.name && k.component == s.component) {
                known.push(s);
            }
        }
    }

    // ---- frame ----

    /// Undoes what the frame's commands promised: they never reached the device.
    pub fn undo_frame(&mut self, error: &str) {
        for index in self.overwritten.drain(..) {
            if let Some(buffer) = self.registry.resources.at_mut(index) {
                buffer.fresh = true;
            }
        }
        for (_, view) in self.arena.iter() {
            match view {
                View::Dispatch(c, ..) => self.ledger.undo(c.row, c.program, self.frame, error),
                // The only fills are those that give a new buffer its zeros.
                View::Fill(c) => {
                    if let Some(buffer) = self.registry.resources.at_mut(c.buffer) {
                        buffer.fresh = true;
                    }
                }
                View::Clear(Clear { texture, .. }) | View::Prepare(Prepare { texture, .. }) => {
                    if let Some(texture) = self.registry.resources.at_mut(*texture) {
                        texture.fresh = true;
                    }
                }
                View::Upload(_)
                | View::Read(_)
                | View::UploadTexture(_)
                | View::ReadTexture(_)
                | View::CopyToTexture(_) => {}
            }
        }
    }

    /// The serial that the next resource will have.
    pub fn next_serial(&self) -> u64 {
        self.serials + 1
    }

    /// Forgets the frame's commands and starts the next one.
    pub fn next_frame(&mut self) {
        self.inventory.publish(&self.registry);
        for id in self.staged.drain(..) {
            if let Some(resident) = self.registry.programs.get_mut(id).and_then(|p| p.resident.as_mut()) {
                resident.staged = None;
            }
        }
        for index in self.removed_programs.drain(..) {
            self.registry.programs.recycle(index);
        }
        self.overwritten.clear();
        self.arena.reset();
        self.frame += 1;
    }
}

impl Names for Registry {
    fn resource(&self, index: u32) -> String {
        self.resources.at(index).map_or_else(|| format!("(destroyed {index})"), |b| b.name.to_string())
    }
    fn program(&self, index: u32) -> String {
        self.programs.at(index).map_or_else(|| format!("(destroyed {index})"), |p| p.key.to_string())
    }
}

/// A buffer's bytes are zero until something is written: the fill is recorded before its first use.
fn clear(arena: &mut Arena, buffer: u32, size: u64) {
    arena.push(&Fill { buffer, value: 0, offset: 0, size });
}

pub(crate) fn stale<K>(kind: &'static str, id: crate::handle::Id<K>) -> Error {
    Error::Stale { kind, id: id.to_string() }
}

fn check_range(size: u64, offset: u64, bytes: u64) -> Result<()> {
    if !offset.is_multiple_of(4) {
        return Err(Error::argument("offset", format!("{offset} bytes"), "a multiple of 4 bytes"));
    }
    if !bytes.is_multiple_of(4) {
        return Err(Error::argument("data", format!("{bytes} bytes"), "a multiple of 4 bytes"));
    }
    if offset.checked_add(bytes).is_none_or(|end| end > size) {
        return Err(Error::argument(
            "data",
            format!("{bytes} bytes at offset {offset}"),
            format!("a range inside the buffer's {size} bytes"),
        ));
    }
    Ok(())
}
