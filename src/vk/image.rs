//! Images, their views, and samplers.

use super::Shared;
use super::memory::Memory;
use crate::error::{Error, Result};
use crate::record::FormatSupport;
use crate::texture::{Format, SamplerDesc, TextureDesc};
use ash::vk;
use gpu_allocator::vulkan::Allocation;

/// The one layout of every texture. Transitions would need a barrier of their own for each texture between levels;
/// the layouts they would lead to gain compute shaders nothing on any driver this was measured on.
pub(super) const LAYOUT: vk::ImageLayout = vk::ImageLayout::GENERAL;

/// An image with its memory and the view of all of it.
pub(crate) struct GpuTexture {
    pub image: vk::Image,
    pub view: vk::ImageView,
    pub extent: vk::Extent3D,
    pub bytes: u64,
    pub allocation: Allocation,
}

pub(super) const fn vk_format(format: Format) -> vk::Format {
    match format {
        Format::R8 => vk::Format::R8_UNORM,
        Format::R16f => vk::Format::R16_SFLOAT,
        Format::R32f => vk::Format::R32_SFLOAT,
        Format::Rgba8 => vk::Format::R8G8B8A8_UNORM,
        Format::Rgba16f => vk::Format::R16G16B16A16_SFLOAT,
        Format::Rgba32f => vk::Format::R32G32B32A32_SFLOAT,
    }
}

/// What a device can do with each format.
pub(super) fn support(instance: &ash::Instance, device: vk::PhysicalDevice, extended: bool) -> [FormatSupport; 6] {
    let mut all = [FormatSupport::default(); 6];
    for format in Format::ALL {
        // SAFETY: alive.
        let properties = unsafe { instance.get_physical_device_format_properties(device, vk_format(*format)) };
        let has = |flags| properties.optimal_tiling_features.contains(flags);
        let transfer = has(vk::FormatFeatureFlags::TRANSFER_SRC | vk::FormatFeatureFlags::TRANSFER_DST);
        // These two are storage formats only with a feature of their own.
        let needs_extended = matches!(format, Format::R8 | Format::R16f);
        all[*format as usize] = FormatSupport {
            sampled: transfer && has(vk::FormatFeatureFlags::SAMPLED_IMAGE),
            linear: has(vk::FormatFeatureFlags::SAMPLED_IMAGE_FILTER_LINEAR),
            storage: has(vk::FormatFeatureFlags::STORAGE_IMAGE) && (extended || !needs_extended),
        };
    }
    all
}

impl GpuTexture {
    /// Makes an image. On any failure nothing is left behind.
    pub fn new(shared: &Shared, memory: &mut Memory, name: &str, desc: &TextureDesc) -> Result<Self> {
        let (image_type, view_type) = if desc.is_3d() {
            (vk::ImageType::TYPE_3D, vk::ImageViewType::TYPE_3D)
        } else {
            (vk::ImageType::TYPE_2D, vk::ImageViewType::TYPE_2D)
        };
        let mut usage =
            vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
        if desc.storage {
            usage |= vk::ImageUsageFlags::STORAGE;
        }
        let extent = vk::Extent3D { width: desc.width, height: desc.height, depth: desc.depth };
        let format = vk_format(desc.format);
        let info = vk::ImageCreateInfo::default()
            .image_type(image_type)
            .format(format)
            .extent(extent)
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(vk::ImageTiling::OPTIMAL)
            .usage(usage)
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
            .initial_layout(vk::ImageLayout::UNDEFINED);
        let out = |error| match error {
            Error::OutOfMemory { .. } => Error::OutOfMemory { what: name.to_owned(), bytes: desc.bytes() },
            other => other,
        };
        // SAFETY: valid structs; extent and format were checked against the device's limits.
        let image =
            unsafe { shared.device.create_image(&info, None) }.map_err(|r| out(shared.error("vkCreateImage", r)))?;
        let made = memory.bind_image(shared, image, name, desc.bytes()).and_then(|allocation| {
            let range = subresource();
            let info = vk::ImageViewCreateInfo::default()
                .image(image)
                .view_type(view_type)
                .format(format)
                .subresource_range(range);
            // SAFETY: alive and bound, valid structs.
            match unsafe { shared.device.create_image_view(&info, None) } {
                Ok(view) => Ok((allocation, view)),
                Err(result) => {
                    memory.free(allocation);
                    Err(shared.error("vkCreateImageView", result))
                }
            }
        });
        match made {
            Ok((allocation, view)) => {
                shared.set_name(image, name);
                shared.set_name(view, name);
                Ok(Self { image, view, extent, bytes: desc.bytes(), allocation })
            }
            Err(error) => {
                // SAFETY: alive, and nothing has used it.
                unsafe { shared.device.destroy_image(image, None) };
                Err(error)
            }
        }
    }

    /// Destroys an image that the device is done with.
    pub fn destroy(self, shared: &Shared, memory: &mut Memory) {
        // SAFETY: alive; callers destroy only what no submission uses.
        unsafe {
            shared.device.destroy_image_view(self.view, None);
            shared.device.destroy_image(self.image, None);
        }
        memory.free(self.allocation);
    }
}

/// All of an image.
pub(super) fn subresource() -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        level_count: 1,
        layer_count: 1,
        ..Default::default()
    }
}

/// A copy between all of an image and bytes without gaps.
pub(super) fn copy_region(texture: &GpuTexture, offset: u64) -> vk::BufferImageCopy {
    vk::BufferImageCopy {
        buffer_offset: offset,
        // Zero means tightly packed, whatever the width.
        buffer_row_length: 0,
        buffer_image_height: 0,
        image_subresource: vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            layer_count: 1,
            ..Default::default()
        },
        image_offset: vk::Offset3D::default(),
        image_extent: texture.extent,
    }
}

/// Makes a sampler.
pub(super) fn sampler(shared: &Shared, name: &str, desc: &SamplerDesc) -> Result<vk::Sampler> {
    let filter = if desc.filter { vk::Filter::LINEAR } else { vk::Filter::NEAREST };
    let mode = if desc.clamp { vk::SamplerAddressMode::CLAMP_TO_EDGE } else { vk::SamplerAddressMode::REPEAT };
    let info = vk::SamplerCreateInfo::default()
        .mag_filter(filter)
        .min_filter(filter)
        .mipmap_mode(vk::SamplerMipmapMode::NEAREST)
        .address_mode_u(mode)
        .address_mode_v(mode)
        .address_mode_w(mode);
    // SAFETY: valid structs.
    let raw = unsafe { shared.device.create_sampler(&info, None) }.map_err(|r| shared.error("vkCreateSampler", r))?;
    shared.set_name(raw, name);
    Ok(raw)
}
