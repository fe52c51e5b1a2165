//! The Vulkan instance: loader, extensions, validation layer and its messages.

use super::debug::{self, Messages};
use super::error;
use crate::error::{Error, Result};
use ash::vk;
use std::ffi::CStr;
use std::sync::Arc;

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";
/// The version this crate needs of loader and device.
pub(crate) const API: u32 = vk::API_VERSION_1_3;

/// An instance with its loader; destroyed on drop.
pub(crate) struct Instance {
    pub raw: ash::Instance,
    pub debug_utils: bool,
    messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    messages: Arc<Messages>,
    // Last: unloads the library.
    _entry: ash::Entry,
}

impl Instance {
    pub fn new(validation: bool) -> Result<Self> {
        // SAFETY: the library found is the system's Vulkan loader, whose initialisation has no preconditions.
        let entry = unsafe { ash::Entry::load() }.map_err(|e| Error::NoVulkan { reason: e.to_string() })?;
        // SAFETY: no preconditions.
        let version = unsafe { entry.try_enumerate_instance_version() }
            .map_err(|r| error("vkEnumerateInstanceVersion", r))?
            .unwrap_or(vk::API_VERSION_1_0);
        if version < API {
            return Err(Error::NoVulkan {
                reason: format!("the loader is for Vulkan {}, 1.3 is needed", version_text(version)),
            });
        }
        let mut extensions = Vec::new();
        let debug_utils = has_extension(&entry, None, ash::ext::debug_utils::NAME)?;
        if debug_utils {
            extensions.push(ash::ext::debug_utils::NAME.as_ptr());
        }
        let mut layers = Vec::new();
        let (mut by_feature, mut by_settings) = (false, false);
        if validation {
            if !has_layer(&entry, VALIDATION)? {
                return Err(Error::NoValidationLayer);
            }
            layers.push(VALIDATION.as_ptr());
            by_settings = has_extension(&entry, Some(VALIDATION), ash::ext::layer_settings::NAME)?;
            by_feature = has_extension(&entry, Some(VALIDATION), ash::ext::validation_features::NAME)?;
            if by_feature {
                extensions.push(ash::ext::validation_features::NAME.as_ptr());
            }
        }
        let application =
            vk::ApplicationInfo::default().application_name(c"ashfall").engine_name(c"ashfall").api_version(API);
        let messages = Arc::new(Messages::default());
        let mut messenger_info = debug::messenger_info(&messages);
        let mut info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions);
        // Older layers turn synchronization validation on by a list of features, and take settings for a mistake;
        // newer ones read them whether or not the extension is enabled, which loaders older than it would refuse. Without
        // the heuristic a dispatch's accesses to its bindings are not looked at, and nothing between two dispatches is
        // checked; it takes a binding as accessed whole, as the planner does.
        let features = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&features);
        let on = vk::TRUE.to_ne_bytes();
        let settings = [c"validate_sync", c"syncval_shader_accesses_heuristic"].map(|name| vk::LayerSettingEXT {
            value_count: 1,
            ..vk::LayerSettingEXT::default()
                .layer_name(VALIDATION)
                .setting_name(name)
                .ty(vk::LayerSettingTypeEXT::BOOL32)
                .values(&on)
        });
        let mut settings = vk::LayerSettingsCreateInfoEXT::default().settings(&settings);
        if by_settings {
            info = info.push_next(&mut settings);
        }
        if by_feature {
            info = info.push_next(&mut features);
        }
        if debug_utils {
            info = info.push_next(&mut messenger_info);
        }
        // SAFETY: valid structs; layers and extensions were found above.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|r| match r {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => Error::NoVulkan { reason: "no driver was found".into() },
            other => error("vkCreateInstance", other),
        })?;
        let mut instance = Self { raw, debug_utils, messenger: None, messages, _entry: entry };
        if debug_utils {
            let loader = ash::ext::debug_utils::Instance::new(&instance._entry, &instance.raw);
            let info = debug::messenger_info(&instance.messages);
            // SAFETY: valid structs; the messages outlive the messenger, which `drop` destroys first.
            let handle = unsafe { loader.create_debug_utils_messenger(&info, None) }
                .map_err(|r| error("vkCreateDebugUtilsMessengerEXT", r))?;
            instance.messenger = Some((loader, handle));
        }
        Ok(instance)
    }

    pub fn messages(&self) -> Vec<String> {
        self.messages.take()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the device is gone: `Shared` destroys it before this field drops.
        unsafe {
            if let Some((loader, handle)) = self.messenger.take() {
                loader.destroy_debug_utils_messenger(handle, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

fn has_extension(entry: &ash::Entry, layer: Option<&CStr>, name: &CStr) -> Result<bool> {
    // SAFETY: no preconditions beyond a known layer, which the caller checked.
    let list = unsafe { entry.enumerate_instance_extension_properties(layer) }
        .map_err(|r| error("vkEnumerateInstanceExtensionProperties", r))?;
    Ok(list.iter().any(|e| e.extension_name_as_c_str() == Ok(name)))
}

fn has_layer(entry: &ash::Entry, name: &CStr) -> Result<bool> {
    // SAFETY: no preconditions.
    let list = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(|r| error("vkEnumerateInstanceLayerProperties", r))?;
    Ok(list.iter().any(|l| l.layer_name_as_c_str() == Ok(name)))
}

/// `major.minor.patch`.
pub(crate) fn version_text(version: u32) -> String {
    format!("{}.{}.{}", vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version))
}
