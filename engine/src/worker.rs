//! Who does the work: a [`Worker`] takes a job and answers an [`Outcome`]; a [`Runner`] pops,
//! calls the workers and settles. Handlers of library users and push sinks alike are workers.

mod attempt;
mod crew;
mod destinations;
mod dispatch;
mod lanes;
mod latency;
mod runner;
mod settle;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::history::Report;
use crate::queue::{Delivery, Settle, Verdict};
use lanes::Word;

pub use crew::CONCURRENCY_DEFAULT;
pub use destinations::{
    DESTINATIONS_MAX, DestinationInfo, DestinationState, FAILED_MAX, FailedPush, Percentiles,
};
pub use lanes::Limits;
pub use runner::{Drained, Hire, Runner, Totals};

/// Does the work of a job, one attempt at a time. A closure that takes a [`Delivery`] is one.
///
/// ```
/// use linger::worker::{Outcome, Worker, json};
/// use linger::Delivery;
///
/// fn takes(_: impl Worker) {}
///
/// // An error of any type ends the attempt as failed, with its text.
/// takes(|job: Delivery| async move {
///     let order: u64 = job.id().as_str().parse()?;
///     println!("closing order {order}");
///     Ok(())
/// });
/// // Or say more than "done" and "failed".
/// takes(|job: Delivery| async move {
///     if job.job.attempt < 3 { Outcome::again() } else { Outcome::done() }
/// });
/// // Or take the body in a type of your own.
/// takes(json(|order: u64, _job: Delivery| async move {
///     println!("closing order {order}");
///     Ok(())
/// }));
/// ```
pub trait Worker: Send + Sync + 'static {
    /// Makes one attempt. It is dropped where it waits if the runner must end before it does.
    fn work(&self, job: Delivery) -> impl Future<Output = Outcome> + Send;

    /// Whether this job is better worked on together with others, by [`Worker::work_all`]. Asked by
    /// runners that push.
    fn gathers(&self, _job: &Delivery) -> bool {
        false
    }

    /// Makes one attempt at each of these jobs, which have topic, target and time in common, and tells
    /// what came of each, by its place among them, as soon as it is known: that counts though the others
    /// may take too long.
    ///
    /// Unless it is written anew it works on one after the other, within the time of one.
    fn work_all(
        &self,
        jobs: Vec<Delivery>,
        tell: &mut Tell<'_>,
    ) -> impl Future<Output = ()> + Send {
        async {
            for (at, job) in jobs.into_iter().enumerate() {
                tell(at, self.work(job).await);
            }
        }
    }
}

/// Hears what came of a job, by its place among those that are worked on together.
pub type Tell<'a> = dyn FnMut(usize, Outcome) + Send + 'a;

impl<F, Fut> Worker for F
where
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Into<Outcome>> + Send,
{
    async fn work(&self, job: Delivery) -> Outcome {
        self(job).await.into()
    }
}

/// A worker that takes the body, read as JSON, in a type of its own.
///
/// A body that does not read as that type is a failed attempt whose error says why.
pub fn json<T, F, Fut>(handler: F) -> impl Worker
where
    T: DeserializeOwned + 'static,
    F: Fn(T, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Into<Outcome>> + Send + 'static,
{
    move |job: Delivery| {
        let begun = job.json().map(|body| handler(body, job));
        async move {
            match begun {
                Ok(work) => work.await.into(),
                Err(wrong) => Outcome::failed(wrong),
            }
        }
    }
}

/// How an attempt ended.
///
/// ```
/// use linger::time::MINUTE;
/// use linger::{Delivery, Outcome};
///
/// async fn ask(job: Delivery) -> Outcome {
///     match job.body().as_str() {
///         Some("paid") => Outcome::done(),
///         Some("pending") => Outcome::again(),
///         Some("busy") => Outcome::failed("the provider is busy").retry_in(MINUTE),
///         _ => Outcome::dead("this body will never be understood"),
///     }
/// }
/// # fn takes(_: impl linger::worker::Worker) {}
/// # takes(ask);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    verdict: Verdict,
    report: Option<Report>,
    /// Whether the destination is at fault.
    down: bool,
}

impl Outcome {
    /// The job is done.
    pub fn done() -> Outcome {
        Outcome::new(Verdict::Finish)
    }

    /// The attempt failed: again at the next step, if the job has attempts left.
    pub fn failed(error: impl fmt::Display) -> Outcome {
        Outcome::new(Verdict::Fail { error: text(error), retry_in: None })
    }

    /// The attempt failed, and not for the job's sake: where it was to go cannot be reached, or is
    /// broken. After several in a row nothing more is sent there for a while.
    pub fn down(error: impl fmt::Display) -> Outcome {
        Outcome { down: true, ..Outcome::failed(error) }
    }

    /// Not yet: again at the next step. Uses an attempt, but is no failure.
    pub fn again() -> Outcome {
        Outcome::new(Verdict::Again { retry_in: None })
    }

    /// Gives the job back, not to be handed out before `delay` is over. Uses no attempt.
    pub fn release(delay: Duration) -> Outcome {
        Outcome::new(Verdict::Release { delay, priority: None })
    }

    /// Not begun, for want of anyone who would take it: as if it had not been handed out.
    ///
    /// A runner that pushes takes no more jobs for the same destination until
    /// [`Runner::reopen`].
    pub fn not_now() -> Outcome {
        Outcome::new(Verdict::Recall)
    }

    /// Puts the job on the dead shelf at once: no further attempt would help.
    pub fn dead(error: impl fmt::Display) -> Outcome {
        Outcome::new(Verdict::Bury { error: Some(text(error)), priority: None })
    }

    /// Leaves the job reserved, for someone else to settle with the lease before ttr, counted from
    /// now, runs out.
    pub fn leave() -> Outcome {
        Outcome::new(Verdict::Leave)
    }

    /// [`Outcome::done`], or [`Outcome::failed`] with the error's text.
    pub fn of<E: fmt::Display>(result: Result<(), E>) -> Outcome {
        match result {
            Ok(()) => Outcome::done(),
            Err(error) => Outcome::failed(error),
        }
    }

    /// After a failure or "not yet", waits this long instead of the next step.
    pub fn retry_in(mut self, wait: Duration) -> Outcome {
        if let Verdict::Fail { retry_in, .. } | Verdict::Again { retry_in } = &mut self.verdict {
            *retry_in = Some(wait);
        }
        self
    }

    /// Adds what the receiver answered, for the job's history.
    pub fn report(mut self, report: Report) -> Outcome {
        self.report = Some(report);
        self
    }

    /// Whether the destination is at fault.
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// What went wrong, if something did.
    pub fn error(&self) -> Option<&Arc<str>> {
        match &self.verdict {
            Verdict::Fail { error, .. } => Some(error),
            Verdict::Bury { error, .. } => error.as_ref(),
            _ => None,
        }
    }

    /// The same, with what went wrong told otherwise.
    pub fn in_words(mut self, words: impl FnOnce(&str) -> String) -> Outcome {
        if let Verdict::Fail { error, .. } | Verdict::Bury { error: Some(error), .. } =
            &mut self.verdict
        {
            *error = words(error).into();
        }
        self
    }

    /// What to tell the store about this delivery.
    pub fn settle(self, job: &Delivery) -> Settle {
        Settle { report: self.report, ..Settle::delivery(job, self.verdict) }
    }

    fn new(verdict: Verdict) -> Outcome {
        Outcome { verdict, report: None, down: false }
    }

    /// What it says of where the job went.
    fn word(&self) -> Word {
        match &self.verdict {
            Verdict::Recall => Word::Nobody,
            _ if self.down => Word::Down,
            _ => Word::Up,
        }
    }

    /// How far from done it is.
    fn badness(&self) -> u8 {
        match &self.verdict {
            Verdict::Finish | Verdict::Touch { .. } => 0,
            Verdict::Leave => 1,
            Verdict::Recall => 2,
            Verdict::Release { .. } => 3,
            Verdict::Again { .. } => 4,
            Verdict::Fail { .. } => 5,
            Verdict::Bury { .. } => 6,
        }
    }
}

impl From<Result<(), Failure>> for Outcome {
    fn from(result: Result<(), Failure>) -> Outcome {
        result.map(|()| Outcome::done()).into()
    }
}

impl From<Result<Outcome, Failure>> for Outcome {
    fn from(result: Result<Outcome, Failure>) -> Outcome {
        result.unwrap_or_else(|Failure(error)| Outcome::failed(error))
    }
}

/// Why an attempt failed, as text: what `?` makes of any error in a handler.
///
/// The one error a closure may answer, so that a plain `Ok(())` needs no type. It is made from
/// whatever can be displayed, and so cannot be displayed itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(Arc<str>);

impl<E: fmt::Display> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(text(error))
    }
}

fn text(error: impl fmt::Display) -> Arc<str> {
    error.to_string().into()
}

/// A worker behind a pointer, since the trait's own futures have no one type.
trait Boxed: Send + Sync {
    fn work_boxed(&self, job: Delivery) -> Working<'_>;

    fn gathers(&self, job: &Delivery) -> bool;

    fn work_all_boxed<'a>(&'a self, jobs: Vec<Delivery>, tell: &'a mut Tell<'_>)
    -> Working<'a, ()>;
}

type Working<'a, T = Outcome> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<W: Worker> Boxed for W {
    fn work_boxed(&self, job: Delivery) -> Working<'_> {
        // A block of its own, so that a panic before the first await is met when it is polled.
        Box::pin(async move { self.work(job).await })
    }

    fn gathers(&self, job: &Delivery) -> bool {
        Worker::gathers(self, job)
    }

    fn work_all_boxed<'a>(
        &'a self,
        jobs: Vec<Delivery>,
        tell: &'a mut Tell<'_>,
    ) -> Working<'a, ()> {
        Box::pin(async move { self.work_all(jobs, tell).await })
    }
}
