//! Files written by the tests themselves: what they hold is known exactly.

use super::*;

fn write(name: &str, contents: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, contents).unwrap();
    (folder, path)
}

#[test]
fn obj_faces_are_triangulated_and_groups_joined() {
    let text = "mtllib missing.mtl\no quad\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvn 0 0 1\n\
                usemtl m\nf 1/1/1 2/2/1 3/3/1 4/4/1\no bare\nv 0 0 5\nv 0 2 5\nv 2 0 5\nf 5 6 7\n";
    let (_folder, path) = write("a.obj", text.as_bytes());
    let mesh = file(&path).unwrap();
    assert_eq!(mesh.indices().len(), 3);
    assert_eq!(mesh.positions().len(), 7);
    assert_eq!(mesh.bounds(), ([0.0; 3], [2.0, 2.0, 5.0]));
    assert_eq!(mesh.normals()[0], [0.0, 0.0, 1.0]);
    assert_eq!(mesh.uvs()[0], [0.0, 1.0], "the top is 0");
    // The second object has no normals of its own and turns the other way.
    assert_eq!(mesh.normals()[4..], [[0.0, 0.0, -1.0]; 3]);
}

/// A glTF with one triangle, its buffer inside, under a node that scales, mirrors and moves.
fn gltf_text(node: &str, accessor: &str, buffer_bytes: usize) -> String {
    // 3 positions, 3 normals, 3 indices of 16 bits.
    let mut bytes: Vec<u8> = Vec::new();
    let floats = [0f32, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0];
    bytes.extend(floats.iter().flat_map(|f| f.to_le_bytes()));
    bytes.extend([0u16, 1, 2, 0].iter().flat_map(|i| i.to_le_bytes()));
    let hex = base64(&bytes);
    format!(
        r#"{{"asset":{{"version":"2.0"}},"scene":0,"scenes":[{{"nodes":[0]}}],"nodes":[{node}],
        "meshes":[{{"primitives":[{{"attributes":{{"POSITION":0,"NORMAL":1}},"indices":2}}]}}],
        "accessors":[{{"bufferView":0,"componentType":5126,"count":3,"type":"VEC3","min":[0,0,0],"max":[1,1,0]}},
          {accessor},{{"bufferView":2,"componentType":5123,"count":3,"type":"SCALAR"}}],
        "bufferViews":[{{"buffer":0,"byteLength":36}},{{"buffer":0,"byteOffset":36,"byteLength":36}},
          {{"buffer":0,"byteOffset":72,"byteLength":6}}],
        "buffers":[{{"byteLength":{buffer_bytes},"uri":"data:application/octet-stream;base64,{hex}"}}]}}"#
    )
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

const NORMALS: &str = r#"{"bufferView":1,"componentType":5126,"count":3,"type":"VEC3"}"#;

#[test]
fn gltf_nodes_move_and_mirror_their_triangles() {
    let node = r#"{"mesh":0,"scale":[-2,1,4],"translation":[0,0,7]}"#;
    let (_folder, path) = write("a.gltf", gltf_text(node, NORMALS, 80).as_bytes());
    let mesh = file(&path).unwrap();
    assert_eq!(mesh.positions(), [[0.0, 0.0, 7.0], [-2.0, 0.0, 7.0], [0.0, 1.0, 7.0]]);
    assert_eq!(mesh.normals(), [[0.0, 0.0, 1.0]; 3]);
    // Seen from +z the corners still go round counter-clockwise.
    assert_eq!(mesh.indices(), [[0, 2, 1]]);
}

#[test]
fn gltf_parents_come_before_children() {
    let nodes = r#"{"children":[1],"translation":[10,0,0]},{"mesh":0,"scale":[2,2,2]}"#;
    let (_folder, path) = write("a.gltf", gltf_text(nodes, NORMALS, 80).as_bytes());
    assert_eq!(file(&path).unwrap().positions()[1], [12.0, 0.0, 0.0]);
}

#[test]
fn faulty_files_say_what_is_wrong_and_do_not_panic() {
    let node = r#"{"mesh":0}"#;
    let past = r#"{"bufferView":1,"byteOffset":4,"componentType":5126,"count":3,"type":"VEC3"}"#;
    let huge = r#"{"bufferView":1,"componentType":5126,"count":4000000000,"type":"VEC3"}"#;
    let sparse = r#"{"bufferView":1,"componentType":5126,"count":3,"type":"VEC3","sparse":{"count":3,
        "indices":{"bufferView":2,"byteOffset":4,"componentType":5123},"values":{"bufferView":0}}}"#;
    let circle = r#"{"mesh":0,"children":[0]}"#;
    let cases = [
        ("a.gltf", gltf_text(node, past, 80), "accessor 1 reaches past its buffer"),
        ("a.gltf", gltf_text(node, huge, 80), "accessor 1 reaches past its buffer"),
        ("a.gltf", gltf_text(node, sparse, 80), "accessor 1 reaches past its buffer"),
        ("a.gltf", gltf_text(node, NORMALS, 4000), "buffer"),
        ("a.gltf", gltf_text(circle, NORMALS, 80), "circle"),
        ("a.gltf", "{".to_owned(), "a.gltf: "),
        ("a.glb", "glTF".to_owned(), "a.glb: "),
        ("a.obj", "v 1 2\nf 1 2 3\n".to_owned(), "a.obj: "),
        ("a.obj", "v 0 0 0\nf 1 2 3\n".to_owned(), "a.obj: "),
        ("a.stl", String::new(), "expected a file that ends in .obj, .gltf or .glb"),
    ];
    for (name, text, part) in cases {
        let (_folder, path) = write(name, text.as_bytes());
        let error = file(&path).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(file(Path::new("/nowhere/a.obj")).unwrap_err().starts_with("/nowhere/a.obj: "));
}
