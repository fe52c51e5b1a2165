//! Improving a finished tree: nodes move to where they enlarge the boxes above them least, the largest ones first.
//! After Meister and Bittner 2018, "Parallel Reinsertion for Bounding Volume Hierarchy Optimization".
//!
//! Places are sought for a batch of nodes in the tree as it is, then the moves are made one by one. What is sought
//! does not depend on how the batch is cut, and a move that another one of its batch has overtaken is left out.

use super::boxes::Item;
use super::flatten::pair_of;
use super::{Error, LEAF, MAX_DEPTH, memory, share};

/// Nodes whose places are sought in the same tree.
const BATCH: usize = 2048;

/// Nodes that a thread takes at a time.
const PART: usize = 64;

/// Nodes that a search may look at. Where boxes overlap much the bound prunes little, and the last ones bring little.
const LOOKS: usize = 512;

/// What a move costs beside the nodes looked at, in nodes.
const MOVE_WORK: usize = 64;

/// The largest nodes that a round tries, as a part of all. More bring little for their time.
const PART_TRIED: f32 = 0.02;

/// The most rounds.
const ROUNDS: u32 = 8;

/// The part of all areas that a round must save for another one to follow.
const WORTHWHILE: f32 = 0.002;

/// The second word of an inner node: levels below it in the low bits, [`small_count`] above them.
const HEIGHT_BITS: u32 = 8;

/// More triangles than any leaf holds: counts stop there.
pub(super) const MANY: u32 = 16;

const BINS: usize = 1 << 11;

#[derive(Clone, Copy, Debug)]
struct Move {
    node: u32,
    to: u32,
    gain: f32,
}

/// What a search came to.
struct Found {
    best: Move,
    /// Nodes looked at and levels climbed.
    work: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Grow,
    Link,
    Collect,
    Search,
    Apply,
    Free,
}

/// Where improving stands.
#[derive(Debug)]
pub(super) struct Improver {
    stage: Stage,
    rounds: u32,
    at: usize,
    scale: f32,
    /// The inner node over each pair.
    parents: Vec<u32>,
    /// How many nodes have areas of each bin.
    bins: Vec<u32>,
    /// The least bin whose nodes are tried.
    least: usize,
    stack: Vec<u32>,
    candidates: Vec<u32>,
    batch: usize,
    moves: Vec<Move>,
    /// Nodes that a move of the batch has changed, a bit each, and which ones.
    touched: Vec<u64>,
    changed: Vec<u32>,
    saved: f32,
    total: f32,
}

impl Improver {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Grow,
            rounds: 0,
            at: 0,
            scale: 1.0,
            parents: Vec::new(),
            bins: Vec::new(),
            least: 0,
            stack: Vec::new(),
            candidates: Vec::new(),
            batch: 0,
            moves: Vec::new(),
            touched: Vec::new(),
            changed: Vec::new(),
            saved: 0.0,
            total: 0.0,
        }
    }

    /// Goes on for about `work` nodes; returns the work done, 0 at the end. With several threads a batch at a time.
    ///
    /// # Errors
    /// Memory that the host does not have.
    pub(super) fn advance(&mut self, nodes: &mut [Item], work: usize, threads: usize) -> Result<usize, Error> {
        Ok(match self.stage {
            Stage::Grow => self.grow(nodes, work)?,
            Stage::Link => self.link(nodes, work),
            Stage::Collect => self.collect(nodes, work),
            Stage::Search => self.search(nodes, work, threads),
            Stage::Apply => self.apply(nodes, work),
            Stage::Free => self.free(),
        })
    }

    fn grow(&mut self, nodes: &[Item], work: usize) -> Result<usize, Error> {
        if nodes.len() < 3 {
            self.stage = Stage::Free;
            return Ok(1);
        }
        let pairs = nodes.len() / 2;
        if self.parents.capacity() < pairs {
            let triangles = pairs as u32 + 1;
            self.parents = memory::reserve(pairs, "parents", triangles)?;
            self.touched = memory::reserve(nodes.len().div_ceil(64), "marks", triangles)?;
            self.bins = vec![0; BINS];
        }
        let to = pairs.min(self.parents.len() + 16 * work);
        self.parents.resize(to, 0);
        self.touched.resize((2 * to + 1).div_ceil(64), 0);
        if to == pairs {
            self.stage = Stage::Link;
            self.at = nodes.len();
            self.scale = nodes[0].bounds().unit_scale();
        }
        Ok(work)
    }

    /// Tells pairs their parents and inner nodes their heights, from the last node to the first: children are behind
    /// their parents as they were made.
    fn link(&mut self, nodes: &mut [Item], work: usize) -> usize {
        let from = self.at.saturating_sub(work);
        let mut total = 0.0;
        for node in (from..self.at).rev() {
            let area = nodes[node].bounds().area(self.scale);
            self.bins[bin(area)] += 1;
            if !nodes[node].is_leaf() {
                total += area;
                let child = nodes[node].low_word();
                self.parents[pair_of(child)] = node as u32;
                nodes[node].set_words(child, word_over(nodes, child));
            }
        }
        self.total += total;
        self.at = from;
        if from == 0 {
            let wanted = ((nodes.len() as f32 * PART_TRIED) as u32).max(2);
            let mut count = 0;
            self.least = BINS - 1;
            while self.least > 1 && count + self.bins[self.least] <= wanted {
                count += self.bins[self.least];
                self.least -= 1;
            }
            self.bins = Vec::new();
            self.stage = Stage::Collect;
            self.stack.push(0);
        }
        work
    }

    /// Finds the large nodes from the root down, as no child is larger than its parent.
    fn collect(&mut self, nodes: &[Item], work: usize) -> usize {
        let mut done = 0;
        while done < work {
            let Some(node) = self.stack.pop() else {
                self.stage = Stage::Search;
                self.at = 0;
                self.batch = 0;
                break;
            };
            let child = nodes[node as usize].low_word();
            for child in [child, child + 1] {
                let item = &nodes[child as usize];
                if bin(item.bounds().area(self.scale)) > self.least {
                    self.candidates.push(child);
                    if !item.is_leaf() {
                        self.stack.push(child);
                    }
                }
            }
            done += 2;
        }
        done.max(1)
    }

    fn search(&mut self, nodes: &[Item], work: usize, threads: usize) -> usize {
        let end = self.candidates.len().min(self.batch + BATCH);
        let (parents, scale) = (&self.parents, self.scale);
        let seek = |node: u32| find(nodes, parents, scale, node);
        let mut done = 0;
        let moves = &mut self.moves;
        let mut note = |found: Found| {
            done += found.work;
            if found.best.gain > 0.0 {
                moves.push(found.best);
            }
        };
        if threads > 1 {
            let parts = self.candidates[self.at..end].chunks(PART);
            let make = |part: &[u32]| part.iter().map(|node| seek(*node)).collect::<Vec<_>>();
            share::in_order(threads, parts, make, |found| found.into_iter().for_each(&mut note));
            self.at = end;
        } else {
            let mut seen = 0;
            while self.at < end && seen < work {
                let found = seek(self.candidates[self.at]);
                seen += found.work;
                note(found);
                self.at += 1;
            }
        }
        if self.at == end {
            // The best first, and each of equal ones by its node, so that the order is one.
            self.moves.sort_unstable_by(|a, b| b.gain.total_cmp(&a.gain).then(a.node.cmp(&b.node)));
            self.stage = Stage::Apply;
            self.batch = 0;
        }
        done.max(1)
    }

    fn apply(&mut self, nodes: &mut [Item], work: usize) -> usize {
        let mut done = 0;
        while done < work {
            let Some(next) = self.moves.get(self.batch).copied() else { break };
            self.batch += 1;
            done += MOVE_WORK;
            if self.make(nodes, next) {
                self.saved += next.gain;
            }
        }
        if self.batch == self.moves.len() {
            self.moves.clear();
            for node in self.changed.drain(..) {
                self.touched[node as usize / 64] = 0;
            }
            self.batch = self.at;
            self.stage = Stage::Search;
            if self.at == self.candidates.len() {
                self.end_round();
            }
        }
        done.max(1)
    }

    fn end_round(&mut self) {
        self.rounds += 1;
        self.candidates.clear();
        self.total -= self.saved;
        if self.rounds < ROUNDS && self.saved > WORTHWHILE * self.total {
            self.stage = Stage::Collect;
            self.stack.push(0);
        } else {
            self.stage = Stage::Free;
        }
        self.saved = 0.0;
    }

    /// Moves a node unless that is no longer what it was meant to be.
    fn make(&mut self, nodes: &mut [Item], Move { node, to, .. }: Move) -> bool {
        let sibling = sibling_of(node);
        let parent = self.parents[pair_of(node)];
        let above = self.parents[pair_of(to)];
        let hands = [node, to, sibling, parent, above];
        if hands.iter().any(|n| self.touched[*n as usize / 64] >> (n % 64) & 1 != 0) || to == parent {
            return false;
        }
        // Other moves may have brought the place under the node itself, or farther down.
        let (mut depth, mut up) = (1, to);
        while up != 0 {
            if up == node {
                return false;
            }
            up = self.parents[pair_of(up)];
            depth += 1;
        }
        if depth + height(&nodes[to as usize]).max(height(&nodes[node as usize])) > MAX_DEPTH {
            return false;
        }
        for n in hands {
            self.touched[n as usize / 64] |= 1 << (n % 64);
            self.changed.push(n);
        }
        // The pair of the node and its sibling goes along: what was in the sibling's place takes the parent's, and what
        // was in the place moved to takes the sibling's.
        let (rest, other) = (nodes[sibling as usize], nodes[to as usize]);
        nodes[to as usize].set_words(node.min(sibling), 0);
        nodes[sibling as usize] = other;
        nodes[parent as usize] = rest;
        for (item, place) in [(rest, parent), (other, sibling)] {
            if !item.is_leaf() {
                self.parents[pair_of(item.low_word())] = place;
            }
        }
        self.parents[pair_of(node)] = to;
        self.refit(nodes, to);
        if parent != 0 {
            let over = self.parents[pair_of(parent)];
            self.refit(nodes, over);
        }
        true
    }

    /// Measures an inner node and those above it again, as far up as that changes any.
    fn refit(&self, nodes: &mut [Item], mut node: u32) {
        loop {
            let child = nodes[node as usize].low_word();
            let bounds = nodes[child as usize].bounds().union(nodes[child as usize + 1].bounds());
            let word = word_over(nodes, child);
            let item = &mut nodes[node as usize];
            if item.bounds().same(bounds) && item.high_word() == word {
                break;
            }
            *item = Item::new(bounds, child, word);
            if node == 0 {
                break;
            }
            node = self.parents[pair_of(node)];
        }
    }

    fn free(&mut self) -> usize {
        let (parents, touched) = self.arrays();
        usize::from(!(memory::free_piece(parents) && memory::free_piece(touched)))
    }

    /// What it holds for each node, to be freed in pieces; the other lists are a hundredth of that.
    pub(super) fn arrays(&mut self) -> (&mut Vec<u32>, &mut Vec<u64>) {
        (&mut self.parents, &mut self.touched)
    }
}

/// Areas in steps of an eighth; the largest is 3, and what is less than 2^-124 is in bin 0 or near it.
fn bin(area: f32) -> usize {
    (area.to_bits() >> 20) as usize & (BINS - 1)
}

#[inline]
fn sibling_of(node: u32) -> u32 {
    // Pairs begin with odd numbers.
    if node % 2 == 1 { node + 1 } else { node - 1 }
}

#[inline]
fn height(item: &Item) -> u32 {
    if item.is_leaf() { 0 } else { item.high_word() & ((1 << HEIGHT_BITS) - 1) }
}

/// The second word of an inner node over a pair.
#[inline]
fn word_over(nodes: &[Item], child: u32) -> u32 {
    let (left, right) = (&nodes[child as usize], &nodes[child as usize + 1]);
    let held = (small_count(left) + small_count(right)).min(MANY);
    held << HEIGHT_BITS | (1 + height(left).max(height(right)))
}

/// Triangles under a node, up to [`MANY`].
#[inline]
pub(super) fn small_count(item: &Item) -> u32 {
    if item.is_leaf() { item.high_word() ^ LEAF } else { item.high_word() >> HEIGHT_BITS }
}

/// The place where a node would save the most area, if there is one where it saves any.
///
/// Taking the node out saves its parent's area and what the ones above shrink by; putting it in costs what those above
/// the place grow by and the new parent's area. Places are sought under the sibling first, then under each node next
/// to the way up.
fn find(nodes: &[Item], parents: &[u32], scale: f32, node: u32) -> Found {
    let bounds = nodes[node as usize].bounds();
    let own = bounds.area(scale);
    let parent = parents[pair_of(node)];
    let mut best = Move { node, to: 0, gain: 0.0 };
    let (mut looks, mut climbed) = (0, 1);
    let mut stack = [(0u32, 0f32); 2 * MAX_DEPTH as usize + 2];
    // What is left of the one over the place at hand once the node is out, and what that saves.
    let mut left = nodes[sibling_of(node) as usize].bounds();
    let mut saved = nodes[parent as usize].bounds().area(scale);
    // Savings are differences of areas as large as the root's: those within their rounding are none.
    let worth = saved * 1e-3;
    best.gain = worth;
    let (mut beside, mut pivot) = (sibling_of(node), parent);
    loop {
        stack[0] = (beside, saved);
        let mut waiting = 1;
        while waiting > 0 && looks < LOOKS {
            waiting -= 1;
            let (place, saved) = stack[waiting];
            if saved - own <= best.gain {
                continue;
            }
            looks += 1;
            let item = &nodes[place as usize];
            let there = item.bounds();
            let gain = saved - there.union(bounds).area(scale);
            if gain > best.gain && place != sibling_of(node) {
                best = Move { node, to: place, gain };
            }
            let saved = gain + there.area(scale);
            if !item.is_leaf() && saved - own > best.gain && waiting + 2 <= stack.len() {
                let child = item.low_word();
                stack[waiting] = (child, saved);
                stack[waiting + 1] = (child + 1, saved);
                waiting += 2;
            }
        }
        if pivot != parent {
            left = left.union(nodes[beside as usize].bounds());
            saved += nodes[pivot as usize].bounds().area(scale) - left.area(scale);
        }
        if pivot == 0 || looks >= LOOKS {
            break;
        }
        climbed += 1;
        beside = sibling_of(pivot);
        pivot = parents[pair_of(pivot)];
    }
    if best.to == 0 {
        best.gain = 0.0;
    }
    Found { best, work: looks + climbed }
}
