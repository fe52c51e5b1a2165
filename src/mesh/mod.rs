//! Triangle meshes on the host: the store behind `meshcpu`, and how a vertex lies in device memory.

pub(crate) mod load;

use hashbrown::HashMap;
use std::sync::Arc;

/// One attribute of an interleaved vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: &'static str,
    /// Offset in the vertex, in bytes.
    pub offset: u32,
    /// How many f32.
    pub components: u32,
}

/// Bytes of an interleaved vertex.
pub const VERTEX_BYTES: u32 = 32;

/// The layout of an interleaved vertex.
///
/// It is that of the WGSL struct `{ position: vec3<f32>, u: f32, normal: vec3<f32>, v: f32 }`, which fills the gaps
/// behind the `vec3`s with the texture coordinates: shaders may declare the buffer as an array of that struct (it is
/// in the built-in include `ashfall/vertex.wgsl`), of `vec4<f32>` or of `f32`.
pub const LAYOUT: &[Attribute] = &[
    Attribute { name: "position", offset: 0, components: 3 },
    Attribute { name: "u", offset: 12, components: 1 },
    Attribute { name: "normal", offset: 16, components: 3 },
    Attribute { name: "v", offset: 28, components: 1 },
];

/// Triangles with one position, normal and texture coordinate a vertex.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    positions: Vec<[f32; 3]>,
    normals: Vec<[f32; 3]>,
    uvs: Vec<[f32; 2]>,
    indices: Vec<[u32; 3]>,
}

/// See [`Mesh::into_parts`].
pub(crate) type Parts = (Vec<[f32; 3]>, Vec<[f32; 3]>, Vec<[f32; 2]>, Vec<[u32; 3]>);

/// Why a mesh was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: got {given}; expected {accepted}")]
pub struct MeshError {
    /// The part at fault.
    pub field: &'static str,
    /// What was given.
    pub given: String,
    /// What is accepted.
    pub accepted: String,
}

impl Mesh {
    /// A mesh of its parts. Without normals each vertex gets the mean of its triangles' normals, weighted by their
    /// areas; without texture coordinates they are 0; without indices each three vertices are a triangle.
    ///
    /// Positions may be anything, NaN and infinity too: what that means is for the user of the mesh to say.
    ///
    /// # Errors
    /// Parts of different lengths, vertices that do not fill a last triangle, indices past the last vertex, and more
    /// vertices than 32 bits can number.
    pub fn new(
        positions: Vec<[f32; 3]>,
        normals: Option<Vec<[f32; 3]>>,
        uvs: Option<Vec<[f32; 2]>>,
        indices: Option<Vec<[u32; 3]>>,
    ) -> Result<Self, MeshError> {
        let count = positions.len();
        let fail = |field, given: String, accepted: String| Err(MeshError { field, given, accepted });
        if u32::try_from(count).is_err() {
            return fail("positions", format!("{count} vertices"), format!("at most {}", u32::MAX));
        }
        for (field, given) in [("normals", normals.as_ref().map(Vec::len)), ("uvs", uvs.as_ref().map(Vec::len))] {
            if let Some(given) = given.filter(|n| *n != count) {
                return fail(field, format!("{given} vertices"), format!("{count}, as there are positions"));
            }
        }
        let indices = match indices {
            Some(indices) => indices,
            None if count.is_multiple_of(3) => (0..count as u32 / 3).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect(),
            None => {
                return fail("positions", format!("{count} vertices"), "indices, or three vertices a triangle".into());
            }
        };
        let past = indices.iter().enumerate().find_map(|(t, corners)| {
            corners.iter().position(|i| *i as usize >= count).map(|c| (3 * t + c, corners[c]))
        });
        if let Some((at, index)) = past {
            let given = format!("{index} at position {}", at + 1);
            return fail("indices", given, format!("a vertex from 0 to {}", count.saturating_sub(1)));
        }
        let uvs = uvs.unwrap_or_else(|| vec![[0.0; 2]; count]);
        let normals = normals.unwrap_or_else(|| smooth_normals(&positions, &indices));
        Ok(Self { positions, normals, uvs, indices })
    }

    /// A position for each vertex.
    #[must_use]
    pub fn positions(&self) -> &[[f32; 3]] {
        &self.positions
    }

    /// A normal for each vertex.
    #[must_use]
    pub fn normals(&self) -> &[[f32; 3]] {
        &self.normals
    }

    /// A texture coordinate for each vertex.
    #[must_use]
    pub fn uvs(&self) -> &[[f32; 2]] {
        &self.uvs
    }

    /// Three vertices for each triangle.
    #[must_use]
    pub fn indices(&self) -> &[[u32; 3]] {
        &self.indices
    }

    /// The smallest and the largest coordinate on each axis, over the vertices that are numbers; zeros without any.
    #[must_use]
    pub fn bounds(&self) -> ([f32; 3], [f32; 3]) {
        let mut low = [f32::INFINITY; 3];
        let mut high = [f32::NEG_INFINITY; 3];
        for position in &self.positions {
            for axis in 0..3 {
                low[axis] = low[axis].min(position[axis]);
                high[axis] = high[axis].max(position[axis]);
            }
        }
        if (0..3).any(|axis| low[axis] > high[axis]) { ([0.0; 3], [0.0; 3]) } else { (low, high) }
    }

    /// Its positions, normals, texture coordinates and indices.
    pub(crate) fn into_parts(self) -> Parts {
        (self.positions, self.normals, self.uvs, self.indices)
    }

    /// Bytes of the interleaved vertices.
    #[must_use]
    pub fn vertex_bytes(&self) -> u64 {
        self.positions.len() as u64 * u64::from(VERTEX_BYTES)
    }

    /// Writes the interleaved vertices, as [`LAYOUT`] has them; `to` is [`Mesh::vertex_bytes`] long.
    pub fn write_vertices(&self, to: &mut [u8]) {
        let vertices = self.positions.iter().zip(&self.normals).zip(&self.uvs);
        for (slot, ((p, n), uv)) in to.chunks_exact_mut(VERTEX_BYTES as usize).zip(vertices) {
            slot.copy_from_slice(bytemuck::bytes_of(&[p[0], p[1], p[2], uv[0], n[0], n[1], n[2], uv[1]]));
        }
    }
}

fn smooth_normals(positions: &[[f32; 3]], indices: &[[u32; 3]]) -> Vec<[f32; 3]> {
    let mut normals = vec![[0.0f32; 3]; positions.len()];
    for corners in indices {
        let [a, b, c] = corners.map(|i| positions[i as usize]);
        let (u, v) = (sub(b, a), sub(c, a));
        // Twice the triangle's area long, which is the weight.
        let n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
        for corner in corners {
            let sum = &mut normals[*corner as usize];
            (0..3).for_each(|axis| sum[axis] += n[axis]);
        }
    }
    for n in &mut normals {
        let length = (n[0] * n[0] + n[1] * n[1] + n[2] * n[2]).sqrt();
        // A vertex of no triangle, or of degenerate ones, has no direction.
        *n = if length > 0.0 && length.is_finite() { n.map(|x| x / length) } else { [0.0; 3] };
    }
    normals
}

fn sub(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// The meshes that scripts have put or loaded, by guid.
#[derive(Debug, Default)]
pub struct MeshStore {
    meshes: HashMap<Box<str>, (Arc<Mesh>, u64)>,
    puts: u64,
}

impl MeshStore {
    /// Files a mesh under a guid, in place of the one before.
    pub fn put(&mut self, guid: &str, mesh: Mesh) {
        self.puts += 1;
        self.meshes.insert(guid.into(), (Arc::new(mesh), self.puts));
    }

    /// The mesh of a guid; it stays readable after it is unloaded.
    #[must_use]
    pub fn get(&self, guid: &str) -> Option<Arc<Mesh>> {
        self.meshes.get(guid).map(|(mesh, _)| Arc::clone(mesh))
    }

    /// Tells the meshes that a guid has named apart.
    #[must_use]
    pub fn version(&self, guid: &str) -> Option<u64> {
        self.meshes.get(guid).map(|(_, version)| *version)
    }

    /// Drops a mesh. False when there is none.
    pub fn unload(&mut self, guid: &str) -> bool {
        self.meshes.remove(guid).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let p = vec![[0.0; 3]; 4];
        let cases = [
            (Mesh::new(p.clone(), None, None, None), "positions: got 4 vertices; expected indices, or"),
            (Mesh::new(p.clone(), Some(vec![[0.0; 3]; 3]), None, Some(vec![])), "normals: got 3 vertices; expected 4"),
            (Mesh::new(p.clone(), None, Some(vec![]), Some(vec![])), "uvs: got 0 vertices; expected 4"),
            (Mesh::new(p, None, None, Some(vec![[0, 1, 2], [0, 4, 1]])), "indices: got 4 at position 5; expected a"),
        ];
        for (result, start) in cases {
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
        }
        assert!(Mesh::new(vec![], None, None, None).unwrap().indices().is_empty());
    }

    #[test]
    fn normals_are_the_mean_by_area() {
        // Two triangles that share an edge, one in xy of area 0.5, one in xz of area 1.
        let positions = vec![[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -2.0], [9.0, 9.0, 9.0]];
        let mesh = Mesh::new(positions, None, None, Some(vec![[0, 1, 2], [0, 1, 3]])).unwrap();
        let expected = [0.0, 2.0 / 5f32.sqrt(), 1.0 / 5f32.sqrt()];
        for corner in [0, 1] {
            for (told, expected) in mesh.normals()[corner].iter().zip(expected) {
                assert!((told - expected).abs() < 1e-6, "{:?}", mesh.normals());
            }
        }
        assert_eq!(mesh.normals()[2], [0.0, 0.0, 1.0]);
        assert_eq!(mesh.normals()[4], [0.0; 3], "a vertex of no triangle");
        assert_eq!(mesh.bounds(), ([0.0, 0.0, -2.0], [9.0, 9.0, 9.0]));
    }

    #[test]
    fn the_layout_tiles_a_vertex_and_is_what_is_written() {
        let mut at = 0;
        for attribute in LAYOUT {
            assert_eq!(attribute.offset, at, "{}", attribute.name);
            at += 4 * attribute.components;
        }
        assert_eq!(at, VERTEX_BYTES);
        let mesh = Mesh::new(vec![[1.0, 2.0, 3.0]; 3], Some(vec![[4.0, 5.0, 6.0]; 3]), Some(vec![[7.0, 8.0]; 3]), None);
        let mesh = mesh.unwrap();
        let mut bytes = vec![0; mesh.vertex_bytes() as usize];
        mesh.write_vertices(&mut bytes);
        let floats: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert_eq!(floats.len(), 24);
        assert_eq!(floats[8..16], [1.0, 2.0, 3.0, 7.0, 4.0, 5.0, 6.0, 8.0]);
    }
}
