//! Input that other builders break on.

use super::rays::check_rays;
use super::scenes::{self, Random};
use super::*;
use crate::bvh::trace::{Ray, Visits};

fn check(name: &str, instances: &[Instance]) -> Shape {
    let mut shape = Shape::default();
    for max_leaf in [None, Some(1)] {
        let sink = build(instances, Options { max_leaf });
        shape = check_tree(&sink);
        assert!(shape.largest_leaf <= MAX_LEAF, "{name}: {shape:?}");
        let count = sink.triangles.len() / 288;
        check_rays(name, &sink, if count > 20_000 { 20 } else { 400 });
        assert!(floats(&sink.nodes).chunks(4).all(|v| v[..3].iter().all(|x| x.is_finite())), "{name}");
    }
    shape
}

const UNIT_TRIANGLE: [[f32; 3]; 3] = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];

#[test]
fn equal_and_concentric_triangles() {
    // Halving is all there is, so the depth is that of a balanced tree.
    for count in [2, 5, 9, 100, 4097, 100_000] {
        let shape = check("equal", &scenes::triangles(vec![UNIT_TRIANGLE; count]));
        assert!(shape.depth <= count.next_power_of_two().trailing_zeros(), "{count}: {shape:?}");
    }
    let concentric = (1..20_000).map(|i| {
        let s = i as f32;
        [[-s, -s, 0.0], [s, -s, 0.0], [0.0, s, 0.0]]
    });
    check("concentric", &scenes::triangles(concentric.collect()));
    let mesh = scenes::ball(12);
    check("coincident instances", &vec![scenes::place(&mesh, scenes::IDENTITY); 30]);
}

#[test]
fn work_on_equal_triangles_is_near_linear() {
    let units = |count| {
        let mut build =
            Build::new(scenes::triangles(vec![UNIT_TRIANGLE; count]), Options::default(), Limits::default()).unwrap();
        build.step(Duration::MAX, &mut VecSink::new()).unwrap();
        build.stats().units as f64
    };
    let (one, four) = (units(25_000), units(100_000));
    assert!(four < 6.0 * one, "{one} and {four} units");
    assert!(four < 2500.0, "{four} units");
}

#[test]
fn flat_linear_and_pointlike() {
    let mut random = Random(3);
    let mut scene = |f: &mut dyn FnMut([f32; 3]) -> [f32; 3]| {
        let all = (0..6000).map(|_| [0; 3].map(|_| f(random.point(1.0)))).collect();
        scenes::triangles(all)
    };
    check("flat", &scene(&mut |[x, y, _]| [x, y, 0.0]));
    check("flat off the origin", &scene(&mut |[x, y, _]| [x, 7.3, y]));
    check("lines", &scene(&mut |[x, _, _]| [x, 0.0, 0.0]));
    check("diagonal lines", &scene(&mut |[x, _, _]| [x, x, x]));
    let mut at = 0.0;
    check(
        "points",
        &scene(&mut |_| {
            at += 1.0;
            let p = (at / 3f32).floor();
            [p, (p * 0.7).fract(), (p * 0.3).fract()]
        }),
    );
    check("one point", &scene(&mut |_| [1.0, 2.0, 3.0]));
    check("denormal", &scene(&mut |p| p.map(|x| x * 1e-39)));
    check("tiny", &scene(&mut |p| p.map(|x| x * 1e-20)));
    check("far", &scene(&mut |p| [p[0] + 1e6, p[1], p[2]]));
    check("one step apart", &scene(&mut |p| [1.0 + f32::EPSILON * (p[0] * 3.0).round(), p[1], 0.0]));
}

#[test]
fn scales_mixed() {
    let mut random = Random(8);
    let mut all = Vec::new();
    for power in -30..=30 {
        for _ in 0..60 {
            let size = 10f32.powi(power);
            let p = random.point(size);
            all.push([0; 3].map(|_| {
                let q = random.point(size);
                [p[0] + q[0], p[1] + q[1], p[2] + q[2]]
            }));
        }
    }
    check("powers of ten", &scenes::triangles(all));
    // Each one half of the one before, which a plane peels off one at a time.
    let halves = (0..120).map(|i| {
        let s = 0.5f32.powi(i);
        [[s, 0.0, 0.0], [s * 1.1, 0.0, 0.0], [s, s * 0.1, 0.0]]
    });
    check("halves", &scenes::triangles(halves.collect()));
    let nested = (0..120).flat_map(|i| {
        let s = 2f32.powi(i);
        vec![[[-s, -s, 0.0], [s, -s, 0.0], [s, s, 0.0]]; 100]
    });
    check("doubles", &scenes::triangles(nested.collect()));
}

#[test]
fn depth_is_bounded_whatever_the_input() {
    // Triangles whose centres lie so that the best plane always takes off the last few.
    let mut all = Vec::new();
    for i in 0..126 {
        let x = 2f32.powi(i - 63);
        let y = 1e-3 * x;
        all.extend(vec![[[x, 0.0, 0.0], [x + y, 0.0, 0.0], [x, y, y]]; 1 + (i as usize % 3) * 300]);
    }
    for (at, triangle) in all.iter_mut().enumerate() {
        triangle[1][1] += at as f32 * 1e-9;
    }
    let shape = check("exponential", &scenes::triangles(all));
    assert!(shape.depth <= MAX_DEPTH);
}

/// Numbers that no place has.
const BAD: [f32; 4] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38];

#[test]
fn bad_triangles_cost_no_other_its_hits() {
    let good: Vec<[[f32; 3]; 3]> = {
        let mut random = Random(1);
        (0..2500)
            .map(|_| {
                let c = random.point(1.0);
                [0; 3].map(|_| {
                    let p = random.point(0.1);
                    [c[0] + p[0], c[1] + p[1], c[2] + p[2]]
                })
            })
            .collect()
    };
    let alone = build(&scenes::triangles(good.clone()), Options::default());
    let rays = super::rays::rays(&alone, 1500, 4);
    for bad in BAD {
        for which in 0..3 {
            let mut all = good.clone();
            for i in (0..200).map(|i| i * 12) {
                let mut triangle = good[i];
                match which {
                    0 => triangle[1][2] = bad,
                    1 => triangle[0] = [bad; 3],
                    _ => triangle = [[bad; 3]; 3],
                }
                all.insert(i, triangle);
            }
            let instances = scenes::triangles(all);
            let sink = build(&instances, Options::default());
            assert_eq!(sink.triangles.len(), 2700 * 288, "all are kept");
            check("bad", &instances);
            for ray in &rays {
                let distance = |sink| view(sink).closest(ray, &mut Visits::default()).map(|h| h.distance.to_bits());
                assert_eq!(distance(&sink), distance(&alone), "{bad} {which} {ray:?}");
            }
        }
    }
}

#[test]
fn nothing_but_bad_triangles() {
    for bad in BAD {
        check("all bad", &scenes::triangles(vec![[[bad; 3]; 3]; 300]));
        let mut transform = scenes::IDENTITY;
        transform[3] = bad;
        check("bad transform", &[scenes::place(&scenes::ball(6), transform)]);
        check("bad transform", &[scenes::place(&scenes::ball(6), [bad; 16])]);
    }
}

#[test]
fn one_vertex_far_away() {
    let mut all: Vec<[[f32; 3]; 3]> = (0..9000)
        .map(|i| {
            let x = i as f32;
            [[x, 0.0, 0.0], [x + 1.0, 0.0, 0.0], [x, 1.0, 1.0]]
        })
        .collect();
    all[17][1] = [1e30, 1e30, -1e30];
    check("1e30", &scenes::triangles(all.clone()));
    all[300][2] = [-4.9e37, 4.9e37, 0.0];
    check("4.9e37", &scenes::triangles(all.clone()));
    all.truncate(9000);
    for triangle in &mut all[..4500] {
        *triangle = triangle.map(|p| p.map(|x| (x + 1.0) * 1e30));
    }
    check("half of it far away", &scenes::triangles(all));
}

#[test]
fn singular_and_mirroring_transforms() {
    let mesh = scenes::ball(10);
    for scale in [[0.0; 3], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 2.0, 3.0], [-1.0; 3], [1e-30, 1.0, 1e20]] {
        check("scaled", &[scenes::place(&mesh, scenes::at(scale, [0.5, 0.0, 2.0]))]);
    }
}

#[test]
fn a_ray_within_a_face() {
    // Along the faces of boxes, where a slab test multiplies 0 by infinity.
    let sink = build(
        &scenes::rooms(0)
            .into_iter()
            .chain(scenes::triangles(vec![
                [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
                [[2.0, 0.0, 0.0], [2.0, 1.0, 0.0], [2.0, 0.0, 1.0]],
                [[4.0, 0.0, 0.0], [4.0, 1.0, 0.0], [4.0, 0.0, 1.0]],
            ]))
            .collect::<Vec<_>>(),
        Options::with_max_leaf(1),
    );
    for origin in [[-9.0, 0.0, 0.0], [-9.0, 0.0, 0.5], [-9.0, 0.5, 0.0], [-9.0, 1.0, 0.0]] {
        let ray = Ray::new(origin, [1.0, 0.0, 0.0]);
        let told = view(&sink).closest(&ray, &mut Visits::default()).map(|h| h.distance);
        assert_eq!(told, view(&sink).closest_of_all(&ray).map(|h| h.distance));
        assert!(told.is_some());
    }
}
