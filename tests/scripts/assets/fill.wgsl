@compute @workgroup_size(4, 4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if all(id.xy < textureDimensions(image)) {
        textureStore(image, id.xy, vec4<f32>(params.level));
    }
}
