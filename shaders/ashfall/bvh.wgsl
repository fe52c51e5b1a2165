// Rays through the hierarchies of compute.buildBvh: the nodes (two vectors each) and the triangles (eighteen).
//
// Declare both buffers as array<vec4<u32>>: their integers are denormals as floats, which devices may flush to zero.
// Functions here take the vectors they look at, so the buffers may have any name:
//
//     var walk = bvh_begin(ray, nodes[0], nodes[1]);
//     while walk.busy {
//         if bvh_at_leaf(&walk) {
//             let t = 18u * walk.first;
//             bvh_test(&walk, tris[t], tris[t + 1u], tris[t + 2u]);
//         } else {
//             let n = 2u * walk.first;
//             bvh_descend(&walk, nodes[n], nodes[n + 1u], nodes[n + 2u], nodes[n + 3u]);
//         }
//     }
//
// leaves the closest hit in walk.hit, and with `walk.busy && walk.hit.triangle == BVH_NONE` any hit. With
// ashfall/bvh_trace.wgsl behind it that is one call.
//
// Exact: boxes reach a millionth of their distance farther, hits lie within the box of their triangle, and every step
// of the box test is monotonic, with no product in a sum that could be fused. So on one device the distance is that
// which testing every triangle gives. Not exact: division, and products in sums that devices may fuse, so distances
// and weights differ in their last bits from one device to another and from the processor.

const BVH_NONE = 0xffffffffu;
const BVH_LEAF = 0x80000000u;

// The deepest leaf lies this far below the root, and a node waits on each level.
const BVH_DEPTH = 64u;

const BVH_NEARER = 0.999999;
const BVH_FARTHER = 1.000001;
const BVH_FAR = 0x1.fffffep+127;

// Distances count in lengths of the direction; hits lie between near and far.
struct BvhRay {
    origin: vec3<f32>,
    near: f32,
    direction: vec3<f32>,
    far: f32,
}

// The closest one so far; its triangle is BVH_NONE without any. Weights are those of the second and third corner.
struct BvhHit {
    distance: f32,
    triangle: u32,
    u: f32,
    v: f32,
}

// An inner node's children are `first` and the one next to it; a leaf's triangles are `count` from `first` on.
struct BvhNode {
    low: vec3<f32>,
    high: vec3<f32>,
    first: u32,
    is_leaf: bool,
    count: u32,
}

struct BvhWaiting {
    first: u32,
    second: u32,
    entry: f32,
}

struct BvhWalk {
    ray: BvhRay,
    inverse: vec3<f32>,
    hit: BvhHit,
    busy: bool,
    // The first word of the node at hand, and the second one.
    first: u32,
    second: u32,
    waiting: u32,
    stack: array<BvhWaiting, BVH_DEPTH + 1u>,
}

fn bvh_node(low: vec4<u32>, high: vec4<u32>) -> BvhNode {
    let is_leaf = (high.w & BVH_LEAF) != 0u;
    let count = select(0u, high.w ^ BVH_LEAF, is_leaf);
    return BvhNode(bitcast<vec3<f32>>(low.xyz), bitcast<vec3<f32>>(high.xyz), low.w, is_leaf, count);
}

// The whole line of a ray.
fn bvh_line() -> vec2<f32> {
    return vec2<f32>(-BVH_FAR, BVH_FAR);
}

// What of a stretch of a ray lies within a box; ends before it begins if nothing does.
fn bvh_stretch(ray: BvhRay, inverse: vec3<f32>, low: vec3<f32>, high: vec3<f32>, span: vec2<f32>) -> vec2<f32> {
    var entry = span.x;
    var exit = span.y;
    for (var axis = 0u; axis < 3u; axis++) {
        let below = low[axis] - ray.origin[axis];
        let above = high[axis] - ray.origin[axis];
        // Along this axis the ray does not move: a product of 0 and infinity must not come about.
        if abs(ray.direction[axis]) < 0x1p-126 {
            let slack = abs(ray.origin[axis]) * 1e-6;
            if below > slack || above < -slack {
                return vec2<f32>(BVH_FAR, -BVH_FAR);
            }
            continue;
        }
        let a = below * inverse[axis];
        let b = above * inverse[axis];
        let near = min(a, b);
        let far = max(a, b);
        entry = max(entry, near * select(BVH_NEARER, BVH_FARTHER, near < 0.0));
        exit = min(exit, far * select(BVH_FARTHER, BVH_NEARER, far < 0.0));
    }
    return vec2<f32>(entry, exit);
}

// Whether a ray meets a triangle, after Moller and Trumbore 1997; both sides count. The hit is filled in if it does.
fn bvh_intersect(
    ray: BvhRay, inverse: vec3<f32>, a: vec3<f32>, b: vec3<f32>, c: vec3<f32>, triangle: u32,
    hit: ptr<function, BvhHit>,
) -> bool {
    // Products of three lengths leave the range of floats where single ones do not, so they are counted in a power of
    // two near the triangle's size. That rounds nothing.
    let most = max(abs(b - a), abs(c - a));
    let power = clamp(bitcast<u32>(max(most.x, max(most.y, most.z))) & 0x7f800000u, 1u << 23u, 253u << 23u);
    let unit = bitcast<f32>(power);
    let part = bitcast<f32>((254u << 23u) - power);
    let ab = (b - a) * part;
    let ac = (c - a) * part;
    let from_a = (ray.origin - a) * part;
    let p = cross(ray.direction, ac);
    let determinant = dot(ab, p);
    let scale = 1.0 / determinant;
    let u = dot(from_a, p) * scale;
    let q = cross(from_a, ab);
    let v = dot(ray.direction, q) * scale;
    let raw = dot(ac, q) * scale * unit;
    // An overflown determinant has an inverse of 0, and places every corner at the origin.
    let inside = u >= 0.0 && v >= 0.0 && u + v <= 1.0 && abs(determinant) > 0.0 && abs(scale) > 0.0
        && abs(raw) <= BVH_FAR;
    if !inside {
        return false;
    }
    // The distance of a sliver is off by more than boxes allow for, so its own box has the last word.
    let within = bvh_stretch(ray, inverse, min(a, min(b, c)), max(a, max(b, c)), bvh_line());
    let distance = min(max(raw, within.x), within.y);
    if within.x <= within.y && distance > ray.near && distance < ray.far {
        *hit = BvhHit(distance, triangle, u, v);
        return true;
    }
    return false;
}

// Begins at the root, whose two vectors it takes.
fn bvh_begin(ray: BvhRay, low: vec4<u32>, high: vec4<u32>) -> BvhWalk {
    var walk: BvhWalk;
    walk.ray = ray;
    walk.inverse = 1.0 / ray.direction;
    walk.hit = BvhHit(ray.far, BVH_NONE, 0.0, 0.0);
    walk.first = low.w;
    walk.second = high.w;
    let root = bvh_node(low, high);
    let within = bvh_stretch(ray, walk.inverse, root.low, root.high, vec2<f32>(ray.near, ray.far));
    // The root of no triangles is a leaf of none.
    walk.busy = high.w != BVH_LEAF && within.x <= within.y;
    return walk;
}

// Whether the walk waits for the triangle walk.first, rather than for the pair of nodes from walk.first on.
fn bvh_at_leaf(walk: ptr<function, BvhWalk>) -> bool {
    return ((*walk).second & BVH_LEAF) != 0u;
}

// Goes on to the nearer child of the node at hand, given the vectors of both.
fn bvh_descend(
    walk: ptr<function, BvhWalk>,
    left_low: vec4<u32>, left_high: vec4<u32>, right_low: vec4<u32>, right_high: vec4<u32>,
) {
    let span = vec2<f32>((*walk).ray.near, (*walk).ray.far);
    let left_node = bvh_node(left_low, left_high);
    let right_node = bvh_node(right_low, right_high);
    let left = bvh_stretch((*walk).ray, (*walk).inverse, left_node.low, left_node.high, span);
    let right = bvh_stretch((*walk).ray, (*walk).inverse, right_node.low, right_node.high, span);
    // No build writes children in front of their parents, and a walk over such, zeroed nodes say, would not end.
    if (!left_node.is_leaf && left_node.first <= (*walk).first)
        || (!right_node.is_leaf && right_node.first <= (*walk).first) {
        (*walk).busy = false;
        return;
    }
    let enters_left = left.x <= left.y;
    let enters_right = right.x <= right.y;
    if !enters_left && !enters_right {
        bvh_rise(walk);
        return;
    }
    let goes_right = !enters_left || (enters_right && right.x < left.x);
    if enters_left && enters_right && (*walk).waiting <= BVH_DEPTH {
        let at = (*walk).waiting;
        (*walk).waiting = at + 1u;
        if goes_right {
            (*walk).stack[at] = BvhWaiting(left_low.w, left_high.w, left.x);
        } else {
            (*walk).stack[at] = BvhWaiting(right_low.w, right_high.w, right.x);
        }
    }
    (*walk).first = select(left_low.w, right_low.w, goes_right);
    (*walk).second = select(left_high.w, right_high.w, goes_right);
}

// Tests the triangle walk.first, given its first three vectors, and goes on to the next one or out of the leaf.
fn bvh_test(walk: ptr<function, BvhWalk>, a: vec4<u32>, b: vec4<u32>, c: vec4<u32>) {
    let corner_a = bitcast<vec3<f32>>(a.xyz);
    let corner_b = bitcast<vec3<f32>>(b.xyz);
    let corner_c = bitcast<vec3<f32>>(c.xyz);
    var hit: BvhHit;
    if bvh_intersect((*walk).ray, (*walk).inverse, corner_a, corner_b, corner_c, (*walk).first, &hit) {
        (*walk).hit = hit;
        (*walk).ray.far = hit.distance;
    }
    (*walk).first += 1u;
    (*walk).second -= 1u;
    if (*walk).second == BVH_LEAF {
        bvh_rise(walk);
    }
}

// Goes back to the last node that waits and that no hit lies in front of.
fn bvh_rise(walk: ptr<function, BvhWalk>) {
    while (*walk).waiting > 0u {
        (*walk).waiting -= 1u;
        let next = (*walk).stack[(*walk).waiting];
        if next.entry <= (*walk).ray.far {
            (*walk).first = next.first;
            (*walk).second = next.second;
            return;
        }
    }
    (*walk).busy = false;
}
