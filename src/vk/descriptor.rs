//! Descriptor sets for devices without push descriptors: linear pools, reset whole when their frame is done.

use super::Shared;
use crate::error::Result;
use ash::vk;

/// Sets of the first pool of a frame; each further one doubles.
const FIRST: u32 = 256;
const MOST: u32 = 16384;
/// Storage descriptors reserved a set. A pool that runs out of them early is followed by another.
const STORAGE_PER_SET: u32 = 4;

/// The pools of one frame.
#[derive(Default)]
pub(crate) struct Pools {
    list: Vec<vk::DescriptorPool>,
    current: usize,
}

impl Pools {
    /// A set, valid until [`Pools::reset`].
    pub fn allocate(
        &mut self,
        shared: &Shared,
        layout: vk::DescriptorSetLayout,
        bindings: u32,
    ) -> Result<vk::DescriptorSet> {
        let layouts = [layout];
        loop {
            let fresh = self.current == self.list.len();
            if fresh {
                let sets = (FIRST << self.list.len().min(16)).min(MOST);
                self.list.push(create(shared, sets, bindings)?);
            }
            let info =
                vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.list[self.current]).set_layouts(&layouts);
            let mut set = vk::DescriptorSet::null();
            let allocate = shared.device.fp_v1_0().allocate_descriptor_sets;
            // Not ash's wrapper: that returns a Vec, and this runs once a dispatch.
            // SAFETY: alive, valid structs, single owner; one layout, so one set is written.
            match unsafe { allocate(shared.device.handle(), &info, &mut set) }.result() {
                Ok(()) => return Ok(set),
                // A full pool: go on to the next. A pool made for this very set cannot be full.
                Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL) if !fresh => {
                    self.current += 1
                }
                Err(result) => return Err(shared.error("vkAllocateDescriptorSets", result)),
            }
        }
    }

    /// Takes every set back. The device must be done with them.
    pub fn reset(&mut self, shared: &Shared) -> Result<()> {
        for pool in self.list.iter().take(self.current + 1) {
            // SAFETY: alive, single owner; the frame that used the sets has completed.
            unsafe { shared.device.reset_descriptor_pool(*pool, vk::DescriptorPoolResetFlags::empty()) }
                .map_err(|r| shared.error("vkResetDescriptorPool", r))?;
        }
        self.current = 0;
        Ok(())
    }

    pub fn destroy(self, shared: &Shared) {
        for pool in self.list {
            // SAFETY: alive; the device is idle.
            unsafe { shared.device.destroy_descriptor_pool(pool, None) };
        }
    }
}

fn create(shared: &Shared, sets: u32, bindings: u32) -> Result<vk::DescriptorPool> {
    let size = |ty, per_set: u32| vk::DescriptorPoolSize { ty, descriptor_count: (sets * per_set).max(bindings) };
    let sizes = [
        size(vk::DescriptorType::STORAGE_BUFFER, STORAGE_PER_SET),
        size(vk::DescriptorType::UNIFORM_BUFFER, 1),
        size(vk::DescriptorType::SAMPLED_IMAGE, 1),
        size(vk::DescriptorType::STORAGE_IMAGE, 1),
        size(vk::DescriptorType::SAMPLER, 1),
    ];
    let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
    // SAFETY: valid structs.
    unsafe { shared.device.create_descriptor_pool(&info, None) }.map_err(|r| shared.error("vkCreateDescriptorPool", r))
}
