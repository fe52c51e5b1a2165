//! Segments of host-visible memory, handed out front to back and taken back when nothing in them is in use.
//!
//! One shape serves uploads, parameter blocks and readbacks. A [`SegmentRing`] knows sizes and counts only; who
//! owns the memory keeps one buffer a segment. A slice is taken with [`SegmentRing::acquire`] and given back with
//! [`SegmentRing::release`], in any order; a segment whose slices are all back starts over. When no segment has
//! room the caller adds one, so a request never waits and never fails for want of room in the ring.

/// Where a slice lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Slice {
    /// The segment.
    pub segment: u32,
    /// Offset in the segment, in bytes.
    pub offset: u64,
}

#[derive(Clone, Debug)]
struct Segment {
    /// Bytes; 0 for a segment that was trimmed.
    capacity: u64,
    cursor: u64,
    /// Slices handed out and not given back.
    live: u32,
    /// When the last slice came back, in the caller's clock.
    idle_since: u64,
}

impl Segment {
    /// Where a slice would start, if there is room for it.
    fn room(&self, size: u64, align: u64) -> Option<u64> {
        let cursor = if self.live == 0 { 0 } else { self.cursor };
        let offset = cursor.checked_next_multiple_of(align.max(1))?;
        (self.capacity > 0 && offset.checked_add(size)? <= self.capacity).then_some(offset)
    }
}

/// The segments of one ring.
#[derive(Clone, Debug)]
pub struct SegmentRing {
    segments: Vec<Segment>,
    current: usize,
    /// Size of the first segment, and the least size of any.
    least: u64,
    /// Largest size that growth alone leads to; a larger single request still gets a segment of its own.
    most: u64,
}

impl SegmentRing {
    /// A ring without segments whose segments grow from `least` bytes to `most`.
    #[must_use]
    pub fn new(least: u64, most: u64) -> Self {
        Self { segments: Vec::new(), current: 0, least: least.max(1), most: most.max(least) }
    }

    /// A slice of `size` bytes at a multiple of `align`, or `None` when a segment has to be added first.
    ///
    /// Goes on in the current segment while that is in use; otherwise starts over in the smallest one with room, so
    /// that large ones fall idle, and are trimmed, when the load drops.
    pub fn acquire(&mut self, size: u64, align: u64) -> Option<Slice> {
        let in_use = self.segments.get(self.current).is_some_and(|s| s.live > 0);
        if in_use && let Some(slice) = self.take(self.current, size, align) {
            return Some(slice);
        }
        let oversize = size > self.most;
        let room = |s: &Segment| s.room(size, align).is_some() && (oversize || s.capacity <= self.most);
        let found = self.segments.iter().enumerate().filter(|(_, s)| room(s)).min_by_key(|(_, s)| s.capacity);
        let index = found?.0;
        self.current = index;
        self.take(index, size, align)
    }

    fn take(&mut self, index: usize, size: u64, align: u64) -> Option<Slice> {
        let segment = self.segments.get_mut(index)?;
        let offset = segment.room(size, align)?;
        segment.cursor = offset + size;
        segment.live += 1;
        Some(Slice { segment: index as u32, offset })
    }

    /// The capacity that a new segment should have so that `size` bytes fit: double what there is, within bounds.
    #[must_use]
    pub fn grow_size(&self, size: u64) -> u64 {
        let regular: u64 = self.segments.iter().map(|s| s.capacity).filter(|c| *c <= self.most).sum();
        regular.clamp(self.least, self.most).max(size)
    }

    /// Adds a segment and makes it the current one. Returns its index; indices of trimmed segments are reused.
    pub fn add(&mut self, capacity: u64) -> u32 {
        let segment = Segment { capacity, cursor: 0, live: 0, idle_since: u64::MAX };
        self.current = match self.segments.iter().position(|s| s.capacity == 0) {
            Some(index) => {
                self.segments[index] = segment;
                index
            }
            None => {
                self.segments.push(segment);
                self.segments.len() - 1
            }
        };
        self.current as u32
    }

    /// Gives one slice of a segment back at time `now`.
    pub fn release(&mut self, segment: u32, now: u64) {
        if let Some(segment) = self.segments.get_mut(segment as usize) {
            debug_assert!(segment.live > 0, "more slices given back than taken");
            segment.live = segment.live.saturating_sub(1);
            if segment.live == 0 {
                segment.idle_since = now;
            }
        }
    }

    /// A segment that nothing has used for `patience` ticks and that is not the last one; it is out of the ring
    /// from now on and its memory may be freed.
    pub fn trim(&mut self, now: u64, patience: u64) -> Option<u32> {
        let alive = self.segments.iter().filter(|s| s.capacity > 0).count();
        if alive < 2 {
            return None;
        }
        let index = self.segments.iter().position(|s| {
            s.capacity > 0 && s.live == 0 && s.idle_since != u64::MAX && s.idle_since.saturating_add(patience) <= now
        })?;
        self.segments[index].capacity = 0;
        Some(index as u32)
    }

    /// Bytes in all segments.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.segments.iter().map(|s| s.capacity).sum()
    }

    /// Slices handed out and not given back.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.segments.iter().map(|s| u64::from(s.live)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Live slices never overlap and stay inside their segment, whatever the order of giving back.
        #[test]
        fn live_slices_are_disjoint(ops in prop::collection::vec((0u64..300, 0u32..5, any::<prop::sample::Index>(), any::<bool>()), 1..200)) {
            let mut ring = SegmentRing::new(64, 1024);
            let mut capacity = std::collections::HashMap::new();
            let mut live: Vec<(Slice, u64)> = Vec::new();
            for (now, (size, align, pick, give_back)) in ops.into_iter().enumerate() {
                if give_back && !live.is_empty() {
                    let (slice, _) = live.swap_remove(pick.index(live.len()));
                    ring.release(slice.segment, now as u64);
                } else {
                    let align = 1 << align;
                    let slice = match ring.acquire(size, align) {
                        Some(slice) => slice,
                        None => {
                            let bytes = ring.grow_size(size);
                            capacity.insert(ring.add(bytes), bytes);
                            ring.acquire(size, align).expect("a new segment has room")
                        }
                    };
                    prop_assert_eq!(slice.offset % align, 0);
                    prop_assert!(slice.offset + size <= capacity[&slice.segment]);
                    for (other, bytes) in &live {
                        let apart = other.segment != slice.segment
                            || slice.offset + size <= other.offset
                            || other.offset + bytes <= slice.offset;
                        prop_assert!(apart || size == 0 || *bytes == 0);
                    }
                    live.push((slice, size));
                }
                if let Some(gone) = ring.trim(now as u64, 3) {
                    prop_assert!(live.iter().all(|(s, _)| s.segment != gone), "a segment in use was trimmed");
                }
                prop_assert_eq!(ring.live(), live.len() as u64);
            }
        }
    }

    #[test]
    fn a_steady_load_stops_growing() {
        let mut ring = SegmentRing::new(1 << 10, 1 << 20);
        let mut in_flight = std::collections::VecDeque::new();
        let mut grown = 0;
        for frame in 0..1000u64 {
            for _ in 0..7 {
                let slice = ring.acquire(400, 4).or_else(|| {
                    grown = frame;
                    ring.add(ring.grow_size(400));
                    ring.acquire(400, 4)
                });
                in_flight.push_back((frame, slice.expect("grown").segment));
            }
            while in_flight.front().is_some_and(|(f, _)| f + 2 <= frame) {
                let (_, segment) = in_flight.pop_front().expect("front");
                ring.release(segment, frame);
            }
        }
        assert!(grown < 20, "still growing in frame {grown}");
        assert!(ring.capacity() < 1 << 16);
    }

    #[test]
    fn a_large_request_gets_a_segment_of_its_size_and_is_trimmed_later() {
        let mut ring = SegmentRing::new(64, 256);
        ring.add(ring.grow_size(10));
        assert_eq!(ring.acquire(10_000, 4), None);
        let big = ring.add(ring.grow_size(10_000));
        assert_eq!(ring.acquire(10_000, 4), Some(Slice { segment: big, offset: 0 }));
        ring.release(big, 5);
        assert_eq!(ring.trim(6, 10), None);
        assert_eq!(ring.trim(15, 10), Some(big));
        assert_eq!(ring.capacity(), 64);
        assert_eq!(ring.trim(99, 0), None, "the last segment stays");
    }
}
