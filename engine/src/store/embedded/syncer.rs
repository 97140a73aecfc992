//! Syncs what was written, and lets go of the answers that rest on it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::desk::Desk;
use super::handover::{Given, Handover, Release, Written};
use super::meter::Meter;
use super::place::Segment;
use crate::time::{Clock, Tick};

/// When an answer may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When its record is synced: what is acknowledged survives a loss of power.
    #[default]
    Sync,
    /// When its record is written: it survives the end of the process, and a loss of power after
    /// at most about 100 ms.
    Relaxed,
}

/// How long written bytes are left unsynced that nobody waits for: leases, and all of a relaxed store.
const RELAXED_MS: u64 = 100;

/// The syncing half of the store.
pub(crate) struct Syncer {
    handover: Arc<Handover>,
    durability: Durability,
    clock: Arc<dyn Clock>,
    meter: Arc<Meter>,
    /// Written and not synced yet, in order, and the last batch of it.
    dirty: Vec<Arc<Segment>>,
    last: u64,
    dirty_since: Tick,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Worked,
    Idle,
    Over,
}

impl Syncer {
    /// Goes on after batch `last`.
    pub(crate) fn new(
        handover: Arc<Handover>,
        durability: Durability,
        clock: Arc<dyn Clock>,
        meter: Arc<Meter>,
        last: u64,
    ) -> Syncer {
        handover.set_settled(last);
        handover.set_durable(last);
        let dirty_since = Tick::default();
        Syncer { handover, durability, clock, meter, dirty: Vec::new(), last, dirty_since }
    }

    /// Syncs until the store stops, and has decided after each sync what has gathered meanwhile.
    pub(crate) fn run(mut self, desk: &Desk) {
        loop {
            match self.dirty.is_empty() {
                true => self.handover.wait(Duration::from_millis(RELAXED_MS)),
                // What is written meanwhile is synced along with it.
                false => self.handover.wait_out(self.until_due()),
            }
            let mut given = self.handover.next();
            self.handover.set_syncing(self.durability == Durability::Sync);
            let acted = self.act(&mut given);
            self.handover.set_syncing(false);
            match acted {
                Ok(Turn::Over) => return,
                Ok(Turn::Worked | Turn::Idle) => desk.decide(),
                // A failed sync may have dropped the pages, so a second one could succeed without
                // them: never retry. A restart reads back what is truly there.
                Err(cause) => return self.handover.halt("syncing the log failed", &cause),
            }
        }
    }

    /// Does one thing, if there is one.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn turn(&mut self) -> Turn {
        if self.handover.halted().is_some() {
            return Turn::Over;
        }
        let mut given = self.handover.next();
        self.act(&mut given).unwrap_or_else(|cause| {
            self.handover.halt("syncing the log failed", &cause);
            Turn::Over
        })
    }

    /// Leaves the answers to what could not be synced: they must not end before the store has
    /// stopped, or it could not be told why.
    fn act(&mut self, given: &mut Given) -> io::Result<Turn> {
        match given {
            Given::Written(written) => {
                self.take(written)?;
                Ok(Turn::Worked)
            }
            Given::Nothing => {
                self.sync_if_due()?;
                Ok(Turn::Idle)
            }
            Given::Stop => {
                self.sync()?;
                Ok(Turn::Over)
            }
        }
    }

    /// Nothing leaves before its record is safe: this order is the durability promise.
    fn take(&mut self, written: &mut Written) -> io::Result<()> {
        if self.dirty.is_empty() {
            self.dirty_since = written.since;
        }
        self.dirty.append(&mut written.segments);
        self.last = written.batch.unwrap_or(self.last);
        match self.durability {
            Durability::Sync => self.sync()?,
            Durability::Relaxed => self.sync_if_due()?,
        }
        self.handover.set_settled(self.last);
        release(std::mem::take(&mut written.handed_out));
        release(std::mem::take(&mut written.answers));
        Ok(())
    }

    fn until_due(&self) -> Duration {
        let dirty_ms = self.clock.now().tick.ms_since(self.dirty_since);
        Duration::from_millis(RELAXED_MS.saturating_sub(dirty_ms))
    }

    fn sync_if_due(&mut self) -> io::Result<()> {
        if self.until_due().is_zero() { self.sync() } else { Ok(()) }
    }

    /// In order, so that the log has no holes.
    fn sync(&mut self) -> io::Result<()> {
        let mut synced = None;
        let begun = self.clock.now().tick;
        for segment in self.dirty.drain(..) {
            if synced != Some(segment.number) {
                segment.file.sync()?;
                synced = Some(segment.number);
            }
        }
        if synced.is_some() {
            self.meter.synced(self.clock.now().tick.us_since(begun));
        }
        self.handover.set_durable(self.last);
        Ok(())
    }
}

pub(crate) fn release(answers: Vec<Release>) {
    for answer in answers {
        answer();
    }
}
