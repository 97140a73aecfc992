//! A job in the index: a small entry for each, and more for those that have more to tell.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use crate::history::ENTRIES_MAX;
use crate::machine::{Life, State as At};
use crate::store::embedded::batch::{DECIDED_BYTES, HEAD_BYTES};
use crate::store::embedded::codec::Own;
use crate::store::embedded::place::Place;
use crate::time::Time;

/// The identity of an id: a keyed hash of 128 bits.
pub(crate) type IdHash = [u64; 2];

/// What every job costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) id: IdHash,
    pub(crate) number: u64,
    /// The due time in the upper 48 bits, flags below.
    due_and_flags: u64,
    pub(crate) topic: u32,
    pub(crate) priority: u32,
    pub(crate) cold: Place,
    /// Where what is [`Beyond`] is.
    beyond: u32,
}

/// What there is to a job that its entry does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// Nothing: its life is what its add made of it.
    Nothing,
    /// Settings of its own, which lie here in [`Owns`], and nothing else.
    Own(u32),
    /// All that is here in the [`Slab`].
    More(u32),
}

const NOTHING: u32 = u32::MAX;
/// Set where it is settings alone.
const OWN: u32 = 1 << 31;

const READY: u64 = 1;
const HELD: u64 = 2;
const OWN_TARGET: u64 = 4;
const FLAGS: u64 = 0xffff;
/// The rest of the flags: how many bytes of what the caller gave are not the body.
const BESIDE_SHIFT: u64 = 3;
const BESIDE_MAX: u64 = FLAGS >> BESIDE_SHIFT;

impl Entry {
    pub(crate) fn new(number: u64, id: IdHash, topic: u32, cold: Place) -> Entry {
        Entry { id, number, due_and_flags: 0, topic, priority: 0, cold, beyond: NOTHING }
    }

    pub(crate) fn beyond(&self) -> Beyond {
        match self.beyond {
            NOTHING => Beyond::Nothing,
            own if own & OWN != 0 => Beyond::Own(own & !OWN),
            more => Beyond::More(more),
        }
    }

    pub(crate) fn set_beyond(&mut self, beyond: Beyond) {
        self.beyond = match beyond {
            Beyond::Nothing => NOTHING,
            Beyond::Own(at) => at | OWN,
            Beyond::More(at) => at,
        };
    }

    pub(crate) fn due(&self) -> Time {
        Time::from_ms(self.due_and_flags >> 16).unwrap_or(Time::MAX)
    }

    /// How large the body is. With the rest of what was given, if how much that is is not known: a version
    /// before this one has not written it down.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.given().saturating_sub(self.beside())
    }

    /// Notes how large the body is that lies here.
    pub(crate) fn set_body_bytes(&mut self, bytes: usize) {
        self.set_beside(self.given() - bytes as u64);
    }

    /// How many bytes of what was given are not the body; 0 if that is not known.
    pub(crate) fn beside(&self) -> u64 {
        (self.due_and_flags & FLAGS) >> BESIDE_SHIFT
    }

    pub(crate) fn set_beside(&mut self, bytes: u64) {
        // No names and settings take more.
        let bytes = bytes.min(BESIDE_MAX).min(self.given());
        let others = self.due_and_flags & !(BESIDE_MAX << BESIDE_SHIFT);
        self.due_and_flags = others | bytes << BESIDE_SHIFT;
    }

    /// How many bytes the caller gave, as they are stored.
    fn given(&self) -> u64 {
        u64::from(self.cold.len).saturating_sub((HEAD_BYTES + DECIDED_BYTES) as u64)
    }

    pub(crate) fn has_own_target(&self) -> bool {
        self.due_and_flags & OWN_TARGET != 0
    }

    pub(crate) fn set_own_target(&mut self, own: bool) {
        self.set(OWN_TARGET, own);
    }

    fn set(&mut self, flag: u64, on: bool) {
        self.due_and_flags =
            if on { self.due_and_flags | flag } else { self.due_and_flags & !flag };
    }

    /// The life of a plain job.
    pub(crate) fn plain_life(&self) -> Life {
        let held = self.due_and_flags & HELD != 0;
        let mut life = Life::new(self.due(), self.priority, held);
        if self.due_and_flags & READY != 0 {
            life.state = At::Ready;
        }
        life
    }

    /// Takes on what a plain entry can tell of a life; answers whether that is all of it.
    pub(crate) fn take_on(&mut self, life: &Life) -> bool {
        let flags = self.due_and_flags & FLAGS;
        self.due_and_flags = life.due.as_ms() << 16 | flags;
        self.priority = life.priority;
        self.set(READY, life.state == At::Ready);
        self.set(HELD, matches!(life.state, At::Waiting { held: true, .. }));
        self.plain_life() == *life
    }
}

/// What a job costs beyond its entry when it was handed out, failed or changed.
#[derive(Clone, Debug)]
pub(crate) struct More {
    pub(crate) life: Life,
    pub(crate) own: Option<Arc<Own>>,
    pub(crate) last_error: Option<Arc<str>>,
    /// The entries of its history, oldest first.
    pub(crate) notes: Vec<Place>,
}

impl More {
    pub(crate) fn new(life: Life, own: Option<Arc<Own>>) -> More {
        More { life, own, last_error: None, notes: Vec::new() }
    }

    /// Notes one more entry; answers the one that is forgotten for it.
    pub(crate) fn note(&mut self, place: Place) -> Option<Place> {
        let oldest = (self.notes.len() == ENTRIES_MAX).then(|| self.notes.remove(0));
        self.notes.push(place);
        oldest
    }
}

/// Settings that several jobs have brought along: however many do, they are here once.
pub(crate) struct Owns {
    /// With how many jobs have them.
    all: Vec<Option<(Arc<Own>, u32)>>,
    free: Vec<u32>,
    places: HashMap<Arc<Own>, u32>,
    /// Where those are that came last: most often the next are the same.
    last: usize,
    /// Some that came lately, by their hash: those that come once only are not to be here.
    lately: Vec<Option<Arc<Own>>>,
}

/// So many different ones are shared at most: more would have to be moved at once some day.
const SHARED_MAX: usize = 1 << 16;
const LATELY: usize = 256;

impl Default for Owns {
    fn default() -> Owns {
        Owns {
            all: Vec::new(),
            free: Vec::new(),
            places: HashMap::new(),
            last: 0,
            lately: vec![None; LATELY],
        }
    }
}

impl Owns {
    /// Takes the settings of one job more; answers where they are. Nowhere, and they are given back, if
    /// nobody else is known to have them.
    pub(crate) fn share(&mut self, own: Arc<Own>) -> Result<u32, Arc<Own>> {
        if let Some(Some((last, jobs))) = self.all.get_mut(self.last)
            && *last == own
        {
            *jobs += 1;
            return Ok(self.last as u32);
        }
        let at = match self.places.get(&own).copied() {
            Some(at) => at,
            None if self.came_lately(&own) && self.places.len() < SHARED_MAX => self.insert(own),
            None => return Err(own),
        };
        self.last = at as usize;
        self.spot(at).1 += 1;
        Ok(at)
    }

    fn came_lately(&mut self, own: &Arc<Own>) -> bool {
        let at = self.places.hasher().hash_one(own) as usize % LATELY;
        if self.lately[at].as_ref() == Some(own) {
            return self.lately[at].take().is_some();
        }
        self.lately[at] = Some(own.clone());
        false
    }

    fn insert(&mut self, own: Arc<Own>) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            (self.all.len() - 1) as u32
        });
        self.all[at as usize] = Some((own.clone(), 0));
        self.places.insert(own, at);
        at
    }

    /// Lets go of those of one job.
    pub(crate) fn let_go(&mut self, at: u32) -> Arc<Own> {
        let (own, jobs) = self.spot(at);
        *jobs -= 1;
        let (own, is_last) = (own.clone(), *jobs == 0);
        if is_last {
            self.places.remove(&own);
            self.all[at as usize] = None;
            self.free.push(at);
        }
        own
    }

    pub(crate) fn get(&self, at: u32) -> &Arc<Own> {
        &self.all[at as usize].as_ref().expect("some job has them").0
    }

    fn spot(&mut self, at: u32) -> &mut (Arc<Own>, u32) {
        self.all[at as usize].as_mut().expect("some job has them")
    }
}

/// Keeps what more there is, in chunks, so that growing copies nothing.
#[derive(Default)]
pub(crate) struct Slab {
    chunks: Vec<Vec<Option<More>>>,
    free: Vec<u32>,
}

const CHUNK: usize = 1024;

impl Slab {
    pub(crate) fn insert(&mut self, more: More) -> u32 {
        if let Some(slot) = self.free.pop() {
            *self.spot(slot) = Some(more);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let full = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut().expect("one was pushed");
        chunk.push(Some(more));
        (full + chunk.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, slot: u32) -> More {
        let more = self.spot(slot).take().expect("the slot is taken");
        self.free.push(slot);
        more
    }

    pub(crate) fn get(&self, slot: u32) -> &More {
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
            .as_ref()
            .expect("the slot is taken")
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut More {
        self.spot(slot).as_mut().expect("the slot is taken")
    }

    fn spot(&mut self, slot: u32) -> &mut Option<More> {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

const _: () = assert!(size_of::<Entry>() == 56);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::State;
    use super::*;
    use crate::job::Ttr;
    use crate::store::embedded::check::blank;
    use crate::store::embedded::space::IdHasher;

    fn own(seconds: u64) -> Arc<Own> {
        let ttr = Ttr::new(Duration::from_secs(seconds)).unwrap();
        Arc::new(Own {
            ttr: Some(ttr),
            retry: None,
            repeat: None,
            target: None,
            confirm: None,
            retain: None,
            envelope: None,
        })
    }

    #[test]
    fn settings_that_several_jobs_bring_are_kept_once_and_go_with_the_last() {
        let mut owns = Owns::default();
        // Nobody knows yet that there will be others.
        assert_eq!(owns.share(own(1)), Err(own(1)));
        let [first, again] = [1, 1].map(|seconds| owns.share(own(seconds)).unwrap());
        assert_eq!((first, owns.places.len()), (again, 1));
        assert_eq!(owns.share(own(2)), Err(own(2)));
        let other = owns.share(own(2)).unwrap();
        assert_eq!(owns.let_go(first), own(1));
        assert_eq!(owns.get(again), &own(1));
        owns.let_go(again);
        assert_eq!(owns.places.len(), 1);
        // Their place is free for others.
        assert_eq!(owns.share(own(3)), Err(own(3)));
        assert_eq!(owns.share(own(3)), Ok(first));
        assert_eq!((owns.get(first), owns.get(other)), (&own(3), &own(2)));
    }

    #[test]
    fn settings_that_come_once_take_no_place() {
        let mut owns = Owns::default();
        let shared = (1..2000).filter(|seconds| owns.share(own(*seconds)).is_ok()).count();
        assert_eq!((shared, owns.all.len()), (0, 0));
    }

    #[test]
    fn jobs_that_wait_with_the_same_settings_share_them_until_more_is_to_be_told() {
        let mut state = blank(IdHasher::new([0; 16]), &[]);
        let (topic, place) =
            (state.topic_for(&"t".parse().unwrap()), Place { segment: 1, offset: 0, len: 99 });
        let due = Time::from_ms(1000).unwrap();
        let slots = [1, 2, 3].map(|number| {
            let entry = Entry::new(number, [number, 0], topic, place);
            state.keep(entry, Life::new(due, 1024, false), Some(own(60)))
        });
        let beyond = |state: &State| slots.map(|slot| state.arena[slot].beyond());
        assert_eq!(beyond(&state), [Beyond::More(0), Beyond::Own(0), Beyond::Own(0)]);
        assert!(slots.iter().all(|slot| state.own(*slot) == Some(&*own(60))));
        // Handed out, it has a life of its own, and what it brought.
        let life = Life { attempt: 1, ..Life::new(due, 1024, false) };
        state.set_life(slots[1], life.clone());
        assert_eq!(beyond(&state)[1..], [Beyond::More(1), Beyond::Own(0)]);
        assert_eq!((state.life(slots[1]), state.own(slots[1])), (life, Some(&*own(60))));
        state.set_own(slots[2], None);
        assert_eq!((beyond(&state)[2], state.own(slots[2])), (Beyond::Nothing, None));
        assert!(state.owns.places.is_empty());
    }
}
