//! Boxes in SIMD lanes, and the 32 bytes that a primitive or a node takes while a tree is made.

use super::LEAF;
use glam::Vec4;

/// A box with an integer beside each corner: `low` and `high` in lanes 0 to 2.
///
/// | | lane 3 of `low` | lane 3 of `high` |
/// |-|-|-|
/// | primitive | 1.0 | number of the triangle |
/// | leaf | first primitive | [`LEAF`] with how many primitives, at least 1 |
/// | inner node | left child; the right one is next to it | from when the tree is improved, levels and triangles below it |
///
/// The primitive's 1.0 keeps sums and differences of its lanes out of the denormals, which some processors are slow at.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16))]
pub(super) struct Item {
    low: [f32; 4],
    high: [f32; 4],
}

impl Item {
    #[inline]
    pub(super) fn new(bounds: Bounds, low_word: u32, high_word: u32) -> Self {
        let (mut low, mut high) = (bounds.low.to_array(), bounds.high.to_array());
        low[3] = f32::from_bits(low_word);
        high[3] = f32::from_bits(high_word);
        Self { low, high }
    }

    #[inline]
    pub(super) fn primitive(bounds: Bounds, triangle: u32) -> Self {
        Self::new(bounds, 1f32.to_bits(), triangle)
    }

    #[inline]
    pub(super) fn low_word(&self) -> u32 {
        self.low[3].to_bits()
    }

    #[inline]
    pub(super) fn high_word(&self) -> u32 {
        self.high[3].to_bits()
    }

    #[inline]
    pub(super) fn set_words(&mut self, low: u32, high: u32) {
        self.low[3] = f32::from_bits(low);
        self.high[3] = f32::from_bits(high);
    }

    #[inline]
    pub(super) fn is_leaf(&self) -> bool {
        self.high_word() & LEAF != 0
    }

    #[inline]
    pub(super) fn bounds(&self) -> Bounds {
        Bounds { low: Vec4::from_array(self.low), high: Vec4::from_array(self.high) }
    }

    /// Twice the box's centre.
    #[inline]
    pub(super) fn centre(&self) -> Vec4 {
        Vec4::from_array(self.low) + Vec4::from_array(self.high)
    }
}

/// A box. Lane 3 means nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) low: Vec4,
    pub(super) high: Vec4,
}

impl Bounds {
    /// The box of nothing.
    pub(super) const EMPTY: Self = Self { low: Vec4::INFINITY, high: Vec4::NEG_INFINITY };

    #[inline]
    pub(super) fn union(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    #[inline]
    pub(super) fn with_point(self, point: Vec4) -> Self {
        Self { low: self.low.min(point), high: self.high.max(point) }
    }

    /// Half the surface after scaling by `scale`; infinite for the box of nothing.
    #[inline]
    pub(super) fn area(self, scale: f32) -> f32 {
        let e = self.high - self.low;
        let (x, y, z) = (e.x * scale, e.y * scale, e.z * scale);
        x * y + y * z + z * x
    }

    /// A scale that brings the longest side to 1, so that areas neither overflow nor vanish.
    #[inline]
    pub(super) fn unit_scale(self) -> f32 {
        let e = self.high - self.low;
        1.0 / e.x.max(e.y).max(e.z).max(1e-37)
    }

    #[inline]
    pub(super) fn same(self, other: Self) -> bool {
        self.low.truncate() == other.low.truncate() && self.high.truncate() == other.high.truncate()
    }
}
