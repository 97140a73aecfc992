//! From the decider to the syncer: batches that are written, and the answers that rest on them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use super::place::Segment;
use crate::error::{Code, Error};
use crate::time::{Bell, Tick};

/// An answer that is let go when what it rests on is safe.
pub(crate) type Release = Box<dyn FnOnce() + Send>;

/// What is written and to be synced, and the answers that wait for that.
#[derive(Default)]
pub(crate) struct Written {
    /// The highest batch of it, if there is any.
    pub(crate) batch: Option<u64>,
    /// When the first of it was written.
    pub(crate) since: Tick,
    /// Where it was written to, in order.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Let go before the others: whoever learns that a job was added finds that those who waited
    /// for it have it.
    pub(crate) handed_out: Vec<Release>,
    pub(crate) answers: Vec<Release>,
}

impl Written {
    /// Takes up what was written after this.
    fn extend(&mut self, later: Written) {
        if self.batch.is_none() {
            self.since = later.since;
        }
        self.batch = later.batch.or(self.batch);
        for segment in later.segments {
            if self.segments.last().is_none_or(|last| last.number != segment.number) {
                self.segments.push(segment);
            }
        }
        self.handed_out.extend(later.handed_out);
        self.answers.extend(later.answers);
    }

    fn is_empty(&self) -> bool {
        self.batch.is_none() && !self.is_awaited()
    }

    /// Whether somebody waits for it to be synced. Of leases nobody does: they are answered when they are
    /// written.
    fn is_awaited(&self) -> bool {
        !(self.handed_out.is_empty() && self.answers.is_empty())
    }
}

/// What the decider and the syncer share.
#[derive(Default)]
pub(crate) struct Handover {
    inner: Mutex<Inner>,
    given: Condvar,
    /// The highest batch whose answers may all be let go.
    settled: AtomicU64,
    /// The highest batch that is synced.
    durable: AtomicU64,
    /// Whether a sync is under way, at the end of which the inbox is looked into.
    syncing: AtomicBool,
    halted: OnceLock<Error>,
    /// Rung when the store has stopped, so that the decider tells those who wait.
    decider: Arc<Bell>,
}

#[derive(Default)]
struct Inner {
    written: Written,
    stopping: bool,
}

/// What the syncer finds.
pub(crate) enum Given {
    Written(Written),
    Nothing,
    Stop,
}

impl Handover {
    pub(crate) fn new(decider: Arc<Bell>) -> Handover {
        Handover { decider, ..Handover::default() }
    }

    /// Gives what was written to the syncer, and wakes it if somebody waits for that. What nobody waits for
    /// goes along with the next that somebody does, or when the syncer looks by itself.
    pub(crate) fn give(&self, written: Written) {
        if written.is_empty() {
            return;
        }
        let mut inner = self.lock();
        if self.halted().is_some() {
            // Nobody syncs any more: whoever waits for these is told by their end.
            return;
        }
        let was_awaited = inner.written.is_awaited();
        inner.written.extend(written);
        let wakes = !was_awaited && inner.written.is_awaited();
        drop(inner);
        if wakes {
            self.given.notify_one();
        }
    }

    /// All there is to sync.
    pub(crate) fn next(&self) -> Given {
        next_of(&mut self.lock())
    }

    /// Waits until somebody waits for a sync, at most so long.
    pub(crate) fn wait(&self, limit: Duration) {
        let idle = |inner: &mut Inner| !inner.written.is_awaited() && !inner.stopping;
        drop(self.given.wait_timeout_while(self.lock(), limit, idle));
    }

    /// Whether somebody waits for a sync.
    #[cfg(test)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.lock().written.is_awaited()
    }

    /// Waits for so long, unless the store stops.
    pub(crate) fn wait_out(&self, time: Duration) {
        drop(self.given.wait_timeout_while(self.lock(), time, |inner| !inner.stopping));
    }

    /// Lets the syncer end when it has synced everything.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.given.notify_one();
    }

    /// The highest batch whose answers may all be let go.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Acquire)
    }

    pub(crate) fn set_settled(&self, batch: u64) {
        self.settled.store(batch, Ordering::Release);
    }

    /// The highest batch that is synced.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn set_durable(&self, batch: u64) {
        self.durable.store(batch, Ordering::Release);
    }

    /// Whether a sync is under way, at the end of which somebody looks into the inbox.
    pub(crate) fn is_syncing(&self) -> bool {
        self.syncing.load(Ordering::SeqCst)
    }

    pub(crate) fn set_syncing(&self, syncing: bool) {
        // In one order with what is put in line: who sees that it is under way is seen at its end.
        self.syncing.store(syncing, Ordering::SeqCst);
    }

    /// Stops the store for good: what is in memory may be ahead of what is on disk.
    pub(crate) fn halt(&self, what: &str, cause: &std::io::Error) {
        let message = format!(
            "{what}: {cause}; the store has stopped, and what was not answered is unknown until it is opened again"
        );
        tracing::error!("{message}");
        // The first cause is the one to tell.
        let _ = self.halted.set(Error::new(Code::StorageFailed, message));
        let written = std::mem::take(&mut self.lock().written);
        drop(written);
        self.decider.ring();
    }

    /// Why the store has stopped, if it has.
    pub(crate) fn halted(&self) -> Option<&Error> {
        self.halted.get()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics holding the handover")
    }
}

fn next_of(inner: &mut Inner) -> Given {
    if !inner.written.is_empty() {
        return Given::Written(std::mem::take(&mut inner.written));
    }
    if inner.stopping { Given::Stop } else { Given::Nothing }
}
