//! Device memory: every allocation goes through `gpu-allocator` and has a name.

use super::Shared;
use crate::error::{Error, Result};
use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
use gpu_allocator::{AllocationError, AllocationSizes, AllocatorDebugSettings, MemoryLocation};
use std::ptr::NonNull;

/// What memory is for; decides its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Bound by shaders.
    Device,
    /// Bound by shaders, and drawn by a renderer.
    Vertices,
    /// Written by the host, read by the device.
    Upload,
    /// Written by the device, read by the host.
    Readback,
}

/// A buffer with its memory.
pub(crate) struct GpuBuffer {
    pub raw: vk::Buffer,
    pub size: u64,
    allocation: Allocation,
}

impl GpuBuffer {
    /// Start of the mapped bytes, for host-visible memory.
    pub fn mapped(&self) -> Option<NonNull<u8>> {
        self.allocation.mapped_ptr().map(NonNull::cast)
    }

    /// Memory and offset, for flush and invalidate.
    pub fn memory(&self) -> (vk::DeviceMemory, u64) {
        // SAFETY: the handle is used for mapped ranges only, never freed or unmapped.
        (unsafe { self.allocation.memory() }, self.allocation.offset())
    }
}

/// The allocator, and which memory type serves readbacks.
pub(crate) struct Memory {
    /// `None` once leaked.
    allocator: Option<Allocator>,
    types: Vec<vk::MemoryType>,
    heaps: Vec<vk::MemoryHeap>,
    max_allocation: u64,
    /// Whether readback memory must be invalidated before the host reads it.
    pub readback_coherent: bool,
    readback_types: u32,
}

impl Memory {
    pub fn new(shared: &Shared) -> Result<Self> {
        let mut debug_settings = AllocatorDebugSettings::default();
        debug_settings.log_leaks_on_shutdown = true;
        let allocator = Allocator::new(&AllocatorCreateDesc {
            instance: shared.instance.raw.clone(),
            device: shared.device.clone(),
            physical_device: shared.physical,
            debug_settings,
            buffer_device_address: false,
            // Small first blocks: a script with a few buffers must not take 256 MiB from a small device.
            allocation_sizes: AllocationSizes::new(8 << 20, 4 << 20)
                .with_max_device_memblock_size(256 << 20)
                .with_max_host_memblock_size(64 << 20),
        })
        .map_err(|e| allocation_error(&e, "the allocator", 0))?;
        let properties = &shared.properties.memory;
        let types = properties.memory_types_as_slice().to_vec();
        let (readback_types, readback_coherent) = readback_types(&types);
        Ok(Self {
            allocator: Some(allocator),
            heaps: properties.memory_heaps_as_slice().to_vec(),
            types,
            max_allocation: shared.properties.max_allocation,
            readback_coherent,
            readback_types,
        })
    }

    /// Makes a buffer. On any failure nothing is left behind.
    pub fn buffer(&mut self, shared: &Shared, name: &str, size: u64, intent: Intent) -> Result<GpuBuffer> {
        let usage = match intent {
            Intent::Device | Intent::Vertices => {
                let vertex = match intent {
                    Intent::Vertices => vk::BufferUsageFlags::VERTEX_BUFFER,
                    _ => vk::BufferUsageFlags::empty(),
                };
                vertex
                    | vk::BufferUsageFlags::STORAGE_BUFFER
                    | vk::BufferUsageFlags::UNIFORM_BUFFER
                    | vk::BufferUsageFlags::TRANSFER_SRC
                    | vk::BufferUsageFlags::TRANSFER_DST
            }
            Intent::Upload => vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::UNIFORM_BUFFER,
            Intent::Readback => vk::BufferUsageFlags::TRANSFER_DST,
        };
        let info = vk::BufferCreateInfo::default().size(size).usage(usage).sharing_mode(vk::SharingMode::EXCLUSIVE);
        // SAFETY: valid structs; the size is not zero and within the device's limit, which callers checked.
        let raw = unsafe { shared.device.create_buffer(&info, None) }.map_err(|r| {
            match shared.error("vkCreateBuffer", r) {
                Error::OutOfMemory { .. } => Error::OutOfMemory { what: name.to_owned(), bytes: size },
                other => other,
            }
        })?;
        match self.bind(shared, raw, name, size, intent) {
            Ok(allocation) => {
                shared.set_name(raw, name);
                Ok(GpuBuffer { raw, size, allocation })
            }
            Err(error) => {
                // SAFETY: alive, and nothing has used it.
                unsafe { shared.device.destroy_buffer(raw, None) };
                Err(error)
            }
        }
    }

    /// Gives an image memory.
    pub fn bind_image(&mut self, shared: &Shared, image: vk::Image, name: &str, size: u64) -> Result<Allocation> {
        // SAFETY: alive.
        let requirements = unsafe { shared.device.get_image_memory_requirements(image) };
        let allocation = self.allocate(name, requirements, MemoryLocation::GpuOnly, false, size)?;
        // SAFETY: alive; the allocation meets the image's requirements and is its alone.
        let bound = unsafe { shared.device.bind_image_memory(image, allocation.memory(), allocation.offset()) };
        self.keep(allocation, bound.map_err(|r| shared.error("vkBindImageMemory", r)))
    }

    fn bind(&mut self, shared: &Shared, raw: vk::Buffer, name: &str, size: u64, intent: Intent) -> Result<Allocation> {
        // SAFETY: alive.
        let mut requirements = unsafe { shared.device.get_buffer_memory_requirements(raw) };
        let location = match intent {
            Intent::Device | Intent::Vertices => MemoryLocation::GpuOnly,
            Intent::Upload => MemoryLocation::CpuToGpu,
            // The allocator's own GpuToCpu never takes cached memory that is not coherent, and falls back to
            // uncached memory, from which the host reads a hundred times slower. The type is chosen here instead.
            Intent::Readback => {
                let wanted = requirements.memory_type_bits & self.readback_types;
                if wanted != 0 {
                    requirements.memory_type_bits = wanted;
                }
                MemoryLocation::Unknown
            }
        };
        let allocation = self.allocate(name, requirements, location, true, size)?;
        // SAFETY: alive; the allocation meets the buffer's requirements and is its alone.
        let bound = unsafe { shared.device.bind_buffer_memory(raw, allocation.memory(), allocation.offset()) };
        self.keep(allocation, bound.map_err(|r| shared.error("vkBindBufferMemory", r)))
    }

    /// The allocation if it was bound; it is given back otherwise.
    fn keep(&mut self, allocation: Allocation, bound: Result<()>) -> Result<Allocation> {
        match bound {
            Ok(()) => Ok(allocation),
            Err(error) => {
                self.free(allocation);
                Err(error)
            }
        }
    }

    fn allocate(
        &mut self,
        name: &str,
        requirements: vk::MemoryRequirements,
        location: MemoryLocation,
        linear: bool,
        size: u64,
    ) -> Result<Allocation> {
        // More than a heap holds is refused here: asking the driver for it breaks a rule of the API.
        if requirements.size > self.largest(requirements.memory_type_bits) {
            return Err(Error::OutOfMemory { what: name.to_owned(), bytes: size });
        }
        let allocator = self.allocator.as_mut().ok_or(Error::DeviceLost { call: "an earlier call" })?;
        let allocation_scheme = AllocationScheme::GpuAllocatorManaged;
        let desc = AllocationCreateDesc { name, requirements, location, linear, allocation_scheme };
        allocator.allocate(&desc).map_err(|e| allocation_error(&e, name, size))
    }

    /// Largest allocation that any of these memory types can serve.
    fn largest(&self, type_bits: u32) -> u64 {
        let of_type = |(i, t): (usize, &vk::MemoryType)| {
            (type_bits & (1 << i) != 0).then(|| self.heaps.get(t.heap_index as usize).map_or(0, |h| h.size))
        };
        let heap = self.types.iter().enumerate().filter_map(of_type).max().unwrap_or(0);
        heap.min(self.max_allocation)
    }

    /// Gives memory back.
    pub fn free(&mut self, allocation: Allocation) {
        if let Some(Err(error)) = self.allocator.as_mut().map(|a| a.free(allocation)) {
            tracing::error!("an allocation could not be freed: {error}");
        }
    }

    /// Destroys a buffer that the device is done with.
    pub fn destroy(&mut self, shared: &Shared, buffer: GpuBuffer) {
        // SAFETY: alive; callers destroy only what no submission uses.
        unsafe { shared.device.destroy_buffer(buffer.raw, None) };
        self.free(buffer.allocation);
    }

    /// Bytes taken from the driver.
    pub fn reserved(&self) -> u64 {
        self.allocator.as_ref().map_or(0, |a| a.generate_report().total_capacity_bytes)
    }

    /// Gives the allocator up without freeing its memory: the device still uses it.
    pub fn leak(&mut self) {
        std::mem::forget(self.allocator.take());
    }
}

/// Types to read back from, best kind only: cached and coherent, then cached, then coherent.
fn readback_types(types: &[vk::MemoryType]) -> (u32, bool) {
    use vk::MemoryPropertyFlags as P;
    for wanted in [P::HOST_CACHED | P::HOST_COHERENT, P::HOST_CACHED, P::HOST_COHERENT] {
        let wanted = wanted | P::HOST_VISIBLE;
        let has = |t: &vk::MemoryType, p| t.property_flags.contains(p);
        // Device-local host memory is behind the bus when the host reads it; plain host memory is preferred.
        for local in [false, true] {
            let bits = types
                .iter()
                .enumerate()
                .filter(|(_, t)| has(t, wanted) && has(t, P::DEVICE_LOCAL) == local)
                .fold(0, |bits, (i, _)| bits | 1 << i);
            if bits != 0 {
                return (bits, wanted.contains(P::HOST_COHERENT));
            }
        }
    }
    (0, true)
}

fn allocation_error(error: &AllocationError, what: &str, bytes: u64) -> Error {
    match error {
        AllocationError::OutOfMemory => Error::OutOfMemory { what: what.to_owned(), bytes },
        other => Error::Vulkan { call: "gpu-allocator", result: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk::MemoryPropertyFlags as P;

    fn types(list: &[P]) -> Vec<vk::MemoryType> {
        list.iter().map(|p| vk::MemoryType { property_flags: *p, heap_index: 0 }).collect()
    }

    #[test]
    fn readbacks_go_to_cached_memory() {
        let visible = P::HOST_VISIBLE;
        let cases: &[(&[P], u32, bool)] = &[
            // A desktop GPU: device-local, write-combined, cached.
            (&[P::DEVICE_LOCAL, visible | P::HOST_COHERENT, visible | P::HOST_COHERENT | P::HOST_CACHED], 0b100, true),
            // Cached memory that is not coherent beats coherent memory that is not cached.
            (&[visible | P::HOST_COHERENT, visible | P::HOST_CACHED], 0b10, false),
            // A software driver: one type for everything.
            (&[P::DEVICE_LOCAL | visible | P::HOST_COHERENT | P::HOST_CACHED], 0b1, true),
            (&[P::DEVICE_LOCAL, visible | P::HOST_COHERENT], 0b10, true),
        ];
        for (list, bits, coherent) in cases {
            assert_eq!(readback_types(&types(list)), (*bits, *coherent), "{list:?}");
        }
    }
}
