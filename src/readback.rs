//! Readback keys: what was asked for, in which frame, and where its bytes arrive.
//!
//! A key is `pending` until the frame that carries its copy has completed, then `ready`, and names nothing once
//! its bytes were taken. Readiness is a comparison of two numbers, the frame's serial and the last serial that the
//! device has completed; nothing here waits. A slot is reused only under another generation, so an old key is
//! unknown, never somebody else's data. This module knows no Vulkan.

use crate::handle::{Id, Pool};
use crate::ring::Slice;
use std::fmt::Write as _;

/// Marker of readback ids.
#[derive(Debug)]
pub enum Readback {}

/// Names one readback. The default key is the empty one: a read that could not start.
pub type ReadKey = Id<Readback>;

/// Where a readback stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadState {
    /// Asked for; the device has not delivered.
    Pending,
    /// Delivered and not taken.
    Ready,
    /// Never asked for, already taken, or lost with its device.
    Unknown,
}

impl ReadState {
    /// The state's name as scripts see it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Unknown => "unknown",
        }
    }
}

/// One readback on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Serial of the submission that carries the copy.
    pub serial: u64,
    /// Where the bytes arrive.
    pub slice: Slice,
    /// How many.
    pub bytes: u64,
}

/// The keys given out and not yet drained.
#[derive(Debug, Default)]
pub struct ReadTable {
    entries: Pool<Entry>,
}

impl ReadTable {
    /// Names a readback.
    pub fn issue(&mut self, entry: Entry) -> ReadKey {
        self.entries.insert(entry)
    }

    /// Where a key stands when the device has completed everything up to `completed`.
    #[must_use]
    pub fn state(&self, key: ReadKey, completed: u64) -> ReadState {
        match self.entries.get(key) {
            None => ReadState::Unknown,
            Some(entry) if entry.serial <= completed => ReadState::Ready,
            Some(_) => ReadState::Pending,
        }
    }

    /// The entry behind a key.
    #[must_use]
    pub fn get(&self, key: ReadKey) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Forgets a key and returns its entry, whose slice the caller gives back.
    pub fn take(&mut self, key: ReadKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        // Commands name the slice, not the key, so the slot may be reused at once.
        self.entries.recycle(key.index());
        Some(entry)
    }

    /// Forgets every key whose serial is at least `serial` and not completed; their slices go to `freed`.
    ///
    /// For frames that never reached the device.
    pub fn drop_from(&mut self, serial: u64, mut freed: impl FnMut(Entry)) {
        let lost: Vec<ReadKey> =
            self.entries.iter().filter_map(|(id, entry)| (entry.serial >= serial).then_some(id)).collect();
        for key in lost {
            if let Some(entry) = self.take(key) {
                freed(entry);
            }
        }
    }

    /// Keys given out and not yet drained.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The oldest serial that a key still waits for.
    #[must_use]
    pub fn next_serial(&self, completed: u64) -> Option<u64> {
        let entries = self.entries.iter::<Readback>();
        entries.map(|(_, e)| e.serial).filter(|s| *s > completed).min()
    }
}

/// Text of a key, as scripts carry it: empty for the empty key.
#[must_use]
pub fn key_text(key: ReadKey) -> String {
    let mut text = String::new();
    if key != ReadKey::default() {
        let _ = write!(text, "readback:{:x}", key.to_bits());
    }
    text
}

/// The key that [`key_text`] wrote; anything else is the empty key, which names nothing.
#[must_use]
pub fn parse_key(text: &[u8]) -> ReadKey {
    let digits = text.strip_prefix(b"readback:").unwrap_or_default();
    let canonical = (1..=16).contains(&digits.len())
        && digits[0] != b'0'
        && digits.iter().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    if !canonical {
        return ReadKey::default();
    }
    let value = digits.iter().fold(0u64, |n, c| n << 4 | (*c as char).to_digit(16).map_or(0, u64::from));
    ReadKey::from_bits(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(serial: u64) -> Entry {
        Entry { serial, slice: Slice::default(), bytes: 4 }
    }

    #[test]
    fn a_key_lives_once() {
        let mut table = ReadTable::default();
        let key = table.issue(entry(3));
        assert_eq!(table.state(key, 2), ReadState::Pending);
        assert_eq!(table.next_serial(2), Some(3));
        assert_eq!(table.state(key, 3), ReadState::Ready);
        assert!(table.take(key).is_some());
        assert_eq!(table.state(key, 3), ReadState::Unknown);
        assert!(table.take(key).is_none());
        let next = table.issue(entry(4));
        assert_eq!(next.index(), key.index());
        assert_eq!(table.state(key, 9), ReadState::Unknown);
        assert_eq!(table.state(ReadKey::default(), 9), ReadState::Unknown);
    }

    #[test]
    fn frames_that_never_ran_take_their_keys_along() {
        let mut table = ReadTable::default();
        let kept = table.issue(entry(3));
        let lost = table.issue(entry(4));
        let mut freed = 0;
        table.drop_from(4, |_| freed += 1);
        assert_eq!((freed, table.state(kept, 3), table.state(lost, 9)), (1, ReadState::Ready, ReadState::Unknown));
    }

    proptest! {
        #[test]
        fn text_round_trips(bits in any::<u64>()) {
            let key = ReadKey::from_bits(bits);
            prop_assert_eq!(parse_key(key_text(key).as_bytes()), key);
        }

        #[test]
        fn any_other_text_is_the_empty_key(text in ".*") {
            let key = parse_key(text.as_bytes());
            prop_assert!(key == ReadKey::default() || key_text(key) == text);
        }
    }
}
