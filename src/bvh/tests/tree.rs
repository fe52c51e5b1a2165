//! The tree's shape.

use super::scenes;
use super::*;

#[test]
fn trees_are_whole() {
    for (name, instances) in scenes::all() {
        for max_leaf in [1, 2, 3, 4, 7, 8] {
            let shape = check_tree(&build(&instances, Options::with_max_leaf(max_leaf)));
            assert!(shape.largest_leaf <= max_leaf, "{name}: {shape:?}");
            assert!(shape.depth <= 40, "{name}: {shape:?}");
        }
    }
}

#[test]
fn few_triangles() {
    for count in 0..12 {
        for max_leaf in [1, 4, 8] {
            let sink = build(&scenes::soup(count, 0.2, 6), Options::with_max_leaf(max_leaf));
            check_tree(&sink);
            assert_eq!(sink.triangles.len(), count * 288);
        }
    }
    let none = build(&[], Options::default());
    assert_eq!(words(&none.nodes), [0, 0, 0, 0, 0, 0, 0, LEAF]);
    assert!(none.triangles.is_empty());
    assert_eq!(view(&none).closest(&trace::Ray::new([0.0; 3], [1.0; 3]), &mut trace::Visits::default()), None);
}

#[test]
fn more_per_leaf_than_there_is_means_the_most() {
    let scene = scenes::soup(500, 0.1, 4);
    let eight = build(&scene, Options::with_max_leaf(8));
    assert!(eight == build(&scene, Options::with_max_leaf(9)));
    assert!(eight == build(&scene, Options::with_max_leaf(u32::MAX)));
}

#[test]
fn each_triangle_is_there_once() {
    let corners: Vec<_> =
        (0..5000).map(|i| [[i as f32, 0.0, 0.0], [i as f32, 1.0, 0.0], [i as f32, 0.0, 1.0]]).collect();
    let sink = build(&scenes::triangles(corners), Options::default());
    let mut seen: Vec<u32> = sink.triangles.chunks_exact(288).map(|t| floats(&t[..4])[0] as u32).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..5000));
}
