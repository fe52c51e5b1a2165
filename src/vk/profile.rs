//! Timestamps of a frame's levels. A frame that is not timed pays one branch a dispatch.

use super::pipeline::Pipeline;
use super::{Backend, Shared};
use crate::error::Result;
use crate::inspect::{GpuFrame, Work};
use ash::vk;
use hashbrown::HashMap;
use std::rc::Rc;

/// Timestamps of one frame at most. Levels past them are timed as one.
const MOST: u32 = 1 << 16;

/// The timestamps of one frame in flight.
#[derive(Default)]
pub(crate) struct Timer {
    pool: vk::QueryPool,
    capacity: u32,
    /// Timestamps written so far: where levels begin and, in the end, where the last one ends.
    stamps: u32,
    work: Vec<Work>,
    labels: Vec<String>,
    /// Index in `labels` by pipeline slot.
    known: HashMap<u32, u32>,
    /// Number of the frame being timed.
    frame: u64,
    pub active: bool,
    bits: u32,
}

impl Timer {
    /// Makes ready for a frame of so many levels. Without timestamps on the device it stays off.
    pub fn start(&mut self, shared: &Shared, frame: u64, levels: usize) -> Result<()> {
        self.active = false;
        self.bits = shared.properties.timestamp_bits;
        if self.bits == 0 {
            return Ok(());
        }
        let wanted = u32::try_from(levels + 1).unwrap_or(MOST).min(MOST);
        if wanted > self.capacity {
            self.destroy(shared);
            let capacity = wanted.next_power_of_two();
            let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(capacity);
            // SAFETY: valid structs.
            self.pool = unsafe { shared.device.create_query_pool(&info, None) }
                .map_err(|r| shared.error("vkCreateQueryPool", r))?;
            self.capacity = capacity;
        }
        self.work.clear();
        self.labels.clear();
        self.known.clear();
        (self.stamps, self.frame, self.active) = (0, frame, true);
        Ok(())
    }

    pub fn reset(&self, shared: &Shared, commands: vk::CommandBuffer) {
        if self.active {
            // SAFETY: alive, recording, outside of a render pass; the frame that last used the pool is done.
            unsafe { shared.device.cmd_reset_query_pool(commands, self.pool, 0, self.capacity) };
        }
    }

    /// Marks the beginning of a level, behind its barrier if it has one.
    pub fn level(&mut self, shared: &Shared, commands: vk::CommandBuffer, barrier: bool) {
        // The last one is for the end.
        if self.active && self.stamps + 1 < self.capacity {
            // What has no barrier waits for nothing, and so must not its timestamp.
            let stage = if barrier { vk::PipelineStageFlags2::ALL_COMMANDS } else { vk::PipelineStageFlags2::NONE };
            self.stamp(shared, commands, stage);
        }
    }

    /// Takes a dispatch of the current level into account.
    #[cold]
    pub fn dispatch(&mut self, slot: u32, pipeline: Option<&Pipeline>, groups: [u32; 3]) {
        let Some(pipeline) = pipeline else { return };
        let labels = &mut self.labels;
        let label = *self.known.entry(slot).or_insert_with(|| {
            labels.push(pipeline.label.to_string_lossy().into_owned());
            labels.len() as u32 - 1
        });
        let level = self.stamps.saturating_sub(1);
        let groups = groups.iter().fold(1u64, |n, g| n.saturating_mul(u64::from(*g)));
        let invocations = groups.saturating_mul(pipeline.group_invocations.into());
        match self.work.last_mut() {
            Some(last) if (last.level, last.label) == (level, label) => {
                last.dispatches += 1;
                last.invocations = last.invocations.saturating_add(invocations);
            }
            _ => self.work.push(Work { level, label, dispatches: 1, invocations }),
        }
    }

    /// Marks the end of the last level. The next frame's first work begins behind it on some devices.
    pub fn finish(&mut self, shared: &Shared, commands: vk::CommandBuffer) {
        if self.active && self.stamps > 0 {
            self.stamp(shared, commands, vk::PipelineStageFlags2::ALL_COMMANDS);
        }
    }

    fn stamp(&mut self, shared: &Shared, commands: vk::CommandBuffer, stage: vk::PipelineStageFlags2) {
        // SAFETY: alive, recording; the query is one of the pool's, see `level`, was reset at the beginning of this
        // command buffer and is used once.
        unsafe { shared.device.cmd_write_timestamp2(commands, stage, self.pool, self.stamps) };
        self.stamps += 1;
    }

    /// The times of a frame that is done.
    pub fn take(&mut self, shared: &Shared) -> Option<GpuFrame> {
        if !std::mem::take(&mut self.active) || self.stamps == 0 {
            return None;
        }
        let mut ticks = vec![0u64; self.stamps as usize];
        let flags = vk::QueryResultFlags::TYPE_64;
        // SAFETY: alive; the first so many queries were written by a frame that has completed.
        let read = unsafe { shared.device.get_query_pool_results(self.pool, 0, &mut ticks, flags) };
        if let Err(result) = read {
            _ = shared.error("vkGetQueryPoolResults", result);
            return None;
        }
        let period = shared.properties.timestamp_period;
        Some(GpuFrame::new(self.frame, &ticks, &self.work, self.bits, period, &self.labels))
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
