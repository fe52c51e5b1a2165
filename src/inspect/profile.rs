//! GPU time by label, from the timestamps of one frame. Pure: ticks in, milliseconds out.
//!
//! A timestamp is taken where a level begins, behind the barrier that the level waits for, and one at the frame's end.
//! There is none behind each dispatch: to know when a dispatch ends, some devices end it before the next begins. (On an
//! NVIDIA H200, 32 independent dispatches took 15.6 ms, and 246 ms with a timestamp behind each.) So what is measured is a
//! level. The time of a level whose dispatches have one label is that label's; where several labels run side by side, it
//! is shared out by the invocations of each, and a row says how much of its time came that way.

use hashbrown::HashMap;

/// Dispatches of one label in one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Counted from 0.
    pub level: u32,
    /// Index of the label.
    pub label: u32,
    pub dispatches: u32,
    pub invocations: u64,
}

/// GPU time of one frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuFrame {
    /// The frame's number.
    pub frame: u64,
    /// Milliseconds from the beginning of the first level to the end of the last, copies and barriers included.
    pub ms: f64,
    /// One row a label, the most expensive first. Their sum is `ms` less the levels that only copy.
    pub rows: Vec<GpuFrameRow>,
}

/// The dispatches of one label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuFrameRow {
    /// The program's label.
    pub label: String,
    /// How many ran in the frame.
    pub dispatches: u32,
    /// Milliseconds they took together.
    pub ms: f64,
    /// How much of `ms` is a share, by invocations, of levels in which other labels ran as well.
    pub shared_ms: f64,
}

impl GpuFrame {
    /// From the ticks at which each level began and the last one ended, `bits` of which count, and the work in order of
    /// its levels.
    pub(crate) fn new(
        frame: u64,
        ticks: &[u64],
        work: &[Work],
        bits: u32,
        ns_per_tick: f64,
        labels: &[String],
    ) -> Self {
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let ms = |from: u64, to: u64| {
            let passed = to.wrapping_sub(from) & mask;
            // Some devices let a later stamp be a little earlier; the difference is then a huge number.
            if passed > mask / 2 { 0.0 } else { passed as f64 * ns_per_tick / 1e6 }
        };
        let mut rows: HashMap<&str, GpuFrameRow> = HashMap::new();
        for level in work.chunk_by(|a, b| a.level == b.level) {
            let at = level[0].level as usize;
            let time = match ticks.get(at..=at + 1) {
                Some([from, to]) => ms(*from, *to),
                _ => 0.0,
            };
            let alone = level.iter().all(|w| w.label == level[0].label);
            let all = level.iter().map(|w| w.invocations as f64).sum::<f64>().max(1.0);
            for w in level {
                let row = rows.entry(labels.get(w.label as usize).map_or("", String::as_str)).or_default();
                let share = time * w.invocations as f64 / all;
                row.dispatches += w.dispatches;
                row.ms += share;
                row.shared_ms += if alone { 0.0 } else { share };
            }
        }
        let named = |(label, row): (&str, GpuFrameRow)| GpuFrameRow { label: label.to_owned(), ..row };
        let mut rows: Vec<GpuFrameRow> = rows.into_iter().map(named).collect();
        rows.sort_by(|a, b| b.ms.total_cmp(&a.ms).then_with(|| a.label.cmp(&b.label)));
        let total = match (ticks.first(), ticks.last()) {
            (Some(first), Some(last)) => ms(*first, *last),
            _ => 0.0,
        };
        Self { frame, ms: total, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, dispatches: u32, ms: f64, shared_ms: f64) -> GpuFrameRow {
        GpuFrameRow { label: label.into(), dispatches, ms, shared_ms }
    }

    fn work(level: u32, label: u32, dispatches: u32, invocations: u64) -> Work {
        Work { level, label, dispatches, invocations }
    }

    #[test]
    fn a_level_is_its_labels_and_is_shared_out_by_invocations() {
        let labels = ["a".to_owned(), "b".to_owned()];
        // Level 1 only copies; in level 2 "a" comes in two parts.
        let work = [work(0, 0, 2, 128), work(2, 0, 1, 100), work(2, 1, 3, 200), work(2, 0, 1, 100), work(3, 1, 1, 1)];
        let ticks = [1000, 1500, 4000, 4400, 4500];
        let timed = GpuFrame::new(7, &ticks, &work, 64, 1e6, &labels);
        assert_eq!(
            timed,
            GpuFrame { frame: 7, ms: 3500.0, rows: vec![row("a", 4, 700.0, 200.0), row("b", 4, 300.0, 200.0)] }
        );
    }

    #[test]
    fn counters_that_wrap_or_step_back_do_no_harm() {
        let labels = ["a".to_owned()];
        let works = [work(0, 0, 1, 64), work(1, 0, 1, 64)];
        let timed = GpuFrame::new(1, &[0xffff_fff0, 0x10, 0x0f], &works, 32, 1e6, &labels);
        assert_eq!(timed.rows, [row("a", 2, 32.0, 0.0)]);
        assert_eq!(GpuFrame::new(1, &[], &[], 36, 1.0, &labels).rows, []);
        // A dispatch of no groups has no invocations.
        assert_eq!(GpuFrame::new(1, &[1, 2], &[work(0, 0, 1, 0)], 36, 1e6, &labels).rows, [row("a", 1, 0.0, 0.0)]);
    }
}
