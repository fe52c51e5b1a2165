//! The tree hides nothing: distances are those of testing every triangle, bit for bit.

use super::scenes::{self, Random};
use super::*;
use crate::bvh::trace::{Ray, Visits};

/// Rays around and within the root's box: free ones, some along axes, and some from corners of triangles.
pub(super) fn rays(sink: &VecSink, count: usize, seed: u32) -> Vec<Ray> {
    let mut random = Random(seed);
    let root = floats(&sink.nodes[..32]);
    let triangles = (sink.triangles.len() / TRIANGLE_BYTES as usize) as u32;
    let mut point = |reach: f32| {
        [0, 1, 2].map(|a| {
            let (low, high) = (root[a], root[4 + a]);
            let grow = (high - low) * reach + 0.01;
            random.within(low - grow, high + grow)
        })
    };
    let mut all = Vec::new();
    let mut second = Random(seed ^ 77);
    for ray in 0..count {
        let origin = point(0.5);
        let mut direction = [0, 1, 2].map(|a| point(0.0)[a] - origin[a]);
        let mut ray = match ray % 4 {
            0 | 1 => Ray::new(origin, direction),
            2 => {
                direction[second.word() as usize % 3] = 0.0;
                if second.unit() < 0.5 {
                    direction[second.word() as usize % 3] = 0.0;
                }
                Ray::new(origin, direction)
            }
            _ => {
                let corner = view(sink).corners(second.word() % triangles.max(1)).map_or(origin, |c| c[0]);
                let direction = [0, 1, 2].map(|a| corner[a] - origin[a]);
                Ray::new(if second.unit() < 0.3 { corner } else { origin }, direction)
            }
        };
        if second.unit() < 0.2 {
            ray.near = 0.4;
            ray.far = 0.9;
        }
        all.push(ray);
    }
    all
}

pub(super) fn check_rays(name: &str, sink: &VecSink, count: usize) -> usize {
    let view = view(sink);
    let mut hits = 0;
    for ray in rays(sink, count, 9) {
        let expected = view.closest_of_all(&ray);
        let told = view.closest(&ray, &mut Visits::default());
        let bits = |hit: Option<trace::Hit>| hit.map(|h| h.distance.to_bits());
        assert_eq!(bits(told), bits(expected), "{name}: {ray:?} told {told:?} expected {expected:?}");
        assert_eq!(view.any(&ray, &mut Visits::default()), expected.is_some(), "{name}: {ray:?}");
        hits += usize::from(expected.is_some());
    }
    hits
}

#[test]
fn the_closest_hit_is_that_of_testing_every_triangle() {
    for (name, instances) in scenes::all() {
        for max_leaf in [None, Some(1), Some(8)] {
            let sink = build(&instances, Options { max_leaf });
            let count = if max_leaf.is_none() { 4000 } else { 500 };
            let hits = check_rays(name, &sink, count);
            assert!(hits > count / 20, "{name}: only {hits} hits");
        }
    }
}

#[test]
fn a_tree_is_worth_walking() {
    let sink = build(&scenes::soup(3000, 0.05, 1), Options::default());
    let mut visits = Visits::default();
    let rays = rays(&sink, 1000, 3);
    for ray in &rays {
        let _ = view(&sink).closest(ray, &mut visits);
    }
    assert!(visits.triangles < 60 * rays.len() as u64, "{visits:?}");
    assert!(visits.nodes < 100 * rays.len() as u64, "{visits:?}");
}
