//! Timestamps of a frame's dispatches. A frame that is not timed pays one branch a dispatch.

use super::{Backend, Shared};
use crate::error::Result;
use crate::inspect::{GpuFrame, Mark};
use ash::vk;
use hashbrown::HashMap;
use std::rc::Rc;

/// Timestamps of one frame at most.
const MOST: u32 = 1 << 16;

/// The timestamps of one frame in flight.
#[derive(Default)]
pub(crate) struct Timer {
    pool: vk::QueryPool,
    capacity: u32,
    marks: Vec<Mark>,
    labels: Vec<String>,
    /// Index in `labels` by pipeline slot.
    known: HashMap<u32, u32>,
    /// Dispatches since the last mark that there was no room for.
    rest: u32,
    /// Number of the frame being timed.
    frame: u64,
    pub active: bool,
    bits: u32,
}

impl Timer {
    /// Makes ready for a frame of so many dispatches and levels. Without timestamps on the device it stays off.
    pub fn start(&mut self, shared: &Shared, frame: u64, dispatches: usize, levels: usize) -> Result<()> {
        self.active = false;
        self.bits = shared.properties.timestamp_bits;
        if self.bits == 0 {
            return Ok(());
        }
        let wanted = u32::try_from(dispatches + levels + 2).unwrap_or(MOST).min(MOST);
        if wanted > self.capacity {
            self.destroy(shared);
            let capacity = wanted.next_power_of_two();
            let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(capacity);
            // SAFETY: valid structs.
            self.pool = unsafe { shared.device.create_query_pool(&info, None) }
                .map_err(|r| shared.error("vkCreateQueryPool", r))?;
            self.capacity = capacity;
        }
        self.marks.clear();
        self.labels.clear();
        self.known.clear();
        (self.rest, self.frame, self.active) = (0, frame, true);
        Ok(())
    }

    pub fn reset(&self, shared: &Shared, commands: vk::CommandBuffer) {
        if self.active {
            // SAFETY: alive, recording, outside of a render pass; the frame that last used the pool is done.
            unsafe { shared.device.cmd_reset_query_pool(commands, self.pool, 0, self.capacity) };
        }
    }

    /// Marks the beginning of a level. Everything before has to finish first, as the level itself would wait for.
    pub fn level(&mut self, shared: &Shared, commands: vk::CommandBuffer) {
        if self.active {
            self.stamp(shared, commands, Mark::Level, vk::PipelineStageFlags2::ALL_COMMANDS);
        }
    }

    /// Marks the end of a dispatch.
    #[cold]
    pub fn dispatch(&mut self, shared: &Shared, commands: vk::CommandBuffer, pipeline: u32, label: &std::ffi::CStr) {
        // The last one is for the dispatches that there is no room for.
        if self.marks.len() as u32 + 1 >= self.capacity {
            self.rest += 1;
            return;
        }
        let labels = &mut self.labels;
        let index = *self.known.entry(pipeline).or_insert_with(|| {
            labels.push(label.to_string_lossy().into_owned());
            labels.len() as u32 - 1
        });
        self.stamp(shared, commands, Mark::Dispatch(index), vk::PipelineStageFlags2::COMPUTE_SHADER);
    }

    pub fn finish(&mut self, shared: &Shared, commands: vk::CommandBuffer) {
        if self.active && self.rest > 0 {
            let mark = Mark::Rest(self.rest);
            self.stamp(shared, commands, mark, vk::PipelineStageFlags2::COMPUTE_SHADER);
        }
    }

    fn stamp(&mut self, shared: &Shared, commands: vk::CommandBuffer, mark: Mark, stage: vk::PipelineStageFlags2) {
        let query = self.marks.len() as u32;
        if query < self.capacity {
            // SAFETY: alive, recording; the query was reset at the beginning of this command buffer and is used once.
            unsafe { shared.device.cmd_write_timestamp2(commands, stage, self.pool, query) };
            self.marks.push(mark);
        }
    }

    /// The times of a frame that is done.
    pub fn take(&mut self, shared: &Shared) -> Option<GpuFrame> {
        if !std::mem::take(&mut self.active) || self.marks.is_empty() {
            return None;
        }
        let mut ticks = vec![0u64; self.marks.len()];
        let flags = vk::QueryResultFlags::TYPE_64;
        // SAFETY: alive; the first so many queries were written by a frame that has completed.
        let read = unsafe { shared.device.get_query_pool_results(self.pool, 0, &mut ticks, flags) };
        if let Err(result) = read {
            _ = shared.error("vkGetQueryPoolResults", result);
            return None;
        }
        let period = shared.properties.timestamp_period;
        Some(GpuFrame::new(self.frame, &self.marks, &ticks, self.bits, period, &self.labels))
    }

    pub fn destroy(&mut self, shared: &Shared) {
        // SAFETY: alive or null; the frame that last used it is done.
        unsafe { shared.device.destroy_query_pool(std::mem::take(&mut self.pool), None) };
        self.capacity = 0;
    }
}

impl Backend {
    /// Takes in the times of the frames that are done.
    pub(super) fn read_timers(&mut self) {
        for frame in &mut self.frames {
            if frame.timer.active
                && frame.serial <= self.completed
                && let Some(timed) = frame.timer.take(&self.shared)
                && self.timed.as_ref().is_none_or(|last| last.frame < timed.frame)
            {
                self.timed = Some(Rc::new(timed));
            }
        }
    }

    /// The most recent timed frame that is done.
    pub fn timed(&self) -> Option<Rc<GpuFrame>> {
        self.timed.clone()
    }
}
