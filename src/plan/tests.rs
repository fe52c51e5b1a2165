//! Properties and snapshots of plans. No GPU.

use super::text::{Names, hazard};
use super::{Plan, Planner};
use crate::arena::Arena;
use crate::command::{Bound, Dispatch, Fill, PARAMS_INLINE, Read, Upload, Uses, View};
use proptest::prelude::*;

const BUFFERS: usize = 5;
/// Cells a buffer; a byte range of a transfer is a range of cells here.
const CELLS: u64 = 8;

/// A random command, before it is recorded.
#[derive(Clone, Debug)]
enum Step {
    Dispatch(Vec<(u32, Uses)>),
    Upload(u32, u64, u64),
    Fill(u32, u64, u64),
    Read(u32, u64, u64),
}

fn uses() -> impl Strategy<Value = Uses> {
    prop::sample::select(vec![
        Uses::NONE,
        Uses::SHADER_READ,
        Uses::SHADER_WRITE,
        Uses::SHADER_READ_WRITE,
        Uses::UNIFORM_READ,
    ])
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    (0..CELLS, 1..=CELLS).prop_map(|(a, n)| (a, n.min(CELLS - a)))
}

fn step() -> impl Strategy<Value = Step> {
    let buffer = 0..BUFFERS as u32;
    prop_oneof![
        4 => prop::collection::vec((buffer.clone(), uses()), 1..5).prop_map(Step::Dispatch),
        2 => (buffer.clone(), range()).prop_map(|(b, (o, n))| Step::Upload(b, o, n)),
        1 => (buffer.clone(), range()).prop_map(|(b, (o, n))| Step::Fill(b, o, n)),
        1 => (buffer, range()).prop_map(|(b, (o, n))| Step::Read(b, o, n)),
    ]
}

fn record(steps: &[Step]) -> Arena {
    let mut arena = Arena::default();
    for (i, step) in steps.iter().enumerate() {
        let i = i as u32;
        match step {
            Step::Dispatch(list) => {
                let bound: Vec<Bound> = list.iter().map(|(b, u)| Bound::new(*b, *u)).collect();
                arena.push_dispatch(&dispatch(i, &bound), &bound, &[]);
            }
            // The source offset carries the command's number, so that each upload writes values of its own.
            Step::Upload(b, o, n) => {
                _ = arena.push(&Upload { buffer: *b, segment: 0, source: i.into(), offset: *o, size: *n })
            }
            Step::Fill(b, o, n) => _ = arena.push(&Fill { buffer: *b, value: 1000 + i, offset: *o, size: *n }),
            Step::Read(b, o, n) => {
                _ = arena.push(&Read { buffer: *b, segment: 0, offset: *o, destination: i.into(), size: *n })
            }
        }
    }
    arena
}

fn dispatch(program: u32, bound: &[Bound]) -> Dispatch {
    Dispatch {
        program,
        pipeline: 0,
        groups: [1; 3],
        row: 0,
        param_segment: PARAMS_INLINE,
        param_offset: 0,
        bindings: bound.len() as u32,
        param_bytes: 0,
    }
}

/// The machine that commands run on in these tests: every written cell becomes a function of all that was read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Machine {
    cells: [[u64; CELLS as usize]; BUFFERS],
    read: Vec<(u64, Vec<u64>)>,
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
}

impl Machine {
    fn run(&mut self, view: &View<'_>) {
        match view {
            View::Dispatch(c, bound, _) => {
                let mut seen = u64::from(c.program) + 1;
                for b in bound.iter().filter(|b| !b.uses().reads().is_none()) {
                    seen = self.cells[b.index() as usize].iter().fold(seen, |s, v| mix(s, *v));
                }
                for (k, b) in bound.iter().enumerate().filter(|(_, b)| !b.uses().writes().is_none()) {
                    for (i, cell) in self.cells[b.index() as usize].iter_mut().enumerate() {
                        // A kernel need not write every cell of what it may write.
                        if !(i + k + c.program as usize).is_multiple_of(3) {
                            *cell = mix(seen, (i + 17 * k) as u64);
                        }
                    }
                }
            }
            View::Upload(c) => self.set(c.buffer, c.offset, c.size, mix(c.source, 7)),
            View::Fill(c) => self.set(c.buffer, c.offset, c.size, c.value.into()),
            View::Read(c) => {
                let cells = &self.cells[c.buffer as usize][c.offset as usize..(c.offset + c.size) as usize];
                self.read.push((c.destination, cells.to_vec()));
            }
            _ => unreachable!("no test records it"),
        }
    }

    fn set(&mut self, buffer: u32, offset: u64, size: u64, value: u64) {
        for i in offset..offset + size {
            self.cells[buffer as usize][i as usize] = mix(value, i);
        }
    }

    fn sorted(mut self) -> Self {
        self.read.sort();
        self
    }
}

fn conflicts(a: &View<'_>, b: &View<'_>, by_range: bool) -> bool {
    let mut found = false;
    a.accesses(|ra, ua, na| {
        b.accesses(|rb, ub, nb| {
            let overlap = !by_range || (na.start < nb.end && nb.start < na.end);
            found |= ra == rb && overlap && hazard(ua, ub).is_some();
        });
    });
    found
}

/// Length, in edges, of the longest chain of commands that must follow each other.
fn longest_chain(views: &[View<'_>], by_range: bool) -> usize {
    let mut depth = vec![0; views.len()];
    for j in 0..views.len() {
        for i in 0..j {
            if conflicts(&views[i], &views[j], by_range) {
                depth[j] = depth[j].max(depth[i] + 1);
            }
        }
    }
    depth.into_iter().max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// Level by level, in any order inside a level, gives what the recorded order gives.
    #[test]
    fn levels_preserve_the_recorded_order(steps in prop::collection::vec(step(), 0..40), seed in any::<u64>()) {
        let arena = record(&steps);
        let mut plan = Plan::default();
        Planner::default().plan(&arena, &mut plan);
        let mut expected = Machine::default();
        for (_, view) in arena.iter() { expected.run(&view); }
        let mut actual = Machine::default();
        let mut count = 0;
        for (_, level) in plan.iter() {
            let mut level = level.to_vec();
            level.sort_by_key(|at| mix(seed, u64::from(*at)));
            for at in level {
                actual.run(&arena.view(at).unwrap().0);
                count += 1;
            }
        }
        prop_assert_eq!(count, steps.len());
        prop_assert_eq!(actual.sorted(), expected.sorted());
    }

    /// Barriers: exactly the longest chain for whole-buffer work; with ranges, no more than the chain of the
    /// same commands taken as touching whole buffers, no fewer than the chain by range.
    #[test]
    fn barriers_are_minimal(steps in prop::collection::vec(step(), 0..40)) {
        let arena = record(&steps);
        let views: Vec<_> = arena.iter().map(|(_, v)| v).collect();
        let mut plan = Plan::default();
        Planner::default().plan(&arena, &mut plan);
        prop_assert!(plan.barriers() <= longest_chain(&views, false));
        prop_assert!(plan.barriers() >= longest_chain(&views, true));
        if steps.iter().all(|s| matches!(s, Step::Dispatch(_))) {
            prop_assert_eq!(plan.barriers(), longest_chain(&views, false));
        }
    }

    /// Over several frames: between any two commands that conflict stands a barrier whose scopes name both uses.
    #[test]
    fn every_hazard_is_covered_across_frames(frames in prop::collection::vec(prop::collection::vec(step(), 0..10), 1..6)) {
        let mut planner = Planner::default();
        let mut plan = Plan::default();
        let mut emitted: Vec<(u32, Uses, std::ops::Range<u64>, usize)> = Vec::new();
        let mut barriers: Vec<super::Cut> = Vec::new();
        for steps in &frames {
            let arena = record(steps);
            planner.plan(&arena, &mut plan);
            for (cut, level) in plan.iter() {
                barriers.extend(cut);
                let mut fresh = Vec::new();
                for at in level {
                    arena.view(*at).unwrap().0.accesses(|index, uses, range| {
                        for (other, earlier, bytes, since) in &emitted {
                            let overlap = *other == index && bytes.start < range.end && range.start < bytes.end;
                            if overlap && hazard(*earlier, uses).is_some() {
                                // A write followed by a covered write need not be covered again: look at what a
                                // single barrier, or a chain through a later write, gives.
                                let direct = barriers[*since..].iter().any(|c| c.from.intersects(*earlier) && c.to.intersects(uses));
                                let chained = emitted.iter().any(|(o, u, b, s)| {
                                    *o == index && !u.writes().is_none() && s > since
                                        && b.start <= bytes.start && bytes.end <= b.end
                                        && barriers[*s..].iter().any(|c| c.from.contains(u.writes()) && c.to.intersects(uses))
                                });
                                assert!(direct || chained, "{earlier:?} then {uses:?} on {index}: {barriers:?}");
                            }
                        }
                        fresh.push((index, uses, range, barriers.len()));
                    });
                }
                emitted.extend(fresh);
            }
        }
    }

    /// Whatever came before, a frame pays for it with one barrier at most: over the longest chain of its own for
    /// any commands, over what the same frame took alone for whole-buffer work.
    #[test]
    fn a_frame_pays_for_the_past_at_most_once(before in prop::collection::vec(step(), 0..20), steps in prop::collection::vec(step(), 1..20)) {
        let arena = record(&steps);
        let views: Vec<_> = arena.iter().map(|(_, v)| v).collect();
        let mut plan = Plan::default();
        Planner::default().plan(&arena, &mut plan);
        let alone = plan.barriers();
        let mut planner = Planner::default();
        planner.plan(&record(&before), &mut plan);
        planner.plan(&arena, &mut plan);
        prop_assert!(plan.barriers() <= longest_chain(&views, false) + 1);
        if steps.iter().all(|s| matches!(s, Step::Dispatch(_))) {
            prop_assert!(plan.barriers() <= alone + 1);
        }
    }
}

struct Letters;
impl Names for Letters {
    fn resource(&self, index: u32) -> String {
        ["a", "b", "c", "d", "e"][index as usize].to_owned()
    }
    fn program(&self, index: u32) -> String {
        format!("p{index}")
    }
}

const R: Uses = Uses::SHADER_READ;
const W: Uses = Uses::SHADER_WRITE;
const RW: Uses = Uses::SHADER_READ_WRITE;

/// Each rule of the hazard table has a recording here and a committed text.
#[test]
fn snapshots() {
    let cases: &[(&str, Vec<Vec<Step>>)] = &[
        ("independent", vec![(0..3).map(|i| Step::Dispatch(vec![(i, RW)])).collect()]),
        ("read_after_write", vec![vec![Step::Dispatch(vec![(0, W)]), Step::Dispatch(vec![(0, R), (1, W)])]]),
        ("write_after_read", vec![vec![Step::Dispatch(vec![(0, R), (1, W)]), Step::Dispatch(vec![(0, W)])]]),
        ("write_after_write", vec![vec![Step::Dispatch(vec![(0, W)]), Step::Fill(0, 0, 8)]]),
        (
            "readers_share_a_level",
            vec![vec![
                Step::Upload(0, 0, 8),
                Step::Dispatch(vec![(0, R), (1, W)]),
                Step::Dispatch(vec![(0, R), (2, W)]),
                Step::Dispatch(vec![(0, Uses::UNIFORM_READ), (3, W)]),
            ]],
        ),
        (
            "uploads_to_parts_share_a_level",
            vec![vec![
                Step::Upload(0, 0, 2),
                Step::Upload(0, 2, 2),
                Step::Upload(0, 6, 2),
                Step::Dispatch(vec![(0, R), (1, W)]),
                Step::Upload(0, 4, 2),
            ]],
        ),
        ("interleaved_chains", vec![(0..8).map(|i| Step::Dispatch(vec![(i % 2, RW)])).collect()]),
        (
            "upload_dispatch_read",
            vec![vec![
                Step::Upload(0, 0, 8),
                Step::Dispatch(vec![(0, R), (1, W)]),
                Step::Read(1, 0, 8),
                Step::Dispatch(vec![(1, RW)]),
            ]],
        ),
        (
            "next_frame_waits_once",
            vec![
                vec![Step::Dispatch(vec![(0, RW)])],
                vec![Step::Dispatch(vec![(0, RW)]), Step::Dispatch(vec![(1, RW)])],
                vec![Step::Dispatch(vec![(1, R), (2, W)]), Step::Read(0, 0, 8)],
            ],
        ),
    ];
    for (name, frames) in cases {
        let mut planner = Planner::default();
        let mut plan = Plan::default();
        let mut text = String::new();
        for (i, steps) in frames.iter().enumerate() {
            let arena = record(steps);
            planner.plan(&arena, &mut plan);
            text += &format!("frame {i}\n{}", plan.text(&arena, &Letters));
        }
        insta::assert_snapshot!(*name, text);
    }
}

/// A chain is as long as it is, and a thousand independent commands need no barrier.
#[test]
fn long_shapes() {
    let chain: Vec<_> = (0..1000).map(|_| Step::Dispatch(vec![(0, RW)])).collect();
    let wide: Vec<_> = (0..1000).map(|_| Step::Dispatch(vec![(0, R)])).collect();
    let mut plan = Plan::default();
    Planner::default().plan(&record(&chain), &mut plan);
    assert_eq!(plan.barriers(), 999);
    Planner::default().plan(&record(&wide), &mut plan);
    assert_eq!(plan.barriers(), 0);
}
