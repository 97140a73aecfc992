//! Writes and syncs what was decided, and lets go of the answers that rest on it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::handover::{Batch, Given, Handover, Release, Spot};
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

/// How long a relaxed store leaves written bytes unsynced.
const RELAXED_MS: u64 = 100;

/// The writing half of the store.
pub(crate) struct Syncer {
    handover: Arc<Handover>,
    durability: Durability,
    clock: Arc<dyn Clock>,
    /// The check of the last batch: what the next one is chained to.
    before: u32,
    /// The highest batch that is synced.
    durable: u64,
    /// The highest batch that is written.
    written: u64,
    /// Written and not synced yet.
    dirty: Option<Dirty>,
}

struct Dirty {
    segment: Arc<Segment>,
    since: Tick,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Worked,
    Idle,
    Over,
}

impl Syncer {
    /// Goes on after batch `last`, whose check is `before`.
    pub(crate) fn new(
        handover: Arc<Handover>,
        durability: Durability,
        clock: Arc<dyn Clock>,
        last: u64,
        before: u32,
    ) -> Syncer {
        handover.set_settled(last);
        handover.set_durable(last);
        Syncer { handover, durability, clock, before, durable: last, written: last, dirty: None }
    }

    /// Writes and syncs until the store stops.
    pub(crate) fn run(mut self) {
        loop {
            let given = self.handover.wait_next(Duration::from_millis(RELAXED_MS));
            match self.act(given) {
                Ok(Turn::Over) => return,
                Ok(_) => {}
                // A failed sync may have dropped the pages, so a second one could succeed without
                // them: never retry. A restart reads back what is truly there.
                Err(cause) => return self.handover.halt("writing to the log failed", &cause),
            }
        }
    }

    /// Does one thing, if there is one.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn turn(&mut self) -> Turn {
        let given = self.handover.next();
        self.act(given).unwrap_or_else(|cause| {
            self.handover.halt("writing to the log failed", &cause);
            Turn::Over
        })
    }

    fn act(&mut self, given: Given) -> io::Result<Turn> {
        match given {
            Given::Batch(batch) => {
                self.write(batch)?;
                self.sync_if_due()?;
                Ok(Turn::Worked)
            }
            Given::Nothing if self.dirty.is_some() => {
                self.sync_if_due()?;
                Ok(Turn::Idle)
            }
            Given::Nothing => Ok(Turn::Idle),
            Given::Stop => {
                self.sync()?;
                Ok(Turn::Over)
            }
        }
    }

    /// Nothing leaves before its record is safe: this order is the durability promise.
    fn write(&mut self, mut batch: Batch) -> io::Result<()> {
        if let Some(spot) = batch.spot.clone() {
            self.leave_old_segment(&spot)?;
            let header = batch.finish(&spot, self.durable, self.before);
            spot.segment.file.write_at(&batch.bytes, u64::from(spot.offset))?;
            self.before = header.check;
            self.written = spot.number;
            if self.dirty.is_none() {
                let since = self.clock.now().tick;
                self.dirty = Some(Dirty { segment: spot.segment, since });
            }
        }
        release(batch.on_written);
        if self.durability == Durability::Sync {
            self.sync()?;
        }
        self.handover.set_settled(self.written);
        release(batch.handed_out);
        release(batch.on_durable);
        Ok(())
    }

    /// A segment is synced before the next one is begun, so that the log has no holes.
    fn leave_old_segment(&mut self, spot: &Spot) -> io::Result<()> {
        match &self.dirty {
            Some(dirty) if dirty.segment.number != spot.segment.number => self.sync(),
            _ => Ok(()),
        }
    }

    fn sync_if_due(&mut self) -> io::Result<()> {
        match &self.dirty {
            Some(dirty) if self.clock.now().tick.ms_since(dirty.since) >= RELAXED_MS => self.sync(),
            _ => Ok(()),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(dirty) = self.dirty.take() {
            dirty.segment.file.sync()?;
            self.durable = self.written;
            self.handover.set_durable(self.durable);
        }
        Ok(())
    }
}

fn release(answers: Vec<Release>) {
    for answer in answers {
        answer();
    }
}
