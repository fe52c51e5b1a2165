//! Texture formats, shapes and the packing of floats into texels. No Vulkan.

use half::f16;

/// How a channel is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    /// Eight bits, 0 to 1.
    Unorm8,
    Half,
    Single,
}

/// The one table of formats: variant, name, WGSL spelling, channels, storage of a channel.
macro_rules! formats {
    ($($variant:ident $name:literal $wgsl:literal $channels:literal $channel:ident;)*) => {
        /// A texel format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format { $(#[doc = concat!("`", $name, "`, in WGSL `", $wgsl, "`.")] $variant),* }

        impl Format {
            /// Every format.
            pub const ALL: &'static [Format] = &[$(Format::$variant),*];
            /// Names as scripts spell them.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// From a script's name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
            /// A script's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
            /// The texel format in WGSL.
            #[must_use]
            pub const fn wgsl(self) -> &'static str {
                match self { $(Self::$variant => $wgsl),* }
            }
            /// Channels of a texel.
            #[must_use]
            pub const fn channels(self) -> usize {
                match self { $(Self::$variant => $channels),* }
            }
            const fn channel(self) -> Channel {
                match self { $(Self::$variant => Channel::$channel),* }
            }
        }
    };
}

formats! {
    R8 "r8" "r8unorm" 1 Unorm8;
    R16f "r16f" "r16float" 1 Half;
    R32f "r32f" "r32float" 1 Single;
    Rgba8 "rgba8" "rgba8unorm" 4 Unorm8;
    Rgba16f "rgba16f" "rgba16float" 4 Half;
    Rgba32f "rgba32f" "rgba32float" 4 Single;
}

impl Format {
    /// Bytes of a texel.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        let channel = match self.channel() {
            Channel::Unorm8 => 1,
            Channel::Half => 2,
            Channel::Single => 4,
        };
        channel * self.channels() as u64
    }

    /// Bytes that one float packs to.
    #[must_use]
    pub const fn channel_bytes(self) -> u64 {
        self.bytes() / self.channels() as u64
    }

    /// Packs one float: unorm clamped and rounded to nearest, half rounded to nearest even.
    pub fn pack(self, value: f32, to: &mut [u8]) {
        match self.channel() {
            // NaN clamps to NaN, which casts to 0.
            Channel::Unorm8 => to.copy_from_slice(&[(value.clamp(0.0, 1.0) * 255.0).round() as u8]),
            Channel::Half => to.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
            Channel::Single => to.copy_from_slice(&value.to_le_bytes()),
        }
    }

    /// Unpacks one float, the inverse of [`Format::pack`].
    #[must_use]
    pub fn unpack(self, from: &[u8]) -> f32 {
        match (self.channel(), from) {
            (Channel::Unorm8, [b]) => f32::from(*b) / 255.0,
            (Channel::Half, [a, b]) => f16::from_le_bytes([*a, *b]).to_f32(),
            (Channel::Single, [a, b, c, d]) => f32::from_le_bytes([*a, *b, *c, *d]),
            _ => 0.0,
        }
    }
}

/// What a texture is for; each has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextureRole {
    /// A 3D texture.
    Volume,
    /// A 2D storage texture.
    Target,
    /// A 2D texture filled from a buffer.
    Cached,
    /// One of the two textures of a history.
    History,
}

/// A texture's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextureDesc {
    /// What it is for.
    pub role: TextureRole,
    /// Texels along x.
    pub width: u32,
    /// Texels along y.
    pub height: u32,
    /// Texels along z; 1 for 2D textures.
    pub depth: u32,
    /// Its texels.
    pub format: Format,
    /// Whether shaders may write it.
    pub storage: bool,
}

impl TextureDesc {
    /// Bytes of all texels, rows and slices without gaps.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * u64::from(self.depth) * self.format.bytes()
    }

    /// Whether it is a 3D texture.
    #[must_use]
    pub fn is_3d(&self) -> bool {
        self.role == TextureRole::Volume
    }
}

/// How a sampler reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SamplerDesc {
    /// Linear filtering; nearest otherwise.
    pub filter: bool,
    /// Clamped at the edges; repeated otherwise.
    pub clamp: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_closed() {
        let bytes = [("r8", 1), ("r16f", 2), ("r32f", 4), ("rgba8", 4), ("rgba16f", 8), ("rgba32f", 16)];
        assert_eq!(Format::NAMES.len(), bytes.len());
        for (name, size) in bytes {
            let format = Format::from_name(name).unwrap();
            assert_eq!((format.name(), format.bytes()), (name, size));
        }
        assert_eq!(Format::from_name("rgba9"), None);
    }

    #[test]
    fn unorm_rounds_to_nearest_and_clamps() {
        for (value, byte) in [(0.5, 128), (0.25, 64), (0.998, 254), (0.999, 255), (-1.0, 0), (2.0, 255), (f32::NAN, 0)]
        {
            let mut out = [0];
            Format::R8.pack(value, &mut out);
            assert_eq!(out[0], byte, "{value}");
        }
    }

    proptest! {
        /// Packing and unpacking is off by at most half a step of the format.
        #[test]
        fn round_trip(value in -70000.0f32..70000.0, unit in 0.0f32..1.0) {
            for format in Format::ALL {
                let mut out = vec![0; format.channel_bytes() as usize];
                let (given, tolerance) = match format.channel() {
                    Channel::Unorm8 => (unit, 0.5 / 255.0 + 1e-6),
                    Channel::Half if value.abs() > 65000.0 => continue,
                    Channel::Half => (value, value.abs() / 2048.0 + 1e-7),
                    Channel::Single => (value, 0.0),
                };
                format.pack(given, &mut out);
                prop_assert!((format.unpack(&out) - given).abs() <= tolerance, "{format:?} {given}");
            }
        }
    }
}
