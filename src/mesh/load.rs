//! Meshes from OBJ and glTF files. A file may come from a stranger: whatever it holds, it costs bounded memory and
//! ends in a mesh or a message.

mod gltf;
mod obj;

use super::{Mesh, VERTEX_BYTES};
use crate::files;
use std::path::Path;

/// Most bytes read for one mesh, the file and its buffers together. They are held while they are parsed.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Most bytes of one mesh, its vertices and its triangles together.
///
/// glTF can repeat a part any number of times, or leave its bytes out as zeros, so the size of the file bounds nothing:
/// this does. The largest scans in common use (14 million vertices, 28 million triangles) take three quarters of it,
/// and loading takes about three times as much in all, which a host with a GPU has.
const MAX_MESH_BYTES: u64 = 1 << 30;

/// Bytes of one triangle: three indices.
const TRIANGLE_BYTES: u64 = 12;

/// Most characters of a message: some quote the file, and a word of it may be as long as the file.
const MAX_MESSAGE: usize = 400;

/// Reads a mesh by its file's extension: `.obj`, `.gltf` or `.glb`.
///
/// All triangles of the file become one mesh; the nodes of a glTF scene are put where their transforms say. Materials,
/// skins and animations are left out, and so are points and lines. Positions may be NaN or infinite, as in
/// [`Mesh::new`]. The buffers of a glTF file lie in it or in files in its folder or below.
///
/// # Errors
/// A message that names the file: it cannot be read, is malformed, asks for a buffer from elsewhere, or exceeds a limit
/// ([`MAX_FILE_BYTES`], [`MAX_MESH_BYTES`], and for glTF those in its module).
pub(crate) fn file(path: &Path) -> Result<Mesh, String> {
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let read = || files::read_up_to(path, MAX_FILE_BYTES);
    let mesh = match extension.as_str() {
        "obj" => guarded(|| obj::parse(&read()?, MAX_MESH_BYTES)),
        "gltf" | "glb" => guarded(|| gltf::parse(&read()?, path.parent().unwrap_or(Path::new("")))),
        _ => Err("expected a file that ends in .obj, .gltf or .glb".to_owned()),
    };
    mesh.map_err(|reason| format!("{}: {}", path.display(), shown(&reason, MAX_MESSAGE)))
}

/// Runs a parser. Everything is checked before it is used here, but not in the crates that this leans on: a panic of
/// theirs costs this file alone.
fn guarded(parse: impl FnOnce() -> Result<Mesh, String> + std::panic::UnwindSafe) -> Result<Mesh, String> {
    std::panic::catch_unwind(parse).unwrap_or_else(|_| Err("it is malformed: its parser failed".to_owned()))
}

/// Sees that there is room for a mesh of so many vertices and triangles.
fn room(vertices: u64, triangles: u64, limit: u64) -> Result<(), String> {
    let bytes = vertices.saturating_mul(VERTEX_BYTES.into()).saturating_add(triangles.saturating_mul(TRIANGLE_BYTES));
    if bytes <= limit {
        return Ok(());
    }
    Err(format!(
        "got at least {vertices} vertices and {triangles} triangles, which take {bytes} bytes; expected at most \
         {limit} bytes a mesh"
    ))
}

/// The start of a text.
fn shown(text: &str, most: usize) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests;
