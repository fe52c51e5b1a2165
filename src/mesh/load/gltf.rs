//! glTF, as text (`.gltf`) or in one file with its buffer (`.glb`). The crate `gltf` reads the JSON and sees that it
//! refers to nothing that is not there; the bytes are read here, since it takes the file's word for them.

use super::{MAX_FILE_BYTES, MAX_MESH_BYTES, room, shown};
use crate::files;
use crate::mesh::{Mesh, smooth_normals};
use glam::{Mat3, Mat4, Vec3};
use gltf::accessor::{DataType, Dimensions};
use gltf::mesh::{Mode, Semantic};
use std::borrow::Cow;
use std::path::Path;

/// Most commas and opening brackets in the JSON. What lies between two of them takes up to 350 bytes when it is parsed,
/// so this bounds that by about what a mesh may take.
pub(super) const MAX_JSON_ITEMS: usize = 4 << 20;

/// Most buffers. Each may be a file to open; most glTF files have one.
const MAX_BUFFERS: usize = 10_000;

/// Most primitives, counted once for each node that shows them: a thousand nodes with a thousand primitives take a few
/// kilobytes to write down.
const MAX_PRIMITIVES: usize = 1 << 20;

/// What the URI of a buffer must be.
const ACCEPTED: &str = "a relative path inside the file's folder, or data:...;base64,...";

type Buffers<'a> = [Cow<'a, [u8]>];

/// The mesh of the default scene, or the first. Buffers in files of their own are looked for in `folder`.
pub(super) fn parse(bytes: &[u8], folder: &Path) -> Result<Mesh, String> {
    let (json, bin) = if bytes.starts_with(b"glTF") { chunks(bytes)? } else { (bytes, None) };
    let document = document(json)?;
    let placed = placed(&document)?;
    let (vertices, triangles) = total(&placed)?;
    let buffers = buffers(&document, bin, folder, MAX_FILE_BYTES.saturating_sub(bytes.len() as u64))?;
    let mut parts = Parts::default();
    parts.positions.reserve_exact(vertices);
    parts.normals.reserve_exact(vertices);
    parts.uvs.reserve_exact(vertices);
    parts.triangles.reserve_exact(triangles);
    for (mesh, transform) in &placed {
        for primitive in mesh.primitives() {
            add(&mut parts, &primitive, &buffers, transform)?;
        }
    }
    let Parts { positions, normals, uvs, triangles } = parts;
    Mesh::new(positions, Some(normals), Some(uvs), Some(triangles)).map_err(|e| e.to_string())
}

/// The JSON and the BIN chunk of a GLB file.
fn chunks(bytes: &[u8]) -> Result<(&[u8], Option<&[u8]>), String> {
    let word = |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b));
    let (Some(version), Some(length)) = (word(bytes, 4), word(bytes, 8)) else {
        return Err(format!("got {} bytes; expected at least the 12 of a GLB header", bytes.len()));
    };
    if version != 2 {
        return Err(format!("GLB header: got version {version}; expected 2"));
    }
    let mut rest = bytes.get(12..length as usize).ok_or_else(|| {
        format!("GLB header: got a length of {length}; expected from 12 to the {} bytes of the file", bytes.len())
    })?;
    let (mut json, mut bin) = (None, None);
    while !rest.is_empty() && bin.is_none() {
        let (Some(length), Some(kind)) = (word(rest, 0), word(rest, 4)) else {
            return Err(format!("GLB chunk: got {} bytes; expected at least the 8 of its header", rest.len()));
        };
        let body = &rest[8..];
        let Some((chunk, behind)) = body.split_at_checked(length as usize) else {
            return Err(format!("GLB chunk: got a length of {length}; expected at most the {} left", body.len()));
        };
        match &kind.to_le_bytes() {
            b"JSON" if json.is_none() => json = Some(chunk),
            b"BIN\0" => bin = Some(chunk),
            // Chunks of other kinds are there for extensions.
            _ => {}
        }
        rest = behind;
    }
    Ok((json.ok_or("GLB: there is no JSON chunk in it")?, bin))
}

fn document(json: &[u8]) -> Result<gltf::Document, String> {
    let items = json.iter().filter(|b| matches!(b, b',' | b'[' | b'{')).count();
    if items > MAX_JSON_ITEMS {
        return Err(format!("JSON: got {items} commas and brackets; expected at most {MAX_JSON_ITEMS}"));
    }
    let root = gltf::json::Root::from_slice(json).map_err(|e| format!("JSON: {e}"))?;
    // The validation below looks these accessors up before it has seen that they are there.
    let positions = gltf::json::validation::Checked::Valid(Semantic::Positions);
    for accessor in root.meshes.iter().flat_map(|m| &m.primitives).filter_map(|p| p.attributes.get(&positions)) {
        if accessor.value() >= root.accessors.len() {
            return Err(format!("POSITION: got accessor {}; there are {}", accessor.value(), root.accessors.len()));
        }
    }
    gltf::Document::from_json(root).map_err(|e| match e {
        // One of them will do: a file may have a million.
        gltf::Error::Validation(list) => match list.first() {
            Some((path, error)) => format!("JSON: {path}: {error}"),
            None => "JSON: it is no valid glTF".to_owned(),
        },
        e => e.to_string(),
    })
}

/// The meshes of the scene and the transforms from them to it.
fn placed(document: &gltf::Document) -> Result<Vec<(gltf::Mesh<'_>, Mat4)>, String> {
    let scene = document.default_scene().or_else(|| document.scenes().next());
    let scene = scene.ok_or("there is no scene in it")?;
    // Nodes form a forest, so none is met twice; a file in which they do not might never end.
    let mut met = scene.nodes().len();
    let forest = |met: usize| {
        if met <= document.nodes().len() { Ok(()) } else { Err("its nodes go in a circle, or one has two parents") }
    };
    forest(met)?;
    // A stack rather than recursion: how deep nodes may lie is for the file to say.
    let mut open: Vec<(gltf::Node<'_>, Mat4)> = scene.nodes().map(|n| (n, Mat4::IDENTITY)).collect();
    open.reverse();
    let mut placed = Vec::new();
    while let Some((node, parent)) = open.pop() {
        let own = parent * Mat4::from_cols_array_2d(&node.transform().matrix());
        placed.extend(node.mesh().map(|mesh| (mesh, own)));
        met += node.children().len();
        forest(met)?;
        let first = open.len();
        open.extend(node.children().map(|child| (child, own)));
        open[first..].reverse();
    }
    Ok(placed)
}

/// How many vertices and triangles there will be: known before any is read.
fn total(placed: &[(gltf::Mesh<'_>, Mat4)]) -> Result<(usize, usize), String> {
    let (mut primitives, mut vertices, mut triangles) = (0usize, 0usize, 0usize);
    for (mesh, _) in placed {
        primitives += mesh.primitives().len();
        if primitives > MAX_PRIMITIVES {
            return Err(format!("got at least {primitives} primitives; expected at most {MAX_PRIMITIVES}"));
        }
        for primitive in mesh.primitives().filter(shows_triangles) {
            let own = positions(&primitive)?.count();
            let corners = primitive.indices().map_or(own, |indices| indices.count());
            vertices = vertices.saturating_add(own);
            triangles = triangles.saturating_add(match primitive.mode() {
                Mode::TriangleStrip | Mode::TriangleFan => corners.saturating_sub(2),
                _ => corners / 3,
            });
            room(vertices as u64, triangles as u64, MAX_MESH_BYTES)?;
        }
    }
    Ok((vertices, triangles))
}

fn shows_triangles(primitive: &gltf::Primitive<'_>) -> bool {
    matches!(primitive.mode(), Mode::Triangles | Mode::TriangleStrip | Mode::TriangleFan)
}

fn positions<'a>(primitive: &gltf::Primitive<'a>) -> Result<gltf::Accessor<'a>, String> {
    primitive.get(&Semantic::Positions).ok_or_else(|| "a primitive without positions".to_owned())
}

/// The bytes of the buffers: the BIN chunk, decoded URIs, or up to `left` bytes of files.
fn buffers<'a>(
    document: &gltf::Document,
    bin: Option<&'a [u8]>,
    folder: &Path,
    mut left: u64,
) -> Result<Vec<Cow<'a, [u8]>>, String> {
    let count = document.buffers().len();
    if count > MAX_BUFFERS {
        return Err(format!("got {count} buffers; expected at most {MAX_BUFFERS}"));
    }
    let mut buffers = Vec::with_capacity(count);
    for buffer in document.buffers() {
        let index = buffer.index();
        let bytes: Cow<'a, [u8]> = match buffer.source() {
            gltf::buffer::Source::Bin if index == 0 => bin.ok_or("buffer 0: got no uri and no BIN chunk")?.into(),
            gltf::buffer::Source::Bin => return Err(format!("buffer {index}: got no uri; expected {ACCEPTED}")),
            gltf::buffer::Source::Uri(uri) => {
                let bytes = from_uri(uri, folder, &mut left)
                    .map_err(|reason| format!("buffer {index}: uri: got \"{}\"; {reason}", shown(uri, 80)))?;
                bytes.into()
            }
        };
        if bytes.len() < buffer.length() {
            return Err(format!("buffer {index}: got {} bytes; expected {}", bytes.len(), buffer.length()));
        }
        buffers.push(bytes);
    }
    Ok(buffers)
}

fn from_uri(uri: &str, folder: &Path, left: &mut u64) -> Result<Vec<u8>, String> {
    let expected = || format!("expected {ACCEPTED}");
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme).filter(|s| {
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    match scheme {
        Some(scheme) if scheme.eq_ignore_ascii_case("data") => {
            let data = uri.split_once(";base64,").ok_or_else(expected)?.1;
            // The crate's decoder wants the scheme in small letters and nothing else that looks like its separator.
            let plain = format!("data:;base64,{data}");
            let decoded = gltf::buffer::Data::from_source(gltf::buffer::Source::Uri(&plain), None);
            decoded.map(|data| data.0).map_err(|e| format!("{e}; {}", expected()))
        }
        Some(_) => Err(expected()),
        None => {
            let path = percent_decoded(uri).filter(|path| files::stays_inside(path)).ok_or_else(expected)?;
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let path = files::inside(folder, &path).map_err(|reason| format!("{}: {reason}", expected()))?;
            let bytes = files::read_up_to(&path, *left)?;
            *left = left.saturating_sub(bytes.len() as u64);
            Ok(bytes)
        }
    }
}

/// A text with each `%` and two hexadecimal digits turned into the byte they stand for.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<2>()?;
        let [high, low] = digits.map(|d| char::from(d).to_digit(16));
        bytes.push((high? << 4 | low?) as u8);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

/// What the primitives have added up to.
#[derive(Default)]
struct Parts {
    positions: Vec<[f32; 3]>,
    normals: Vec<[f32; 3]>,
    uvs: Vec<[f32; 2]>,
    triangles: Vec<[u32; 3]>,
}

fn add(
    parts: &mut Parts,
    primitive: &gltf::Primitive<'_>,
    buffers: &Buffers<'_>,
    transform: &Mat4,
) -> Result<(), String> {
    if !shows_triangles(primitive) {
        return Ok(());
    }
    let accessor = positions(primitive)?;
    let count = accessor.count();
    typed(&accessor, "POSITION", Dimensions::Vec3, &[DataType::F32])?;
    let positions = read(&accessor, buffers, floats::<3>)?;
    let positions: Vec<[f32; 3]> =
        positions.iter().map(|p| transform.transform_point3(Vec3::from(*p)).into()).collect();
    let linear = Mat3::from_mat4(*transform);
    // A mirroring transform turns triangles inside out.
    let mirrored = linear.determinant() < 0.0;
    let mut triangles = match primitive.indices() {
        Some(accessor) => {
            typed(&accessor, "indices", Dimensions::Scalar, &[DataType::U8, DataType::U16, DataType::U32])?;
            let list = read(&accessor, buffers, unsigned)?;
            if let Some(index) = list.iter().find(|i| **i as usize >= count) {
                let at = accessor.index();
                return Err(format!("accessor {at}: indices: got {index}; expected fewer than the {count} positions"));
            }
            triangles(primitive.mode(), &list)
        }
        // `room` has seen to it that a u32 can number them.
        None => triangles(primitive.mode(), &(0..count as u32).collect::<Vec<_>>()),
    };
    if mirrored {
        triangles.iter_mut().for_each(|corners| corners.swap(1, 2));
    }
    let normals = match primitive.get(&Semantic::Normals) {
        Some(accessor) => {
            typed(&accessor, "NORMAL", Dimensions::Vec3, &[DataType::F32])?;
            counted(&accessor, "NORMAL", count)?;
            let turn = cofactors(&linear) * if mirrored { -1.0 } else { 1.0 };
            let mut normals = read(&accessor, buffers, floats::<3>)?;
            normals.iter_mut().for_each(|n| *n = direction(&turn, *n));
            normals
        }
        None => smooth_normals(&positions, &triangles),
    };
    let uvs = match primitive.get(&Semantic::TexCoords(0)) {
        Some(accessor) => {
            let types = [DataType::F32, DataType::U8, DataType::U16];
            typed(&accessor, "TEXCOORD_0", Dimensions::Vec2, &types)?;
            counted(&accessor, "TEXCOORD_0", count)?;
            match accessor.data_type() {
                DataType::F32 => read(&accessor, buffers, floats::<2>)?,
                DataType::U8 => read(&accessor, buffers, |b| fractions(b, 1, 255.0))?,
                _ => read(&accessor, buffers, |b| fractions(b, 2, 65535.0))?,
            }
        }
        None => vec![[0.0; 2]; count],
    };
    let base = parts.positions.len() as u32;
    parts.positions.extend(positions);
    parts.normals.extend(normals);
    parts.uvs.extend(uvs);
    parts.triangles.extend(triangles.iter().map(|corners| corners.map(|i| base + i)));
    Ok(())
}

/// The triangles of a list, strip or fan. Indices that fill no last triangle are passed over, as glTF has it.
fn triangles(mode: Mode, list: &[u32]) -> Vec<[u32; 3]> {
    match mode {
        Mode::TriangleStrip => list
            .windows(3)
            .enumerate()
            .map(|(i, w)| if i % 2 == 0 { [w[0], w[1], w[2]] } else { [w[1], w[0], w[2]] })
            .collect(),
        Mode::TriangleFan => list.get(1..).unwrap_or_default().windows(2).map(|w| [list[0], w[0], w[1]]).collect(),
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

fn typed(accessor: &gltf::Accessor<'_>, what: &str, dimensions: Dimensions, types: &[DataType]) -> Result<(), String> {
    if accessor.dimensions() == dimensions && types.contains(&accessor.data_type()) {
        return Ok(());
    }
    let (at, own, element) = (accessor.index(), accessor.dimensions(), accessor.data_type());
    Err(format!("accessor {at}: {what}: got {own:?} of {element:?}; expected {dimensions:?} of one of {types:?}"))
}

fn counted(accessor: &gltf::Accessor<'_>, what: &str, count: usize) -> Result<(), String> {
    let (at, own) = (accessor.index(), accessor.count());
    if own == count {
        return Ok(());
    }
    Err(format!("accessor {at}: {what}: got {own} elements; expected {count}, as there are positions"))
}

/// The elements of an accessor whose count has been held against the limits: they are all zeros where the file has no
/// bytes for them.
fn read<T: Clone + Default>(
    accessor: &gltf::Accessor<'_>,
    buffers: &Buffers<'_>,
    decode: impl Fn(&[u8]) -> T,
) -> Result<Vec<T>, String> {
    let name = |reason: &str| format!("accessor {} {reason}", accessor.index());
    let (count, size) = (accessor.count(), accessor.size());
    let mut list = match accessor.view() {
        Some(view) => elements(&view, buffers, accessor.offset(), count, size).map_err(name)?.map(&decode).collect(),
        None => vec![T::default(); count],
    };
    let Some(sparse) = accessor.sparse() else { return Ok(list) };
    let (n, indices, values) = (sparse.count(), sparse.indices(), sparse.values());
    if n > count {
        return Err(name("has more sparse elements than elements"));
    }
    let width = indices.index_type().size();
    let indices = elements(&indices.view(), buffers, indices.offset(), n, width).map_err(name)?;
    let values = elements(&values.view(), buffers, values.offset(), n, size).map_err(name)?;
    for (index, value) in indices.zip(values) {
        let slot = list.get_mut(unsigned(index) as usize).ok_or_else(|| name("has a sparse index past its end"))?;
        *slot = decode(value);
    }
    Ok(list)
}

/// The bytes of each of `count` elements of `size` bytes, from an offset in a view.
fn elements<'a>(
    view: &gltf::buffer::View<'_>,
    buffers: &'a Buffers<'_>,
    offset: usize,
    count: usize,
    size: usize,
) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, &'static str> {
    let stride = view.stride().unwrap_or(size);
    if stride < size {
        return Err("has a stride below its size");
    }
    let held = || {
        let buffer = buffers.get(view.buffer().index())?;
        let view = buffer.get(view.offset()..view.offset().checked_add(view.length())?)?;
        // The last element may end before its stride does.
        let length = count.checked_sub(1).map_or(Some(0), |n| n.checked_mul(stride)?.checked_add(size))?;
        view.get(offset..offset.checked_add(length)?)
    };
    let bytes = held().ok_or("reaches past its buffer")?;
    Ok(bytes.chunks(stride).map(move |element| &element[..size]))
}

fn floats<const N: usize>(bytes: &[u8]) -> [f32; N] {
    let words = bytes.as_chunks::<4>().0;
    std::array::from_fn(|i| words.get(i).map_or(0.0, |word| f32::from_le_bytes(*word)))
}

/// Two unsigned integers of so many bytes each as parts of their largest.
fn fractions(bytes: &[u8], width: usize, largest: f32) -> [f32; 2] {
    let (u, v) = bytes.split_at(width);
    [u, v].map(|integer| unsigned(integer) as f32 / largest)
}

fn unsigned(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}
