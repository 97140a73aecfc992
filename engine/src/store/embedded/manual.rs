//! The store without its threads, for simulations: its parts move only when they are told.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::call::Embedded;
use super::decider::{self, Decider};
use super::files::Files;
use super::keeper::{self, Keeper};
use super::open::{Parts, Settings};
use super::progress::Progress;
use super::read::record_in_full;
use super::state::{Peeked, Snapshot};
use super::syncer::{self, Syncer};
use super::trace::Step;
use crate::error::Result;
use crate::record::Record;
use crate::store::Options;
use crate::time::Now;

/// A store whose parts move only when they are told.
pub struct Manual {
    store: Arc<Embedded>,
    decider: Decider,
    syncer: Syncer,
    keeper: Keeper,
}

impl Manual {
    /// Opens the store in these files, and starts nothing.
    pub fn open(files: Arc<dyn Files>, options: Options, settings: Settings) -> Result<Manual> {
        let Parts { shared, decider, syncer, keeper, guard } =
            Parts::open(files, options, settings, &Progress::default())?;
        let (threads, keeper_bell) = (Mutex::default(), keeper.bell.clone());
        let store = Arc::new(Embedded { shared, threads, keeper_bell, guard: Some(guard) });
        Ok(Manual { store, decider, syncer, keeper })
    }

    /// The store as callers know it. What they ask is answered when the parts have moved.
    pub fn store(&self) -> &Arc<Embedded> {
        &self.store
    }

    /// Another handle to the store, which can be asked while the parts are moved.
    pub fn handle(&self) -> Embedded {
        let (threads, keeper_bell) = (Mutex::default(), self.keeper.bell.clone());
        Embedded { shared: self.store.shared.clone(), threads, keeper_bell, guard: None }
    }

    /// Decides what has come in; answers whether there is more to do at once.
    pub fn decide(&mut self) -> bool {
        self.decider.turn() == decider::Turn::More
    }

    /// Writes and syncs one batch; answers whether there was one.
    pub fn sync(&mut self) -> bool {
        self.syncer.turn() == syncer::Turn::Worked
    }

    /// Does one piece of housekeeping; answers whether there was one.
    pub fn keep(&mut self) -> bool {
        self.keeper.turn() == keeper::Turn::Worked
    }

    /// Why the store has stopped, if it has.
    pub fn halted(&self) -> Option<crate::error::Error> {
        self.store.shared.handover.halted().cloned()
    }

    /// Begins to note every step of the state.
    pub(crate) fn watch(&mut self) {
        self.decider.state.trace.watch();
    }

    /// The steps of the state since this was last asked.
    pub(crate) fn steps(&mut self) -> Vec<Step> {
        self.decider.state.trace.take()
    }

    /// All there is, as it is in memory.
    pub(crate) fn peek(&self, now: Now) -> Peeked {
        self.decider.state.peek(now)
    }

    /// Whether what connections of the process before held is still to be let go.
    pub(crate) fn has_orphans(&self) -> bool {
        self.decider.state.has_orphans()
    }

    /// The last batch that has a record.
    pub(crate) fn last_batch(&self) -> u64 {
        self.decider.state.log.last_batch()
    }
}

/// The job as every store keeps it, read on the spot.
pub(crate) fn read_in_full(job: &Snapshot) -> Result<Record> {
    let mut reading = std::pin::pin!(record_in_full(job));
    let mut context = Context::from_waker(Waker::noop());
    match reading.as_mut().poll(&mut context) {
        Poll::Ready(read) => read,
        Poll::Pending => panic!("a disk that is not cold is read on the spot"),
    }
}
