//! Finding jobs: by number, by name, by id alone.

use super::{IdHash, Orders, State, spread};
use crate::queue::Key;

impl State {
    pub(crate) fn slot_of(&self, key: &Key) -> Option<u32> {
        match key {
            Key::Number(number) => self.numbered(*number),
            Key::Named(topic, id) => self.named(*self.names.get(topic)?, self.hasher.hash(id)),
        }
    }

    pub(crate) fn numbered(&self, number: u64) -> Option<u32> {
        let slot = self.numbers.find(spread(number), |slot| self.arena[slot].number == number)?;
        self.is_there(slot).then_some(slot)
    }

    pub(super) fn named(&self, topic: u32, hash: IdHash) -> Option<u32> {
        self.ids.find(hash[0], |slot| {
            let entry = &self.arena[slot];
            entry.id == hash && entry.topic == topic && self.is_there(slot)
        })
    }

    /// The jobs of this id in all topics.
    pub(crate) fn by_id(&self, hash: IdHash) -> Vec<u32> {
        let mut slots = Vec::new();
        self.ids.each(hash[0], |slot| {
            if self.arena[slot].id == hash && self.is_there(slot) {
                slots.push(slot);
            }
        });
        slots.sort_by_key(|slot| self.arena[*slot].number);
        slots
    }

    /// Whether a job that is in the index was not emptied away.
    pub(super) fn is_there(&self, slot: u32) -> bool {
        self.arena[slot].number > self.orders_of(slot).gone_through
    }

    pub(super) fn orders_of(&self, slot: u32) -> &Orders {
        self.topics[self.arena[slot].topic as usize].as_ref().expect("a job's topic is there")
    }

    pub(super) fn orders_mut(&mut self, slot: u32) -> &mut Orders {
        let topic = self.arena[slot].topic;
        self.topics[topic as usize].as_mut().expect("a job's topic is there")
    }
}
