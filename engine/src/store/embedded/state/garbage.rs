//! Jobs of emptied topics: gone at once, freed bit by bit.

use std::collections::VecDeque;

use super::orders::DueKey;
use super::{SLICE, State};
use crate::machine::State as At;
use crate::store::embedded::index::Tree;

#[derive(Default)]
pub(super) struct Garbage {
    trees: VecDeque<(u32, Tree<DueKey>)>,
}

impl Garbage {
    pub(super) fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }
}

impl State {
    /// Makes all jobs of a topic gone; answers how many there were.
    pub(super) fn empty_now(&mut self, topic: u32) -> u64 {
        let through = self.next_number - 1;
        let orders = self.topics[topic as usize].as_mut().expect("the topic is there");
        let count = orders.len();
        let trees = orders.empty();
        orders.gone_through = through;
        orders.unfreed += count;
        let full = trees.into_iter().filter(|tree| !tree.is_empty());
        self.garbage.trees.extend(full.map(|tree| (topic, tree)));
        self.look_again(topic);
        count
    }

    /// Frees some of what is gone; answers whether there is more.
    pub(super) fn free_some(&mut self) -> bool {
        let mut left = SLICE;
        while left > 0 {
            let Some((topic, tree)) = self.garbage.trees.front_mut() else { return false };
            let topic = *topic;
            let keys = tree.drain_some(left);
            if tree.is_empty() {
                self.garbage.trees.pop_front();
            }
            left -= keys.len().min(left);
            for key in &keys {
                self.free(key.slot);
            }
            let orders = self.topics[topic as usize].as_mut().expect("it has jobs to free");
            orders.unfreed -= keys.len() as u64;
            self.drop_if_nothing(topic);
        }
        !self.garbage.is_empty()
    }

    /// Frees a job that stands in no order of its topic any more.
    fn free(&mut self, slot: u32) {
        let (entry, life) = (self.arena[slot], self.life(slot));
        if matches!(life.state, At::Reserved(_) | At::Dead { .. } | At::Finished { .. }) {
            self.unlist(slot, &entry, &life);
        }
        self.forget(slot);
    }
}
