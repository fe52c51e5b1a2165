//! Refusals.

use super::scenes;
use super::*;
use crate::bvh::limits::{check_nodes, check_triangles};

fn limits(max_triangle_bytes: u64, max_node_bytes: u64) -> Limits {
    Limits { max_triangle_bytes, max_node_bytes }
}

#[test]
fn counts_past_a_limit_are_refused_by_name() {
    let text = |result: Result<u32, Error>| result.unwrap_err().to_string();
    let whole = Limits::default();
    assert_eq!(check_triangles(14_913_080, &whole), Ok(14_913_080));
    assert_eq!(
        text(check_triangles(14_913_081, &whole)),
        "14913081 triangles need 4294967328 bytes; a buffer can have at most 4294967296, which holds 14913080 triangles"
    );
    let portable = limits(128 << 20, 128 << 20);
    assert_eq!(check_triangles(466_033, &portable), Ok(466_033));
    assert_eq!(
        text(check_triangles(466_034, &portable)),
        "466034 triangles need 134217792 bytes; a buffer can have at most 134217728, which holds 466033 triangles"
    );
    // No limit of a device undoes that of 32-bit offsets.
    assert!(check_triangles(14_913_081, &limits(u64::MAX, u64::MAX)).is_err());
    assert_eq!(check_triangles(MAX_TRIANGLES, &whole), Ok(14_913_080));
    assert!(check_triangles(u64::MAX, &whole).is_err());
    assert_eq!(check_nodes(4 << 20, &portable), Ok(()));
    assert_eq!(
        check_nodes((4 << 20) + 1, &portable).unwrap_err().to_string(),
        "4194305 nodes need 134217760 bytes; a buffer can have at most 134217728, which holds 4194304 nodes"
    );
}

#[test]
fn counting_looks_at_no_triangle() {
    // Twenty instances of a million triangles are refused although nothing could hold them.
    let mesh = Arc::new(Mesh::new(vec![[0.0; 3]; 3], None, None, Some(vec![[0, 1, 2]; 1_000_000])).unwrap());
    let instances = vec![scenes::place(&mesh, scenes::IDENTITY); 20];
    let error = Build::new(instances, Options::default(), Limits::default()).unwrap_err();
    assert_eq!(error, Error::TriangleBytes { triangles: 20_000_000, bytes: 5_760_000_000, limit: 1 << 32 });
}

#[test]
fn too_many_nodes_end_a_build_for_good() {
    let limits = limits(1 << 32, 64);
    for threads in [0, 1, 2] {
        let mut build = Build::new(scenes::soup(500, 0.1, 3), Options::default(), limits).unwrap();
        let mut sink = VecSink::new();
        let error = match threads {
            0 => build.step(Duration::MAX, &mut sink).unwrap_err(),
            _ => build.run(threads, &mut sink).unwrap_err(),
        };
        assert!(matches!(error, Error::NodeBytes { limit: 64, .. }), "{error}");
        assert_eq!(build.step(Duration::MAX, &mut sink).unwrap_err(), error);
        assert_eq!(build.run(2, &mut sink).unwrap_err(), error);
        assert!(sink == VecSink::new());
    }
}

#[test]
fn options_and_attributes_out_of_range() {
    let new = |instances, max_leaf| Build::new(instances, Options { max_leaf }, Limits::default());
    assert_eq!(new(vec![], Some(0)).unwrap_err().to_string(), "maxLeaf: got 0; expected at least 1");
    let mut scene = scenes::balls(3, 4);
    scene[1].attributes = (0..41).map(|i| i as f32).collect();
    let error = new(scene, None).unwrap_err();
    assert_eq!(error.to_string(), "instance 2: got 41 attributes; expected at most 40");
}
