//! What a store counts about itself.

use crate::machine::{Event, Life, Next, Step};
use crate::topic::Counts;

/// What a store has counted since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs by state, over all topics.
    pub counts: Counts,
    /// Topics there are.
    pub topics: u64,
    /// Calls waiting for jobs, to pop them.
    pub waiting: u64,
    /// Jobs ever added.
    pub added: u64,
    /// Hand-outs.
    pub handed_out: u64,
    /// Attempts that ended in a finish.
    pub finished: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that said "not yet".
    pub again: u64,
    /// Leases that ran out.
    pub timed_out: u64,
    /// Jobs and occurrences that died.
    pub died: u64,
    /// Jobs cancelled.
    pub deleted: u64,
    /// Steps of the wall clock that were noticed.
    pub clock_steps: u64,
    /// Entries of orders that were dropped, since their jobs are gone: a store that has any was meddled
    /// with, or is damaged.
    pub stray_entries: u64,
    /// From due to ready: our part of being late.
    pub due_to_ready: Lateness,
    /// From ready to handed out: the consumers' part.
    pub ready_to_handed_out: Lateness,
    /// How many attempts a job or occurrence had taken when it was finished or died.
    pub attempts: Sizes,
}

impl Stats {
    /// Counts a step that a store has taken with a job whose life was `before`.
    pub fn count(&mut self, event: &Event, before: &Life, step: &Step) {
        if let Next::Keep(after) = &step.next {
            let deaths = u64::from(after.tally.deaths - before.tally.deaths);
            self.died += deaths;
            if deaths > 0 {
                self.attempts.record(before.attempt.into());
            }
        }
        let changed = u64::from(step.changes());
        match event {
            Event::Reserve(_) | Event::ReserveNamed(_) => self.handed_out += 1,
            Event::Finish(_) if changed > 0 => {
                self.finished += 1;
                self.attempts.record(before.attempt.into());
            }
            Event::Fail { .. } => self.failed += 1,
            Event::Again { .. } => self.again += 1,
            Event::Expire => self.timed_out += changed,
            Event::Delete(_) => self.deleted += 1,
            _ => {}
        }
    }
}

/// How late things were, as a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    counts: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

/// The upper bounds of the histogram's classes, in microseconds; the last class has none.
pub const BOUNDS_US: [u64; 17] = [
    100,
    250,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    5_000_000,
    30_000_000,
    300_000_000,
    3_600_000_000,
];

impl Default for Lateness {
    fn default() -> Self {
        Lateness { counts: [0; BOUNDS_US.len() + 1], sum_us: 0 }
    }
}

impl Lateness {
    /// One that was counted elsewhere.
    pub(crate) fn of(counts: [u64; BOUNDS_US.len() + 1], sum_us: u64) -> Lateness {
        Lateness { counts, sum_us }
    }

    /// Counts one that was late by so much.
    pub fn record(&mut self, late_us: u64) {
        let class = BOUNDS_US.partition_point(|bound| *bound < late_us);
        self.counts[class] += 1;
        self.sum_us = self.sum_us.saturating_add(late_us);
    }

    /// How many fall into each class, the open one last.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The sum of all, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// How large things were, as a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    counts: [u64; SIZE_BOUNDS.len() + 1],
    sum: u64,
}

/// The upper bounds of the histogram's classes; the last class has none.
pub const SIZE_BOUNDS: [u64; 14] =
    [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

impl Sizes {
    /// Counts one of this size.
    pub fn record(&mut self, size: u64) {
        let class = SIZE_BOUNDS.partition_point(|bound| *bound < size);
        self.counts[class] += 1;
        self.sum = self.sum.saturating_add(size);
    }

    /// How many fall into each class, the open one last.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The sum of all.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lateness_falls_into_the_class_it_does_not_exceed() {
        let mut lateness = Lateness::default();
        for late_us in [0, 100, 101, u64::MAX] {
            lateness.record(late_us);
        }
        assert_eq!(lateness.counts()[..2], [2, 1]);
        assert_eq!(lateness.counts().last(), Some(&1));
        assert_eq!(lateness.total(), 4);
    }
}
