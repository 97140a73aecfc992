//! One attempt: the handlers are called, and the lease is kept.

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
use super::settle::is_passing;
use super::{Outcome, Working};
use crate::dice::Lease;
use crate::error::Result;
use crate::history::{ERROR_BYTES_MAX, clipped};
use crate::job::{Destination, Id, Ttr};
use crate::queue::{Changed, Delivery, Key, Lane, Queue, Settle, Verdict};
use crate::time::{Now, Tick, format_duration};
use crate::topic::Topic;

/// A lease is touched this often in its length, so that one touch may fail.
const TOUCHES_PER_TTR: u32 = 3;
const TOUCH_EVERY_MIN: Duration = Duration::from_millis(1);

/// An attempt whose handlers are done with it.
pub(super) struct Ended<Q> {
    attempt: Attempt<Q>,
    outcome: Outcome,
    at: Now,
}

/// What a task ends with: those of its attempts that it has not told of before, by their places.
pub(super) type Last<Q> = Vec<(usize, Ended<Q>)>;

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

impl<Q: Queue> Ended<Q> {
    /// Lets go of where the job was pushed to, though the store may take a moment to know; answers
    /// what to tell it.
    pub(super) fn arrived(self) -> (Attempt<Q>, Settle) {
        let Ended { mut attempt, outcome, at } = self;
        if let Some(course) = attempt.course.take() {
            course.ended(&outcome, &attempt.id, attempt.number, at);
        }
        let settle = Settle { report: outcome.report, ..attempt.settling(outcome.verdict) };
        (attempt, settle)
    }
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

    /// Calls all handlers, and answers the worst of their outcomes.
    pub(super) async fn run(self, job: Delivery, handlers: Arc<[Arc<Handler>]>) -> Last<Q> {
        let working = self.work_of(job, &handlers);
        let outcome = match self.shared.lane {
            Lane::Pull => working.await,
            Lane::Push => in_time(self.within, working).await.unwrap_or_else(|late| late),
        };
        let at = self.shared.queue.clock().now();
        vec![(0, Ended { at, attempt: self, outcome })]
    }

    /// Has a handler work on several jobs at once, which may take equally long. What it tells of is
    /// passed on at once; the others are answered with their places when it is over.
    pub(super) async fn run_all(
        attempts: Vec<Attempt<Q>>,
        jobs: Vec<Delivery>,
        handler: Arc<Handler>,
        mut known: impl FnMut(usize, Ended<Q>) + Send,
    ) -> Last<Q> {
        let (within, shared) = (attempts[0].within, attempts[0].shared.clone());
        let mut attempts: Vec<_> = attempts.into_iter().map(Some).collect();
        let mut tell = |at: usize, outcome| {
            // Of each once.
            if let Some(attempt) = attempts.get_mut(at).and_then(Option::take) {
                known(at, Ended { at: shared.queue.clock().now(), attempt, outcome });
            }
        };
        let mut working = handler.worker.work_all_boxed(jobs, &mut tell);
        let caught = poll_fn(|context| poll_caught(&mut working, context));
        let over = in_time(within, caught).await;
        drop(working);
        let outcome = match over {
            Ok(Ok(())) => Outcome::failed("its worker said nothing of it"),
            Ok(Err(panicked)) => panicked,
            Err(late) => late,
        };
        let now = shared.queue.clock().now();
        let left = attempts.into_iter().enumerate().filter_map(|(at, left)| Some((at, left?)));
        left.map(|(at, attempt)| (at, Ended { at: now, attempt, outcome: outcome.clone() }))
            .collect()
    }

    async fn work_of(&self, job: Delivery, handlers: &[Arc<Handler>]) -> Outcome {
        if let [only] = handlers {
            let mut work = self.work(only, job);
            let caught = poll_fn(|context| poll_caught(&mut work, context)).await;
            return caught.unwrap_or_else(|panicked| panicked);
        }
        // Side by side rather than in turn: they share one ttr, and none can keep the others waiting.
        let jobs = std::iter::repeat_n(job, handlers.len());
        worst(handlers.iter().zip(jobs).map(|(to, job)| self.work(to, job)).collect()).await
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

    /// Says of this attempt in a log: whose, which, and the how manieth.
    pub(super) fn names(&self) -> (&Topic, &Id, u32) {
        (&self.topic, &self.id, self.number)
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

    /// Whether the store may still take an outcome.
    pub(super) fn lease_may_last(&self) -> bool {
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
    over: bool,
}

impl<Q> Course<Q> {
    fn begin(shared: &Arc<Shared<Q>>, job: &Delivery, begun: Tick) -> Option<Course<Q>> {
        let target = job.target.as_ref().filter(|_| shared.lane == Lane::Push)?;
        let (topic, to) = (job.topic().clone(), Destination::of(job.topic(), target));
        shared.lanes().begin(&topic, &to);
        Some(Course { shared: shared.clone(), topic, to, begun, over: false })
    }
}

impl<Q: Queue> Course<Q> {
    /// Frees the slot by what came of it. The dispatcher calls, who need not be told.
    fn ended(mut self, outcome: &Outcome, id: &Id, attempt: u32, at: Now) {
        self.over = true;
        let (word, time) = (outcome.word(), at.time());
        let failed = outcome.error().map(|error| FailedPush {
            at: time,
            topic: self.topic.clone(),
            id: id.clone(),
            attempt,
            destination: self.to.clone(),
            error: clipped(error.clone(), ERROR_BYTES_MAX),
        });
        let took_us = at.tick.us_since(self.begun);
        let mut lanes = self.shared.lanes();
        lanes.end(&self.topic, &self.to, word, tokio::time::Instant::now());
        if word != Word::Nobody {
            lanes.past.hear(&self.to, Heard { at: time, took_us, failed });
        }
    }
}

impl<Q> Drop for Course<Q> {
    fn drop(&mut self) {
        if !self.over {
            let now = tokio::time::Instant::now();
            self.shared.change_lanes(|lanes| lanes.end(&self.topic, &self.to, Word::None, now));
        }
    }
}

/// A lease that runs out tells nobody why: a push ends before.
async fn in_time<T>(within: Duration, working: impl Future<Output = T>) -> Result<T, Outcome> {
    tokio::time::timeout(within, working)
        .await
        .map_err(|_| Outcome::down(format_args!("took longer than {}", format_duration(within))))
}

/// Runs them side by side and answers the worst outcome; of equals, the first to end.
async fn worst(mut working: Vec<Working<'_>>) -> Outcome {
    let mut worst: Option<Outcome> = None;
    poll_fn(|context| {
        working.retain_mut(|work| match poll_caught(work, context) {
            Poll::Pending => true,
            Poll::Ready(caught) => {
                let outcome = caught.unwrap_or_else(|panicked| panicked);
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
fn poll_caught<T>(
    work: &mut Working<'_, T>,
    context: &mut Context<'_>,
) -> Poll<Result<T, Outcome>> {
    // Safe to go on after: what panicked is dropped and never polled again.
    match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(Outcome::failed(panic_text(&*panic)))),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("handler panicked: {}", said.unwrap_or("no message"))
}
