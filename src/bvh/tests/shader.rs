//! The shader includes: valid, translated, and of the same numbers as the host.

use super::*;
use naga::valid::{Capabilities, ValidationFlags, Validator};

const WALK: &str = include_str!("../../../shaders/ashfall/bvh.wgsl");
const TRACE: &str = include_str!("../../../shaders/ashfall/bvh_trace.wgsl");

fn compile(source: &str) -> Result<Vec<u32>, String> {
    let module = naga::front::wgsl::parse_str(source).map_err(|e| e.emit_to_string(source))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .map_err(|e| e.emit_to_string(source))?;
    let options = naga::back::spv::Options::default();
    naga::back::spv::write_vec(&module, &info, &options, None).map_err(|e| e.to_string())
}

fn compiled(source: &str) -> Vec<u32> {
    compile(source).unwrap_or_else(|e| panic!("{e}"))
}

const MAIN: &str = "
@group(0) @binding(2) var<storage, read_write> hits: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let ray = BvhRay(vec3<f32>(f32(id.x), 0.0, 0.0), 0.0, vec3<f32>(0.0, 0.0, 1.0), 1e30);
    HIT
    hits[id.x] = vec4<f32>(hit.distance, f32(hit.triangle), hit.u, hit.v);
}";

#[test]
fn the_walk_leans_on_nothing() {
    compiled(WALK);
}

#[test]
fn the_loop_that_the_include_shows_compiles() {
    let buffers = "@group(0) @binding(0) var<storage, read> nodes: array<vec4<u32>>;
        @group(0) @binding(1) var<storage, read> tris: array<vec4<u32>>;";
    let shown: Vec<&str> = WALK.lines().filter_map(|l| l.strip_prefix("//     ")).collect();
    let main = MAIN.replace("HIT", &format!("{}\nlet hit = walk.hit;", shown.join("\n")));
    let words = compiled(&format!("{WALK}\n{buffers}\n{main}"));
    assert_eq!(words[0], 0x0723_0203, "SPIR-V begins with its mark");
}

#[test]
fn the_calls_compile() {
    let buffers = "@group(0) @binding(0) var<storage, read> bvh_nodes: array<vec4<u32>>;
        @group(0) @binding(1) var<storage, read> bvh_triangles: array<vec4<u32>>;";
    let main = MAIN.replace("HIT", "var hit = bvh_closest(ray); if bvh_any(ray) { hit.u = 1.0; }");
    let trace = TRACE.replace("#include \"ashfall/bvh.wgsl\"", WALK);
    compiled(&format!("{trace}\n{buffers}\n{main}"));
}

#[test]
fn storage_cannot_be_passed() {
    // Once it can, the two names that bvh_trace.wgsl asks for can go.
    let told = compile("fn first(nodes: ptr<storage, array<vec4<u32>>, read>) -> u32 { return (*nodes)[0].x; }");
    assert!(told.is_err());
}

#[test]
fn numbers_are_those_of_the_host() {
    assert!(WALK.contains(&format!("BVH_DEPTH = {MAX_DEPTH}u;")));
    assert!(WALK.contains(&format!("BVH_LEAF = {LEAF:#x}u;")));
    let constant = |name: &str| -> f32 {
        let (_, rest) = WALK.split_once(&format!("const {name} = ")).unwrap();
        rest.split_once(';').unwrap().0.parse().unwrap()
    };
    assert_eq!([constant("BVH_NEARER"), constant("BVH_FARTHER")], [1.0 - trace::SLACK, 1.0 + trace::SLACK]);
    let record = format!("{}u * ", TRIANGLE_BYTES / 16);
    assert!(WALK.contains(&record) && TRACE.contains(&record));
}
