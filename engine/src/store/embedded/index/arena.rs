//! Entries of one size by slot.

use std::ops::{Index, IndexMut};

/// How many entries a chunk has room for: as many words of 64 bits as a word has bits.
pub(crate) const CHUNK: usize = 64 * 64;

/// So that `u32::MAX` is never a slot and can stand for none.
const CHUNKS_MAX: usize = (u32::MAX as usize) / CHUNK;

/// Entries by slot, in chunks that never move.
///
/// A new entry gets the lowest free slot, so that after a peak the chunks at the end empty out.
/// An empty chunk gives its memory back, all but one: a single entry that comes and goes must
/// not cost an allocation each time.
///
/// It keeps track of the chunks that changed, for checkpoints of just those.
pub(crate) struct Arena<T> {
    chunks: Vec<Chunk<T>>,
    /// A bit per chunk: it has no free slot.
    full: Vec<u64>,
    /// All words of `full` before this one have no zero.
    full_before: usize,
    /// The empty chunk that keeps its memory.
    spare: Option<usize>,
    len: usize,
}

struct Chunk<T> {
    /// Up to the highest slot used so far; what is free holds what was there last.
    entries: Vec<T>,
    taken: Box<Bits>,
    len: usize,
    touched: bool,
}

/// Which slots of a chunk are taken.
struct Bits {
    words: [u64; 64],
    /// A bit per word: it has no zero left.
    full: u64,
}

impl<T: Copy> Arena<T> {
    /// An empty arena; it takes no memory.
    pub(crate) fn new() -> Arena<T> {
        Arena { chunks: Vec::new(), full: Vec::new(), full_before: 0, spare: None, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores an entry and answers its slot, the lowest that was free.
    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        let at = self.chunk_with_room();
        let chunk = &mut self.chunks[at];
        let within = chunk.insert(entry);
        if chunk.len == CHUNK {
            self.full[at / 64] |= 1 << (at % 64);
        }
        self.spare.take_if(|spare| *spare == at);
        self.len += 1;
        (at * CHUNK + within) as u32
    }

    /// Takes an entry out. Its slot must be taken.
    pub(crate) fn remove(&mut self, slot: u32) -> T {
        let (at, within) = place(slot);
        let chunk = &mut self.chunks[at];
        let entry = chunk.remove(within);
        self.full[at / 64] &= !(1 << (at % 64));
        self.full_before = self.full_before.min(at / 64);
        self.len -= 1;
        if chunk.len == 0 {
            self.give_back(at);
        }
        entry
    }

    /// The entry of a slot, if it is taken.
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let (at, within) = place(slot);
        let chunk = self.chunks.get(at)?;
        chunk.taken.has(within).then(|| &chunk.entries[within])
    }

    /// As [`Arena::get`], to change it: that touches its chunk.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let (at, within) = place(slot);
        let chunk = self.chunks.get_mut(at).filter(|chunk| chunk.taken.has(within))?;
        chunk.touched = true;
        Some(&mut chunk.entries[within])
    }

    /// How many chunks there are, empty ones between others included.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The entries of a chunk with their slots, in order.
    pub(crate) fn chunk(&self, n: usize) -> impl Iterator<Item = (u32, &T)> + Clone {
        let chunk = &self.chunks[n];
        chunk.taken.iter().map(move |at| ((n * CHUNK + at) as u32, &chunk.entries[at]))
    }

    /// Marks the chunk of a slot as changed.
    pub(crate) fn touch(&mut self, slot: u32) {
        self.chunks[place(slot).0].touched = true;
    }

    /// Whether a chunk has changed since its mark was last cleared.
    pub(crate) fn is_touched(&self, chunk: usize) -> bool {
        self.chunks[chunk].touched
    }

    pub(crate) fn clear_touched(&mut self, chunk: usize) {
        self.chunks[chunk].touched = false;
    }

    pub(crate) fn touch_all(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.touched = true);
    }

    fn chunk_with_room(&mut self) -> usize {
        let full = self.full[self.full_before..].iter().take_while(|word| **word == u64::MAX);
        self.full_before += full.count();
        let at = match self.full.get(self.full_before) {
            Some(word) => self.full_before * 64 + word.trailing_ones() as usize,
            None => self.chunks.len(),
        };
        if at == self.chunks.len() {
            assert!(at < CHUNKS_MAX, "an arena has at most {CHUNKS_MAX} chunks");
            self.chunks.push(Chunk::new());
            self.full.resize(self.chunks.len().div_ceil(64), 0);
        }
        at
    }

    /// Gives back the memory of a chunk that has become empty, or that of the one spared before
    /// if it is higher: it would be the last to be used again.
    fn give_back(&mut self, emptied: usize) {
        let Some(spare) = self.spare else {
            self.spare = Some(emptied);
            return;
        };
        self.spare = Some(spare.min(emptied));
        self.chunks[spare.max(emptied)].entries = Vec::new();
        while self.chunks.last().is_some_and(|last| last.entries.capacity() == 0) {
            self.chunks.pop();
        }
    }
}

impl<T> Index<u32> for Arena<T> {
    type Output = T;

    /// The entry of a slot that is taken.
    fn index(&self, slot: u32) -> &T {
        let (at, within) = place(slot);
        let chunk = &self.chunks[at];
        debug_assert!(chunk.taken.has(within), "slot {slot} is free");
        &chunk.entries[within]
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    /// As [`Arena::index`]; it touches the chunk.
    fn index_mut(&mut self, slot: u32) -> &mut T {
        let (at, within) = place(slot);
        let chunk = &mut self.chunks[at];
        debug_assert!(chunk.taken.has(within), "slot {slot} is free");
        chunk.touched = true;
        &mut chunk.entries[within]
    }
}

impl<T: Copy> Chunk<T> {
    fn new() -> Chunk<T> {
        let taken = Box::new(Bits { words: [0; 64], full: 0 });
        Chunk { entries: Vec::new(), taken, len: 0, touched: true }
    }

    fn insert(&mut self, entry: T) -> usize {
        if self.entries.capacity() == 0 {
            self.entries.reserve_exact(CHUNK);
        }
        let at = self.taken.take_lowest();
        // The lowest free slot is one used before or the next.
        match self.entries.get_mut(at) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.len += 1;
        self.touched = true;
        at
    }

    fn remove(&mut self, at: usize) -> T {
        assert!(self.taken.has(at), "only a slot that is taken can be freed");
        self.taken.free(at);
        self.len -= 1;
        self.touched = true;
        self.entries[at]
    }
}

impl Bits {
    fn has(&self, at: usize) -> bool {
        self.words[at / 64] >> (at % 64) & 1 == 1
    }

    /// Sets the lowest zero; there must be one.
    fn take_lowest(&mut self) -> usize {
        let at = self.full.trailing_ones() as usize;
        let word = &mut self.words[at];
        let bit = word.trailing_ones() as usize;
        *word |= 1 << bit;
        if *word == u64::MAX {
            self.full |= 1 << at;
        }
        at * 64 + bit
    }

    fn free(&mut self, at: usize) {
        self.words[at / 64] &= !(1 << (at % 64));
        self.full &= !(1 << (at / 64));
    }

    fn iter(&self) -> impl Iterator<Item = usize> + Clone {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.checked_sub(1)?;
                Some(at * 64 + bit)
            })
        })
    }
}

/// A slot's chunk and its place in that.
fn place(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK, slot as usize % CHUNK)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::store::embedded::index::rng::Rng;

    const N: u32 = CHUNK as u32;

    /// Entries 0 to `n` - 1, each in the slot of its value.
    fn filled(n: u32) -> Arena<u32> {
        let mut arena = Arena::new();
        (0..n).for_each(|value| assert_eq!(arena.insert(value), value));
        arena
    }

    fn empty(arena: &mut Arena<u32>, slots: Range<u32>) {
        for slot in slots {
            arena.remove(slot);
        }
    }

    fn all(arena: &Arena<u32>) -> Vec<(u32, u32)> {
        let chunks = 0..arena.chunks();
        chunks.flat_map(|n| arena.chunk(n)).map(|(slot, value)| (slot, *value)).collect()
    }

    fn allocated(arena: &Arena<u32>) -> usize {
        arena.chunks.iter().filter(|chunk| chunk.entries.capacity() > 0).count()
    }

    #[test]
    fn an_empty_arena_has_no_chunk_and_no_entry() {
        let arena = Arena::<u32>::new();
        assert!(arena.is_empty());
        assert_eq!((arena.chunks(), arena.get(0), arena.get(u32::MAX)), (0, None, None));
    }

    #[test]
    fn an_entry_is_found_until_it_is_removed() {
        let mut arena = filled(10);
        assert_eq!((arena.get(3), arena[3]), (Some(&3), 3));
        arena[3] = 33;
        *arena.get_mut(4).unwrap() = 44;
        assert_eq!((arena.remove(3), arena.remove(4)), (33, 44));
        assert_eq!((arena.get(3), arena.len()), (None, 8));
        assert_eq!(arena.get_mut(4), None);
    }

    #[test]
    fn the_lowest_free_slot_is_given_out_first() {
        let mut arena = filled(3 * N);
        for slot in [2 * N + 1, N + 70, N + 5, 7] {
            arena.remove(slot);
        }
        let slots = [(); 5].map(|()| arena.insert(0));
        assert_eq!(slots, [7, N + 5, N + 70, 2 * N + 1, 3 * N]);
    }

    #[test]
    #[should_panic(expected = "only a slot that is taken can be freed")]
    fn a_free_slot_cannot_be_freed() {
        let mut arena = filled(2);
        arena.remove(1);
        arena.remove(1);
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_slot_out_of_range_is_no_index() {
        let _ = filled(2)[N];
    }

    #[test]
    fn nothing_moves_when_the_arena_grows() {
        let mut arena = filled(1);
        let place = arena.chunks[0].entries.as_ptr();
        assert_eq!(arena.chunks[0].entries.capacity(), CHUNK);
        (1..10 * N).for_each(|slot| assert_eq!(arena.insert(slot), slot));
        assert_eq!(place, arena.chunks[0].entries.as_ptr());
    }

    #[test]
    fn empty_chunks_give_their_memory_back_all_but_one() {
        let mut arena = filled(6 * N);
        empty(&mut arena, N..5 * N);
        assert_eq!((arena.chunks(), allocated(&arena), arena.spare), (6, 3, Some(1)));
        empty(&mut arena, 5 * N..6 * N);
        assert_eq!((arena.chunks(), allocated(&arena)), (2, 2));
        assert_eq!(arena.insert(0), N);
        arena.remove(N);
        assert_eq!((arena.chunks(), allocated(&arena)), (2, 2));
        empty(&mut arena, 0..N);
        assert_eq!((arena.chunks(), allocated(&arena), arena.len()), (1, 1, 0));
    }

    #[test]
    fn a_chunk_between_others_is_used_again_after_it_was_empty() {
        let mut arena = filled(4 * N);
        empty(&mut arena, N..3 * N);
        assert_eq!(arena.get(2 * N), None);
        (N..3 * N).for_each(|slot| assert_eq!(arena.insert(slot), slot));
        assert_eq!(all(&arena), (0..4 * N).map(|slot| (slot, slot)).collect::<Vec<_>>());
    }

    #[test]
    fn whatever_changes_an_entry_touches_its_chunk_and_no_other() {
        let acts: [fn(&mut Arena<u32>); 5] = [
            |arena| empty(arena, 2 * N + 9..2 * N + 10),
            |arena| assert_eq!(arena.insert(1), 2 * N + 9),
            |arena| arena[2 * N] = 1,
            |arena| *arena.get_mut(2 * N).unwrap() = 1,
            |arena| arena.touch(2 * N),
        ];
        let mut arena = filled(4 * N);
        assert!((0..4).all(|chunk| arena.is_touched(chunk)));
        for act in acts {
            (0..arena.chunks()).for_each(|chunk| arena.clear_touched(chunk));
            let _ = (arena[2 * N], arena.get(2 * N), arena.chunk(2).count());
            assert!((0..4).all(|chunk| !arena.is_touched(chunk)));
            act(&mut arena);
            assert!((0..4).all(|chunk| arena.is_touched(chunk) == (chunk == 2)));
        }
    }

    #[test]
    fn the_arena_does_as_a_plain_list_does() {
        for seed in 0..4 {
            let mut rng = Rng::new(seed);
            let (mut arena, mut model) = (Arena::new(), Vec::<Option<u32>>::new());
            for step in 0..200_000 {
                let grow = rng.below(100) < if step / 40_000 % 2 == 0 { 70 } else { 25 };
                if grow {
                    let value = rng.next() as u32;
                    let slot = arena.insert(value) as usize;
                    model.resize(model.len().max(slot + 1), None);
                    assert_eq!(model[slot].replace(value), None, "seed {seed}, step {step}");
                } else if !model.is_empty() {
                    let slot = rng.below(model.len());
                    assert_eq!(arena.get(slot as u32), model[slot].as_ref(), "seed {seed}");
                    if let Some(value) = model[slot].take() {
                        assert_eq!(arena.remove(slot as u32), value, "seed {seed}, step {step}");
                    }
                }
            }
            let left = (0..).zip(&model).filter_map(|(slot, value)| Some((slot, (*value)?)));
            let left: Vec<(u32, u32)> = left.collect();
            assert_eq!((all(&arena), arena.len()), (left.clone(), left.len()), "seed {seed}");
        }
    }
}
