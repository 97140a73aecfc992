//! All jobs as they are at one moment, copied bit by bit while they go on changing: whoever is about to
//! change one that was not copied yet sets it aside first.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use super::{Entry, Orders, Snapshot, State};
use crate::error::{Code, Error, Result};
use crate::queue::{KvEntry, KvQuery, TopicInfo};
use crate::store::embedded::index::CHUNK;
use crate::time::{Now, Time};
use crate::topic::{Pause, Settings};

/// How many jobs are copied in one turn, and how many slots are looked at for that.
const PAGE_JOBS: usize = 256;
const PAGE_SLOTS: u32 = 4096;
/// How many jobs are set aside for one who does not fetch them: each is held in memory and on disk.
const ASIDE_MAX: usize = 200_000;

/// A copy under way.
pub(super) struct Backup {
    /// Gone when nobody wants the copy any more.
    wanted: Weak<()>,
    /// Jobs with a higher number were added later.
    through: u64,
    /// Of each topic: jobs up to this number had been emptied away.
    gone_through: Vec<u64>,
    /// All slots before this one were looked at.
    next: u32,
    /// Jobs that have changed or gone since, as they were.
    aside: Vec<Snapshot>,
    /// Of these, the numbers of those that are still there.
    changed: HashSet<u64>,
    /// Whether there were too many.
    is_given_up: bool,
}

/// What a copy begins with: all but the jobs.
pub(crate) struct Begun {
    pub(crate) at: Time,
    /// How many jobs there are.
    pub(crate) jobs: u64,
    /// The topics that have settings, or are paused.
    pub(crate) topics: Vec<TopicInfo>,
    pub(crate) keys: Vec<KvEntry>,
}

impl Backup {
    /// Whether a job belongs to the copy, and was not taken into it yet.
    fn lacks(&self, slot: u32, entry: &Entry) -> bool {
        let gone_through = self.gone_through.get(entry.topic as usize).copied().unwrap_or(0);
        !self.is_given_up
            && slot >= self.next
            && entry.number <= self.through
            && entry.number > gone_through
            && !self.changed.contains(&entry.number)
    }
}

impl State {
    /// Begins a copy of all there is at this moment, for as long as `wanted` is held.
    pub(crate) fn begin_backup(&mut self, wanted: &Arc<()>, now: Now) -> Result<Begun> {
        if self.backup.as_ref().is_some_and(|other| other.wanted.strong_count() > 0) {
            let message = "a backup is under way already; try again when it is done";
            return Err(Error::new(Code::Overloaded, message));
        }
        let gone = |orders: &Option<Orders>| orders.as_ref().map_or(0, |it| it.gone_through);
        self.backup = Some(Box::new(Backup {
            wanted: Arc::downgrade(wanted),
            through: self.next_number - 1,
            gone_through: self.topics.iter().map(gone).collect(),
            next: 0,
            aside: Vec::new(),
            changed: HashSet::new(),
            is_given_up: false,
        }));
        let named = self.sorted.values().filter_map(|topic| self.topics[*topic as usize].as_ref());
        let says_something =
            |orders: &&Orders| orders.pause != Pause::No || *orders.settings != Settings::default();
        let all = KvQuery::Prefix { prefix: "".into(), after: None, limit: usize::MAX };
        Ok(Begun {
            at: now.time(),
            jobs: named.clone().map(Orders::len).sum(),
            topics: named.filter(says_something).map(|orders| orders.info(now)).collect(),
            keys: self.kv.read(&all),
        })
    }

    /// The next jobs of the copy, as they were when it began; none at its end.
    pub(crate) fn back_up_some(&mut self) -> Result<Option<Vec<Snapshot>>> {
        let Some(mut backup) = self.backup.take() else { return Ok(None) };
        if backup.is_given_up {
            let message = format!(
                "the backup was given up: {ASIDE_MAX} jobs have changed that nobody has fetched; \
                 try again, and read faster"
            );
            return Err(Error::new(Code::Overloaded, message));
        }
        let mut some = std::mem::take(&mut backup.aside);
        let end = (self.arena.chunks() * CHUNK) as u32;
        let until = end.min(backup.next.saturating_add(PAGE_SLOTS));
        while backup.next < until && some.len() < PAGE_JOBS {
            let slot = backup.next;
            if let Some(entry) = self.arena.get(slot)
                && backup.lacks(slot, entry)
            {
                some.push(self.snapshot(slot));
            }
            backup.next += 1;
        }
        if some.is_empty() && backup.next >= end {
            return Ok(None);
        }
        self.backup = Some(backup);
        Ok(Some(some))
    }

    /// Keeps a job for the copy under way that is about to change, or to be gone.
    pub(super) fn set_aside(&mut self, slot: u32, then: Then) {
        let Some(backup) = &self.backup else { return };
        let entry = &self.arena[slot];
        let (number, lacks) = (entry.number, backup.lacks(slot, entry));
        let snapshot = lacks.then(|| self.snapshot(slot));
        let backup = self.backup.as_mut().expect("it is there");
        if backup.wanted.strong_count() == 0 {
            self.backup = None;
            return;
        }
        backup.aside.extend(snapshot);
        match then {
            Then::Changed if lacks => drop(backup.changed.insert(number)),
            Then::Changed => {}
            Then::Gone => drop(backup.changed.remove(&number)),
        }
        if backup.aside.len() > ASIDE_MAX {
            backup.is_given_up = true;
            backup.aside = Vec::new();
        }
    }
}

/// What is about to happen to a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Changed,
    Gone,
}
