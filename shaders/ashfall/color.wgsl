// Colours: eight-bit packing and the sRGB transfer function (IEC 61966-2-1).

// Red in the lowest byte, alpha in the highest; channels clamped to 0..1 and rounded to nearest.
fn color_pack(color: vec4<f32>) -> u32 {
    return pack4x8unorm(color);
}

fn color_unpack(packed: u32) -> vec4<f32> {
    return unpack4x8unorm(packed);
}

// Linear light to what a screen expects, per channel, for values from 0 to 1.
fn color_to_srgb(linear: vec3<f32>) -> vec3<f32> {
    let low = linear * 12.92;
    let high = 1.055 * pow(max(linear, vec3<f32>(0.0)), vec3<f32>(1.0 / 2.4)) - 0.055;
    return select(high, low, linear <= vec3<f32>(0.0031308));
}

fn color_from_srgb(encoded: vec3<f32>) -> vec3<f32> {
    let low = encoded / 12.92;
    let high = pow((max(encoded, vec3<f32>(0.0)) + 0.055) / 1.055, vec3<f32>(2.4));
    return select(high, low, encoded <= vec3<f32>(0.04045));
}
