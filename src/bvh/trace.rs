//! Rays through the packed bytes on the host: what the shaders in `ashfall/bvh.wgsl` do, in the same arithmetic.
//!
//! Boxes are tested with slabs that reach a millionth farther on both sides, so that rounding hides no triangle that
//! lies flat in its box. A hit counts where the ray passes the triangle's own box by that test, and its distance is
//! moved into the stretch within it: the arithmetic of slivers is off by more than a millionth. Each step of the test
//! is monotonic, so the ray then passes every box around the triangle no later, and the distance of the closest hit
//! is bit for bit the one that testing all triangles gives, whatever the triangles. Which of several at the same
//! distance is told is not.

use super::{LEAF, MAX_DEPTH, NODE_BYTES, TRIANGLE_BYTES};

/// A ray, and the part of it that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ray {
    /// Where it begins.
    pub origin: [f32; 3],
    /// Where it goes; distances count in its lengths.
    pub direction: [f32; 3],
    /// Hits must be farther.
    pub near: f32,
    /// Hits must be nearer.
    pub far: f32,
}

impl Ray {
    /// All of a ray in front of its origin.
    #[must_use]
    pub fn new(origin: [f32; 3], direction: [f32; 3]) -> Self {
        Self { origin, direction, near: 0.0, far: f32::MAX }
    }
}

/// Where a ray meets a triangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Distance, in lengths of the direction.
    pub distance: f32,
    /// Number of the triangle in its buffer.
    pub triangle: u32,
    /// Weight of the second corner.
    pub u: f32,
    /// Weight of the third corner.
    pub v: f32,
}

/// What a ray has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// Nodes entered, leaves among them.
    pub nodes: u64,
    /// Triangles tested.
    pub triangles: u64,
}

/// The two buffers.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    nodes: &'a [u8],
    triangles: &'a [u8],
}

#[derive(Clone, Copy)]
struct Node {
    low: [f32; 3],
    high: [f32; 3],
    words: [u32; 2],
}

impl<'a> View<'a> {
    /// Over the bytes that a build wrote. Words that point outside of them are not followed.
    #[must_use]
    pub fn new(nodes: &'a [u8], triangles: &'a [u8]) -> Self {
        Self { nodes, triangles }
    }

    fn node(&self, index: u32) -> Option<Node> {
        let at = index as usize * NODE_BYTES as usize;
        let bytes = self.nodes.get(at..at + NODE_BYTES as usize)?;
        let w: [u32; 8] = bytemuck::pod_read_unaligned(bytes);
        let float = |a: usize| [w[a], w[a + 1], w[a + 2]].map(f32::from_bits);
        Some(Node { low: float(0), high: float(4), words: [w[3], w[7]] })
    }

    /// The corners of a triangle, if there is such a one.
    #[must_use]
    pub fn corners(&self, triangle: u32) -> Option<[[f32; 3]; 3]> {
        let at = triangle as usize * TRIANGLE_BYTES as usize;
        let f: [f32; 12] = bytemuck::pod_read_unaligned(self.triangles.get(at..at + 48)?);
        Some([[f[0], f[1], f[2]], [f[4], f[5], f[6]], [f[8], f[9], f[10]]])
    }

    /// The closest hit.
    #[must_use]
    pub fn closest(&self, ray: &Ray, visits: &mut Visits) -> Option<Hit> {
        self.walk(ray, false, visits)
    }

    /// Whether there is any hit.
    #[must_use]
    pub fn any(&self, ray: &Ray, visits: &mut Visits) -> bool {
        self.walk(ray, true, visits).is_some()
    }

    /// The closest hit by testing all triangles.
    #[must_use]
    pub fn closest_of_all(&self, ray: &Ray) -> Option<Hit> {
        let mut ray = *ray;
        let inverse = ray.direction.map(|d| 1.0 / d);
        let mut best = None;
        for triangle in 0..(self.triangles.len() as u64 / TRIANGLE_BYTES) as u32 {
            if let Some(hit) = self.test(&ray, inverse, triangle) {
                ray.far = hit.distance;
                best = Some(hit);
            }
        }
        best
    }

    fn test(&self, ray: &Ray, inverse: [f32; 3], triangle: u32) -> Option<Hit> {
        let [distance, u, v] = intersect(ray, inverse, self.corners(triangle)?)?;
        Some(Hit { distance, triangle, u, v })
    }

    fn walk(&self, ray: &Ray, any: bool, visits: &mut Visits) -> Option<Hit> {
        let mut ray = *ray;
        let inverse = ray.direction.map(|d| 1.0 / d);
        let mut best = None;
        // A node waits on each level above the one at hand: its words, and where the ray enters it.
        let mut stack = [([0u32; 2], 0f32); MAX_DEPTH as usize + 1];
        let mut waiting = 0;
        let reach = |ray: &Ray, n: Node| enter(ray, inverse, n.low, n.high);
        let root = self.node(0)?;
        reach(&ray, root)?;
        let mut words = root.words;
        loop {
            visits.nodes += 1;
            let [first, second] = words;
            if second & LEAF == 0 {
                let (Some(left), Some(right)) = (self.node(first), self.node(second)) else { return best };
                // No build writes children in front of their parents, and a walk over such would not end.
                if [left, right].iter().any(|n| n.words[1] & LEAF == 0 && n.words[0] <= first) {
                    return best;
                }
                match [reach(&ray, left), reach(&ray, right)] {
                    [Some(a), Some(b)] => {
                        let (nearer, farther) = if b < a { (right, (left, a)) } else { (left, (right, b)) };
                        if let Some(slot) = stack.get_mut(waiting) {
                            *slot = (farther.0.words, farther.1);
                            waiting += 1;
                        }
                        words = nearer.words;
                        continue;
                    }
                    [Some(_), None] => {
                        words = left.words;
                        continue;
                    }
                    [None, Some(_)] => {
                        words = right.words;
                        continue;
                    }
                    [None, None] => {}
                }
            } else {
                for triangle in first..first.saturating_add(second ^ LEAF) {
                    visits.triangles += 1;
                    if let Some(hit) = self.test(&ray, inverse, triangle) {
                        if any {
                            return Some(hit);
                        }
                        ray.far = hit.distance;
                        best = Some(hit);
                    }
                }
            }
            words = loop {
                waiting = if waiting == 0 { return best } else { waiting - 1 };
                // It may lie behind a hit that was found since it was put there.
                let (next, entry) = stack[waiting];
                if entry <= ray.far {
                    break next;
                }
            };
        }
    }
}

/// The distance at which a ray enters a box, if it does so within its part that counts. `inverse` is 1 over each
/// coordinate of its direction.
#[must_use]
#[inline]
pub fn enter(ray: &Ray, inverse: [f32; 3], low: [f32; 3], high: [f32; 3]) -> Option<f32> {
    let [entry, exit] = stretch(ray, inverse, low, high, [ray.near, ray.far]);
    (entry <= exit).then_some(entry)
}

/// What of a stretch of a ray lies within a box; ends before it begins if nothing does.
///
/// Along an axis on which the ray does not move it is within the slab or not at all; products of 0 and infinity never
/// come about.
#[inline]
fn stretch(ray: &Ray, inverse: [f32; 3], low: [f32; 3], high: [f32; 3], [mut entry, mut exit]: [f32; 2]) -> [f32; 2] {
    for axis in 0..3 {
        let (below, above) = (low[axis] - ray.origin[axis], high[axis] - ray.origin[axis]);
        if ray.direction[axis].abs() < f32::MIN_POSITIVE {
            let slack = ray.origin[axis].abs() * SLACK;
            if below > slack || above < -slack {
                return [f32::MAX, -f32::MAX];
            }
            continue;
        }
        let (a, b) = (below * inverse[axis], above * inverse[axis]);
        let (near, far) = if a < b { (a, b) } else { (b, a) };
        // By factors, as infinity less a part of it is not a number.
        entry = larger(entry, near * if near < 0.0 { 1.0 + SLACK } else { 1.0 - SLACK });
        exit = smaller(exit, far * if far < 0.0 { 1.0 - SLACK } else { 1.0 + SLACK });
    }
    [entry, exit]
}

/// How much farther boxes reach, for their distance.
pub(super) const SLACK: f32 = 1e-6;

#[inline]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline]
fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// Distance and weights where a ray meets a triangle, after Möller and Trumbore 1997; both sides count. `inverse` is
/// 1 over each coordinate of its direction.
///
/// Triangles from 1e-30 to 1e37 across are met, as seen from up to about 1e18 times their size away along directions
/// whose length is not itself at an end of that range.
#[must_use]
pub fn intersect(ray: &Ray, inverse: [f32; 3], [a, b, c]: [[f32; 3]; 3]) -> Option<[f32; 3]> {
    let (ab, ac) = (sub(b, a), sub(c, a));
    // Products of three lengths leave the range of floats where single ones do not, so they are counted in a power of
    // two near the triangle's size. That rounds nothing.
    let [unit, part] = power_near([ab, ac].as_flattened().iter().fold(0.0, |most, x| larger(most, x.abs())));
    let (ab, ac) = (ab.map(|x| x * part), ac.map(|x| x * part));
    let from = sub(ray.origin, a).map(|x| x * part);
    let p = cross(ray.direction, ac);
    let determinant = dot(ab, p);
    let scale = 1.0 / determinant;
    let u = dot(from, p) * scale;
    let q = cross(from, ab);
    let v = dot(ray.direction, q) * scale;
    let distance = dot(ac, q) * scale * unit;
    // An overflown determinant has an inverse of 0, and places every corner at the origin.
    let inside = u >= 0.0
        && v >= 0.0
        && u + v <= 1.0
        && determinant.abs() > 0.0
        && scale.abs() > 0.0
        && distance.abs() <= f32::MAX;
    if !inside {
        return None;
    }
    let corner = |pick: fn(f32, f32) -> f32| [0, 1, 2].map(|axis| pick(a[axis], pick(b[axis], c[axis])));
    let [entry, exit] = stretch(ray, inverse, corner(smaller), corner(larger), [-f32::MAX, f32::MAX]);
    let distance = smaller(larger(distance, entry), exit);
    (entry <= exit && distance > ray.near && distance < ray.far).then_some([distance, u, v])
}

/// The power of two at or below a length, and its inverse, as far as both are normal numbers.
fn power_near(length: f32) -> [f32; 2] {
    let power = (length.to_bits() & 0x7f80_0000).clamp(1 << 23, 253 << 23);
    [power, (254 << 23) - power].map(f32::from_bits)
}

fn sub(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}
