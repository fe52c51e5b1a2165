//! The Rust API: a device, the verbs that record on it, and the keys that come back.

mod frame;
mod hierarchy;
mod texture;

#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::inspect::{DispatchRecord, GpuFrame, Inventory, Presence};
use crate::plan::{Plan, Planner};
use crate::readback::{Entry, ReadKey, ReadState, ReadTable};
use crate::record::{Recorder, stale};
use crate::registry::{Bind, BufferDesc, BufferId, ProgramId, ProgramState, TextureId};
use crate::shader::{self, ProgramSource};
use crate::texture::SamplerDesc;
use crate::vk::{Backend, DeviceInfo, DeviceOptions, MemoryUse};
pub use hierarchy::{BvhId, Hierarchy};
use smallvec::SmallVec;
use std::rc::Rc;
use std::time::Instant;

/// Gives the text of an included file by its name, or `None` for a name it does not know.
pub type Includes = Box<dyn Fn(&str) -> Option<String>>;

/// What one frame came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameStats {
    /// The frame's number, from 1.
    pub frame: u64,
    /// Commands recorded; 0 for a frame that was not submitted.
    pub commands: u32,
    /// Levels they fell into.
    pub levels: u32,
    /// Memory barriers between the levels.
    pub barriers: u32,
}

/// A device with one ordered stream of commands.
///
/// Verbs take effect in the order they are called. They record; nothing runs before [`Gpu::end_frame`]. No verb
/// waits for the device except where its name says so.
///
/// Dropping it waits, bounded, for the device to finish, and frees everything.
pub struct Gpu {
    recorder: Recorder,
    planner: Planner,
    plan: Plan,
    reads: ReadTable,
    /// The texture that `scene_depth` binds, supplied by the host.
    scene_depth: Option<TextureId>,
    includes: Includes,
    /// Frames that are still to be timed since somebody last asked for times.
    timed_frames: u32,
    builds: hierarchy::Builds,
    backend: Backend,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("device", &self.info().name)
            .field("frame", &self.recorder.frame)
            .finish_non_exhaustive()
    }
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::NoVulkan`] without a loader, [`Error::NoDevice`] with the reason of each device when none serves,
    /// [`Error::NoValidationLayer`] when validation was asked for and is not installed.
    pub fn open(options: &DeviceOptions) -> Result<Self> {
        let backend = Backend::open(options)?;
        let mut gpu = Self {
            recorder: Recorder::new(backend.info().limits.clone()),
            planner: Planner::default(),
            plan: Plan::default(),
            reads: ReadTable::default(),
            scene_depth: None,
            includes: Box::new(|_| None),
            timed_frames: 0,
            builds: hierarchy::Builds::default(),
            backend,
        };
        for (name, filter, clamp) in texture::BUILT_IN_SAMPLERS {
            gpu.add_sampler(name, SamplerDesc { filter: *filter, clamp: *clamp }, true)?;
        }
        Ok(gpu)
    }

    /// The device.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        self.backend.info()
    }

    /// What programs are compiled for.
    #[must_use]
    pub fn target(&self) -> &shader::Target {
        self.backend.target()
    }

    /// Number of the frame being recorded, from 1.
    #[must_use]
    pub fn frame(&self) -> u64 {
        self.recorder.frame
    }

    /// What the validation layer has said since the last call. Always empty without validation.
    #[must_use]
    pub fn validation_messages(&self) -> Vec<String> {
        self.backend.validation_messages()
    }

    /// Bytes held, by what they are for.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        self.backend.memory_use()
    }

    // ---- buffers ----

    /// Allocates a buffer under a name. Its bytes are zero. A live buffer of that name is destroyed first.
    ///
    /// Cost: one allocation; the zero fill is recorded with the first use unless that overwrites the whole buffer.
    ///
    /// # Errors
    /// [`Error::Argument`] for a size that is zero or no multiple of 4, or an empty name; [`Error::Limit`] over the device's limit;
    /// [`Error::OutOfMemory`]. On any error nothing has changed, and the buffer of that name still lives.
    pub fn create_buffer(&mut self, name: &str, desc: BufferDesc) -> Result<BufferId> {
        self.backend.check_lost()?;
        if name.is_empty() {
            return Err(Error::argument("name", "an empty string", "a name of at least one byte"));
        }
        self.recorder.check_buffer(&desc)?;
        let buffer = self.backend.create_buffer(name, &desc)?;
        let (id, replaced) = self.recorder.add_buffer(name, desc);
        self.backend.place_buffer(id.index(), buffer);
        if let Some(old) = replaced {
            self.release_buffer(old);
        }
        Ok(id)
    }

    /// Destroys a buffer. Commands recorded before still use it; its memory is freed when they have run.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn destroy_buffer(&mut self, id: BufferId) -> Result<()> {
        if self.release_buffer(id) { Ok(()) } else { Err(stale("buffer", id)) }
    }

    fn release_buffer(&mut self, id: BufferId) -> bool {
        let removed = self.recorder.remove_buffer(id);
        if removed {
            self.backend.discard_resource(id.index());
        }
        removed
    }

    /// The live buffer of a name.
    #[must_use]
    pub fn find_buffer(&self, name: &str) -> Option<BufferId> {
        self.recorder.registry.buffer_names.get(name).copied()
    }

    /// What a buffer was created as; `None` once it is destroyed.
    #[must_use]
    pub fn buffer_desc(&self, id: BufferId) -> Option<BufferDesc> {
        self.recorder.buffer(id).ok().map(|(_, desc)| desc)
    }

    /// The name of a live buffer.
    #[must_use]
    pub fn buffer_name(&self, id: BufferId) -> Option<&str> {
        self.recorder.buffer(id).ok().map(|(buffer, _)| &*buffer.name)
    }

    /// Writes bytes into a buffer at a byte offset; both multiples of 4.
    ///
    /// Cost: one copy into upload memory and one recorded command.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Argument`] for a misaligned or out-of-range write, [`Error::OutOfMemory`].
    pub fn write_buffer(&mut self, id: BufferId, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_buffer_with(id, offset, bytes.len() as u64, |to| {
            to.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// Writes `size` bytes that `fill` puts straight into upload memory. An error from `fill` records nothing.
    ///
    /// The memory may be write-combined: `fill` should write it front to back and not read it.
    ///
    /// # Errors
    /// As [`Gpu::write_buffer`], and whatever `fill` answers.
    pub fn write_buffer_with<E: From<Error>>(
        &mut self,
        id: BufferId,
        offset: u64,
        size: u64,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.backend.check_lost()?;
        self.recorder.check_write(id, offset, size)?;
        if size == 0 {
            return fill(&mut []);
        }
        let slice = self.backend.stage(size, 4)?;
        let filled = match self.backend.staged_bytes(slice, size) {
            Ok(bytes) => fill(bytes),
            Err(error) => Err(error.into()),
        };
        match filled {
            Ok(()) => self.recorder.upload(id, offset, size, slice),
            Err(_) => self.backend.unstage(slice),
        }
        filled
    }

    // ---- readback ----

    /// Starts reading a whole buffer back: the bytes are those it holds after everything recorded before.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Argument`] for a buffer created without readback, [`Error::OutOfMemory`].
    pub fn read_buffer(&mut self, id: BufferId) -> Result<ReadKey> {
        self.backend.check_lost()?;
        let bytes = self.recorder.check_read(id)?;
        let slice = self.backend.acquire_read(bytes)?;
        self.recorder.read(id, slice);
        Ok(self.reads.issue(Entry { serial: self.backend.serial(), slice, bytes }))
    }

    /// Where a readback stands. Reads the device's progress; never waits.
    pub fn read_state(&mut self, key: ReadKey) -> ReadState {
        let state = self.reads.state(key, self.backend.completed());
        if state != ReadState::Pending {
            return state;
        }
        let completed = self.backend.advance();
        self.reads.state(key, completed)
    }

    /// Takes a finished readback: `take` sees the bytes in place, and the key names nothing afterwards.
    /// `None` while it is pending.
    ///
    /// # Errors
    /// [`Error::Unknown`] for a key that was never issued or whose bytes were already taken.
    pub fn take_read<R>(&mut self, key: ReadKey, take: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        match self.read_state(key) {
            ReadState::Pending => Ok(None),
            ReadState::Unknown => Err(Error::Unknown { kind: "readback key", name: crate::readback::key_text(key) }),
            ReadState::Ready => {
                let Some(entry) = self.reads.take(key) else { return Ok(None) };
                let out = self.backend.read_bytes(entry.slice, entry.bytes).map(take);
                self.backend.release_read(entry.slice);
                out.map(Some)
            }
        }
    }

    /// Bytes of a readback that was issued and not taken yet.
    #[must_use]
    pub fn read_size(&self, key: ReadKey) -> Option<u64> {
        self.reads.get(key).map(|entry| entry.bytes)
    }

    /// Waits until a readback of an ended frame is ready, at most the device's wait limit, and takes its bytes.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Timeout`] (also for a read whose frame has not ended), [`Error::DeviceLost`].
    pub fn wait_read(&mut self, key: ReadKey) -> Result<Vec<u8>> {
        let limit = self.backend.wait_limit();
        if let Some(serial) = self.reads.get(key).map(|e| e.serial) {
            self.backend.wait(serial, limit)?;
        }
        let bytes = self.take_read(key, <[u8]>::to_vec)?;
        bytes.ok_or(Error::Timeout { what: "a readback", waited: limit })
    }

    // ---- programs ----

    /// Asks for a program under `source.key`. It is compiled on a worker thread and is `ready` or `failed` in a
    /// later frame; until then a program already resident under the key stays the one that dispatches bind.
    ///
    /// # Errors
    /// [`Error::Argument`] when the interface is not well-formed. A source that does not compile is no error here:
    /// see [`Gpu::program_state`].
    pub fn compile(&mut self, mut source: ProgramSource) -> Result<ProgramId> {
        if let Err(error) = shader::expand(&mut source, &self.includes) {
            return self.compile_failed(&source, error.to_string());
        }
        self.compile_expanded(source)
    }

    /// [`Gpu::compile`] with includes of its own.
    ///
    /// # Errors
    /// As [`Gpu::compile`].
    pub fn compile_with(
        &mut self,
        mut source: ProgramSource,
        includes: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ProgramId> {
        if let Err(error) = shader::expand(&mut source, &|name| includes(name).or_else(|| (self.includes)(name))) {
            return self.compile_failed(&source, error.to_string());
        }
        self.compile_expanded(source)
    }

    /// Files a program whose source could not even be put together: it is `failed`, and one that was resident under
    /// the key stays so.
    ///
    /// # Errors
    /// [`Error::Argument`] for an empty key, [`Error::DeviceLost`].
    pub fn compile_failed(&mut self, source: &ProgramSource, reason: String) -> Result<ProgramId> {
        self.check_key(source)?;
        let (id, _) = self.recorder.request_program(source);
        tracing::warn!("{reason}");
        self.recorder.program_failed(id, reason);
        Ok(id)
    }

    fn check_key(&self, source: &ProgramSource) -> Result<()> {
        self.backend.check_lost()?;
        if source.key.is_empty() {
            return Err(Error::argument("name", "an empty string", "a name of at least one byte"));
        }
        Ok(())
    }

    fn compile_expanded(&mut self, source: ProgramSource) -> Result<ProgramId> {
        self.check_key(&source)?;
        shader::check_interface(&source).map_err(|e| Error::Argument {
            field: e.field,
            given: e.given,
            accepted: e.accepted,
        })?;
        let (id, request) = self.recorder.request_program(&source);
        self.backend.compile(id.to_bits(), request, source)?;
        Ok(id)
    }

    /// Says where `#include` finds files; built-in ones are looked for last. Called while compiling, on the caller's
    /// thread.
    pub fn set_includes(&mut self, includes: Includes) {
        self.includes = includes;
    }

    /// Where a program stands, and the reason when it failed.
    #[must_use]
    pub fn program_state(&self, id: ProgramId) -> (ProgramState, Option<&str>) {
        self.recorder.program_state(id)
    }

    /// The program of a key.
    #[must_use]
    pub fn find_program(&self, key: &str) -> Option<ProgramId> {
        self.recorder.registry.program_names.get(key).copied()
    }

    /// The key of a live program.
    #[must_use]
    pub fn program_key(&self, id: ProgramId) -> Option<&str> {
        self.recorder.registry.programs.get(id).map(|p| &*p.key)
    }

    /// Position among a resident program's bindings of the one with this name.
    #[must_use]
    pub fn binding_of(&self, id: ProgramId, name: &str) -> Option<usize> {
        let resident = self.recorder.registry.programs.get(id)?.resident.as_ref()?;
        resident.bindings.iter().position(|b| *b.name == *name)
    }

    /// Workgroup size of the resident program, for turning a problem size into workgroups.
    #[must_use]
    pub fn workgroup_size(&self, id: ProgramId) -> Option<[u32; 3]> {
        self.recorder.registry.programs.get(id)?.resident.as_ref().map(|r| r.workgroup_size)
    }

    /// Waits, at most the device's wait limit, until a program is no longer pending.
    ///
    /// # Errors
    /// [`Error::Shader`] when it failed, [`Error::Timeout`], [`Error::Stale`].
    pub fn wait_program(&mut self, id: ProgramId) -> Result<()> {
        let start = Instant::now();
        let limit = self.backend.wait_limit();
        loop {
            match self.recorder.program_state(id) {
                (ProgramState::Ready, _) => return Ok(()),
                (ProgramState::Failed, why) => return Err(Error::Shader(why.unwrap_or_default().to_owned())),
                (ProgramState::Absent, _) => return Err(stale("program", id)),
                (ProgramState::Pending, _) => {}
            }
            let left = crate::vk::remaining(start, limit);
            match self.backend.wait_built(left) {
                Some(built) => self.adopt(built),
                None => return Err(Error::Timeout { what: "a program", waited: limit }),
            }
        }
    }

    /// Releases a program. Dispatches recorded before still run.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn destroy_program(&mut self, id: ProgramId) -> Result<()> {
        let pipeline = self.recorder.remove_program(id).ok_or_else(|| stale("program", id))?;
        if let Some(pipeline) = pipeline {
            self.backend.discard_pipeline(pipeline);
        }
        Ok(())
    }

    /// Sets a parameter of a program, or one component of it (0 for a scalar): later dispatches see it, earlier
    /// ones of the same frame do not. The value outlives recompiles. False when the program declares no such one.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn set_param(&mut self, id: ProgramId, name: &str, component: usize, value: f64) -> Result<bool> {
        self.recorder.set_param(id, name, component, value)
    }

    /// Keeps a parameter value for a key that no program has yet; its first compile starts with it.
    /// False when a thousand keys are waiting already.
    pub fn set_early_param(&mut self, key: &str, name: &str, component: usize, value: f64) -> bool {
        self.recorder.set_early(key, name, component, value)
    }

    /// Files under `key` what was kept for `name`, which has turned out to mean the same program: parameters set early
    /// and dispatches that failed. Nothing happens while a program of its own is called `name`.
    pub fn adopt_key(&mut self, name: &str, key: &str) {
        self.recorder.adopt_key(name, key);
    }

    /// Runs a program over `groups` workgroups with one buffer a binding, in binding order.
    ///
    /// Cost: no heap, no hash, no string.
    ///
    /// # Errors
    /// [`Error::Stale`] records nothing. Every other refusal (a program that is not ready, the wrong number of
    /// buffers, a size that does not fit, a workgroup count of zero or over the limit) is also counted in
    /// [`Gpu::failing`] until the same program and target run again.
    pub fn dispatch(&mut self, id: ProgramId, buffers: &[BufferId], groups: [u32; 3]) -> Result<()> {
        let binds: SmallVec<[Bind; 16]> = buffers.iter().map(|b| Bind::Buffer(*b)).collect();
        self.dispatch_with(id, &binds, groups)
    }

    /// [`Gpu::dispatch`] with resources of any kind: one a binding in binding order, as many as it has textures for
    /// an array of them.
    ///
    /// # Errors
    /// As [`Gpu::dispatch`].
    pub fn dispatch_with(&mut self, id: ProgramId, binds: &[Bind], groups: [u32; 3]) -> Result<()> {
        self.backend.check_lost()?;
        let Self { recorder, backend, .. } = self;
        recorder.dispatch(id, binds, groups, |block| {
            let slice = backend.stage(block.len() as u64, backend.uniform_alignment())?;
            backend.staged_bytes(slice, block.len() as u64)?.copy_from_slice(block);
            Ok(slice)
        })
    }

    /// Counts a dispatch that never came about because its program or a buffer is not there, under their names.
    pub fn dispatch_failed(&mut self, shader: &str, buffers: &[&str], error: &Error) {
        self.recorder.refuse_by_name(shader, buffers, error);
    }

    /// The (program, target) pairs whose most recent dispatch failed, most recent first.
    #[must_use]
    pub fn failing(&self) -> Vec<DispatchRecord> {
        self.recorder.ledger.failing(&self.recorder.registry)
    }

    /// The dispatches of the program under `key`, one row a target, most recent first.
    #[must_use]
    pub fn status(&self, key: &str) -> Vec<DispatchRecord> {
        self.recorder.ledger.status(key, &self.recorder.registry)
    }

    // ---- inventory ----

    /// What is held on the device, as published at the end of the last frame in which something came or went.
    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.recorder.inventory
    }

    /// Whether a key names a resource, and the live key in its place when it names a former one.
    #[must_use]
    pub fn diagnose(&self, key: &str) -> (Presence, Option<String>) {
        self.recorder.inventory.diagnose(key, &self.recorder.registry)
    }

    /// Creates a buffer that `owner` holds under `name`: its key is the owner's own and changes with every creation,
    /// so that an old key never names a new buffer. The owner's former buffer of that name is destroyed.
    ///
    /// # Errors
    /// As [`Gpu::create_buffer`].
    pub fn create_owned_buffer(&mut self, owner: &str, name: &str, desc: BufferDesc) -> Result<String> {
        if owner.is_empty() || owner.contains('/') || name.is_empty() {
            let given = format!("\"{owner}\", \"{name}\"");
            return Err(Error::argument("name", given, "an owner without a slash and a name, neither empty"));
        }
        let key = crate::inspect::owned_key(owner, name, self.recorder.next_serial());
        let (_, former) = self.diagnose(&key);
        self.create_buffer(&key, desc)?;
        if let Some(id) = former.and_then(|k| self.find_buffer(&k)) {
            self.release_buffer(id);
        }
        Ok(key)
    }

    /// Whether a buffer still has only the zeros it was created with: nothing was recorded that touches it, or the frame
    /// that did never reached the device.
    #[must_use]
    pub fn is_untouched(&self, buffer: BufferId) -> bool {
        self.recorder.untouched(buffer)
    }

    /// Creates a buffer for the vertices of a mesh. It is filed under `meshes` and the mesh's guid, a renderer may draw
    /// from it, and dispatches that write it are reported under the guid.
    ///
    /// # Errors
    /// As [`Gpu::create_buffer`].
    pub fn create_vertex_buffer(&mut self, mesh: &str, size: u64) -> Result<BufferId> {
        let desc = BufferDesc { vertex: true, ..BufferDesc::new(size) };
        let key = self.create_owned_buffer("meshes", mesh, desc)?;
        let id = self.find_buffer(&key).ok_or(Error::Unknown { kind: "buffer", name: key })?;
        if let Some(resource) = self.recorder.registry.resources.get_mut(id) {
            resource.mesh = Some(mesh.into());
        }
        Ok(id)
    }

    /// GPU time by label of the most recent timed frame that is done. Asking makes the next 64 frames timed ones; the
    /// first call has nothing to tell, and on a device without timestamps none has.
    ///
    /// What is timed is a level, see [`GpuFrameRow`](crate::inspect::GpuFrameRow): independent dispatches still run side
    /// by side. A level without a barrier may begin while the frame before still runs; it is then charged with that too.
    ///
    /// Cost: one timestamp a level in timed frames, where the level waits anyway, and one at the frame's end.
    pub fn gpu_frame(&mut self) -> Option<Rc<GpuFrame>> {
        self.timed_frames = 64;
        self.backend.timed()
    }
}
