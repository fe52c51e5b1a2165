//! The ruin of `hierarchy.luau` without a hierarchy: every ray against every triangle.

use super::pictures::{Vec3, add, compare, dot, normalize, scale};
use super::{Output, folder};
use glam::{Mat3, Mat4};

struct Corner {
    p: Vec3,
    n: Vec3,
}

struct Triangle {
    corners: [Corner; 3],
    color: Vec3,
}

fn sub(a: Vec3, b: Vec3) -> Vec3 {
    add(a, scale(b, -1.0))
}
fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// Puts a triangle of a model into the world.
fn place(corners: [Corner; 3], transform: &Mat4, color: Vec3) -> Triangle {
    let normal = Mat3::from_mat4(*transform).inverse().transpose();
    let to = |Corner { p, n }: Corner| Corner {
        p: transform.transform_point3(p.into()).to_array(),
        n: (normal * glam::Vec3::from(n)).normalize().to_array(),
    };
    Triangle { corners: corners.map(to), color }
}

fn gltf(name: &str, world: &Mat4, color: Vec3, to: &mut Vec<Triangle>) {
    fn walk(node: &gltf::Node<'_>, above: &Mat4, data: &[gltf::buffer::Data], put: &mut dyn FnMut([Corner; 3], &Mat4)) {
        let here = *above * Mat4::from_cols_array_2d(&node.transform().matrix());
        for primitive in node.mesh().iter().flat_map(gltf::Mesh::primitives) {
            let reader = primitive.reader(|buffer| Some(&*data[buffer.index()].0));
            let p: Vec<Vec3> = reader.read_positions().unwrap().collect();
            let n: Vec<Vec3> = reader.read_normals().unwrap().collect();
            let indices: Vec<usize> = reader.read_indices().unwrap().into_u32().map(|i| i as usize).collect();
            for t in indices.chunks(3) {
                put([0, 1, 2].map(|k| Corner { p: p[t[k]], n: n[t[k]] }), &here);
            }
        }
        node.children().for_each(|child| walk(&child, &here, data, put));
    }
    let bytes = std::fs::read(folder().join("assets/meshes").join(name)).unwrap();
    let file = gltf::Gltf::from_slice(&bytes).unwrap();
    let data = [gltf::buffer::Data(file.blob.clone().unwrap())];
    for node in file.default_scene().unwrap().nodes() {
        walk(&node, world, &data, &mut |corners, at| to.push(place(corners, at, color)));
    }
}

/// Positions and normals of a file whose faces name both.
fn obj(name: &str, world: &Mat4, color: Vec3, to: &mut Vec<Triangle>) {
    let text = std::fs::read_to_string(folder().join("assets/meshes").join(name)).unwrap();
    let (mut p, mut n): (Vec<Vec3>, Vec<Vec3>) = Default::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let three = || [1, 2, 3].map(|i| words[i].parse::<f32>().unwrap());
        match words.first() {
            Some(&"v") => p.push(three()),
            Some(&"vn") => n.push(three()),
            Some(&"f") => {
                let corner = |word: &str| {
                    let at = |i: usize| word.split('/').nth(i).unwrap().parse::<usize>().unwrap() - 1;
                    Corner { p: p[at(0)], n: n[at(2)] }
                };
                for k in 2..words.len() - 1 {
                    to.push(place([corner(words[1]), corner(words[k]), corner(words[k + 1])], world, color));
                }
            }
            _ => {}
        }
    }
}

/// The nearest triangle that a ray meets, how far away, and the weights of its corners.
fn nearest(scene: &[Triangle], origin: Vec3, direction: Vec3, any: bool) -> Option<(&Triangle, f32, [f32; 3])> {
    let mut found: Option<(&Triangle, f32, [f32; 3])> = None;
    for triangle in scene {
        let [a, b, c] = triangle.corners.each_ref().map(|corner| corner.p);
        let (ab, ac, from) = (sub(b, a), sub(c, a), sub(origin, a));
        let p = cross(direction, ac);
        let q = cross(from, ab);
        let inverse = 1.0 / dot(ab, p);
        let (u, v, t) = (dot(from, p) * inverse, dot(direction, q) * inverse, dot(ac, q) * inverse);
        if u >= 0.0 && v >= 0.0 && u + v <= 1.0 && t > 0.0 && t < found.as_ref().map_or(1e30, |f| f.1) {
            found = Some((triangle, t, [1.0 - u - v, u, v]));
            if any {
                break;
            }
        }
    }
    found
}

pub fn ruin(out: &Output) {
    let mut scene = Vec::new();
    let rows = |m: [f32; 12]| {
        Mat4::from_cols_array(&[
            m[0], m[4], m[8], 0.0, m[1], m[5], m[9], 0.0, m[2], m[6], m[10], 0.0, m[3], m[7], m[11], 1.0,
        ])
    };
    gltf("temple.glb", &Mat4::IDENTITY, [0.85, 0.78, 0.66], &mut scene);
    let hanging = rows([0.8, 0.0, 0.0, 0.2, 0.0, 0.8, 0.0, 1.0, 0.0, 0.0, 0.8, 0.0]);
    obj("knot.obj", &hanging, [0.8, 0.33, 0.2], &mut scene);
    let ground = rows([30.0, 0.0, 0.0, -15.0, 0.0, 0.0, 1.0, -0.3, 0.0, -30.0, 0.0, 15.0]);
    obj("quad.obj", &ground, [0.42, 0.5, 0.28], &mut scene);
    let lying = rows([-0.4, 0.0, 0.0, -1.6, 0.0, 0.0, 0.4, -0.1, 0.0, 0.4, 0.0, 3.0]);
    obj("knot.obj", &lying, [0.25, 0.5, 0.75], &mut scene);
    assert_eq!(out.text("triangles"), scene.len().to_string());

    let (width, height) = (320.0, 240.0);
    let (sun, eye) = ([0.814, 0.458, 0.357], [5.0, 3.4, 7.5]);
    let ahead = normalize(sub([0.0, 0.6, 0.0], eye));
    let right = normalize(cross(ahead, [0.0, 1.0, 0.0]));
    let up = cross(right, ahead);
    let distance = compare(out, 8, |x, y| {
        let at = [(x as f32 + 0.5 - 0.5 * width) * 0.8284 / height, (y as f32 + 0.5 - 0.5 * height) * 0.8284 / height];
        let direction = normalize(add(ahead, sub(scale(right, at[0]), scale(up, at[1]))));
        let color = match nearest(&scene, eye, direction, false) {
            None => {
                let high = (2.5 * direction[1] + 0.6).clamp(0.0, 1.0);
                add(scale([0.93, 0.74, 0.55], 1.0 - high), scale([0.35, 0.5, 0.72], high))
            }
            Some((triangle, t, weights)) => {
                let [a, b, c] = triangle.corners.each_ref().map(|corner| corner.n);
                let mut n = normalize(add(add(scale(a, weights[0]), scale(b, weights[1])), scale(c, weights[2])));
                if dot(n, direction) > 0.0 {
                    n = scale(n, -1.0);
                }
                let point = add(add(eye, scale(direction, t)), scale(n, 2e-3));
                let mut lit = dot(n, sun).max(0.0);
                if lit > 0.0 && nearest(&scene, point, sun, true).is_some() {
                    lit = 0.0;
                }
                let light = add(scale([0.2, 0.24, 0.32], 0.65 + 0.35 * n[1]), scale([1.0, 0.9, 0.72], lit));
                [0, 1, 2].map(|i| triangle.color[i] * light[i])
            }
        };
        color.map(f32::sqrt)
    });
    // Rays that graze an edge fall to either side of it.
    assert!(distance.mean < 0.3 && distance.off < 0.005, "{} {}", distance.mean, distance.off);
}
