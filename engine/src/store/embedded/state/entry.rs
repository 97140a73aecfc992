//! A job in the index: a small entry for each.

use super::Beyond;
use crate::machine::{Life, State as At};
use crate::store::embedded::batch::{DECIDED_BYTES, HEAD_BYTES};
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

const _: () = assert!(size_of::<Entry>() == 56);
