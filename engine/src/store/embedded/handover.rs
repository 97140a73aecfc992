//! From the decider to the syncer: batches, and the answers that rest on them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use super::batch::{HEADER_BYTES, Header};
use super::place::Segment;
use crate::error::{Code, Error};

/// An answer that is let go when what it rests on is safe.
pub(crate) type Release = Box<dyn FnOnce() + Send>;

/// Records that are written together, and the answers that wait for them.
#[derive(Default)]
pub(crate) struct Batch {
    /// Where it goes, once it has a record.
    pub(crate) spot: Option<Spot>,
    /// Room for the header, then the records.
    pub(crate) bytes: Vec<u8>,
    /// Let go when the batch is written, and all before it are durable.
    pub(crate) on_written: Vec<Release>,
    /// Let go when the batch is durable, before the others: whoever learns that a job was added
    /// finds that those who waited for it have it.
    pub(crate) handed_out: Vec<Release>,
    /// Let go when the batch is durable.
    pub(crate) on_durable: Vec<Release>,
}

/// Where a batch goes.
#[derive(Clone)]
pub(crate) struct Spot {
    pub(crate) number: u64,
    pub(crate) segment: Arc<Segment>,
    pub(crate) offset: u32,
}

impl Batch {
    /// Fills in the header and answers it.
    pub(crate) fn finish(&mut self, spot: &Spot, durable: u64, before: u32) -> Header {
        let (head, body) = self.bytes.split_at_mut(HEADER_BYTES);
        let header = Header::new(spot.segment.number, spot.number, durable, before, body);
        head.copy_from_slice(&header.to_bytes());
        header
    }

    fn is_empty(&self) -> bool {
        self.spot.is_none() && self.on_written.is_empty()
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
    halted: OnceLock<Error>,
}

#[derive(Default)]
struct Inner {
    /// Full ones, in order.
    sealed: VecDeque<Batch>,
    /// The one that the decider adds to; it takes it out while it does.
    open: Option<Batch>,
    stopping: bool,
}

/// What the syncer finds.
pub(crate) enum Given {
    Batch(Batch),
    Nothing,
    Stop,
}

impl Handover {
    /// The batch to add to: none if the syncer has taken it.
    pub(crate) fn take_open(&self) -> Option<Batch> {
        self.lock().open.take()
    }

    /// Gives back what was added to, and wakes the syncer if there is something in it.
    pub(crate) fn give(&self, sealed: impl IntoIterator<Item = Batch>, open: Option<Batch>) {
        let mut inner = self.lock();
        inner.sealed.extend(sealed);
        inner.open = open.filter(|batch| !batch.is_empty());
        if inner.open.is_some() || !inner.sealed.is_empty() {
            self.given.notify_one();
        }
    }

    /// The next batch to write, if there is one.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn next(&self) -> Given {
        next_of(&mut self.lock())
    }

    /// The next batch to write; waits for one, at most so long.
    pub(crate) fn wait_next(&self, limit: Duration) -> Given {
        let idle =
            |inner: &mut Inner| inner.sealed.is_empty() && inner.open.is_none() && !inner.stopping;
        let waited = self.given.wait_timeout_while(self.lock(), limit, idle);
        next_of(&mut waited.expect("nobody panics holding the handover").0)
    }

    /// Lets the syncer end when it has written everything.
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

    /// Stops the store for good: what is in memory may be ahead of what is on disk.
    pub(crate) fn halt(&self, what: &str, cause: &std::io::Error) {
        let message = format!(
            "{what}: {cause}; the store has stopped, and what was not answered is unknown until it is opened again"
        );
        tracing::error!("{message}");
        // The first cause is the one to tell.
        let _ = self.halted.set(Error::new(Code::StorageFailed, message));
        let mut inner = self.lock();
        inner.sealed.clear();
        inner.open = None;
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
    match inner.sealed.pop_front().or_else(|| inner.open.take()) {
        Some(batch) => Given::Batch(batch),
        None if inner.stopping => Given::Stop,
        None => Given::Nothing,
    }
}
