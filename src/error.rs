//! The crate's one error type and the stable identifiers its cases carry.
//!
//! Errors are sorted by who can act on them: an [`Error::Argument`] is the caller's mistake and names the
//! field, what was given and what is accepted; [`Error::Unknown`] and [`Error::Stale`] name a thing that is not
//! there; the rest come from the machine. Tests and tools compare [`Error::id`], never the text.

use std::time::Duration;

/// Shorthand used throughout the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in this crate.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An argument lies outside what the call accepts. Nothing was recorded or created.
    #[error("{field}: got {given}; expected {accepted}")]
    Argument {
        /// The argument, as a path: `size`, `workgroups[2]`, `bindings[1].element`.
        field: String,
        /// What was given, as the caller would have written it.
        given: String,
        /// The values that would have been taken, limits included.
        accepted: String,
    },
    /// No live thing of this kind has this name.
    #[error("no {kind} is named \"{name}\"")]
    Unknown {
        /// `buffer`, `program`, `readback key`, ...
        kind: &'static str,
        /// The name as given.
        name: String,
    },
    /// An id whose object was destroyed, or that never came from this [`Gpu`](crate::Gpu).
    #[error("the {kind} id {id} names nothing: it was destroyed, or belongs to another device")]
    Stale {
        /// `buffer`, `program`, ...
        kind: &'static str,
        /// The id in its text form.
        id: String,
    },
    /// A limit of the device stands in the way.
    #[error("{what} is {given}, over the limit of {limit} on {device}")]
    Limit {
        /// What is too large.
        what: String,
        /// The value asked for.
        given: u64,
        /// The device's limit, in the same unit.
        limit: u64,
        /// The device's name.
        device: String,
    },
    /// Device or host memory ran out. What existed before still works.
    #[error("out of memory: {bytes} bytes for {what}")]
    OutOfMemory {
        /// What the memory was for.
        what: String,
        /// Bytes asked for.
        bytes: u64,
    },
    /// The Vulkan loader is missing or refuses to work.
    #[error(
        "no usable Vulkan loader: {reason}. Install one (Debian and Ubuntu: apt-get install libvulkan1 mesa-vulkan-drivers)"
    )]
    NoVulkan {
        /// The loader's own words.
        reason: String,
    },
    /// Vulkan works, but no device serves. The text lists every device with the reason it was passed over.
    #[error("no usable Vulkan device.\n{report}")]
    NoDevice {
        /// One line a device.
        report: String,
    },
    /// A bounded wait ran out. The work may still finish; nothing was destroyed.
    #[error("{what} did not finish within {waited:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The bound that ran out.
        waited: Duration,
    },
    /// The device is lost. Every later call on this [`Gpu`](crate::Gpu) answers with this error.
    #[error("the device is lost (reported by {call})")]
    DeviceLost {
        /// The Vulkan call that reported it.
        call: &'static str,
    },
    /// A Vulkan call failed in a way with no case of its own.
    #[error("{call} failed: {result}")]
    Vulkan {
        /// The Vulkan call.
        call: &'static str,
        /// The result code's name.
        result: String,
    },
    /// A shader did not become a program.
    #[error("{0}")]
    Shader(String),
    /// The validation layer was asked for and cannot be had.
    #[error(
        "the Khronos validation layer was asked for and is not installed (Debian and Ubuntu: apt-get install vulkan-validationlayers)"
    )]
    NoValidationLayer,
}

impl Error {
    /// A stable identifier of the case: safe to compare, log and search for.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Argument { .. } => "argument",
            Self::Unknown { .. } => "unknown",
            Self::Stale { .. } => "stale",
            Self::Limit { .. } => "limit",
            Self::OutOfMemory { .. } => "out-of-memory",
            Self::NoVulkan { .. } => "no-vulkan",
            Self::NoDevice { .. } => "no-device",
            Self::Timeout { .. } => "timeout",
            Self::DeviceLost { .. } => "device-lost",
            Self::Vulkan { .. } => "vulkan",
            Self::Shader(_) => "shader",
            Self::NoValidationLayer => "no-validation-layer",
        }
    }

    /// An [`Error::Argument`].
    pub fn argument(field: impl Into<String>, given: impl ToString, accepted: impl Into<String>) -> Self {
        Self::Argument { field: field.into(), given: given.to_string(), accepted: accepted.into() }
    }
}
