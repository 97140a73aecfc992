//! A copy of all that is in the store, of one moment, while it is used.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Embedded;
use super::call::Shared;
use super::read::record_in_full;
use super::state::{Begun, Snapshot, State};
use crate::error::Result;
use crate::queue::{KvEntry, TopicInfo, Whole};
use crate::time::Time;

/// All that was in the store at one moment. Jobs are read one after the other; those that change before
/// their turn comes are kept as they were, which costs memory: read on, or drop it.
pub struct Backup {
    shared: Arc<Shared>,
    /// As long as it is held, jobs that change are kept.
    _wanted: Arc<()>,
    begun: Begun,
    fetched: VecDeque<Snapshot>,
    is_over: bool,
}

impl Embedded {
    /// Begins a copy of all that is there now. There is one at a time: `overloaded` if there is another.
    pub async fn backup(&self) -> Result<Backup> {
        let wanted = Arc::new(());
        let held = wanted.clone();
        let begin = move |state: &mut State, now| state.begin_backup(&held, now);
        let begun = self.shared.look(begin).await??;
        let shared = self.shared.clone();
        let fetched = VecDeque::new();
        Ok(Backup { shared, _wanted: wanted, begun, fetched, is_over: false })
    }
}

impl Backup {
    /// The moment that it shows.
    pub fn at(&self) -> Time {
        self.begun.at
    }

    /// How many jobs there were.
    pub fn jobs(&self) -> u64 {
        self.begun.jobs
    }

    /// The topics that had settings, or were paused.
    pub fn topics(&self) -> &[TopicInfo] {
        &self.begun.topics
    }

    /// All of the key-value side.
    pub fn keys(&self) -> &[KvEntry] {
        &self.begun.keys
    }

    /// The next job, in no order; none after the last.
    pub async fn next(&mut self) -> Result<Option<Whole>> {
        while self.fetched.is_empty() && !self.is_over {
            match self.shared.look(|state, _| state.back_up_some()).await?? {
                Some(some) => self.fetched.extend(some),
                None => self.is_over = true,
            }
        }
        let Some(job) = self.fetched.pop_front() else { return Ok(None) };
        Ok(Some(record_in_full(&job).await?.whole(self.shared.clock.now())))
    }
}
