//! Bounding volume hierarchies over the triangles of placed meshes, built in bounded slices and packed for shaders.
//!
//! [`Build::new`] counts; [`Build::step`] works for as long as it may and stops between two units of a fraction of a
//! millisecond each; [`Build::run`] does all of it at once, on several threads if it may. However the work is sliced
//! or shared out, the bytes are the same. They go straight into memory that a [`Sink`] lends.
//!
//! # Bytes
//! Both buffers are arrays of 16-byte vectors, little-endian. Integers are stored as such between the floats: shaders
//! declare `array<vec4<u32>>` and bitcast the floats, as small integers are denormals that GPUs flush to zero. The
//! include `ashfall/bvh.wgsl` reads them.
//!
//! A node is 2 vectors, 32 bytes:
//!
//! | vector | x y z | w |
//! |-|-|-|
//! | 0 | least corner | inner node: left child; leaf: first triangle |
//! | 1 | greatest corner | inner node: right child; leaf: `0x80000000` with the count, 1 to [`MAX_LEAF`] |
//!
//! Node 0 is the root. Children come behind their parents, the right one next to the left. Leaves lie at most
//! [`MAX_DEPTH`] below the root, and from left to right their triangles are 0, 1, 2 and so on. Without triangles the
//! root is a leaf at the origin with count 0.
//!
//! A triangle is 18 vectors, 288 bytes: three corners (w 0), three unit normals (w 0), two vectors with three pairs of
//! texture coordinates, and ten with the instance's attributes, 0 where it has none.
//!
//! # How
//! The tree is split from the top down by the binned surface area heuristic (Wald 2007), long runs by a sample of
//! their primitives, down to pairs of triangles. Then the largest nodes move to where they enlarge the boxes above
//! them least (Meister and Bittner 2018), and small trees that cost no less than a leaf become leaves. Of two
//! children the larger one is the left one: a ray that begins in both boxes does well to visit it first. A million
//! triangles take 0.3 to 0.6 s on one thread, and 100 bytes each beside meshes and buffers.
//!
//! # Triangles that are nowhere
//! Each triangle of the input is in the output, in one leaf. One with a corner in the world which is not finite, or
//! has a coordinate past 5e37, has all three corners stored at its first good corner, or at the origin if it has
//! none: no ray hits it, and no box suffers from it. Normals without a direction (zero, or not finite) are stored as
//! zero. Texture coordinates and attributes are stored as given, numbers or not.
//!
//! # Does not
//! Split triangles, weld vertices, refit, or look at meshes after the build.

mod boxes;
mod build;
mod flatten;
mod gather;
mod improve;
mod limits;
mod memory;
mod pack;
mod run;
mod share;
mod sink;
mod split;
pub mod trace;

#[cfg(test)]
mod tests;

use crate::mesh::Mesh;
use boxes::Item;
use build::{Builder, SPLIT_LEAF};
use flatten::{Collapse, Flattener};
use gather::{Cursor, Extent, Instances, Placed};
use improve::Improver;
use pack::NodePacker;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use build::MAX_DEPTH;
pub use limits::{Error, Limits, MAX_LEAF, MAX_TRIANGLES};
pub use sink::{Sink, Stream, VecSink};

/// Bytes of a node.
pub const NODE_BYTES: u64 = 32;

/// Bytes of a triangle.
pub const TRIANGLE_BYTES: u64 = 288;

/// Attributes that a triangle has room for.
pub const MAX_ATTRIBUTES: usize = 40;

/// What tells a leaf's count from a right child.
pub const LEAF: u32 = 0x8000_0000;

/// Triangles of a leaf unless the options say otherwise.
pub const DEFAULT_LEAF: u32 = 4;

/// Primitives that a unit looks at, about 0.1 ms.
const UNIT: usize = 4096;

/// What an instance stamps on its triangles.
pub type Attributes = SmallVec<[f32; MAX_ATTRIBUTES]>;

/// A mesh in the world.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its triangles.
    pub mesh: Arc<Mesh>,
    /// From the mesh to the world: 16 numbers by rows, the translation in the last of the first three rows; the last
    /// row is not looked at. Normals go by the inverse transpose, which singular and mirroring transforms have too as
    /// far as it has a direction.
    pub transform: [f32; 16],
    /// At most [`MAX_ATTRIBUTES`] numbers for each of its triangles.
    pub attributes: Attributes,
}

/// How to build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Triangles that a leaf may hold, at least 1; more than [`MAX_LEAF`] mean that, none mean [`DEFAULT_LEAF`].
    pub max_leaf: Option<u32>,
}

impl Options {
    /// Options with leaves of at most so many triangles.
    #[must_use]
    pub fn with_max_leaf(max_leaf: u32) -> Self {
        Self { max_leaf: Some(max_leaf) }
    }
}

/// What a build is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Placing triangles and measuring their boxes.
    Gather,
    /// Making the tree and improving it.
    Build,
    /// Numbering nodes and triangles in their final order.
    Serialize,
    /// Writing their bytes into the sink.
    Upload,
    /// Nothing any more.
    Ready,
}

impl Phase {
    /// All of them in the order in which a build goes through them, with their names.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Gather, "gather"),
        (Self::Build, "build"),
        (Self::Serialize, "serialize"),
        (Self::Upload, "upload"),
        (Self::Ready, "ready"),
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// What a step left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Work for further steps.
    Pending,
    /// Work for further steps, once the sink lends again.
    Stalled,
    /// Nothing: every byte is in the sink.
    Ready,
}

/// Sizes of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Triangles, as many as the meshes have.
    pub triangles: u32,
    /// Their bytes.
    pub triangle_bytes: u64,
    /// Nodes; known from [`Phase::Upload`] on.
    pub nodes: Option<u32>,
    /// Their bytes.
    pub node_bytes: Option<u64>,
}

/// What a build has cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// What it is doing.
    pub phase: Phase,
    /// Triangles gathered.
    pub triangles: u32,
    /// Units of work done.
    pub units: u64,
    /// Calls that did them.
    pub slices: u64,
    /// Time spent inside those calls.
    pub time: Duration,
    /// Bytes written into the sink.
    pub uploaded: u64,
    /// Primitives and nodes that the largest unit looked at, which bounds its time whatever the machine.
    pub largest_unit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Gather,
    Split,
    Compact,
    Improve,
    Number,
    FreeOrder,
    PackNodes,
    FreeNodes,
    PackTriangles,
    FreeTriangles,
    Ready,
}

/// What a unit came to.
enum Unit {
    /// Work done, in primitives.
    Done(usize),
    /// The sink did not lend.
    Stalled,
    /// There was nothing left to do.
    Ready,
}

/// A hierarchy being built.
#[derive(Debug)]
pub struct Build {
    stage: Stage,
    failure: Option<Error>,
    limits: Limits,
    /// Triangles in the leaves that splitting makes.
    split_leaf: usize,
    triangles: u32,
    instances: Instances,
    cursor: Cursor,
    extent: Extent,
    items: Vec<Item>,
    nodes: Vec<Item>,
    node_count: Option<u32>,
    builder: Builder,
    improver: Improver,
    /// The triangle of each primitive, from the last one to the first.
    order: Vec<u32>,
    /// The final numbers of node pairs.
    places: Vec<u32>,
    flattener: Flattener,
    collapse: Collapse,
    /// Triangles in their final order.
    sequence: Vec<u32>,
    packer: NodePacker,
    packed: usize,
    gathered: u32,
    units: u64,
    slices: u64,
    time: Duration,
    uploaded: u64,
    largest_unit: usize,
}

impl Build {
    /// Prepares a build without looking at any triangle: the cost is that of counting the instances.
    ///
    /// # Errors
    /// Options and instances out of range, and more triangles than the limits allow. Nodes are counted once the tree
    /// is made, and [`Build::step`] refuses too many.
    pub fn new(instances: Vec<Instance>, options: Options, limits: Limits) -> Result<Self, Error> {
        let triangles = limits::check(&instances, &options, &limits)?;
        let max_leaf = options.max_leaf.unwrap_or(DEFAULT_LEAF).min(MAX_LEAF) as usize;
        let mut first = 0;
        let place = |instance: Instance| {
            let placed = Placed::new(instance, first);
            first += placed.count();
            placed
        };
        // Instances without triangles would share their number with the next one.
        let instances = instances.into_iter().filter(|i| !i.mesh.indices().is_empty()).map(place);
        let instances = Instances::new(instances.collect());
        Ok(Self {
            stage: Stage::Gather,
            failure: None,
            limits,
            split_leaf: max_leaf.min(SPLIT_LEAF),
            triangles,
            instances,
            cursor: Cursor::default(),
            extent: Extent::EMPTY,
            items: Vec::new(),
            nodes: Vec::new(),
            node_count: None,
            builder: Builder::default(),
            improver: Improver::new(),
            order: Vec::new(),
            places: Vec::new(),
            flattener: Flattener::default(),
            collapse: Collapse { max_leaf: max_leaf as u32, scale: 1.0 },
            sequence: Vec::new(),
            packer: NodePacker::default(),
            packed: 0,
            gathered: 0,
            units: 0,
            slices: 0,
            time: Duration::ZERO,
            uploaded: 0,
            largest_unit: 0,
        })
    }

    /// How large the buffers are.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        Sizes {
            triangles: self.triangles,
            triangle_bytes: u64::from(self.triangles) * TRIANGLE_BYTES,
            nodes: self.node_count,
            node_bytes: self.node_count.map(|n| u64::from(n) * NODE_BYTES),
        }
    }

    /// What it is doing and has cost.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let phase = match self.stage {
            Stage::Gather => Phase::Gather,
            Stage::Split | Stage::Compact | Stage::Improve => Phase::Build,
            Stage::Number | Stage::FreeOrder => Phase::Serialize,
            Stage::PackNodes | Stage::FreeNodes | Stage::PackTriangles | Stage::FreeTriangles => Phase::Upload,
            Stage::Ready => Phase::Ready,
        };
        Stats {
            phase,
            triangles: self.gathered,
            units: self.units,
            slices: self.slices,
            time: self.time,
            uploaded: self.uploaded,
            largest_unit: self.largest_unit,
        }
    }

    /// Works until the budget of wall time is used up, the sink stops lending or nothing is left: at least one unit,
    /// and with a budget of 0 exactly one. A unit takes about 0.1 ms and looks at a bounded number of primitives, so
    /// a step ends that long after its budget. After the last unit it is a no-op.
    ///
    /// # Errors
    /// More nodes than the limits allow, and memory that the host does not have. The build is then over, and further
    /// steps tell the same.
    pub fn step(&mut self, budget: Duration, sink: &mut dyn Sink) -> Result<Progress, Error> {
        self.slice(|build, start| {
            loop {
                match build.unit(sink)? {
                    Unit::Ready => return Ok(Progress::Ready),
                    Unit::Stalled => return Ok(Progress::Stalled),
                    Unit::Done(work) => {
                        build.units += 1;
                        build.largest_unit = build.largest_unit.max(work);
                    }
                }
                if build.stage == Stage::Ready {
                    return Ok(Progress::Ready);
                }
                if start.elapsed() >= budget {
                    return Ok(Progress::Pending);
                }
            }
        })
    }

    /// Works, and counts that.
    fn slice(&mut self, work: impl FnOnce(&mut Self, Instant) -> Result<Progress, Error>) -> Result<Progress, Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.stage == Stage::Ready {
            return Ok(Progress::Ready);
        }
        let start = Instant::now();
        self.slices += 1;
        let result = work(self, start);
        self.time += start.elapsed();
        if let Err(error) = &result {
            self.failure = Some(error.clone());
        }
        result
    }

    fn unit(&mut self, sink: &mut dyn Sink) -> Result<Unit, Error> {
        let work = match self.stage {
            Stage::Gather => self.gather()?,
            Stage::Split => self.split()?,
            Stage::Compact => self.compact()?,
            Stage::Improve => self.improve(1)?,
            Stage::Number => self.number()?,
            Stage::FreeOrder => self.free(Stage::PackNodes, |b| memory::free_piece(&mut b.order)),
            Stage::PackNodes => return Ok(self.pack_nodes(sink)),
            Stage::FreeNodes => self
                .free(Stage::PackTriangles, |b| memory::free_piece(&mut b.nodes) && memory::free_piece(&mut b.places)),
            Stage::PackTriangles => return Ok(self.pack_triangles(sink)),
            Stage::FreeTriangles => {
                self.free(Stage::Ready, |b| memory::free_piece(&mut b.sequence) && b.instances.free_piece())
            }
            Stage::Ready => return Ok(Unit::Ready),
        };
        Ok(Unit::Done(work))
    }

    fn gather(&mut self) -> Result<usize, Error> {
        self.begin_gather()?;
        let count = self.triangles as usize;
        let items = &mut self.items;
        let work = gather::gather(&self.instances, &mut self.cursor, &mut self.extent, UNIT, |item| items.push(item));
        self.gathered = items.len() as u32;
        if items.len() == count {
            self.begin_split()?;
        }
        Ok(work)
    }

    fn begin_gather(&mut self) -> Result<(), Error> {
        if self.items.capacity() < self.triangles as usize {
            self.items = memory::reserve(self.triangles as usize, "primitives", self.triangles)?;
        }
        Ok(())
    }

    fn begin_split(&mut self) -> Result<(), Error> {
        self.stage = Stage::Split;
        if self.triangles == 0 {
            limits::check_nodes(1, &self.limits)?;
            self.node_count = Some(1);
            self.stage = Stage::PackNodes;
            return Ok(());
        }
        self.nodes = memory::reserve(2 * self.triangles as usize - 1, "nodes", self.triangles)?;
        self.builder.begin(self.items.len(), self.extent, &mut self.nodes);
        Ok(())
    }

    fn split(&mut self) -> Result<usize, Error> {
        let work = self.builder.advance(&mut self.items, &mut self.nodes, self.split_leaf, UNIT);
        if work == 0 {
            self.end_split()?;
        }
        Ok(work)
    }

    fn end_split(&mut self) -> Result<(), Error> {
        self.builder = Builder::default();
        self.order = memory::reserve(self.items.len(), "order", self.triangles)?;
        self.stage = Stage::Compact;
        Ok(())
    }

    /// Keeps the numbers of the triangles, and gives their boxes back.
    fn compact(&mut self) -> Result<usize, Error> {
        let rest = self.items.len().saturating_sub(UNIT);
        self.order.extend(self.items[rest..].iter().rev().map(Item::high_word));
        memory::shrink(&mut self.items, rest);
        if rest == 0 {
            self.stage = Stage::Improve;
        }
        Ok(UNIT)
    }

    fn improve(&mut self, threads: usize) -> Result<usize, Error> {
        let work = self.improver.advance(&mut self.nodes, UNIT / 2, threads)?;
        if work == 0 {
            self.begin_number()?;
        }
        Ok(work)
    }

    fn begin_number(&mut self) -> Result<(), Error> {
        self.sequence = memory::reserve(self.triangles as usize, "sequence", self.triangles)?;
        self.places = memory::reserve(self.nodes.len() / 2, "places", self.triangles)?;
        self.collapse.scale = self.nodes[0].bounds().unit_scale();
        self.flattener.begin();
        self.stage = Stage::Number;
        Ok(())
    }

    fn number(&mut self) -> Result<usize, Error> {
        let pairs = self.nodes.len() / 2;
        if self.places.len() < pairs {
            let to = pairs.min(self.places.len() + 16 * UNIT);
            self.places.resize(to, 0);
            return Ok(UNIT);
        }
        let last = self.order.len().saturating_sub(1);
        let order = &self.order;
        let of = |primitive: usize| order[last - primitive];
        let work =
            self.flattener.advance(&mut self.nodes, &self.collapse, of, &mut self.sequence, &mut self.places, UNIT);
        if work == 0 {
            let nodes = 2 * self.flattener.pairs() + 1;
            limits::check_nodes(nodes.into(), &self.limits)?;
            self.node_count = Some(nodes);
            self.stage = Stage::FreeOrder;
        }
        Ok(work)
    }

    fn pack_nodes(&mut self, sink: &mut dyn Sink) -> Unit {
        let total = self.node_count.map_or(0, u64::from) * NODE_BYTES;
        let offset = self.packer.offset();
        let len = (Stream::Nodes.block() as u64).min(total - offset) as usize;
        if offset == 0 {
            sink.sized(self.sizes());
        }
        let Some(block) = lend(sink, Stream::Nodes, offset, len) else { return Unit::Stalled };
        let written = match self.triangles {
            0 => {
                block[..NODE_BYTES as usize].copy_from_slice(&pack::empty_node());
                1
            }
            _ => self.packer.fill(&self.nodes, &self.places, block),
        };
        self.uploaded += written * NODE_BYTES;
        if self.uploaded == total {
            self.stage = Stage::FreeNodes;
        }
        Unit::Done(written as usize)
    }

    fn pack_triangles(&mut self, sink: &mut dyn Sink) -> Unit {
        let left = self.sequence.len() - self.packed;
        if left == 0 {
            self.stage = Stage::FreeTriangles;
            return Unit::Done(0);
        }
        let offset = self.packed as u64 * TRIANGLE_BYTES;
        let len = Stream::Triangles.block().min(left * TRIANGLE_BYTES as usize);
        let Some(block) = lend(sink, Stream::Triangles, offset, len) else { return Unit::Stalled };
        let count = block.len() / TRIANGLE_BYTES as usize;
        pack::fill_triangles(&self.instances, &self.sequence[self.packed..self.packed + count], block);
        self.packed += count;
        self.uploaded += count as u64 * TRIANGLE_BYTES;
        Unit::Done(count)
    }

    fn free(&mut self, next: Stage, piece: impl FnOnce(&mut Self) -> bool) -> usize {
        if piece(self) {
            self.stage = next;
        }
        1
    }

    /// Gives the build up. What it holds is freed by steps of the remains, or all at once by dropping them, which
    /// takes about 3 ms for a million triangles.
    #[must_use]
    pub fn cancel(mut self) -> Remains {
        let (parents, touched) = self.improver.arrays();
        Remains {
            words: [&mut self.order, &mut self.places, &mut self.sequence, parents].map(std::mem::take),
            marks: std::mem::take(touched),
            items: [&mut self.items, &mut self.nodes].map(std::mem::take),
            instances: std::mem::take(&mut self.instances),
        }
    }
}

/// What is left of a cancelled build.
#[derive(Debug)]
pub struct Remains {
    words: [Vec<u32>; 4],
    marks: Vec<u64>,
    items: [Vec<Item>; 2],
    instances: Instances,
}

impl Remains {
    /// Frees until the budget of wall time is used up, at least one piece of about 0.1 ms; true once all is gone.
    pub fn step(&mut self, budget: Duration) -> bool {
        let start = Instant::now();
        loop {
            let gone = self.words.iter_mut().all(memory::free_piece)
                && memory::free_piece(&mut self.marks)
                && self.items.iter_mut().all(memory::free_piece)
                && self.instances.free_piece();
            if gone || start.elapsed() >= budget {
                return gone;
            }
        }
    }
}

/// A block of whole records, at least one.
fn lend(sink: &mut dyn Sink, stream: Stream, offset: u64, len: usize) -> Option<&mut [u8]> {
    let block = sink.lend(stream, offset, len)?;
    let record = stream.record_bytes() as usize;
    let usable = block.len().min(len) / record * record;
    block.get_mut(..usable).filter(|b| !b.is_empty())
}
