use super::super::*;
use super::{Gltf, base64, glb, load, triangle, triangle_glb};

#[test]
fn gltf_nodes_move_and_mirror_their_triangles() {
    let nodes = r#"{"mesh":0,"scale":[-2,1,4],"translation":[0,0,7]}"#;
    let mesh = Gltf { nodes, ..Gltf::default() }.load().unwrap();
    assert_eq!(mesh.positions(), [[0.0, 0.0, 7.0], [-2.0, 0.0, 7.0], [0.0, 1.0, 7.0]]);
    assert_eq!(mesh.normals(), [[0.0, 0.0, 1.0]; 3]);
    // Seen from +z the corners still go round counter-clockwise.
    assert_eq!(mesh.indices(), [[0, 2, 1]]);
}

#[test]
fn gltf_parents_come_before_children() {
    let nodes = r#"{"children":[1],"translation":[10,0,0]},{"mesh":0,"scale":[2,2,2]}"#;
    assert_eq!(Gltf { nodes, ..Gltf::default() }.load().unwrap().positions()[1], [12.0, 0.0, 0.0]);
}

#[test]
fn gltf_nodes_repeat_a_mesh_and_strips_and_fans_are_triangles() {
    let nodes = r#"{"children":[1,2]},{"mesh":0},{"mesh":0,"translation":[0,0,1]}"#;
    let mesh = Gltf { nodes, ..Gltf::default() }.load().unwrap();
    assert_eq!(mesh.indices(), [[0, 1, 2], [3, 4, 5]]);
    assert_eq!(mesh.positions()[3], [0.0, 0.0, 1.0]);
    for (primitive, expected) in [
        (r#"{"attributes":{"POSITION":0},"indices":2,"mode":5}"#, &[[0u32, 1, 2]][..]),
        (r#"{"attributes":{"POSITION":0},"mode":6}"#, &[[0, 1, 2]]),
        (r#"{"attributes":{"POSITION":0},"mode":0}"#, &[]),
        (r#"{"attributes":{"POSITION":0},"mode":3}"#, &[]),
    ] {
        assert_eq!(Gltf { primitive, ..Gltf::default() }.load().unwrap().indices(), expected, "{primitive}");
    }
}

#[test]
fn glb_holds_its_buffer_and_skips_unknown_chunks() {
    let mesh = load("a.glb", triangle_glb()).unwrap();
    assert_eq!(mesh.indices(), [[0, 1, 2]]);
    assert_eq!(mesh, Gltf::default().load().unwrap());
}

#[test]
fn sparse_accessors_put_values_over_zeros_or_a_view() {
    // The second vertex's position is the third of the buffer's.
    let alone = r#"{"componentType":5126,"count":3,"type":"VEC3","min":[0,0,0],"max":[1,1,0],"sparse":{"count":1,
        "indices":{"bufferView":2,"byteOffset":2,"componentType":5123},"values":{"bufferView":0,"byteOffset":24}}}"#;
    let mesh = Gltf { position: alone, ..Gltf::default() }.load().unwrap();
    assert_eq!(mesh.positions(), [[0.0; 3], [0.0, 1.0, 0.0], [0.0; 3]]);
    let over = r#"{"bufferView":0,"componentType":5126,"count":3,"type":"VEC3","min":[0,0,0],"max":[1,1,0],"sparse":{
        "count":1,"indices":{"bufferView":2,"byteOffset":2,"componentType":5123},
        "values":{"bufferView":0,"byteOffset":24}}}"#;
    let mesh = Gltf { position: over, ..Gltf::default() }.load().unwrap();
    assert_eq!(mesh.positions(), [[0.0; 3], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]);
}

#[test]
fn texture_coordinates_of_integers_are_parts_of_the_largest() {
    for (element, stride, expected) in
        [(5121, 2, [[0.0, 0.2], [1.0, 0.0], [0.4, 0.6]]), (5123, 4, [[51.0 / 257.0; 2]; 3])]
    {
        let mut bytes = triangle();
        bytes.truncate(72);
        bytes.extend(if stride == 2 { vec![0, 51, 255, 0, 102, 153] } else { [51, 0].repeat(6) });
        let json = format!(
            r#"{{"asset":{{"version":"2.0"}},"scenes":[{{"nodes":[0]}}],"nodes":[{{"mesh":0}}],
            "meshes":[{{"primitives":[{{"attributes":{{"POSITION":0,"TEXCOORD_0":1}}}}]}}],
            "accessors":[{},{{"bufferView":1,"componentType":{element},"count":3,"type":"VEC2","normalized":true}}],
            "bufferViews":[{{"buffer":0,"byteLength":36}},{{"buffer":0,"byteOffset":72,"byteLength":{}}}],
            "buffers":[{{"byteLength":{}}}]}}"#,
            Gltf::default().position,
            3 * stride,
            bytes.len()
        );
        let mesh = load("a.glb", glb(&[(b"JSON", json.as_bytes()), (b"BIN\0", &bytes)])).unwrap();
        for (told, expected) in mesh.uvs().as_flattened().iter().zip(expected.as_flattened()) {
            assert!((told - if stride == 2 { *expected } else { 51.0 / 65535.0 }).abs() < 1e-6, "{:?}", mesh.uvs());
        }
    }
}

#[test]
fn gltf_buffers_come_from_the_folder_of_the_file_and_nowhere_else() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("inner");
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    for place in ["secret.bin", "inner/a.bin", "inner/deep/b c.bin"] {
        std::fs::write(outer.path().join(place), triangle()).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(outer.path().join("secret.bin"), folder.join("link.bin")).unwrap();
    let path = folder.join("a.gltf");
    let load = |uri: &str| {
        std::fs::write(&path, Gltf { uri: Some(uri.to_owned()), ..Gltf::default() }.text()).unwrap();
        file(&path)
    };
    let data = base64(&triangle());
    for uri in [
        "a.bin",
        "./a.bin",
        "deep/b%20c.bin",
        "%61.bin",
        &format!("data:;base64,{data}"),
        &format!("DATA:application/gltf-buffer;charset=x;base64,{data}"),
    ] {
        assert_eq!(load(uri).unwrap().indices(), [[0, 1, 2]], "{uri}");
    }
    let secret = outer.path().join("secret.bin");
    let secret = secret.to_str().unwrap();
    for uri in [
        "../secret.bin",
        "%2e%2e/secret.bin",
        "%2E%2E%2Fsecret.bin",
        "deep/../../secret.bin",
        "link.bin",
        secret,
        &format!("file:{secret}"),
        &format!("file://{secret}"),
        &format!("FILE://{secret}"),
        "http://localhost/a.bin",
        "data:application/octet-stream,abc",
        "data:;base64,A",
        "data:;base64,\u{e9}",
        "a%2",
        "a%zz",
        "%ff%fe.bin",
        "a%00.bin",
        "nowhere.bin",
        "",
    ] {
        let error = load(uri).unwrap_err();
        assert!(error.starts_with(path.to_str().unwrap()), "{uri}: {error}");
        let (got, accepted) = (format!("buffer 0: uri: got \"{uri}\""), "relative path inside the file's folder");
        // An empty one is the folder itself.
        assert!(error.contains(&got) && (uri.is_empty() || error.contains(accepted)), "{uri}: {error}");
    }
    let long = load(&format!("x:{}", "y".repeat(100_000))).unwrap_err();
    assert!(long.len() < 1000, "{}", long.len());
}

#[test]
fn faulty_gltf_files_say_what_is_wrong_and_do_not_panic() {
    let position = |position| Gltf { position, ..Gltf::default() };
    let normal = |normal| Gltf { normal, ..Gltf::default() };
    let index = |index| Gltf { index, ..Gltf::default() };
    let primitive = |primitive| Gltf { primitive, ..Gltf::default() };
    let nodes = |nodes| Gltf { nodes, ..Gltf::default() };
    let views = |views| Gltf { views, ..Gltf::default() };
    let past = "reaches past its buffer";
    let cases = [
        // Accessors of the wrong kind.
        (
            position(r#"{"bufferView":0,"componentType":5123,"count":3,"type":"VEC3","min":[0,0,0],"max":[1,1,0]}"#),
            "accessor 0: POSITION: got Vec3 of U16; expected Vec3 of one of [F32]",
        ),
        (
            position(r#"{"bufferView":0,"componentType":5126,"count":3,"type":"VEC2","min":[0,0,0],"max":[1,1,0]}"#),
            "accessor 0: POSITION: got Vec2 of F32",
        ),
        (normal(r#"{"bufferView":1,"componentType":5126,"count":2,"type":"VEC4"}"#), "accessor 1: NORMAL: got Vec4"),
        (
            index(r#"{"bufferView":0,"componentType":5126,"count":3,"type":"SCALAR"}"#),
            "accessor 2: indices: got Scalar",
        ),
        (index(r#"{"bufferView":0,"componentType":5121,"count":3,"type":"VEC3"}"#), "accessor 2: indices: got Vec3"),
        (
            primitive(r#"{"attributes":{"POSITION":0,"TEXCOORD_0":1}}"#),
            "accessor 1: TEXCOORD_0: got Vec3 of F32; expected Vec2 of one of [F32, U8, U16]",
        ),
        // Counts.
        (
            normal(r#"{"bufferView":1,"componentType":5126,"count":2,"type":"VEC3"}"#),
            "accessor 1: NORMAL: got 2 elements; expected 3",
        ),
        (normal(r#"{"bufferView":1,"componentType":5126,"count":4000000000,"type":"VEC3"}"#), "4000000000 elements"),
        (
            normal(r#"{"bufferView":1,"componentType":5126,"count":18446744073709551615,"type":"VEC3"}"#),
            "18446744073709551615 elements; expected 3",
        ),
        (normal(r#"{"componentType":5126,"count":4000000000,"type":"VEC3"}"#), "accessors[1].bufferView: Missing data"),
        (normal(r#"{"bufferView":1,"componentType":5126,"count":-3,"type":"VEC3"}"#), "JSON: "),
        // What reaches past its bytes.
        (normal(r#"{"bufferView":1,"byteOffset":4,"componentType":5126,"count":3,"type":"VEC3"}"#), past),
        (
            normal(
                r#"{"bufferView":1,"byteOffset":18446744073709551615,"componentType":5126,"count":3,"type":"VEC3"}"#,
            ),
            past,
        ),
        (
            views(
                r#"{"buffer":0,"byteLength":36},{"buffer":0,"byteOffset":18446744073709551615,"byteLength":36},
                {"buffer":0,"byteOffset":72,"byteLength":6}"#,
            ),
            past,
        ),
        (
            views(
                r#"{"buffer":0,"byteLength":36},{"buffer":0,"byteOffset":60,"byteLength":36},
                {"buffer":0,"byteOffset":72,"byteLength":6}"#,
            ),
            past,
        ),
        (
            views(
                r#"{"buffer":0,"byteLength":36,"byteStride":4},{"buffer":0,"byteOffset":36,"byteLength":36},
                {"buffer":0,"byteOffset":72,"byteLength":6}"#,
            ),
            "accessor 0 has a stride below its size",
        ),
        (
            normal(
                r#"{"bufferView":1,"componentType":5126,"count":3,"type":"VEC3","sparse":{"count":3,
                "indices":{"bufferView":2,"byteOffset":4,"componentType":5123},"values":{"bufferView":0}}}"#,
            ),
            "accessor 1 reaches past its buffer",
        ),
        (
            normal(
                r#"{"componentType":5126,"count":3,"type":"VEC3","sparse":{"count":4,
                "indices":{"bufferView":2,"componentType":5121},"values":{"bufferView":0}}}"#,
            ),
            "accessor 1 has more sparse elements than elements",
        ),
        (
            // The normals' bytes as indices.
            normal(
                r#"{"componentType":5126,"count":3,"type":"VEC3","sparse":{"count":3,
                "indices":{"bufferView":1,"componentType":5125},"values":{"bufferView":0}}}"#,
            ),
            "accessor 1 has a sparse index past its end",
        ),
        (
            index(r#"{"bufferView":1,"byteOffset":8,"componentType":5125,"count":3,"type":"SCALAR"}"#),
            "accessor 2: indices: got 1065353216; expected fewer than the 3 positions",
        ),
        // References to nothing.
        (primitive(r#"{"attributes":{"POSITION":9}}"#), "POSITION: got accessor 9; there are 3"),
        (primitive(r#"{"attributes":{"POSITION":0,"NORMAL":9}}"#), "NORMAL"),
        (primitive(r#"{"attributes":{"POSITION":0},"indices":9}"#), "indices"),
        (primitive(r#"{"attributes":{"NORMAL":1}}"#), "POSITION"),
        (primitive(r#"{"attributes":{"POSITION":0},"mode":9}"#), "mode"),
        (normal(r#"{"bufferView":9,"componentType":5126,"count":3,"type":"VEC3"}"#), "bufferView"),
        (normal(r#"{"bufferView":1,"componentType":9,"count":3,"type":"VEC3"}"#), "componentType"),
        (nodes(r#"{"mesh":9}"#), "mesh"),
        (nodes(r#"{"children":[9]}"#), "children"),
        (nodes(r#"{"mesh":0,"children":[0]}"#), "circle"),
        (nodes(r#"{"children":[1,1]},{"mesh":0}"#), "two parents"),
        // Buffers.
        (Gltf { buffer_bytes: 4000, ..Gltf::default() }, "buffer 0: got 80 bytes; expected 4000"),
        (Gltf { uri: None, ..Gltf::default() }, "buffer 0: got no uri and no BIN chunk"),
    ];
    for (gltf, part) in cases {
        let error = gltf.load().unwrap_err();
        assert!(error.contains(part) && error.contains("a.gltf: "), "{}: {error}", gltf.text());
    }
}
