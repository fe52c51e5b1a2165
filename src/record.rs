//! The verbs: each validates everything it was given, then appends its commands. No Vulkan, no Luau.
//!
//! A refused call leaves the arena byte for byte as it was. Nothing here allocates in a steady frame.

use crate::arena::Arena;
use crate::command::{Bound, Dispatch, Fill, PARAMS_INLINE, Read, Upload, Uses, View};
use crate::error::{Error, Result};
use crate::inspect::Ledger;
use crate::plan::text::Names;
use crate::registry::{
    Buffer, BufferDesc, BufferId, MAX_EARLY_KEYS, Program, ProgramId, ProgramState, Registry, Resident, remember,
};
use crate::ring::Slice;
use crate::shader::{Interface, ProgramSource};
use smallvec::SmallVec;

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
}

/// A frame being recorded, and the names it is recorded with.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub arena: Arena,
    pub registry: Registry,
    pub ledger: Ledger,
    pub limits: Limits,
    /// Number of the frame being recorded, from 1.
    pub frame: u64,
    requests: u64,
    /// Programs whose parameter block was staged this frame.
    staged: Vec<ProgramId>,
    /// Program slots to reuse once no command of this frame names them.
    removed_programs: Vec<u32>,
}

impl Recorder {
    pub fn new(limits: Limits) -> Self {
        Self {
            arena: Arena::default(),
            registry: Registry::default(),
            ledger: Ledger::default(),
            limits,
            frame: 1,
            requests: 0,
            staged: Vec::new(),
            removed_programs: Vec::new(),
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
        let id =
            self.registry.buffers.insert(Buffer { name: name.into(), desc, created_frame: self.frame, fresh: true });
        (id, self.registry.buffer_names.insert(name.into(), id))
    }

    /// Takes a buffer out of the registry. The slot is recycled when the device is done with it.
    pub fn remove_buffer(&mut self, id: BufferId) -> bool {
        let Some(buffer) = self.registry.buffers.remove(id) else { return false };
        if self.registry.buffer_names.get(&buffer.name) == Some(&id) {
            self.registry.buffer_names.remove(&buffer.name);
        }
        self.ledger.forget_buffer(id);
        true
    }

    pub fn buffer(&self, id: BufferId) -> Result<&Buffer> {
        self.registry.buffers.get(id).ok_or_else(|| stale("buffer", id))
    }

    pub fn check_write(&self, id: BufferId, offset: u64, bytes: u64) -> Result<()> {
        let size = self.buffer(id)?.desc.size;
        check_range(size, offset, bytes)
    }

    /// Appends an upload that [`Recorder::check_write`] has let through.
    pub fn upload(&mut self, id: BufferId, offset: u64, size: u64, from: Slice) {
        let Some(buffer) = self.registry.buffers.get_mut(id) else { return };
        let whole = offset == 0 && size == buffer.desc.size;
        if std::mem::take(&mut buffer.fresh) && !whole {
            clear(&mut self.arena, id.index(), buffer.desc.size);
        }
        self.arena.push(&Upload { buffer: id.index(), segment: from.segment, source: from.offset, offset, size });
    }

    /// Why a buffer cannot be read, if so; its size otherwise.
    pub fn check_read(&self, id: BufferId) -> Result<u64> {
        let buffer = self.buffer(id)?;
        if !buffer.desc.readback {
            return Err(Error::argument(
                "buffer",
                format!("\"{}\"", buffer.name),
                "a buffer created without readback = false",
            ));
        }
        Ok(buffer.desc.size)
    }

    /// Appends a copy of the whole buffer to a readback slice.
    pub fn read(&mut self, id: BufferId, to: Slice) {
        let Some(buffer) = self.registry.buffers.get_mut(id) else { return };
        let size = buffer.desc.size;
        if std::mem::take(&mut buffer.fresh) {
            clear(&mut self.arena, id.index(), size);
        }
        self.arena.push(&Read { buffer: id.index(), segment: to.segment, offset: 0, destination: to.offset, size });
    }

    // ---- programs ----

    /// Files a request to compile. Returns the program and the request's number.
    pub fn request_program(&mut self, source: &ProgramSource) -> (ProgramId, u64) {
        self.requests += 1;
        let (declared, takes_params) = match &source.interface {
            Interface::Declared { params, .. } => (params.clone(), true),
            Interface::Reflected { .. } => (Vec::new(), false),
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
                    takes_params,
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
            program.takes_params = takes_params;
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
            resident.params.write(&mut resident.block, &s.name, s.component, s.value);
        }
        let written: SmallVec<[bool; 8]> = resident.slots.iter().map(|s| !s.uses.writes().is_none()).collect();
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
        if !declared {
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

    // ---- dispatch ----

    /// Records a dispatch, or counts it as a failure of its (program, target) pair and says why.
    ///
    /// `stage` places a parameter block that does not fit push constants; it is called at most once a program and
    /// frame while the block stays the same.
    pub fn dispatch(
        &mut self,
        id: ProgramId,
        buffers: &[BufferId],
        groups: [u32; 3],
        stage: impl FnOnce(&[u8]) -> Result<Slice>,
    ) -> Result<()> {
        let Self { arena, registry, ledger, limits, frame, staged, .. } = self;
        let program = registry.programs.get_mut(id).ok_or_else(|| stale("program", id))?;
        let Some(resident) = &mut program.resident else {
            let error = not_resident(program);
            return Err(self.refuse_by_id(id, buffers, error));
        };
        if buffers.len() != resident.slots.len() {
            let error = Error::argument(
                "buffers",
                format!("{} buffers", buffers.len()),
                format!("{} for program \"{}\": {}", resident.slots.len(), program.key, list(resident)),
            );
            return Err(self.refuse_by_id(id, buffers, error));
        }
        let mut bound: SmallVec<[Bound; 16]> = SmallVec::new();
        let mut targets: SmallVec<[u64; 16]> = SmallVec::new();
        let mut problem = None;
        let mut fresh = false;
        for (i, (buffer_id, slot)) in buffers.iter().zip(&resident.slots).enumerate() {
            let Some(buffer) = registry.buffers.get(*buffer_id) else {
                return Err(stale("buffer", *buffer_id));
            };
            fresh |= buffer.fresh;
            if !slot.uses.writes().is_none() {
                targets.push(buffer_id.to_bits());
            }
            bound.push(Bound::new(buffer_id.index(), slot.uses));
            let most = if slot.uniform { limits.max_uniform_range } else { limits.max_storage_range };
            if buffer.desc.size > most || buffer.desc.size < slot.min_bytes {
                problem.get_or_insert(i);
            }
        }
        if targets.is_empty() {
            targets.extend(buffers.iter().map(|b| b.to_bits()));
        }
        let over = (0..3).find(|&axis| groups[axis].wrapping_sub(1) >= limits.max_workgroups[axis]);
        if problem.is_some() || over.is_some() {
            let error = match (over, problem) {
                (Some(axis), _) => bad_groups(axis, groups[axis], limits),
                (_, Some(i)) => bad_size(
                    i,
                    &resident.bindings[i].name,
                    registry.buffers.get(buffers[i]),
                    resident.slots[i].min_bytes,
                    limits,
                    resident.slots[i].uniform,
                ),
                _ => return Ok(()),
            };
            return Err(self.refuse(id, &targets, error));
        }
        let params_staged = resident.params_staged();
        let (segment, offset) = if params_staged {
            let slice = match resident.staged {
                Some(slice) => slice,
                None => match stage(&resident.block) {
                    Ok(slice) => {
                        staged.push(id);
                        *resident.staged.insert(slice)
                    }
                    Err(error) => return Err(self.refuse(id, &targets, error)),
                },
            };
            (slice.segment, slice.offset as u32)
        } else {
            (PARAMS_INLINE, 0)
        };
        if fresh {
            for buffer_id in buffers {
                if let Some(buffer) = registry.buffers.get_mut(*buffer_id)
                    && std::mem::take(&mut buffer.fresh)
                {
                    clear(arena, buffer_id.index(), buffer.desc.size);
                }
            }
        }
        // The row's names are needed only when it is new; the registry lends them without the programs' contents.
        let row = ledger.row(id.to_bits(), &targets, registry);
        ledger.ran(row, *frame);
        let Some(resident) = registry.programs.get(id).and_then(|p| p.resident.as_ref()) else { return Ok(()) };
        let params: &[u8] = if params_staged { &[] } else { &resident.block };
        arena.push_dispatch(
            &Dispatch {
                program: id.index(),
                pipeline: resident.pipeline,
                groups,
                row,
                param_segment: segment,
                param_offset: offset,
                bindings: bound.len() as u32,
                param_bytes: params.len() as u32,
            },
            &bound,
            params,
        );
        Ok(())
    }

    /// Counts a refused dispatch whose program or buffers are not there by name.
    pub fn refuse_by_name(&mut self, shader: &str, bound: &[&str], error: &Error) {
        self.ledger.failed_by_name(shader, bound, self.frame, &error.to_string());
    }

    #[cold]
    fn refuse(&mut self, id: ProgramId, targets: &[u64], error: Error) -> Error {
        let row = self.ledger.row(id.to_bits(), targets, &self.registry);
        self.ledger.failed(row, self.frame, &error.to_string());
        error
    }

    /// Counts a refused dispatch whose written buffers cannot be told.
    #[cold]
    fn refuse_by_id(&mut self, id: ProgramId, buffers: &[BufferId], error: Error) -> Error {
        let key = self.registry.programs.get(id).map(|p| p.key.clone()).unwrap_or_default();
        let name = |b: &BufferId| self.registry.buffers.get(*b).map_or("(destroyed)", |b| &*b.name);
        let names: Vec<&str> = buffers.iter().map(name).collect();
        self.ledger.failed_by_name(&key, &names, self.frame, &error.to_string());
        error
    }

    // ---- frame ----

    /// Undoes what the frame's commands promised: they never reached the device.
    pub fn undo_frame(&mut self, error: &str) {
        for (_, view) in self.arena.iter() {
            match view {
                View::Dispatch(c, ..) => self.ledger.undo(c.row, c.program, self.frame, error),
                // The only fills are those that give a new buffer its zeros.
                View::Fill(c) => {
                    if let Some(buffer) = self.registry.buffers.at_mut(c.buffer) {
                        buffer.fresh = true;
                    }
                }
                View::Upload(_) | View::Read(_) => {}
            }
        }
    }

    /// Forgets the frame's commands and starts the next one.
    pub fn next_frame(&mut self) {
        for id in self.staged.drain(..) {
            if let Some(resident) = self.registry.programs.get_mut(id).and_then(|p| p.resident.as_mut()) {
                resident.staged = None;
            }
        }
        for index in self.removed_programs.drain(..) {
            self.registry.programs.recycle(index);
        }
        self.arena.reset();
        self.frame += 1;
    }
}

impl Names for Registry {
    fn resource(&self, index: u32) -> String {
        self.buffers.at(index).map_or_else(|| format!("(destroyed {index})"), |b| b.name.to_string())
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

fn not_resident(program: &Program) -> Error {
    let key = &program.key;
    Error::Shader(match program.state {
        ProgramState::Failed => format!(
            "program \"{key}\" failed to compile: {}",
            program.error.as_deref().unwrap_or("no reason was given")
        ),
        _ => format!("program \"{key}\" is still being compiled: wait until programState answers \"ready\""),
    })
}

fn list(resident: &Resident) -> String {
    let names: Vec<&str> = resident.bindings.iter().map(|b| &*b.name).collect();
    format!("[{}]", names.join(", "))
}

fn bad_groups(axis: usize, given: u32, limits: &Limits) -> Error {
    Error::argument(
        format!("workgroups[{}]", axis + 1),
        given,
        format!("1 to {} ({} axis of {})", limits.max_workgroups[axis], ["x", "y", "z"][axis], limits.device),
    )
}

fn bad_size(i: usize, binding: &str, buffer: Option<&Buffer>, least: u64, limits: &Limits, uniform: bool) -> Error {
    let (name, size) = buffer.map_or(("", 0), |b| (&*b.name, b.desc.size));
    let (most, what) =
        if uniform { (limits.max_uniform_range, "uniform") } else { (limits.max_storage_range, "storage") };
    Error::argument(
        format!("buffers[{}]", i + 1),
        format!("\"{name}\" of {size} bytes"),
        format!("{least} to {most} bytes for binding \"{binding}\" (the {what} range limit of {})", limits.device),
    )
}

/// For the ledger's rows a program and its buffers are told by what they do; see [`Uses`].
const _: () = assert!(Uses::COUNT <= 5, "Bound packs five use bits");
