#include "lib/affine.wgsl"
#include "local.wgsl"

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&data) {
        data[id.x] = affine(data[id.x], params.scale, params.offset.y) + LOCAL;
    }
}
