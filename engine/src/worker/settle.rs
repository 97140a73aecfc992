//! Tells the store how attempts have ended: those that ended together in one call.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::dispatch::{Shared, Slot};
use crate::error::{Code, Error, Result};
use crate::queue::{Queue, Settle, Verdict};
use crate::time::SECOND;

/// How often an outcome is told to a store that cannot take it.
const TRIES_MAX: u32 = 8;
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = SECOND.saturating_mul(5);

/// An attempt that has ended, which the store does not know yet.
pub(super) struct Unsettled<Q> {
    pub(super) slot: Slot,
    pub(super) attempt: Attempt<Q>,
    pub(super) settle: Settle,
}

/// Those that the store is told of in one call.
pub(super) struct Batch<Q> {
    pub(super) jobs: Vec<Unsettled<Q>>,
    /// How often it was told already, and for how long to wait because of that.
    tries: u32,
    pause: Duration,
}

/// What came of telling the store.
pub(super) struct Told<Q> {
    /// It knows, or never will.
    pub(super) settled: Vec<Slot>,
    /// To be told again.
    pub(super) again: Batch<Q>,
}

impl<Q: Queue> Batch<Q> {
    pub(super) fn new(jobs: Vec<Unsettled<Q>>) -> Batch<Q> {
        Batch { jobs, tries: 0, pause: Duration::ZERO }
    }

    /// Tells the store of all of them.
    pub(super) async fn tell(self, shared: Arc<Shared<Q>>) -> Told<Q> {
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
        let settles = self.jobs.iter().map(|one| one.settle.clone()).collect();
        let answers = shared.queue.settle(settles).await;
        let answers = answers.unwrap_or_else(|error| vec![Err(error); self.jobs.len()]);
        assert_eq!(answers.len(), self.jobs.len(), "a store answers each settle");
        let (tries, pause) = (self.tries + 1, longer(self.pause));
        let (mut settled, mut again) = (Vec::with_capacity(self.jobs.len()), Vec::new());
        for (one, answer) in self.jobs.into_iter().zip(answers) {
            let passes = |error: &Error| is_passing(error) && one.attempt.lease_may_last();
            if tries < TRIES_MAX && answer.as_ref().is_err_and(passes) {
                again.push(one);
                continue;
            }
            one.count(&shared, answer.map(|_| ()), tries);
            settled.push(one.slot);
        }
        Told { settled, again: Batch { jobs: again, tries, pause } }
    }
}

impl<Q: Queue> Unsettled<Q> {
    fn count(&self, shared: &Shared<Q>, answer: Result<()>, tries: u32) {
        let verdict = &self.settle.verdict;
        match answer {
            Ok(()) => shared.count(|totals| totals.taken(verdict)),
            // The answer to an earlier try may have been lost on its way.
            Err(error)
                if tries > 1 && error.code() == Code::NotFound && *verdict == Verdict::Finish =>
            {
                shared.count(|totals| totals.taken(verdict));
            }
            // Whom it was left to was quicker.
            Err(error) if *verdict == Verdict::Leave && !is_passing(&error) => {
                shared.count(|totals| totals.left += 1);
            }
            Err(error) => self.refused(shared, &error),
        }
    }

    fn refused(&self, shared: &Shared<Q>, error: &Error) {
        shared.count(|totals| totals.refused(error));
        let (topic, id, attempt) = self.attempt.names();
        match error.code() {
            Code::LeaseLost => {
                tracing::warn!(%topic, %id, attempt, "the lease ran out before the work was done");
            }
            // Cancelled while it ran: the canceller knows.
            Code::NotFound => {}
            _ => tracing::error!(%topic, %id, attempt, %error, "the outcome could not be stored"),
        }
    }
}

/// Tries until it is done, refused for good, or tried [`TRIES_MAX`] times.
///
/// A refusal comes with whether to try again.
pub(super) async fn persist<T, Fut>(mut once: impl FnMut() -> Fut) -> Result<T>
where
    Fut: Future<Output = Result<T, (bool, Error)>>,
{
    let (mut tries, mut pause) = (0, Duration::ZERO);
    loop {
        tries += 1;
        match once().await {
            Ok(done) => return Ok(done),
            Err((true, _)) if tries < TRIES_MAX => pause = longer(pause),
            Err((_, error)) => return Err(error),
        }
        tokio::time::sleep(pause).await;
    }
}

/// The pause after a pause that did not help.
pub(super) fn longer(pause: Duration) -> Duration {
    (pause * 2).clamp(PAUSE_FIRST, PAUSE_MAX)
}

/// Whether it is worth trying again a little later.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(error.code(), Code::Unavailable | Code::Overloaded)
}
