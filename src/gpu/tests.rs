//! That validation can be relied on.

use super::*;
use crate::shader::Interface;

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
