//! Which device, and why not the others.

use super::instance::{API, Instance, version_text};
use super::{DeviceInfo, DeviceOptions, Shared, error};
use crate::error::{Error, Result};
use crate::record::Limits;
use crate::shader::Target;
use ash::vk;
use std::ffi::CStr;
use std::sync::atomic::AtomicBool;

/// Why a device is used or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It serves; a plain run takes this one.
    Chosen,
    /// It serves, and another one was preferred, for this reason.
    PassedOver(String),
    /// It cannot serve, for this reason.
    Unusable(String),
}

/// One device of the machine.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// Position in the list; `ASHFALL_DEVICE` and [`DeviceOptions::device`] take it.
    pub index: usize,
    /// The device's name.
    pub name: String,
    /// Driver name and version text.
    pub driver: String,
    /// `discrete GPU`, `integrated GPU`, `virtual GPU`, `CPU` or `other`.
    pub kind: &'static str,
    /// Vulkan version of the device.
    pub api_version: String,
    /// The outcome.
    pub verdict: Verdict,
}

impl std::fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { index, name, driver, kind, api_version, verdict } = self;
        write!(f, "{index}: {name} ({kind}, {driver}, Vulkan {api_version}): ")?;
        match verdict {
            Verdict::Chosen => f.write_str("chosen"),
            Verdict::PassedOver(reason) => write!(f, "usable, passed over: {reason}"),
            Verdict::Unusable(reason) => write!(f, "not usable: {reason}"),
        }
    }
}

/// Numbers of the device that the backend needs again and again.
#[derive(Clone)]
pub(crate) struct Properties {
    pub memory: vk::PhysicalDeviceMemoryProperties,
    pub max_allocation: u64,
    /// `nonCoherentAtomSize`.
    pub atom: u64,
    pub uniform_alignment: u64,
    pub max_storage_buffers: u32,
    pub max_uniform_buffers: u32,
    pub max_sampled_images: u32,
    pub max_storage_images: u32,
    pub max_samplers: u32,
    /// Bits of a timestamp that count; 0 when the queue writes none.
    pub timestamp_bits: u32,
    /// Nanoseconds of one step of a timestamp.
    pub timestamp_period: f64,
}

/// A device being looked at.
struct Candidate {
    raw: vk::PhysicalDevice,
    report: DeviceReport,
    /// Text that a wish is looked for in, lower case.
    haystack: String,
    rank: u32,
    queue_family: u32,
    timestamp_bits: u32,
}

/// Every Vulkan device of this machine, with the one that `wish` (or `ASHFALL_DEVICE`, or the ranking) chooses.
///
/// # Errors
/// [`Error::NoVulkan`] when there is no loader.
pub fn devices(wish: Option<&str>) -> Result<Vec<DeviceReport>> {
    let instance = Instance::new(false)?;
    let mut candidates = candidates(&instance)?;
    _ = choose(&mut candidates, &wish_or_environment(wish));
    Ok(candidates.into_iter().map(|c| c.report).collect())
}

fn wish_or_environment(wish: Option<&str>) -> Option<String> {
    wish.map(str::to_owned).or_else(|| std::env::var("ASHFALL_DEVICE").ok()).filter(|w| !w.trim().is_empty())
}

/// Chooses and opens a device.
pub(crate) fn open(instance: Instance, options: &DeviceOptions) -> Result<Shared> {
    let mut candidates = candidates(&instance)?;
    let chosen = choose(&mut candidates, &wish_or_environment(options.device.as_deref()));
    let Some(chosen) = chosen else {
        let mut report: String = candidates.iter().map(|c| format!("  {}\n", c.report)).collect();
        if candidates.is_empty() {
            "  no Vulkan driver is installed (Debian and Ubuntu: apt-get install mesa-vulkan-drivers)\n"
                .clone_into(&mut report);
        }
        return Err(Error::NoDevice { report: report.trim_end().to_owned() });
    };
    for c in &candidates {
        tracing::debug!("{}", c.report);
    }
    create(instance, &candidates[chosen], options)
}

fn candidates(instance: &Instance) -> Result<Vec<Candidate>> {
    // SAFETY: alive.
    let list =
        unsafe { instance.raw.enumerate_physical_devices() }.map_err(|r| error("vkEnumeratePhysicalDevices", r))?;
    Ok(list.into_iter().enumerate().map(|(index, raw)| look_at(instance, index, raw)).collect())
}

fn look_at(instance: &Instance, index: usize, raw: vk::PhysicalDevice) -> Candidate {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    // SAFETY: alive. Core since 1.0; the chained query only where the device knows it.
    let basic = unsafe { instance.raw.get_physical_device_properties(raw) };
    if basic.api_version >= vk::API_VERSION_1_2 {
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: alive, valid structs.
        unsafe { instance.raw.get_physical_device_properties2(raw, &mut all) };
    }
    let name = text(basic.device_name_as_c_str());
    let driver_name = text(driver.driver_name_as_c_str());
    let driver_text = format!("{driver_name} {}", text(driver.driver_info_as_c_str())).trim().to_owned();
    let (kind, rank) = match basic.device_type {
        vk::PhysicalDeviceType::DISCRETE_GPU => ("discrete GPU", 4),
        vk::PhysicalDeviceType::INTEGRATED_GPU => ("integrated GPU", 3),
        vk::PhysicalDeviceType::VIRTUAL_GPU => ("virtual GPU", 2),
        vk::PhysicalDeviceType::CPU => ("CPU", 0),
        _ => ("other", 1),
    };
    // Its users know Mesa's software driver by another name than it gives.
    let alias = if driver.driver_id == vk::DriverId::MESA_LLVMPIPE { "lavapipe" } else { "" };
    // SAFETY: alive.
    let families = unsafe { instance.raw.get_physical_device_queue_family_properties(raw) };
    let queue_family = families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE));
    let missing = missing(instance, raw, basic.api_version, queue_family.is_some());
    Candidate {
        raw,
        haystack: format!("{name} {driver_text} {alias}").to_lowercase(),
        rank,
        queue_family: queue_family.unwrap_or(0) as u32,
        timestamp_bits: queue_family.and_then(|i| families.get(i)).map_or(0, |f| f.timestamp_valid_bits),
        report: DeviceReport {
            index,
            name,
            driver: driver_text,
            kind,
            api_version: version_text(basic.api_version),
            verdict: missing.map_or(Verdict::Chosen, Verdict::Unusable),
        },
    }
}

/// What a device lacks, if anything.
fn missing(instance: &Instance, raw: vk::PhysicalDevice, version: u32, has_compute: bool) -> Option<String> {
    if version < API {
        return Some(format!("Vulkan {}, 1.3 is needed", version_text(version)));
    }
    if !has_compute {
        return Some("no queue family for compute".to_owned());
    }
    let mut twelve = vk::PhysicalDeviceVulkan12Features::default();
    let mut thirteen = vk::PhysicalDeviceVulkan13Features::default();
    let mut all = vk::PhysicalDeviceFeatures2::default().push_next(&mut twelve).push_next(&mut thirteen);
    // SAFETY: alive, valid structs, and the device is of version 1.3.
    unsafe { instance.raw.get_physical_device_features2(raw, &mut all) };
    let needed = [
        (twelve.timeline_semaphore, "timelineSemaphore"),
        (thirteen.synchronization2, "synchronization2"),
        (thirteen.robust_image_access, "robustImageAccess"),
    ];
    let lacking: Vec<&str> = needed.iter().filter(|(on, _)| *on == vk::FALSE).map(|(_, name)| *name).collect();
    (!lacking.is_empty()).then(|| format!("it lacks {}", lacking.join(" and ")))
}

/// Picks a candidate and writes every verdict.
fn choose(candidates: &mut [Candidate], wish: &Option<String>) -> Option<usize> {
    let reports: Vec<_> = candidates.iter().map(|c| (c.report.verdict.clone(), c.rank, c.haystack.clone())).collect();
    let (chosen, verdicts) = judge(&reports, wish.as_deref());
    for (candidate, verdict) in candidates.iter_mut().zip(verdicts) {
        candidate.report.verdict = verdict;
    }
    chosen
}

/// The choice itself, on plain data: (usable or not, rank, text to search).
fn judge(list: &[(Verdict, u32, String)], wish: Option<&str>) -> (Option<usize>, Vec<Verdict>) {
    let by_index = wish.and_then(|w| w.trim().parse::<usize>().ok());
    let fits = |i: usize| match (by_index, wish) {
        (Some(index), _) => i == index,
        (None, Some(wish)) => list[i].2.contains(&wish.trim().to_lowercase()),
        (None, None) => true,
    };
    let usable = |i: &usize| list[*i].0 == Verdict::Chosen && fits(*i);
    // Highest rank, then first listed.
    let chosen = (0..list.len()).filter(usable).max_by_key(|i| (list[*i].1, std::cmp::Reverse(*i)));
    let verdicts = (0..list.len())
        .map(|i| match &list[i].0 {
            Verdict::Unusable(reason) => Verdict::Unusable(reason.clone()),
            _ if Some(i) == chosen => Verdict::Chosen,
            _ if !fits(i) => Verdict::PassedOver(format!("it does not match \"{}\"", wish.unwrap_or_default())),
            _ => Verdict::PassedOver(match chosen {
                Some(c) if list[c].1 == list[i].1 => format!("device {c} of the same kind is listed first"),
                Some(c) => format!("device {c} is of a faster kind"),
                None => "no device was chosen".to_owned(),
            }),
        })
        .collect();
    (chosen, verdicts)
}

fn text(name: Result<&CStr, std::ffi::FromBytesUntilNulError>) -> String {
    name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Creates the logical device.
fn create(instance: Instance, candidate: &Candidate, options: &DeviceOptions) -> Result<Shared> {
    let raw = candidate.raw;
    // SAFETY: alive.
    let extensions = unsafe { instance.raw.enumerate_device_extension_properties(raw) }
        .map_err(|r| error("vkEnumerateDeviceExtensionProperties", r))?;
    let has = |name: &CStr| extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    let push = has(ash::khr::push_descriptor::NAME);
    let robustness2 = has(ash::ext::robustness2::NAME);

    let mut have_robust = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
    let mut have_11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut have_12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut have_13 = vk::PhysicalDeviceVulkan13Features::default();
    let mut have =
        vk::PhysicalDeviceFeatures2::default().push_next(&mut have_11).push_next(&mut have_12).push_next(&mut have_13);
    if robustness2 {
        have = have.push_next(&mut have_robust);
    }
    // SAFETY: alive, valid structs.
    unsafe { instance.raw.get_physical_device_features2(raw, &mut have) };
    let have_10 = have.features;

    let mut push_properties = vk::PhysicalDevicePushDescriptorPropertiesKHR::default();
    let mut props_11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut props_13 = vk::PhysicalDeviceVulkan13Properties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut props_11).push_next(&mut props_13);
    if push {
        properties = properties.push_next(&mut push_properties);
    }
    // SAFETY: alive, valid structs.
    unsafe { instance.raw.get_physical_device_properties2(raw, &mut properties) };
    let limits = properties.properties.limits;
    // SAFETY: alive.
    let memory = unsafe { instance.raw.get_physical_device_memory_properties(raw) };

    // Robustness is on wherever it is to be had: a script's index must not read a neighbour's memory.
    let robust2 =
        robustness2 && have_robust.robust_buffer_access2 == vk::TRUE && have_10.robust_buffer_access == vk::TRUE;
    let mut enable_robust = vk::PhysicalDeviceRobustness2FeaturesEXT::default().robust_buffer_access2(robust2);
    let subgroup_stages = props_11.subgroup_supported_stages.contains(vk::ShaderStageFlags::COMPUTE);
    // naga asks for all three whenever a shader names f16.
    let float16 = have_12.shader_float16 == vk::TRUE
        && have_11.storage_buffer16_bit_access == vk::TRUE
        && have_11.uniform_and_storage_buffer16_bit_access == vk::TRUE;
    let mut enable_11 = vk::PhysicalDeviceVulkan11Features::default()
        .storage_buffer16_bit_access(float16)
        .uniform_and_storage_buffer16_bit_access(float16);
    let mut enable_12 = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true).shader_float16(float16);
    let mut enable_13 = vk::PhysicalDeviceVulkan13Features::default()
        .synchronization2(true)
        .robust_image_access(true)
        .maintenance4(have_13.maintenance4 == vk::TRUE)
        .shader_zero_initialize_workgroup_memory(have_13.shader_zero_initialize_workgroup_memory == vk::TRUE);
    let enable_10 = vk::PhysicalDeviceFeatures::default()
        .robust_buffer_access(have_10.robust_buffer_access == vk::TRUE)
        .shader_storage_image_extended_formats(have_10.shader_storage_image_extended_formats == vk::TRUE)
        .shader_sampled_image_array_dynamic_indexing(have_10.shader_sampled_image_array_dynamic_indexing == vk::TRUE)
        .shader_int64(have_10.shader_int64 == vk::TRUE)
        .shader_float64(have_10.shader_float64 == vk::TRUE);
    let mut names = Vec::new();
    if push {
        names.push(ash::khr::push_descriptor::NAME.as_ptr());
    }
    if robust2 {
        names.push(ash::ext::robustness2::NAME.as_ptr());
    }
    let priorities = [1.0];
    let queues =
        [vk::DeviceQueueCreateInfo::default().queue_family_index(candidate.queue_family).queue_priorities(&priorities)];
    let mut info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&names)
        .enabled_features(&enable_10)
        .push_next(&mut enable_11)
        .push_next(&mut enable_12)
        .push_next(&mut enable_13);
    if robust2 {
        info = info.push_next(&mut enable_robust);
    }
    // SAFETY: valid structs; every extension and feature was found above.
    let device = unsafe { instance.raw.create_device(raw, &info, None) }.map_err(|r| error("vkCreateDevice", r))?;
    // SAFETY: alive; the one queue that was asked for.
    let queue = unsafe { device.get_device_queue(candidate.queue_family, 0) };

    let largest_heap = memory.memory_heaps_as_slice().iter().map(|h| h.size).max().unwrap_or(0);
    let max_allocation = props_11.max_memory_allocation_size;
    let info = DeviceInfo {
        name: candidate.report.name.clone(),
        driver: candidate.report.driver.clone(),
        api_version: candidate.report.api_version.clone(),
        push_descriptors: push,
        robust_buffer_access2: robust2,
        timestamps: candidate.timestamp_bits > 0,
        max_workgroup_size: limits.max_compute_work_group_size,
        max_workgroup_invocations: limits.max_compute_work_group_invocations,
        limits: Limits {
            device: candidate.report.name.clone(),
            max_workgroups: limits.max_compute_work_group_count,
            max_buffer_bytes: props_13.max_buffer_size.min(max_allocation).min(largest_heap) & !3,
            max_storage_range: limits.max_storage_buffer_range.into(),
            max_uniform_range: limits.max_uniform_buffer_range.into(),
            max_texture_2d: limits.max_image_dimension2_d,
            max_texture_3d: limits.max_image_dimension3_d,
            formats: super::image::support(
                &instance.raw,
                raw,
                have_10.shader_storage_image_extended_formats == vk::TRUE,
            ),
        },
    };
    let target = Target {
        robust_buffer_access2: robust2,
        zero_init_workgroup_memory: have_13.shader_zero_initialize_workgroup_memory == vk::TRUE,
        float16,
        int64: have_10.shader_int64 == vk::TRUE,
        float64: have_10.shader_float64 == vk::TRUE,
        texture_array_indexing: have_10.shader_sampled_image_array_dynamic_indexing == vk::TRUE,
        subgroups: subgroup_stages && props_11.subgroup_supported_operations.contains(SUBGROUP_OPERATIONS),
        // The least that every device has, so that a program's layout does not depend on the device.
        max_push_constant_bytes: limits.max_push_constants_size.min(128),
        max_workgroup_size: limits.max_compute_work_group_size,
        max_workgroup_invocations: limits.max_compute_work_group_invocations,
        max_workgroup_memory: limits.max_compute_shared_memory_size,
    };
    Ok(Shared {
        physical: raw,
        push: push.then(|| ash::khr::push_descriptor::Device::new(&instance.raw, &device)),
        max_push_descriptors: push_properties.max_push_descriptors,
        names: instance.debug_utils.then(|| ash::ext::debug_utils::Device::new(&instance.raw, &device)),
        labels: options.labels && instance.debug_utils,
        queue,
        queue_family: candidate.queue_family,
        properties: Properties {
            memory,
            max_allocation,
            atom: limits.non_coherent_atom_size,
            uniform_alignment: limits.min_uniform_buffer_offset_alignment.max(16),
            max_storage_buffers: limits
                .max_per_stage_descriptor_storage_buffers
                .min(limits.max_descriptor_set_storage_buffers),
            max_uniform_buffers: limits
                .max_per_stage_descriptor_uniform_buffers
                .min(limits.max_descriptor_set_uniform_buffers),
            max_sampled_images: limits
                .max_per_stage_descriptor_sampled_images
                .min(limits.max_descriptor_set_sampled_images),
            max_storage_images: limits
                .max_per_stage_descriptor_storage_images
                .min(limits.max_descriptor_set_storage_images),
            max_samplers: limits.max_per_stage_descriptor_samplers.min(limits.max_descriptor_set_samplers),
            timestamp_bits: candidate.timestamp_bits,
            timestamp_period: limits.timestamp_period.into(),
        },
        target,
        info,
        device,
        wait_limit: options.wait_limit,
        lost: AtomicBool::new(false),
        instance,
    })
}

/// What WGSL's subgroup builtins need.
const SUBGROUP_OPERATIONS: vk::SubgroupFeatureFlags = vk::SubgroupFeatureFlags::from_raw(
    vk::SubgroupFeatureFlags::BASIC.as_raw()
        | vk::SubgroupFeatureFlags::VOTE.as_raw()
        | vk::SubgroupFeatureFlags::ARITHMETIC.as_raw()
        | vk::SubgroupFeatureFlags::BALLOT.as_raw()
        | vk::SubgroupFeatureFlags::SHUFFLE.as_raw()
        | vk::SubgroupFeatureFlags::SHUFFLE_RELATIVE.as_raw()
        | vk::SubgroupFeatureFlags::QUAD.as_raw(),
);

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Vec<(Verdict, u32, String)> {
        vec![
            (Verdict::Chosen, 0, "llvmpipe (llvm 15) lavapipe".into()),
            (Verdict::Unusable("Vulkan 1.2, 1.3 is needed".into()), 4, "old card".into()),
            (Verdict::Chosen, 4, "nvidia h200".into()),
            (Verdict::Chosen, 4, "nvidia h200".into()),
        ]
    }

    #[test]
    fn every_device_gets_its_reason() {
        let passed = |s: &str| Verdict::PassedOver(s.into());
        let cases: &[(Option<&str>, Option<usize>)] = &[
            (None, Some(2)),
            (Some("llvmpipe"), Some(0)),
            (Some("LavaPipe "), Some(0)),
            (Some("3"), Some(3)),
            (Some("1"), None),
            (Some("amd"), None),
            (Some("9"), None),
        ];
        for (wish, chosen) in cases {
            assert_eq!(judge(&machine(), *wish).0, *chosen, "{wish:?}");
        }
        let (_, verdicts) = judge(&machine(), None);
        assert_eq!(verdicts[0], passed("device 2 is of a faster kind"));
        assert_eq!(verdicts[1], machine()[1].0);
        assert_eq!(verdicts[2], Verdict::Chosen);
        assert_eq!(verdicts[3], passed("device 2 of the same kind is listed first"));
        let (_, verdicts) = judge(&machine(), Some("amd"));
        assert_eq!(verdicts[2], passed("it does not match \"amd\""));
    }
}
