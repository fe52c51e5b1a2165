//! The final numbering: nodes in pairs, depth first, and triangles in the order of the leaves.

use super::LEAF;
use super::boxes::Item;
use super::improve::small_count;

/// The pair that a child at `node` belongs to; pair `p` is the nodes `2p + 1` and `2p + 2`.
#[inline]
pub(super) fn pair_of(node: u32) -> usize {
    (node as usize - 1) / 2
}

/// What a node costs to number, in primitives.
const NODE_WORK: usize = 2;

/// Cost of visiting an inner node and its children, where testing a triangle costs 1.
const VISIT: f32 = 3.0;

/// When a small tree becomes one leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collapse {
    pub(super) max_leaf: u32,
    pub(super) scale: f32,
}

impl Collapse {
    /// Whether a leaf of all triangles under an inner node costs no more than the tree there.
    fn pays(&self, nodes: &[Item], node: u32) -> bool {
        let held = small_count(&nodes[node as usize]);
        if held > self.max_leaf {
            return false;
        }
        let area = nodes[node as usize].bounds().area(self.scale);
        held as f32 * area <= self.split(nodes, node, area)
    }

    fn split(&self, nodes: &[Item], node: u32, area: f32) -> f32 {
        let child = nodes[node as usize].low_word();
        VISIT * area + self.best(nodes, child) + self.best(nodes, child + 1)
    }

    /// The least cost of what is under a node. At most as many levels deep as a leaf holds triangles.
    fn best(&self, nodes: &[Item], node: u32) -> f32 {
        let item = &nodes[node as usize];
        let area = item.bounds().area(self.scale);
        let leaf = small_count(item) as f32 * area;
        if item.is_leaf() { leaf } else { leaf.min(self.split(nodes, node, area)) }
    }
}

/// Where numbering stands.
#[derive(Debug, Default)]
pub(super) struct Flattener {
    stack: Vec<u32>,
    pairs: u32,
}

impl Flattener {
    pub(super) fn begin(&mut self) {
        self.stack.push(0);
    }

    /// Pairs of nodes numbered so far.
    pub(super) fn pairs(&self) -> u32 {
        self.pairs
    }

    /// Numbers nodes until about `work` primitives have been passed; returns the work done, 0 at the end.
    ///
    /// `order` gives the triangle of a primitive, `sequence` receives the triangles in their final order, leaves are
    /// told where theirs begin in it, and `places` receives the new number of each pair.
    pub(super) fn advance(
        &mut self,
        nodes: &mut [Item],
        collapse: &Collapse,
        order: impl Fn(usize) -> u32,
        sequence: &mut Vec<u32>,
        places: &mut [u32],
        work: usize,
    ) -> usize {
        let mut done = 0;
        while done < work {
            let Some(node) = self.stack.pop() else { break };
            let begin = sequence.len() as u32;
            let item = &nodes[node as usize];
            let child = item.low_word();
            if item.is_leaf() || collapse.pays(nodes, node) {
                append(nodes, node, &order, sequence);
                let count = sequence.len() as u32 - begin;
                nodes[node as usize].set_words(begin, LEAF | count);
                done += count as usize;
            } else {
                let area = |node: u32| nodes[node as usize].bounds().area(collapse.scale);
                // A ray that begins inside both boxes visits the first one first: the larger one is the likelier to
                // stop it.
                if area(child + 1) > area(child) {
                    nodes.swap(child as usize, child as usize + 1);
                }
                places[pair_of(child)] = self.pairs;
                self.pairs += 1;
                self.stack.push(child + 1);
                self.stack.push(child);
            }
            done += NODE_WORK;
        }
        done
    }
}

/// Appends the triangles under a node that is to be a leaf.
fn append(nodes: &[Item], node: u32, order: &impl Fn(usize) -> u32, sequence: &mut Vec<u32>) {
    let item = &nodes[node as usize];
    let first = item.low_word();
    if item.is_leaf() {
        sequence.extend((first..first + (item.high_word() ^ LEAF)).map(|p| order(p as usize)));
    } else {
        append(nodes, first, order, sequence);
        append(nodes, first + 1, order, sequence);
    }
}
