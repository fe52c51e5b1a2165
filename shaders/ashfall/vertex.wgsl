// A vertex of a mesh as dispatchOnVertices binds it: 32 bytes, the texture coordinate in the gaps behind the vec3s.

struct Vertex {
    position: vec3<f32>,
    u: f32,
    normal: vec3<f32>,
    v: f32,
}
