//! How many are served at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use linger::error::{Code, Error, Result};

use super::app::App;

/// Counts what is in work. Adds, waits and the rest have a gate each, so that too many of one kind
/// keep nobody from finishing.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    pub(crate) adds: Gate,
    pub(crate) calls: Gate,
    pub(crate) waits: Gate,
    /// The bytes of large requests.
    bytes: AtomicUsize,
}

/// Counts those who are within.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    within: AtomicUsize,
}

/// Requests up to this are not counted by their bytes once they are there: others bound how many
/// there are in work. Of those that have not arrived there may be many more, over HTTP/2.
const SMALL_BYTES: usize = 64 << 10;

/// Whether there is more of a request to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    None,
    ToCome,
}

/// The bytes of one request, counted for as long as it is held.
pub(crate) struct Weight {
    app: Arc<App>,
    bytes: usize,
}

impl Weight {
    pub(crate) fn none(app: &Arc<App>) -> Weight {
        Weight { app: app.clone(), bytes: 0 }
    }

    /// Counts a request that is to have so many bytes.
    pub(crate) fn grow_to(&mut self, bytes: usize, rest: Rest) -> Result<()> {
        let is_light = rest == Rest::None && bytes <= SMALL_BYTES;
        if is_light || bytes <= self.bytes {
            return Ok(());
        }
        let more = bytes - self.bytes;
        self.bytes = bytes;
        let all = self.app.gates.bytes.fetch_add(more, Ordering::Relaxed) + more;
        let most = self.app.config().limits.requests_bytes;
        // One by itself is bounded by its own limit.
        if all > most && all > self.bytes {
            let message =
                format!("the requests in work are at the limit of {most} bytes; try again soon");
            return Err(Error::new(Code::Overloaded, message));
        }
        Ok(())
    }

    /// The bytes, which are counted until nobody has them any more.
    pub(crate) fn of(self, bytes: Bytes) -> Bytes {
        struct Weighed {
            bytes: Bytes,
            _weight: Weight,
        }

        impl AsRef<[u8]> for Weighed {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }

        match self.bytes {
            0 => bytes,
            _ => Bytes::from_owner(Weighed { bytes, _weight: self }),
        }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.app.gates.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Somebody's stay within a gate.
pub(crate) struct Stay<'a>(&'a Gate);

/// A stream among those who wait, for as long as it is held.
pub(crate) struct Waiting(Arc<App>);

impl Waiting {
    pub(crate) fn enter(app: &Arc<App>) -> Result<Waiting> {
        app.gates.waits.let_in(app.config().limits.waiting, "waiting pops")?;
        Ok(Waiting(app.clone()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.gates.waits.let_out();
    }
}

/// A long call among the others, for as long as it is held.
pub(crate) struct Calling(Arc<App>);

impl Calling {
    pub(crate) fn enter(app: &Arc<App>) -> Result<Calling> {
        app.gates.calls.let_in(app.config().limits.requests, "requests")?;
        Ok(Calling(app.clone()))
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.gates.calls.let_out();
    }
}

impl Gate {
    /// Lets someone in, unless so many are within already.
    pub(crate) fn enter(&self, most: usize, what: &'static str) -> Result<Stay<'_>> {
        self.let_in(most, what)?;
        Ok(Stay(self))
    }

    fn let_in(&self, most: usize, what: &'static str) -> Result<()> {
        if self.within.fetch_add(1, Ordering::Relaxed) >= most {
            self.let_out();
            let message = format!("{what} are at the limit of {most}; try again soon");
            return Err(Error::new(Code::Overloaded, message));
        }
        Ok(())
    }

    fn let_out(&self) {
        self.within.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.0.let_out();
    }
}
