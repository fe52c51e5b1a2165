//! The typed commands a frame is made of.
//!
//! Each command is a plain `repr(C)` struct; the table at the end of this file is the one place that gives each
//! its code, name and size. A command in the [arena](crate::arena) is a header word, its struct, and for a
//! dispatch a tail: one [`Bound`] a binding, then the parameter bytes.
//!
//! Resources are named by slot index: a slot is not reused before every frame that names it has finished.

use bytemuck::{Pod, Zeroable};

/// What one command does to one resource: bits, so that a barrier's scope is their union.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Uses(u8);

impl Uses {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// A shader reads it as storage.
    pub const SHADER_READ: Self = Self(1);
    /// A shader writes it as storage.
    pub const SHADER_WRITE: Self = Self(1 << 1);
    /// A shader reads it as a uniform buffer.
    pub const UNIFORM_READ: Self = Self(1 << 2);
    /// A copy reads it.
    pub const COPY_READ: Self = Self(1 << 3);
    /// A copy or a fill writes it.
    pub const COPY_WRITE: Self = Self(1 << 4);
    /// A shader samples it.
    pub const SAMPLED_READ: Self = Self(1 << 5);
    /// A shader reads and writes it as storage.
    pub const SHADER_READ_WRITE: Self = Self(1 | 1 << 1);

    const WRITES: u8 = Self::SHADER_WRITE.0 | Self::COPY_WRITE.0;
    /// How many bits are in use.
    pub(crate) const COUNT: usize = 6;
    /// Name of each bit, in bit order.
    pub(crate) const NAMES: [&'static str; Self::COUNT] =
        ["shader read", "shader write", "uniform read", "copy read", "copy write", "sampled read"];

    /// From raw bits; unknown bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & ((1 << Self::COUNT) - 1))
    }
    /// The raw bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// The writing part.
    #[must_use]
    pub const fn writes(self) -> Self {
        Self(self.0 & Self::WRITES)
    }
    /// The reading part.
    #[must_use]
    pub const fn reads(self) -> Self {
        Self(self.0 & !Self::WRITES)
    }
    /// Whether no bit is set.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
    /// Whether all of `other` is in here.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// Whether some of `other` is in here.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::fmt::Debug for Uses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        let mut first = true;
        for (bit, name) in Self::NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                if !first {
                    f.write_str(" + ")?;
                }
                f.write_str(name)?;
                first = false;
            }
        }
        Ok(())
    }
}

/// One bound resource of a dispatch: slot index and uses, packed.
///
/// ```text
/// 31        26 25                       0
/// [   uses   ][       slot index        ]
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
pub struct Bound(u32);

impl Bound {
    const INDEX_BITS: u32 = 26;
    /// The largest slot index a command can name: 67 million resources.
    pub const MAX_INDEX: u32 = (1 << Self::INDEX_BITS) - 1;

    /// Packs the two; the index must not exceed [`Bound::MAX_INDEX`].
    #[inline]
    #[must_use]
    pub const fn new(index: u32, uses: Uses) -> Self {
        debug_assert!(index <= Self::MAX_INDEX);
        Self(index | (uses.bits() as u32) << Self::INDEX_BITS)
    }
    /// The resource's slot.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 & Self::MAX_INDEX
    }
    /// What the shader does to it.
    #[inline]
    #[must_use]
    pub const fn uses(self) -> Uses {
        Uses::from_bits((self.0 >> Self::INDEX_BITS) as u8)
    }
}

/// Where a command's parameter bytes are: in its own tail, or in a staging segment.
pub const PARAMS_INLINE: u32 = u32::MAX;

/// The word before every command.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Header {
    /// The command's code, see [`Op`].
    pub op: u16,
    pub(crate) pad: u16,
    /// Length of the command with this header and its tail, in 8-byte words.
    pub words: u32,
}

/// Runs a program over a grid of workgroups.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Dispatch {
    /// Slot of the program, for labels and failures.
    pub program: u32,
    /// Slot of the pipeline that was resident when the dispatch was recorded.
    pub pipeline: u32,
    /// Workgroups along x, y and z.
    pub groups: [u32; 3],
    /// Row of the [ledger](crate::inspect::Ledger) that counts this dispatch.
    pub row: u32,
    /// [`PARAMS_INLINE`], or the staging segment that holds the parameter block.
    pub param_segment: u32,
    /// Offset of the block in that segment, in bytes.
    pub param_offset: u32,
    /// Bound resources in the tail.
    pub bindings: u32,
    /// Bytes of parameters in the tail; a multiple of 4.
    pub param_bytes: u32,
}

/// Copies staged bytes into a buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Upload {
    /// Destination slot.
    pub buffer: u32,
    /// Staging segment of the source.
    pub segment: u32,
    /// Offset in the segment, in bytes.
    pub source: u64,
    /// Offset in the buffer, in bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// Fills a range of a buffer with one repeated word.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Fill {
    /// Destination slot.
    pub buffer: u32,
    /// The word.
    pub value: u32,
    /// Offset, in bytes; a multiple of 4.
    pub offset: u64,
    /// Bytes; a multiple of 4.
    pub size: u64,
}

/// Copies a range of a buffer into a readback segment.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Read {
    /// Source slot.
    pub buffer: u32,
    /// Readback segment of the destination.
    pub segment: u32,
    /// Offset in the buffer, in bytes.
    pub offset: u64,
    /// Offset in the segment, in bytes.
    pub destination: u64,
    /// Bytes.
    pub size: u64,
}

/// Brings a new texture into the one layout that all textures are kept in.
///
/// Layouts never change afterwards, so that no hazard needs a barrier of its own kind. It touches no texel and needs
/// nothing before it: the plan runs all of a frame's preparations first.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Prepare {
    /// The texture's slot.
    pub texture: u32,
    pub(crate) pad: u32,
}

/// Fills a texture with zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Clear {
    /// Destination slot.
    pub texture: u32,
    pub(crate) pad: u32,
}

/// Copies staged bytes over a whole texture.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct UploadTexture {
    /// Destination slot.
    pub texture: u32,
    /// Staging segment of the source.
    pub segment: u32,
    /// Offset in the segment, in bytes.
    pub source: u64,
}

/// Copies a whole texture into a readback segment, rows and slices without gaps.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ReadTexture {
    /// Source slot.
    pub texture: u32,
    /// Readback segment of the destination.
    pub segment: u32,
    /// Offset in the segment, in bytes.
    pub destination: u64,
}

/// Copies the start of a buffer over a whole texture.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct CopyToTexture {
    /// Source slot.
    pub buffer: u32,
    /// Destination slot.
    pub texture: u32,
    /// Bytes read from the buffer.
    pub size: u64,
}

/// A command struct that can stand in the arena.
pub trait Command: Pod {
    /// Its code.
    const OP: Op;
}

/// The one table of commands: code, struct, name.
macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// A command's code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Op { $($(#[$doc])* $name = $code),* }

        impl Op {
            /// Every code, in order.
            pub const ALL: &'static [Op] = &[$(Op::$name),*];

            /// From the code in a header.
            #[inline]
            #[must_use]
            pub const fn from_code(code: u16) -> Option<Op> {
                match code { $($code => Some(Op::$name),)* _ => None }
            }
            /// The command's name in text forms.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Op::$name => $text),* }
            }
            /// Bytes of the command's struct, header and tail not counted.
            #[must_use]
            pub const fn bytes(self) -> usize {
                match self { $(Op::$name => size_of::<$name>()),* }
            }
        }
        $(
            impl Command for $name { const OP: Op = Op::$name; }
            // The arena is made of 8-byte words.
            const _: () = assert!(size_of::<$name>() % 8 == 0 && align_of::<$name>() <= 8);
        )*
    };
}

commands! {
    /// See [`Dispatch`].
    Dispatch = 1, "dispatch";
    /// See [`Upload`].
    Upload = 2, "upload";
    /// See [`Fill`].
    Fill = 3, "fill";
    /// See [`Read`].
    Read = 4, "read";
    /// See [`Prepare`].
    Prepare = 5, "prepare";
    /// See [`Clear`].
    Clear = 6, "clear";
    /// See [`UploadTexture`].
    UploadTexture = 7, "upload texture";
    /// See [`ReadTexture`].
    ReadTexture = 8, "read texture";
    /// See [`CopyToTexture`].
    CopyToTexture = 9, "copy to texture";
}

/// A command as it lies in the arena, with its tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View<'a> {
    /// A dispatch, its bound resources, its inline parameter bytes.
    Dispatch(&'a Dispatch, &'a [Bound], &'a [u8]),
    /// An upload.
    Upload(&'a Upload),
    /// A fill.
    Fill(&'a Fill),
    /// A read.
    Read(&'a Read),
    /// A new texture's preparation.
    Prepare(&'a Prepare),
    /// A texture's clear.
    Clear(&'a Clear),
    /// An upload to a texture.
    UploadTexture(&'a UploadTexture),
    /// A read of a texture.
    ReadTexture(&'a ReadTexture),
    /// A copy from a buffer to a texture.
    CopyToTexture(&'a CopyToTexture),
}

impl View<'_> {
    /// The command's code.
    #[must_use]
    pub fn op(&self) -> Op {
        match self {
            View::Dispatch(..) => Op::Dispatch,
            View::Upload(_) => Op::Upload,
            View::Fill(_) => Op::Fill,
            View::Read(_) => Op::Read,
            View::Prepare(_) => Op::Prepare,
            View::Clear(_) => Op::Clear,
            View::UploadTexture(_) => Op::UploadTexture,
            View::ReadTexture(_) => Op::ReadTexture,
            View::CopyToTexture(_) => Op::CopyToTexture,
        }
    }

    /// Calls `visit` with every resource the command touches: slot, uses (never none), and the bytes touched
    /// (`0..u64::MAX` where the command does not say).
    #[inline]
    pub fn accesses(&self, mut visit: impl FnMut(u32, Uses, std::ops::Range<u64>)) {
        match self {
            View::Dispatch(_, bound, _) => {
                for b in *bound {
                    if !b.uses().is_none() {
                        visit(b.index(), b.uses(), 0..u64::MAX);
                    }
                }
            }
            View::Upload(c) => visit(c.buffer, Uses::COPY_WRITE, c.offset..c.offset + c.size),
            View::Fill(c) => visit(c.buffer, Uses::COPY_WRITE, c.offset..c.offset + c.size),
            View::Read(c) => visit(c.buffer, Uses::COPY_READ, c.offset..c.offset + c.size),
            View::Prepare(_) => {}
            View::Clear(c) => visit(c.texture, Uses::COPY_WRITE, 0..u64::MAX),
            View::UploadTexture(c) => visit(c.texture, Uses::COPY_WRITE, 0..u64::MAX),
            View::ReadTexture(c) => visit(c.texture, Uses::COPY_READ, 0..u64::MAX),
            View::CopyToTexture(c) => {
                visit(c.buffer, Uses::COPY_READ, 0..c.size);
                visit(c.texture, Uses::COPY_WRITE, 0..u64::MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_closed() {
        for op in Op::ALL {
            assert_eq!(Op::from_code(*op as u16), Some(*op));
            assert!(!op.name().is_empty());
        }
        assert_eq!(Op::from_code(0), None, "a zeroed word is no command");
        assert_eq!(Op::from_code(u16::MAX), None);
    }

    #[test]
    fn bound_packs_every_use_and_the_largest_index() {
        for bits in 0..1 << Uses::COUNT {
            let uses = Uses::from_bits(bits);
            let bound = Bound::new(Bound::MAX_INDEX, uses);
            assert_eq!((bound.index(), bound.uses()), (Bound::MAX_INDEX, uses));
            assert_eq!(uses.reads().with(uses.writes()), uses);
            assert!(!uses.reads().intersects(uses.writes()));
        }
    }
}
