//! How many are served at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use linger::error::Code;

use super::error::{Refused, Result};

/// Counts what is in work. Adds, waits and the rest have a gate each, so that too many of one kind
/// keep nobody from finishing.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    pub(crate) adds: Gate,
    pub(crate) calls: Gate,
    pub(crate) waits: Gate,
}

/// Counts those who are within.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    within: AtomicUsize,
}

/// Somebody's stay within a gate.
pub(crate) struct Stay<'a>(&'a Gate);

impl Gate {
    /// Lets someone in, unless so many are within already.
    pub(crate) fn enter(&self, most: usize, what: &'static str) -> Result<Stay<'_>> {
        let stay = Stay(self);
        if self.within.fetch_add(1, Ordering::Relaxed) >= most {
            let message = format!("{what} are at the limit of {most}; try again soon");
            return Err(Refused::new(Code::Overloaded, message));
        }
        Ok(stay)
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.0.within.fetch_sub(1, Ordering::Relaxed);
    }
}
