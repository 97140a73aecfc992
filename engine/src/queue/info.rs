//! Jobs as callers see them.

use std::sync::Arc;

use crate::history::Entry;
use crate::job::{Body, Id, Spec};
use crate::machine::{Stage, Tally};
use crate::time::Time;
use crate::topic::Topic;

/// How a caller names a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// By topic and id.
    Named(Topic, Id),
    /// By its number.
    Number(u64),
}

/// What became of an added job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Whether it is new.
    pub how: How,
    /// The job that is there now, without body and history.
    pub job: JobInfo,
}

/// Whether an added job is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is.
    New,
    /// One was there, and is left as it was.
    Kept,
    /// One was there, and this one took its place.
    Replaced,
}

/// A job as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Its number, never used again.
    pub number: u64,
    /// What the caller said.
    pub spec: Spec,
    /// What it carries, where that was asked for.
    pub body: Option<Body>,
    /// Where it is.
    pub stage: Stage,
    /// When it may run, or might have.
    pub due: Time,
    /// Smaller is sooner among ready jobs of a topic.
    pub priority: u32,
    /// When it was first due at all: what anchors the slots of its repeat.
    pub base: Time,
    /// Hand-outs of this occurrence that count.
    pub attempt: u32,
    /// Occurrences that ended before this one.
    pub occurrence: u32,
    /// How often it has changed.
    pub version: u64,
    /// When it was added.
    pub created: Time,
    /// Until when it is reserved, if it is.
    pub reserved_until: Option<Time>,
    /// What went wrong last.
    pub last_error: Option<Arc<str>>,
    /// What happened how often.
    pub tally: Tally,
    /// What happened, oldest first, where that was asked for.
    pub history: Vec<Entry>,
}

impl JobInfo {
    /// The next `n` times at which it is due, as far as that is known: its due time while it
    /// waits, then the slots of its repeat that are still to come. None if it is dead or finished.
    pub fn upcoming(&self, now: Time, n: usize) -> Vec<Time> {
        let waits = matches!(self.stage, Stage::Delayed | Stage::Retry | Stage::Held);
        let is_over = matches!(self.stage, Stage::Dead | Stage::Finished);
        let mut times: Vec<Time> = waits.then_some(self.due).into_iter().collect();
        if let Some(repeat) = self.spec.repeat.as_ref().filter(|_| !is_over) {
            let ended = self.occurrence.saturating_add(1);
            let later = repeat
                .count_max()
                .map_or(n, |count| n.min(count.get().saturating_sub(ended) as usize));
            times.extend(repeat.upcoming(self.base, self.due.max(now), later));
        }
        times.truncate(n);
        times
    }
}

/// What became of a job that was settled or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Whether anything did change.
    pub changed: bool,
    /// Where the job stands now; none if it is gone.
    pub job: Option<Standing>,
    /// What it was before, for those who keep a log: none if nothing changed, or if that is not known.
    pub was: Option<Was>,
}

/// What a job was at the moment it moved: a job that is gone by that cannot be asked any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Was {
    /// Its number.
    pub number: u64,
    /// Hand-outs of that occurrence that counted.
    pub attempt: u32,
    /// How long it had been reserved, if it was.
    pub took_ms: Option<u64>,
    /// Whether it, or that occurrence, died by the move.
    pub died: bool,
}

/// Where a job stands: what a store knows of it without looking up what its caller said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub number: u64,
    /// Where it is.
    pub stage: Stage,
    /// When it may run, or might have.
    pub due: Time,
    /// Smaller is sooner among ready jobs of a topic.
    pub priority: u32,
    /// Hand-outs of this occurrence that count.
    pub attempt: u32,
    /// Occurrences that ended before this one.
    pub occurrence: u32,
    /// How often it has changed.
    pub version: u64,
    /// Until when it is reserved, if it is.
    pub reserved_until: Option<Time>,
}
