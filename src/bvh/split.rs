//! Choosing where to split a run of primitives, by the surface area heuristic over bins.

use super::boxes::{Bounds, Item};
use super::gather::Extent;
use glam::Vec4;

/// Adding it rounds to an integer which the low bits of the sum spell; f32 steps by 1 here.
const ROUND: f32 = 12_582_912.0;

/// Centres to bins. Bins count from 0 on each axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    origin: Vec4,
    scale: Vec4,
}

impl Grid {
    /// A grid of `bins` a side over a box of centres; an axis without extent has everything in bin 0.
    #[inline]
    pub(super) fn new(centres: Bounds, bins: usize) -> Self {
        let extent = centres.high - centres.low;
        // The last centre must round into the last bin.
        let scale = Vec4::splat(bins as f32 * 0.99999) / extent;
        let flat = extent.cmpgt(Vec4::splat(1e-35));
        Self { origin: centres.low, scale: Vec4::select(flat, scale, Vec4::ZERO) }
    }

    #[inline]
    fn place(&self, item: &Item) -> Vec4 {
        // Half a bin down, as ROUND rounds to nearest.
        (item.centre() - self.origin) * self.scale - Vec4::splat(0.5) + Vec4::splat(ROUND)
    }

    #[inline]
    fn bins(&self, item: &Item) -> [usize; 3] {
        let [x, y, z, _] = self.place(item).to_array().map(|p| (p.to_bits() & 0xFF) as usize);
        [x, y, z]
    }
}

/// How primitives are told apart: left are those whose bin on an axis is not past a given one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    grid: Grid,
    axis: u32,
    last: Vec4,
}

impl Plane {
    #[inline]
    pub(super) fn new(grid: Grid, axis: usize, bin: usize) -> Self {
        Self { grid, axis: axis as u32, last: Vec4::splat(ROUND + bin as f32) }
    }

    #[inline]
    pub(super) fn is_left(&self, item: &Item) -> bool {
        (self.grid.place(item).cmple(self.last).bitmask() >> self.axis) & 1 != 0
    }
}

/// Boxes and numbers of the primitives in each bin.
#[derive(Clone, Debug)]
pub(super) struct Bins<const N: usize> {
    boxes: [[Bounds; N]; 3],
    counts: [[u32; N]; 3],
}

/// The best split that a set of bins has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Best {
    pub(super) plane: Plane,
    pub(super) left: Bounds,
    pub(super) right: Bounds,
}

impl<const N: usize> Bins<N> {
    #[inline]
    pub(super) fn new() -> Self {
        Self { boxes: [[Bounds::EMPTY; N]; 3], counts: [[0; N]; 3] }
    }

    #[inline]
    pub(super) fn add(&mut self, grid: &Grid, item: &Item) {
        let bounds = item.bounds();
        for (axis, bin) in grid.bins(item).into_iter().enumerate() {
            // N is a power of two, and the grid has no bin past it.
            let bin = bin & (N - 1);
            self.boxes[axis][bin] = self.boxes[axis][bin].union(bounds);
            self.counts[axis][bin] += 1;
        }
    }

    /// The split of least cost with primitives on both sides; none where every centre is in one bin on each axis.
    #[inline]
    pub(super) fn best(&self, grid: &Grid, scale: f32) -> Option<Best> {
        let mut best = (f32::INFINITY, 0, 0);
        for axis in 0..3 {
            if grid.scale[axis] == 0.0 {
                continue;
            }
            let (boxes, counts) = (&self.boxes[axis], &self.counts[axis]);
            let mut behind = [0f32; N];
            let (mut side, mut count) = (Bounds::EMPTY, 0);
            for bin in (1..N).rev() {
                side = side.union(boxes[bin]);
                count += counts[bin];
                behind[bin] = side.area(scale) * count as f32;
            }
            let (mut side, mut count) = (Bounds::EMPTY, 0);
            for bin in 0..N - 1 {
                side = side.union(boxes[bin]);
                count += counts[bin];
                // An empty side has an infinite area and no primitives, so a cost which is not a number and never less.
                let cost = side.area(scale) * count as f32 + behind[bin + 1];
                if cost < best.0 {
                    best = (cost, axis, bin);
                }
            }
        }
        let (cost, axis, bin) = best;
        if cost == f32::INFINITY {
            return None;
        }
        let all = |range: &[Bounds]| range.iter().fold(Bounds::EMPTY, |all, b| all.union(*b));
        let (left, right) = self.boxes[axis].split_at(bin + 1);
        Some(Best { plane: Plane::new(*grid, axis, bin), left: all(left), right: all(right) })
    }
}

/// Where a run is cut in two.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// By place.
    Plane(Plane),
    /// Half the run to each side, as it lies: for runs that no plane tells apart, and wherever the depth demands it.
    Middle,
}

/// A partition under way. Left are `0..left`, right `left..at`, ahead `at..`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partition {
    pub(super) at: usize,
    pub(super) left: usize,
    pub(super) sides: [Extent; 2],
}

impl Partition {
    pub(super) fn new() -> Self {
        Self { at: 0, left: 0, sides: [Extent::EMPTY; 2] }
    }

    /// Goes on for some items, and measures both sides. The result does not depend on where calls begin or end.
    pub(super) fn advance(&mut self, run: &mut [Item], cut: &Cut, items: usize) {
        let to = run.len().min(self.at + items);
        let mut sides = self.sides;
        let mut measure = |right: usize, item: &Item| {
            let side = &mut sides[right & 1];
            side.bounds = side.bounds.union(item.bounds());
            side.centres = side.centres.with_point(item.centre());
        };
        match cut {
            Cut::Plane(plane) => {
                let mut left = self.left;
                for at in self.at..to {
                    let item = run[at];
                    let is_left = plane.is_left(&item);
                    measure(usize::from(!is_left), &item);
                    // Without a branch, for the side is a coin's toss: a swap is harmless where it does not advance.
                    run[at] = run[left];
                    run[left] = item;
                    left += usize::from(is_left);
                }
                self.left = left;
            }
            Cut::Middle => {
                let middle = run.len() / 2;
                for (at, item) in run.iter().enumerate().take(to).skip(self.at) {
                    measure(usize::from(at >= middle), item);
                }
                self.left = middle.min(to);
            }
        }
        self.sides = sides;
        self.at = to;
    }
}

/// Splits a short run in one go; returns how many are left.
#[inline]
pub(super) fn partition(run: &mut [Item], plane: &Plane) -> usize {
    let mut left = 0;
    for at in 0..run.len() {
        let item = run[at];
        let is_left = plane.is_left(&item);
        run[at] = run[left];
        run[left] = item;
        left += usize::from(is_left);
    }
    left
}
