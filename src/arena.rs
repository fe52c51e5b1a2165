//! The per-frame arena: one growing run of 8-byte words that holds the frame's commands.
//!
//! Offsets, not pointers, name commands; the frame's end resets the length and keeps the memory, so a steady
//! frame allocates nothing. [`Arena::high_water`] tells how large it ever was.

use crate::command::{
    Bound, Clear, Command, CopyToTexture, Dispatch, Fill, Header, Op, Prepare, Read, ReadTexture, Upload,
    UploadTexture, View,
};

const WORD: usize = size_of::<u64>();

/// A frame's commands, in the order recorded.
#[derive(Debug, Default)]
pub struct Arena {
    words: Vec<u64>,
    commands: u32,
    high_water: usize,
}

impl Arena {
    /// Appends a command without a tail and returns its offset, in words.
    #[inline]
    pub fn push<C: Command>(&mut self, command: &C) -> u32 {
        let words = 1 + size_of::<C>() / WORD;
        let at = self.begin(C::OP, words);
        self.words.extend_from_slice(bytemuck::cast_slice(std::slice::from_ref(command)));
        at
    }

    /// Appends a dispatch with its tail. `command.bindings` and `command.param_bytes` must be the tail's lengths.
    #[inline]
    pub fn push_dispatch(&mut self, command: &Dispatch, bound: &[Bound], params: &[u8]) -> u32 {
        debug_assert_eq!(command.bindings as usize, bound.len());
        debug_assert_eq!(command.param_bytes as usize, params.len());
        let bound_words = bound.len().div_ceil(2);
        let param_words = params.len().div_ceil(WORD);
        let words = 1 + size_of::<Dispatch>() / WORD + bound_words + param_words;
        let at = self.begin(Op::Dispatch, words);
        self.words.extend_from_slice(bytemuck::cast_slice(std::slice::from_ref(command)));
        let tail = self.words.len();
        self.words.resize(tail + bound_words + param_words, 0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words[tail..]);
        bytes[..size_of_val(bound)].copy_from_slice(bytemuck::cast_slice(bound));
        bytes[bound_words * WORD..][..params.len()].copy_from_slice(params);
        at
    }

    #[inline]
    fn begin(&mut self, op: Op, words: usize) -> u32 {
        let at = self.words.len() as u32;
        self.words.push(bytemuck::cast(Header { op: op as u16, pad: 0, words: words as u32 }));
        self.commands += 1;
        at
    }

    /// The command at an offset that [`Arena::push`] returned, and the offset behind it.
    ///
    /// `None` past the end or where no command starts.
    #[inline]
    #[must_use]
    pub fn view(&self, at: u32) -> Option<(View<'_>, u32)> {
        let at = at as usize;
        let header: Header = bytemuck::cast(*self.words.get(at)?);
        let body = self.words.get(at + 1..at + header.words as usize)?;
        let end = (at + header.words as usize) as u32;
        let view = match Op::from_code(header.op)? {
            Op::Dispatch => {
                let (command, tail) = take::<Dispatch>(body)?;
                let bound_words = (command.bindings as usize).div_ceil(2);
                let bound: &[Bound] = bytemuck::cast_slice(tail.get(..bound_words)?);
                let params: &[u8] = bytemuck::cast_slice(tail.get(bound_words..)?);
                View::Dispatch(
                    command,
                    bound.get(..command.bindings as usize)?,
                    params.get(..command.param_bytes as usize)?,
                )
            }
            Op::Upload => View::Upload(take::<Upload>(body)?.0),
            Op::Fill => View::Fill(take::<Fill>(body)?.0),
            Op::Read => View::Read(take::<Read>(body)?.0),
            Op::Prepare => View::Prepare(take::<Prepare>(body)?.0),
            Op::Clear => View::Clear(take::<Clear>(body)?.0),
            Op::UploadTexture => View::UploadTexture(take::<UploadTexture>(body)?.0),
            Op::ReadTexture => View::ReadTexture(take::<ReadTexture>(body)?.0),
            Op::CopyToTexture => View::CopyToTexture(take::<CopyToTexture>(body)?.0),
        };
        Some((view, end))
    }

    /// The commands with their offsets, in the order recorded.
    pub fn iter(&self) -> impl Iterator<Item = (u32, View<'_>)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (view, next) = self.view(at)?;
            let here = std::mem::replace(&mut at, next);
            Some((here, view))
        })
    }

    /// Commands recorded since the last reset.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.commands
    }

    /// Whether nothing was recorded since the last reset.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands == 0
    }

    /// The raw bytes: equal histories give equal bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// The most bytes a frame ever took.
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.high_water.max(self.words.len() * WORD)
    }

    /// Forgets the commands and keeps the memory.
    pub fn reset(&mut self) {
        self.high_water = self.high_water();
        self.words.clear();
        self.commands = 0;
    }
}

#[inline]
fn take<C: Command>(body: &[u64]) -> Option<(&C, &[u64])> {
    let (head, tail) = body.split_at_checked(size_of::<C>() / WORD)?;
    Some((bytemuck::from_bytes(bytemuck::cast_slice(head)), tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{PARAMS_INLINE, Uses};
    use proptest::prelude::*;

    fn dispatch(bound: &[Bound], params: &[u8]) -> Dispatch {
        Dispatch {
            program: 1,
            pipeline: 2,
            groups: [3, 4, 5],
            row: 6,
            param_segment: PARAMS_INLINE,
            param_offset: 0,
            bindings: bound.len() as u32,
            param_bytes: params.len() as u32,
        }
    }

    proptest! {
        /// What goes in comes out, whatever the tail's length, and a reset arena fills the same way again.
        #[test]
        fn round_trip(tails in prop::collection::vec((0usize..9, 0usize..34), 1..20)) {
            let mut arena = Arena::default();
            let mut first_bytes = Vec::new();
            for round in 0..2 {
                let mut expected = Vec::new();
                for (n, words) in &tails {
                    let bound: Vec<_> = (0..*n as u32).map(|i| Bound::new(i, Uses::SHADER_READ)).collect();
                    let params: Vec<u8> = (0..words * 4).map(|i| i as u8).collect();
                    arena.push_dispatch(&dispatch(&bound, &params), &bound, &params);
                    arena.push(&Fill { buffer: *n as u32, value: 9, offset: 0, size: 4 });
                    expected.push((bound, params));
                }
                prop_assert_eq!(arena.len() as usize, 2 * tails.len());
                let views: Vec<_> = arena.iter().map(|(_, v)| v).collect();
                for (pair, (bound, params)) in views.chunks(2).zip(&expected) {
                    prop_assert_eq!(pair[0], View::Dispatch(&dispatch(bound, params), bound, params));
                    prop_assert_eq!(pair[1].op(), Op::Fill);
                }
                if round == 0 { first_bytes = arena.bytes().to_vec(); } else { prop_assert_eq!(arena.bytes(), &first_bytes[..]); }
                arena.reset();
                prop_assert!(arena.is_empty() && arena.high_water() == first_bytes.len());
            }
        }
    }

    #[test]
    fn no_command_starts_in_the_middle_or_past_the_end() {
        let mut arena = Arena::default();
        arena.push(&Fill { buffer: 0, value: 0, offset: 0, size: 4 });
        assert!(arena.view(1).is_none(), "a body word is not a header");
        assert!(arena.view(99).is_none());
    }
}
