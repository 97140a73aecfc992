//! Changes by hand, to one job, to many, and to topics.

use std::time::Duration;

use super::{Filter, Key};
use crate::job::{Caller, Patch};
use crate::machine::Reach;
use crate::topic::{Settings, Topic};

/// A change by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which job.
    pub key: Key,
    /// Only if it still has this version.
    pub if_version: Option<u64>,
    /// What to do.
    pub action: Action,
    /// Who does it.
    pub by: Option<Caller>,
}

impl Change {
    /// Does `action` to the job, whatever its version.
    pub fn new(key: Key, action: Action) -> Change {
        Change { key, if_version: None, action, by: None }
    }
}

/// What can be done to a job by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Change parts of it.
    Update(Patch),
    /// Set it aside.
    Hold,
    /// Let it go.
    Unhold,
    /// Make it ready now; a dead one is redriven.
    Run,
    /// Take it off the dead shelf.
    Redrive,
    /// Cancel it.
    Delete(Reach),
}

/// One thing done to many jobs of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The topic.
    pub topic: Topic,
    /// Which of its jobs.
    pub filter: Filter,
    /// What to do.
    pub bulk: Bulk,
    /// To at most so many.
    pub limit: Option<u64>,
    /// For real, or only counting.
    pub mode: Mode,
    /// Who does it.
    pub by: Option<Caller>,
}

/// What can be done to many jobs at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// Finish them, whoever holds them.
    Finish,
    /// Cancel them.
    Delete,
    /// Make them ready now.
    Run,
    /// Set them aside.
    Hold,
    /// Let them go.
    Unhold,
    /// Take them off the dead shelf.
    Redrive,
}

/// Whether a sweep is for real.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Do it.
    #[default]
    Apply,
    /// Only count what would be done.
    DryRun,
}

/// What can be done to a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicChange {
    /// Gives it these settings in place of all it had.
    Set(Box<Settings>),
    /// Hands out nothing, for this long or until it is resumed.
    Pause(Option<Duration>),
    /// Hands out again.
    Resume,
    /// Removes all its jobs; settings stay.
    Empty,
    /// Removes all its jobs and settings.
    Forget,
}

impl TopicChange {
    /// Whether it makes a topic that is not there, rather than be refused.
    pub fn makes_topic(&self) -> bool {
        matches!(self, TopicChange::Set(_) | TopicChange::Pause(_))
    }
}
