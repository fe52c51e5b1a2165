//! Placing meshes in the world: corners, normals and boxes of triangles.

use super::Instance;
use super::boxes::{Bounds, Item};
use super::memory::free_piece;
use crate::mesh::{Mesh, Parts};
use glam::{DMat3, DVec3, Mat3A, Vec3A};
use std::sync::Arc;

/// The largest coordinate that counts as a place: sums and differences of two stay finite.
pub(super) const FARTHEST: f32 = 5e37;

/// An instance's transform, ready to use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    linear: Mat3A,
    translation: Vec3A,
    normal: Mat3A,
}

impl Placement {
    /// From 16 numbers by rows.
    pub(super) fn new(m: &[f32; 16]) -> Self {
        let linear =
            Mat3A::from_cols(Vec3A::new(m[0], m[4], m[8]), Vec3A::new(m[1], m[5], m[9]), Vec3A::new(m[2], m[6], m[10]));
        Self { linear, translation: Vec3A::new(m[3], m[7], m[11]), normal: normal_matrix(m) }
    }

    #[inline]
    fn point(&self, p: [f32; 3]) -> Vec3A {
        self.linear.x_axis * p[0] + self.linear.y_axis * p[1] + self.linear.z_axis * p[2] + self.translation
    }

    /// The corners of a triangle in the world. One with a corner that is no place in the world (not finite, or past
    /// [`FARTHEST`]) shrinks to the first corner that is one, or to the origin: it can be seen from nowhere, and
    /// spoils no box above it.
    #[inline]
    pub(super) fn corners(&self, mesh: &Mesh, triangle: usize) -> [Vec3A; 3] {
        let positions = mesh.positions();
        let corners = mesh.indices()[triangle].map(|i| self.point(positions[i as usize]));
        let limit = Vec3A::splat(FARTHEST);
        let fits = corners.map(|c| c.abs().cmple(limit));
        if (fits[0] & fits[1] & fits[2]).all() {
            return corners;
        }
        let first = corners.into_iter().find(|c| c.abs().cmple(limit).all());
        [first.unwrap_or(Vec3A::ZERO); 3]
    }

    /// A unit normal in the world; zero for one without a direction.
    #[inline]
    pub(super) fn normal(&self, n: [f32; 3]) -> Vec3A {
        let turned = self.normal.x_axis * n[0] + self.normal.y_axis * n[1] + self.normal.z_axis * n[2];
        let square = turned.length_squared();
        // Within these the squares have lost nothing to the ends of the range.
        if square > 1e-30 && square < 1e30 { turned / square.sqrt() } else { far_normal(turned) }
    }
}

#[cold]
fn far_normal(n: Vec3A) -> Vec3A {
    let n = n.as_dvec3();
    let n = n / n.abs().max_element();
    if n.is_finite() { (n / n.length()).as_vec3a() } else { Vec3A::ZERO }
}

/// The inverse transpose but for a positive factor. Cofactors are that too, exist for singular matrices, and need the
/// determinant's sign alone.
fn normal_matrix(m: &[f32; 16]) -> Mat3A {
    let row = |r: usize| DVec3::new(m[r].into(), m[r + 1].into(), m[r + 2].into());
    let (x, y, z) = (row(0), row(4), row(8));
    // f64 holds any product of two f32, but not of three.
    let longest = x.abs().max(y.abs()).max(z.abs()).max_element();
    let (x, y, z) = (x / longest, y / longest, z / longest);
    let rows = [y.cross(z), z.cross(x), x.cross(y)];
    let size = rows.iter().fold(0f64, |size, r| size.max(r.abs().max_element()));
    let sign = if x.dot(rows[0]) < 0.0 { -1.0 } else { 1.0 };
    let cofactors = DMat3::from_cols(rows[0], rows[1], rows[2]).transpose() * (sign / size);
    if cofactors.is_finite() { cofactors.as_mat3().into() } else { Mat3A::ZERO }
}

/// Where the triangles of each instance begin in the numbering of all.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) mesh: Arc<Mesh>,
    pub(super) transform: [f32; 16],
    pub(super) attributes: super::Attributes,
    pub(super) first: u32,
}

impl Placed {
    pub(super) fn new(instance: Instance, first: u32) -> Self {
        let Instance { mesh, transform, attributes } = instance;
        Self { mesh, transform, attributes, first }
    }

    pub(super) fn count(&self) -> u32 {
        self.mesh.indices().len() as u32
    }
}

/// The instances of a build, which are freed in pieces.
#[derive(Debug, Default)]
pub(super) struct Instances {
    list: Vec<Placed>,
    /// What is left of a mesh that nobody else held.
    orphan: Parts,
}

impl Instances {
    pub(super) fn new(list: Vec<Placed>) -> Self {
        Self { list, orphan: Parts::default() }
    }

    /// Frees some; true once all are gone.
    pub(super) fn free_piece(&mut self) -> bool {
        let (positions, normals, uvs, indices) = &mut self.orphan;
        let gone = free_piece(positions) && free_piece(normals) && free_piece(uvs) && free_piece(indices);
        if !gone {
            return false;
        }
        for _ in 0..256 {
            let Some(last) = self.list.pop() else { return true };
            if let Some(mesh) = Arc::into_inner(last.mesh) {
                self.orphan = mesh.into_parts();
                break;
            }
        }
        false
    }
}

impl std::ops::Deref for Instances {
    type Target = [Placed];
    fn deref(&self) -> &[Placed] {
        &self.list
    }
}

/// Where gathering stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    instance: usize,
    triangle: u32,
}

impl Cursor {
    /// In front of a triangle by its number over all instances.
    pub(super) fn at(instances: &[Placed], number: u32) -> Self {
        let instance = instances.partition_point(|i| i.first <= number).saturating_sub(1);
        let triangle = instances.get(instance).map_or(0, |i| number - i.first);
        Self { instance, triangle }
    }
}

/// An instance costs about as much as this many triangles, its matrices being made again wherever a unit begins.
const INSTANCE_WORK: usize = 8;

/// The boxes that have been gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) bounds: Bounds,
    pub(super) centres: Bounds,
}

impl Extent {
    pub(super) const EMPTY: Self = Self { bounds: Bounds::EMPTY, centres: Bounds::EMPTY };

    pub(super) fn union(self, other: Self) -> Self {
        Self { bounds: self.bounds.union(other.bounds), centres: self.centres.union(other.centres) }
    }
}

/// Hands out primitives from the cursor on until the work or the triangles are used up; returns the work done.
pub(super) fn gather(
    instances: &[Placed],
    cursor: &mut Cursor,
    extent: &mut Extent,
    work: usize,
    mut out: impl FnMut(Item),
) -> usize {
    let mut done = 0;
    while let Some(instance) = instances.get(cursor.instance).filter(|_| done < work) {
        let placement = Placement::new(&instance.transform);
        let (from, count) = (cursor.triangle, instance.count());
        let to = count.min(from.saturating_add((work - done) as u32));
        for triangle in from..to {
            let [a, b, c] = instance_corners(&placement, instance, triangle);
            let bounds = Bounds { low: a.min(b).min(c).extend(0.0), high: a.max(b).max(c).extend(0.0) };
            let item = Item::primitive(bounds, instance.first + triangle);
            extent.bounds = extent.bounds.union(bounds);
            extent.centres = extent.centres.with_point(item.centre());
            out(item);
        }
        done += (to - from) as usize + INSTANCE_WORK;
        cursor.triangle = to;
        if to == count {
            *cursor = Cursor { instance: cursor.instance + 1, triangle: 0 };
        }
    }
    done
}

#[inline]
fn instance_corners(placement: &Placement, instance: &Placed, triangle: u32) -> [Vec3A; 3] {
    placement.corners(&instance.mesh, triangle as usize)
}
