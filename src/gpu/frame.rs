//! The end of a frame, and waiting for what is under way.

use super::{FrameStats, Gpu};
use crate::error::{Error, Result};
use crate::plan::{Plan, Planner};
use crate::registry::{ProgramId, Resident};
use crate::vk::Built;
use std::time::Duration;

impl Gpu {
    /// The frame so far as a plan in text form, with the reason of each barrier. Slow; for dumps and tests.
    #[must_use]
    pub fn plan_text(&self) -> String {
        // Planned apart from the frame's own plan, so that looking changes nothing.
        let mut plan = Plan::default();
        Planner::default().plan(&self.recorder.arena, &mut plan);
        plan.text(&self.recorder.arena, &self.recorder.registry)
    }

    /// Ends the frame: plans what was recorded, submits it, and takes in what has finished meanwhile. A frame
    /// that recorded nothing submits nothing.
    ///
    /// Waits only when as many frames as allowed are on the device, and then at most the wait limit.
    ///
    /// # Errors
    /// [`Error::Timeout`] leaves the frame as it is: the call may be repeated. After any other error the frame's
    /// commands are gone, its dispatches are in [`Gpu::failing`] and its readback keys are unknown.
    pub fn end_frame(&mut self) -> Result<FrameStats> {
        let mut stats = FrameStats { frame: self.recorder.frame, ..FrameStats::default() };
        if self.recorder.arena.is_empty() {
            self.backend.skip_frame();
        } else {
            match self.backend.check_lost().and_then(|()| self.backend.begin_frame()) {
                Ok(()) => {}
                Err(error @ Error::Timeout { .. }) => return Err(error),
                Err(error) => return Err(self.abandon(error)),
            }
            self.planner.plan(&self.recorder.arena, &mut self.plan);
            let timed = self.timed_frames.checked_sub(1).map(|left| {
                self.timed_frames = left;
                self.recorder.frame
            });
            if let Err(error) = self.backend.submit(&self.recorder.arena, &self.plan, timed) {
                return Err(self.abandon(error));
            }
            stats.commands = self.recorder.arena.len();
            stats.levels = self.plan.levels() as u32;
            stats.barriers = self.plan.barriers() as u32;
        }
        self.builds.tidy();
        self.recorder.next_frame();
        self.take_in();
        self.backend.check_lost()?;
        Ok(stats)
    }

    /// Drops a frame that cannot be submitted, so that what it promised is seen to fail.
    pub(super) fn abandon(&mut self, error: Error) -> Error {
        let text = format!("frame {} did not reach the device: {error}", self.recorder.frame);
        self.builds.lost_frames += 1;
        self.recorder.undo_frame(&text);
        let backend = &mut self.backend;
        let serial = backend.serial();
        self.reads.drop_from(serial, |entry| backend.release_read(entry.slice));
        backend.abandon_frame();
        self.planner.distrust();
        self.recorder.next_frame();
        self.take_in();
        error
    }

    /// Takes in finished programs and frees what the device is done with.
    pub(super) fn take_in(&mut self) {
        while let Some(built) = self.backend.next_built() {
            self.adopt(built);
        }
        self.backend.advance();
        let Self { backend, planner, recorder, .. } = self;
        backend.collect(|slot, resource| {
            if resource {
                planner.forget(slot);
                recorder.registry.resources.recycle(slot);
            } else {
                recorder.registry.samplers.recycle(slot);
            }
        });
    }

    pub(super) fn adopt(&mut self, built: Built) {
        let id = ProgramId::from_bits(built.program);
        let wanted = self.recorder.wants(id, built.request);
        match built.outcome {
            Ok(made) if wanted => {
                let resident =
                    Resident::new(made.pipeline, made.bindings, &made.sampled, made.params, made.workgroup_size);
                if let Some(old) = self.recorder.program_ready(id, resident) {
                    self.backend.discard_pipeline(old);
                }
            }
            Ok(made) => self.backend.discard_pipeline(made.pipeline),
            Err(reason) if wanted => {
                tracing::warn!("{reason}");
                self.recorder.program_failed(id, reason);
            }
            Err(_) => {}
        }
    }

    /// Waits, at most `limit`, until something that is under way has come further: a readback, a program. For
    /// hosts without a frame clock of their own; returns at once when nothing is under way.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn wait_for_progress(&mut self, limit: Duration) -> Result<()> {
        let completed = self.backend.advance();
        let serial = self.reads.next_serial(completed).filter(|s| *s < self.backend.serial());
        match (serial, self.backend.compiling() > 0) {
            (Some(serial), false) => self.backend.wait(serial, limit).map(|_| ()),
            (None, false) => Ok(()),
            (serial, true) => {
                // Two things to wait for and no call that waits for both: the one that waits for a thread is the
                // finer-grained, so it gets the time, in slices short enough not to hold up the other.
                let slice = if serial.is_some() { limit.min(Duration::from_millis(1)) } else { limit };
                if let Some(built) = self.backend.wait_built(slice) {
                    self.adopt(built);
                }
                Ok(())
            }
        }
    }

    /// Waits, at most the wait limit, until every submitted frame has finished.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::DeviceLost`].
    pub fn wait_idle(&mut self) -> Result<()> {
        let limit = self.backend.wait_limit();
        let last = self.backend.serial() - 1;
        if self.backend.wait(last, limit)? { Ok(()) } else { Err(Error::Timeout { what: "the device", waited: limit }) }
    }

    /// Readback keys given out and not yet taken.
    #[must_use]
    pub fn reads_outstanding(&self) -> usize {
        self.reads.len()
    }
}
