//! The final numbering: nodes in pairs, depth first, and triangles in the order of the leaves.

use super::LEAF;
use super::boxes::Item;

/// The pair that a child at `node` belongs to; pair `p` is the nodes `2p + 1` and `2p + 2`.
#[inline]
pub(super) fn pair_of(node: u32) -> usize {
    (node as usize - 1) / 2
}

/// What a node costs to number, in primitives.
const NODE_WORK: usize = 2;

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

    /// Numbers nodes until about `work` primitives have been passed; returns the work done, 0 at the end.
    ///
    /// `order` gives the triangle of a primitive, `sequence` receives the triangles in their final order, leaves are
    /// told where theirs begin in it, and `places` receives the new number of each pair.
    pub(super) fn advance(
        &mut self,
        nodes: &mut [Item],
        order: impl Fn(usize) -> u32,
        sequence: &mut Vec<u32>,
        places: &mut [u32],
        work: usize,
    ) -> usize {
        let mut done = 0;
        while done < work {
            let Some(node) = self.stack.pop() else { break };
            let item = &mut nodes[node as usize];
            let first = item.low_word();
            if item.is_leaf() {
                let count = item.high_word() ^ LEAF;
                item.set_words(sequence.len() as u32, LEAF | count);
                done += count as usize;
                sequence.extend((first..first + count).map(|p| order(p as usize)));
            } else {
                places[pair_of(first)] = self.pairs;
                self.pairs += 1;
                self.stack.push(first + 1);
                self.stack.push(first);
            }
            done += NODE_WORK;
        }
        done
    }
}
