//! A plan becomes Vulkan commands. The hot loop: per dispatch at most a pipeline bind, one descriptor push, one
//! push of constants and the dispatch itself, each skipped when it would repeat the last.

use super::descriptor::Pools;
use super::image::{self, GpuTexture};
use super::pipeline::Pipeline;
use super::profile::Timer;
use super::{Backend, Shared};
use crate::arena::Arena;
use crate::command::{Bound, Dispatch, PARAMS_INLINE, Uses, View};
use crate::error::Result;
use crate::plan::{Cut, Plan};
use crate::ring::Slice;
use ash::vk;
use smallvec::SmallVec;

/// Stage and access of each [`Uses`] bit, in bit order.
const SCOPES: [(vk::PipelineStageFlags2, vk::AccessFlags2); Uses::COUNT] = [
    (vk::PipelineStageFlags2::COMPUTE_SHADER, vk::AccessFlags2::SHADER_STORAGE_READ),
    (vk::PipelineStageFlags2::COMPUTE_SHADER, vk::AccessFlags2::SHADER_STORAGE_WRITE),
    (vk::PipelineStageFlags2::COMPUTE_SHADER, vk::AccessFlags2::UNIFORM_READ),
    (vk::PipelineStageFlags2::ALL_TRANSFER, vk::AccessFlags2::TRANSFER_READ),
    (vk::PipelineStageFlags2::ALL_TRANSFER, vk::AccessFlags2::TRANSFER_WRITE),
    (vk::PipelineStageFlags2::COMPUTE_SHADER, vk::AccessFlags2::SHADER_SAMPLED_READ),
];

/// Stages and accesses of all bits in `uses`.
fn scope(uses: Uses) -> (vk::PipelineStageFlags2, vk::AccessFlags2) {
    let mut stages = vk::PipelineStageFlags2::NONE;
    let mut accesses = vk::AccessFlags2::NONE;
    for (bit, (stage, access)) in SCOPES.iter().enumerate() {
        if uses.bits() & (1 << bit) != 0 {
            stages |= *stage;
            accesses |= *access;
        }
    }
    (stages, accesses)
}

/// The Vulkan barrier of a cut. Earlier reads take part by their stage alone: a read leaves nothing to flush.
pub(super) fn barrier(cut: Cut) -> vk::MemoryBarrier2<'static> {
    let (src_stages, _) = scope(cut.from);
    let (_, src_accesses) = scope(cut.from.writes());
    let (dst_stages, dst_accesses) = scope(cut.to);
    vk::MemoryBarrier2::default()
        .src_stage_mask(src_stages)
        .src_access_mask(src_accesses)
        .dst_stage_mask(dst_stages)
        .dst_access_mask(dst_accesses)
}

/// What the command buffer has bound.
struct Bindings<'a> {
    pipeline: u32,
    bound: &'a [Bound],
    staged: (u32, u32),
    params: &'a [u8],
}

impl Backend {
    pub(super) fn encode(
        &self,
        commands: vk::CommandBuffer,
        pools: &mut Pools,
        timer: &mut Timer,
        arena: &Arena,
        plan: &Plan,
    ) -> Result<()> {
        let device = &self.shared.device;
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: alive, single owner; the pool was reset.
        unsafe { device.begin_command_buffer(commands, &info) }
            .map_err(|r| self.shared.error("vkBeginCommandBuffer", r))?;
        timer.reset(&self.shared, commands);
        let mut state = Bindings { pipeline: u32::MAX, bound: &[], staged: (u32::MAX, 0), params: &[] };
        self.cmd_prepare(commands, arena, plan);
        for (cut, level) in plan.iter() {
            if let Some(cut) = cut {
                self.cmd_barrier(commands, barrier(cut));
            }
            timer.level(&self.shared, commands, cut.is_some());
            for at in level {
                let Some((view, _)) = arena.view(*at) else { continue };
                match view {
                    View::Dispatch(c, bound, params) => {
                        self.cmd_dispatch(commands, pools, &mut state, c, bound, params)?;
                        if timer.active {
                            timer.dispatch(c.pipeline, self.pipeline(c.pipeline), c.groups);
                        }
                    }
                    View::Upload(c) => {
                        let (source, offset) = self.upload_buffer(Slice { segment: c.segment, offset: c.source });
                        self.cmd_copy(commands, source, self.raw(c.buffer), offset, c.offset, c.size);
                    }
                    View::Read(c) => {
                        self.cmd_copy(
                            commands,
                            self.raw(c.buffer),
                            self.readback.raw(c.segment),
                            c.offset,
                            c.destination,
                            c.size,
                        );
                    }
                    // SAFETY: alive while the frame is; range and alignment were checked when it was recorded.
                    View::Fill(c) => unsafe {
                        device.cmd_fill_buffer(commands, self.raw(c.buffer), c.offset, c.size, c.value);
                    },
                    other => self.cmd_texture(commands, other),
                }
            }
        }
        timer.finish(&self.shared, commands);
        if plan.host_reads() {
            let (stages, accesses) = scope(Uses::COPY_WRITE);
            let to_host = vk::MemoryBarrier2::default()
                .src_stage_mask(stages)
                .src_access_mask(accesses)
                .dst_stage_mask(vk::PipelineStageFlags2::HOST)
                .dst_access_mask(vk::AccessFlags2::HOST_READ);
            self.cmd_barrier(commands, to_host);
        }
        // SAFETY: as above.
        unsafe { device.end_command_buffer(commands) }.map_err(|r| self.shared.error("vkEndCommandBuffer", r))
    }

    fn pipeline(&self, slot: u32) -> Option<&Pipeline> {
        self.pipelines.get(slot as usize).and_then(Option::as_ref)
    }

    fn raw(&self, slot: u32) -> vk::Buffer {
        self.buffers.get(slot as usize).and_then(Option::as_ref).map_or(vk::Buffer::null(), |b| b.raw)
    }

    fn cmd_barrier(&self, commands: vk::CommandBuffer, barrier: vk::MemoryBarrier2<'_>) {
        let barriers = [barrier];
        let info = vk::DependencyInfo::default().memory_barriers(&barriers);
        // SAFETY: alive, valid structs, recording.
        unsafe { self.shared.device.cmd_pipeline_barrier2(commands, &info) };
    }

    fn cmd_copy(
        &self,
        commands: vk::CommandBuffer,
        from: vk::Buffer,
        to: vk::Buffer,
        source: u64,
        offset: u64,
        size: u64,
    ) {
        let region = [vk::BufferCopy { src_offset: source, dst_offset: offset, size }];
        // SAFETY: alive while the frame is; ranges were checked when the command was recorded.
        unsafe { self.shared.device.cmd_copy_buffer(commands, from, to, &region) };
    }

    #[inline]
    fn cmd_dispatch<'a>(
        &self,
        commands: vk::CommandBuffer,
        pools: &mut Pools,
        state: &mut Bindings<'a>,
        c: &'a Dispatch,
        bound: &'a [Bound],
        params: &'a [u8],
    ) -> Result<()> {
        let device = &self.shared.device;
        let Some(pipeline) = self.pipeline(c.pipeline) else { return Ok(()) };
        let changed = state.pipeline != c.pipeline;
        if changed {
            // SAFETY: alive while the frame is.
            unsafe { device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline.raw) };
            state.pipeline = c.pipeline;
        }
        let staged = (c.param_segment, c.param_offset);
        if changed || state.bound != bound || state.staged != staged {
            self.cmd_descriptors(commands, pools, pipeline, bound, staged)?;
            state.bound = bound;
            state.staged = staged;
        }
        if pipeline.push_bytes > 0 && (changed || state.params != params) {
            // SAFETY: alive; the layout's range is exactly the block's size.
            unsafe { device.cmd_push_constants(commands, pipeline.layout, vk::ShaderStageFlags::COMPUTE, 0, params) };
            state.params = params;
        }
        let [x, y, z] = c.groups;
        let label = if self.shared.labels { self.shared.names.as_ref() } else { None };
        // SAFETY: alive; counts were checked against the device's limits; everything the layout asks for is bound.
        unsafe {
            if let Some(loader) = label {
                loader.cmd_begin_debug_utils_label(
                    commands,
                    &vk::DebugUtilsLabelEXT::default().label_name(&pipeline.label),
                );
            }
            device.cmd_dispatch(commands, x, y, z);
            if let Some(loader) = label {
                loader.cmd_end_debug_utils_label(commands);
            }
        }
        Ok(())
    }

    fn texture(&self, slot: u32) -> Option<&GpuTexture> {
        self.textures.get(slot as usize).and_then(Option::as_ref)
    }

    fn image_info(&self, kind: vk::DescriptorType, slot: u32) -> vk::DescriptorImageInfo {
        if kind == vk::DescriptorType::SAMPLER {
            let sampler = self.samplers.get(slot as usize).copied().unwrap_or_default();
            return vk::DescriptorImageInfo { sampler, ..Default::default() };
        }
        let image_view = self.texture(slot).map_or(vk::ImageView::null(), |t| t.view);
        vk::DescriptorImageInfo { image_view, image_layout: image::LAYOUT, ..Default::default() }
    }

    /// Brings every new texture of the frame into the one layout, in one call.
    fn cmd_prepare(&self, commands: vk::CommandBuffer, arena: &Arena, plan: &Plan) {
        if plan.prepares().is_empty() {
            return;
        }
        let of = |at: &u32| match arena.view(*at) {
            Some((View::Prepare(c), _)) => self.texture(c.texture),
            _ => None,
        };
        let barriers: SmallVec<[vk::ImageMemoryBarrier2<'_>; 8]> = plan
            .prepares()
            .iter()
            .filter_map(of)
            .map(|texture| {
                vk::ImageMemoryBarrier2::default()
                    .dst_stage_mask(vk::PipelineStageFlags2::COMPUTE_SHADER | vk::PipelineStageFlags2::ALL_TRANSFER)
                    .dst_access_mask(vk::AccessFlags2::MEMORY_READ | vk::AccessFlags2::MEMORY_WRITE)
                    .old_layout(vk::ImageLayout::UNDEFINED)
                    .new_layout(image::LAYOUT)
                    .image(texture.image)
                    .subresource_range(image::subresource())
            })
            .collect();
        let info = vk::DependencyInfo::default().image_memory_barriers(&barriers);
        // SAFETY: alive while the frame is, valid structs, recording.
        unsafe { self.shared.device.cmd_pipeline_barrier2(commands, &info) };
    }

    /// The commands that move texels.
    fn cmd_texture(&self, commands: vk::CommandBuffer, view: View<'_>) {
        let device = &self.shared.device;
        match view {
            View::Clear(c) => {
                let Some(texture) = self.texture(c.texture) else { return };
                let zero = vk::ClearColorValue { float32: [0.0; 4] };
                let range = [image::subresource()];
                // SAFETY: alive while the frame is; a colour image in the layout that it is always in.
                unsafe { device.cmd_clear_color_image(commands, texture.image, image::LAYOUT, &zero, &range) };
            }
            View::UploadTexture(c) => {
                let Some(texture) = self.texture(c.texture) else { return };
                let (source, offset) = self.upload_buffer(Slice { segment: c.segment, offset: c.source });
                let region = [image::copy_region(texture, offset)];
                // SAFETY: as above; the staged bytes are exactly the texture's.
                unsafe { device.cmd_copy_buffer_to_image(commands, source, texture.image, image::LAYOUT, &region) };
            }
            View::ReadTexture(c) => {
                let Some(texture) = self.texture(c.texture) else { return };
                let to = self.readback.raw(c.segment);
                let region = [image::copy_region(texture, c.destination)];
                // SAFETY: as above; the slice holds exactly the texture's bytes.
                unsafe { device.cmd_copy_image_to_buffer(commands, texture.image, image::LAYOUT, to, &region) };
            }
            View::CopyToTexture(c) => {
                let Some(texture) = self.texture(c.texture) else { return };
                let region = [image::copy_region(texture, 0)];
                let source = self.raw(c.buffer);
                // SAFETY: as above; the buffer was seen to hold the texture's bytes.
                unsafe { device.cmd_copy_buffer_to_image(commands, source, texture.image, image::LAYOUT, &region) };
            }
            _ => {}
        }
    }

    fn cmd_descriptors(
        &self,
        commands: vk::CommandBuffer,
        pools: &mut Pools,
        pipeline: &Pipeline,
        bound: &[Bound],
        (segment, offset): (u32, u32),
    ) -> Result<()> {
        let mut infos: SmallVec<[vk::DescriptorBufferInfo; 16]> = SmallVec::new();
        // Parallel to the buffers, one entry a descriptor; empty for the common program without textures.
        let mut images: SmallVec<[vk::DescriptorImageInfo; 16]> = SmallVec::new();
        for run in &pipeline.runs {
            for b in bound.iter().skip(run.first as usize).take(run.count as usize) {
                if !is_image(run.kind) {
                    let Some(buffer) = self.buffers.get(b.index() as usize).and_then(Option::as_ref) else { break };
                    infos.push(vk::DescriptorBufferInfo { buffer: buffer.raw, offset: 0, range: buffer.size });
                } else {
                    images.resize(infos.len(), vk::DescriptorImageInfo::default());
                    images.push(self.image_info(run.kind, b.index()));
                    infos.push(vk::DescriptorBufferInfo::default());
                }
            }
        }
        if infos.len() != pipeline.descriptors as usize {
            return Ok(());
        }
        let set = if pipeline.push || pipeline.descriptors == 0 && pipeline.uniform.is_none() {
            vk::DescriptorSet::null()
        } else {
            pools.allocate(&self.shared, pipeline.set_layout, pipeline.descriptors + 1)?
        };
        let mut block = [vk::DescriptorBufferInfo::default()];
        let mut writes: SmallVec<[vk::WriteDescriptorSet<'_>; 4]> = SmallVec::new();
        for run in &pipeline.runs {
            let range = run.first as usize..(run.first + run.count) as usize;
            let write =
                vk::WriteDescriptorSet::default().dst_set(set).dst_binding(run.binding).descriptor_type(run.kind);
            writes.push(match images.get(range.clone()) {
                Some(images) if is_image(run.kind) => write.image_info(images),
                _ => write.buffer_info(&infos[range]),
            });
        }
        if let Some((binding, bytes)) = pipeline.uniform {
            debug_assert_ne!(segment, PARAMS_INLINE);
            block[0] = vk::DescriptorBufferInfo {
                buffer: self.upload.raw(segment),
                offset: offset.into(),
                range: bytes.into(),
            };
            writes.push(
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(binding)
                    .descriptor_type(vk::DescriptorType::UNIFORM_BUFFER)
                    .buffer_info(&block),
            );
        }
        if writes.is_empty() {
            return Ok(());
        }
        bind(&self.shared, commands, pipeline, set, &writes);
        Ok(())
    }
}

fn is_image(kind: vk::DescriptorType) -> bool {
    kind != vk::DescriptorType::STORAGE_BUFFER && kind != vk::DescriptorType::UNIFORM_BUFFER
}

fn bind(
    shared: &Shared,
    commands: vk::CommandBuffer,
    pipeline: &Pipeline,
    set: vk::DescriptorSet,
    writes: &[vk::WriteDescriptorSet<'_>],
) {
    let point = vk::PipelineBindPoint::COMPUTE;
    // SAFETY: alive while the frame is; the writes match the layout they are made for; a set is written before the
    // device can see it and never again before its pool is reset.
    unsafe {
        match &shared.push {
            Some(push) if pipeline.push => push.cmd_push_descriptor_set(commands, point, pipeline.layout, 0, writes),
            _ => {
                shared.device.update_descriptor_sets(writes, &[]);
                shared.device.cmd_bind_descriptor_sets(commands, point, pipeline.layout, 0, &[set], &[]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_name_only_what_the_cut_names() {
        use vk::{AccessFlags2 as A, PipelineStageFlags2 as S};
        let cut = |from, to| barrier(Cut { from, to });
        let cases = [
            (
                Uses::SHADER_WRITE,
                Uses::SHADER_READ,
                S::COMPUTE_SHADER,
                A::SHADER_STORAGE_WRITE,
                S::COMPUTE_SHADER,
                A::SHADER_STORAGE_READ,
            ),
            (
                Uses::COPY_WRITE,
                Uses::UNIFORM_READ,
                S::ALL_TRANSFER,
                A::TRANSFER_WRITE,
                S::COMPUTE_SHADER,
                A::UNIFORM_READ,
            ),
            // Write after read: execution only on the earlier side.
            (Uses::COPY_READ, Uses::SHADER_WRITE, S::ALL_TRANSFER, A::NONE, S::COMPUTE_SHADER, A::SHADER_STORAGE_WRITE),
        ];
        for (from, to, src, src_access, dst, dst_access) in cases {
            let b = cut(from, to);
            assert_eq!(
                (b.src_stage_mask, b.src_access_mask, b.dst_stage_mask, b.dst_access_mask),
                (src, src_access, dst, dst_access),
                "{from:?} -> {to:?}"
            );
        }
    }
}
