//! What there is to a job beyond its entry: nothing for most of them, settings that it shares with others,
//! or a life with leases, failures and a history.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use super::{Entry, State};
use crate::history::ENTRIES_MAX;
use crate::machine::Life;
use crate::store::embedded::codec::Own;
use crate::store::embedded::place::Place;

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

impl State {
    /// What is beyond the entry of a job with a plain life.
    pub(super) fn beyond_of(&mut self, life: Life, own: Option<Arc<Own>>) -> Beyond {
        let Some(own) = own else { return Beyond::Nothing };
        match self.owns.share(own) {
            Ok(at) => Beyond::Own(at),
            Err(own) => Beyond::More(self.mores.insert(More::new(life, Some(own)))),
        }
    }

    pub(crate) fn life(&self, slot: u32) -> Life {
        let entry = &self.arena[slot];
        match entry.beyond() {
            Beyond::Nothing | Beyond::Own(_) => entry.plain_life(),
            Beyond::More(at) => self.mores.get(at).life.clone(),
        }
    }

    pub(super) fn set_life(&mut self, slot: u32, life: Life) {
        let entry = &mut self.arena[slot];
        let plain = entry.take_on(&life);
        match entry.beyond() {
            Beyond::Nothing | Beyond::Own(_) if plain => {}
            Beyond::Nothing | Beyond::Own(_) => drop(self.make_more(slot, life)),
            Beyond::More(at) => self.mores.get_mut(at).life = life,
        }
    }

    /// What there is beyond the entry, made if there was none.
    pub(super) fn more_mut(&mut self, slot: u32) -> &mut More {
        // What is beyond the entry is in its chunk of a checkpoint too.
        self.arena.touch(slot);
        match self.arena[slot].beyond() {
            Beyond::More(at) => self.mores.get_mut(at),
            Beyond::Nothing | Beyond::Own(_) => self.make_more(slot, self.life(slot)),
        }
    }

    /// Has a job have more than an entry and settings; it must not yet.
    fn make_more(&mut self, slot: u32, life: Life) -> &mut More {
        let own = match self.arena[slot].beyond() {
            Beyond::Own(at) => Some(self.owns.let_go(at)),
            _ => None,
        };
        let at = self.mores.insert(More::new(life, own));
        self.arena[slot].set_beyond(Beyond::More(at));
        self.mores.get_mut(at)
    }

    pub(super) fn own(&self, slot: u32) -> Option<&Own> {
        match self.arena[slot].beyond() {
            Beyond::Nothing => None,
            Beyond::Own(at) => Some(self.owns.get(at)),
            Beyond::More(at) => self.mores.get(at).own.as_deref(),
        }
    }

    /// Gives a job other settings of its own.
    pub(super) fn set_own(&mut self, slot: u32, own: Option<Arc<Own>>) {
        self.arena[slot].set_own_target(own.as_ref().is_some_and(|own| own.target.is_some()));
        let was = self.arena[slot].beyond();
        if let Beyond::More(at) = was {
            self.mores.get_mut(at).own = own;
            return;
        }
        if let Beyond::Own(at) = was {
            self.owns.let_go(at);
            self.arena[slot].set_beyond(Beyond::Nothing);
        }
        let is = self.beyond_of(self.life(slot), own);
        self.arena[slot].set_beyond(is);
    }

    /// Where the entries of a job's history lie.
    pub(super) fn notes(&self, entry: &Entry) -> &[Place] {
        match entry.beyond() {
            Beyond::Nothing | Beyond::Own(_) => &[],
            Beyond::More(at) => &self.mores.get(at).notes,
        }
    }

    pub(super) fn last_error(&self, slot: u32) -> Option<Arc<str>> {
        match self.arena[slot].beyond() {
            Beyond::Nothing | Beyond::Own(_) => None,
            Beyond::More(at) => self.mores.get(at).last_error.clone(),
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job::Ttr;
    use crate::store::embedded::check::blank;
    use crate::store::embedded::space::IdHasher;
    use crate::time::Time;

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
