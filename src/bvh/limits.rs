//! What a build may be given, and how much of it.

use super::{Instance, MAX_ATTRIBUTES, NODE_BYTES, Options, TRIANGLE_BYTES};

/// The most triangles a leaf may hold; larger options mean this.
pub const MAX_LEAF: u32 = 8;

/// The most triangles of one build, whatever the device has: those of [`Limits::ADDRESSABLE`].
pub const MAX_TRIANGLES: u64 = Limits::ADDRESSABLE.max_triangle_bytes / TRIANGLE_BYTES;

/// How large the two buffers may become, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the triangle buffer; a device's storage range.
    pub max_triangle_bytes: u64,
    /// Bytes of the node buffer.
    pub max_node_bytes: u64,
}

impl Limits {
    /// 4 GiB each, which 32-bit byte offsets can tell apart.
    pub const ADDRESSABLE: Self = Self { max_triangle_bytes: 1 << 32, max_node_bytes: 1 << 32 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::ADDRESSABLE
    }
}

/// Why a hierarchy cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Leaves that may hold nothing.
    #[error("maxLeaf: got 0; expected at least 1")]
    MaxLeaf,
    /// An instance with more attributes than a triangle has room for.
    #[error("instance {}: got {given} attributes; expected at most {MAX_ATTRIBUTES}", .instance + 1)]
    Attributes {
        /// Which instance, from 0.
        instance: usize,
        /// How many it has.
        given: usize,
    },
    /// Triangles that do not fit their buffer.
    #[error(
        "{triangles} triangles need {bytes} bytes; a buffer can have at most {limit}, which holds {} triangles",
        .limit / TRIANGLE_BYTES
    )]
    TriangleBytes {
        /// How many there are.
        triangles: u64,
        /// What they need.
        bytes: u64,
        /// What a buffer can have.
        limit: u64,
    },
    /// Nodes that do not fit their buffer.
    #[error(
        "{nodes} nodes need {bytes} bytes; a buffer can have at most {limit}, which holds {} nodes",
        .limit / NODE_BYTES
    )]
    NodeBytes {
        /// How many there are.
        nodes: u64,
        /// What they need.
        bytes: u64,
        /// What a buffer can have.
        limit: u64,
    },
    /// Memory that the host does not have.
    #[error("out of memory: {bytes} bytes for {what} of {triangles} triangles")]
    Memory {
        /// What it was for.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
        /// How many triangles there are.
        triangles: u64,
    },
}

/// Checks the options and counts the triangles.
pub(super) fn check(instances: &[Instance], options: &Options, limits: &Limits) -> Result<u32, Error> {
    if options.max_leaf == Some(0) {
        return Err(Error::MaxLeaf);
    }
    let excess = instances.iter().map(|i| i.attributes.len()).enumerate().find(|(_, n)| *n > MAX_ATTRIBUTES);
    if let Some((instance, given)) = excess {
        return Err(Error::Attributes { instance, given });
    }
    let triangles = instances.iter().fold(0u64, |n, i| n.saturating_add(i.mesh.indices().len() as u64));
    check_triangles(triangles, limits)
}

pub(super) fn check_triangles(triangles: u64, limits: &Limits) -> Result<u32, Error> {
    let bytes = triangles.saturating_mul(TRIANGLE_BYTES);
    let limit = limits.max_triangle_bytes.min(Limits::ADDRESSABLE.max_triangle_bytes);
    if bytes > limit {
        return Err(Error::TriangleBytes { triangles, bytes, limit });
    }
    Ok(triangles as u32)
}

pub(super) fn check_nodes(nodes: u64, limits: &Limits) -> Result<(), Error> {
    let (bytes, limit) = (nodes * NODE_BYTES, limits.max_node_bytes.min(Limits::ADDRESSABLE.max_node_bytes));
    if bytes > limit { Err(Error::NodeBytes { nodes, bytes, limit }) } else { Ok(()) }
}
