//! What depends on a device that no test machine is: its limits are made up.

use super::*;
use crate::registry::{Bind, SamplerId, TextureId};
use crate::shader::{self, tests::target};
use crate::texture::{SamplerDesc, TextureDesc, TextureRole};

/// A device that samples every format and filters all but 32-bit floats.
fn limits() -> Limits {
    let support = |format: &Format| FormatSupport {
        sampled: true,
        linear: !matches!(format, Format::R32f | Format::Rgba32f),
        storage: true,
    };
    Limits {
        device: "a device".into(),
        max_workgroups: [65535; 3],
        max_buffer_bytes: 1 << 30,
        max_storage_range: 1 << 27,
        max_uniform_range: 1 << 16,
        max_texture_2d: 4096,
        max_texture_3d: 2048,
        formats: std::array::from_fn(|i| support(&Format::ALL[i])),
    }
}

const SOURCE: &str = "enable wgpu_binding_array;
    @group(0) @binding(0) var image: texture_storage_2d<rgba16float, write>;
    @group(0) @binding(1) var volumes: binding_array<texture_3d<f32>, 2>;
    @group(0) @binding(2) var plain: texture_3d<f32>;
    @group(0) @binding(3) var first: sampler;
    @group(0) @binding(4) var second: sampler;
    @compute @workgroup_size(1) fn main() {
        var sum = textureSampleLevel(volumes[0], first, vec3f(0.5), 0.0);
        sum += textureSampleLevel(volumes[1], first, vec3f(0.5), 0.0);
        sum += textureSampleLevel(plain, second, vec3f(0.5), 0.0) + textureLoad(plain, vec3i(0), 0);
        textureStore(image, vec2i(0), sum);
    }";

/// A linear sampler is refused only with the textures that the program reads through it.
#[test]
fn linear_filtering_is_asked_for_where_it_is_used() {
    let source = ProgramSource::new("march", SOURCE, Interface::REFLECTED);
    let compiled = shader::compile(&source, &target()).unwrap();
    let mut recorder = Recorder::new(limits());
    let (program, _) = recorder.request_program(&source);
    let resident = Resident::new(0, compiled.bindings, &compiled.sampled, compiled.params, compiled.workgroup_size);
    recorder.program_ready(program, resident);
    let mut texture = |name: &str, role, depth, format| -> Bind {
        let desc = TextureDesc { role, width: 4, height: 4, depth, format, storage: true };
        let id: TextureId = recorder.add_resource(name, Shape::Texture(desc));
        Bind::Texture(id)
    };
    let image = texture("image", TextureRole::Target, 1, Format::Rgba16f);
    let half = texture("half", TextureRole::Volume, 4, Format::R16f);
    let single = texture("single", TextureRole::Volume, 4, Format::R32f);
    let mut sampler = |name: &str, filter| -> Bind {
        let (id, _): (SamplerId, _) = recorder.add_sampler(name, SamplerDesc { filter, clamp: true }, false);
        Bind::Sampler(id)
    };
    let (linear, nearest) = (sampler("soft", true), sampler("hard", false));

    let refused = |path: &str| {
        Some(format!(
            "{path}: got texture \"single\" (r32f) with the linear sampler \"soft\"; expected a sampler without \
             filter, or a format that a device filters: r8, r16f, rgba8, rgba16f"
        ))
    };
    let cases = [
        ([half, half, half, linear, linear], None),
        ([single, single, single, nearest, nearest], None),
        ([half, half, single, linear, nearest], None),
        ([single, single, half, nearest, linear], None),
        ([single, half, half, linear, nearest], refused("binding 1 \"volumes\"[0]")),
        ([half, single, half, linear, nearest], refused("binding 1 \"volumes\"[1]")),
        ([half, half, single, nearest, linear], refused("binding 2 \"plain\"")),
    ];
    for (i, (bound, expected)) in cases.into_iter().enumerate() {
        let mut binds = vec![image];
        binds.extend(bound);
        let commands = recorder.arena.len();
        let outcome = recorder.dispatch(program, &binds, [1, 1, 1], |_| panic!("there are no parameters"));
        assert_eq!(outcome.err().map(|e| e.to_string()), expected, "case {i}");
        assert_eq!(recorder.arena.len() > commands, expected.is_none(), "case {i}");
    }
}

/// What a lost frame was to write is not there: the buffer has its zeros yet to get.
#[test]
fn a_lost_frame_leaves_its_new_buffers_untouched() {
    let slice = Slice { segment: 0, offset: 0 };
    let commands = |recorder: &Recorder| recorder.arena.iter().count();
    for whole in [true, false] {
        let mut recorder = Recorder::new(limits());
        let mut buffer = || -> BufferId { recorder.add_resource("b", Shape::Buffer(BufferDesc::new(16))) };
        let (old, new) = (buffer(), buffer());
        recorder.upload(old, 0, 16, slice);
        recorder.next_frame();
        for id in [old, new] {
            recorder.upload(id, 0, if whole { 16 } else { 8 }, slice);
        }
        assert!(!recorder.untouched(new));
        recorder.undo_frame("lost");
        recorder.next_frame();
        assert!(recorder.untouched(new) && !recorder.untouched(old), "whole: {whole}");
        recorder.read(new, slice);
        assert_eq!(commands(&recorder), 2, "zeros, then the read");
    }
}
