//! The tree from the top down. Nodes are numbered in one order, however the work is sliced or shared out: first those
//! over long runs, depth first, then the trees over short runs, from left to right, each depth first.

use super::LEAF;
use super::boxes::{Bounds, Item};
use super::gather::Extent;
use super::share;
use super::split::{Best, Bins, Cut, Grid, Partition, Plane, partition};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The deepest a leaf may lie under the root.
pub const MAX_DEPTH: u32 = 64;

/// Runs up to this long are short: 128 KiB, which fits a core's cache, and so does the tree over them.
pub(super) const SHORT: usize = 4096;

/// How many primitives stand for a long run when its split is chosen. The error of the cost is a percent or two.
const SAMPLES: usize = 4096;

/// Primitives that splitting leaves together; larger leaves are made of small trees once those have been improved, as
/// boxes of few triangles find better places.
pub(super) const SPLIT_LEAF: usize = 2;

const LONG_BINS: usize = 32;

/// What a node costs beside its primitives, in primitives.
const NODE_WORK: usize = 16;

/// A run of primitives whose node is yet to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The node over it.
    pub(super) node: usize,
    pub(super) depth: u32,
    pub(super) extent: Extent,
}

impl Run {
    fn len(&self) -> usize {
        self.to - self.from
    }
}

/// Whether runs of this length must be halved from here on, so that no leaf ends up too deep.
#[inline]
fn must_halve(len: usize, depth: u32) -> bool {
    depth + len.next_power_of_two().trailing_zeros() >= MAX_DEPTH
}

/// A long run being split.
#[derive(Debug)]
pub(super) struct LongSplit {
    run: Run,
    cut: Option<Cut>,
    bins: Option<(Grid, Box<Bins<LONG_BINS>>)>,
    binned: usize,
    partition: Partition,
}

impl LongSplit {
    pub(super) fn new(run: Run) -> Self {
        Self { run, cut: None, bins: None, binned: 0, partition: Partition::new() }
    }

    /// Goes on for about `work` primitives of the run's own; both halves once it is split.
    pub(super) fn advance(&mut self, run: &mut [Item], work: usize) -> Option<[Run; 2]> {
        let Some(cut) = self.cut else {
            self.choose(run, work);
            return None;
        };
        self.partition.advance(run, &cut, work);
        if self.partition.at < run.len() {
            return None;
        }
        let (Run { from, to, depth, .. }, [left, right]) = (self.run, self.partition.sides);
        let (middle, depth) = (from + self.partition.left, depth + 1);
        Some([
            Run { from, to: middle, node: 0, depth, extent: left },
            Run { from: middle, to, node: 0, depth, extent: right },
        ])
    }

    fn choose(&mut self, run: &[Item], work: usize) {
        let extent = self.run.extent;
        if must_halve(run.len(), self.run.depth) {
            self.cut = Some(Cut::Middle);
            return;
        }
        let (grid, bins) =
            self.bins.get_or_insert_with(|| (Grid::new(extent.centres, LONG_BINS), Box::new(Bins::new())));
        let stride = (run.len() / SAMPLES).max(1);
        let samples = run.len().div_ceil(stride);
        let to = samples.min(self.binned + work);
        for sample in self.binned..to {
            bins.add(grid, &run[sample * stride]);
        }
        self.binned = to;
        if to == samples {
            let best = bins.best(grid, extent.bounds.unit_scale());
            self.cut = Some(best.map_or_else(|| central(extent.centres), |b| Cut::Plane(b.plane)));
            self.bins = None;
        }
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }
}

/// Through the middle of the centres' longest side, which has centres at both of its ends: for samples that miss
/// what lies far off. Where there is only one centre, in halves.
fn central(centres: Bounds) -> Cut {
    let size = centres.high - centres.low;
    let axis = if size.x >= size.y && size.x >= size.z { 0 } else { 1 + usize::from(size.z > size.y) };
    // Below this a grid knows no bins.
    if size[axis] > 1e-35 { Cut::Plane(Plane::new(Grid::new(centres, 2), axis, 0)) } else { Cut::Middle }
}

/// Makes two children under a node; returns the number of the left one.
pub(super) fn open_node(nodes: &mut Vec<Item>, node: usize, children: [Bounds; 2]) -> usize {
    let child = nodes.len();
    nodes.extend(children.map(|bounds| Item::new(bounds, 0, 0)));
    nodes[node].set_words(child as u32, 0);
    child
}

/// The tree over a short run being made.
#[derive(Debug, Default)]
pub(super) struct ShortTree {
    /// What is left to do, the next one last.
    stack: Vec<Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u32,
    len: u32,
    node: u32,
    depth: u32,
}

impl ShortTree {
    /// Begins the tree over a short run. Pieces number their primitives from the run's first one.
    pub(super) fn begin(&mut self, len: usize, node: usize, depth: u32) {
        self.stack.clear();
        self.stack.push(Piece { from: 0, len: len as u32, node: node as u32, depth });
    }

    /// Makes nodes until about `work` primitives have been looked at or the tree is complete; returns the work done.
    /// Leaves get numbers from `first` on.
    pub(super) fn advance(
        &mut self,
        run: &mut [Item],
        first: usize,
        nodes: &mut Vec<Item>,
        max_leaf: usize,
        work: usize,
    ) -> usize {
        let mut done = 0;
        while done < work {
            let Some(piece) = self.stack.pop() else { break };
            let (from, len) = (piece.from as usize, piece.len as usize);
            let items = &mut run[from..from + len];
            let node = piece.node as usize;
            done += len + NODE_WORK;
            let Some((middle, children)) = split_piece(items, nodes[node].bounds(), piece.depth, max_leaf) else {
                nodes[node].set_words((first + from) as u32, LEAF | len as u32);
                continue;
            };
            let child = open_node(nodes, node, children) as u32;
            let (depth, middle) = (piece.depth + 1, middle as u32);
            let right = Piece { from: piece.from + middle, len: piece.len - middle, node: child + 1, depth };
            self.stack.push(right);
            self.stack.push(Piece { len: middle, node: child, depth, ..piece });
        }
        done
    }

    pub(super) fn is_done(&self) -> bool {
        self.stack.is_empty()
    }
}

/// Splits a run and measures both sides, unless it is short enough for a leaf.
#[inline]
fn split_piece(items: &mut [Item], bounds: Bounds, depth: u32, max_leaf: usize) -> Option<(usize, [Bounds; 2])> {
    let len = items.len();
    if len <= max_leaf {
        return None;
    }
    if !must_halve(len, depth) {
        let scale = bounds.unit_scale();
        let best = match len {
            0..=24 => best_of::<8>(items, scale),
            _ => best_of::<16>(items, scale),
        };
        if let Some(best) = best {
            return Some((partition(items, &best.plane), [best.left, best.right]));
        }
    }
    let middle = len / 2;
    let (left, right) = items.split_at(middle);
    let all = |range: &[Item]| range.iter().fold(Bounds::EMPTY, |all, i| all.union(i.bounds()));
    Some((middle, [all(left), all(right)]))
}

#[inline]
fn best_of<const N: usize>(items: &[Item], scale: f32) -> Option<Best> {
    let centres = items.iter().fold(Bounds::EMPTY, |all, i| all.with_point(i.centre()));
    let grid = Grid::new(centres, N);
    let mut bins = Bins::<N>::new();
    for item in items {
        bins.add(&grid, item);
    }
    bins.best(&grid, scale)
}

/// Where making the tree stands.
#[derive(Debug, Default)]
pub(super) struct Builder {
    /// Runs whose node is not made, the leftmost last.
    pending: Vec<Run>,
    current: Option<LongSplit>,
    /// Short runs, from left to right, and how many of them have a tree.
    short: Vec<Run>,
    planted: usize,
    tree: ShortTree,
}

impl Builder {
    /// Files the root. `nodes` is empty.
    pub(super) fn begin(&mut self, len: usize, extent: Extent, nodes: &mut Vec<Item>) {
        nodes.push(Item::new(extent.bounds, 0, 0));
        self.pending.push(Run { from: 0, to: len, node: 0, depth: 0, extent });
    }

    /// Goes on for about `work` primitives; returns the work done, 0 when the tree is complete.
    pub(super) fn advance(&mut self, items: &mut [Item], nodes: &mut Vec<Item>, max_leaf: usize, work: usize) -> usize {
        while self.current.is_none() {
            let Some(run) = self.pending.pop() else { return self.plant(items, nodes, max_leaf, work) };
            if run.len() > SHORT {
                self.current = Some(LongSplit::new(run));
            } else {
                self.short.push(run);
            }
        }
        let Some(split) = &mut self.current else { return 0 };
        let Run { from, to, node, .. } = *split.run();
        if let Some(halves) = split.advance(&mut items[from..to], work) {
            self.current = None;
            self.file(node, halves, nodes);
        }
        work
    }

    /// Makes the nodes of both halves of a long run.
    fn file(&mut self, node: usize, [left, right]: [Run; 2], nodes: &mut Vec<Item>) {
        let child = open_node(nodes, node, [left.extent.bounds, right.extent.bounds]);
        self.pending.push(Run { node: child + 1, ..right });
        self.pending.push(Run { node: child, ..left });
    }

    fn plant(&mut self, items: &mut [Item], nodes: &mut Vec<Item>, max_leaf: usize, work: usize) -> usize {
        let mut done = 0;
        while done < work {
            if self.tree.is_done() {
                let Some(run) = self.short.get(self.planted) else { break };
                self.planted += 1;
                self.tree.begin(run.len(), run.node, run.depth);
            }
            let Run { from, to, .. } = self.short[self.planted - 1];
            done += self.tree.advance(&mut items[from..to], from, nodes, max_leaf, work - done);
        }
        done
    }

    /// Completes the tree on some threads, with the nodes that [`Builder::advance`] makes.
    pub(super) fn finish(&mut self, items: &mut [Item], nodes: &mut Vec<Item>, max_leaf: usize, threads: usize) {
        while self.current.is_some() {
            self.advance(items, nodes, max_leaf, usize::MAX >> 1);
        }
        if let Some(run) = self.planted.checked_sub(1).map(|at| self.short[at]) {
            self.tree.advance(&mut items[run.from..run.to], run.from, nodes, max_leaf, usize::MAX);
        }
        self.finish_long(items, nodes, threads);
        let mut rest = &mut *items;
        let mut passed = 0;
        let jobs = self.short[self.planted..].iter().map(|run| {
            let (_, from) = std::mem::take(&mut rest).split_at_mut(run.from - passed);
            let (items, behind) = from.split_at_mut(run.len());
            rest = behind;
            passed = run.to;
            (*run, nodes[run.node], items)
        });
        let jobs: Vec<_> = jobs.collect();
        let make = |(run, root, items): (Run, Item, &mut [Item])| {
            let mut nodes = Vec::with_capacity(2 * run.len());
            nodes.push(root);
            let mut tree = ShortTree::default();
            tree.begin(run.len(), 0, run.depth);
            tree.advance(items, run.from, &mut nodes, max_leaf, usize::MAX);
            (run.node, nodes)
        };
        share::in_order(threads, jobs.into_iter(), make, |(root, tree)| graft(nodes, root, &tree));
        self.planted = self.short.len();
    }

    fn finish_long(&mut self, items: &mut [Item], nodes: &mut Vec<Item>, threads: usize) {
        let long = self.pending.iter().rev().filter(|run| run.len() > SHORT);
        let mut rest = items;
        let mut passed = 0;
        let tasks = long.map(|run| {
            let (_, from) = std::mem::take(&mut rest).split_at_mut(run.from - passed);
            let (items, behind) = from.split_at_mut(run.len());
            rest = behind;
            passed = run.to;
            (*run, items)
        });
        let tasks = tasks.collect();
        let splits = Mutex::new(HashMap::new());
        share::spread(threads, tasks, |(run, items): (Run, &mut [Item]), made| {
            let mut split = LongSplit::new(run);
            let halves = loop {
                if let Some(halves) = split.advance(items, usize::MAX >> 1) {
                    break halves;
                }
            };
            share::lock(&splits).insert((run.from, run.depth), halves);
            let (left, right) = items.split_at_mut(halves[0].len());
            made.extend(halves.into_iter().zip([left, right]).filter(|(run, _)| run.len() > SHORT));
        });
        let splits = splits.into_inner().unwrap_or_else(PoisonError::into_inner);
        while let Some(run) = self.pending.pop() {
            match splits.get(&(run.from, run.depth)) {
                Some(halves) => self.file(run.node, *halves, nodes),
                None => self.short.push(run),
            }
        }
    }
}

/// Takes over a tree over a short run whose nodes are numbered from 0 at its root.
fn graft(nodes: &mut Vec<Item>, root: usize, tree: &[Item]) {
    let offset = nodes.len() as u32;
    let moved = |item: &Item| {
        let mut item = *item;
        if !item.is_leaf() {
            item.set_words(item.low_word() - 1 + offset, 0);
        }
        item
    };
    let Some((first, rest)) = tree.split_first() else { return };
    nodes[root] = moved(first);
    nodes.extend(rest.iter().map(moved));
}
