//! Jobs whose life is over, for an archive.

use super::JobInfo;
use crate::history::Report;
use crate::job::Caller;
use crate::time::Time;
use crate::topic::Archive;

/// A job whose life is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The job as it was, with its body and history.
    pub job: JobInfo,
    /// What became of it.
    pub how: End,
    /// When.
    pub at: Time,
    /// What the receiver answered at the last, if it was pushed.
    pub report: Option<Report>,
    /// Who ended it, if they said.
    pub by: Option<Caller>,
    /// Where it is to be kept.
    pub archive: Archive,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was finished.
    Finished,
    /// It is on the dead shelf.
    Dead,
    /// It was cancelled.
    Deleted,
}

impl End {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            End::Finished => "finished",
            End::Dead => "dead",
            End::Deleted => "deleted",
        }
    }
}
