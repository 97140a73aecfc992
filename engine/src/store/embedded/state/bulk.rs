//! The index of a whole checkpoint, built at once: filling it job by job would take several times
//! as long.

use super::orders::DueKey;
use super::{Entry, NO_MORE, State, spread};
use crate::machine::State as At;
use crate::store::embedded::index::{Arena, Table};
use crate::time::Tick;

/// Fewer jobs than this are not worth a reserve in every shard, nor a thread.
const WORTH_IT: usize = 100_000;

impl State {
    /// Makes every job that was kept findable, and stand where it belongs.
    pub(super) fn index_all(&mut self) {
        let arena = &self.arena;
        let ids = || table(arena, |entry| entry.id[0]);
        let numbers = || table(arena, |entry| spread(entry.number));
        (self.ids, self.numbers) = if arena.len() < WORTH_IT {
            (ids(), numbers())
        } else {
            std::thread::scope(|scope| {
                let ids = scope.spawn(ids);
                let numbers = numbers();
                (ids.join().expect("filling a table does not panic"), numbers)
            })
        };
        let rest = self.stand_all_delayed();
        for slot in rest {
            self.stand_up(slot, Tick::default());
        }
        for topic in 0..self.topics.len() as u32 {
            self.look_again(topic);
        }
    }

    /// Has all plain jobs that wait stand in their topics; answers the slots of the others.
    fn stand_all_delayed(&mut self) -> Vec<u32> {
        let mut rest = Vec::new();
        let mut delayed: Vec<Vec<DueKey>> = Vec::new();
        delayed.resize_with(self.topics.len(), Vec::new);
        for (slot, entry) in all(&self.arena) {
            match entry.plain_life().state {
                At::Waiting { held: false, .. } if entry.more == NO_MORE => {
                    delayed[entry.topic as usize].push(DueKey::new(entry.due(), slot));
                }
                _ => rest.push(slot),
            }
        }
        let arena = &self.arena;
        for (keys, orders) in delayed.iter_mut().zip(&mut self.topics) {
            let number = |key: &DueKey| arena[key.slot].number;
            let by_due = |a: &DueKey, b: &DueKey| a.due_ms().cmp(&b.due_ms());
            // Stable, and quick on what is in order already, which most of it is.
            keys.sort_by(|a, b| by_due(a, b).then_with(|| number(a).cmp(&number(b))));
            if let Some(orders) = orders {
                orders.fill_delayed(std::mem::take(keys));
            }
        }
        rest
    }
}

fn all(arena: &Arena<Entry>) -> impl Iterator<Item = (u32, &Entry)> {
    (0..arena.chunks()).flat_map(|chunk| arena.chunk(chunk))
}

fn table(arena: &Arena<Entry>, hash: impl Fn(&Entry) -> u64 + Copy) -> Table {
    let mut table = Table::new();
    let rehash = |slot: u32| hash(&arena[slot]);
    if arena.len() >= WORTH_IT {
        table.reserve_each(arena.len(), rehash);
    }
    for (slot, entry) in all(arena) {
        table.insert(hash(entry), slot, rehash);
    }
    table
}
