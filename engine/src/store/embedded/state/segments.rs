//! Which segments there are, and how much of each is still wanted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store::embedded::place::{Pinned, Place, Segment};

/// The segments by number. The only place from which a place is given out to be read.
#[derive(Default)]
pub(crate) struct Segments {
    by_number: BTreeMap<u32, Kept>,
    /// How many bytes are wanted of segments that are not there.
    missing: BTreeMap<u32, u64>,
}

struct Kept {
    segment: Arc<Segment>,
    live_bytes: u64,
}

/// How much of a segment is still wanted.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) segment: Arc<Segment>,
    pub(crate) live_bytes: u64,
}

impl Segments {
    pub(crate) fn insert(&mut self, segment: Arc<Segment>) {
        self.by_number.entry(segment.number).or_insert(Kept { segment, live_bytes: 0 });
    }

    /// A record is wanted.
    pub(crate) fn born(&mut self, place: Place) {
        *self.live_bytes(place.segment) += u64::from(place.len);
    }

    /// A record is wanted no more.
    pub(crate) fn died(&mut self, place: Place) {
        *self.live_bytes(place.segment) -= u64::from(place.len);
    }

    fn live_bytes(&mut self, segment: u32) -> &mut u64 {
        match self.by_number.get_mut(&segment) {
            Some(kept) => &mut kept.live_bytes,
            None => self.missing.entry(segment).or_default(),
        }
    }

    /// A segment that is not there and of which something is wanted. While the log is replayed
    /// there may be some that are gone since: a later record then says where the job lies or that
    /// it is gone.
    pub(crate) fn first_missing(&self) -> Option<u32> {
        self.missing.iter().find(|(_, bytes)| **bytes > 0).map(|(segment, _)| *segment)
    }

    /// A place with its segment, which is not recycled as long as this lives.
    pub(crate) fn pin(&self, place: Place) -> Pinned {
        let segment = self.by_number[&place.segment].segment.clone();
        Pinned { segment, place }
    }

    /// The segment of this number, to look into.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Segment>> {
        self.by_number.get(&number).map(|kept| &kept.segment)
    }

    pub(crate) fn usage(&self) -> Vec<Usage> {
        self.by_number
            .values()
            .map(|kept| Usage { segment: kept.segment.clone(), live_bytes: kept.live_bytes })
            .collect()
    }

    /// Gives a segment up that nothing lies in any more.
    pub(crate) fn retire(&mut self, number: u32) -> Option<Arc<Segment>> {
        let empty = self.by_number.get(&number).is_some_and(|kept| kept.live_bytes == 0);
        if empty { self.by_number.remove(&number).map(|kept| kept.segment) } else { None }
    }
}
