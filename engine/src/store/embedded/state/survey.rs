//! The index as it is, for a check against what is stored.

use super::{IdHash, State};
use crate::job::Id;
use crate::store::embedded::place::Place;
use crate::topic::Topic;

/// A job as the index has it.
pub(crate) struct Indexed<'a> {
    pub(crate) number: u64,
    pub(crate) id: IdHash,
    pub(crate) topic: &'a Topic,
    pub(crate) cold: Place,
    /// How large its body is, if that is known.
    body_bytes: Option<u64>,
    pub(crate) notes: &'a [Place],
}

impl Indexed<'_> {
    pub(crate) fn is_missized(&self, body_bytes: usize) -> bool {
        self.body_bytes.is_some_and(|bytes| bytes != body_bytes as u64)
    }
}

impl State {
    /// Every job there is, in no order.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = Indexed<'_>> {
        let slots = (0..self.arena.chunks()).flat_map(|chunk| self.arena.chunk(chunk));
        slots.filter(|(slot, _)| self.is_there(*slot)).map(|(slot, entry)| Indexed {
            number: entry.number,
            id: entry.id,
            topic: &self.orders_of(slot).name,
            cold: entry.cold,
            body_bytes: (entry.beside() > 0).then(|| entry.body_bytes()),
            notes: self.notes(entry),
        })
    }

    pub(crate) fn topics_and_keys(&self) -> (u64, u64) {
        (self.names.len() as u64, self.kv.after(None).count() as u64)
    }

    pub(crate) fn hash(&self, id: &Id) -> IdHash {
        self.hasher.hash(id)
    }
}
