//! Frames in flight: command buffers, submission, and what comes back when a frame is done.

use super::descriptor::Pools;
use super::profile::Timer;
use super::{Backend, Shared, remaining};
use crate::arena::Arena;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::ring::Slice;
use ash::vk;
use std::time::Instant;

/// One frame that may be on the device.
pub(crate) struct Frame {
    pub pool: vk::CommandPool,
    pub commands: vk::CommandBuffer,
    pub descriptors: Pools,
    /// Serial of its last submission; 0 for none.
    pub serial: u64,
    /// Upload segments to give back when it is done, one entry a slice.
    pub segments: Vec<u32>,
    pub timer: Timer,
}

impl Frame {
    pub fn new(shared: &Shared, index: u32) -> Result<Self> {
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(shared.queue_family)
            .flags(vk::CommandPoolCreateFlags::TRANSIENT);
        // SAFETY: valid structs.
        let pool = unsafe { shared.device.create_command_pool(&info, None) }
            .map_err(|r| shared.error("vkCreateCommandPool", r))?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: alive, valid structs.
        let commands = match unsafe { shared.device.allocate_command_buffers(&info) } {
            Ok(list) => list.into_iter().next().unwrap_or_default(),
            Err(result) => {
                // SAFETY: alive and unused.
                unsafe { shared.device.destroy_command_pool(pool, None) };
                return Err(shared.error("vkAllocateCommandBuffers", result));
            }
        };
        shared.set_name(commands, &format!("ashfall frame {index}"));
        Ok(Self {
            pool,
            commands,
            descriptors: Pools::default(),
            serial: 0,
            segments: Vec::new(),
            timer: Timer::default(),
        })
    }

    pub fn destroy(mut self, shared: &Shared) {
        self.timer.destroy(shared);
        self.descriptors.destroy(shared);
        // SAFETY: alive; the device is idle. Frees the command buffer too.
        unsafe { shared.device.destroy_command_pool(self.pool, None) };
    }
}

impl Backend {
    /// Makes the next frame's objects available: waits, bounded, until the frame that last used them is done.
    pub fn begin_frame(&mut self) -> Result<()> {
        let start = Instant::now();
        let serial = self.frames[self.next_frame].serial;
        if !self.wait(serial, remaining(start, self.shared.wait_limit))? {
            return Err(Error::Timeout { what: "the oldest frame in flight", waited: self.shared.wait_limit });
        }
        self.read_timers();
        let shared = &self.shared;
        let frame = &mut self.frames[self.next_frame];
        for segment in frame.segments.drain(..) {
            self.upload.release(segment, self.submitted);
        }
        // SAFETY: alive, single owner; the pool's command buffer has completed.
        unsafe { shared.device.reset_command_pool(frame.pool, vk::CommandPoolResetFlags::empty()) }
            .map_err(|r| shared.error("vkResetCommandPool", r))?;
        frame.descriptors.reset(shared)
    }

    /// Encodes and submits a planned frame, and times it when given the number it goes by.
    /// [`Backend::begin_frame`] came first.
    pub fn submit(&mut self, arena: &Arena, plan: &Plan, timed: Option<u64>) -> Result<u64> {
        let serial = self.submitted + 1;
        // Taken out so that encoding may borrow the rest of the backend; put back on every path.
        let slot = self.next_frame;
        let mut descriptors = std::mem::take(&mut self.frames[slot].descriptors);
        let mut timer = std::mem::take(&mut self.frames[slot].timer);
        let commands = self.frames[slot].commands;
        timer.active = false;
        if let Some(frame) = timed
            && let Err(error) = timer.start(&self.shared, frame, plan.levels())
        {
            // The frame itself needs no timestamps.
            tracing::warn!("frame {frame} is not timed: {error}");
        }
        let encoded = self.encode(commands, &mut descriptors, &mut timer, arena, plan);
        // Nothing is to be read from a timer whose frame does not run.
        timer.active &= encoded.is_ok();
        self.frames[slot].descriptors = descriptors;
        self.frames[slot].timer = timer;
        encoded?;
        let buffers = [vk::CommandBufferSubmitInfo::default().command_buffer(commands)];
        let signals = [vk::SemaphoreSubmitInfo::default()
            .semaphore(self.timeline)
            .value(serial)
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
        let info = [vk::SubmitInfo2::default().command_buffer_infos(&buffers).signal_semaphore_infos(&signals)];
        // SAFETY: alive, valid structs, single owner of the queue; everything the commands name stays alive until
        // the timeline reaches `serial`.
        unsafe { self.shared.device.queue_submit2(self.shared.queue, &info, vk::Fence::null()) }.map_err(|r| {
            self.frames[slot].timer.active = false;
            self.shared.error("vkQueueSubmit2", r)
        })?;
        self.submitted = serial;
        let frame = &mut self.frames[slot];
        frame.serial = serial;
        frame.segments.append(&mut self.upload_segments);
        self.next_frame = (slot + 1) % self.frames.len();
        self.tag_discarded();
        Ok(serial)
    }

    /// Gives up a frame that could not be submitted: what it staged is free again.
    pub fn abandon_frame(&mut self) {
        for segment in self.upload_segments.drain(..) {
            self.upload.release(segment, self.submitted);
        }
        self.tag_discarded();
    }

    pub(super) fn upload_buffer(&self, slice: Slice) -> (vk::Buffer, u64) {
        (self.upload.raw(slice.segment), slice.offset)
    }
}
