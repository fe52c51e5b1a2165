//! Files written by the tests themselves: what they hold is known exactly.

mod gltf_files;
mod obj_files;

use super::*;
use proptest::prelude::*;

fn write(name: &str, contents: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, contents).unwrap();
    (folder, path)
}

fn load(name: &str, contents: impl AsRef<[u8]>) -> Result<Mesh, String> {
    let (_folder, path) = write(name, contents.as_ref());
    file(&path)
}

/// Bytes of a triangle: 3 positions, 3 normals, 3 indices of 16 bits, 2 of nothing.
fn triangle() -> Vec<u8> {
    let floats = [0f32, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0];
    let mut bytes: Vec<u8> = floats.iter().flat_map(|f| f.to_le_bytes()).collect();
    bytes.extend([0u16, 1, 2, 0].iter().flat_map(|i| i.to_le_bytes()));
    bytes
}

/// A glTF with one triangle, whose parts a test may exchange.
struct Gltf {
    nodes: &'static str,
    primitive: &'static str,
    position: &'static str,
    normal: &'static str,
    index: &'static str,
    views: &'static str,
    buffer_bytes: usize,
    uri: Option<String>,
}

impl Default for Gltf {
    fn default() -> Self {
        Self {
            nodes: r#"{"mesh":0}"#,
            primitive: r#"{"attributes":{"POSITION":0,"NORMAL":1},"indices":2}"#,
            position: r#"{"bufferView":0,"componentType":5126,"count":3,"type":"VEC3","min":[0,0,0],"max":[1,1,0]}"#,
            normal: r#"{"bufferView":1,"componentType":5126,"count":3,"type":"VEC3"}"#,
            index: r#"{"bufferView":2,"componentType":5123,"count":3,"type":"SCALAR"}"#,
            views: r#"{"buffer":0,"byteLength":36},{"buffer":0,"byteOffset":36,"byteLength":36},
                {"buffer":0,"byteOffset":72,"byteLength":6}"#,
            buffer_bytes: 80,
            uri: Some(format!("data:application/octet-stream;base64,{}", base64(&triangle()))),
        }
    }
}

impl Gltf {
    fn text(&self) -> String {
        let Self { nodes, primitive, position, normal, index, views, buffer_bytes, uri } = self;
        let uri = uri.as_ref().map(|uri| format!(r#","uri":"{uri}""#)).unwrap_or_default();
        format!(
            r#"{{"asset":{{"version":"2.0"}},"scene":0,"scenes":[{{"nodes":[0]}}],"nodes":[{nodes}],
            "meshes":[{{"primitives":[{primitive}]}}],"accessors":[{position},{normal},{index}],
            "bufferViews":[{views}],"buffers":[{{"byteLength":{buffer_bytes}{uri}}}]}}"#
        )
    }

    fn load(&self) -> Result<Mesh, String> {
        load("a.gltf", self.text())
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let n = chunk.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = char::from(DIGITS[(n >> (18 - 6 * i)) as usize & 63]);
            text.push(if i <= chunk.len() { digit } else { '=' });
        }
    }
    text
}

/// A GLB file of chunks.
fn glb(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut bytes = b"glTF\x02\0\0\0\0\0\0\0".to_vec();
    for (kind, chunk) in chunks {
        bytes.extend((chunk.len() as u32).to_le_bytes());
        bytes.extend(*kind);
        bytes.extend(*chunk);
    }
    let length = (bytes.len() as u32).to_le_bytes();
    bytes[8..12].copy_from_slice(&length);
    bytes
}

fn triangle_glb() -> Vec<u8> {
    let json = Gltf { uri: None, ..Gltf::default() }.text();
    glb(&[(b"JSON", json.as_bytes()), (b"what", b"ever"), (b"BIN\0", &triangle())])
}

#[test]
fn files_that_are_cut_or_something_else_are_refused() {
    let whole = triangle_glb();
    for cut in 0..whole.len() {
        let error = load("a.glb", &whole[..cut]).unwrap_err();
        assert!(error.contains("a.glb: "), "{error}");
        // With a header that does not give it away.
        let mut patched = whole[..cut].to_vec();
        if cut >= 12 {
            patched[8..12].copy_from_slice(&(cut as u32).to_le_bytes());
            assert!(load("a.glb", &patched).unwrap_err().contains("a.glb: "));
        }
    }
    let json = Gltf::default().text();
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let cases: [(&str, Vec<u8>, &str); 12] = [
        ("a.glb", b"glTF".to_vec(), "got 4 bytes; expected at least the 12 of a GLB header"),
        ("a.glb", with(4, 1), "GLB header: got version 1; expected 2"),
        ("a.glb", with(11, 255), "GLB header: got a length of 42781"),
        ("a.glb", b"glTF\x02\0\0\0\0\0\0\0".to_vec(), "GLB header: got a length of 0; expected from 12"),
        ("a.glb", with(15, 255), "GLB chunk: got a length of 42781"),
        ("a.glb", with(16, b'X'), "there is no JSON chunk"),
        ("a.gltf", b"{".to_vec(), "a.gltf: JSON: "),
        ("a.gltf", b"\xff".to_vec(), "a.gltf: JSON: "),
        ("a.gltf", json.replace("5126", "\u{0}").into_bytes(), "JSON: "),
        ("a.gltf", "[".repeat(100_000).into_bytes(), "JSON: "),
        ("a.gltf", json.replace("\"scenes\"", "\"scene_\"").replace("\"scene\":0,", "").into_bytes(), "no scene in it"),
        ("a.stl", Vec::new(), "expected a file that ends in .obj, .gltf or .glb"),
    ];
    for (name, bytes, part) in cases {
        let error = load(name, bytes).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(file(Path::new("/nowhere/a.obj")).unwrap_err().starts_with("/nowhere/a.obj: "));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folder.obj");
    std::fs::create_dir(&path).unwrap();
    assert!(file(&path).unwrap_err().contains("it is no regular file"));
}

#[test]
fn a_panic_of_a_parser_is_an_error() {
    let error = guarded(|| panic!("a test's own")).unwrap_err();
    assert_eq!(error, "it is malformed: its parser failed");
}

#[test]
fn large_files_are_refused_unread() {
    for name in ["a.obj", "a.gltf", "a.glb"] {
        let (_folder, path) = write(name, b"");
        std::fs::File::options().write(true).open(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        let error = file(&path).unwrap_err();
        assert!(error.contains("got a file of 1073741825 bytes; expected at most 1073741824"), "{error}");
    }
    // The file of a buffer has what the file itself has left.
    let (folder, path) = write("a.gltf", Gltf { uri: Some("b.bin".to_owned()), ..Gltf::default() }.text().as_bytes());
    std::fs::File::create(folder.path().join("b.bin")).unwrap().set_len(MAX_FILE_BYTES).unwrap();
    let error = file(&path).unwrap_err();
    assert!(error.contains("got a file of 1073741824 bytes; expected at most 107374"), "{error}");
}

/// A glTF in which nodes show a mesh that consists of one primitive over and over.
fn repeated(nodes: usize, primitives: usize, primitive: &str, accessors: &str) -> String {
    let list = |n: usize, item: &str| vec![item; n].join(",");
    let children: Vec<String> = (1..=nodes).map(|i| i.to_string()).collect();
    format!(
        r#"{{"asset":{{"version":"2.0"}},"scenes":[{{"nodes":[0]}}],"nodes":[{{"children":[{}]}},{}],
        "meshes":[{{"primitives":[{}]}}],"accessors":[{accessors}],"bufferViews":[{{"buffer":0,"byteLength":12}}],
        "buffers":[{{"byteLength":12,"uri":"data:;base64,AAAAAAAAAAAAAAAA"}}]}}"#,
        children.join(","),
        list(nodes, r#"{"mesh":0}"#),
        list(primitives, primitive)
    )
}

/// An accessor of positions whose bytes are not in the file, except for some.
fn zeros(count: u64, given: u64) -> String {
    format!(
        r#"{{"componentType":5126,"count":{count},"type":"VEC3","min":[0,0,0],"max":[0,0,0],"sparse":{{"count":{given},
        "indices":{{"bufferView":0,"componentType":5121}},"values":{{"bufferView":0}}}}}}"#
    )
}

#[test]
fn tiny_files_do_not_make_huge_meshes() {
    let plain = r#"{"attributes":{"POSITION":0}}"#;
    let limit = "expected at most 1073741824 bytes a mesh";
    let list = |n: usize| vec!["{}"; n].join(",");
    let indexed = r#"{"attributes":{"POSITION":0},"indices":1}"#;
    let strip = r#"{"attributes":{"POSITION":0},"indices":1,"mode":5}"#;
    let indices = |count: u64| {
        let sparse = zeros(count, 1).replace("5126", "5125").replace("VEC3", "SCALAR");
        format!("{},{sparse}", zeros(3, 1))
    };
    let cases = [
        // Zeros that the file leaves out.
        (repeated(1, 1, plain, &zeros(4_000_000_000, 1)), limit),
        (repeated(1, 1, plain, &zeros(u64::MAX, 1)), limit),
        (repeated(1, 1, plain, &zeros(u64::MAX, u64::MAX)), limit),
        (repeated(1, 1, indexed, &indices(400_000_000)), limit),
        (repeated(1, 1, strip, &indices(200_000_000)), limit),
        // A part repeated.
        (repeated(1000, 1, plain, &zeros(1_000_000, 1)), limit),
        (repeated(100, 100, plain, &zeros(10_000, 1)), limit),
        // Parts that show nothing, repeated.
        (repeated(1100, 1000, r#"{"attributes":{"POSITION":0},"mode":0}"#, &zeros(1, 1)), "expected at most 1048576"),
        // Lists of the file itself.
        (list(gltf::MAX_JSON_ITEMS / 2 + 1), "commas and brackets; expected at most 4194304"),
        (
            repeated(1, 1, plain, &zeros(3, 1)).replace(r#""buffers":["#, &format!(r#""buffers":[{},"#, list(10_000))),
            "got 10001 buffers; expected at most 10000",
        ),
    ];
    for (text, part) in cases {
        let start = std::time::Instant::now();
        let error = load("a.gltf", &text).unwrap_err();
        assert!(error.contains(part), "{}: {error}", shown(&text, 200));
        assert!(start.elapsed().as_secs() < 5, "{}", shown(&text, 200));
    }
    // What is within the limits is loaded.
    assert_eq!(load("a.gltf", repeated(20, 30, plain, &zeros(3, 1))).unwrap().positions().len(), 20 * 30 * 3);
}

/// Changes to the bytes of a file.
#[derive(Clone, Debug)]
enum Change {
    /// Another byte in a place.
    Byte(prop::sample::Index, u8),
    /// Another number in place of the n-th.
    Number(prop::sample::Index, &'static str),
    /// Nothing from a place on.
    Cut(prop::sample::Index),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            _ if bytes.is_empty() => {}
            Self::Byte(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Self::Number(which, number) => {
                let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
                let starts: Vec<usize> =
                    (0..bytes.len()).filter(|at| digit(*at) && (*at == 0 || !digit(at - 1))).collect();
                if !starts.is_empty() {
                    let start = starts[which.index(starts.len())];
                    let end = (start..).find(|at| !digit(*at)).unwrap();
                    bytes.splice(start..end, number.bytes());
                }
            }
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let index = any::<prop::sample::Index>;
    let numbers = vec!["0", "1", "2", "4", "5121", "255", "65536", "4294967295", "-1", "18446744073709551615", "1e9"];
    prop::collection::vec(
        prop_oneof![
            4 => (index(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
            8 => (index(), prop::sample::select(numbers)).prop_map(|(which, number)| Change::Number(which, number)),
            1 => index().prop_map(Change::Cut),
        ],
        1..6,
    )
}

proptest! {
    /// Straight to the parsers, past the guard, so that a panic of theirs shows.
    #[test]
    fn changed_files_end_in_a_mesh_or_a_message(changes in changes()) {
        let sparse = r#"{"bufferView":1,"componentType":5126,"count":3,"type":"VEC3","sparse":{"count":1,
            "indices":{"bufferView":2,"componentType":5123},"values":{"bufferView":0}}}"#;
        let obj = "# a\no a\nv 0 0 0\nv 1 0 0 1\nv 0 1 0\nv 1 1 1 1 1 1\nvt 0 0\nvn 0 0 1\n\
            f 1/1/1 2/1/1 3/1/1 4//1\nf -1/-1 -2 -3\nl 1 2\nf 1 2\n";
        let seeds = [
            obj.to_owned().into_bytes(),
            Gltf::default().text().into_bytes(),
            Gltf { normal: sparse, ..Gltf::default() }.text().into_bytes(),
            triangle_glb(),
        ];
        let start = std::time::Instant::now();
        let folder = tempfile::tempdir().unwrap();
        for (i, seed) in seeds.into_iter().enumerate() {
            let mut bytes = seed;
            changes.iter().for_each(|change| change.apply(&mut bytes));
            let result = if i == 0 { obj::parse(&bytes, MAX_MESH_BYTES) } else { gltf::parse(&bytes, folder.path()) };
            if let Ok(mesh) = result {
                prop_assert!(mesh.indices().iter().flatten().all(|i| (*i as usize) < mesh.positions().len()));
            }
        }
        prop_assert!(start.elapsed().as_secs() < 20);
    }
}
