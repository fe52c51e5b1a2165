//! The library's own cost without a driver: appending to the arena, and planning it.
#![allow(clippy::unwrap_used, missing_docs, reason = "bench")]

use ashfall::arena::Arena;
use ashfall::command::{Bound, Dispatch, PARAMS_INLINE, Uses};
use ashfall::plan::{Plan, Planner};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// Dispatches of a frame.
const COUNTS: &[usize] = &[64, 1024, 4096, 65536];

/// How the dispatches of a frame depend on each other.
#[derive(Clone, Copy)]
enum Shape {
    Independent,
    Chain,
    Chains64,
}

/// Two storage buffers and 16 bytes of parameters each.
fn record(arena: &mut Arena, count: usize, shape: Shape) {
    for i in 0..count as u32 {
        let target = match shape {
            Shape::Independent => i + 1,
            Shape::Chain => 1,
            Shape::Chains64 => i % 64 + 1,
        };
        let bound = [Bound::new(0, Uses::SHADER_READ), Bound::new(target, Uses::SHADER_READ_WRITE)];
        let command = Dispatch {
            program: 0,
            pipeline: 0,
            groups: [4, 1, 1],
            row: 0,
            param_segment: PARAMS_INLINE,
            param_offset: 0,
            bindings: 2,
            param_bytes: 16,
        };
        arena.push_dispatch(black_box(&command), &bound, &[0; 16]);
    }
}

#[divan::bench(args = COUNTS)]
fn arena_push(bencher: Bencher, count: usize) {
    let mut arena = Arena::default();
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        arena.reset();
        record(&mut arena, count, Shape::Independent);
    });
}

fn plan(bencher: Bencher, count: usize, shape: Shape) {
    let mut arena = Arena::default();
    record(&mut arena, count, shape);
    let (mut planner, mut plan) = (Planner::default(), Plan::default());
    bencher.counter(ItemsCount::new(count)).bench_local(|| planner.plan(black_box(&arena), &mut plan));
}

#[divan::bench(args = COUNTS)]
fn plan_independent(bencher: Bencher, count: usize) {
    plan(bencher, count, Shape::Independent);
}

#[divan::bench(args = COUNTS)]
fn plan_one_chain(bencher: Bencher, count: usize) {
    plan(bencher, count, Shape::Chain);
}

#[divan::bench(args = COUNTS)]
fn plan_64_chains(bencher: Bencher, count: usize) {
    plan(bencher, count, Shape::Chains64);
}
