//! Meshes to build over.

use super::*;

/// Numbers that look random: PCG, as the shaders have it.
pub(super) struct Random(pub(super) u32);

impl Random {
    pub(super) fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let word = ((self.0 >> ((self.0 >> 28) + 4)) ^ self.0).wrapping_mul(277_803_737);
        (word >> 22) ^ word
    }

    pub(super) fn unit(&mut self) -> f32 {
        (self.word() >> 8) as f32 / 16_777_216.0
    }

    pub(super) fn within(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    pub(super) fn point(&mut self, size: f32) -> [f32; 3] {
        [0; 3].map(|_| self.within(-size, size))
    }
}

pub(super) const IDENTITY: [f32; 16] = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];

pub(super) fn place(mesh: &Arc<Mesh>, transform: [f32; 16]) -> Instance {
    Instance { mesh: Arc::clone(mesh), transform, attributes: Attributes::new() }
}

pub(super) fn at(scale: [f32; 3], [x, y, z]: [f32; 3]) -> [f32; 16] {
    let [a, b, c] = scale;
    [a, 0.0, 0.0, x, 0.0, b, 0.0, y, 0.0, 0.0, c, z, 0.0, 0.0, 0.0, 1.0]
}

/// Triangles of their own corners.
pub(super) fn triangles(corners: Vec<[[f32; 3]; 3]>) -> Vec<Instance> {
    let mesh = Mesh::new(corners.into_iter().flatten().collect(), None, None, None).unwrap();
    vec![place(&Arc::new(mesh), IDENTITY)]
}

pub(super) fn soup(count: usize, size: f32, seed: u32) -> Vec<Instance> {
    let mut random = Random(seed);
    let one = |_| {
        let centre = random.point(1.0);
        [0; 3].map(|_| {
            let p = random.point(size);
            [centre[0] + p[0], centre[1] + p[1], centre[2] + p[2]]
        })
    };
    triangles((0..count).map(one).collect())
}

pub(super) fn terrain(side: usize) -> Arc<Mesh> {
    let height = |x: usize, z: usize| {
        let (x, z) = (x as f32 / side as f32, z as f32 / side as f32);
        0.1 * (7.0 * x).sin() * (5.0 * z).cos() + 0.01 * (61.0 * x + 43.0 * z).sin()
    };
    let points = (0..=side).flat_map(|z| (0..=side).map(move |x| (x, z)));
    let positions = points.map(|(x, z)| [x as f32 / side as f32, height(x, z), z as f32 / side as f32]).collect();
    let quad = |x: usize, z: usize| {
        let a = (z * (side + 1) + x) as u32;
        let b = a + side as u32 + 1;
        [[a, b, a + 1], [a + 1, b, b + 1]]
    };
    let indices = (0..side).flat_map(|z| (0..side).flat_map(move |x| quad(x, z))).collect();
    Arc::new(Mesh::new(positions, None, None, Some(indices)).unwrap())
}

/// A unit ball.
pub(super) fn ball(rings: usize) -> Arc<Mesh> {
    let around = 2 * rings;
    let point = |ring: usize, step: usize| {
        let (a, b) =
            (ring as f32 / rings as f32 * std::f32::consts::PI, step as f32 / around as f32 * std::f32::consts::TAU);
        [a.sin() * b.cos(), a.cos(), a.sin() * b.sin()]
    };
    let positions = (0..=rings).flat_map(|r| (0..=around).map(move |s| point(r, s))).collect();
    let quad = |r: usize, s: usize| {
        let a = (r * (around + 1) + s) as u32;
        let b = a + around as u32 + 1;
        [[a, b, a + 1], [a + 1, b, b + 1]]
    };
    let indices = (0..rings).flat_map(|r| (0..around).flat_map(move |s| quad(r, s))).collect();
    Arc::new(Mesh::new(positions, None, None, Some(indices)).unwrap())
}

pub(super) fn balls(count: usize, rings: usize) -> Vec<Instance> {
    let mesh = ball(rings);
    let mut random = Random(5);
    (0..count)
        .map(|_| {
            let scale = [0; 3].map(|_| random.within(0.02, 0.3));
            place(&mesh, at(scale, random.point(1.0)))
        })
        .collect()
}

/// Walls and beams of two triangles a side, beside fine things.
pub(super) fn rooms(count: usize) -> Vec<Instance> {
    let cube = Arc::new(
        Mesh::new(
            (0..8).map(|i| [0, 1, 2].map(|a| if i >> a & 1 == 1 { 1.0 } else { 0.0 })).collect(),
            None,
            None,
            Some(vec![
                [0, 1, 3],
                [0, 3, 2],
                [4, 7, 5],
                [4, 6, 7],
                [0, 5, 1],
                [0, 4, 5],
                [2, 3, 7],
                [2, 7, 6],
                [0, 2, 6],
                [0, 6, 4],
                [1, 5, 7],
                [1, 7, 3],
            ]),
        )
        .unwrap(),
    );
    let mut random = Random(11);
    let mut all = balls(3, 12);
    for _ in 0..count {
        let mut scale = [0; 3].map(|_| random.within(0.005, 0.02));
        let long = random.word() as usize % 3;
        scale[long] = random.within(0.3, 1.5);
        if random.unit() < 0.3 {
            scale[(long + 1) % 3] = random.within(0.3, 1.5);
        }
        all.push(place(&cube, at(scale, random.point(1.0))));
    }
    all
}

/// Every kind, a few thousand triangles each.
pub(super) fn all() -> Vec<(&'static str, Vec<Instance>)> {
    vec![
        ("terrain", vec![place(&terrain(40), IDENTITY)]),
        ("balls", balls(12, 10)),
        ("rooms", rooms(150)),
        ("soup", soup(3000, 0.05, 1)),
        ("large soup", soup(700, 0.8, 2)),
        ("long soup", {
            let mut all = soup(3000, 0.3, 3);
            all[0].transform = at([1.0, 0.01, 20.0], [3.0, -4.0, 100.0]);
            all
        }),
        ("mirrored terrain", vec![place(&terrain(30), at([-1.0, 1.0, 1.0], [0.0; 3]))]),
        ("flattened balls", {
            let mut all = balls(10, 8);
            all.iter_mut().for_each(|i| i.transform[5] = 0.0);
            all
        }),
    ]
}
