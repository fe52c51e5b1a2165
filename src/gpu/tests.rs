//! That validation can be relied on.

use super::*;
use crate::bvh::{Attributes, Instance, Options};
use crate::mesh::Mesh;
use crate::shader::Interface;
use std::sync::Arc;
use std::time::Duration;

type Step<'a> = &'a dyn Fn(&mut Gpu);

/// The other tests rely on validation speaking up. Here it must, once for each pair of accesses that has to be
/// ordered and is not: between copies, between dispatches, and between one and the other.
#[test]
fn synchronization_validation_sees_a_missing_barrier() {
    let options = DeviceOptions { validation: true, ..DeviceOptions::default() };
    let mut gpu = Gpu::open(&options).unwrap();
    let id = gpu.create_buffer("raced", BufferDesc::new(256)).unwrap();
    let wgsl = "@group(0) @binding(0) var<storage, read_write> cells: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) i: vec3u) { cells[i.x] += 1u; }";
    let program = gpu.compile(ProgramSource::new("count", wgsl, Interface::REFLECTED)).unwrap();
    gpu.wait_program(program).unwrap();
    let write = |gpu: &mut Gpu| gpu.write_buffer(id, 0, &[1; 256]).unwrap();
    let dispatch = |gpu: &mut Gpu| gpu.dispatch(program, &[id], [1, 1, 1]).unwrap();
    let read = |gpu: &mut Gpu| _ = gpu.read_buffer(id).unwrap();
    let pairs: [(&str, &str, [Step<'_>; 2]); 5] = [
        ("WRITE-AFTER-WRITE", "vkCmdCopyBuffer", [&write, &write]),
        ("WRITE-AFTER-READ", "vkCmdCopyBuffer", [&read, &write]),
        ("WRITE-AFTER-WRITE", "vkCmdDispatch", [&write, &dispatch]),
        ("WRITE-AFTER-WRITE", "vkCmdDispatch", [&dispatch, &dispatch]),
        ("READ-AFTER-WRITE", "vkCmdCopyBuffer", [&dispatch, &read]),
    ];
    for (hazard, call, steps) in pairs {
        gpu.end_frame().unwrap();
        gpu.wait_idle().unwrap();
        steps.iter().for_each(|step| step(&mut gpu));
        gpu.backend.begin_frame().unwrap();
        gpu.backend.submit(&gpu.recorder.arena, &Plan::without_barriers(&gpu.recorder.arena), None).unwrap();
        gpu.recorder.next_frame();
        gpu.wait_idle().unwrap();
        let messages = gpu.validation_messages();
        let seen = |m: &String| m.contains(hazard) && m.contains(call);
        assert!(messages.iter().any(seen), "{hazard} at {call}: {messages:?}");
    }
}

/// A build whose bytes were in a frame that never reached the device must not come out as a hierarchy with holes.
#[test]
fn a_build_with_a_lost_frame_fails_and_leaves_nothing() {
    let mut gpu = Gpu::open(&DeviceOptions { validation: true, ..DeviceOptions::default() }).unwrap();
    let positions = (0..3000).map(|i| [(i % 61) as f32, (i % 67) as f32, (i % 71) as f32]).collect();
    let mesh = Arc::new(Mesh::new(positions, None, None, None).unwrap());
    let transform = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    let instances = || vec![Instance { mesh: mesh.clone(), transform, attributes: Attributes::new() }];
    gpu.end_frame().unwrap();
    let before = gpu.inventory().rows().len();
    let begin = |gpu: &mut Gpu| {
        let id = gpu.begin_bvh(instances(), Options::default()).unwrap();
        while gpu.bvh_builds().all(|(_, stats)| stats.uploaded == 0) {
            assert!(!gpu.step_bvh(id, Duration::ZERO).unwrap());
        }
        id
    };
    // Lost half way, and lost once all of it was recorded.
    for finished in [false, true] {
        let id = begin(&mut gpu);
        if finished {
            assert!(gpu.step_bvh(id, Duration::MAX).unwrap());
        }
        gpu.abandon(Error::Timeout { what: "the test", waited: Duration::ZERO });
        let failure =
            if finished { gpu.finish_bvh(id).map(|_| ()) } else { gpu.step_bvh(id, Duration::MAX).map(|_| ()) };
        let text = failure.unwrap_err().to_string();
        assert!(text.contains("never reached the device"), "{text}");
        assert!(gpu.cancel_bvh(id));
    }
    // One that began behind the lost frames is whole, and so is the one at once. Nobody can name half of a hierarchy.
    let names = |gpu: &Gpu| gpu.recorder.registry.buffer_names.len();
    let known = names(&gpu);
    let id = begin(&mut gpu);
    gpu.end_frame().unwrap();
    assert!(gpu.step_bvh(id, Duration::MAX).unwrap());
    assert_eq!((names(&gpu), gpu.inventory().rows().len()), (known, before + 2));
    let sliced = gpu.finish_bvh(id).unwrap();
    assert_eq!(names(&gpu), known + 2);
    assert_eq!(gpu.find_buffer(gpu.buffer_name(sliced.nodes).unwrap()), Some(sliced.nodes));
    let whole = gpu.build_bvh(instances(), Options::default(), 2).unwrap();
    assert_eq!(sliced.node_count, whole.node_count);
    let keys = [sliced.nodes, whole.nodes, sliced.triangles, whole.triangles].map(|id| gpu.read_buffer(id).unwrap());
    gpu.end_frame().unwrap();
    let [a, b, c, d] = keys.map(|key| gpu.wait_read(key).unwrap());
    assert!(a == b && c == d);
    assert_eq!(gpu.inventory().rows().len(), before + 4);
    assert_eq!(gpu.validation_messages(), [""; 0]);
}
