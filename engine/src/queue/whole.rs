//! A job with all that a store keeps of it, on its way from one store to another.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::history::{ENTRIES_MAX, Entry, What};
use crate::job::{Body, Caller, Spec};
use crate::machine::{Life, State};
use crate::time::Time;

/// A job with all that a store keeps of it but its number, which another store gives it anew.
///
/// For those who move jobs between stores. It has the lease of one that is reserved, so that its
/// holder can settle it in the other store: it is not for strangers' eyes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// What the caller said.
    pub spec: Spec,
    /// What it carries.
    pub body: Body,
    /// When it was added.
    pub created: Time,
    /// Who added it.
    pub by: Option<Caller>,
    /// The part that moves. A hold in it says nothing of when it began and ends, nor of whom it is
    /// tied to: stores have clocks of their own.
    pub life: Life,
    /// When the hold ends, if there is one.
    pub reserved_until: Option<Time>,
    /// What went wrong last.
    pub last_error: Option<Arc<str>>,
    /// What happened to it after it was added, oldest first.
    pub history: Vec<Entry>,
}

/// No job changes as often as this; beyond it some stores could not count on.
const VERSION_MAX: u64 = 1 << 52;

impl Whole {
    /// Refuses what no job can have come to.
    pub fn check(&self) -> Result<()> {
        let Life { version, attempt, hand_outs, tally, .. } = &self.life;
        if !(1..=VERSION_MAX).contains(version) {
            let message = format!("version is {version}; give 1 to {VERSION_MAX}");
            return Err(Error::invalid("version", message));
        }
        let reserved = matches!(self.life.state, State::Reserved(_));
        for (field, count) in
            [("attempt", *attempt), ("hand_outs", *hand_outs), ("reserves", tally.reserves)]
        {
            if reserved && count == 0 {
                let message = format!("{field} is 0 of a job that is reserved; give 1 or more");
                return Err(Error::invalid(field, message));
            }
        }
        if reserved != self.reserved_until.is_some() {
            let message = "a job has reserved_until if it is reserved, and only then";
            return Err(Error::invalid("reserved_until", message));
        }
        if self.history.len() > ENTRIES_MAX {
            let given = self.history.len();
            let message = format!("history has {given} entries, over the limit of {ENTRIES_MAX}");
            return Err(Error::invalid("history", message));
        }
        Ok(())
    }

    /// What is to be noted so that the store knows what happened and what went wrong last: the
    /// history, and before it the last error if the history has forgotten that.
    pub(crate) fn notes(&self) -> Vec<Entry> {
        let told = self.history.iter().any(|entry| entry.error.is_some());
        let forgotten = self.last_error.as_ref().filter(|_| !told).map(|error| Entry {
            at: self.created,
            what: What::Failed,
            attempt: self.life.attempt,
            took_ms: None,
            error: Some(error.clone()),
            report: None,
            by: None,
        });
        forgotten.into_iter().chain(self.history.iter().cloned()).map(Entry::clipped).collect()
    }
}
