//! Host-visible memory behind a [`SegmentRing`]: one mapped buffer a segment.

use super::Shared;
use super::memory::{GpuBuffer, Intent, Memory};
use crate::error::{Error, Result};
use crate::ring::{SegmentRing, Slice};
use ash::vk;

/// First segment.
const LEAST: u64 = 1 << 20;
/// Growth stops here; a larger transfer gets a segment of its own.
const MOST: u64 = 64 << 20;
/// Submissions after which an unused segment is freed: a large transfer should not hold its memory for good.
const PATIENCE: u64 = 120;

/// Mapped segments.
pub(crate) struct Staging {
    name: &'static str,
    intent: Intent,
    ring: SegmentRing,
    segments: Vec<Option<GpuBuffer>>,
    coherent: bool,
}

impl Staging {
    pub fn new(name: &'static str, intent: Intent) -> Self {
        Self { name, intent, ring: SegmentRing::new(LEAST, MOST), segments: Vec::new(), coherent: true }
    }

    /// A slice; adds a segment when none has room. Never waits.
    pub fn acquire(&mut self, memory: &mut Memory, shared: &Shared, size: u64, align: u64) -> Result<Slice> {
        if let Some(slice) = self.ring.acquire(size, align) {
            return Ok(slice);
        }
        // Whole units, so that a flush or invalidate of the last bytes stays inside the segment.
        let capacity = self.ring.grow_size(size).next_multiple_of(shared.properties.atom.max(256));
        let buffer = memory.buffer(shared, self.name, capacity, self.intent)?;
        if buffer.mapped().is_none() {
            memory.destroy(shared, buffer);
            return Err(Error::OutOfMemory {
                what: format!("{} staging (memory is not mapped)", self.name),
                bytes: capacity,
            });
        }
        self.coherent = self.intent != Intent::Readback || memory.readback_coherent;
        let index = self.ring.add(capacity) as usize;
        if index >= self.segments.len() {
            self.segments.resize_with(index + 1, || None);
        }
        self.segments[index] = Some(buffer);
        self.ring.acquire(size, align).ok_or(Error::OutOfMemory { what: format!("{} staging", self.name), bytes: size })
    }

    pub fn release(&mut self, segment: u32, now: u64) {
        self.ring.release(segment, now);
    }

    pub fn capacity(&self) -> u64 {
        self.ring.capacity()
    }

    /// The Vulkan buffer of a segment.
    pub fn raw(&self, segment: u32) -> vk::Buffer {
        self.segments.get(segment as usize).and_then(Option::as_ref).map_or(vk::Buffer::null(), |b| b.raw)
    }

    /// The bytes of a slice, for writing. The slice must be the caller's, not yet submitted.
    pub fn bytes_mut(&mut self, slice: Slice, size: u64) -> Result<&mut [u8]> {
        let start = self.locate(slice, size)?;
        // SAFETY: `locate` checked that the range lies in mapped memory, which stays mapped while the segment
        // lives; `&mut self` and the ring's disjoint slices make this the only reference; every byte pattern is a u8,
        // and the driver hands out initialised pages.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), size as usize) })
    }

    /// The bytes of a slice that the device has finished writing.
    pub fn bytes(&self, shared: &Shared, slice: Slice, size: u64) -> Result<&[u8]> {
        let start = self.locate(slice, size)?;
        if !self.coherent {
            self.invalidate(shared, slice, size)?;
        }
        // SAFETY: as above; the caller saw the copy's submission complete, so the device writes no more here.
        Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), size as usize) })
    }

    fn locate(&self, slice: Slice, size: u64) -> Result<std::ptr::NonNull<u8>> {
        let inside = |b: &&GpuBuffer| slice.offset.checked_add(size).is_some_and(|end| end <= b.size);
        let start = self
            .segments
            .get(slice.segment as usize)
            .and_then(Option::as_ref)
            .filter(inside)
            .and_then(GpuBuffer::mapped)
            .ok_or_else(|| Error::argument("slice", format!("{slice:?}"), "a live staging slice"))?;
        // SAFETY: the offset is within the mapped segment.
        Ok(unsafe { start.add(slice.offset as usize) })
    }

    fn invalidate(&self, shared: &Shared, slice: Slice, size: u64) -> Result<()> {
        let Some(buffer) = self.segments.get(slice.segment as usize).and_then(Option::as_ref) else { return Ok(()) };
        let (memory, base) = buffer.memory();
        let atom = shared.properties.atom.max(1);
        let start = (base + slice.offset) / atom * atom;
        let end = (base + slice.offset + size).next_multiple_of(atom);
        let range = [vk::MappedMemoryRange::default().memory(memory).offset(start).size(end - start)];
        // SAFETY: alive; whole atoms around a slice of a segment that is itself a whole number of atoms.
        unsafe { shared.device.invalidate_mapped_memory_ranges(&range) }
            .map_err(|r| shared.error("vkInvalidateMappedMemoryRanges", r))
    }

    /// Frees a segment that was unused for long.
    pub fn trim(&mut self, memory: &mut Memory, shared: &Shared, now: u64) {
        if let Some(index) = self.ring.trim(now, PATIENCE)
            && let Some(buffer) = self.segments.get_mut(index as usize).and_then(Option::take)
        {
            memory.destroy(shared, buffer);
        }
    }

    pub fn destroy(&mut self, memory: &mut Memory, shared: &Shared) {
        for buffer in self.segments.drain(..).flatten() {
            memory.destroy(shared, buffer);
        }
    }
}
