//! What a job is called whose caller gave it no id.

use linger::error::Result;
use linger::job::{Id, made_id};
use linger::time::Time;

/// What is known of a job that brings no id of its own.
#[derive(Clone, Copy)]
pub(super) struct Unnamed<'a> {
    /// The key by which the whole request is known.
    pub(super) key: Option<&'a str>,
    /// Its place in the request, if that has many.
    pub(super) at: Option<usize>,
}

impl Unnamed<'_> {
    /// An id, and whether it may be there already.
    pub(super) fn id(self, now: Time) -> Result<(Id, bool)> {
        match (self.key, self.at) {
            (None, _) => Ok((made_id(now), false)),
            (Some(key), None) => Ok((format!("key:{key}").parse()?, true)),
            (Some(key), Some(at)) => Ok((format!("key:{key}:{at}").parse()?, true)),
        }
    }
}
