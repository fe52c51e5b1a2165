//! The tree's shape.

use super::scenes;
use super::*;
use crate::bvh::boxes::{Bounds, Item};
use crate::bvh::{build as splitting, gather};

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

/// Begun this deep, trees have a few levels left, which only halving keeps to.
#[test]
fn runs_that_begin_deep_are_halved() {
    // Sizes that each plane takes one off.
    let powers = |count: usize| -> Vec<Item> {
        (0..count)
            .map(|i| {
                let low = glam::Vec4::splat(0.0).with_x(0.5f32.powi(i as i32 % 120));
                Item::primitive(Bounds { low, high: low * 1.01 }, i as u32)
            })
            .collect()
    };
    let depth_of = |nodes: &[Item]| {
        let (mut most, mut stack) = (0, vec![(0usize, 0u32)]);
        while let Some((node, depth)) = stack.pop() {
            most = most.max(depth);
            if !nodes[node].is_leaf() {
                let child = nodes[node].low_word() as usize;
                stack.extend([(child, depth + 1), (child + 1, depth + 1)]);
            }
        }
        most
    };
    for (count, begun) in [(60, 58), (110, 57), (2000, 53)] {
        let mut items = powers(count);
        let mut nodes = vec![Item::new(items.iter().fold(Bounds::EMPTY, |all, i| all.union(i.bounds())), 0, 0)];
        let mut tree = splitting::ShortTree::default();
        tree.begin(count, 0, begun);
        tree.advance(&mut items, 0, &mut nodes, 1, usize::MAX);
        let depth = begun + depth_of(&nodes);
        assert!(depth <= MAX_DEPTH, "{count} from {begun}: {depth}");
        // Without the bound they would have gone deeper, or the test shows nothing.
        let mut free = vec![nodes[0]];
        tree.begin(count, 0, 0);
        tree.advance(&mut powers(count), 0, &mut free, 1, usize::MAX);
        let depth = begun + depth_of(&free);
        assert!(depth > MAX_DEPTH, "{count} from {begun}: {depth} anyway");
    }
    // A long run is cut in halves too.
    let mut items = powers(10_000);
    let extent = gather::Extent { bounds: Bounds::EMPTY, centres: Bounds::EMPTY };
    let run = |depth| splitting::Run { from: 0, to: items.len(), node: 0, depth, extent };
    let mut split = splitting::LongSplit::new(run(50));
    let halves = loop {
        if let Some(halves) = split.advance(&mut items, 4096) {
            break halves;
        }
    };
    assert_eq!(halves.map(|half| (half.from, half.to, half.depth)), [(0, 5000, 51), (5000, 10_000, 51)]);
}
