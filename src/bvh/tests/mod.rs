//! What the hierarchy promises, on meshes of every kind.

mod limits;
mod nasty;
mod rays;
mod records;
mod scenes;
mod shader;
mod slices;
mod tree;

use super::trace::View;
use super::*;

/// The hierarchy of some instances, in one go.
fn build(instances: &[Instance], options: Options) -> VecSink {
    let mut sink = VecSink::new();
    let mut build = Build::new(instances.to_vec(), options, Limits::default()).unwrap();
    assert_eq!(build.step(Duration::MAX, &mut sink).unwrap(), Progress::Ready);
    sink
}

fn view(sink: &VecSink) -> View<'_> {
    View::new(&sink.nodes, &sink.triangles)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    words(bytes).into_iter().map(f32::from_bits).collect()
}

/// What a walk over all nodes has found.
#[derive(Debug, Default, PartialEq)]
struct Shape {
    leaves: usize,
    depth: u32,
    largest_leaf: u32,
}

/// Walks the tree and checks all that its layout promises, given the bytes alone.
fn check_tree(sink: &VecSink) -> Shape {
    let nodes = words(&sink.nodes);
    let count = nodes.len() / 8;
    let triangles = (sink.triangles.len() / TRIANGLE_BYTES as usize) as u32;
    assert_eq!(sink.triangles.len() as u64, u64::from(triangles) * TRIANGLE_BYTES);
    let bounds = |n: usize| {
        let f = |at: usize| f32::from_bits(nodes[8 * n + at]);
        ([f(0), f(1), f(2)], [f(4), f(5), f(6)])
    };
    let inside = |p: [f32; 3], n: usize| {
        let (low, high) = bounds(n);
        (0..3).all(|a| low[a] <= p[a] && p[a] <= high[a])
    };
    let mut shape = Shape::default();
    let mut seen = vec![false; count];
    let mut next = 0;
    let mut stack = vec![(0usize, 0u32)];
    while let Some((n, depth)) = stack.pop() {
        assert!(!std::mem::replace(&mut seen[n], true), "node {n} has two parents");
        shape.depth = shape.depth.max(depth);
        let (first, second) = (nodes[8 * n + 3], nodes[8 * n + 7]);
        if second & LEAF == 0 {
            assert!(first as usize > n && second == first + 1, "node {n} has the children {first} and {second}");
            for child in [first, second] {
                let (low, high) = bounds(child as usize);
                assert!(inside(low, n) && inside(high, n), "node {child} sticks out of {n}");
            }
            stack.push((second as usize, depth + 1));
            stack.push((first as usize, depth + 1));
            continue;
        }
        let held = second ^ LEAF;
        assert_eq!(first, next, "leaves do not tile the triangles");
        assert!(held > 0 || triangles == 0, "leaf {n} is empty");
        next += held;
        for triangle in first..next {
            for corner in view(sink).corners(triangle).unwrap() {
                assert!(inside(corner, n), "triangle {triangle} at {corner:?} sticks out of leaf {n} {:?}", bounds(n));
            }
        }
        shape.leaves += 1;
        shape.largest_leaf = shape.largest_leaf.max(held);
    }
    assert_eq!(next, triangles);
    assert!(seen.iter().all(|s| *s), "nodes without a parent");
    assert_eq!(count, 2 * shape.leaves - 1);
    assert!(shape.depth <= MAX_DEPTH, "depth {}", shape.depth);
    shape
}
