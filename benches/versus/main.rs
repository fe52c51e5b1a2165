//! The same work on ashfall (from Rust and from Luau), wgpu and Vulkan by hand, interleaved in one process.
//!
//! `cargo bench --bench versus -- [--device NAME] [--json FILE] [--only TEXT] [--quick]`
//!
//! Prints median, least and most of the rounds, and the ratios of the medians to Vulkan by hand and to wgpu with bind
//! groups made once. What all of them leave in their buffers is compared with what the processor computes: a
//! contestant whose bytes differ is disqualified.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "bench")]

mod ours;
mod raw;
mod report;
mod script;
mod web;
mod work;

use ashfall::DeviceOptions;
use report::Report;
use std::time::{Duration, Instant};
use work::{Shape, Work};

/// How long a frame took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// From its start until it was with the driver.
    pub recorded: Duration,
    /// Until the device was idle.
    pub idle: Duration,
}

/// Somebody who can run a [`Work`].
pub trait Contestant {
    fn name(&self) -> &'static str;
    fn load(&mut self, work: &Work);
    fn frame(&mut self) -> Took;
    /// Every buffer's words, in order.
    fn output(&mut self) -> Vec<u32>;
    fn unload(&mut self);
}

/// What the command line asks for.
pub struct Options {
    device: Option<String>,
    json: Option<String>,
    only: Option<String>,
    quick: bool,
}

fn options() -> Options {
    let mut options = Options { device: None, json: None, only: None, quick: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--device" => options.device = Some(value()),
            "--json" => options.json = Some(value()),
            "--only" => options.only = Some(value()),
            "--quick" => options.quick = true,
            // What `cargo bench` adds.
            "--bench" => {}
            other => panic!("{other} is not known: --device NAME, --json FILE, --only TEXT, --quick"),
        }
    }
    options
}

fn dispatches(contestants: &mut [Box<dyn Contestant>], options: &Options, report: &mut Report) {
    let counts: &[usize] = if options.quick { &[64, 1024] } else { &[64, 1024, 4096, 65536] };
    for bound in [2, 8] {
        for shape in Shape::ALL {
            for count in counts {
                let title = format!("{count} dispatches, {bound} buffers, {}", shape.name());
                if options.only.as_ref().is_some_and(|only| !title.contains(only)) {
                    continue;
                }
                let work = Work::new(shape, *count, bound);
                contestants.iter_mut().for_each(|c| c.load(&work));
                let mut took = vec![Vec::new(); contestants.len()];
                let begun = Instant::now();
                let limit = Duration::from_secs(if options.quick { 1 } else { 4 });
                let mut rounds = 0;
                while rounds < 3 || (begun.elapsed() < limit && rounds < 100) {
                    for turn in 0..contestants.len() {
                        let at = (turn + rounds) % contestants.len();
                        took[at].push(contestants[at].frame());
                    }
                    rounds += 1;
                }
                let expected = work.expected(rounds);
                let outputs: Vec<bool> = contestants.iter_mut().map(|c| c.output() == expected).collect();
                contestants.iter_mut().for_each(|c| c.unload());
                let names: Vec<&str> = contestants.iter().map(|c| c.name()).collect();
                report.dispatches(&title, &work, &names, &took, &outputs);
            }
        }
    }
}

fn main() {
    let options = options();
    let device = DeviceOptions { device: options.device.clone(), ..DeviceOptions::default() };
    let ours = ours::Ours::new(&device);
    let (name, driver) = (ours.gpu.info().name.clone(), ours.gpu.info().driver.clone());
    let mut report = Report::new(&name, &driver);
    let mut contestants: Vec<Box<dyn Contestant>> = vec![
        Box::new(raw::Raw::new(&name)),
        Box::new(ours),
        Box::new(script::Script::new(&device)),
        Box::new(web::Wgpu::new(&name, true)),
        Box::new(web::Wgpu::new(&name, false)),
    ];
    dispatches(&mut contestants, &options, &mut report);
    report.finish(options.json.as_deref());
}
