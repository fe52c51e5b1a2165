//! The thread that turns sources into pipelines, so that a compile never holds a frame.

use super::pipeline::Pipeline;
use super::{Shared, error};
use crate::error::{Error, Result};
use crate::shader::{self, Binding, Compiled, ParamLayout, ProgramSource};
use ash::vk;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A source to compile.
pub(crate) struct Job {
    pub program: u64,
    pub request: u64,
    pub source: ProgramSource,
}

/// What became of a job.
pub(crate) struct Answer {
    pub program: u64,
    pub request: u64,
    pub outcome: Result<Made, String>,
}

pub(crate) struct Made {
    pub pipeline: Pipeline,
    pub bindings: Vec<Binding>,
    pub sampled: Vec<[u32; 2]>,
    pub params: ParamLayout,
    pub workgroup_size: [u32; 3],
}

/// The thread and its two queues. Answers come in the order of the jobs.
pub(crate) struct Worker {
    jobs: Option<Sender<Job>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
    in_flight: usize,
}

impl Worker {
    pub fn start(shared: Arc<Shared>) -> Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        let (outbox, answers) = channel();
        let info = vk::PipelineCacheCreateInfo::default();
        // SAFETY: valid structs.
        let cache = unsafe { shared.device.create_pipeline_cache(&info, None) }
            .map_err(|r| error("vkCreatePipelineCache", r))?;
        let work = move || {
            while let Ok(job) = inbox.recv() {
                // A fault in a compiler must cost one program, not every program after it. The closure's state is
                // the job, which is not used again, and the device, whose handles it only adds to.
                let outcome = catch_unwind(AssertUnwindSafe(|| make(&shared, cache, &job)))
                    .unwrap_or_else(|_| Err("the shader compiler failed on this source".to_owned()));
                let answer = Answer { program: job.program, request: job.request, outcome };
                if let Err(unsent) = outbox.send(answer) {
                    // Nobody listens any more: the backend is going away.
                    if let Ok(made) = unsent.0.outcome {
                        made.pipeline.destroy(&shared);
                    }
                    break;
                }
            }
            // SAFETY: alive; made and used by this thread alone.
            unsafe { shared.device.destroy_pipeline_cache(cache, None) };
        };
        let thread = std::thread::Builder::new()
            .name("ashfall compile".to_owned())
            .spawn(work)
            .map_err(|e| Error::Vulkan { call: "starting the compile thread", result: e.to_string() })?;
        Ok(Self { jobs: Some(jobs), answers, thread: Some(thread), in_flight: 0 })
    }

    pub fn submit(&mut self, job: Job) -> Result<()> {
        let gone = || Error::Shader("the compile thread is gone".to_owned());
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        self.in_flight += 1;
        Ok(())
    }

    pub fn poll(&mut self) -> Option<Answer> {
        let answer = self.answers.try_recv().ok()?;
        self.in_flight = self.in_flight.saturating_sub(1);
        Some(answer)
    }

    pub fn wait(&mut self, limit: Duration) -> Option<Answer> {
        match self.answers.recv_timeout(limit) {
            Ok(answer) => {
                self.in_flight = self.in_flight.saturating_sub(1);
                Some(answer)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Lets the thread finish the job it is at and end. A driver's compile cannot be interrupted.
    pub fn stop(&mut self) {
        self.jobs = None;
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the compile thread panicked");
        }
    }
}

fn make(shared: &Shared, cache: vk::PipelineCache, job: &Job) -> Result<Made, String> {
    let compiled = shader::compile(&job.source, &shared.target).map_err(|e| e.to_string())?;
    let pipeline = Pipeline::new(shared, cache, job.source.label.as_ref().unwrap_or(&job.source.key), &compiled)
        .map_err(|e| e.to_string())?;
    let Compiled { bindings, sampled, params, workgroup_size, .. } = compiled;
    Ok(Made { pipeline, bindings, sampled, params, workgroup_size })
}
