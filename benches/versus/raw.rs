//! Vulkan by hand: one buffer for everything, push descriptors by template, barriers only where levels meet, in the
//! order of fewest levels. What an author who knows the whole frame beforehand would write.

use crate::work::{BYTES, PARAMS, Work};
use crate::{Contestant, Took};
use ash::vk;
use std::time::Instant;

pub struct Device {
    _entry: ash::Entry,
    instance: ash::Instance,
    pub raw: ash::Device,
    push: ash::khr::push_descriptor::Device,
    pub queue: vk::Queue,
    family: u32,
    memory: vk::PhysicalDeviceMemoryProperties,
    pool: vk::CommandPool,
    pub commands: vk::CommandBuffer,
    timeline: vk::Semaphore,
    submitted: u64,
}

impl Device {
    /// On the physical device of this name.
    pub fn new(name: &str) -> Self {
        // SAFETY: the loader is a Vulkan loader; every struct and handle below is alive where it is used, and made by
        // the call before; features were asked for by ashfall on this device already.
        unsafe {
            let entry = ash::Entry::load().unwrap();
            let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
            let instance = entry.create_instance(&vk::InstanceCreateInfo::default().application_info(&app), None);
            let instance = instance.unwrap();
            let named = |d: &vk::PhysicalDevice| {
                let properties = instance.get_physical_device_properties(*d);
                properties.device_name_as_c_str().is_ok_and(|n| n.to_string_lossy() == name)
            };
            let physical = instance.enumerate_physical_devices().unwrap().into_iter().find(named).unwrap();
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE)).unwrap() as u32;
            let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
            let extensions = [ash::khr::push_descriptor::NAME.as_ptr()];
            let mut features2 = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
            let mut features3 = vk::PhysicalDeviceVulkan13Features::default().synchronization2(true);
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&extensions)
                .push_next(&mut features2)
                .push_next(&mut features3);
            let raw = instance.create_device(physical, &info, None).unwrap();
            let push = ash::khr::push_descriptor::Device::new(&instance, &raw);
            let queue = raw.get_device_queue(family, 0);
            let info = vk::CommandPoolCreateInfo::default()
                .queue_family_index(family)
                .flags(vk::CommandPoolCreateFlags::TRANSIENT);
            let pool = raw.create_command_pool(&info, None).unwrap();
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let commands = raw.allocate_command_buffers(&info).unwrap()[0];
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let timeline = raw.create_semaphore(&vk::SemaphoreCreateInfo::default().push_next(&mut kind), None);
            let timeline = timeline.unwrap();
            let memory = instance.get_physical_device_memory_properties(physical);
            Self { _entry: entry, instance, raw, push, queue, family, memory, pool, commands, timeline, submitted: 0 }
        }
    }

    /// A buffer with memory of its own that has these properties, or else is only visible to the host.
    pub fn buffer(&self, size: u64, usage: vk::BufferUsageFlags, wanted: vk::MemoryPropertyFlags) -> Memory {
        // SAFETY: the device lives; the memory is of a type that the buffer may have, and as large as it asks for.
        unsafe {
            let info = vk::BufferCreateInfo::default().size(size).usage(usage).queue_family_indices(&[]);
            let buffer = self.raw.create_buffer(&info, None).unwrap();
            let needs = self.raw.get_buffer_memory_requirements(buffer);
            let fits = |i: &u32, flags: vk::MemoryPropertyFlags| {
                needs.memory_type_bits & (1 << i) != 0
                    && self.memory.memory_types[*i as usize].property_flags.contains(flags)
            };
            let types = 0..self.memory.memory_type_count;
            let host = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
            let kind = types.clone().find(|i| fits(i, wanted)).or_else(|| types.clone().find(|i| fits(i, host)));
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind.unwrap());
            let memory = self.raw.allocate_memory(&info, None).unwrap();
            self.raw.bind_buffer_memory(buffer, memory, 0).unwrap();
            let mapped = if wanted.contains(vk::MemoryPropertyFlags::HOST_VISIBLE) {
                self.raw.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()).unwrap().cast()
            } else {
                std::ptr::null_mut()
            };
            Memory { buffer, memory, mapped, size }
        }
    }

    pub fn free(&self, memory: &Memory) {
        // SAFETY: nothing uses it any more: callers wait for the device first.
        unsafe {
            self.raw.destroy_buffer(memory.buffer, None);
            self.raw.free_memory(memory.memory, None);
        }
    }

    /// Records commands anew.
    pub fn begin(&self) {
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: what was submitted before has completed, as every caller waits.
        unsafe {
            self.raw.reset_command_pool(self.pool, vk::CommandPoolResetFlags::empty()).unwrap();
            self.raw.begin_command_buffer(self.commands, &info).unwrap();
        }
    }

    pub fn submit(&mut self) {
        self.submitted += 1;
        let commands = [vk::CommandBufferSubmitInfo::default().command_buffer(self.commands)];
        let signal = [vk::SemaphoreSubmitInfo::default()
            .semaphore(self.timeline)
            .value(self.submitted)
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
        let info = vk::SubmitInfo2::default().command_buffer_infos(&commands).signal_semaphore_infos(&signal);
        // SAFETY: recorded whole; the queue is this thread's.
        unsafe {
            self.raw.end_command_buffer(self.commands).unwrap();
            self.raw.queue_submit2(self.queue, &[info], vk::Fence::null()).unwrap();
        }
    }

    pub fn wait(&self) {
        let (semaphores, values) = ([self.timeline], [self.submitted]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: alive.
        unsafe { self.raw.wait_semaphores(&info, 60_000_000_000).unwrap() };
    }

    pub fn barrier(
        &self,
        from: (vk::PipelineStageFlags2, vk::AccessFlags2),
        to: (vk::PipelineStageFlags2, vk::AccessFlags2),
    ) {
        let barriers = [vk::MemoryBarrier2::default()
            .src_stage_mask(from.0)
            .src_access_mask(from.1)
            .dst_stage_mask(to.0)
            .dst_access_mask(to.1)];
        // SAFETY: recording.
        unsafe {
            self.raw.cmd_pipeline_barrier2(self.commands, &vk::DependencyInfo::default().memory_barriers(&barriers))
        };
    }

    pub fn copy(&self, from: (vk::Buffer, u64), to: (vk::Buffer, u64), size: u64) {
        let region = [vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size }];
        // SAFETY: recording; ranges are the callers'.
        unsafe { self.raw.cmd_copy_buffer(self.commands, from.0, to.0, &region) };
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: everything made with it is gone: owners drop it last.
        unsafe {
            let _ = self.raw.device_wait_idle();
            self.raw.destroy_semaphore(self.timeline, None);
            self.raw.destroy_command_pool(self.pool, None);
            self.raw.destroy_device(None);
            self.instance.destroy_instance(None);
        }
        let _ = self.family;
    }
}

/// A buffer and its memory.
pub struct Memory {
    pub buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    pub mapped: *mut u8,
    pub size: u64,
}

impl Memory {
    /// Bytes that the host sees.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped whole and coherent; the device is idle or works elsewhere in it, as callers arrange.
        unsafe { std::slice::from_raw_parts_mut(self.mapped, self.size as usize) }
    }
}

/// The access of compute shaders to buffers.
pub const SHADER: (vk::PipelineStageFlags2, vk::AccessFlags2) = (
    vk::PipelineStageFlags2::COMPUTE_SHADER,
    vk::AccessFlags2::from_raw(
        vk::AccessFlags2::SHADER_STORAGE_READ.as_raw() | vk::AccessFlags2::SHADER_STORAGE_WRITE.as_raw(),
    ),
);
const COPY_READ: (vk::PipelineStageFlags2, vk::AccessFlags2) =
    (vk::PipelineStageFlags2::COPY, vk::AccessFlags2::TRANSFER_READ);
const COPY_WRITE: (vk::PipelineStageFlags2, vk::AccessFlags2) =
    (vk::PipelineStageFlags2::COPY, vk::AccessFlags2::TRANSFER_WRITE);

/// A compute pipeline with push descriptors.
struct Pipeline {
    set: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    raw: vk::Pipeline,
    template: vk::DescriptorUpdateTemplate,
}

impl Pipeline {
    fn new(device: &Device, bound: usize) -> Self {
        let words = spirv(&Work::wgsl(bound));
        let bindings: Vec<_> = (0..bound as u32)
            .map(|b| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(b)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        // SAFETY: every handle is made by a call before, and each struct lives through the call.
        unsafe {
            let info = vk::DescriptorSetLayoutCreateInfo::default()
                .flags(vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR)
                .bindings(&bindings);
            let set = device.raw.create_descriptor_set_layout(&info, None).unwrap();
            let (sets, ranges) =
                ([set], [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: 16 }]);
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&ranges);
            let layout = device.raw.create_pipeline_layout(&info, None).unwrap();
            let module =
                device.raw.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&words), None).unwrap();
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
            let raw = device.raw.create_compute_pipelines(vk::PipelineCache::null(), &info, None).unwrap()[0];
            device.raw.destroy_shader_module(module, None);
            let entries = [vk::DescriptorUpdateTemplateEntry {
                dst_binding: 0,
                dst_array_element: 0,
                // Consecutive bindings of one kind and count 1 are updated as one run.
                descriptor_count: bound as u32,
                descriptor_type: vk::DescriptorType::STORAGE_BUFFER,
                offset: 0,
                stride: size_of::<vk::DescriptorBufferInfo>(),
            }];
            let info = vk::DescriptorUpdateTemplateCreateInfo::default()
                .descriptor_update_entries(&entries)
                .template_type(vk::DescriptorUpdateTemplateType::PUSH_DESCRIPTORS_KHR)
                .pipeline_bind_point(vk::PipelineBindPoint::COMPUTE)
                .pipeline_layout(layout)
                .set(0);
            let template = device.raw.create_descriptor_update_template(&info, None).unwrap();
            Self { set, layout, raw, template }
        }
    }

    fn destroy(&self, device: &ash::Device) {
        // SAFETY: the device is idle.
        unsafe {
            device.destroy_descriptor_update_template(self.template, None);
            device.destroy_pipeline(self.raw, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set, None);
        }
    }
}

/// A shader without any checks.
pub fn spirv(wgsl: &str) -> Vec<u32> {
    let module = naga::front::wgsl::parse_str(wgsl).unwrap();
    let flags = naga::valid::ValidationFlags::all();
    let info = naga::valid::Validator::new(flags, naga::valid::Capabilities::all()).validate(&module).unwrap();
    let mut options = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    options.bounds_check_policies = naga::proc::BoundsCheckPolicies {
        index: naga::proc::BoundsCheckPolicy::Unchecked,
        buffer: naga::proc::BoundsCheckPolicy::Unchecked,
        image_load: naga::proc::BoundsCheckPolicy::Unchecked,
        binding_array: naga::proc::BoundsCheckPolicy::Unchecked,
    };
    options.force_loop_bounding = false;
    options.zero_initialize_workgroup_memory = naga::back::spv::ZeroInitializeWorkgroupMemoryMode::None;
    naga::back::spv::write_vec(&module, &info, &options, None).unwrap()
}

pub struct Raw {
    work: Option<Loaded>,
    pub device: Device,
}

struct Loaded {
    work: Work,
    pipeline: Pipeline,
    all: Memory,
    staging: Memory,
}

impl Raw {
    pub fn new(name: &str) -> Self {
        Self { work: None, device: Device::new(name) }
    }
}

impl Contestant for Raw {
    fn name(&self) -> &'static str {
        "ash by hand"
    }

    fn load(&mut self, work: &Work) {
        let device = &mut self.device;
        let size = work.buffers as u64 * BYTES;
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let all = device.buffer(size, usage, vk::MemoryPropertyFlags::DEVICE_LOCAL);
        let host = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let mut staging = device.buffer(size, usage, host | vk::MemoryPropertyFlags::HOST_CACHED);
        let words: Vec<u32> = (0..work.buffers).flat_map(Work::initial).collect();
        staging.bytes().copy_from_slice(bytemuck::cast_slice(&words));
        device.begin();
        device.copy((staging.buffer, 0), (all.buffer, 0), size);
        device.submit();
        device.wait();
        let pipeline = Pipeline::new(device, work.bound);
        self.work = Some(Loaded { work: work.clone(), pipeline, all, staging });
    }

    fn frame(&mut self) -> Took {
        let Some(Loaded { work, pipeline, all, .. }) = &self.work else { return Took::default() };
        let start = Instant::now();
        let device = &mut self.device;
        device.begin();
        let commands = device.commands;
        let mut infos = [vk::DescriptorBufferInfo { buffer: all.buffer, offset: 0, range: BYTES }; 8];
        // SAFETY: recording; the template reads as many infos as its layout has bindings.
        unsafe {
            device.raw.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline.raw);
            let params = bytemuck::bytes_of(&PARAMS);
            device.raw.cmd_push_constants(commands, pipeline.layout, vk::ShaderStageFlags::COMPUTE, 0, params);
            let mut from = 0;
            for end in &work.ends {
                if from > 0 {
                    device.barrier(SHADER, SHADER);
                }
                for dispatch in &work.order[from..*end as usize] {
                    let binds = work.binds(*dispatch as usize);
                    infos.iter_mut().zip(binds).for_each(|(info, b)| info.offset = u64::from(*b) * BYTES);
                    device.push.cmd_push_descriptor_set_with_template(
                        commands,
                        pipeline.template,
                        pipeline.layout,
                        0,
                        infos.as_ptr().cast(),
                    );
                    device.raw.cmd_dispatch(commands, 1, 1, 1);
                }
                from = *end as usize;
            }
        }
        device.submit();
        let recorded = start.elapsed();
        device.wait();
        Took { recorded, idle: start.elapsed() }
    }

    fn output(&mut self) -> Vec<u32> {
        let Some(Loaded { all, staging, .. }) = &mut self.work else { return Vec::new() };
        self.device.begin();
        self.device.barrier(SHADER, COPY_READ);
        self.device.copy((all.buffer, 0), (staging.buffer, 0), all.size);
        self.device.barrier(COPY_WRITE, (vk::PipelineStageFlags2::HOST, vk::AccessFlags2::HOST_READ));
        self.device.submit();
        self.device.wait();
        bytemuck::pod_collect_to_vec(staging.bytes())
    }

    fn unload(&mut self) {
        if let Some(loaded) = self.work.take() {
            self.device.free(&loaded.all);
            self.device.free(&loaded.staging);
            loaded.pipeline.destroy(&self.device.raw);
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.unload();
    }
}
