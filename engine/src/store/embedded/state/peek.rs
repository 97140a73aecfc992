//! All there is, for simulations.

use std::sync::Arc;

use bytes::Bytes;

use super::{Snapshot, State};
use crate::queue::TopicInfo;
use crate::time::{Now, Tick};

/// All there is, as it is in memory.
pub(crate) struct Peeked {
    pub(crate) jobs: Vec<Snapshot>,
    pub(crate) topics: Vec<TopicInfo>,
    /// Key, value, version and end.
    pub(crate) kv: Vec<(Arc<str>, Bytes, u64, Option<Tick>)>,
    pub(crate) next_number: u64,
    pub(crate) kv_version: u64,
}

impl State {
    pub(crate) fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    pub(crate) fn peek(&self, now: Now) -> Peeked {
        let slots = (0..self.arena.chunks()).flat_map(|chunk| self.arena.chunk(chunk));
        let there = slots.map(|(slot, _)| slot).filter(|slot| self.is_there(*slot));
        let topic = |topic: &u32| self.topics[*topic as usize].as_ref().expect("named").info(now);
        let kv = self.kv.after(None);
        Peeked {
            jobs: there.map(|slot| self.snapshot(slot)).collect(),
            topics: self.sorted.values().map(topic).collect(),
            kv: kv
                .map(|(key, value, version, end)| (key.clone(), value.clone(), version, end))
                .collect(),
            next_number: self.next_number,
            kv_version: self.kv.version(),
        }
    }
}
