//! Generational ids and the pools they index.
//!
//! An [`Id`] is an index and a generation, eight bytes, `Copy`. A [`Pool`] slot changes its generation when its
//! value is removed, so an id kept too long names nothing instead of somebody else's object. A removed slot is
//! not reused until [`Pool::recycle`]: commands of frames in flight name slots by index alone.

use std::fmt;
use std::marker::PhantomData;

/// A generational id of a `K`. The default value is invalid and never names anything.
pub struct Id<K> {
    index: u32,
    /// Odd while the slot is live; 0 is never live.
    generation: u32,
    kind: PhantomData<fn() -> K>,
}

impl<K> Id<K> {
    /// Rebuilds an id from its parts, as [`Id::to_bits`] gave them.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32, kind: PhantomData }
    }

    /// The id as one number: generation in the high half, index in the low half. 0 is the invalid id.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        ((self.generation as u64) << 32) | self.index as u64
    }

    /// The slot's index in its pool.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }
}

// By hand: deriving would ask the same of `K`, which is only a marker.
impl<K> Copy for Id<K> {}
impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}
impl<K> Eq for Id<K> {}
impl<K> std::hash::Hash for Id<K> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.to_bits().hash(state);
    }
}
impl<K> Default for Id<K> {
    fn default() -> Self {
        Self::from_bits(0)
    }
}
impl<K> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.index, self.generation)
    }
}
impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Slots of `T` behind generational ids.
#[derive(Debug)]
pub struct Pool<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    live: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), live: 0 }
    }
}

impl<T> Pool<T> {
    /// Stores a value and names it. Ids are given out in a fixed order, so equal histories give equal ids.
    pub fn insert<K>(&mut self, value: T) -> Id<K> {
        self.live += 1;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot { generation: 0, value: None });
                (self.slots.len() - 1) as u32
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.generation += 1;
        slot.value = Some(value);
        Id { index, generation: slot.generation, kind: PhantomData }
    }

    /// The value behind an id, or `None` when the id is stale.
    #[inline]
    #[must_use]
    pub fn get<K>(&self, id: Id<K>) -> Option<&T> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_ref() } else { None }
    }

    /// The value behind an id, or `None` when the id is stale.
    #[inline]
    pub fn get_mut<K>(&mut self, id: Id<K>) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_mut() } else { None }
    }

    /// The live value in a slot, whatever its generation.
    #[must_use]
    pub fn at(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.value.as_ref()
    }

    /// The live value in a slot, whatever its generation.
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.value.as_mut()
    }

    /// Takes the value out; the id is stale from now on. The slot stays out of use until [`Pool::recycle`].
    pub fn remove<K>(&mut self, id: Id<K>) -> Option<T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let value = slot.value.take()?;
        // An even generation: no id compares equal to it.
        slot.generation += 1;
        self.live -= 1;
        Some(value)
    }

    /// Gives a removed slot back for reuse. Ignores live slots.
    pub fn recycle(&mut self, index: u32) {
        let Some(slot) = self.slots.get(index as usize) else { return };
        // A slot near the end of its generations is left out of use for good: an id can then never come round.
        if slot.value.is_none() && slot.generation < u32::MAX - 2 {
            debug_assert!(!self.free.contains(&index), "slot {index} recycled twice");
            self.free.push(index);
        }
    }

    /// Live values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether nothing is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Slots ever made, live or not: one more than the largest index.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The live values with their ids, by index.
    pub fn iter<K>(&self) -> impl Iterator<Item = (Id<K>, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let id = Id { index: index as u32, generation: slot.generation, kind: PhantomData };
            slot.value.as_ref().map(|value| (id, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_id_names_nothing() {
        let mut pool = Pool::default();
        let id: Id<u8> = pool.insert(7);
        assert_eq!(id.index(), 0);
        assert_ne!(id, Id::default());
        assert_eq!(pool.get(Id::<u8>::default()), None);
        assert_eq!(pool.get(id), Some(&7));
    }

    #[test]
    fn a_removed_id_stays_stale_after_its_slot_is_reused() {
        let mut pool = Pool::default();
        let old: Id<u8> = pool.insert(1);
        assert_eq!(pool.remove(old), Some(1));
        assert_eq!(pool.remove(old), None);
        let other: Id<u8> = pool.insert(2);
        assert_ne!(other.index(), old.index(), "a slot is not reused before it is recycled");
        pool.recycle(old.index());
        let new: Id<u8> = pool.insert(3);
        assert_eq!(new.index(), old.index());
        assert_eq!(pool.get(old), None);
        assert_eq!(pool.get(new), Some(&3));
        assert_eq!(Id::<u8>::from_bits(new.to_bits()), new);
        assert_eq!(pool.len(), 2);
    }

    #[test]
    fn recycling_a_live_slot_does_nothing() {
        let mut pool = Pool::default();
        let id: Id<u8> = pool.insert(1);
        pool.recycle(id.index());
        let next: Id<u8> = pool.insert(2);
        assert_ne!(next.index(), id.index());
    }
}
