//! Looking at jobs without touching them.

use std::sync::Arc;

use super::{SortKey, State};
use crate::machine::Stage;
use crate::queue::{ERRORS_MAX, Filter, Forecast, SCAN_MAX};
use crate::record::Move;
use crate::time::{Now, Time};
use crate::topic::Topic;

/// Some jobs in order, and where to go on.
pub(crate) struct Walked {
    /// The slots that fit, as far as the index can tell: ids are on disk.
    pub(crate) slots: Vec<(SortKey, u32)>,
    /// Where to go on; none at the end.
    pub(crate) next: Option<SortKey>,
    /// How many were looked at, those that do not fit included.
    pub(crate) seen: usize,
}

impl State {
    /// The jobs of a topic that fit, from `after` on, at most so many.
    pub(crate) fn walk(
        &self,
        topic: &Topic,
        filter: &Filter,
        after: Option<SortKey>,
        limit: usize,
    ) -> Walked {
        let mut walked = Walked { slots: Vec::new(), next: None, seen: 0 };
        let Some(topic) = self.names.get(topic) else { return walked };
        let orders = self.topics[*topic as usize].as_ref().expect("a named topic is there");
        let (from, end) = edges(filter, after);
        let mut places = orders
            .walk(&self.arena, filter.stage, from)
            .take_while(|(place, _)| *place < end)
            .peekable();
        let mut last = None;
        for (place, slot) in places.by_ref().take(SCAN_MAX) {
            last = Some(place);
            walked.seen += 1;
            if self.fits(filter, slot) {
                walked.slots.push((place, slot));
            }
            if walked.slots.len() == limit {
                break;
            }
        }
        walked.next = places.peek().and(last);
        walked
    }

    /// Whether a job fits, its id apart.
    fn fits(&self, filter: &Filter, slot: u32) -> bool {
        let due = self.arena[slot].due();
        filter.due_after.is_none_or(|after| due >= after)
            && filter.due_before.is_none_or(|before| due < before)
            && filter
                .error
                .as_ref()
                .is_none_or(|error| self.last_error(slot).as_ref() == Some(error))
            && filter.stage.is_none_or(|stage| stage == self.life(slot).stage())
    }

    /// Whether a move would change a job.
    pub(crate) fn would_change(&self, slot: u32, made: &Move, now: Now) -> bool {
        let life = self.life(slot);
        self.step(slot, &life, &made.event, now).is_ok_and(|step| step.changes())
    }

    pub(crate) fn number(&self, slot: u32) -> u64 {
        self.arena[slot].number
    }

    pub(crate) fn forecast(&self, forecast: &Forecast) -> Vec<u64> {
        let named = |topic: &u32| self.topics[*topic as usize].as_ref().expect("it is named");
        let all: Vec<_> = match &forecast.topic {
            Some(topic) => self.names.get(topic).into_iter().map(named).collect(),
            None => self.names.values().map(named).collect(),
        };
        let edges: Vec<u64> =
            (0..=forecast.buckets).map(|n| forecast.bucket_start(n).as_ms()).collect();
        let mut counts = vec![0; forecast.buckets as usize];
        all.iter().for_each(|orders| orders.count_due(&edges, &mut counts));
        counts
    }

    pub(crate) fn dead_by_error(&self, topic: &Topic) -> Vec<(Arc<str>, u64)> {
        let Some(topic) = self.names.get(topic) else { return Vec::new() };
        let orders = self.topics[*topic as usize].as_ref().expect("a named topic is there");
        let mut errors: Vec<_> =
            orders.errors().map(|(error, count)| (error.clone(), count)).collect();
        // Stable: among equal counts the order of the texts stays.
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        errors.truncate(ERRORS_MAX);
        errors
    }
}

/// Where a walk begins and ends. Bounds on the due time narrow it where the order is by due time.
fn edges(filter: &Filter, after: Option<SortKey>) -> (SortKey, SortKey) {
    let by_due = matches!(filter.stage, None | Some(Stage::Delayed | Stage::Retry | Stage::Held));
    let edge = |due: Option<Time>| due.filter(|_| by_due).map(|due| [due.as_ms(), 0, 0]);
    let start = edge(filter.due_after).unwrap_or_default();
    let end = edge(filter.due_before).unwrap_or([u64::MAX; 3]);
    // The next place after `after` is the least one above it.
    let from = after.map_or(start, |[a, b, c]| [a, b, c + 1].max(start));
    (from, end)
}
