//! What happened to a job: a bounded list, written at failures and changes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::clip;
use crate::job::Caller;
use crate::time::Time;

/// The most entries a job keeps; the oldest go first.
pub const ENTRIES_MAX: usize = 32;
/// The most of an error text that is kept, in bytes.
pub const ERROR_BYTES_MAX: usize = 1024;
/// The most of a receiver's answer that is kept, in bytes.
pub const EXCERPT_BYTES_MAX: usize = 1024;

/// One thing that happened to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// What.
    pub what: What,
    /// The attempt it was part of, or the attempts used so far.
    pub attempt: u32,
    /// How long the attempt took, if one ended here.
    pub took_ms: Option<u64>,
    /// What went wrong, if something did.
    pub error: Option<Arc<str>>,
    /// What the receiver answered, if it was pushed.
    pub report: Option<Report>,
    /// Who did it, if they said.
    pub by: Option<Caller>,
}

impl Entry {
    /// The entry with its texts cut to what is kept of them.
    pub(crate) fn clipped(mut self) -> Entry {
        self.error = self.error.map(|text| clipped(text, ERROR_BYTES_MAX));
        if let Some(report) = &mut self.report {
            report.excerpt = report.excerpt.take().map(|text| clipped(text, EXCERPT_BYTES_MAX));
        }
        self
    }
}

/// The kinds of things that happen to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// It was added.
    Added,
    /// Its body or another part was changed.
    Updated,
    /// It was set aside.
    Held,
    /// It was let go.
    Unheld,
    /// It was made ready by hand.
    Run,
    /// It was taken off the dead shelf.
    Redriven,
    /// It was given back unfinished.
    Released,
    /// An attempt failed.
    Failed,
    /// An attempt said "not yet".
    Again,
    /// A lease ran out.
    TimedOut,
    /// A lease was lost with its connection.
    Lost,
    /// It was put on the dead shelf, or an occurrence died.
    Died,
    /// It was finished, or an occurrence was.
    Finished,
    /// It was delivered, and whoever took it is to say what becomes of it.
    Delivered,
}

impl What {
    /// Every kind there is.
    pub const ALL: [What; 14] = [
        What::Added,
        What::Updated,
        What::Held,
        What::Unheld,
        What::Run,
        What::Redriven,
        What::Released,
        What::Failed,
        What::Again,
        What::TimedOut,
        What::Lost,
        What::Died,
        What::Finished,
        What::Delivered,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            What::Added => "added",
            What::Updated => "updated",
            What::Held => "held",
            What::Unheld => "unheld",
            What::Run => "run",
            What::Redriven => "redriven",
            What::Released => "released",
            What::Failed => "failed",
            What::Again => "again",
            What::TimedOut => "timed_out",
            What::Lost => "lost",
            What::Died => "died",
            What::Finished => "finished",
            What::Delivered => "delivered",
        }
    }
}

/// What the receiver of a pushed job answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The status it answered with.
    pub status: Option<u16>,
    /// The start of what it said.
    pub excerpt: Option<Arc<str>>,
}

/// What is kept about a job beyond its state: nothing, for a job that is added, popped and finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    last_error: Option<Arc<str>>,
    entries: VecDeque<Entry>,
}

impl Notes {
    /// Writes an entry down; its error becomes the last error.
    pub fn push(&mut self, entry: Entry) {
        let entry = entry.clipped();
        if entry.error.is_some() {
            self.last_error.clone_from(&entry.error);
        }
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// What a store has kept: the last error, and the entries, oldest first.
    pub(crate) fn kept(last_error: Option<Arc<str>>, entries: VecDeque<Entry>) -> Notes {
        Notes { last_error, entries }
    }

    /// What went wrong last.
    pub fn last_error(&self) -> Option<&Arc<str>> {
        self.last_error.as_ref()
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }
}

/// The text, cut if it is longer.
pub(crate) fn clipped(text: Arc<str>, bytes_max: usize) -> Arc<str> {
    if text.len() <= bytes_max { text } else { clip(&text, bytes_max).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(attempt: u32, error: &str) -> Entry {
        Entry {
            at: Time::MIN,
            what: What::Failed,
            attempt,
            took_ms: None,
            error: Some(error.into()),
            report: None,
            by: None,
        }
    }

    #[test]
    fn history_is_bounded_and_keeps_the_newest() {
        let mut notes = Notes::default();
        for attempt in 0..ENTRIES_MAX as u32 + 5 {
            notes.push(entry(attempt, "no"));
        }
        assert_eq!(notes.entries().len(), ENTRIES_MAX);
        assert_eq!(notes.entries().next().unwrap().attempt, 5);
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let mut notes = Notes::default();
        notes.push(entry(1, &"é".repeat(ERROR_BYTES_MAX)));
        assert_eq!(notes.last_error().unwrap().len(), ERROR_BYTES_MAX);
        notes.push(entry(1, &format!("a{}", "é".repeat(ERROR_BYTES_MAX))));
        assert_eq!(notes.last_error().unwrap().len(), ERROR_BYTES_MAX - 1);
    }
}
