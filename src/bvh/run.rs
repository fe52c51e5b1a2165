//! All of a build at once, on several threads. The stages are those of the units, and so are the bytes.

use super::gather::{Cursor, Extent, gather};
use super::{Build, Error, Progress, Sink, Stage, Stream, TRIANGLE_BYTES, Unit, lend, pack, share};
use std::time::Duration;

/// Triangles that are gathered in one go: 512 KiB of primitives.
const PART: u32 = 1 << 14;

/// Bytes of triangles that threads share at once.
const SHARED_BLOCK: usize = 8 << 20;

/// Bytes of triangles that a thread packs in one go.
const PACKED_PART: usize = 512 << 10;

impl Build {
    /// Works to the end on some threads, or until the sink stops lending; a build that steps have begun is continued.
    /// The bytes are those that steps write. With one thread this is one long step.
    ///
    /// Two threads take about 0.6 of the time of one.
    ///
    /// # Errors
    /// Those of [`Build::step`].
    pub fn run(&mut self, threads: usize, sink: &mut dyn Sink) -> Result<Progress, Error> {
        if threads <= 1 {
            return self.step(Duration::MAX, sink);
        }
        self.slice(|build, _| build.run_stages(threads, sink))
    }

    fn run_stages(&mut self, threads: usize, sink: &mut dyn Sink) -> Result<Progress, Error> {
        loop {
            let unit = match self.stage {
                Stage::Gather => self.gather_shared(threads)?,
                Stage::Split => self.split_shared(threads)?,
                Stage::Improve => Unit::Done(self.improve(threads)?),
                Stage::PackTriangles => self.pack_shared(threads, sink),
                _ => self.unit(sink)?,
            };
            match unit {
                Unit::Done(_) => self.units += 1,
                Unit::Stalled => return Ok(Progress::Stalled),
                Unit::Ready => return Ok(Progress::Ready),
            }
        }
    }

    fn gather_shared(&mut self, threads: usize) -> Result<Unit, Error> {
        self.begin_gather()?;
        let (instances, items, extent) = (&self.instances, &mut self.items, &mut self.extent);
        let (from, total) = (items.len() as u32, self.triangles);
        let parts = (from..total).step_by(PART as usize);
        let make = |part: u32| {
            let count = PART.min(total - part) as usize;
            let (mut made, mut extent, mut cursor) =
                (Vec::with_capacity(count), Extent::EMPTY, Cursor::at(instances, part));
            while made.len() < count {
                let left = count - made.len();
                gather(instances, &mut cursor, &mut extent, left, |item| made.push(item));
            }
            (made, extent)
        };
        share::in_order(threads, parts, make, |(made, part)| {
            items.extend_from_slice(&made);
            *extent = extent.union(part);
        });
        self.gathered = total;
        self.begin_split()?;
        Ok(Unit::Done(0))
    }

    fn split_shared(&mut self, threads: usize) -> Result<Unit, Error> {
        self.builder.finish(&mut self.items, &mut self.nodes, self.split_leaf, threads);
        self.end_split()?;
        Ok(Unit::Done(0))
    }

    fn pack_shared(&mut self, threads: usize, sink: &mut dyn Sink) -> Unit {
        let left = self.sequence.len() - self.packed;
        let offset = self.packed as u64 * TRIANGLE_BYTES;
        let len = (SHARED_BLOCK / TRIANGLE_BYTES as usize).min(left) * TRIANGLE_BYTES as usize;
        if len == 0 {
            return self.pack_triangles(sink);
        }
        let Some(block) = lend(sink, Stream::Triangles, offset, len) else { return Unit::Stalled };
        let count = block.len() / TRIANGLE_BYTES as usize;
        let sequence = &self.sequence[self.packed..self.packed + count];
        let part = PACKED_PART / TRIANGLE_BYTES as usize;
        let parts = sequence.chunks(part).zip(block.chunks_mut(part * TRIANGLE_BYTES as usize));
        let instances = &self.instances;
        let threads = threads.min(count.div_ceil(part));
        share::in_order(threads, parts, |(sequence, to)| pack::fill_triangles(instances, sequence, to), |()| ());
        self.packed += count;
        self.uploaded += count as u64 * TRIANGLE_BYTES;
        Unit::Done(count)
    }
}
