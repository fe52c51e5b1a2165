//! The outcome of dispatches, one row a (program, target) pair.
//!
//! A target is the mesh that a dispatch binds, or what it writes, or all it binds when it writes nothing. A dispatch whose program and
//! buffers are all there finds its row by walking the short list that hangs on its first target buffer: a few
//! integer compares, no hash, no string. A dispatch that names something which is not there is kept by its names
//! until a run of the same pair succeeds.

use crate::handle::Id;
use hashbrown::HashMap;
use smallvec::SmallVec;

const NONE: u32 = u32::MAX;
/// Failures kept by name. A script that fails under ever new names gets the oldest ones forgotten, not memory.
const MAX_NAMED: usize = 1024;

/// One row as reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchRecord {
    /// The program's key.
    pub shader: String,
    /// The mesh, for a dispatch over vertices; else names of the written buffers, joined with `, `; all bound ones for
    /// a program that writes none.
    pub target: String,
    /// Dispatches asked for, failed ones included.
    pub dispatches: u64,
    /// How many of them failed.
    pub failures: u64,
    /// Whether the most recent one ran.
    pub ok: bool,
    /// Frame of the most recent one.
    pub last_frame: u64,
    /// Frame of the most recent failure.
    pub last_failed_frame: Option<u64>,
    /// Reason of the most recent failure.
    pub last_error: Option<String>,
}

#[derive(Debug, Default, Clone)]
struct Counts {
    dispatches: u64,
    failures: u64,
    ok: bool,
    last_frame: u64,
    last_failed_frame: Option<u64>,
    last_error: Option<Box<str>>,
    /// Position in the sequence of all dispatches, for "most recent first".
    sequence: u64,
}

impl Counts {
    fn fail(&mut self, frame: u64, sequence: u64, error: &str) {
        self.dispatches += 1;
        self.failures += 1;
        self.ok = false;
        self.last_frame = frame;
        self.last_failed_frame = Some(frame);
        self.last_error = Some(error.into());
        self.sequence = sequence;
    }

    /// Both counts of one pair: sums, the later one's outcome, and the failure of the later frame.
    fn with(&self, other: &Counts) -> Counts {
        let (earlier, later) = if self.sequence < other.sequence { (self, other) } else { (other, self) };
        let failed = if earlier.last_failed_frame > later.last_failed_frame { earlier } else { later };
        Counts {
            dispatches: self.dispatches + other.dispatches,
            failures: self.failures + other.failures,
            last_failed_frame: failed.last_failed_frame,
            last_error: failed.last_error.clone(),
            ..*later
        }
    }
}

#[derive(Debug)]
struct Row {
    /// Program id; 0 for a free row.
    program: u64,
    targets: SmallVec<[u64; 4]>,
    /// Next row anchored at the same buffer.
    next: u32,
    counts: Counts,
}

#[derive(Debug)]
struct Named {
    /// Names of everything bound, so that the target can be told once the program's writes are known.
    bound: Vec<String>,
    counts: Counts,
}

/// Turns ids into the names that a report shows.
pub trait RowNames {
    /// A program's key.
    fn program(&self, id: u64) -> String;
    /// A buffer's name.
    fn buffer(&self, id: u64) -> String;
    /// The mesh whose vertices a buffer holds.
    fn mesh(&self, _id: u64) -> Option<String> {
        None
    }
    /// What a dispatch writes: its mesh, or its buffers.
    fn target(&self, ids: &[u64]) -> String {
        let mesh = ids.iter().find_map(|id| self.mesh(*id));
        mesh.unwrap_or_else(|| join(ids.iter().map(|id| self.buffer(*id))))
    }
}

/// The rows.
#[derive(Debug, Default)]
pub struct Ledger {
    rows: Vec<Row>,
    free: Vec<u32>,
    /// First row anchored at each buffer slot; slot `n` is at `n + 1`, rows without any target at 0.
    heads: Vec<u32>,
    named: HashMap<(String, String), Named>,
    sequence: u64,
}

impl Ledger {
    /// The row of a program and its targets, made when there is none.
    ///
    /// Cost: one short list walk; a new row also takes over what was kept by name for the same pair.
    #[inline]
    pub fn row(&mut self, program: u64, targets: &[u64], names: &dyn RowNames) -> u32 {
        let anchor = anchor(targets);
        let mut row = self.heads.get(anchor).copied().unwrap_or(NONE);
        while row != NONE {
            let r = &self.rows[row as usize];
            if r.program == program && r.targets[..] == *targets {
                return row;
            }
            row = r.next;
        }
        self.add(program, targets, anchor, names)
    }

    #[cold]
    fn add(&mut self, program: u64, targets: &[u64], anchor: usize, names: &dyn RowNames) -> u32 {
        if self.heads.len() <= anchor {
            self.heads.resize(anchor + 1, NONE);
        }
        let mut counts = Counts::default();
        if !self.named.is_empty() {
            let key = (names.program(program), names.target(targets));
            if let Some(named) = self.named.remove(&key) {
                counts = named.counts;
            }
        }
        let row = Row { program, targets: targets.into(), next: self.heads[anchor], counts };
        let index = match self.free.pop() {
            Some(index) => {
                self.rows[index as usize] = row;
                index
            }
            None => {
                self.rows.push(row);
                (self.rows.len() - 1) as u32
            }
        };
        self.heads[anchor] = index;
        index
    }

    /// Counts a dispatch that was recorded.
    #[inline]
    pub fn ran(&mut self, row: u32, frame: u64) {
        self.sequence += 1;
        let counts = &mut self.rows[row as usize].counts;
        counts.dispatches += 1;
        counts.ok = true;
        counts.last_frame = frame;
        counts.sequence = self.sequence;
    }

    /// Counts a dispatch that was refused.
    pub fn failed(&mut self, row: u32, frame: u64, error: &str) {
        self.sequence += 1;
        self.rows[row as usize].counts.fail(frame, self.sequence, error);
    }

    /// Turns a dispatch already counted by [`Ledger::ran`] into a failure: its frame never reached the device.
    pub fn undo(&mut self, row: u32, program: u32, frame: u64, error: &str) {
        let Some(row) = self.rows.get_mut(row as usize) else { return };
        // The row may have gone with its buffer in the meantime, and been given to another pair.
        if row.program == 0 || Id::<()>::from_bits(row.program).index() != program {
            return;
        }
        let counts = &mut row.counts;
        counts.failures += 1;
        counts.ok = false;
        counts.last_failed_frame = Some(frame);
        counts.last_error = Some(error.into());
    }

    /// Counts a refused dispatch that names things which are not there.
    pub fn failed_by_name(&mut self, shader: &str, bound: &[&str], frame: u64, error: &str) {
        self.sequence += 1;
        let key = (shader.to_owned(), bound.join(", "));
        if self.named.len() >= MAX_NAMED && !self.named.contains_key(&key) {
            let oldest = self.named.iter().min_by_key(|(_, n)| n.counts.sequence);
            if let Some(oldest) = oldest.map(|(k, _)| k.clone()) {
                self.named.remove(&oldest);
            }
        }
        let named = self.named.entry(key).or_insert_with(|| Named {
            bound: bound.iter().map(|s| (*s).to_owned()).collect(),
            counts: Counts::default(),
        });
        named.counts.fail(frame, self.sequence, error);
    }

    /// Tells which bindings a program writes, now that it is known: failures kept by all bound names are filed
    /// under the written ones, where the next good run of the pair finds them.
    pub fn program_known(&mut self, shader: &str, written: &[bool]) {
        if !written.contains(&true) || self.named.is_empty() {
            return;
        }
        let keys: Vec<_> = self
            .named
            .iter()
            .filter(|((s, _), n)| s == shader && n.bound.len() == written.len())
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            let Some(named) = self.named.remove(&key) else { continue };
            let targets: Vec<String> =
                named.bound.iter().zip(written).filter(|(_, w)| **w).map(|(n, _)| n.clone()).collect();
            self.file(key.0, Named { bound: targets, counts: named.counts });
        }
    }

    /// Files failures kept under a shader's name under another, which turned out to mean the same program.
    pub fn rename(&mut self, shader: &str, key: &str) {
        let keys: Vec<_> = self.named.keys().filter(|(s, _)| s == shader).cloned().collect();
        for old in keys {
            if let Some(named) = self.named.remove(&old) {
                self.file(key.to_owned(), named);
            }
        }
    }

    /// Adds to what is kept by names already.
    fn file(&mut self, shader: String, named: Named) {
        let counts = named.counts.clone();
        let entry = self.named.entry((shader, join(named.bound.iter().cloned())));
        entry.and_modify(|other| other.counts = other.counts.with(&counts)).or_insert(named);
    }

    /// Drops the rows anchored at a buffer that is going away.
    pub fn forget_buffer<K>(&mut self, id: Id<K>) {
        let anchor = anchor(&[id.to_bits()]);
        let Some(head) = self.heads.get_mut(anchor) else { return };
        let mut row = std::mem::replace(head, NONE);
        while row != NONE {
            let r = &mut self.rows[row as usize];
            r.program = 0;
            self.free.push(row);
            row = r.next;
        }
    }

    /// Drops the rows of a program that is going away.
    pub fn forget_program<K>(&mut self, id: Id<K>, key: &str) {
        for head in 0..self.heads.len() {
            let mut kept = NONE;
            let mut row = std::mem::replace(&mut self.heads[head], NONE);
            while row != NONE {
                let r = &mut self.rows[row as usize];
                let next = r.next;
                if r.program == id.to_bits() {
                    r.program = 0;
                    self.free.push(row);
                } else {
                    r.next = std::mem::replace(&mut kept, row);
                }
                row = next;
            }
            self.heads[head] = kept;
        }
        self.named.retain(|(shader, _), _| shader != key);
    }

    /// The rows whose most recent dispatch failed, most recent first.
    #[must_use]
    pub fn failing(&self, names: &dyn RowNames) -> Vec<DispatchRecord> {
        self.report(names, |_, counts| !counts.ok)
    }

    /// The rows of one program, most recently dispatched first.
    #[must_use]
    pub fn status(&self, key: &str, names: &dyn RowNames) -> Vec<DispatchRecord> {
        self.report(names, |shader, _| shader == key)
    }

    /// What was kept by ids and what was kept by names may be the same pair; its latest dispatch is what counts.
    fn report(&self, names: &dyn RowNames, keep: impl Fn(&str, &Counts) -> bool) -> Vec<DispatchRecord> {
        let by_id = self.rows.iter().filter(|r| r.program != 0);
        let by_id = by_id.map(|r| ((names.program(r.program), names.target(&r.targets)), &r.counts));
        let by_name = self.named.iter().map(|(key, named)| (key.clone(), &named.counts));
        let mut pairs: HashMap<(String, String), Counts> = HashMap::new();
        for (key, counts) in by_id.chain(by_name) {
            pairs.entry(key).and_modify(|c| *c = c.with(counts)).or_insert_with(|| counts.clone());
        }
        let mut found: Vec<_> = pairs.into_iter().filter(|((shader, _), counts)| keep(shader, counts)).collect();
        found.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.sequence));
        found.into_iter().map(|((shader, target), counts)| record(shader, target, counts)).collect()
    }
}

fn anchor(targets: &[u64]) -> usize {
    targets.first().map_or(0, |t| Id::<()>::from_bits(*t).index() as usize + 1)
}

fn join(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn record(shader: String, target: String, counts: Counts) -> DispatchRecord {
    DispatchRecord {
        shader,
        target,
        dispatches: counts.dispatches,
        failures: counts.failures,
        ok: counts.ok,
        last_frame: counts.last_frame,
        last_failed_frame: counts.last_failed_frame,
        last_error: counts.last_error.map(String::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;
    impl RowNames for Plain {
        fn program(&self, id: u64) -> String {
            format!("p{id}")
        }
        fn buffer(&self, id: u64) -> String {
            format!("b{id}")
        }
    }

    #[test]
    fn a_good_run_clears_a_failure_and_keeps_its_count() {
        let mut ledger = Ledger::default();
        let row = ledger.row(1, &[5], &Plain);
        ledger.failed(row, 3, "why");
        let failing = ledger.failing(&Plain);
        assert_eq!(failing.len(), 1);
        assert_eq!((failing[0].shader.as_str(), failing[0].target.as_str()), ("p1", "b5"));
        assert_eq!(ledger.row(1, &[5], &Plain), row);
        ledger.ran(row, 4);
        assert!(ledger.failing(&Plain).is_empty());
        let status = ledger.status("p1", &Plain);
        assert_eq!((status[0].dispatches, status[0].failures, status[0].ok), (2, 1, true));
        assert_eq!((status[0].last_frame, status[0].last_failed_frame), (4, Some(3)));
    }

    #[test]
    fn a_failure_by_name_is_taken_over_by_the_run_of_the_same_pair() {
        let mut ledger = Ledger::default();
        ledger.failed_by_name("p1", &["b5", "b6"], 1, "no such program");
        ledger.failed_by_name("p1", &["b7", "b6"], 1, "no such program");
        assert_eq!(ledger.failing(&Plain).len(), 2);
        ledger.program_known("p1", &[false, true]);
        let failing = ledger.failing(&Plain);
        assert_eq!(failing.len(), 1, "both write b6: {failing:?}");
        assert_eq!((failing[0].target.as_str(), failing[0].failures), ("b6", 2));
        let row = ledger.row(1, &[6], &Plain);
        ledger.ran(row, 2);
        assert!(ledger.failing(&Plain).is_empty());
        assert_eq!(ledger.status("p1", &Plain)[0].dispatches, 3);
    }

    #[test]
    fn a_failure_by_name_after_good_runs_is_one_row_with_them() {
        let mut ledger = Ledger::default();
        let row = ledger.row(1, &[6], &Plain);
        ledger.ran(row, 1);
        ledger.failed_by_name("p1", &["b6"], 2, "one too few");
        let failing = ledger.failing(&Plain);
        assert_eq!(failing.len(), 1, "{failing:?}");
        assert_eq!((failing[0].dispatches, failing[0].failures, failing[0].last_frame), (2, 1, 2));
        ledger.ran(row, 3);
        assert!(ledger.failing(&Plain).is_empty());
        let status = ledger.status("p1", &Plain);
        assert_eq!(status.len(), 1, "{status:?}");
        assert_eq!((status[0].dispatches, status[0].failures, status[0].ok, status[0].last_frame), (3, 1, true, 3));
        assert_eq!((status[0].last_failed_frame, status[0].last_error.as_deref()), (Some(2), Some("one too few")));
    }

    #[test]
    fn a_name_that_turns_out_to_be_a_key_takes_its_failures_along() {
        let mut ledger = Ledger::default();
        ledger.failed_by_name("blur", &["b6"], 1, "no such program");
        ledger.failed_by_name("p1", &["b6"], 2, "not compiled");
        ledger.failed_by_name("blur", &["b7"], 3, "no such program");
        ledger.rename("blur", "p1");
        let failing = ledger.failing(&Plain);
        let told: Vec<_> = failing.iter().map(|r| (r.shader.as_str(), r.target.as_str(), r.failures)).collect();
        assert_eq!(told, [("p1", "b7", 1), ("p1", "b6", 2)]);
        assert_eq!(failing[1].last_error.as_deref(), Some("not compiled"));
    }

    #[test]
    fn the_last_error_is_that_of_the_later_frame() {
        let mut ledger = Ledger::default();
        let row = ledger.row(1, &[6], &Plain);
        ledger.ran(row, 1);
        ledger.failed_by_name("p1", &["b6"], 2, "one too few");
        // The frame that ran the dispatch is lost after the failure by name was counted.
        ledger.ran(row, 3);
        ledger.undo(row, Id::<()>::from_bits(1).index(), 3, "lost");
        ledger.failed_by_name("p1", &["b6"], 3, "one too many");
        let status = ledger.status("p1", &Plain);
        assert_eq!((status[0].last_failed_frame, status[0].failures), (Some(3), 3));
        assert_eq!(status[0].last_error.as_deref(), Some("one too many"));
    }

    #[test]
    fn rows_go_with_their_buffer_and_their_program() {
        let mut ledger = Ledger::default();
        for (program, buffer) in [(1, 5), (2, 5), (1, 6), (2, 6)] {
            let row = ledger.row(program, &[buffer], &Plain);
            ledger.ran(row, 1);
        }
        ledger.forget_buffer(Id::<()>::from_bits(5));
        assert_eq!(ledger.status("p1", &Plain).len(), 1);
        ledger.forget_program(Id::<()>::from_bits(1), "p1");
        assert_eq!(ledger.status("p1", &Plain).len(), 0);
        assert_eq!(ledger.status("p2", &Plain).len(), 1);
        let row = ledger.row(3, &[5], &Plain);
        ledger.ran(row, 1);
        assert_eq!(ledger.status("p3", &Plain).len(), 1);
    }

    #[test]
    fn failures_under_ever_new_names_stay_bounded() {
        let mut ledger = Ledger::default();
        for i in 0..3000 {
            ledger.failed_by_name("p1", &[&format!("b{i}")], i, "no such buffer");
        }
        let failing = ledger.failing(&Plain);
        assert_eq!(failing.len(), MAX_NAMED);
        assert_eq!(failing[0].target, "b2999");
    }

    #[test]
    fn most_recent_first() {
        let mut ledger = Ledger::default();
        for buffer in [1, 2, 3, 2] {
            let row = ledger.row(1, &[buffer], &Plain);
            ledger.ran(row, 1);
        }
        let order: Vec<_> = ledger.status("p1", &Plain).into_iter().map(|r| r.target).collect();
        assert_eq!(order, ["b2", "b3", "b1"]);
    }
}
