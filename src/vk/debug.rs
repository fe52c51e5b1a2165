//! Validation messages, object names and command labels.

use super::Shared;
use ash::vk;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// Messages kept at most; a faulty frame repeats itself.
const MOST: usize = 256;

/// Messages that are nobody's fault here: (message id, part of the text, why).
const SUPPRESSED: &[(&str, &str, &str)] = &[(
    "WARNING-vkGetDeviceProcAddr-device",
    "vkGetPhysicalDeviceVideoEncodeQualityLevelPropertiesKHR",
    "ash 0.38 looks this instance function up among the device's when it loads its tables; it is never called",
)];

fn suppressed(text: &str) -> bool {
    SUPPRESSED.iter().any(|(id, part, _)| text.starts_with(id) && text.contains(part))
}

/// What the validation layer said and nobody has taken yet.
#[derive(Default)]
pub(crate) struct Messages {
    list: Mutex<Vec<String>>,
}

impl Messages {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, text: String) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < MOST {
            list.push(text);
        }
    }
}

/// How a messenger is made. It refers to `messages`, which must outlive it.
pub(crate) fn messenger_info(messages: &Arc<Messages>) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | vk::DebugUtilsMessageTypeFlagsEXT::GENERAL)
        .pfn_user_callback(Some(callback))
        .user_data(Arc::as_ptr(messages).cast_mut().cast())
}

unsafe extern "system" fn callback(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    let text = |pointer: *const std::ffi::c_char| {
        if pointer.is_null() {
            return String::new();
        }
        // SAFETY: not null, and then a NUL-terminated string for the length of the call.
        unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
    };
    // SAFETY: Vulkan passes valid pointers; `user` is the `Messages` of `messenger_info`, alive by its contract.
    let (data, messages) = unsafe { (&*data, &*user.cast::<Messages>()) };
    let text = format!("{}: {}", text(data.p_message_id_name), text(data.p_message));
    if suppressed(&text) {
        tracing::debug!(target: "ashfall::validation", "suppressed: {text}");
    } else if kind.contains(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION) {
        tracing::error!(target: "ashfall::validation", "{text}");
        messages.push(text);
    } else if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) {
        // The loader's troubles with other drivers come this way; they say nothing of this device.
        tracing::debug!(target: "ashfall::loader", "{text}");
    }
    vk::FALSE
}

impl Shared {
    /// Gives an object the name that tools and validation messages show.
    pub fn set_name<H: vk::Handle>(&self, object: H, name: &str) {
        let Some(loader) = &self.names else { return };
        let name = c_string(name);
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&name);
        // SAFETY: alive, valid structs. A failure to name an object is of no consequence.
        _ = unsafe { loader.set_debug_utils_object_name(&info) };
    }
}

/// A name as Vulkan takes it: cut at the first NUL, which a script's name may contain.
pub(crate) fn c_string(name: &str) -> CString {
    let end = name.find('\0').unwrap_or(name.len());
    CString::new(&name[..end]).unwrap_or_default()
}
