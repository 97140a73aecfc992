//! What happens to jobs without anybody being answered for each, for a log.

use std::sync::Arc;

use super::Was;
use crate::history::What;
use crate::job::{Caller, Id};
use crate::time::Time;
use crate::topic::Topic;

/// Some moves, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// The moves.
    pub moves: Vec<Moved>,
    /// How many more there were, which nobody asked for in time.
    pub lost: u64,
}

/// A move of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The job's topic.
    pub topic: Topic,
    /// Its id.
    pub id: Id,
    /// What it was before.
    pub was: Was,
    /// What happened to it; none if it was deleted.
    pub what: Option<What>,
    /// When.
    pub at: Time,
    /// What went wrong, if something did.
    pub error: Option<Arc<str>>,
    /// Who did it, if they said.
    pub by: Option<Caller>,
}
