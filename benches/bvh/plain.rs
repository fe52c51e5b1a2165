//! A hierarchy by the textbook: from the top down, each run split where 16 bins on each axis make the surface area
//! heuristic least, after Wald 2007, "On fast Construction of SAH-based Bounding Volume Hierarchies". Leaves
//! are as those of [`ashfall::bvh`]: at most 4 triangles, and no split that does not save 3 tests.

use super::Shaped;
use ashfall::bvh::{DEFAULT_LEAF, LEAF};
use glam::Vec3A;
use obvhs::triangle::Triangle;

const BINS: usize = 16;

/// Cost of a visit, where a test costs 1.
const VISIT: f32 = 3.0;

#[derive(Clone, Copy)]
struct Aabb {
    low: Vec3A,
    high: Vec3A,
}

impl Aabb {
    const EMPTY: Self = Self { low: Vec3A::INFINITY, high: Vec3A::NEG_INFINITY };

    fn with(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    fn area(self) -> f32 {
        let size = self.high - self.low;
        size.x * size.y + size.y * size.z + size.z * size.x
    }
}

struct Primitive {
    aabb: Aabb,
    centre: Vec3A,
    index: u32,
}

/// The axis, the bin after which to split, and the cost in areas.
fn best(run: &[Primitive], low: Vec3A, scale: Vec3A) -> (usize, usize, f32) {
    let mut best = (0, 0, f32::INFINITY);
    for axis in (0..3).filter(|axis| scale[*axis].is_finite()) {
        let mut bins = [(Aabb::EMPTY, 0u32); BINS];
        for primitive in run {
            let bin = &mut bins[bin(primitive.centre, low, scale, axis)];
            *bin = (bin.0.with(primitive.aabb), bin.1 + 1);
        }
        let mut behind = [0.0; BINS];
        let mut side = (Aabb::EMPTY, 0);
        for bin in (1..BINS).rev() {
            side = (side.0.with(bins[bin].0), side.1 + bins[bin].1);
            behind[bin - 1] = if side.1 == 0 { f32::INFINITY } else { side.0.area() * side.1 as f32 };
        }
        let mut side = (Aabb::EMPTY, 0);
        for bin in 0..BINS - 1 {
            side = (side.0.with(bins[bin].0), side.1 + bins[bin].1);
            let cost = if side.1 == 0 { f32::INFINITY } else { side.0.area() * side.1 as f32 + behind[bin] };
            if cost < best.2 {
                best = (axis, bin, cost);
            }
        }
    }
    best
}

fn bin(centre: Vec3A, low: Vec3A, scale: Vec3A, axis: usize) -> usize {
    (((centre[axis] - low[axis]) * scale[axis]) as usize).min(BINS - 1)
}

/// Leaves hold at most [`DEFAULT_LEAF`] triangles.
pub fn build(triangles: &[Triangle]) -> Shaped {
    let primitive = |(index, t): (usize, &Triangle)| {
        let aabb = Aabb { low: t.v0.min(t.v1).min(t.v2), high: t.v0.max(t.v1).max(t.v2) };
        Primitive { aabb, centre: (aabb.low + aabb.high) * 0.5, index: index as u32 }
    };
    let mut primitives: Vec<_> = triangles.iter().enumerate().map(primitive).collect();
    let mut nodes = vec![([Vec3A::ZERO; 2], [0; 2])];
    let mut stack = vec![(0, 0, primitives.len())];
    while let Some((node, from, to)) = stack.pop() {
        let run = &mut primitives[from..to];
        let aabb = run.iter().fold(Aabb::EMPTY, |all, p| all.with(p.aabb));
        let centres = run.iter().fold(Aabb::EMPTY, |all, p| all.with(Aabb { low: p.centre, high: p.centre }));
        let scale = BINS as f32 / (centres.high - centres.low);
        let (axis, last, cost) = best(run, centres.low, scale);
        let fits = run.len() <= DEFAULT_LEAF as usize;
        let pays = VISIT * aabb.area() + cost < run.len() as f32 * aabb.area();
        nodes[node].0 = [aabb.low, aabb.high];
        if fits && !pays {
            nodes[node].1 = [from as u32, LEAF | run.len() as u32];
            continue;
        }
        let middle = if cost.is_finite() {
            let left = |p: &Primitive| bin(p.centre, centres.low, scale, axis) <= last;
            partition(run, left)
        } else {
            run.len() / 2
        };
        let child = nodes.len();
        nodes.extend([([Vec3A::ZERO; 2], [0; 2]); 2]);
        nodes[node].1 = [child as u32, child as u32 + 1];
        stack.extend([(child + 1, from + middle, to), (child, from, from + middle)]);
    }
    Shaped { nodes, order: primitives.iter().map(|p| p.index).collect() }
}

/// Brings those that are left to the front; how many there are.
fn partition(run: &mut [Primitive], left: impl Fn(&Primitive) -> bool) -> usize {
    let mut count = 0;
    for at in 0..run.len() {
        if left(&run[at]) {
            run.swap(at, count);
            count += 1;
        }
    }
    count
}
