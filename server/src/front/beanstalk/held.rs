//! The jobs that a connection holds: only by these it may settle them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use linger::dice::Lease;
use linger::queue::Delivery;
use linger::topic::Topic;
use tokio::time::Instant;

/// A lease is about to end when no more than this is left of it.
const SOON: Duration = Duration::from_secs(1);

/// What a connection holds, by number and by when it ends.
#[derive(Debug, Default)]
pub(crate) struct Held {
    jobs: HashMap<u64, Hold>,
    ends: BTreeSet<(Instant, u64)>,
}

/// One job that is held.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) lease: Lease,
    pub(crate) topic: Topic,
    ttr: Duration,
    until: Instant,
}

impl Held {
    /// A job that was handed out just now.
    pub(crate) fn insert(&mut self, delivery: &Delivery, now: Instant) {
        let (number, ttr) = (delivery.job.number, delivery.ttr.as_duration());
        let (lease, topic) = (delivery.lease, delivery.topic().clone());
        // It may have been held before, and lost by time.
        self.remove(number);
        self.jobs.insert(number, Hold { lease, topic, ttr, until: now + ttr });
        self.ends.insert((now + ttr, number));
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Hold> {
        self.jobs.get(&number)
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Hold> {
        let hold = self.jobs.remove(&number)?;
        self.ends.remove(&(hold.until, number));
        Some(hold)
    }

    /// It has its whole time again.
    pub(crate) fn touched(&mut self, number: u64, now: Instant) {
        if let Some(mut hold) = self.remove(number) {
            hold.until = now + hold.ttr;
            self.ends.insert((hold.until, number));
            self.jobs.insert(number, hold);
        }
    }

    /// From when on a lease is about to end; those that have ended are let go.
    pub(crate) fn soon_at(&mut self, now: Instant) -> Option<Instant> {
        while let Some((until, number)) = self.ends.first().copied() {
            if until > now {
                return Some(until.checked_sub(SOON).unwrap_or(now));
            }
            self.remove(number);
        }
        None
    }
}
