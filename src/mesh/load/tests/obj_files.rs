use super::super::*;
use super::load;

#[test]
fn obj_faces_are_triangulated_and_groups_joined() {
    let text = "mtllib missing.mtl\no quad\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvn 0 0 1\n\
                usemtl m\nf 1/1/1 2/2/1 3/3/1 4/4/1\no bare\nv 0 0 5\nv 0 2 5\nv 2 0 5\nf 5 6 7\n";
    let mesh = load("a.obj", text).unwrap();
    assert_eq!(mesh.indices().len(), 3);
    assert_eq!(mesh.positions().len(), 7);
    assert_eq!(mesh.bounds(), ([0.0; 3], [2.0, 2.0, 5.0]));
    assert_eq!(mesh.normals()[0], [0.0, 0.0, 1.0]);
    assert_eq!(mesh.uvs()[0], [0.0, 1.0], "the top is 0");
    // The second object has no normals of its own and turns the other way.
    assert_eq!(mesh.normals()[4..], [[0.0, 0.0, -1.0]; 3]);
}

#[test]
fn obj_corners_keep_what_they_have_and_get_the_rest() {
    // A face with everything, one with neither, one with normals, one with texture coordinates, and one whose corners
    // differ: all in xy, seen from +z, while the normals of the file point elsewhere.
    let text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0.25 0.5\nvt 0.5 1\nvn 1 0 0\nvn 0 1 0\n\
                f 1 2 3\nf 1/1/1 2/2/2 3/1/1\nf 1//2 2//2 3//2\nf 1/2 2/2 3/2\nf 1/1/2 2//1 3\n";
    let mesh = load("a.obj", text).unwrap();
    let up = [0.0, 0.0, 1.0];
    let (x, y) = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]);
    let (none, first, second) = ([0.0, 0.0], [0.25, 0.5], [0.5, 0.0]);
    let of = |t: usize| mesh.indices()[t].map(|i| (mesh.normals()[i as usize], mesh.uvs()[i as usize]));
    assert_eq!(of(0), [(up, none); 3]);
    assert_eq!(of(1), [(x, first), (y, second), (x, first)]);
    assert_eq!(of(2), [(y, none); 3]);
    assert_eq!(of(3), [(up, second); 3]);
    assert_eq!(of(4), [(y, first), (x, none), (up, none)]);
    // The last corner is the first face's third.
    assert_eq!(mesh.positions().len(), 14);
    for corners in mesh.indices() {
        let positions = corners.map(|i| mesh.positions()[i as usize]);
        assert_eq!(positions, [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
    }
}

#[test]
fn obj_points_and_lines_are_passed_over() {
    let text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 9 9 9\np 1 4\nl 1 2\nl 1 2 4\nl 1 2 3 4\nf 4\nf 1 4\nf\nf 1 2 3\n";
    let mesh = load("a.obj", text).unwrap();
    assert_eq!(mesh.indices(), [[0, 1, 2]]);
    assert_eq!(mesh.positions().len(), 3);
}

#[test]
fn obj_polygons_are_fans_and_negative_numbers_count_back() {
    let text = "v 9 9 9\nv 0 0 0\nv 2 0 0\nv 3 1 0\nv 2 2 0\nv 0 2 0\nvt 0 0\nvt 1 0\nvn 0 0 1\n\
                f -5/-1/-1 -4/-2/-1 -3/-1/-1 -2/-1/-1 -1/-2/-1\nv 7 7 7\nf -1 -2 1\n";
    let mesh = load("a.obj", text).unwrap();
    assert_eq!(mesh.indices(), [[0, 1, 2], [0, 2, 3], [0, 3, 4], [5, 6, 7]]);
    assert_eq!(mesh.positions()[..2], [[0.0; 3], [2.0, 0.0, 0.0]]);
    assert_eq!(mesh.uvs()[..2], [[1.0, 1.0], [0.0, 1.0]]);
    assert_eq!(mesh.positions()[5..], [[7.0; 3], [0.0, 2.0, 0.0], [9.0; 3]]);
}

#[test]
fn obj_statements_are_read_as_they_are_found_in_the_wild() {
    // Weights, colours, CRLF, comments and names that are not UTF-8, faces before their vertices, one-dimensional
    // texture coordinates, NaN and infinity.
    let text = b"# \xff\xfe\r\no caf\xe9\r\nf 1/1 2 3 # last\r\nv nan inf 0 2\r\nv 1 -INF 0 0.1 0.2 0.3\r\nv 2 4 6 2\r\nvt 0.5\r\n";
    let mesh = load("a.obj", text).unwrap();
    assert!(mesh.positions()[0][0].is_nan());
    assert_eq!(mesh.positions()[0][1], f32::INFINITY);
    assert_eq!(mesh.positions()[1..], [[1.0, f32::NEG_INFINITY, 0.0], [1.0, 2.0, 3.0]]);
    assert_eq!(mesh.uvs()[0], [0.5, 1.0]);
}

#[test]
fn faulty_obj_files_say_what_is_wrong_and_do_not_panic() {
    let v = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvn 0 0 1\n";
    let cases = [
        ("f 1/-9 2 3", "line 6: f: got \"1/-9\"; expected v, v/vt, v//vn or v/vt/vn"),
        ("f -4 2 3", "line 6: f: got \"-4\"; expected v"),
        ("f 1//-9223372036854775808 2 3", "line 6: f: got \"1//-9223372036854775808\""),
        ("f 0 2 3", "line 6: f: got \"0\""),
        ("f 1/0 2 3", "line 6: f: got \"1/0\""),
        ("f 1 2 4", "line 6: f: got vertex 4; expected at most 3"),
        ("f 1 2/2 3", "line 6: f: got texture coordinate 2; expected at most 1"),
        ("\nf 1 2//9 3", "line 7: f: got normal 9; expected at most 1"),
        ("f 1 2 4294967295", "got vertex 4294967295; expected at most 3"),
        ("f 1 2 4294967296", "got \"4294967296\""),
        ("f 1 2 99999999999999999999999", "got \"99999999999999999999999\""),
        ("f 1/1/1/1 2 3", "got \"1/1/1/1\""),
        ("f /1 2 3", "got \"/1\""),
        ("f / 2 3", "got \"/\""),
        ("f 1 2 x", "got \"x\""),
        ("v 1 2", "line 6: v: got \"\"; expected a number"),
        ("v 1 2 3 0", "line 6: v: got a weight of 0"),
        ("v 1 2 3 four", "line 6: v: got \"four\"; expected a number"),
        ("vt", "line 6: vt: got \"\"; expected a number"),
        ("vn 1 2", "line 6: vn: got \"\"; expected a number"),
    ];
    for (line, part) in cases {
        let error = load("a.obj", format!("{v}{line}\n")).unwrap_err();
        assert!(error.contains(part) && error.contains("a.obj: "), "{line}: {error}");
    }
    let error = load("a.obj", b"v 0 0 \xff\n").unwrap_err();
    assert!(error.contains("line 1: v: got \"\u{fffd}\""), "{error}");
    let error = load("a.obj", format!("{v}f 1 2 {}\n", "9".repeat(100_000))).unwrap_err();
    assert!(error.len() < 1000, "{}", error.len());
}

#[test]
fn obj_is_held_to_its_limit_before_it_grows() {
    let mut polygon = "v 0 0 0\nf".to_owned();
    polygon.push_str(&" 1".repeat(1000));
    let held = |limit| obj::parse(polygon.as_bytes(), limit);
    // One vertex of 32 bytes, 998 triangles of 12.
    assert_eq!(held(32 + 12 * 998).unwrap().indices().len(), 998);
    let error = held(32 + 12 * 997).unwrap_err();
    assert!(error.contains("998 triangles") && error.contains("expected at most 11996 bytes a mesh"), "{error}");
    let many: String = (0..9).map(|i| format!("v 0 0 {i}\n")).chain(["f 1 2 3 4 5 6 7 8 9".to_owned()]).collect();
    assert!(obj::parse(many.as_bytes(), 32 * 9 + 12 * 7).is_ok());
    assert!(obj::parse(many.as_bytes(), 32 * 9 + 12 * 7 - 1).is_err());
}
