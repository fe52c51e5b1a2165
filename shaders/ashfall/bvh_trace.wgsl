// The closest hit and any hit of a ray, each in one call, through buffers that the shader declares under these names
// (WGSL passes no storage buffer to a function):
//
//     var<storage, read> bvh_nodes: array<vec4<u32>>
//     var<storage, read> bvh_triangles: array<vec4<u32>>

#include "ashfall/bvh.wgsl"

// The closest hit; its triangle is BVH_NONE if there is none.
fn bvh_closest(ray: BvhRay) -> BvhHit {
    var walk = bvh_begin(ray, bvh_nodes[0], bvh_nodes[1]);
    while walk.busy {
        bvh_advance(&walk);
    }
    return walk.hit;
}

// Whether there is any hit.
fn bvh_any(ray: BvhRay) -> bool {
    var walk = bvh_begin(ray, bvh_nodes[0], bvh_nodes[1]);
    while walk.busy && walk.hit.triangle == BVH_NONE {
        bvh_advance(&walk);
    }
    return walk.hit.triangle != BVH_NONE;
}

// One pair of nodes or one triangle on.
fn bvh_advance(walk: ptr<function, BvhWalk>) {
    if bvh_at_leaf(walk) {
        let t = 18u * (*walk).first;
        bvh_test(walk, bvh_triangles[t], bvh_triangles[t + 1u], bvh_triangles[t + 2u]);
    } else {
        let n = 2u * (*walk).first;
        bvh_descend(walk, bvh_nodes[n], bvh_nodes[n + 1u], bvh_nodes[n + 2u], bvh_nodes[n + 3u]);
    }
}
