//! The frames that every contestant runs, and what their bytes have to be.

/// Words of a buffer; one workgroup of this size a dispatch.
pub const WORDS: usize = 64;

/// A buffer's bytes.
pub const BYTES: u64 = 4 * WORDS as u64;

/// The parameters of each dispatch.
pub const PARAMS: [u32; 4] = [1_664_525, 1_013_904_223, 3, 7];

/// What a dispatch does, without its declarations: `{sum}` stands for the sum of what it reads.
const BODY: &str = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    dst[id.x] = dst[id.x] * params.a + {sum} + params.b + params.c * params.d;
}";

/// How dispatches depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Independent,
    Chain,
    Chains,
    Dag,
}

impl Shape {
    pub const ALL: [Self; 4] = [Self::Independent, Self::Chain, Self::Chains, Self::Dag];

    pub fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Chain => "one chain",
            Self::Chains => "64 chains",
            Self::Dag => "random DAG",
        }
    }
}

/// A frame of dispatches.
#[derive(Clone, Debug)]
pub struct Work {
    pub shape: Shape,
    pub dispatches: usize,
    /// Buffers a dispatch binds; it writes the last one and reads the others.
    pub bound: usize,
    /// Buffers there are.
    pub buffers: usize,
    /// The buffers of each dispatch.
    pub list: Vec<u32>,
    /// The dispatches level by level, each level independent, and where levels end: the order of least barriers.
    pub order: Vec<u32>,
    pub ends: Vec<u32>,
}

impl Work {
    pub fn new(shape: Shape, dispatches: usize, bound: usize) -> Self {
        let sources = bound - 1;
        let targets = match shape {
            Shape::Independent => dispatches,
            Shape::Chain => 1,
            Shape::Chains => 64,
            Shape::Dag => (dispatches / 4).max(2 * bound),
        };
        let (mut list, mut seed) = (Vec::with_capacity(dispatches * bound), 1u32);
        for dispatch in 0..dispatches {
            if shape == Shape::Dag {
                // Distinct buffers, any of them.
                let from = list.len();
                while list.len() < from + bound {
                    seed = seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                    let buffer = ((u64::from(seed) * targets as u64) >> 32) as u32;
                    if !list[from..].contains(&buffer) {
                        list.push(buffer);
                    }
                }
            } else {
                list.extend(0..sources as u32);
                list.push((sources + dispatch % targets) as u32);
            }
        }
        let buffers = if shape == Shape::Dag { targets } else { sources + targets };
        let (order, ends) = levels(&list, bound, buffers);
        Self { shape, dispatches, bound, buffers, list, order, ends }
    }

    /// The buffers of a dispatch.
    pub fn binds(&self, dispatch: usize) -> &[u32] {
        &self.list[dispatch * self.bound..(dispatch + 1) * self.bound]
    }

    /// What a buffer holds at first.
    pub fn initial(buffer: usize) -> [u32; WORDS] {
        std::array::from_fn(|i| (buffer * WORDS + i) as u32 ^ 0x9e37_79b9)
    }

    /// All buffers after so many frames, computed here.
    pub fn expected(&self, frames: usize) -> Vec<u32> {
        let mut all: Vec<[u32; WORDS]> = (0..self.buffers).map(Self::initial).collect();
        let [a, b, c, d] = PARAMS;
        for dispatch in (0..frames).flat_map(|_| 0..self.dispatches) {
            let (target, sources) = self.binds(dispatch).split_last().unwrap();
            let mut sum = [b.wrapping_add(c * d); WORDS];
            for source in sources {
                sum.iter_mut().zip(&all[*source as usize]).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
            }
            let words = all[*target as usize].iter_mut();
            words.zip(sum).for_each(|(word, sum)| *word = word.wrapping_mul(a).wrapping_add(sum));
        }
        all.into_flattened()
    }

    /// The kernel without declarations.
    pub fn body(bound: usize) -> String {
        let sources: Vec<String> = (0..bound - 1).map(|s| format!("src{s}[id.x]")).collect();
        BODY.replace("{sum}", &sources.join(" + "))
    }

    /// The kernel with the declarations that others than ashfall need.
    pub fn wgsl(bound: usize) -> String {
        let mut text = "struct Params { a: u32, b: u32, c: u32, d: u32 }\nvar<immediate> params: Params;\n".to_owned();
        for s in 0..bound - 1 {
            text += &format!("@group(0) @binding({s}) var<storage, read> src{s}: array<u32>;\n");
        }
        text += &format!("@group(0) @binding({}) var<storage, read_write> dst: array<u32>;\n", bound - 1);
        text + &Self::body(bound)
    }
}

/// Each dispatch in the first level that it can be in.
fn levels(list: &[u32], bound: usize, buffers: usize) -> (Vec<u32>, Vec<u32>) {
    // The first level in which a buffer may be read, and written.
    let mut free = vec![[0u32; 2]; buffers];
    let mut level_of = Vec::new();
    for binds in list.chunks_exact(bound) {
        let (target, sources) = binds.split_last().unwrap();
        let reads = sources.iter().map(|s| free[*s as usize][0]).max().unwrap_or(0);
        let [read, write] = free[*target as usize];
        let level = reads.max(read).max(write);
        for source in sources {
            free[*source as usize][1] = free[*source as usize][1].max(level + 1);
        }
        free[*target as usize] = [level + 1; 2];
        level_of.push(level);
    }
    let mut order: Vec<u32> = (0..level_of.len() as u32).collect();
    order.sort_by_key(|d| level_of[*d as usize]);
    let count = level_of.iter().max().map_or(0, |l| l + 1);
    let ends = (0..count).map(|level| order.partition_point(|d| level_of[*d as usize] <= level) as u32);
    let ends = ends.collect();
    (order, ends)
}
