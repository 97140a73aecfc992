//! The index of a whole checkpoint, built at once: filling it job by job would take several times
//! as long.

use super::orders::DueKey;
use super::{Beyond, Entry, Orders, State, spread};
use crate::machine::State as At;
use crate::store::embedded::index::{Arena, Table};
use crate::time::Tick;

/// Fewer jobs than this are not worth a thread.
const WORTH_IT: usize = 100_000;

impl State {
    /// Makes every job that was kept findable, and stand where it belongs.
    pub(super) fn index_all(&mut self) {
        let State { arena, topics, .. } = self;
        let tables = || {
            let ids = all(arena).map(|(slot, entry)| (entry.id[0], slot));
            let numbers = all(arena).map(|(slot, entry)| (spread(entry.number), slot));
            (Table::of(ids), Table::of(numbers))
        };
        let (tables, rest) = if arena.len() < WORTH_IT {
            (tables(), stand_all_delayed(arena, topics))
        } else {
            std::thread::scope(|scope| {
                let tables = scope.spawn(tables);
                let rest = stand_all_delayed(arena, topics);
                (tables.join().expect("filling a table does not panic"), rest)
            })
        };
        (self.ids, self.numbers) = tables;
        for slot in rest {
            self.stand_up(slot, Tick::default());
        }
        for topic in 0..self.topics.len() as u32 {
            self.look_again(topic);
        }
    }
}

/// Has all plain jobs that wait stand in their topics; answers the slots of the others.
fn stand_all_delayed(arena: &Arena<Entry>, topics: &mut [Option<Orders>]) -> Vec<u32> {
    let mut rest = Vec::new();
    let mut delayed: Vec<Vec<DueKey>> = Vec::new();
    delayed.resize_with(topics.len(), Vec::new);
    for (slot, entry) in all(arena) {
        let orders = topics[entry.topic as usize].as_mut().expect("a job's topic is there");
        orders.bytes += entry.body_bytes();
        match (entry.plain_life().state, entry.beyond()) {
            (At::Waiting { held: false, .. }, Beyond::Nothing | Beyond::Own(_)) => {
                delayed[entry.topic as usize].push(DueKey::new(entry.due(), slot));
            }
            _ => rest.push(slot),
        }
    }
    for (keys, orders) in delayed.iter_mut().zip(topics) {
        let number = |key: &DueKey| arena[key.slot].number;
        let by_due = |a: &DueKey, b: &DueKey| a.due_ms().cmp(&b.due_ms());
        keys.sort_unstable_by(|a, b| by_due(a, b).then_with(|| number(a).cmp(&number(b))));
        if let Some(orders) = orders {
            orders.fill_delayed(std::mem::take(keys));
        }
    }
    rest
}

fn all(arena: &Arena<Entry>) -> impl Iterator<Item = (u32, &Entry)> + Clone {
    (0..arena.chunks()).flat_map(|chunk| arena.chunk(chunk))
}
