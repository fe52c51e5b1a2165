//! What a triangle's bytes say.

use super::scenes;
use super::*;

fn one(transform: [f32; 16], normal: [f32; 3]) -> Vec<f32> {
    let positions = vec![[1.0, 2.0, 3.0], [4.0, 5.0, 7.0], [0.0, 1.0, 0.0]];
    let uvs = vec![[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]];
    let mesh = Mesh::new(positions, Some(vec![normal, [0.0, 3.0, 0.0], [0.0; 3]]), Some(uvs), None).unwrap();
    let attributes = (1..=7).map(|i| i as f32).collect();
    let sink = build(&[Instance { mesh: Arc::new(mesh), transform, attributes }], Options::default());
    floats(&sink.triangles)
}

#[test]
fn a_triangle_is_eighteen_vectors() {
    #[rustfmt::skip]
    let transform = [
        0.0, -1.0, 0.0, 10.0,
        1.0, 0.0, 0.0, 20.0,
        0.0, 0.0, 1.0, 30.0,
        9.0, 9.0, 9.0, 9.0,
    ];
    let told = one(transform, [2.0, 0.0, 0.0]);
    #[rustfmt::skip]
    let expected = [
        8.0, 21.0, 33.0, 0.0, 5.0, 24.0, 37.0, 0.0, 9.0, 20.0, 30.0, 0.0,
        0.0, 1.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
        0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.0, 0.0,
        1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,
    ];
    assert_eq!(told[..39], expected);
    assert!(told.len() == 72 && told[39..].iter().all(|x| *x == 0.0));
}

#[test]
fn attributes_are_those_of_the_instance() {
    let mesh = scenes::ball(6);
    let mut instances = Vec::new();
    for i in 0..20u32 {
        let mut instance = scenes::place(&mesh, scenes::at([1.0; 3], [i as f32 * 0.1, 0.0, 0.0]));
        instance.attributes = (0..i * 2).map(|a| (100 * i + a) as f32).collect();
        instances.push(instance);
        instances.push(scenes::place(&Arc::new(Mesh::new(vec![], None, None, None).unwrap()), scenes::IDENTITY));
    }
    let sink = build(&instances, Options::default());
    let mut counts = [0; 20];
    for triangle in sink.triangles.chunks_exact(288) {
        let attributes = floats(&triangle[128..]);
        let which = (attributes[0] / 100.0) as usize;
        counts[which] += 1;
        for (at, told) in attributes.into_iter().enumerate() {
            let expected = if at < which * 2 { (100 * which + at) as f32 } else { 0.0 };
            assert_eq!(told, expected);
        }
    }
    assert!(counts.into_iter().all(|c| c == mesh.indices().len()));
}

#[test]
fn normals_go_by_the_inverse_transpose() {
    let normal = |scale: [f32; 3], n: [f32; 3]| one(scenes::at(scale, [0.0; 3]), n)[12..15].to_vec();
    let near = |told: Vec<f32>, expected: [f32; 3]| {
        assert!(told.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{told:?} {expected:?}");
    };
    let half = 0.5f32.sqrt();
    near(normal([2.0, 1.0, 1.0], [2.0, 1.0, 0.0]), [half, half, 0.0]);
    near(normal([-1.0, 1.0, 1.0], [1.0, 1.0, 0.0]), [-half, half, 0.0]);
    near(normal([-1.0; 3], [0.0, 0.0, 1.0]), [0.0, 0.0, -1.0]);
    // What is pressed flat faces along the axis that is gone.
    near(normal([1.0, 0.0, 1.0], [1.0, 1.0, 1.0]), [0.0, 1.0, 0.0]);
    near(normal([1.0, 0.0, 0.0], [1.0, 1.0, 1.0]), [0.0; 3]);
    near(normal([0.0; 3], [1.0, 1.0, 1.0]), [0.0; 3]);
    for scale in [1e-30, 1e-18, 1e10, 1e30] {
        near(normal([scale; 3], [3.0, 0.0, 4.0]), [0.6, 0.0, 0.8]);
        near(normal([1.0; 3], [3.0 * scale, 0.0, 4.0 * scale]), [0.6, 0.0, 0.8]);
    }
    for bad in [f32::NAN, f32::INFINITY] {
        near(normal([1.0; 3], [bad, 0.0, 1.0]), [0.0; 3]);
        near(normal([bad, 1.0, 1.0], [1.0, 0.0, 1.0]), [0.0; 3]);
    }
}
