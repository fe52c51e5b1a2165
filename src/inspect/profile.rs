//! GPU time by label, from the timestamps of one frame. Pure: ticks in, milliseconds out.
//!
//! A timestamp is taken where a level begins and behind each dispatch. It is written once everything before it has
//! finished, and nothing waits for it. So what a dispatch is charged with is the time by which it moved the end of its
//! level back: dispatches that run side by side share their level's time, and the rows sum to the time from the first
//! level to the last dispatch, less what copies between them took.

use hashbrown::HashMap;

/// What a timestamp marks the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Whatever came before a level.
    Level,
    /// A dispatch, by the index of its label.
    Dispatch(u32),
    /// Dispatches that there was no room to time one by one.
    Rest(u32),
}

/// GPU time of one frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuFrame {
    /// The frame's number.
    pub frame: u64,
    /// Milliseconds from the first level to the last timed dispatch.
    pub ms: f64,
    /// One row a label, the most expensive first.
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
}

/// Label of dispatches past the most that one frame times.
const REST: &str = "(not timed one by one)";

impl GpuFrame {
    /// From the marks of a frame and the ticks of each, `bits` of which count.
    pub(crate) fn new(
        frame: u64,
        marks: &[Mark],
        ticks: &[u64],
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
        let mut rows: HashMap<&str, (u32, f64)> = HashMap::new();
        for (i, mark) in marks.iter().enumerate().skip(1) {
            let (Some(before), Some(now)) = (ticks.get(i - 1), ticks.get(i)) else { break };
            let (label, count) = match mark {
                Mark::Level => continue,
                Mark::Dispatch(label) => (labels.get(*label as usize).map_or("", String::as_str), 1),
                Mark::Rest(count) => (REST, *count),
            };
            let row = rows.entry(label).or_default();
            row.0 += count;
            row.1 += ms(*before, *now);
        }
        let mut rows: Vec<GpuFrameRow> = rows
            .into_iter()
            .map(|(label, (dispatches, ms))| GpuFrameRow { label: label.to_owned(), dispatches, ms })
            .collect();
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

    fn row(label: &str, dispatches: u32, ms: f64) -> GpuFrameRow {
        GpuFrameRow { label: label.into(), dispatches, ms }
    }

    #[test]
    fn dispatches_are_charged_with_what_they_add_and_levels_with_nothing() {
        let labels = ["a".to_owned(), "b".to_owned()];
        let marks = [Mark::Level, Mark::Dispatch(0), Mark::Dispatch(1), Mark::Level, Mark::Dispatch(0), Mark::Rest(5)];
        let ticks = [1000, 1500, 1600, 4000, 4100, 4200];
        let timed = GpuFrame::new(7, &marks, &ticks, 64, 1e3, &labels);
        let expected = vec![row("a", 2, 0.6), row(REST, 5, 0.1), row("b", 1, 0.1)];
        assert_eq!(timed, GpuFrame { frame: 7, ms: 3.2, rows: expected });
    }

    #[test]
    fn counters_that_wrap_or_step_back_do_no_harm() {
        let labels = ["a".to_owned()];
        let marks = [Mark::Level, Mark::Dispatch(0), Mark::Dispatch(0)];
        let timed = GpuFrame::new(1, &marks, &[0xffff_fff0, 0x10, 0x0f], 32, 1e6, &labels);
        assert_eq!(timed.rows, [row("a", 2, 32.0)]);
        assert_eq!(GpuFrame::new(1, &[], &[], 36, 1.0, &labels).rows, []);
    }
}
