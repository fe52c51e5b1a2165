// Doubles every number of a buffer.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&data) {
        data[id.x] = 2.0 * data[id.x];
    }
}
