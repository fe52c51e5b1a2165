//! The bytes do not depend on how the work is cut.

use super::scenes::{self, Random};
use super::*;

fn start(instances: &[Instance]) -> Build {
    Build::new(instances.to_vec(), Options::default(), Limits::default()).unwrap()
}

/// Refuses at random, and lends short blocks.
struct Fickle {
    inner: VecSink,
    random: Random,
}

impl Sink for Fickle {
    fn lend(&mut self, stream: Stream, offset: u64, len: usize) -> Option<&mut [u8]> {
        assert!(len <= 256 << 10 && len > 0);
        let len = match self.random.word() % 4 {
            0 => return None,
            1 => len,
            _ => self.random.word() as usize % (len + 1),
        };
        self.inner.lend(stream, offset, len)
    }
}

fn large() -> Vec<Instance> {
    let mut all = scenes::balls(40, 20);
    all.extend(scenes::rooms(200));
    all.push(scenes::place(&scenes::terrain(60), scenes::at([3.0, 1.0, 3.0], [-1.5, -1.0, -1.5])));
    all
}

#[test]
fn slices_and_one_shot_agree() {
    let mut scenes = scenes::all();
    scenes.push(("large", large()));
    for (name, instances) in scenes {
        let whole = build(&instances, Options::default());
        for budget in [Duration::ZERO, Duration::from_micros(100), Duration::from_millis(1)] {
            let mut build = start(&instances);
            let mut sink = VecSink::new();
            let mut last = build.stats();
            let mut steps = 0;
            while build.step(budget, &mut sink).unwrap() != Progress::Ready {
                let stats = build.stats();
                assert!(stats.phase as u8 >= last.phase as u8 && stats.units > last.units, "{name}");
                assert!(!budget.is_zero() || stats.units == last.units + 1, "{name}: one unit for no time");
                last = stats;
                steps += 1;
                assert!(steps < 100_000, "{name} does not end");
            }
            assert!(sink == whole, "{name} at {budget:?}");
            let (stats, sizes) = (build.stats(), build.sizes());
            assert_eq!(stats.phase.name(), "ready");
            assert_eq!(stats.uploaded, sizes.triangle_bytes + sizes.node_bytes.unwrap());
            assert_eq!(sizes.node_bytes.unwrap(), sink.nodes.len() as u64);
            assert_eq!((stats.triangles, sizes.triangle_bytes), (sizes.triangles, sink.triangles.len() as u64));
            assert_eq!(build.step(budget, &mut sink).unwrap(), Progress::Ready);
            assert!(sink == whole && build.stats() == stats, "{name}: a step after the end");
        }
        for threads in [1, 2, 3] {
            let mut sink = VecSink::new();
            assert_eq!(start(&instances).run(threads, &mut sink).unwrap(), Progress::Ready);
            assert!(sink == whole, "{name} on {threads} threads");
        }
    }
}

#[test]
fn a_sink_that_refuses_loses_nothing() {
    let instances = large();
    let whole = build(&instances, Options::default());
    for seed in 0..4 {
        let mut sink = Fickle { inner: VecSink::new(), random: Random(seed) };
        let mut build = start(&instances);
        let mut stalls = 0;
        loop {
            match build.step(Duration::from_micros(50 * u64::from(seed)), &mut sink).unwrap() {
                Progress::Ready => break,
                Progress::Stalled => stalls += 1,
                Progress::Pending => {}
            }
        }
        assert!(stalls > 0);
        assert!(sink.inner == whole);
    }
    let mut sink = Fickle { inner: VecSink::new(), random: Random(9) };
    let mut build = start(&instances);
    while build.run(1, &mut sink).unwrap() == Progress::Stalled {}
    assert!(sink.inner == whole);
}

#[test]
fn a_started_build_can_be_run_to_its_end() {
    let instances = large();
    let whole = build(&instances, Options::default());
    for steps in [1, 5, 20, 60, 100] {
        let (mut build, mut sink) = (start(&instances), VecSink::new());
        for _ in 0..steps {
            build.step(Duration::ZERO, &mut sink).unwrap();
        }
        assert_eq!(build.run(2, &mut sink).unwrap(), Progress::Ready);
        assert!(sink == whole, "after {steps} steps");
    }
}

#[test]
fn units_are_bounded() {
    let mut scenes = scenes::all();
    scenes.push(("large", large()));
    scenes.push(("equal", scenes::triangles(vec![[[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]; 50_000])));
    scenes.push(("nothing", Vec::new()));
    let nothing = Arc::new(Mesh::new(Vec::new(), None, None, None).unwrap());
    let small = scenes::triangles(vec![[[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]);
    let many =
        (0..30_000).map(|i| if i % 2 == 0 { small[0].clone() } else { scenes::place(&nothing, scenes::IDENTITY) });
    scenes.push(("many instances", many.collect()));
    for (name, instances) in scenes {
        let mut build = start(&instances);
        let mut sink = VecSink::new();
        while build.step(Duration::ZERO, &mut sink).unwrap() != Progress::Ready {}
        let largest = build.stats().largest_unit;
        assert!(largest <= 3 * UNIT, "{name}: {largest}");
    }
}

#[test]
fn a_build_can_be_dropped_or_cancelled_at_any_time() {
    let instances = large();
    let mut units = 0;
    loop {
        let (mut build, mut sink) = (start(&instances), VecSink::new());
        let mut last = Progress::Pending;
        for _ in 0..units {
            last = build.step(Duration::ZERO, &mut sink).unwrap();
        }
        if units % 2 == 0 {
            drop(build);
        } else {
            let mut remains = build.cancel();
            while !remains.step(Duration::ZERO) {}
            assert!(remains.step(Duration::ZERO));
        }
        if last == Progress::Ready {
            break;
        }
        units += 7;
    }
}

#[test]
fn phases_come_in_the_order_of_their_table() {
    for (at, (phase, name)) in Phase::ALL.into_iter().enumerate() {
        assert_eq!(phase as usize, at);
        assert_eq!(phase.name(), name);
    }
}
