fn affine(x: f32, scale: f32, offset: f32) -> f32 {
    return x * scale + offset;
}
