//! From an arena to a plan: levels of commands and one memory barrier between levels.
//!
//! A command's level is one more than the highest level among the commands it must follow, so a level's commands
//! are independent of each other and the number of barriers is the length of the longest dependency chain, never
//! the number of commands. Work of earlier frames counts as lying before level 0: a command that must follow it
//! starts at level 1, unless a barrier since then has covered the pair already.
//!
//! What must follow what, for two accesses to overlapping bytes of one resource:
//!
//! | earlier \ later | read | write |
//! |---|---|---|
//! | **read** | nothing | execution (write after read) |
//! | **write** | execution and memory (read after write) | execution and memory (write after write) |
//!
//! The cost is linear in the number of accesses, all of it integer work on two small arrays; a steady frame
//! allocates nothing. Uploads, fills and reads are tracked by byte range, so any number of writes to different
//! parts of one buffer share a level. Ranges of one kind are kept as one hull: a range inside a gap of the hull is
//! ordered although it need not be.
//!
//! This module knows no Vulkan; [`Uses`] is its whole vocabulary.

pub mod text;

#[cfg(test)]
mod tests;

use crate::arena::Arena;
use crate::command::{Uses, View};
use std::ops::Range;

/// A group of accesses to one resource: where the latest stands in time, what they are, the bytes they span.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Position: [`Planner::base`] of its frame plus its level.
    at: u64,
    uses: Uses,
    low: u64,
    high: u64,
}

impl Group {
    fn is_empty(&self) -> bool {
        self.uses.is_none()
    }
    fn overlaps(&self, range: &Range<u64>) -> bool {
        !self.is_empty() && range.start < self.high && self.low < range.end
    }
    fn within(&self, range: &Range<u64>) -> bool {
        !self.is_empty() && range.start <= self.low && self.high <= range.end
    }
    fn merge(&mut self, at: u64, uses: Uses, range: &Range<u64>) {
        if self.is_empty() {
            (self.low, self.high) = (range.start, range.end);
        } else {
            self.low = self.low.min(range.start);
            self.high = self.high.max(range.end);
        }
        self.at = self.at.max(at);
        self.uses = self.uses.with(uses);
    }
    /// Takes another group in and empties it.
    fn absorb(&mut self, other: &mut Group) {
        if !other.is_empty() {
            let other = std::mem::take(other);
            self.merge(other.at, other.uses, &(other.low..other.high));
        }
    }
}

/// What is remembered of one resource.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    /// The last writes, disjoint from each other.
    write: Group,
    /// Reads not followed by a write over the same bytes.
    read: Group,
    /// Older writes that a later one overlapped in part only, and those of earlier frames. Empty as long as every
    /// access is to the whole buffer.
    old_write: Group,
    /// The same for reads. Apart from the writes, because a later read waits for those alone.
    old_read: Group,
}

impl Track {
    /// Notes an access at position `at` in the frame that starts at position `base`.
    ///
    /// Groups of earlier frames are not grown into this one: their hulls would span bytes that no command of this
    /// frame touches, and order its commands among each other for nothing.
    fn note(&mut self, base: u64, at: u64, mut uses: Uses, range: &Range<u64>) {
        if uses.writes().is_none() {
            if self.read.at < base && !self.read.within(range) {
                self.old_read.absorb(&mut self.read);
            }
            self.read.merge(at, uses, range);
            return;
        }
        let Self { write, read, old_write, old_read } = self;
        for (group, old) in [(read, &mut *old_read), (&mut *write, &mut *old_write)] {
            if group.within(range) {
                // What must follow the replaced group need only follow this write, which follows it. An equal
                // position is another binding of the same command: nothing follows anything there.
                if group.at == at {
                    uses = uses.with(group.uses);
                }
                *group = Group::default();
            } else if group.overlaps(range) {
                old.absorb(group);
            }
        }
        for old in [old_write, old_read] {
            if old.within(range) {
                *old = Group::default();
            }
        }
        if self.write.at < base {
            self.old_write.absorb(&mut self.write);
        }
        self.write.merge(at, uses, range);
    }
}

/// A barrier before a level: everything earlier in `from`, to everything later in `to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// What earlier commands did. Reads take part in execution only.
    pub from: Uses,
    /// What later commands do.
    pub to: Uses,
}

/// A frame's commands in an order that may be emitted as it stands.
///
/// Reused from frame to frame: [`Planner::plan`] clears it and keeps the memory.
#[derive(Debug, Default)]
pub struct Plan {
    /// Arena offsets, level by level; inside a level in the order recorded.
    order: Vec<u32>,
    /// End of each level in `order`.
    ends: Vec<u32>,
    /// Barrier before each level; the first is always empty.
    cuts: Vec<Cut>,
    /// Level of each command, in the order recorded.
    levels: Vec<u32>,
    /// Arena offset of each command, in the order recorded.
    offsets: Vec<u32>,
    /// Arena offsets of the preparations of new textures, which run before everything else.
    prepares: Vec<u32>,
    /// Whether a command writes memory that the host reads.
    host_reads: bool,
}

/// Level of a preparation: before the first.
const BEFORE: u32 = u32::MAX;

impl Plan {
    /// Levels, the first included even when it is empty.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.ends.len()
    }

    /// Memory barriers between levels: one less than the levels.
    #[must_use]
    pub fn barriers(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    /// Each level: the barrier before it (none before the first) and the arena offsets of its commands.
    pub fn iter(&self) -> impl Iterator<Item = (Option<Cut>, &[u32])> {
        let mut start = 0;
        self.ends.iter().zip(&self.cuts).map(move |(&end, &cut)| {
            let level = &self.order[start..end as usize];
            start = end as usize;
            ((!cut.from.is_none()).then_some(cut), level)
        })
    }

    /// Arena offsets of the [`Prepare`](crate::command::Prepare) commands, to be run before the first level.
    #[must_use]
    pub fn prepares(&self) -> &[u32] {
        &self.prepares
    }

    /// Level of each command, in the order recorded; `u32::MAX` for a preparation.
    #[must_use]
    pub fn level_of(&self) -> &[u32] {
        &self.levels
    }

    /// Whether the host reads what a command of this frame wrote, so that a barrier to the host ends the frame.
    #[must_use]
    pub fn host_reads(&self) -> bool {
        self.host_reads
    }

    /// All commands in one level, in the order recorded, without a barrier: what a faulty planner would give.
    #[cfg(test)]
    pub(crate) fn without_barriers(arena: &Arena) -> Self {
        let order: Vec<u32> = arena.iter().map(|(at, _)| at).collect();
        let ends = vec![order.len() as u32];
        Self { order, ends, cuts: vec![Cut::default()], ..Self::default() }
    }

    fn clear(&mut self) {
        self.order.clear();
        self.ends.clear();
        self.cuts.clear();
        self.levels.clear();
        self.offsets.clear();
        self.prepares.clear();
        self.host_reads = false;
    }
}

/// Plans frame after frame; remembers per resource what earlier frames left to wait for.
#[derive(Debug, Default)]
pub struct Planner {
    tracks: Vec<Track>,
    /// `covered[earlier][later]`: position of the last barrier from that use to that use.
    covered: [[u64; Uses::COUNT]; Uses::COUNT],
    /// Position of the current frame's level 0. Positions only grow: 2^64 levels outlast any process.
    base: u64,
}

impl Planner {
    /// Turns a frame's commands into `plan` and remembers what the next frame must wait for.
    pub fn plan(&mut self, arena: &Arena, plan: &mut Plan) {
        plan.clear();
        plan.cuts.push(Cut::default());
        // Counted per level first, turned into ends below.
        plan.ends.push(0);
        for (at, view) in arena.iter() {
            if let View::Prepare(_) = view {
                plan.prepares.push(at);
                plan.levels.push(BEFORE);
                plan.offsets.push(at);
                continue;
            }
            let (level, from, to) = self.place(&view);
            view.accesses(|index, uses, range| {
                self.tracks[index as usize].note(self.base, self.base + u64::from(level), uses, &range);
            });
            let slot = level as usize;
            if slot >= plan.cuts.len() {
                plan.cuts.resize(slot + 1, Cut::default());
                plan.ends.resize(slot + 1, 0);
            }
            let cut = &mut plan.cuts[slot];
            *cut = Cut { from: cut.from.with(from), to: cut.to.with(to) };
            plan.ends[slot] += 1;
            plan.levels.push(level);
            plan.offsets.push(at);
            plan.host_reads |= matches!(view, View::Read(_) | View::ReadTexture(_));
        }
        scatter(plan);
        for (level, cut) in plan.cuts.iter().enumerate().skip(1) {
            self.cover(*cut, self.base + level as u64);
        }
        self.base += plan.cuts.len() as u64;
    }

    /// Forgets a resource whose slot is about to name another one.
    ///
    /// Only for slots whose last use the host has seen complete.
    pub fn forget(&mut self, index: u32) {
        if let Some(track) = self.tracks.get_mut(index as usize) {
            *track = Track::default();
        }
    }

    /// Takes no barrier of the past for granted: a planned frame did not reach the device.
    pub fn distrust(&mut self) {
        self.covered = Default::default();
    }

    /// The level of a command, and what it waits for: uses before, uses after.
    #[inline]
    fn place(&mut self, view: &View<'_>) -> (u32, Uses, Uses) {
        let mut level = 0;
        let mut from = Uses::NONE;
        let mut to = Uses::NONE;
        view.accesses(|index, uses, range| {
            let index = index as usize;
            if index >= self.tracks.len() {
                self.tracks.resize(index + 1, Track::default());
            }
            let track = &self.tracks[index];
            let writes = !uses.writes().is_none();
            let mut wait = |group: &Group| {
                // A reader waits for writes alone; a writer also for the reads it would overtake.
                let earlier = if writes { group.uses } else { group.uses.writes() };
                let needed = if group.at >= self.base {
                    (group.at - self.base) as u32 + 1
                } else if self.is_covered(earlier, uses, group.at) {
                    return;
                } else {
                    1
                };
                level = level.max(needed);
                from = from.with(earlier);
                to = to.with(uses);
            };
            for group in [&track.write, &track.old_write] {
                if group.overlaps(&range) {
                    wait(group);
                }
            }
            if writes {
                for group in [&track.read, &track.old_read] {
                    if group.overlaps(&range) {
                        wait(group);
                    }
                }
            }
        });
        (level, from, to)
    }

    /// Whether barriers since position `at` already stand between the two.
    fn is_covered(&self, earlier: Uses, later: Uses, at: u64) -> bool {
        bits(earlier).all(|a| bits(later).all(|b| self.covered[a][b] > at))
    }

    fn cover(&mut self, cut: Cut, at: u64) {
        for a in bits(cut.from) {
            for b in bits(cut.to) {
                self.covered[a][b] = at;
            }
        }
    }
}

fn bits(uses: Uses) -> impl Iterator<Item = usize> {
    (0..Uses::COUNT).filter(move |bit| uses.bits() & (1 << bit) != 0)
}

/// Counting sort of the commands by level; turns counts into ends.
fn scatter(plan: &mut Plan) {
    let mut start = 0;
    for end in &mut plan.ends {
        start += std::mem::replace(end, start);
    }
    plan.order.resize(start as usize, 0);
    for (&at, &level) in plan.offsets.iter().zip(&plan.levels).filter(|(_, level)| **level != BEFORE) {
        let slot = &mut plan.ends[level as usize];
        plan.order[*slot as usize] = at;
        *slot += 1;
    }
}
