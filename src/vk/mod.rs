//! The Vulkan backend: the only user of `ash` and `gpu-allocator`, and the home of nearly all `unsafe`.
//!
//! All state structs of the backend are declared here or at the top of the file named after their Vulkan noun.
//!
//! # Soundness
//!
//! Calls into Vulkan are unsafe because the driver trusts its caller. What this module keeps true throughout, and
//! what the `SAFETY` notes below refer to:
//!
//! - **alive**: every handle passed to a call was created from this [`Shared`] device and has not been destroyed.
//!   Handles are owned by exactly one struct and destroyed in one place; those that a submitted frame may use go
//!   through [`Backend::discard`], which destroys them after the timeline semaphore has passed that frame.
//! - **single owner**: command pools, descriptor pools, the queue and the timeline are used by the thread that owns
//!   the [`Backend`] (`&mut self`), so their external synchronization holds. The worker thread touches only objects
//!   that it makes itself, and the pipeline cache, which nobody else uses.
//! - **valid structs**: create infos point to locals that outlive the call.

mod debug;
mod descriptor;
mod encode;
mod frame;
mod image;
mod instance;
mod memory;
mod pipeline;
mod profile;
mod select;
mod staging;
mod worker;

pub use select::{DeviceReport, Verdict, devices};

use crate::error::{Error, Result};
use crate::record::Limits;
use crate::registry::BufferDesc;
use crate::ring::Slice;
use crate::shader::{Binding, ParamLayout, ProgramSource};
use crate::texture::{SamplerDesc, TextureDesc};
use ash::vk;
use image::GpuTexture;
use memory::{GpuBuffer, Intent, Memory};
use staging::Staging;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How to open a device.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Index, or part of the device or driver name. Without it the environment variable `ASHFALL_DEVICE`, and
    /// without that the best device there is.
    pub device: Option<String>,
    /// Turn the Khronos validation layer and its synchronization validation on.
    pub validation: bool,
    /// Label every dispatch in the command buffer, for captures and validation messages. Costs a call a dispatch.
    pub labels: bool,
    /// Frames that may be on the device at once, 1 to 8. The next one waits for the oldest.
    pub frames_in_flight: u32,
    /// The longest any wait may take before it becomes [`Error::Timeout`].
    pub wait_limit: Duration,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self { device: None, validation: false, labels: false, frames_in_flight: 2, wait_limit: Duration::from_secs(5) }
    }
}

/// What the chosen device is and can do.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The device's name.
    pub name: String,
    /// The driver's name and version text.
    pub driver: String,
    /// Vulkan version, as `major.minor.patch`.
    pub api_version: String,
    /// Whether descriptors are pushed into the command buffer.
    pub push_descriptors: bool,
    /// Whether out-of-bounds buffer accesses are caught by the device.
    pub robust_buffer_access2: bool,
    /// Whether frames can be timed.
    pub timestamps: bool,
    /// Largest workgroup, per axis.
    pub max_workgroup_size: [u32; 3],
    /// Most invocations of one workgroup.
    pub max_workgroup_invocations: u32,
    /// Limits that recording checks.
    pub limits: Limits,
}

/// The device and what hangs on it for as long as anything uses it.
pub(crate) struct Shared {
    pub physical: vk::PhysicalDevice,
    pub device: ash::Device,
    pub queue: vk::Queue,
    pub queue_family: u32,
    pub push: Option<ash::khr::push_descriptor::Device>,
    pub max_push_descriptors: u32,
    pub names: Option<ash::ext::debug_utils::Device>,
    pub labels: bool,
    pub info: DeviceInfo,
    pub target: crate::shader::Target,
    pub properties: select::Properties,
    pub wait_limit: Duration,
    pub lost: AtomicBool,
    // Last: destroyed after the device.
    pub instance: instance::Instance,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: every object made from the device belongs to a struct that holds this one and is gone by now.
        unsafe { self.device.destroy_device(None) };
    }
}

impl Shared {
    /// Turns a Vulkan result into an error; remembers a lost device.
    pub fn error(&self, call: &'static str, result: vk::Result) -> Error {
        if result == vk::Result::ERROR_DEVICE_LOST {
            self.lost.store(true, Ordering::Relaxed);
        }
        error(call, result)
    }
}

/// Turns a Vulkan result into an error.
pub(crate) fn error(call: &'static str, result: vk::Result) -> Error {
    match result {
        vk::Result::ERROR_DEVICE_LOST => Error::DeviceLost { call },
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            Error::OutOfMemory { what: call.to_owned(), bytes: 0 }
        }
        other => Error::Vulkan { call, result: format!("{other:?}") },
    }
}

/// What waits for the device to be done with it.
enum Garbage {
    /// A buffer or texture, by slot.
    Resource(u32),
    /// A sampler, by slot.
    Sampler(u32),
    /// A pipeline, by slot.
    Pipeline(u32),
}

/// A program fresh from the worker.
pub(crate) struct Built {
    pub program: u64,
    pub request: u64,
    pub outcome: Result<BuiltProgram, String>,
}

/// The parts of a compiled program: the pipeline's slot and what recording needs to know.
pub(crate) struct BuiltProgram {
    pub pipeline: u32,
    pub bindings: Vec<Binding>,
    pub sampled: Vec<[u32; 2]>,
    pub params: ParamLayout,
    pub workgroup_size: [u32; 3],
}

/// Everything on the device. Field order is drop order.
pub(crate) struct Backend {
    worker: worker::Worker,
    /// Buffers and textures share their slots.
    buffers: Vec<Option<GpuBuffer>>,
    textures: Vec<Option<GpuTexture>>,
    samplers: Vec<vk::Sampler>,
    pipelines: Vec<Option<pipeline::Pipeline>>,
    free_pipelines: Vec<u32>,
    upload: Staging,
    readback: Staging,
    frames: Vec<frame::Frame>,
    next_frame: usize,
    timeline: vk::Semaphore,
    /// Serial of the last submission.
    submitted: u64,
    /// Highest serial known complete.
    completed: u64,
    discarded: Vec<Garbage>,
    garbage: VecDeque<(u64, Garbage)>,
    /// Upload segments touched by the frame being recorded, one entry a slice.
    upload_segments: Vec<u32>,
    /// The most recent timed frame that is done.
    timed: Option<std::rc::Rc<crate::inspect::GpuFrame>>,
    memory: Memory,
    shared: Arc<Shared>,
}

impl Backend {
    pub fn open(options: &DeviceOptions) -> Result<Self> {
        let instance = instance::Instance::new(options.validation)?;
        let shared = Arc::new(select::open(instance, options)?);
        let memory = Memory::new(&shared)?;
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: valid structs; timeline semaphores are a required feature.
        let timeline =
            unsafe { shared.device.create_semaphore(&info, None) }.map_err(|r| error("vkCreateSemaphore", r))?;
        let mut backend = Self {
            worker: worker::Worker::start(Arc::clone(&shared))?,
            buffers: Vec::new(),
            textures: Vec::new(),
            samplers: Vec::new(),
            pipelines: Vec::new(),
            free_pipelines: Vec::new(),
            upload: Staging::new("upload", Intent::Upload),
            readback: Staging::new("readback", Intent::Readback),
            frames: Vec::new(),
            next_frame: 0,
            timeline,
            submitted: 0,
            completed: 0,
            discarded: Vec::new(),
            garbage: VecDeque::new(),
            upload_segments: Vec::new(),
            timed: None,
            memory,
            shared,
        };
        backend.shared.set_name(timeline, "ashfall timeline");
        for index in 0..options.frames_in_flight.clamp(1, 8) {
            let frame = frame::Frame::new(&backend.shared, index)?;
            backend.frames.push(frame);
        }
        Ok(backend)
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    pub fn target(&self) -> &crate::shader::Target {
        &self.shared.target
    }

    pub fn validation_messages(&self) -> Vec<String> {
        self.shared.instance.messages()
    }

    pub fn check_lost(&self) -> Result<()> {
        if self.shared.lost.load(Ordering::Relaxed) {
            return Err(Error::DeviceLost { call: "an earlier call" });
        }
        Ok(())
    }

    // ---- buffers ----

    /// Makes the device buffer of a slot.
    pub fn create_buffer(&mut self, name: &str, desc: &BufferDesc) -> Result<GpuBuffer> {
        let intent = if desc.vertex { Intent::Vertices } else { Intent::Device };
        self.memory.buffer(&self.shared, name, desc.size, intent)
    }

    pub fn place_buffer(&mut self, slot: u32, buffer: GpuBuffer) {
        let slot = slot as usize;
        if slot >= self.buffers.len() {
            self.buffers.resize_with(slot + 1, || None);
        }
        self.buffers[slot] = Some(buffer);
    }

    /// Makes the image of a slot.
    pub fn create_texture(&mut self, name: &str, desc: &TextureDesc) -> Result<GpuTexture> {
        GpuTexture::new(&self.shared, &mut self.memory, name, desc)
    }

    pub fn place_texture(&mut self, slot: u32, texture: GpuTexture) {
        let slot = slot as usize;
        if slot >= self.textures.len() {
            self.textures.resize_with(slot + 1, || None);
        }
        self.textures[slot] = Some(texture);
    }

    pub fn create_sampler(&mut self, name: &str, desc: &SamplerDesc) -> Result<vk::Sampler> {
        image::sampler(&self.shared, name, desc)
    }

    pub fn place_sampler(&mut self, slot: u32, sampler: vk::Sampler) {
        let slot = slot as usize;
        if slot >= self.samplers.len() {
            self.samplers.resize(slot + 1, vk::Sampler::null());
        }
        self.samplers[slot] = sampler;
    }

    /// The buffer or texture of a slot goes away once the device is done with this frame.
    pub fn discard_resource(&mut self, slot: u32) {
        self.discarded.push(Garbage::Resource(slot));
    }

    /// The sampler of a slot goes away once the device is done with this frame.
    pub fn discard_sampler(&mut self, slot: u32) {
        self.discarded.push(Garbage::Sampler(slot));
    }

    /// A pipeline goes away once the device is done with this frame.
    pub fn discard_pipeline(&mut self, slot: u32) {
        self.discarded.push(Garbage::Pipeline(slot));
    }

    // ---- staging ----

    /// A slice of this frame's upload memory.
    pub fn stage(&mut self, size: u64, align: u64) -> Result<Slice> {
        let slice = self.upload.acquire(&mut self.memory, &self.shared, size, align)?;
        self.upload_segments.push(slice.segment);
        Ok(slice)
    }

    /// Gives the last staged slice back: nothing was recorded that uses it.
    pub fn unstage(&mut self, slice: Slice) {
        if self.upload_segments.last() == Some(&slice.segment) {
            self.upload_segments.pop();
            self.upload.release(slice.segment, self.submitted);
        }
    }

    pub fn staged_bytes(&mut self, slice: Slice, size: u64) -> Result<&mut [u8]> {
        self.upload.bytes_mut(slice, size)
    }

    /// Alignment of a parameter block in upload memory.
    pub fn uniform_alignment(&self) -> u64 {
        self.shared.properties.uniform_alignment
    }

    pub fn acquire_read(&mut self, size: u64) -> Result<Slice> {
        // 64 covers the copy's 4-byte rule and keeps a caller's cast to any scalar aligned.
        self.readback.acquire(&mut self.memory, &self.shared, size, 64)
    }

    pub fn release_read(&mut self, slice: Slice) {
        self.readback.release(slice.segment, self.submitted);
    }

    /// The bytes of a finished readback.
    pub fn read_bytes(&mut self, slice: Slice, size: u64) -> Result<&[u8]> {
        self.readback.bytes(&self.shared, slice, size)
    }

    // ---- programs ----

    pub fn compile(&mut self, program: u64, request: u64, source: ProgramSource) -> Result<()> {
        self.worker.submit(worker::Job { program, request, source })
    }

    /// The next program that the worker has finished, if any. Never waits.
    pub fn next_built(&mut self) -> Option<Built> {
        let answer = self.worker.poll()?;
        Some(self.file(answer))
    }

    fn file(&mut self, answer: worker::Answer) -> Built {
        let outcome = answer.outcome.map(|made| {
            let slot = match self.free_pipelines.pop() {
                Some(slot) => {
                    self.pipelines[slot as usize] = Some(made.pipeline);
                    slot
                }
                None => {
                    self.pipelines.push(Some(made.pipeline));
                    (self.pipelines.len() - 1) as u32
                }
            };
            BuiltProgram {
                pipeline: slot,
                bindings: made.bindings,
                sampled: made.sampled,
                params: made.params,
                workgroup_size: made.workgroup_size,
            }
        });
        Built { program: answer.program, request: answer.request, outcome }
    }

    /// Requests that the worker has not answered.
    pub fn compiling(&self) -> usize {
        self.worker.in_flight()
    }

    // ---- progress ----

    /// The serial that the frame being recorded will have when it is submitted.
    pub fn serial(&self) -> u64 {
        self.submitted + 1
    }

    /// Reads the timeline; returns the highest completed serial.
    pub fn advance(&mut self) -> u64 {
        if self.completed < self.submitted {
            // SAFETY: alive.
            match unsafe { self.shared.device.get_semaphore_counter_value(self.timeline) } {
                // A lost device may report any value; never more than was submitted, never backwards.
                Ok(value) => self.completed = value.clamp(self.completed, self.submitted),
                Err(result) => _ = self.shared.error("vkGetSemaphoreCounterValue", result),
            }
        }
        self.completed
    }

    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Waits until `serial` has completed, at most `limit`. False when the time ran out.
    pub fn wait(&mut self, serial: u64, limit: Duration) -> Result<bool> {
        if self.advance() >= serial {
            return Ok(true);
        }
        let semaphores = [self.timeline];
        let values = [serial.min(self.submitted)];
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: alive, valid structs.
        match unsafe { self.shared.device.wait_semaphores(&info, nanoseconds) } {
            Ok(()) => {
                self.completed = self.completed.max(values[0]);
                Ok(self.completed >= serial)
            }
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(result) => Err(self.shared.error("vkWaitSemaphores", result)),
        }
    }

    pub fn wait_limit(&self) -> Duration {
        self.shared.wait_limit
    }

    /// Waits for the worker to finish something, at most `limit`.
    pub fn wait_built(&mut self, limit: Duration) -> Option<Built> {
        let answer = self.worker.wait(limit)?;
        Some(self.file(answer))
    }

    /// Destroys what the device is done with; calls `freed` with each slot that may be reused, true for a resource
    /// and false for a sampler.
    pub fn collect(&mut self, mut freed: impl FnMut(u32, bool)) {
        self.read_timers();
        while self.garbage.front().is_some_and(|(serial, _)| *serial <= self.completed) {
            let Some((_, garbage)) = self.garbage.pop_front() else { break };
            match garbage {
                Garbage::Resource(slot) => {
                    if let Some(buffer) = self.buffers.get_mut(slot as usize).and_then(Option::take) {
                        self.memory.destroy(&self.shared, buffer);
                    }
                    if let Some(texture) = self.textures.get_mut(slot as usize).and_then(Option::take) {
                        texture.destroy(&self.shared, &mut self.memory);
                    }
                    freed(slot, true);
                }
                Garbage::Sampler(slot) => {
                    if let Some(sampler) = self.samplers.get_mut(slot as usize) {
                        // SAFETY: alive or null; the device is done with it.
                        unsafe { self.shared.device.destroy_sampler(std::mem::take(sampler), None) };
                    }
                    freed(slot, false);
                }
                Garbage::Pipeline(slot) => {
                    if let Some(pipeline) = self.pipelines.get_mut(slot as usize).and_then(Option::take) {
                        pipeline.destroy(&self.shared);
                        self.free_pipelines.push(slot);
                    }
                }
            }
        }
        self.upload.trim(&mut self.memory, &self.shared, self.submitted);
        self.readback.trim(&mut self.memory, &self.shared, self.submitted);
    }

    /// Ties what was discarded since the last frame to the last submission.
    fn tag_discarded(&mut self) {
        for garbage in self.discarded.drain(..) {
            self.garbage.push_back((self.submitted, garbage));
        }
    }

    /// Ends a frame that recorded nothing: nothing is submitted.
    pub fn skip_frame(&mut self) {
        debug_assert!(self.upload_segments.is_empty());
        self.tag_discarded();
    }

    /// Device and host bytes held, by what they are for.
    pub fn memory_use(&self) -> MemoryUse {
        MemoryUse {
            buffers: self.buffers.iter().flatten().map(|b| b.size).sum(),
            textures: self.textures.iter().flatten().map(|t| t.bytes).sum(),
            upload: self.upload.capacity(),
            readback: self.readback.capacity(),
            reserved: self.memory.reserved(),
        }
    }
}

/// Bytes of device-visible memory, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Buffers created by the user.
    pub buffers: u64,
    /// Textures created by the user, texels without gaps.
    pub textures: u64,
    /// Upload staging.
    pub upload: u64,
    /// Readback staging.
    pub readback: u64,
    /// All memory taken from the driver, free parts of blocks included.
    pub reserved: u64,
}

impl Drop for Backend {
    fn drop(&mut self) {
        // Objects in use by a submission must not be destroyed. A device that does not come to rest within the
        // limit is left as it is: leaking is the one safe answer.
        let idle = self.submitted == 0
            || self.shared.lost.load(Ordering::Relaxed)
            || matches!(self.wait(self.submitted, self.shared.wait_limit), Ok(true) | Err(Error::DeviceLost { .. }));
        self.worker.stop();
        while let Some(answer) = self.worker.poll() {
            self.file(answer);
        }
        if !idle {
            tracing::error!("the device did not finish within {:?}; its objects are leaked", self.shared.wait_limit);
            std::mem::forget(Arc::clone(&self.shared));
            self.memory.leak();
            return;
        }
        for buffer in self.buffers.drain(..).flatten() {
            self.memory.destroy(&self.shared, buffer);
        }
        for texture in self.textures.drain(..).flatten() {
            texture.destroy(&self.shared, &mut self.memory);
        }
        for sampler in self.samplers.drain(..) {
            // SAFETY: alive or null, and idle as just established.
            unsafe { self.shared.device.destroy_sampler(sampler, None) };
        }
        for pipeline in self.pipelines.drain(..).flatten() {
            pipeline.destroy(&self.shared);
        }
        self.upload.destroy(&mut self.memory, &self.shared);
        self.readback.destroy(&mut self.memory, &self.shared);
        for frame in self.frames.drain(..) {
            frame.destroy(&self.shared);
        }
        // SAFETY: alive, and idle as just established.
        unsafe { self.shared.device.destroy_semaphore(self.timeline, None) };
    }
}

/// Remaining part of a bounded wait.
pub(crate) fn remaining(start: Instant, limit: Duration) -> Duration {
    limit.saturating_sub(start.elapsed())
}
