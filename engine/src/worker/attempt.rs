//! One attempt: the handlers are called, the lease is kept, the outcome is told to the store.

use std::any::Any;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use super::crew::Handler;
use super::destinations::{FailedPush, Heard};
use super::dispatch::Shared;
use super::lanes::Word;
use super::{Outcome, Working};
use crate::dice::Lease;
use crate::error::{Code, Error, Result};
use crate::history::{ERROR_BYTES_MAX, clipped};
use crate::job::{Destination, Id, Ttr};
use crate::queue::{Changed, Delivery, Key, Lane, Queue, Settle, Verdict};
use crate::time::{SECOND, Tick, format_duration};
use crate::topic::Topic;

/// How often an outcome is told to a store that cannot take it.
const SETTLE_TRIES_MAX: u32 = 8;
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = SECOND.saturating_mul(5);
/// A lease is touched this often in its length, so that one touch may fail.
const TOUCHES_PER_TTR: u32 = 3;
const TOUCH_EVERY_MIN: Duration = Duration::from_millis(1);

/// What is kept of a job that was handed to us while its handlers have it.
pub(super) struct Attempt<Q> {
    shared: Arc<Shared<Q>>,
    key: Key,
    lease: Lease,
    topic: Topic,
    id: Id,
    number: u32,
    ttr: Ttr,
    /// How long a push may take.
    within: Duration,
    /// Where it is pushed to, if it is.
    course: Option<Course<Q>>,
    /// The tick at which the lease ends, a moment late at most: the store has the last word.
    ends_us: AtomicU64,
}

impl<Q: Queue> Attempt<Q> {
    pub(super) fn new(shared: Arc<Shared<Q>>, job: &Delivery) -> Attempt<Q> {
        let now = shared.queue.clock().now();
        let ends = now.tick.plus_ms(job.until.ms_since(now.time()));
        Attempt {
            key: job.key(),
            lease: job.lease,
            topic: job.topic().clone(),
            id: job.id().clone(),
            number: job.job.attempt,
            ttr: job.ttr,
            within: job.within,
            course: Course::begin(&shared, job, now.tick),
            ends_us: AtomicU64::new(ends.as_us()),
            shared,
        }
    }

    /// Calls all handlers and settles the job by the worst of their outcomes.
    pub(super) async fn run(mut self, job: Delivery, handlers: Arc<[Arc<Handler>]>) {
        // Side by side rather than in turn: they share one ttr, and none can keep the others waiting.
        let jobs = std::iter::repeat_n(job, handlers.len());
        let working =
            worst(handlers.iter().zip(jobs).map(|(to, job)| self.work(to, job)).collect());
        let outcome = match self.shared.lane {
            Lane::Pull => working.await,
            Lane::Push => self.in_time(working).await,
        };
        // Whoever was called is done with it, though the store may take a moment to know.
        if let Some(course) = self.course.take() {
            course.ended(&outcome, &self.id, self.number);
        }
        self.settle(outcome).await;
    }

    /// A lease that runs out tells nobody why: a push ends before.
    async fn in_time(&self, working: impl Future<Output = Outcome>) -> Outcome {
        let within = self.within;
        tokio::time::timeout(within, working).await.unwrap_or_else(|_| {
            Outcome::down(format_args!("took longer than {}", format_duration(within)))
        })
    }

    fn work<'a>(&'a self, handler: &'a Handler, job: Delivery) -> Working<'a> {
        let work = handler.worker.work_boxed(job);
        if handler.keep_alive { Box::pin(self.kept_alive(work)) } else { work }
    }

    async fn kept_alive(&self, work: Working<'_>) -> Outcome {
        tokio::select! {
            biased;
            outcome = work => outcome,
            never = self.touch() => match never {},
        }
    }

    /// Extends the lease again and again, until it is lost.
    async fn touch(&self) -> std::convert::Infallible {
        let every = (self.ttr.as_duration() / TOUCHES_PER_TTR).max(TOUCH_EVERY_MIN);
        loop {
            tokio::time::sleep(every).await;
            match self.tell(self.settling(Verdict::Touch { ttr: None })).await {
                Ok(_) => self.lease_renewed(),
                Err(error) if is_passing(&error) => {}
                Err(_) => pending().await,
            }
        }
    }

    async fn settle(&self, outcome: Outcome) {
        let settle = Settle { report: outcome.report, ..self.settling(outcome.verdict) };
        let finishes = settle.verdict == Verdict::Finish;
        let leaves = settle.verdict == Verdict::Leave;
        let mut tries = 0;
        let told = persist(|| {
            tries += 1;
            let told = self.tell(settle.clone());
            async move {
                told.await.map_err(|error| (is_passing(&error) && self.lease_may_last(), error))
            }
        });
        match told.await {
            Ok(_) => self.shared.count(|totals| totals.taken(&settle.verdict)),
            // The answer to an earlier try may have been lost on its way.
            Err(error) if tries > 1 && error.code() == Code::NotFound && finishes => {
                self.shared.count(|totals| totals.taken(&settle.verdict));
            }
            // Whom it was left to was quicker.
            Err(error) if leaves && !is_passing(&error) => {
                self.shared.count(|totals| totals.left += 1);
            }
            Err(error) => self.not_settled(&error),
        }
    }

    fn not_settled(&self, error: &Error) {
        self.shared.count(|totals| totals.refused(error));
        let (topic, id, attempt) = (&self.topic, &self.id, self.number);
        match error.code() {
            Code::LeaseLost => {
                tracing::warn!(%topic, %id, attempt, "the lease ran out before the work was done");
            }
            // Cancelled while it ran: the canceller knows.
            Code::NotFound => {}
            _ => tracing::error!(%topic, %id, attempt, %error, "the outcome could not be stored"),
        }
    }

    fn settling(&self, verdict: Verdict) -> Settle {
        Settle { lease: Some(self.lease), ..Settle::key(self.key.clone(), verdict) }
    }

    async fn tell(&self, settle: Settle) -> Result<Changed> {
        let mut answers = self.shared.queue.settle(vec![settle]).await?;
        answers.pop().expect("a store answers each settle")
    }

    fn lease_renewed(&self) {
        let ends = self.shared.queue.clock().now().tick.plus_ms(self.ttr.as_ms());
        self.ends_us.store(ends.as_us(), Ordering::Relaxed);
    }

    fn lease_may_last(&self) -> bool {
        let ends = Tick::from_us(self.ends_us.load(Ordering::Relaxed));
        self.shared.queue.clock().now().tick < ends
    }
}

/// A job on its way to a destination, which has a slot there. Dropped, it was cut off.
struct Course<Q> {
    shared: Arc<Shared<Q>>,
    topic: Topic,
    to: Destination,
    begun: Tick,
    word: Word,
    heard: Option<Heard>,
}

impl<Q> Course<Q> {
    fn begin(shared: &Arc<Shared<Q>>, job: &Delivery, begun: Tick) -> Option<Course<Q>> {
        let target = job.target.as_ref().filter(|_| shared.lane == Lane::Push)?;
        let (topic, to) = (job.topic().clone(), Destination::of(job.topic(), target));
        shared.lanes().begin(&topic, &to);
        let (word, heard) = (Word::None, None);
        Some(Course { shared: shared.clone(), topic, to, begun, word, heard })
    }
}

impl<Q: Queue> Course<Q> {
    fn ended(mut self, outcome: &Outcome, id: &Id, attempt: u32) {
        self.word = outcome.word();
        if self.word == Word::Nobody {
            return;
        }
        let now = self.shared.queue.clock().now();
        let at = now.time();
        let failed = outcome.error().map(|error| FailedPush {
            at,
            topic: self.topic.clone(),
            id: id.clone(),
            attempt,
            destination: self.to.clone(),
            error: clipped(error.clone(), ERROR_BYTES_MAX),
        });
        self.heard = Some(Heard { at, took_us: now.tick.us_since(self.begun), failed });
    }
}

impl<Q> Drop for Course<Q> {
    fn drop(&mut self) {
        let now = tokio::time::Instant::now();
        let heard = self.heard.take();
        self.shared.change_lanes(|lanes| {
            lanes.end(&self.topic, &self.to, self.word, now);
            if let Some(heard) = heard {
                lanes.past.hear(&self.to, heard);
            }
        });
    }
}

/// Tries until it is done, refused for good, or tried [`SETTLE_TRIES_MAX`] times.
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
            Err((true, _)) if tries < SETTLE_TRIES_MAX => pause = longer(pause),
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

/// Runs them side by side and answers the worst outcome; of equals, the first to end.
async fn worst(mut working: Vec<Working<'_>>) -> Outcome {
    let mut worst: Option<Outcome> = None;
    poll_fn(|context| {
        working.retain_mut(|work| match poll_caught(work, context) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                if worst.as_ref().is_none_or(|worst| worst.badness() < outcome.badness()) {
                    worst = Some(outcome);
                }
                false
            }
        });
        if working.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    worst.expect("a crew has at least one handler")
}

/// Polls a handler; a panic of it is a failed attempt.
fn poll_caught(work: &mut Working<'_>, context: &mut Context<'_>) -> Poll<Outcome> {
    // Safe to go on after: what panicked is dropped and never polled again.
    catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)))
        .unwrap_or_else(|panic| Poll::Ready(Outcome::failed(panic_text(&*panic))))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("handler panicked: {}", said.unwrap_or("no message"))
}
