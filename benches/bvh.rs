//! Builds hierarchies over a million triangles, in one interleaved run with `obvhs`, and measures their quality, also
//! against that of a plain builder. `cargo bench --bench bvh -- [--quick] [SCENE]`
//!
//! Times on one thread are its processor time, as wall time also tells of the neighbours, and the least of all rounds
//! counts; of the longest slices and units the longest one is told too. The gain of a second thread is of wall times.
//! "Tree" is all from the placed meshes to the final order of nodes and triangles; for obvhs from its triangles, which
//! are placed already. Quality is measured by one traversal for all, that of `ashfall::bvh::trace`.

#![allow(clippy::unwrap_used, reason = "benches")]

#[path = "bvh/plain.rs"]
mod plain;
#[path = "bvh/scenes.rs"]
mod scenes;

use ashfall::bvh::trace::{Ray, View, Visits};
use ashfall::bvh::{Build, Instance, LEAF, Limits, Options, Phase, Progress, Sink, Stream, TRIANGLE_BYTES, VecSink};
use glam::Vec3A;
use obvhs::bvh2::{Bvh2, builder::build_bvh2_from_tris, node::Bvh2Node};
use obvhs::{BvhBuildParams, triangle::Triangle};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all memory is the system's; only sizes are noted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(LIVE.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        PEAK.fetch_max(LIVE.fetch_add(size, Relaxed) + size - layout.size(), Relaxed);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Processor time of this thread, in milliseconds.
fn thread_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 * 1e-6
}

/// Lends the same memory over and over, as a staging ring does.
struct Ring(Vec<u8>);

impl Sink for Ring {
    fn lend(&mut self, _: Stream, _: u64, len: usize) -> Option<&mut [u8]> {
        self.0.get_mut(..len)
    }
}

fn start(instances: &[Instance]) -> Build {
    Build::new(instances.to_vec(), Options::default(), Limits::default()).unwrap()
}

/// Times of one build on one thread, in ms: the tree, and all of it.
fn one_shot(instances: &[Instance], ring: &mut Ring) -> [f64; 2] {
    let mut build = start(instances);
    let begun = thread_ms();
    let mut tree = f64::INFINITY;
    // A unit at a time, which costs a clock a unit: a slice would run past the end of the tree.
    while build.step(Duration::ZERO, ring).unwrap() != Progress::Ready {
        if tree.is_infinite() && build.stats().phase > Phase::Serialize {
            tree = thread_ms() - begun;
        }
    }
    [tree, thread_ms() - begun]
}

fn wall(instances: &[Instance], threads: usize, ring: &mut Ring) -> f64 {
    let mut build = start(instances);
    let begun = Instant::now();
    build.run(threads, ring).unwrap();
    begun.elapsed().as_secs_f64() * 1e3
}

/// Calls of one build with a budget, in ms of this thread.
struct Slices {
    longest: f64,
    sum: f64,
    count: u64,
}

fn sliced(instances: &[Instance], budget: Duration, ring: &mut Ring) -> Slices {
    let mut build = start(instances);
    let mut all = Slices { longest: 0.0, sum: 0.0, count: 0 };
    let mut progress = Progress::Pending;
    while progress != Progress::Ready {
        let begun = thread_ms();
        progress = build.step(budget, ring).unwrap();
        let took = thread_ms() - begun;
        all = Slices { longest: all.longest.max(took), sum: all.sum + took, count: all.count + 1 };
    }
    all
}

fn peak(instances: &[Instance], ring: &mut Ring) -> f64 {
    let mut build = start(instances);
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    build.step(Duration::MAX, ring).unwrap();
    (PEAK.load(Relaxed) - before) as f64 / f64::from(build.sizes().triangles)
}

fn obvhs_tree(triangles: &[Triangle], params: BvhBuildParams) -> (Bvh2, f64) {
    let begun = thread_ms();
    let tree = build_bvh2_from_tris(triangles, params, &mut Duration::default());
    (tree, thread_ms() - begun)
}

/// Another builder's tree: boxes and words as [`ashfall::bvh`] has them, and its triangles from the first leaf's on.
pub struct Shaped {
    nodes: Vec<([Vec3A; 2], [u32; 2])>,
    order: Vec<u32>,
}

impl From<&Bvh2> for Shaped {
    fn from(tree: &Bvh2) -> Self {
        let node = |n: &Bvh2Node| {
            let first = n.first_index;
            let second = if n.is_leaf() { LEAF | n.prim_count } else { first + 1 };
            ([n.aabb().min, n.aabb().max], [first, second])
        };
        Self { nodes: tree.nodes.iter().map(node).collect(), order: tree.primitive_indices.clone() }
    }
}

/// The bytes that shaders would read of another builder's tree.
fn bytes_of(tree: &Shaped, triangles: &[Triangle]) -> VecSink {
    let mut sink = VecSink::new();
    for ([low, high], [first, second]) in &tree.nodes {
        let [low, high] = [low, high].map(|corner| corner.to_array().map(f32::to_bits));
        let words = [low[0], low[1], low[2], *first, high[0], high[1], high[2], *second];
        sink.nodes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    }
    sink.triangles = vec![0; triangles.len() * TRIANGLE_BYTES as usize];
    for (to, index) in sink.triangles.chunks_exact_mut(TRIANGLE_BYTES as usize).zip(&tree.order) {
        let t = &triangles[*index as usize];
        for (to, corner) in to.chunks_exact_mut(16).zip([t.v0, t.v1, t.v2]) {
            to[..12].copy_from_slice(bytemuck::cast_slice(&corner.to_array()));
        }
    }
    sink
}

/// What a tree is like.
struct Shape {
    /// A visit and a test cost 1 each, in areas of the root.
    sah: f64,
    depth: u32,
    nodes: usize,
}

fn shape(sink: &VecSink) -> Shape {
    let node = |n: usize| -> [u32; 8] {
        let mut words = [0; 8];
        let bytes = sink.nodes[32 * n..32 * n + 32].chunks_exact(4);
        words.iter_mut().zip(bytes).for_each(|(w, b)| *w = u32::from_le_bytes(b.try_into().unwrap()));
        words
    };
    let area = |w: &[u32; 8]| {
        let [x, y, z] = [0, 1, 2].map(|a| f64::from(f32::from_bits(w[4 + a])) - f64::from(f32::from_bits(w[a])));
        x * y + y * z + z * x
    };
    let (mut sum, mut depth) = (0.0, 0);
    let mut stack = vec![(0usize, 0u32)];
    while let Some((n, at)) = stack.pop() {
        let words = node(n);
        depth = depth.max(at);
        if words[7] & LEAF == 0 {
            sum += area(&words);
            stack.extend([(words[3] as usize, at + 1), (words[7] as usize, at + 1)]);
        } else {
            sum += area(&words) * f64::from(words[7] ^ LEAF);
        }
    }
    Shape { sah: sum / area(&node(0)), depth, nodes: sink.nodes.len() / 32 }
}

/// Rays from a camera, and from where those hit.
fn rays(sink: &VecSink, side: usize) -> [Vec<Ray>; 2] {
    let view = View::new(&sink.nodes, &sink.triangles);
    let mut random = scenes::Random(7);
    let [mut primary, mut bounce] = [Vec::new(), Vec::new()];
    for _ in 0..200 {
        let eye = [-0.3, 0.02, -0.3].map(|low| random.within(low, if low > 0.0 { 0.5 } else { 1.3 }));
        let aim = [0.0; 3].map(|low| random.within(low, 1.0) - 0.5);
        for pixel in 0..side * side {
            let [x, y] = [pixel % side, pixel / side].map(|p| (p as f32 + 0.5) / side as f32 - 0.5);
            // Towards somewhere near the middle, wide.
            let to = [0.5 + 0.6 * aim[0] - eye[0], 0.15 + 0.2 * aim[1] - eye[1], 0.5 + 0.6 * aim[2] - eye[2]];
            let across = [to[2] * x * 1.3, -y * 1.3 * (to[0] * to[0] + to[2] * to[2]).sqrt(), -to[0] * x * 1.3];
            let ray = Ray::new(eye, [0, 1, 2].map(|a| to[a] + across[a]));
            primary.push(ray);
            let Some(hit) = view.closest(&ray, &mut Visits::default()) else { continue };
            let at = [0, 1, 2].map(|a| ray.origin[a] + ray.direction[a] * hit.distance * 0.9999);
            let Some([a, b, c]) = view.corners(hit.triangle) else { continue };
            let (u, v) = ([0, 1, 2].map(|i| b[i] - a[i]), [0, 1, 2].map(|i| c[i] - a[i]));
            let n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
            let length = (n[0] * n[0] + n[1] * n[1] + n[2] * n[2]).sqrt().max(1e-30);
            let facing = (0..3).map(|i| n[i] * ray.direction[i]).sum::<f32>();
            let sign = if facing > 0.0 { -1.0 } else { 1.0 } / length;
            let d = random.direction();
            bounce.push(Ray::new(at, [0, 1, 2].map(|i| d[i] + n[i] * sign)));
        }
    }
    [primary, bounce]
}

/// Nodes and triangles visited per ray, and nanoseconds.
fn visits(sink: &VecSink, rays: &[Ray]) -> [f64; 3] {
    let view = View::new(&sink.nodes, &sink.triangles);
    let mut visits = Visits::default();
    let begun = thread_ms();
    for ray in rays {
        std::hint::black_box(view.closest(ray, &mut visits));
    }
    [visits.nodes as f64, visits.triangles as f64, (thread_ms() - begun) * 1e6].map(|n| n / rays.len() as f64)
}

/// The least of all times of each row.
struct Times<const N: usize>([f64; N]);

impl<const N: usize> Times<N> {
    fn note(&mut self, times: [f64; N]) {
        self.0.iter_mut().zip(times).for_each(|(least, time)| *least = least.min(time));
    }
}

fn print_times(instances: &[Instance], triangles: &[Triangle], rounds: usize) {
    let mut ring = Ring(vec![0; 8 << 20]);
    let mut times = Times([f64::INFINITY; 9]);
    let mut slices = 0;
    let mut worst = [0f64; 2];
    for _ in 0..rounds {
        let [tree, units] = one_shot(instances, &mut ring);
        let fast = obvhs_tree(triangles, BvhBuildParams::fast_build()).1;
        let medium = obvhs_tree(triangles, BvhBuildParams::medium_build()).1;
        let [one, two] = [1, 2].map(|threads| wall(instances, threads, &mut ring));
        let slice = sliced(instances, Duration::from_millis(4), &mut ring);
        let unit = sliced(instances, Duration::ZERO, &mut ring);
        slices = slice.count;
        worst = [worst[0].max(slice.longest), worst[1].max(unit.longest)];
        times.note([tree, fast, medium, units, slice.sum, one, two, slice.longest, unit.longest]);
    }
    let [tree, fast, medium, units, sum, one, two, slice, unit] = times.0;
    let speed = |ms: f64| triangles.len() as f64 / ms / 1e3;
    println!(
        "  tree, Mtriangles/s: {:.2}; obvhs fast {:.2} ({:.2}x), medium {:.2} ({:.2}x)",
        speed(tree),
        speed(fast),
        fast / tree,
        speed(medium),
        medium / tree,
    );
    println!(
        "  all, ms: {units:.0} by units, {sum:.0} in slices; wall {one:.0} on one thread, {two:.0} on two ({:.2}x)",
        one / two,
    );
    println!(
        "  longest of {slices} slices of 4 ms: {slice:.2} ms in the best round, {:.2} in the worst; longest unit \
         {unit:.2} and {:.2} ms",
        worst[0], worst[1],
    );
    println!("  peak {:.1} bytes a triangle", peak(instances, &mut ring));
}

fn print_quality(instances: &[Instance], triangles: &[Triangle], side: usize) {
    let mut ours = VecSink::new();
    start(instances).run(2, &mut ours).unwrap();
    let rays = rays(&ours, side);
    println!("  {} rays from cameras, {} from where those hit", rays[0].len(), rays[1].len());
    let print = |name: &str, sink: &VecSink| {
        let Shape { sah, depth, nodes } = shape(sink);
        let [primary, bounce] = [&rays[0], &rays[1]].map(|r| visits(sink, r));
        println!(
            "  {name:<12} SAH {sah:7.2}  nodes/ray {:6.2} {:6.2}  triangles/ray {:5.2} {:5.2}  ns/ray {:5.0} {:5.0}  \
             depth {depth}  nodes {nodes}",
            primary[0], bounce[0], primary[1], bounce[1], primary[2], bounce[2],
        );
    };
    print("ours", &ours);
    print("plain", &bytes_of(&plain::build(triangles), triangles));
    for (name, params) in
        [("obvhs fast", BvhBuildParams::fast_build()), ("obvhs medium", BvhBuildParams::medium_build())]
    {
        print(name, &bytes_of(&Shaped::from(&obvhs_tree(triangles, params).0), triangles));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|a| a == "--quick");
    let only = arguments.iter().find(|a| !a.starts_with("--"));
    let (count, rounds) = if quick { (100_000, 3) } else { (1_000_000, 5) };
    for (name, make) in scenes::ALL {
        if only.is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let instances = make(count);
        let triangles = scenes::placed(&instances);
        println!("{name}: {} triangles", triangles.len());
        print_times(&instances, &triangles, rounds);
        print_quality(&instances, &triangles, if quick { 8 } else { 24 });
    }
}
