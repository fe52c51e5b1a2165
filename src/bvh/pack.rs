//! Writing the bytes that shaders read.

use super::boxes::Item;
use super::flatten::pair_of;
use super::gather::{Placed, Placement};
use super::{LEAF, NODE_BYTES, Stream, TRIANGLE_BYTES};
use glam::Vec3A;

/// Bytes that are asked for at once.
pub(super) const BLOCK: usize = 256 << 10;

fn node_record(item: &Item, low: u32, high: u32) -> [f32; 8] {
    let bounds = item.bounds();
    let (a, b) = (bounds.low, bounds.high);
    [a.x, a.y, a.z, f32::from_bits(low), b.x, b.y, b.z, f32::from_bits(high)]
}

/// Nodes in their final order.
#[derive(Debug, Default)]
pub(super) struct NodePacker {
    /// Inner nodes whose children are yet to be written.
    stack: Vec<u32>,
    /// The inner node whose left child is written and whose right one is not.
    half: Option<u32>,
    written: u64,
}

impl NodePacker {
    /// Offset of the next node, in bytes.
    pub(super) fn offset(&self) -> u64 {
        self.written * NODE_BYTES
    }

    /// Fills a block with as many nodes as fit; returns how many.
    pub(super) fn fill(&mut self, nodes: &[Item], places: &[u32], block: &mut [u8]) -> u64 {
        let before = self.written;
        for to in block.chunks_exact_mut(NODE_BYTES as usize) {
            let Some(record) = self.next(nodes, places) else { break };
            to.copy_from_slice(bytemuck::cast_slice(&record));
            self.written += 1;
        }
        self.written - before
    }

    fn next(&mut self, nodes: &[Item], places: &[u32]) -> Option<[f32; 8]> {
        let root = self.written == 0;
        let (node, parent) = match self.half.take() {
            _ if root => (0, None),
            Some(parent) => (nodes[parent as usize].low_word() + 1, Some(parent)),
            None => {
                let parent = self.stack.pop()?;
                self.half = Some(parent);
                (nodes[parent as usize].low_word(), None)
            }
        };
        let item = &nodes[node as usize];
        if root && !item.is_leaf() {
            self.stack.push(0);
        }
        if let Some(parent) = parent {
            // Both are written, and the left one's children come next.
            let left = nodes[parent as usize].low_word();
            let inner = [left + 1, left].into_iter().filter(|n| !nodes[*n as usize].is_leaf());
            self.stack.extend(inner);
        }
        if item.is_leaf() {
            return Some(node_record(item, item.low_word(), item.high_word()));
        }
        let pair = places[pair_of(item.low_word())];
        Some(node_record(item, 2 * pair + 1, 2 * pair + 2))
    }
}

/// The one node of a tree without triangles: a leaf of none, at the origin.
pub(super) fn empty_node() -> [u8; NODE_BYTES as usize] {
    bytemuck::cast([0, 0, 0, 0, 0, 0, 0, LEAF])
}

/// Writes triangles in their final order.
pub(super) fn fill_triangles(instances: &[Placed], sequence: &[u32], block: &mut [u8]) {
    let mut at: Option<(&Placed, Placement)> = None;
    let mut record = [0f32; TRIANGLE_BYTES as usize / 4];
    for (number, to) in sequence.iter().zip(block.chunks_exact_mut(TRIANGLE_BYTES as usize)) {
        let known = at.filter(|(i, _)| number.wrapping_sub(i.first) < i.count());
        let Some((instance, placement)) = known.or_else(|| find(instances, *number)) else { continue };
        if known.is_none() {
            let attributes = &mut record[32..];
            attributes.fill(0.0);
            attributes[..instance.attributes.len()].copy_from_slice(&instance.attributes);
            at = Some((instance, placement));
        }
        let triangle = (number - instance.first) as usize;
        let corners = placement.corners(&instance.mesh, triangle);
        for (corner, vertex) in instance.mesh.indices()[triangle].into_iter().enumerate() {
            let vertex = vertex as usize;
            put(&mut record[4 * corner..], corners[corner]);
            put(&mut record[12 + 4 * corner..], placement.normal(instance.mesh.normals()[vertex]));
            record[24 + 2 * corner..26 + 2 * corner].copy_from_slice(&instance.mesh.uvs()[vertex]);
        }
        // In one piece and in order: the block may be memory that combines writes.
        to.copy_from_slice(bytemuck::cast_slice(&record));
    }
}

#[inline]
fn put(to: &mut [f32], v: Vec3A) {
    to[..3].copy_from_slice(&v.to_array());
}

fn find(instances: &[Placed], number: u32) -> Option<(&Placed, Placement)> {
    let instance = instances.get(instances.partition_point(|i| i.first <= number).checked_sub(1)?)?;
    Some((instance, Placement::new(&instance.transform)))
}

impl Stream {
    /// Bytes of a record, which are never split over two blocks.
    #[must_use]
    pub const fn record_bytes(self) -> u64 {
        match self {
            Self::Nodes => NODE_BYTES,
            Self::Triangles => TRIANGLE_BYTES,
        }
    }

    /// The longest block that a step asks for.
    pub(super) const fn block(self) -> usize {
        let record = self.record_bytes() as usize;
        BLOCK / record * record
    }
}
