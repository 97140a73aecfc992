//! What became of pushes, by where they went: counted, timed, and the latest that failed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::latency::Latencies;
use crate::job::{Destination, Id};
use crate::time::Time;
use crate::topic::Topic;

/// More destinations are not remembered: those that were idle for longest are forgotten.
pub const DESTINATIONS_MAX: usize = 1000;
/// So many are forgotten at once, so that not every new one has to look for the idlest.
const FORGOTTEN_AT_ONCE: usize = 100;
/// More failed pushes are not remembered.
pub const FAILED_MAX: usize = 100;

/// A destination, and how pushes to it go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationInfo {
    /// Which.
    pub destination: Destination,
    /// Whether jobs are let through.
    pub state: DestinationState,
    /// Attempts under way.
    pub under_way: u32,
    /// Attempts that have ended since it is remembered. What was cut off, or found nobody there, is none.
    pub deliveries: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// How long recent ones took; none if there were none.
    pub latency: Option<Percentiles>,
    /// When one last ended without an error.
    pub last_success: Option<Time>,
    /// When one last failed, and why.
    pub last_failure: Option<(Time, Arc<str>)>,
}

/// Whether jobs are let through to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationState {
    /// They are.
    Open,
    /// Not before a probe has succeeded.
    Closed {
        /// When the next one may be made; past if no job has come since.
        opens: Time,
    },
    /// A probe is under way.
    Probing,
}

/// How long attempts took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// Half of them took no longer.
    pub p50: Duration,
    /// Ninety-nine of a hundred took no longer.
    pub p99: Duration,
}

/// An attempt to push that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedPush {
    /// When it ended.
    pub at: Time,
    /// Whose job it was.
    pub topic: Topic,
    /// The job.
    pub id: Id,
    /// Which attempt.
    pub attempt: u32,
    /// Where it went.
    pub destination: Destination,
    /// What went wrong.
    pub error: Arc<str>,
}

/// What is heard of an attempt that has ended.
pub(super) struct Heard {
    pub(super) at: Time,
    pub(super) took_us: u64,
    pub(super) failed: Option<FailedPush>,
}

/// What is remembered. On success it costs a look into a table and no allocation.
#[derive(Default)]
pub(super) struct Past {
    known: HashMap<Destination, Known>,
    /// The newest first.
    failed: VecDeque<FailedPush>,
    /// How much was ever heard.
    heard: u64,
}

struct Known {
    deliveries: u64,
    failures: u64,
    latencies: Latencies,
    last_success: Option<Time>,
    last_failure: Option<(Time, Arc<str>)>,
    /// What was heard when it was last heard of.
    heard: u64,
}

impl Past {
    pub(super) fn hear(&mut self, of: &Destination, heard: Heard) {
        self.heard += 1;
        match self.known.get_mut(of) {
            Some(known) => known.hear(&heard, self.heard),
            None => {
                self.make_room();
                self.known.entry(of.clone()).or_insert_with(Known::new).hear(&heard, self.heard);
            }
        }
        if let Some(failed) = heard.failed {
            self.failed.truncate(FAILED_MAX - 1);
            self.failed.push_front(failed);
        }
    }

    fn make_room(&mut self) {
        if self.known.len() < DESTINATIONS_MAX {
            return;
        }
        let mut heard: Vec<u64> = self.known.values().map(|known| known.heard).collect();
        let (_, last_to_go, _) = heard.select_nth_unstable(FORGOTTEN_AT_ONCE - 1);
        let last_to_go = *last_to_go;
        self.known.retain(|_, known| known.heard > last_to_go);
    }

    pub(super) fn destinations(&self) -> impl Iterator<Item = &Destination> {
        self.known.keys()
    }

    /// Fills in what is remembered of a destination.
    pub(super) fn tell(&self, info: &mut DestinationInfo) {
        let Some(known) = self.known.get(&info.destination) else { return };
        info.deliveries = known.deliveries;
        info.failures = known.failures;
        info.latency = known.percentiles();
        info.last_success = known.last_success;
        info.last_failure = known.last_failure.clone();
    }

    /// The latest that failed, the newest first.
    pub(super) fn failed(&self) -> Vec<FailedPush> {
        self.failed.iter().cloned().collect()
    }
}

impl Known {
    fn new() -> Known {
        Known {
            deliveries: 0,
            failures: 0,
            latencies: Latencies::new(),
            last_success: None,
            last_failure: None,
            heard: 0,
        }
    }

    fn hear(&mut self, heard: &Heard, number: u64) {
        self.heard = number;
        self.deliveries += 1;
        self.latencies.record(heard.took_us);
        match &heard.failed {
            None => self.last_success = Some(heard.at),
            Some(failed) => {
                self.failures += 1;
                self.last_failure = Some((heard.at, failed.error.clone()));
            }
        }
    }

    fn percentiles(&self) -> Option<Percentiles> {
        let (p50, p99) = (self.latencies.quantile(0.5)?, self.latencies.quantile(0.99)?);
        Some(Percentiles { p50, p99 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(n: usize) -> Destination {
        let url = format!("http://{n}").parse().unwrap();
        Destination::of(&"t".parse().unwrap(), &url)
    }

    fn at(ms: u64) -> Time {
        Time::from_ms(ms).unwrap()
    }

    fn well(ms: u64) -> Heard {
        Heard { at: at(ms), took_us: 1000, failed: None }
    }

    fn failed(ms: u64, n: usize) -> Heard {
        let failed = FailedPush {
            at: at(ms),
            topic: "t".parse().unwrap(),
            id: n.to_string().parse().unwrap(),
            attempt: 1,
            destination: to(n),
            error: "no".into(),
        };
        Heard { failed: Some(failed), ..well(ms) }
    }

    fn told(past: &Past, n: usize) -> DestinationInfo {
        let mut info = DestinationInfo {
            destination: to(n),
            state: DestinationState::Open,
            under_way: 0,
            deliveries: 0,
            failures: 0,
            latency: None,
            last_success: None,
            last_failure: None,
        };
        past.tell(&mut info);
        info
    }

    #[test]
    fn what_ends_is_counted_by_how_it_ended() {
        let mut past = Past::default();
        assert_eq!(told(&past, 1).latency, None);
        past.hear(&to(1), well(5));
        past.hear(&to(1), failed(6, 1));
        past.hear(&to(1), well(7));
        let info = told(&past, 1);
        assert_eq!((info.deliveries, info.failures), (3, 1));
        assert_eq!(info.last_success, Some(at(7)));
        assert_eq!(info.last_failure, Some((at(6), "no".into())));
        assert!(info.latency.is_some());
        assert_eq!(told(&past, 2).deliveries, 0);
    }

    #[test]
    fn the_longest_idle_are_forgotten() {
        let mut past = Past::default();
        for n in 0..DESTINATIONS_MAX {
            past.hear(&to(n), well(1));
        }
        past.hear(&to(0), well(2));
        assert_eq!(past.destinations().count(), DESTINATIONS_MAX);
        past.hear(&to(DESTINATIONS_MAX), well(3));
        assert_eq!(past.destinations().count(), DESTINATIONS_MAX - FORGOTTEN_AT_ONCE + 1);
        let known = |n: usize| told(&past, n).deliveries;
        assert_eq!((known(0), known(DESTINATIONS_MAX)), (2, 1));
        assert_eq!((known(FORGOTTEN_AT_ONCE), known(FORGOTTEN_AT_ONCE + 1)), (0, 1));
    }

    #[test]
    fn the_latest_failures_are_told_the_newest_first() {
        let mut past = Past::default();
        (0..=FAILED_MAX).for_each(|n| past.hear(&to(1), failed(n as u64, n)));
        let ids: Vec<String> = past.failed().iter().map(|one| one.id.to_string()).collect();
        let expected: Vec<String> = (1..=FAILED_MAX).rev().map(|n| n.to_string()).collect();
        assert_eq!(ids, expected);
    }
}
