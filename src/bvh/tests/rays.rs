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

/// Where a ray meets a triangle by signed volumes in twice the precision: an answer that shares nothing with the one
/// under test. The margin is how far inside the ray passes, as a part of the triangle; negative outside.
fn exact(ray: &Ray, corners: [[f32; 3]; 3]) -> Option<(f64, f64)> {
    let wide = |v: [f32; 3]| glam::DVec3::from(v.map(f64::from));
    let (origin, direction) = (wide(ray.origin), wide(ray.direction));
    let [a, b, c] = corners.map(|corner| wide(corner) - origin);
    let volumes = [b.cross(c), c.cross(a), a.cross(b)].map(|normal| direction.dot(normal));
    let all: f64 = volumes.iter().sum();
    let weights = volumes.map(|v| v / all);
    let at = a * weights[0] + b * weights[1] + c * weights[2];
    let distance = at.dot(direction) / direction.length_squared();
    distance.is_finite().then(|| (distance, weights.into_iter().fold(f64::INFINITY, f64::min)))
}

#[test]
fn hits_are_those_of_another_test_in_twice_the_precision() {
    for (name, instances) in scenes::all() {
        let sink = build(&instances, Options::default());
        let (mut sure, mut told) = (0, 0);
        let count = (sink.triangles.len() as u64 / TRIANGLE_BYTES) as u32;
        for ray in rays(&sink, 800, 21) {
            let span = f64::from(ray.near)..f64::from(ray.far);
            let meets = (0..count).filter_map(|t| exact(&ray, view(&sink).corners(t).unwrap()));
            let nearest = meets.filter(|(at, margin)| *margin > 1e-3 && span.contains(at)).map(|(at, _)| at);
            let nearest = nearest.fold(f64::INFINITY, f64::min);
            let hit = view(&sink).closest(&ray, &mut Visits::default());
            let distance = hit.map_or(f64::INFINITY, |h| h.distance.into());
            if nearest.is_finite() && nearest > span.start + 1e-3 && nearest < span.end * 0.999 {
                assert!(distance <= nearest + 1e-3 * (1.0 + nearest), "{name}: {ray:?}: {distance} for {nearest}");
                sure += 1;
            }
            if let Some(hit) = hit {
                // Triangles met edge-on, or flat ones, have no sharp distance.
                let corners = view(&sink).corners(hit.triangle).unwrap();
                let agrees =
                    |(at, margin): (f64, f64)| margin > -1e-3 && (at - distance).abs() < 1e-3 * (1.0 + at.abs());
                told += usize::from(exact(&ray, corners).is_some_and(agrees));
            }
        }
        assert!(sure >= 20, "{name}: only {sure} sure hits");
        assert!(told >= sure - sure / 50, "{name}: {told} right ones of {sure}");
    }
}

#[test]
fn triangles_of_any_size_are_met() {
    let mut random = Random(12);
    for power in -30..=37 {
        let size = 10f32.powi(power);
        let one = |_| [0; 3].map(|_| random.point(size));
        let corners: Vec<_> = (0..200).map(one).collect();
        let sink = build(&scenes::triangles(corners.clone()), Options::default());
        check_tree(&sink);
        for [a, b, c] in corners {
            let wide = |v: [f32; 3]| glam::DVec3::from(v.map(f64::from)) / f64::from(size);
            let (a, b, c) = (wide(a), wide(b), wide(c));
            let normal = (b - a).cross(c - a).normalize();
            let origin = ((a + b + c) / 3.0 + normal) * f64::from(size);
            let ray = Ray::new(origin.to_array().map(|x| x as f32), normal.to_array().map(|x| -x as f32));
            let hit = view(&sink).closest(&ray, &mut Visits::default());
            assert_eq!(hit, view(&sink).closest_of_all(&ray));
            let distance = hit.map_or(f32::INFINITY, |h| h.distance / size);
            assert!(distance < 1.001, "1e{power}: {distance}");
        }
    }
}

#[test]
fn bytes_that_no_build_wrote_end_the_walk() {
    let ray = Ray::new([0.0; 3], [1.0, 0.5, 0.25]);
    let mut garbage = vec![0; 320];
    assert_eq!(View::new(&garbage, &[]).closest(&ray, &mut Visits::default()), None);
    // Whole boxes and children that lead back.
    for (at, node) in garbage.chunks_exact_mut(32).enumerate() {
        let words = [[-9f32, -9.0, -9.0], [9.0, 9.0, 9.0]].map(|corner| corner.map(f32::to_bits));
        let child = at as u32 & !1;
        for (vector, (corner, word)) in node.chunks_exact_mut(16).zip(words.into_iter().zip([child + 1, child + 2])) {
            vector.copy_from_slice(bytemuck::cast_slice(&[corner[0], corner[1], corner[2], word]));
        }
    }
    assert_eq!(View::new(&garbage, &[]).closest(&ray, &mut Visits::default()), None);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]

    /// Scenes of triangles whose corners lie on a coarse lattice of some scale, so that many are equal, flat or share
    /// their centres, some of them without a place: whole trees, the same however sliced or shared out, that hide no
    /// hit.
    #[test]
    fn any_scene_has_its_tree(
        cells in proptest::collection::vec(proptest::array::uniform3(proptest::array::uniform3(-4i8..5)), 0..400),
        power in -25i32..30,
        axis in 0usize..4,
        bad in proptest::collection::vec(0usize..400, 0..4),
        max_leaf in 1u32..10,
        budget in 0u64..200,
    ) {
        let place = |cell: [i8; 3]| {
            let mut at = cell.map(|x| f32::from(x) * 2f32.powi(power));
            if let Some(flat) = at.get_mut(axis) {
                *flat = 0.0;
            }
            at
        };
        let mut corners: Vec<_> = cells.iter().map(|triangle| triangle.map(place)).collect();
        for which in bad {
            if let Some(triangle) = corners.get_mut(which) {
                triangle[which % 3][which % 2] = f32::NAN;
            }
        }
        let instances = scenes::triangles(corners);
        let sink = build(&instances, Options::with_max_leaf(max_leaf));
        let shape = check_tree(&sink);
        proptest::prop_assert!(shape.largest_leaf <= max_leaf.min(MAX_LEAF));
        check_rays("random", &sink, 50);
        let start = || Build::new(instances.clone(), Options::with_max_leaf(max_leaf), Limits::default()).unwrap();
        let (mut sliced, mut bytes) = (start(), VecSink::new());
        while sliced.step(Duration::from_micros(budget), &mut bytes).unwrap() != Progress::Ready {}
        proptest::prop_assert!(bytes == sink);
        let mut bytes = VecSink::new();
        start().run(3, &mut bytes).unwrap();
        proptest::prop_assert!(bytes == sink);
    }
}
