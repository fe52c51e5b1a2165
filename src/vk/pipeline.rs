//! Compute pipelines and their layouts. Made on the worker thread.

use super::Shared;
use crate::error::{Error, Result};
use crate::shader::{BindingKind, Compiled, ParamPlacement};
use ash::vk;
use smallvec::SmallVec;
use std::ffi::CString;

/// Neighbouring descriptors of one type: one descriptor write covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First binding.
    pub binding: u32,
    /// First descriptor, counted over all bindings.
    pub first: u32,
    pub count: u32,
    pub kind: vk::DescriptorType,
}

/// A pipeline with its layout.
pub(crate) struct Pipeline {
    pub raw: vk::Pipeline,
    pub layout: vk::PipelineLayout,
    pub set_layout: vk::DescriptorSetLayout,
    /// Descriptors go into the command buffer; a set is allocated otherwise.
    pub push: bool,
    pub runs: SmallVec<[Run; 2]>,
    /// Descriptors of the bindings, arrays counted in full; the parameter block is not among them.
    pub descriptors: u32,
    /// Bytes of push constants; 0 for none.
    pub push_bytes: u32,
    /// Binding of the staged parameter block, and its size.
    pub uniform: Option<(u32, u32)>,
    /// Invocations of one workgroup.
    pub group_invocations: u32,
    /// Label shown by tools.
    pub label: CString,
}

impl Pipeline {
    /// Builds everything from compiled code. What exists when a step fails is destroyed.
    pub fn new(shared: &Shared, cache: vk::PipelineCache, key: &str, compiled: &Compiled) -> Result<Self> {
        let kinds: SmallVec<[Kind; 8]> =
            compiled.bindings.iter().map(|b| Kind { ty: descriptor_type(b.kind), count: b.count }).collect();
        check_counts(shared, &kinds, &compiled.params.placement)?;
        let uniform = match compiled.params.placement {
            ParamPlacement::Uniform { binding } => Some((binding, compiled.params.bytes)),
            _ => None,
        };
        let push_bytes =
            if compiled.params.placement == ParamPlacement::PushConstants { compiled.params.bytes } else { 0 };
        let descriptors = kinds.iter().map(|k| k.count).sum();
        let all = descriptors + u32::from(uniform.is_some());
        let push = shared.push.is_some() && all <= shared.max_push_descriptors && all > 0;
        let mut pipeline = Self {
            raw: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            set_layout: vk::DescriptorSetLayout::null(),
            push,
            runs: runs(&kinds),
            descriptors,
            push_bytes,
            uniform,
            group_invocations: compiled.workgroup_size.iter().product(),
            label: super::debug::c_string(key),
        };
        match pipeline.fill(shared, cache, key, &kinds, compiled) {
            Ok(()) => Ok(pipeline),
            Err(error) => {
                pipeline.destroy(shared);
                Err(error)
            }
        }
    }

    fn fill(
        &mut self,
        shared: &Shared,
        cache: vk::PipelineCache,
        key: &str,
        kinds: &[Kind],
        compiled: &Compiled,
    ) -> Result<()> {
        let device = &shared.device;
        let binding = |n: u32, kind: Kind| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(n)
                .descriptor_type(kind.ty)
                .descriptor_count(kind.count)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let mut list: SmallVec<[_; 8]> = kinds.iter().enumerate().map(|(n, kind)| binding(n as u32, *kind)).collect();
        if let Some((n, _)) = self.uniform {
            list.push(binding(n, Kind { ty: vk::DescriptorType::UNIFORM_BUFFER, count: 1 }));
        }
        let flags = if self.push {
            vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR
        } else {
            vk::DescriptorSetLayoutCreateFlags::empty()
        };
        let info = vk::DescriptorSetLayoutCreateInfo::default().flags(flags).bindings(&list);
        // SAFETY: valid structs; counts were checked against the device's limits.
        self.set_layout = unsafe { device.create_descriptor_set_layout(&info, None) }
            .map_err(|r| shared.error("vkCreateDescriptorSetLayout", r))?;
        let sets = [self.set_layout];
        let ranges =
            [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(self.push_bytes)];
        let mut info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        if self.push_bytes > 0 {
            info = info.push_constant_ranges(&ranges);
        }
        // SAFETY: alive, valid structs; the range is within the limit that the shader was laid out for.
        self.layout = unsafe { device.create_pipeline_layout(&info, None) }
            .map_err(|r| shared.error("vkCreatePipelineLayout", r))?;

        let info = vk::ShaderModuleCreateInfo::default().code(&compiled.spirv);
        // SAFETY: valid SPIR-V, from a module that naga validated for this device's capabilities.
        let module =
            unsafe { device.create_shader_module(&info, None) }.map_err(|r| shared.error("vkCreateShaderModule", r))?;
        let entry = super::debug::c_string(&compiled.entry_point);
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(&entry);
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout)];
        // SAFETY: alive, valid structs; only the worker uses the cache.
        let made = unsafe { device.create_compute_pipelines(cache, &info, None) };
        // SAFETY: alive; a pipeline does not need its modules once it is made.
        unsafe { device.destroy_shader_module(module, None) };
        match made {
            Ok(list) => self.raw = list.into_iter().next().unwrap_or_default(),
            Err((list, result)) => {
                self.raw = list.into_iter().next().unwrap_or_default();
                return Err(shared.error("vkCreateComputePipelines", result));
            }
        }
        shared.set_name(self.raw, key);
        Ok(())
    }

    /// Destroys what there is. The device must be done with it.
    pub fn destroy(self, shared: &Shared) {
        // SAFETY: alive or null, which is ignored; the caller saw the device finish.
        unsafe {
            shared.device.destroy_pipeline(self.raw, None);
            shared.device.destroy_pipeline_layout(self.layout, None);
            shared.device.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

/// Descriptors of one binding.
#[derive(Clone, Copy, Debug)]
struct Kind {
    ty: vk::DescriptorType,
    count: u32,
}

fn descriptor_type(kind: BindingKind) -> vk::DescriptorType {
    match kind {
        BindingKind::StorageBuffer => vk::DescriptorType::STORAGE_BUFFER,
        BindingKind::UniformBuffer => vk::DescriptorType::UNIFORM_BUFFER,
        BindingKind::Texture2d | BindingKind::Texture3d => vk::DescriptorType::SAMPLED_IMAGE,
        BindingKind::Storage2d | BindingKind::Storage3d => vk::DescriptorType::STORAGE_IMAGE,
        BindingKind::Sampler => vk::DescriptorType::SAMPLER,
    }
}

fn runs(kinds: &[Kind]) -> SmallVec<[Run; 2]> {
    let mut runs: SmallVec<[Run; 2]> = SmallVec::new();
    let mut first = 0;
    for (n, kind) in kinds.iter().enumerate() {
        match runs.last_mut() {
            // A write runs over into the next bindings of its type; an array may do so too.
            Some(run) if run.kind == kind.ty => run.count += kind.count,
            _ => runs.push(Run { binding: n as u32, first, count: kind.count, kind: kind.ty }),
        }
        first += kind.count;
    }
    runs
}

fn check_counts(shared: &Shared, kinds: &[Kind], params: &ParamPlacement) -> Result<()> {
    let count = |ty| kinds.iter().filter(|k| k.ty == ty).map(|k| k.count).sum::<u32>();
    let own = u32::from(matches!(params, ParamPlacement::Uniform { .. }));
    let p = &shared.properties;
    let table = [
        ("storage buffers", count(vk::DescriptorType::STORAGE_BUFFER), p.max_storage_buffers),
        ("uniform buffers", count(vk::DescriptorType::UNIFORM_BUFFER) + own, p.max_uniform_buffers),
        ("sampled textures", count(vk::DescriptorType::SAMPLED_IMAGE), p.max_sampled_images),
        ("storage textures", count(vk::DescriptorType::STORAGE_IMAGE), p.max_storage_images),
        ("samplers", count(vk::DescriptorType::SAMPLER), p.max_samplers),
    ];
    for (what, given, limit) in table {
        if given > limit {
            return Err(Error::Limit {
                what: format!("the number of {what} in one program"),
                given: given.into(),
                limit: limit.into(),
                device: shared.info.name.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_type_make_a_run() {
        const S: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;
        const I: vk::DescriptorType = vk::DescriptorType::SAMPLED_IMAGE;
        type Case<'a> = (&'a [(vk::DescriptorType, u32)], &'a [(u32, u32, u32, vk::DescriptorType)]);
        let cases: &[Case<'_>] = &[
            (&[], &[]),
            (&[(S, 1), (S, 1), (S, 1)], &[(0, 0, 3, S)]),
            (&[(S, 1), (I, 4), (I, 1), (S, 1)], &[(0, 0, 1, S), (1, 1, 5, I), (3, 6, 1, S)]),
        ];
        for (kinds, expected) in cases {
            let kinds: Vec<Kind> = kinds.iter().map(|(ty, count)| Kind { ty: *ty, count: *count }).collect();
            let got: Vec<_> = runs(&kinds).iter().map(|r| (r.binding, r.first, r.count, r.kind)).collect();
            assert_eq!(got, *expected);
        }
    }
}
