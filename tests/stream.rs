//! One ordered stream: whatever is recorded, the results are those of the recorded order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use ashfall::shader::DeclaredAccess::{Read, ReadWrite};
use ashfall::{BufferDesc, BufferId, DeviceOptions, Error, Gpu, ProgramId, ProgramState, ReadKey, ReadState};
use common::{declared, open, open_with, options, program, read_now, reflected, with, words};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const CELLS: usize = 64;

const COMBINE: &str = "
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        dst[id.x] = dst[id.x] * 1664525u + src[id.x] + params.k;
    }";
const STEP: &str = "
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) { dst[id.x] = dst[id.x] * 22695477u + params.k; }";
const SPREAD: &str = "
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) { dst[id.x] = id.x ^ params.k; }";

fn kernels(gpu: &mut Gpu) -> [ProgramId; 3] {
    [
        program(gpu, declared("combine", COMBINE, &[("src", Read), ("dst", ReadWrite)], &["k"])),
        program(gpu, declared("step", STEP, &[("dst", ReadWrite)], &["k"])),
        program(gpu, declared("spread", SPREAD, &[("dst", ReadWrite)], &["k"])),
    ]
}

#[derive(Clone, Debug)]
enum Op {
    Combine(usize, usize, u32),
    Step(usize, u32),
    Spread(usize, u32),
    Write(usize, usize, Vec<u32>),
    Read(usize),
    Recreate(usize),
    EndFrame,
}

const BUFFERS: usize = 4;

fn op() -> impl Strategy<Value = Op> {
    let b = 0..BUFFERS;
    let write = (0..CELLS).prop_flat_map(|at| (Just(at), prop::collection::vec(any::<u32>(), 1..=CELLS - at)));
    prop_oneof![
        5 => (b.clone(), 1..BUFFERS, any::<u32>()).prop_map(|(a, d, k)| Op::Combine(a, (a + d) % BUFFERS, k)),
        3 => (b.clone(), any::<u32>()).prop_map(|(a, k)| Op::Step(a, k)),
        1 => (b.clone(), any::<u32>()).prop_map(|(a, k)| Op::Spread(a, k)),
        3 => (b.clone(), write).prop_map(|(a, (at, v))| Op::Write(a, at, v)),
        2 => b.clone().prop_map(Op::Read),
        1 => b.prop_map(Op::Recreate),
        2 => Just(Op::EndFrame),
    ]
}

type Cells = Vec<u32>;

fn play(gpu: &mut Gpu, kernels: [ProgramId; 3], ops: &[Op], drain: u64) {
    let create =
        |gpu: &mut Gpu, i: usize| gpu.create_buffer(&format!("b{i}"), BufferDesc::new(4 * CELLS as u64)).unwrap();
    let mut ids: Vec<BufferId> = (0..BUFFERS).map(|i| create(gpu, i)).collect();
    let mut model: Vec<Cells> = vec![vec![0; CELLS]; BUFFERS];
    let mut reads: Vec<(ReadKey, Cells)> = Vec::new();
    let run = |gpu: &mut Gpu, kernel: ProgramId, k: u32, buffers: &[BufferId]| {
        assert!(gpu.set_param(kernel, "k", 0, f64::from(k)).unwrap());
        gpu.dispatch(kernel, buffers, [1, 1, 1]).unwrap();
    };
    for op in ops {
        match op {
            Op::Combine(src, dst, k) => {
                run(gpu, kernels[0], *k, &[ids[*src], ids[*dst]]);
                let source = model[*src].clone();
                for (cell, s) in model[*dst].iter_mut().zip(source) {
                    *cell = cell.wrapping_mul(1_664_525).wrapping_add(s).wrapping_add(*k);
                }
            }
            Op::Step(dst, k) => {
                run(gpu, kernels[1], *k, &[ids[*dst]]);
                model[*dst].iter_mut().for_each(|c| *c = c.wrapping_mul(22_695_477).wrapping_add(*k));
            }
            Op::Spread(dst, k) => {
                run(gpu, kernels[2], *k, &[ids[*dst]]);
                model[*dst].iter_mut().zip(0..).for_each(|(c, i)| *c = i ^ *k);
            }
            Op::Write(dst, at, values) => {
                gpu.write_buffer(ids[*dst], 4 * *at as u64, bytemuck::cast_slice(values)).unwrap();
                model[*dst][*at..*at + values.len()].copy_from_slice(values);
            }
            Op::Read(src) => reads.push((gpu.read_buffer(ids[*src]).unwrap(), model[*src].clone())),
            Op::Recreate(i) => {
                ids[*i] = create(gpu, *i);
                model[*i] = vec![0; CELLS];
            }
            Op::EndFrame => _ = gpu.end_frame().unwrap(),
        }
    }
    for (id, cells) in ids.iter().zip(&model) {
        reads.push((gpu.read_buffer(*id).unwrap(), cells.clone()));
    }
    gpu.end_frame().unwrap();
    // Drained in an order of their own.
    reads.sort_by_key(|(key, _)| key.to_bits().wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left((drain % 64) as u32));
    for (key, expected) in reads {
        assert_eq!(words(&gpu.wait_read(key).unwrap()), expected, "{ops:?}");
        assert_eq!(gpu.read_state(key), ReadState::Unknown);
    }
    assert!(gpu.failing().is_empty());
}

/// Random streams over several frames, with parameters between dispatches, buffers replaced under their names and
/// readbacks drained in any order, give what a plain interpreter gives.
/// How many cases a property is tried on: `PROPTEST_CASES`, or `default`.
fn cases(default: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

#[test]
fn random_streams_match_the_recorded_order() {
    let gpu = open();
    let kernels = with(&gpu, kernels);
    let strategy = (prop::collection::vec(op(), 1..60), any::<u64>());
    let mut runner =
        TestRunner::new(ProptestConfig { cases: cases(60), failure_persistence: None, ..ProptestConfig::default() });
    runner
        .run(&strategy, |(ops, drain)| {
            with(&gpu, |gpu| play(gpu, kernels, &ops, drain));
            // Here rather than at the end, so that the case with the message is the one that is made smaller.
            let messages = with(&gpu, |gpu| gpu.validation_messages());
            prop_assert!(messages.is_empty(), "{}", messages.join("\n"));
            Ok(())
        })
        .unwrap();
}

#[test]
fn set_param_between_two_dispatches_changes_only_the_second() {
    let gpu = open();
    with(&gpu, |gpu| {
        let [_, step, _] = kernels(gpu);
        let (a, b) = (
            gpu.create_buffer("a", BufferDesc::new(256)).unwrap(),
            gpu.create_buffer("b", BufferDesc::new(256)).unwrap(),
        );
        gpu.set_param(step, "k", 0, 1.0).unwrap();
        gpu.dispatch(step, &[a], [1, 1, 1]).unwrap();
        gpu.set_param(step, "k", 0, 2.0).unwrap();
        gpu.dispatch(step, &[b], [1, 1, 1]).unwrap();
        gpu.set_param(step, "k", 0, 3.0).unwrap();
        let stats_keys = (gpu.read_buffer(a).unwrap(), gpu.read_buffer(b).unwrap());
        gpu.end_frame().unwrap();
        assert_eq!(words(&gpu.wait_read(stats_keys.0).unwrap()), [1; 64]);
        assert_eq!(words(&gpu.wait_read(stats_keys.1).unwrap()), [2; 64]);
    });
}

/// A parameter block over the push constant limit goes through upload memory, with the same order of effects.
#[test]
fn large_parameter_blocks() {
    let gpu = open();
    with(&gpu, |gpu| {
        let names: Vec<String> = (0..80).map(|i| format!("p{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let source = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { dst[id.x] = params.p0 + params.p79; }";
        let p = program(gpu, declared("large", source, &[("dst", ReadWrite)], &names));
        let buffers: Vec<BufferId> =
            (0..8).map(|i| gpu.create_buffer(&format!("l{i}"), BufferDesc::new(256)).unwrap()).collect();
        for frame in 0..3 {
            for (i, b) in buffers.iter().enumerate() {
                gpu.set_param(p, "p79", 0, f64::from(100 * frame)).unwrap();
                gpu.set_param(p, "p0", 0, i as f64).unwrap();
                gpu.dispatch(p, &[*b], [1, 1, 1]).unwrap();
            }
            let keys: Vec<ReadKey> = buffers.iter().map(|b| gpu.read_buffer(*b).unwrap()).collect();
            gpu.end_frame().unwrap();
            for (i, key) in keys.into_iter().enumerate() {
                assert_eq!(words(&gpu.wait_read(key).unwrap()), [100 * frame + i as u32; 64]);
            }
        }
    });
}

#[test]
fn barriers_follow_the_chain_not_the_dispatches() {
    let gpu = open();
    with(&gpu, |gpu| {
        let [combine, step, _] = kernels(gpu);
        let buffers: Vec<BufferId> =
            (0..8).map(|i| gpu.create_buffer(&format!("c{i}"), BufferDesc::new(256)).unwrap()).collect();
        for _ in 0..10 {
            for b in &buffers {
                gpu.dispatch(step, &[*b], [1, 1, 1]).unwrap();
            }
        }
        // Eight zero fills, then ten dispatches on each: ten levels more.
        let stats = gpu.end_frame().unwrap();
        assert_eq!((stats.commands, stats.barriers), (88, 10));
        for pair in buffers.chunks(2) {
            gpu.dispatch(combine, pair, [1, 1, 1]).unwrap();
        }
        let stats = gpu.end_frame().unwrap();
        assert_eq!((stats.commands, stats.barriers), (4, 1), "one for what the frame before wrote");
    });
}

#[test]
fn hundreds_of_reads_in_flight_drain_in_any_order() {
    let gpu = open();
    with(&gpu, |gpu| {
        let [_, step, _] = kernels(gpu);
        let b = gpu.create_buffer("b", BufferDesc::new(256)).unwrap();
        let mut keys = Vec::new();
        let mut value = 0u32;
        for _ in 0..20 {
            for _ in 0..25 {
                gpu.set_param(step, "k", 0, 7.0).unwrap();
                gpu.dispatch(step, &[b], [1, 1, 1]).unwrap();
                value = value.wrapping_mul(22_695_477).wrapping_add(7);
                keys.push((gpu.read_buffer(b).unwrap(), value));
            }
            gpu.end_frame().unwrap();
        }
        assert_eq!(gpu.reads_outstanding(), 500);
        keys.sort_by_key(|(_, value)| value.reverse_bits());
        for (key, value) in keys {
            assert_eq!(words(&gpu.wait_read(key).unwrap()), [value; 64]);
        }
        assert_eq!(gpu.reads_outstanding(), 0);
    });
}

#[test]
fn a_readback_of_96_mib_and_an_upload_as_large() {
    let gpu = open();
    with(&gpu, |gpu| {
        let count = 24usize << 20;
        let big = gpu.create_buffer("big", BufferDesc::new(4 * count as u64)).unwrap();
        let values: Vec<u32> = (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        gpu.write_buffer(big, 0, bytemuck::cast_slice(&values)).unwrap();
        assert!(read_now(gpu, big) == values, "96 MiB came back changed");
        // The memory of a large transfer is given back after a while.
        let peak = gpu.memory_use().readback;
        let small = gpu.create_buffer("small", BufferDesc::new(4)).unwrap();
        for _ in 0..300 {
            read_now(gpu, small);
        }
        assert!(peak >= 96 << 20 && gpu.memory_use().readback < 16 << 20, "{peak} then {}", gpu.memory_use().readback);
    });
}

#[test]
fn keys_live_once_and_outlive_their_buffer() {
    let gpu = open();
    with(&gpu, |gpu| {
        let b = gpu.create_buffer("b", BufferDesc::new(8)).unwrap();
        gpu.write_buffer(b, 0, &[1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
        let key = gpu.read_buffer(b).unwrap();
        gpu.destroy_buffer(b).unwrap();
        assert_eq!(gpu.read_state(key), ReadState::Pending);
        assert!(gpu.take_read(key, <[u8]>::len).unwrap().is_none());
        gpu.end_frame().unwrap();
        assert_eq!(words(&gpu.wait_read(key).unwrap()), [1, 2]);
        assert_eq!(gpu.read_state(key), ReadState::Unknown);
        assert_eq!(gpu.take_read(key, <[u8]>::len).unwrap_err().id(), "unknown");
        assert_eq!(gpu.read_buffer(b).unwrap_err().id(), "stale");
        let closed = gpu.create_buffer("closed", BufferDesc { readback: false, ..BufferDesc::new(8) }).unwrap();
        assert_eq!(gpu.read_buffer(closed).unwrap_err().id(), "argument");
    });
}

#[test]
fn new_buffers_read_as_zero_even_in_reused_memory() {
    let gpu = open();
    with(&gpu, |gpu| {
        for round in 0..20 {
            let b = gpu.create_buffer("b", BufferDesc::new(1 << 16)).unwrap();
            assert!(read_now(gpu, b).iter().all(|w| *w == 0), "round {round}");
            gpu.write_buffer(b, 0, &[0xAB; 1 << 16]).unwrap();
            gpu.end_frame().unwrap();
            gpu.destroy_buffer(b).unwrap();
        }
        // A write over a part leaves zeros around it.
        let b = gpu.create_buffer("part", BufferDesc::new(16)).unwrap();
        gpu.write_buffer(b, 4, &[1, 0, 0, 0]).unwrap();
        assert_eq!(read_now(gpu, b), [0, 1, 0, 0]);
    });
}

#[test]
fn a_failed_recompile_keeps_the_last_good_program() {
    let gpu = open();
    with(&gpu, |gpu| {
        let good = "@group(0) @binding(0) var<storage, read_write> d: array<u32>; @compute @workgroup_size(1) fn main() { d[0] += 1u; }";
        let p = program(gpu, reflected("p", good));
        let b = gpu.create_buffer("b", BufferDesc::new(4)).unwrap();
        gpu.dispatch(p, &[b], [1, 1, 1]).unwrap();
        gpu.compile(reflected("p", "nonsense")).unwrap();
        assert_eq!(gpu.program_state(p).0, ProgramState::Pending);
        gpu.dispatch(p, &[b], [1, 1, 1]).unwrap();
        assert!(matches!(gpu.wait_program(p), Err(Error::Shader(_))));
        let (state, reason) = gpu.program_state(p);
        assert_eq!(state, ProgramState::Failed);
        assert!(reason.unwrap().starts_with("p:1:1:"), "{reason:?}");
        gpu.dispatch(p, &[b], [1, 1, 1]).unwrap();
        assert_eq!(read_now(gpu, b), [3]);
        let better = good.replace("+= 1u", "+= 10u");
        let p = program(gpu, reflected("p", &better));
        gpu.dispatch(p, &[b], [1, 1, 1]).unwrap();
        assert_eq!(read_now(gpu, b), [13]);
        gpu.dispatch(p, &[b], [1, 1, 1]).unwrap();
        gpu.destroy_program(p).unwrap();
        assert_eq!(gpu.program_state(p).0, ProgramState::Absent);
        assert_eq!(gpu.dispatch(p, &[b], [1, 1, 1]).unwrap_err().id(), "stale");
        assert_eq!(read_now(gpu, b), [23], "recorded before the program went");
    });
}

#[test]
fn a_failed_recompile_keeps_the_parameters_of_the_program_that_is_bound() {
    let gpu = open();
    with(&gpu, |gpu| {
        let [_, step, _] = kernels(gpu);
        let b = gpu.create_buffer("b", BufferDesc::new(256)).unwrap();
        gpu.compile(declared("step", "nonsense", &[("dst", ReadWrite)], &["other"])).unwrap();
        assert!(matches!(gpu.wait_program(step), Err(Error::Shader(_))));
        assert!(gpu.set_param(step, "k", 0, 5.0).unwrap());
        assert!(!gpu.set_param(step, "unknown", 0, 5.0).unwrap());
        gpu.dispatch(step, &[b], [1, 1, 1]).unwrap();
        assert_eq!(read_now(gpu, b), [5; 64]);
    });
}

/// The arena is as it was after every refused call.
#[test]
fn refused_calls_record_nothing() {
    let gpu = open();
    with(&gpu, |gpu| {
        let [combine, step, _] = kernels(gpu);
        let b = gpu.create_buffer("b", BufferDesc::new(256)).unwrap();
        let tiny = gpu.create_buffer("tiny", BufferDesc::new(4)).unwrap();
        let over = gpu.info().limits.max_workgroups[1].saturating_add(1);
        let before = gpu.plan_text();
        let mut refused = vec![
            gpu.write_buffer(b, 2, &[0; 4]).unwrap_err(),
            gpu.write_buffer(b, 0, &[0; 3]).unwrap_err(),
            gpu.write_buffer(b, 256, &[0; 4]).unwrap_err(),
            gpu.write_buffer(b, u64::MAX - 3, &[0; 4]).unwrap_err(),
            gpu.write_buffer_with(b, 0, 4, |_| Err(Error::argument("values[1]", "nil", "a number"))).unwrap_err(),
            gpu.create_buffer("n", BufferDesc::new(0)).unwrap_err(),
            gpu.create_buffer("n", BufferDesc::new(6)).unwrap_err(),
            gpu.create_buffer("", BufferDesc::new(4)).unwrap_err(),
            gpu.dispatch(step, &[], [1, 1, 1]).unwrap_err(),
            gpu.dispatch(combine, &[b], [1, 1, 1]).unwrap_err(),
            gpu.dispatch(step, &[b], [0, 1, 1]).unwrap_err(),
            gpu.dispatch(step, &[b], [1, over, 1]).unwrap_err(),
        ];
        assert!(refused.iter().all(|e| e.id() == "argument"), "{refused:?}");
        refused = vec![gpu.create_buffer("petabyte", BufferDesc::new(1 << 50)).unwrap_err()];
        assert_eq!(refused[0].id(), "limit");
        assert_eq!(gpu.plan_text(), before);
        assert!(gpu.find_buffer("petabyte").is_none());
        // Nothing else broke.
        gpu.dispatch(step, &[b], [1, 1, 1]).unwrap();
        gpu.dispatch(step, &[tiny], [1, 1, 1]).unwrap();
        assert_eq!(read_now(gpu, b).len(), 64);
    });
}

/// One frame in flight or several: the same results, and never more frames on the device than allowed.
#[test]
fn frames_in_flight_change_nothing_but_the_pace() {
    for frames_in_flight in [1, 2, 5] {
        let gpu = open_with(&DeviceOptions { frames_in_flight, ..options() });
        with(&gpu, |gpu| {
            let [_, step, _] = kernels(gpu);
            let b = gpu.create_buffer("b", BufferDesc::new(256)).unwrap();
            let mut keys = Vec::new();
            for frame in 0..12u32 {
                gpu.set_param(step, "k", 0, f64::from(frame)).unwrap();
                gpu.dispatch(step, &[b], [1, 1, 1]).unwrap();
                keys.push(gpu.read_buffer(b).unwrap());
                gpu.end_frame().unwrap();
                // Ending a frame waited for the one that many frames before it.
                if let Some(old) = frame.checked_sub(frames_in_flight) {
                    assert_eq!(gpu.read_state(keys[old as usize]), ReadState::Ready);
                }
            }
            let mut value = 0u32;
            for (frame, key) in keys.into_iter().enumerate() {
                value = value.wrapping_mul(22_695_477).wrapping_add(frame as u32);
                assert_eq!(words(&gpu.wait_read(key).unwrap()), [value; 64]);
            }
        });
    }
}
