//! Meshes from OBJ and glTF files.

use super::Mesh;
use glam::{Mat3, Mat4, Vec3};
use std::path::Path;

/// Reads a mesh by its file's extension: `.obj`, `.gltf` or `.glb`.
///
/// All triangles of the file become one mesh; the nodes of a glTF scene are put where their transforms say. Materials,
/// skins and animations are left out, and so are points and lines.
///
/// # Errors
/// A message that names the file.
pub(crate) fn file(path: &Path) -> Result<Mesh, String> {
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let mesh = match extension.as_str() {
        "obj" => obj(path),
        "gltf" | "glb" => gltf(path),
        _ => Err("expected a file that ends in .obj, .gltf or .glb".to_owned()),
    };
    mesh.map_err(|reason| format!("{}: {reason}", path.display()))
}

/// Parts gathered from several models.
#[derive(Default)]
struct Parts {
    positions: Vec<[f32; 3]>,
    normals: Vec<[f32; 3]>,
    uvs: Vec<[f32; 2]>,
    indices: Vec<[u32; 3]>,
}

impl Parts {
    /// Vertices of another model: its indices count from here.
    fn base(&self) -> Result<u32, String> {
        u32::try_from(self.positions.len()).map_err(|_| format!("more than {} vertices", u32::MAX))
    }

    fn triangles(&mut self, base: u32, indices: impl Iterator<Item = u32>) -> Result<(), String> {
        let list: Vec<u32> = indices.collect();
        let (whole, rest) = list.as_chunks::<3>();
        if !rest.is_empty() {
            return Err(format!("{} indices, which is no multiple of 3", list.len()));
        }
        for corners in whole {
            let mut moved = [0; 3];
            for (to, from) in moved.iter_mut().zip(corners) {
                *to = base.checked_add(*from).ok_or_else(|| format!("index {from} is past the last vertex"))?;
            }
            self.indices.push(moved);
        }
        Ok(())
    }

    /// Normals of the vertices from `base` on that their model gives none for.
    fn fill_normals(&mut self, base: u32, first_triangle: usize) {
        if self.normals.len() < self.positions.len() {
            let from = base as usize;
            let own: Vec<[u32; 3]> = self.indices[first_triangle..].iter().map(|t| t.map(|i| i - base)).collect();
            let inside = own.iter().all(|t| t.iter().all(|i| from + (*i as usize) < self.positions.len()));
            // Indices out of range are refused when the mesh is put together.
            let own = if inside { own } else { Vec::new() };
            self.normals.extend(super::smooth_normals(&self.positions[from..], &own));
        }
        self.uvs.resize(self.positions.len(), [0.0; 2]);
    }

    fn mesh(self) -> Result<Mesh, String> {
        Mesh::new(self.positions, Some(self.normals), Some(self.uvs), Some(self.indices)).map_err(|e| e.to_string())
    }
}

fn obj(path: &Path) -> Result<Mesh, String> {
    let options = tobj::LoadOptions { triangulate: true, single_index: true, ..tobj::LoadOptions::default() };
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    // Material libraries are not looked for: nothing here uses them.
    let nothing = |_: &Path| Ok((Vec::new(), Default::default()));
    let mut reader = std::io::BufReader::new(file);
    let (models, _) = tobj::load_obj_buf(&mut reader, &options, nothing).map_err(|e| e.to_string())?;
    let mut parts = Parts::default();
    for model in models {
        let (base, first) = (parts.base()?, parts.indices.len());
        parts.positions.extend_from_slice(model.mesh.positions.as_chunks::<3>().0);
        parts.normals.extend_from_slice(model.mesh.normals.as_chunks::<3>().0);
        // OBJ has the origin of texture coordinates at the bottom, glTF and Vulkan at the top.
        parts.uvs.extend(model.mesh.texcoords.as_chunks::<2>().0.iter().map(|[u, v]| [*u, 1.0 - v]));
        parts.triangles(base, model.mesh.indices.into_iter())?;
        parts.fill_normals(base, first);
    }
    parts.mesh()
}

fn gltf(path: &Path) -> Result<Mesh, String> {
    let document = gltf::Gltf::open(path).map_err(|e| e.to_string())?;
    let blob = document.blob.clone();
    let buffers = gltf::import_buffers(&document.document, path.parent(), blob).map_err(|e| e.to_string())?;
    let mut parts = Parts::default();
    let scene = document.default_scene().or_else(|| document.scenes().next());
    let scene = scene.ok_or_else(|| "there is no scene in it".to_owned())?;
    // A stack rather than recursion: how deep nodes may lie is for the file to say.
    let mut open: Vec<(gltf::Node<'_>, Mat4)> = scene.nodes().map(|n| (n, Mat4::IDENTITY)).collect();
    open.reverse();
    let mut visited = 0usize;
    while let Some((node, parent)) = open.pop() {
        visited += 1;
        // Nodes form a forest; a file in which they do not would never end.
        if visited > document.nodes().len() {
            return Err("its nodes go in a circle".to_owned());
        }
        let own = parent * Mat4::from_cols_array_2d(&node.transform().matrix());
        for primitive in node.mesh().iter().flat_map(gltf::Mesh::primitives) {
            add(&mut parts, &primitive, &buffers, &own)?;
        }
        let first = open.len();
        open.extend(node.children().map(|child| (child, own)));
        open[first..].reverse();
    }
    parts.mesh()
}

fn add(
    parts: &mut Parts,
    primitive: &gltf::Primitive<'_>,
    buffers: &[gltf::buffer::Data],
    transform: &Mat4,
) -> Result<(), String> {
    use gltf::mesh::Mode;
    if !matches!(primitive.mode(), Mode::Triangles | Mode::TriangleStrip | Mode::TriangleFan) {
        return Ok(());
    }
    for accessor in primitive.attributes().map(|(_, accessor)| accessor).chain(primitive.indices()) {
        check(&accessor, buffers)?;
    }
    let reader = primitive.reader(|buffer| buffers.get(buffer.index()).map(|data| &*data.0));
    let (base, first) = (parts.base()?, parts.indices.len());
    let positions = reader.read_positions().ok_or_else(|| "a primitive without positions".to_owned())?;
    parts.positions.extend(positions.map(|p| transform.transform_point3(p.into()).to_array()));
    let count = parts.positions.len() - base as usize;
    let linear = Mat3::from_mat4(*transform);
    // A mirroring transform turns triangles inside out.
    let mirrored = linear.determinant() < 0.0;
    let turn = cofactors(&linear) * if mirrored { -1.0 } else { 1.0 };
    if let Some(normals) = reader.read_normals() {
        parts.normals.extend(normals.take(count).map(|n| direction(&turn, n)));
    }
    if let Some(uvs) = reader.read_tex_coords(0) {
        parts.uvs.extend(uvs.into_f32().take(count));
    }
    let list: Vec<u32> = match reader.read_indices() {
        Some(indices) => indices.into_u32().collect(),
        None => (0..count as u32).collect(),
    };
    let corners = triangles(primitive.mode(), &list);
    let corners = corners.into_iter().flat_map(|[a, b, c]| if mirrored { [a, c, b] } else { [a, b, c] });
    parts.triangles(base, corners)?;
    parts.fill_normals(base, first);
    Ok(())
}

/// The triangles of a list, strip or fan.
fn triangles(mode: gltf::mesh::Mode, list: &[u32]) -> Vec<[u32; 3]> {
    match mode {
        gltf::mesh::Mode::TriangleStrip => list
            .windows(3)
            .enumerate()
            .map(|(i, w)| if i % 2 == 0 { [w[0], w[1], w[2]] } else { [w[1], w[0], w[2]] })
            .collect(),
        gltf::mesh::Mode::TriangleFan => {
            list.get(1..).unwrap_or_default().windows(2).map(|w| [list[0], w[0], w[1]]).collect()
        }
        _ => list.as_chunks::<3>().0.to_vec(),
    }
}

/// The cofactors: what normals turn by, up to a length, however the transform scales.
fn cofactors(m: &Mat3) -> Mat3 {
    Mat3::from_cols(m.y_axis.cross(m.z_axis), m.z_axis.cross(m.x_axis), m.x_axis.cross(m.y_axis))
}

fn direction(turn: &Mat3, normal: [f32; 3]) -> [f32; 3] {
    (*turn * Vec3::from(normal)).try_normalize().map_or(normal, Into::into)
}

/// Sees that an accessor stays inside its buffer: the reader takes the file's word for it.
fn check(accessor: &gltf::Accessor<'_>, buffers: &[gltf::buffer::Data]) -> Result<(), String> {
    let held = |view: &gltf::buffer::View<'_>, offset: usize, count: usize, size: usize, stride: usize| {
        let end = count
            .checked_sub(1)
            .map_or(Some(offset), |n| n.checked_mul(stride)?.checked_add(offset)?.checked_add(size));
        let all = view.offset().checked_add(view.length());
        let bytes = buffers.get(view.buffer().index()).map_or(0, |data| data.0.len());
        matches!((end, all), (Some(end), Some(all)) if end <= view.length() && all <= bytes && stride >= size)
    };
    let (count, size) = (accessor.count(), accessor.size());
    let own =
        accessor.view().is_none_or(|view| held(&view, accessor.offset(), count, size, view.stride().unwrap_or(size)));
    let sparse = accessor.sparse().is_none_or(|sparse| {
        let (indices, values) = (sparse.indices(), sparse.values());
        let width = indices.index_type().size();
        held(&indices.view(), indices.offset(), sparse.count(), width, indices.view().stride().unwrap_or(width))
            && held(&values.view(), values.offset(), sparse.count(), size, values.view().stride().unwrap_or(size))
    });
    if own && sparse { Ok(()) } else { Err(format!("accessor {} reaches past its buffer", accessor.index())) }
}

#[cfg(test)]
mod tests;
