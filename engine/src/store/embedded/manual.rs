//! The store without its threads, for simulations: its parts move only when they are told.

use std::sync::{Arc, Mutex};

use super::call::Embedded;
use super::decider::{self, Decider};
use super::files::Files;
use super::keeper::{self, Keeper};
use super::open::{Parts, Settings};
use super::syncer::{self, Syncer};
use crate::error::Result;
use crate::store::Options;

/// A store whose parts move only when they are told.
pub struct Manual {
    store: Embedded,
    decider: Decider,
    syncer: Syncer,
    keeper: Keeper,
}

impl Manual {
    /// Opens the store in these files, and starts nothing.
    pub fn open(files: Arc<dyn Files>, options: Options, settings: Settings) -> Result<Manual> {
        let Parts { shared, decider, syncer, keeper, guard } =
            Parts::open(files, options, settings)?;
        let (threads, keeper_bell) = (Mutex::default(), keeper.bell.clone());
        let store = Embedded { shared, threads, keeper_bell, guard: Some(guard) };
        Ok(Manual { store, decider, syncer, keeper })
    }

    /// The store as callers know it. What they ask is answered when the parts have moved.
    pub fn store(&self) -> &Embedded {
        &self.store
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
}
