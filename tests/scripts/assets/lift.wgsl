#include "ashfall/vertex.wgsl"

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&vertices) {
        vertices[id.x].position += params.height * vertices[id.x].normal;
        sums[id.x] = vertices[id.x].u + 10.0 * vertices[id.x].v;
    }
}
