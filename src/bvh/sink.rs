//! Where the bytes go.

use super::Sizes;

/// One of the two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Nodes.
    Nodes,
    /// Triangles.
    Triangles,
}

/// Lends memory that a build writes its bytes into.
///
/// Each buffer is asked for from its beginning to its end without gaps, the nodes first. A lent block is filled from
/// front to back and never read, so it may be memory that combines writes; it is complete when the next one is asked
/// for or the step returns.
pub trait Sink {
    /// Tells how large the buffers are, before the first block is asked for; again if that could not be lent.
    fn sized(&mut self, _sizes: Sizes) {}

    /// `len` bytes of a stream at an offset, or the first part of them. Blocks are used in whole records of
    /// [`Stream::record_bytes`]; what is left over of a shorter block is not written and is asked for again.
    ///
    /// Steps ask for at most 256 KiB. [`super::Build::run`] on several threads asks for at most 8 MiB, as short
    /// blocks are not worth sharing.
    ///
    /// None, or less than a record, ends the step; the next one asks again.
    fn lend(&mut self, stream: Stream, offset: u64, len: usize) -> Option<&mut [u8]>;
}

/// Keeps both buffers in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VecSink {
    /// Bytes of the nodes.
    pub nodes: Vec<u8>,
    /// Bytes of the triangles.
    pub triangles: Vec<u8>,
}

impl VecSink {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One with room, which spares it from moving its bytes as they grow.
    #[must_use]
    pub fn with_capacity(node_bytes: usize, triangle_bytes: usize) -> Self {
        Self { nodes: Vec::with_capacity(node_bytes), triangles: Vec::with_capacity(triangle_bytes) }
    }
}

impl Sink for VecSink {
    fn lend(&mut self, stream: Stream, offset: u64, len: usize) -> Option<&mut [u8]> {
        let bytes = match stream {
            Stream::Nodes => &mut self.nodes,
            Stream::Triangles => &mut self.triangles,
        };
        let from = usize::try_from(offset).ok()?;
        let to = from.checked_add(len)?;
        if bytes.len() < to {
            bytes.resize(to, 0);
        }
        bytes.get_mut(from..to)
    }
}
