//! Which jobs were added or changed in batches that may not be durable yet.

use std::collections::{HashMap, VecDeque};

/// Jobs by the batch that they were last changed in, as long as that may not be durable.
#[derive(Default)]
pub(super) struct Fresh {
    /// Batches with new jobs, and the first number of each: all numbers from there on are as new.
    added: VecDeque<(u64, u64)>,
    /// Older jobs that were changed.
    changed: HashMap<u64, u64>,
    /// How many of these are kept before those that are durable by now are looked for.
    prune_at: usize,
}

/// Fewer changed jobs than these are not worth looking through.
const PRUNE_MIN: usize = 4096;

impl Fresh {
    /// Notes that a job was added in this batch. Numbers rise.
    pub(super) fn add(&mut self, number: u64, batch: u64, is_settled: impl Fn(u64) -> bool) {
        if self.added.back().is_some_and(|(last, _)| *last == batch) {
            return;
        }
        while self.added.front().is_some_and(|(batch, _)| is_settled(*batch)) {
            self.added.pop_front();
        }
        self.added.push_back((batch, number));
    }

    /// Notes that a job was changed in this batch.
    pub(super) fn change(&mut self, number: u64, batch: u64, is_settled: impl Fn(u64) -> bool) {
        if self.changed.len() >= self.prune_at {
            self.changed.retain(|_, batch| !is_settled(*batch));
            // Twice what is left, so that each is looked at but a few times.
            self.prune_at = PRUNE_MIN.max(self.changed.len() * 2);
        }
        self.changed.insert(number, batch);
    }

    /// Whether what was last done to a job may not be durable yet.
    pub(super) fn has(&self, number: u64, is_settled: impl Fn(u64) -> bool) -> bool {
        let added = self.added.iter().find(|(batch, _)| !is_settled(*batch));
        added.is_some_and(|(_, first)| number >= *first)
            || self.changed.get(&number).is_some_and(|batch| !is_settled(*batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_fresh_until_its_batch_is_settled() {
        let mut fresh = Fresh::default();
        let settled = |through: u64| move |batch: u64| batch <= through;
        for (number, batch) in [(10, 1), (11, 1), (12, 2), (13, 4)] {
            fresh.add(number, batch, settled(0));
        }
        fresh.change(5, 3, settled(0));
        let fresh_at = |through: u64| -> Vec<u64> {
            [5, 9, 10, 11, 12, 13].into_iter().filter(|n| fresh.has(*n, settled(through))).collect()
        };
        assert_eq!(fresh_at(0), [5, 10, 11, 12, 13]);
        assert_eq!(fresh_at(1), [5, 12, 13]);
        assert_eq!(fresh_at(2), [5, 13]);
        assert_eq!(fresh_at(3), [13]);
        assert_eq!(fresh_at(4), [0; 0]);
    }

    #[test]
    fn what_is_settled_is_forgotten() {
        let mut fresh = Fresh::default();
        for n in 0..100_000 {
            fresh.change(n, n, |batch| batch + 10 < n);
            fresh.add(n, n, |batch| batch + 10 < n);
        }
        assert!(fresh.added.len() < 20 && fresh.changed.len() <= PRUNE_MIN);
    }
}
