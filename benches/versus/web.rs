//! wgpu, with bind groups made once or for each dispatch.

use crate::work::{BYTES, PARAMS, Work};
use crate::{Contestant, Took};
use std::time::Instant;

pub struct Wgpu {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    once: bool,
    loaded: Option<Loaded>,
}

struct Loaded {
    work: Work,
    buffers: Vec<wgpu::Buffer>,
    layout: wgpu::BindGroupLayout,
    pipeline: wgpu::ComputePipeline,
    groups: Vec<wgpu::BindGroup>,
}

/// The device of this name.
pub fn open(name: &str) -> (wgpu::Device, wgpu::Queue) {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN;
    descriptor.flags = wgpu::InstanceFlags::empty() | wgpu::InstanceFlags::ALLOW_UNDERLYING_NONCOMPLIANT_ADAPTER;
    let instance = wgpu::Instance::new(descriptor);
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let adapter = adapters.into_iter().find(|a| a.get_info().name == name).unwrap();
    let descriptor = wgpu::DeviceDescriptor {
        required_features: wgpu::Features::IMMEDIATES,
        required_limits: adapter.limits(),
        ..Default::default()
    };
    pollster::block_on(adapter.request_device(&descriptor)).unwrap()
}

impl Wgpu {
    pub fn new(name: &str, once: bool) -> Self {
        let (device, queue) = open(name);
        Self { device, queue, once, loaded: None }
    }

    fn group(
        device: &wgpu::Device,
        layout: &wgpu::BindGroupLayout,
        buffers: &[wgpu::Buffer],
        binds: &[u32],
    ) -> wgpu::BindGroup {
        let entry = |b: usize| wgpu::BindGroupEntry {
            binding: b as u32,
            resource: buffers[binds[b] as usize].as_entire_binding(),
        };
        let entries: smallvec::SmallVec<[_; 8]> = (0..binds.len()).map(entry).collect();
        device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
    }

    pub fn wait(&self) {
        self.device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    }

    /// Copies a buffer's bytes out.
    pub fn read(&self, from: &[&wgpu::Buffer]) -> Vec<u8> {
        let size: u64 = from.iter().map(|b| b.size()).sum();
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let to =
            self.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut at = 0;
        for buffer in from {
            encoder.copy_buffer_to_buffer(buffer, 0, &to, at, buffer.size());
            at += buffer.size();
        }
        self.queue.submit([encoder.finish()]);
        to.map_async(wgpu::MapMode::Read, .., |result| result.unwrap());
        self.wait();
        let bytes = to.get_mapped_range(..).unwrap().to_vec();
        to.unmap();
        bytes
    }
}

impl Contestant for Wgpu {
    fn name(&self) -> &'static str {
        if self.once { "wgpu, groups once" } else { "wgpu, groups each" }
    }

    fn load(&mut self, work: &Work) {
        let device = &self.device;
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let make = |b: usize| {
            let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: BYTES,
                usage,
                mapped_at_creation: false,
            });
            self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&Work::initial(b)));
            buffer
        };
        let buffers: Vec<_> = (0..work.buffers).map(make).collect();
        let entry = |b: u32| wgpu::BindGroupLayoutEntry {
            binding: b,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: b + 1 < work.bound as u32 },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..work.bound as u32).map(entry).collect();
        let layout =
            device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipelines = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 16,
        });
        let source = wgpu::ShaderSource::Wgsl(Work::wgsl(work.bound).into());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipelines),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let lists = work.list.chunks_exact(work.bound);
        let groups = match self.once {
            true => lists.map(|binds| Self::group(device, &layout, &buffers, binds)).collect(),
            false => Vec::new(),
        };
        self.queue.submit([]);
        self.wait();
        self.loaded = Some(Loaded { work: work.clone(), buffers, layout, pipeline, groups });
    }

    fn frame(&mut self) -> Took {
        let Some(Loaded { work, buffers, layout, pipeline, groups }) = &self.loaded else { return Took::default() };
        let start = Instant::now();
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(pipeline);
            pass.set_immediates(0, bytemuck::bytes_of(&PARAMS));
            for (dispatch, binds) in work.list.chunks_exact(work.bound).enumerate() {
                match groups.get(dispatch) {
                    Some(group) => pass.set_bind_group(0, group, &[]),
                    None => pass.set_bind_group(0, &Self::group(&self.device, layout, buffers, binds), &[]),
                }
                pass.dispatch_workgroups(1, 1, 1);
            }
        }
        self.queue.submit([encoder.finish()]);
        let recorded = start.elapsed();
        self.wait();
        Took { recorded, idle: start.elapsed() }
    }

    fn output(&mut self) -> Vec<u32> {
        let Some(loaded) = &self.loaded else { return Vec::new() };
        let all: Vec<&wgpu::Buffer> = loaded.buffers.iter().collect();
        bytemuck::pod_collect_to_vec(&self.read(&all))
    }

    fn unload(&mut self) {
        self.loaded = None;
        self.wait();
    }
}
