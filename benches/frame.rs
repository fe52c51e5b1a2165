//! Frames of small dispatches on a device: what recording, submitting and finishing cost, from Rust and from Luau.
//!
//! `cargo bench --bench frame`; `ASHFALL_DEVICE` picks the device. Medians of the rounds, in ns a dispatch.
#![allow(clippy::unwrap_used, missing_docs, reason = "bench")]

use ashfall::shader::{BindingDecl, DeclaredAccess, Interface, ParamDecl, ParamType, ProgramSource};
use ashfall::{BufferDesc, BufferId, DeviceOptions, Gpu, ProgramId, ScriptHost, ScriptOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

const DISPATCHES: usize = 4096;
const ROUNDS: usize = 30;

const KERNEL: &str = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    dst[id.x] = dst[id.x] * params.a + src[id.x] + params.b + params.c + params.d;
}";

fn kernel() -> ProgramSource {
    let params = ["a", "b", "c", "d"].map(|n| ParamDecl { name: n.into(), ty: ParamType::F32, default: [0.5; 16] });
    let bindings = vec![
        BindingDecl::buffer("src", DeclaredAccess::Read, "f32"),
        BindingDecl::buffer("dst", DeclaredAccess::ReadWrite, "f32"),
    ];
    ProgramSource::new("k", KERNEL, Interface::Declared { bindings, params: params.to_vec() })
}

/// Record to submitted, and to idle, in ns a dispatch; barriers of the last frame.
fn frames(gpu: &mut Gpu, program: ProgramId, buffers: &[BufferId], target: impl Fn(usize) -> usize) -> (f64, f64, u32) {
    let (mut recorded, mut idle, mut barriers) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for i in 0..DISPATCHES {
            gpu.dispatch(program, &[buffers[0], buffers[1 + target(i)]], [4, 1, 1]).unwrap();
        }
        barriers = gpu.end_frame().unwrap().barriers;
        recorded.push(start.elapsed().as_secs_f64());
        gpu.wait_idle().unwrap();
        idle.push(start.elapsed().as_secs_f64());
    }
    (median(recorded), median(idle), barriers)
}

/// Programs that keep one group of the device busy for a while each.
const LONG: &str = "@compute @workgroup_size(1) fn main() {
    var word = dst[0];
    for (var i = 0u; i < 200000u; i++) { word = word * 1664525u + 1013904223u; }
    dst[0] = word;
}";

/// Milliseconds to idle of a frame of so many long dispatches that do not depend on each other.
fn side_by_side(gpu: &mut Gpu, program: ProgramId, buffers: &[BufferId], timed: bool) -> f64 {
    let rounds = (0..9).map(|_| {
        if timed {
            gpu.gpu_frame();
        }
        let start = Instant::now();
        for buffer in buffers {
            gpu.dispatch(program, &[*buffer], [1, 1, 1]).unwrap();
        }
        gpu.end_frame().unwrap();
        gpu.wait_idle().unwrap();
        start.elapsed().as_secs_f64()
    });
    median(rounds.collect()) * DISPATCHES as f64 / 1e6
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2] * 1e9 / DISPATCHES as f64
}

fn main() {
    let gpu = Rc::new(RefCell::new(Gpu::open(&DeviceOptions::default()).unwrap()));
    let (program, buffers) = {
        let mut gpu = gpu.borrow_mut();
        let program = gpu.compile(kernel()).unwrap();
        gpu.wait_program(program).unwrap();
        let name = |i: usize| format!("b{i}");
        let buffers: Vec<BufferId> =
            (0..=DISPATCHES).map(|i| gpu.create_buffer(&name(i), BufferDesc::new(1024)).unwrap()).collect();
        (program, buffers)
    };
    println!("{}, frames of {DISPATCHES} dispatches, ns a dispatch", gpu.borrow().info().name);
    println!("{:32} {:>16} {:>10} {:>10}", "", "record + submit", "to idle", "barriers");
    let row = |name: &str, (recorded, idle, barriers): (f64, f64, u32)| {
        println!("{name:32} {recorded:16.0} {idle:10.0} {barriers:10}");
    };
    type Target = fn(usize) -> usize;
    let shapes: [(&str, Target); 3] =
        [("independent", |i| i), ("64 interleaved chains", |i| i % 64), ("one chain", |_| 0)];
    for (name, target) in shapes {
        row(name, frames(&mut gpu.borrow_mut(), program, &buffers, target));
    }
    {
        let mut gpu = gpu.borrow_mut();
        let bindings = vec![BindingDecl::buffer("dst", DeclaredAccess::ReadWrite, "u32")];
        let long = ProgramSource::new("long", LONG, Interface::Declared { bindings, params: Vec::new() });
        let long = gpu.compile(long).unwrap();
        gpu.wait_program(long).unwrap();
        let alone = side_by_side(&mut gpu, long, &buffers[..1], false);
        let untimed = side_by_side(&mut gpu, long, &buffers[..32], false);
        let timed = side_by_side(&mut gpu, long, &buffers[..32], true);
        gpu.gpu_frame(); // the next 64 frames are timed
        row("independent, timed", frames(&mut gpu, program, &buffers, |i| i));
        println!("long dispatches to idle, ms: one {alone:.2}, 32 independent {untimed:.2}, the same timed {timed:.2}");
        // The Luau frames below are not.
        for _ in 0..=64 / ROUNDS {
            frames(&mut gpu, program, &buffers[..2], |_| 0);
        }
    }
    let host = ScriptHost::new(Rc::clone(&gpu), ScriptOptions::default()).unwrap();
    let source = format!(
        "local names = {{}} for i = 1, {DISPATCHES} do names[i] = 'b' .. i end
         while true do
             for i = 1, {DISPATCHES} do compute.dispatch('k', {{ buffers = {{ 'b0', names[i] }}, workgroups = {{ 4, 1, 1 }} }}) end
             task.wait()
         end"
    );
    host.spawn("bench.luau", source.as_bytes()).unwrap();
    let (mut recorded, mut idle, mut barriers) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        assert!(host.step().is_empty());
        barriers = host.end_frame().unwrap().barriers;
        recorded.push(start.elapsed().as_secs_f64());
        gpu.borrow_mut().wait_idle().unwrap();
        idle.push(start.elapsed().as_secs_f64());
    }
    row("independent, Luau with names", (median(recorded), median(idle), barriers));
}
