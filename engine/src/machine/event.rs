//! What happens to a job, what that leads to, and why it may be refused.

use super::{Hold, Life, Stage};
use crate::dice::{Chance, Lease};
use crate::error::{Code, Error};
use crate::history::What;
use crate::job::Ttr;
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::time::Time;

/// What happens to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The clock may have reached its due time.
    Due,
    /// It is handed out because it is first in order.
    Reserve(Hold),
    /// It is handed out because someone asked for this very job.
    ReserveNamed(Hold),
    /// The one it was handed to was gone before the answer was written, or never began.
    Recall(Option<Lease>),
    /// The lease may have run out.
    Expire,
    /// The connection that held it is gone.
    Lost,
    /// The holder, or whoever has the id, says it is done.
    Finish(Option<Lease>),
    /// The attempt failed.
    Fail {
        /// The holder's proof.
        lease: Option<Lease>,
        /// Waits this long instead of the next step.
        retry_in_ms: Option<u64>,
    },
    /// The attempt says "not yet".
    Again {
        /// The holder's proof.
        lease: Option<Lease>,
        /// Waits this long instead of the next step.
        retry_in_ms: Option<u64>,
    },
    /// The holder gives it back.
    Release {
        /// The holder's proof.
        lease: Option<Lease>,
        /// Not before this long.
        delay_ms: u64,
        /// With a new priority.
        priority: Option<u32>,
    },
    /// The holder needs longer.
    Touch {
        /// The holder's proof.
        lease: Option<Lease>,
        /// This long from now instead of the lease's own length.
        ttr: Option<Ttr>,
    },
    /// The holder leaves it to whoever has the lease.
    Leave(Option<Lease>),
    /// The holder puts it on the dead shelf.
    Bury {
        /// The holder's proof.
        lease: Option<Lease>,
        /// With a new priority.
        priority: Option<u32>,
    },
    /// Its parts are changed.
    Update {
        /// A new due time.
        due: Option<Time>,
        /// A new priority.
        priority: Option<u32>,
    },
    /// It is to run now.
    Run,
    /// It is to leave the dead shelf.
    Redrive,
    /// It is set aside.
    Hold,
    /// It is let go.
    Unhold,
    /// It is cancelled.
    Delete(Reach),
    /// What kept a dead or finished job visible is over.
    Lapse,
}

/// Which jobs a delete may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Any.
    #[default]
    Any,
    /// Not one that somebody holds.
    Unreserved,
}

/// What holds for a job at this moment: its own settings, or its topic's.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Attempts and pace.
    pub retry: &'a Retry,
    /// When it runs again.
    pub repeat: Option<&'a Repeat>,
    /// How long it stays visible when finished.
    pub retain_ms: Option<u64>,
    /// The jitter of this attempt.
    pub chance: Chance,
}

/// What a step leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Done, and nothing changes.
    Same,
    /// The job goes on like this.
    Keep(Life),
    /// The job is gone.
    Gone,
}

/// A step that is allowed: where it leads and what to write into the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it leads.
    pub next: Next,
    /// What to write down, if anything.
    pub note: Option<Note>,
}

/// What to write into a job's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What happened.
    pub what: What,
    /// How long the attempt that ended took.
    pub took_ms: Option<u64>,
    /// The error, where the machine knows it and no caller has to say.
    pub error: Option<&'static str>,
}

/// Why a step is not allowed. Nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not in this state.
    WrongState(Stage),
    /// Not with this lease.
    LeaseLost,
}

/// The error of a job whose last lease ran out.
pub const TTR_RAN_OUT: &str = "ttr ran out";
/// The error of a job whose last lease was lost with its connection.
pub const CONNECTION_LOST: &str = "connection lost";
/// The error of a job that said "not yet" to the end of its ladder.
pub const GAVE_UP: &str = "gave_up";
/// The error of a job that was put on the dead shelf without a word.
pub const BURIED: &str = "buried";

impl Step {
    /// Whether anything changes by it.
    pub fn changes(&self) -> bool {
        self.next != Next::Same
    }
}

impl Note {
    pub(super) fn of(what: What) -> Note {
        Note { what, took_ms: None, error: None }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        match refusal {
            Refusal::WrongState(stage) => Error::new(
                Code::WrongState,
                format!("the job is {stage}, which does not allow this"),
            ),
            Refusal::LeaseLost => Error::new(
                Code::LeaseLost,
                "the lease does not hold: it ran out, or the job was settled, replaced or handed to another",
            ),
        }
    }
}
