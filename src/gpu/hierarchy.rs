//! Hierarchies that are built a slice at a time, straight into buffers of the device.

use super::Gpu;
use crate::bvh::{self, Build, Instance, Progress, Remains, Sink, Stats, Stream};
use crate::error::{Error, Result};
use crate::record::Limits;
use crate::registry::{BufferDesc, BufferId};
use crate::ring::Slice;
use std::time::{Duration, Instant};

/// A build under way. Ids count up and are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BvhId(pub u64);

/// A finished hierarchy. Its buffers are the caller's to destroy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The nodes, see [`crate::bvh`].
    pub nodes: BufferId,
    /// The triangles in the order of the leaves.
    pub triangles: BufferId,
    /// How many nodes there are.
    pub node_count: u32,
    /// How many triangles there are; without any the buffer holds one that is all zeros.
    pub triangle_count: u32,
}

#[derive(Debug)]
struct Entry {
    id: BvhId,
    build: Build,
    target: Target,
}

/// Where a build's bytes go.
#[derive(Debug, Default)]
struct Target {
    nodes: Option<BufferId>,
    triangles: Option<BufferId>,
    /// What [`Builds::lost_frames`] was when the first of them was made.
    lost_frames: u64,
}

/// All builds of a device.
#[derive(Debug, Default)]
pub(super) struct Builds {
    /// Oldest first.
    entries: Vec<Entry>,
    last: u64,
    /// What cancelled builds held, freed piece by piece.
    remains: Vec<Remains>,
    /// Frames that never reached the device, and the bytes in them neither.
    pub lost_frames: u64,
}

impl Builds {
    fn at(&self, id: BvhId) -> Result<usize> {
        let unknown = || Error::Unknown { kind: "hierarchy build", name: id.0.to_string() };
        self.entries.binary_search_by_key(&id, |e| e.id).map_err(|_| unknown())
    }

    /// Frees some of what cancelled builds held: once a frame.
    pub fn tidy(&mut self) {
        let start = Instant::now();
        while let Some(remains) = self.remains.last_mut() {
            if !remains.step(TIDY.saturating_sub(start.elapsed())) {
                break;
            }
            self.remains.pop();
            if start.elapsed() >= TIDY {
                break;
            }
        }
    }
}

/// What a frame spends on freeing cancelled builds.
const TIDY: Duration = Duration::from_micros(250);

/// The buffers that a device can bind.
fn limits(of: &Limits) -> bvh::Limits {
    let bytes = of.max_storage_range.min(of.max_buffer_bytes);
    bvh::Limits { max_triangle_bytes: bytes, max_node_bytes: bytes }
}

impl Gpu {
    /// Starts the build of a hierarchy over the triangles of placed meshes, without looking at any of them.
    ///
    /// # Errors
    /// [`Error::Argument`] for options and instances out of range, [`Error::Limit`] for more triangles than a storage
    /// buffer of the device holds.
    pub fn begin_bvh(&mut self, instances: Vec<Instance>, options: bvh::Options) -> Result<BvhId> {
        self.backend.check_lost()?;
        let build = Build::new(instances, options, limits(&self.info().limits)).map_err(|e| self.bvh_error(&e))?;
        self.builds.last += 1;
        let id = BvhId(self.builds.last);
        self.builds.entries.push(Entry { id, build, target: Target::default() });
        Ok(id)
    }

    /// Works on a build until the budget of wall time is used up: at least one unit of about 0.1 ms, and with a budget
    /// of 0 exactly one. True once every byte is recorded for the device, and [`Gpu::finish_bvh`] hands it over.
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Limit`] for more nodes than a storage buffer holds, [`Error::OutOfMemory`]. The
    /// build stays until it is cancelled; after running out of the device's memory it can be stepped again.
    pub fn step_bvh(&mut self, id: BvhId, budget: Duration) -> Result<bool> {
        self.work_on_bvh(id, |build, sink| build.step(budget, sink))
    }

    fn work_on_bvh(
        &mut self,
        id: BvhId,
        work: impl FnOnce(&mut Build, &mut dyn Sink) -> Result<Progress, bvh::Error>,
    ) -> Result<bool> {
        self.backend.check_lost()?;
        let at = self.builds.at(id)?;
        // Taken out so that the sink may borrow the device.
        let mut entries = std::mem::take(&mut self.builds.entries);
        let Entry { build, target, .. } = &mut entries[at];
        let sizes = build.sizes();
        let mut sink = Staged { gpu: self, id, target, sizes, open: None, failure: None };
        let done = match sink.check_frames() {
            Ok(()) => work(build, &mut sink).map_err(|e| sink.gpu.bvh_error(&e)),
            Err(error) => Err(error),
        };
        sink.close();
        let failure = sink.failure.take();
        self.builds.entries = entries;
        match failure {
            Some(error) => Err(error),
            None => Ok(done? == Progress::Ready),
        }
    }

    /// Hands a built hierarchy over and ends the build. Until then its buffers answer to no name.
    ///
    /// The last bytes are in the frame being recorded. Should that frame not reach the device, [`Gpu::end_frame`] says
    /// so and the buffers hold no hierarchy.
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Argument`] while there is work left, and for a build of which a part was lost with
    /// its frame. The build stays.
    pub fn finish_bvh(&mut self, id: BvhId) -> Result<Hierarchy> {
        let at = self.builds.at(id)?;
        let Entry { build, target, .. } = &self.builds.entries[at];
        let (stats, sizes) = (build.stats(), build.sizes());
        let (Some(nodes), Some(triangles), Some(node_count), bvh::Phase::Ready) =
            (target.nodes, target.triangles, sizes.nodes, stats.phase)
        else {
            let given = format!("a build in its {} phase", stats.phase.name());
            return Err(Error::argument("id", given, "one that has been stepped until it is ready"));
        };
        if target.lost_frames != self.builds.lost_frames {
            return Err(lost());
        }
        self.builds.entries.remove(at);
        for buffer in [nodes, triangles] {
            self.recorder.hand_over(buffer);
        }
        Ok(Hierarchy { nodes, triangles, node_count, triangle_count: sizes.triangles })
    }

    /// Drops a build and its buffers. False when there is none of this id.
    ///
    /// What it held on the host is freed over the next frames, so that this costs none of them.
    pub fn cancel_bvh(&mut self, id: BvhId) -> bool {
        let Ok(at) = self.builds.at(id) else { return false };
        let Entry { build, target, .. } = self.builds.entries.remove(at);
        for buffer in [target.nodes, target.triangles].into_iter().flatten() {
            self.release_buffer(buffer);
        }
        self.builds.remains.push(build.cancel());
        true
    }

    /// The builds begun and neither finished nor cancelled, oldest first.
    pub fn bvh_builds(&self) -> impl Iterator<Item = (BvhId, Stats)> {
        self.builds.entries.iter().map(|e| (e.id, e.build.stats()))
    }

    /// Builds a hierarchy at once, on as many threads as given. The bytes are those that slices come to.
    ///
    /// All of them wait in this frame's upload memory, about 350 bytes a triangle until the device is done with it;
    /// slices need that for the bytes of a frame alone.
    ///
    /// # Errors
    /// As [`Gpu::begin_bvh`] and [`Gpu::step_bvh`]; nothing is left behind.
    pub fn build_bvh(&mut self, instances: Vec<Instance>, options: bvh::Options, threads: usize) -> Result<Hierarchy> {
        let id = self.begin_bvh(instances, options)?;
        let built = self.work_on_bvh(id, |build, sink| build.run(threads, sink)).and_then(|_| self.finish_bvh(id));
        if built.is_err() {
            self.cancel_bvh(id);
        }
        built
    }

    fn bvh_error(&self, error: &bvh::Error) -> Error {
        let device = || self.info().name.clone();
        match *error {
            bvh::Error::MaxLeaf => Error::argument("opts.maxLeaf", "0", "at least 1"),
            bvh::Error::Attributes { instance, given } => Error::argument(
                format!("instances[{}].attributes", instance + 1),
                format!("{given} numbers"),
                format!("at most {}", bvh::MAX_ATTRIBUTES),
            ),
            bvh::Error::TriangleBytes { triangles, bytes, limit } => Error::Limit {
                what: format!("the size of {triangles} triangles in bytes"),
                given: bytes,
                limit,
                device: device(),
            },
            bvh::Error::NodeBytes { nodes, bytes, limit } => Error::Limit {
                what: format!("the size of {nodes} nodes in bytes"),
                given: bytes,
                limit,
                device: device(),
            },
            bvh::Error::Memory { what, bytes, .. } => {
                Error::OutOfMemory { what: format!("a hierarchy's {what} on the host"), bytes }
            }
        }
    }
}

fn lost() -> Error {
    Error::argument("id", "a build of which a part was in a frame that never reached the device", "one begun anew")
}

/// Upload memory of the frame as a build's sink.
struct Staged<'a> {
    gpu: &'a mut Gpu,
    id: BvhId,
    target: &'a mut Target,
    sizes: bvh::Sizes,
    /// The block that is lent: its buffer, offset and length there, and where it lies.
    open: Option<(BufferId, u64, u64, Slice)>,
    failure: Option<Error>,
}

impl Staged<'_> {
    fn check_frames(&self) -> Result<()> {
        let begun = self.target.nodes.is_some();
        if begun && self.target.lost_frames != self.gpu.builds.lost_frames { Err(lost()) } else { Ok(()) }
    }

    /// Records the copy of the block that was lent last.
    fn close(&mut self) {
        if let Some((buffer, offset, len, slice)) = self.open.take() {
            self.gpu.recorder.upload(buffer, offset, len, slice);
        }
    }

    /// Makes both buffers, whose sizes are known once there are nodes to pack.
    fn begin(&mut self) -> Result<()> {
        let make = |gpu: &mut Gpu, name: &str, bytes: Option<u64>, least: u64| -> Result<BufferId> {
            let desc = BufferDesc::new(bytes.unwrap_or(0).max(least));
            let key = gpu.create_owned_buffer("bvh", &format!("{}.{name}", self.id.0), desc)?;
            gpu.find_buffer(&key).ok_or(Error::Unknown { kind: "buffer", name: key })
        };
        let nodes = make(self.gpu, "nodes", self.sizes.node_bytes, bvh::NODE_BYTES)?;
        let triangles = match make(self.gpu, "triangles", Some(self.sizes.triangle_bytes), bvh::TRIANGLE_BYTES) {
            Ok(id) => id,
            Err(error) => {
                self.gpu.release_buffer(nodes);
                return Err(error);
            }
        };
        self.gpu.recorder.withhold(nodes);
        // The buffer of no triangles stays zero.
        if self.sizes.triangles > 0 {
            self.gpu.recorder.withhold(triangles);
        }
        *self.target =
            Target { nodes: Some(nodes), triangles: Some(triangles), lost_frames: self.gpu.builds.lost_frames };
        Ok(())
    }

    /// Takes upload memory for a block.
    fn stage(&mut self, stream: Stream, offset: u64, len: u64) -> Result<Slice> {
        if self.target.nodes.is_none() {
            self.begin()?;
        }
        let buffer = match stream {
            Stream::Nodes => self.target.nodes,
            Stream::Triangles => self.target.triangles,
        };
        let buffer = buffer.ok_or_else(lost)?;
        let slice = self.gpu.backend.stage(len, 4)?;
        self.open = Some((buffer, offset, len, slice));
        Ok(slice)
    }
}

impl Sink for Staged<'_> {
    fn sized(&mut self, sizes: bvh::Sizes) {
        self.sizes = sizes;
    }

    fn lend(&mut self, stream: Stream, offset: u64, len: usize) -> Option<&mut [u8]> {
        self.close();
        let staged = self.stage(stream, offset, len as u64);
        let lent = staged.and_then(|slice| self.gpu.backend.staged_bytes(slice, len as u64));
        lent.map_err(|error| self.failure = Some(error)).ok()
    }
}
