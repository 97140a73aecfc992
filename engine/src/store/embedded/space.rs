//! What the decider, the callers and the keeper agree on: the room that is left, and how ids are
//! hashed.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU8, Ordering};

use siphasher::sip128::{Hasher128, SipHasher24};

use super::state::IdHash;
use crate::error::{Code, Error, Result};
use crate::job::Id;

/// How much room there is on the disk.
#[derive(Debug, Default)]
pub(crate) struct Space {
    room: AtomicU8,
}

/// How much room there is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Enough.
    Plenty,
    /// Only for what makes room in the end: finishing, deleting, cleaning up.
    Reserve,
    /// Not even a segment can be made.
    None,
}

impl Space {
    pub(crate) fn set(&self, room: Room) {
        let before = self.room.swap(room as u8, Ordering::Relaxed);
        match (before == Room::Plenty as u8, room == Room::Plenty) {
            (true, false) => tracing::warn!("the disk is too full for new jobs; they are refused"),
            (false, true) => tracing::info!("the disk has room for new jobs again"),
            _ => {}
        }
    }

    pub(crate) fn room(&self) -> Room {
        match self.room.load(Ordering::Relaxed) {
            0 => Room::Plenty,
            1 => Room::Reserve,
            _ => Room::None,
        }
    }

    /// Refuses what would make the store grow while only the reserve is left.
    pub(crate) fn check_growth(&self) -> Result<()> {
        if self.room() == Room::Plenty { Ok(()) } else { Err(full()) }
    }
}

/// The answer when there is no room.
pub(crate) fn full() -> Error {
    Error::new(
        Code::StorageFull,
        "the disk is too full for new jobs; finish or delete some, or make room on the disk",
    )
}

/// Hashes ids by the store's own key, so that nobody can choose ids that collide.
#[derive(Clone, Copy)]
pub(crate) struct IdHasher {
    key: [u8; 16],
}

impl IdHasher {
    pub(crate) fn new(key: [u8; 16]) -> IdHasher {
        IdHasher { key }
    }

    pub(crate) fn hash(&self, id: &Id) -> IdHash {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(id.as_str().as_bytes());
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }
}
