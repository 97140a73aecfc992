//! A runner as its users know it: workers are hired, counted, and ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::crew::{Handler, Post};
use super::destinations::{DestinationInfo, FailedPush};
use super::dispatch::{Dispatcher, Phase, Shared};
use super::lanes::Limits;
use super::{Boxed, Worker};
use crate::error::{Code, Error, Result};
use crate::job::Destination;
use crate::queue::{Lane, Queue, Verdict};
use crate::time::DAY;
use crate::topic::Topic;

/// The longest a drain may be asked to take.
const DRAIN_MAX: Duration = DAY.saturating_mul(365);

/// Calls workers for the jobs of their topics, and settles the jobs by what they answer.
///
/// It starts with its first worker and ends with [`drain`](Runner::drain), [`stop`](Runner::stop),
/// or when it is dropped, which is a stop that nobody waits for. A job is leased only when there
/// is a free slot for it. One whose worker is cut off is given back with its attempt.
pub struct Runner<Q: Queue> {
    shared: Arc<Shared<Q>>,
}

/// What became of the jobs that were being worked on when a runner was told to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Their workers ended in time.
    pub ended: u64,
    /// Their workers were cut off, and they were given back.
    pub released: u64,
}

/// What a runner has counted since it was made: each attempt once, by its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Being worked on now.
    pub running: u64,
    /// Finished.
    pub done: u64,
    /// Failed, panics included.
    pub failed: u64,
    /// "Not yet".
    pub again: u64,
    /// Given back.
    pub released: u64,
    /// Put on the dead shelf by the worker.
    pub dead: u64,
    /// Left for someone else to settle.
    pub left: u64,
    /// Given back for want of anyone who would take them, as if they had not been handed out.
    pub unbegun: u64,
    /// The lease had run out: the job may be with someone else.
    pub lost: u64,
    /// The job was deleted meanwhile.
    pub gone: u64,
    /// The store did not take the outcome: the job is handed out again when its lease runs out.
    pub unsettled: u64,
}

/// A worker about to be started.
#[must_use = "a worker is not called before it is started"]
pub struct Hire<'a, Q: Queue> {
    runner: &'a Runner<Q>,
    post: Result<Post>,
    worker: Box<dyn Boxed>,
    slots: Option<usize>,
    keep_alive: bool,
}

impl<Q: Queue> Runner<Q> {
    /// A runner for jobs without a target, or for those with one.
    pub fn new(queue: Arc<Q>, lane: Lane) -> Runner<Q> {
        Runner { shared: Arc::new(Shared::new(queue, lane)) }
    }

    /// A worker for a topic. Several for one topic are all called, and must all succeed.
    ///
    /// They are called side by side, since they share the job's ttr, and the worst outcome
    /// counts: dead, failed, again, released, left, done.
    pub fn worker(&self, topic: &str, worker: impl Worker) -> Hire<'_, Q> {
        self.hire(topic.parse::<Topic>().map(Some), worker)
    }

    /// A worker for every topic, those to come included. Its slots are for all topics together.
    ///
    /// A runner serves topics by name or all of them, not both.
    pub fn worker_for_all(&self, worker: impl Worker) -> Hire<'_, Q> {
        self.hire(Ok(None), worker)
    }

    fn hire(&self, post: Result<Post>, worker: impl Worker) -> Hire<'_, Q> {
        Hire { runner: self, post, worker: Box::new(worker), slots: None, keep_alive: false }
    }

    /// Works on at most this many jobs at once over all topics: 256 unless set.
    pub fn concurrency(&self, slots: usize) -> Result<()> {
        self.shared.set_slots(check_slots(slots)?);
        Ok(())
    }

    /// How a runner that pushes goes about its destinations.
    pub fn set_limits(&self, limits: Limits) -> Result<()> {
        if limits.per_destination == 0 || limits.failures == 0 {
            let message = "a destination has room for 0 jobs or 0 failures; give at least 1";
            return Err(Error::invalid("limits", message));
        }
        self.shared.change_lanes(|lanes| lanes.set_limits(limits));
        Ok(())
    }

    /// Pushes to this destination again at once, if it was closed because of failures or because
    /// nobody was there.
    pub fn reopen(&self, destination: &Destination) {
        self.shared.change_lanes(|lanes| lanes.reopen(destination));
    }

    /// The destinations that are closed, until a probe succeeds.
    pub fn closed(&self) -> Vec<Destination> {
        self.shared.lanes().closed()
    }

    /// Where a runner that pushes has jobs under way to, where none may go, and where it pushed to
    /// lately, by name: those after `after`, at most `max`.
    ///
    /// Of those to which nothing is under way and that are open,
    /// [`DESTINATIONS_MAX`](super::DESTINATIONS_MAX) are remembered.
    pub fn destinations(&self, after: &str, max: usize) -> Vec<DestinationInfo> {
        let mut names = self.shared.lanes().destinations();
        names.retain(|name| name.as_str() > after);
        names.sort_unstable();
        names.dedup();
        names.truncate(max);
        let (now, wall) = (tokio::time::Instant::now(), self.shared.queue.clock().now().time());
        let lanes = self.shared.lanes();
        names.into_iter().map(|name| lanes.info(name, now, wall)).collect()
    }

    /// The latest attempts to push that failed, the newest first:
    /// [`FAILED_MAX`](super::FAILED_MAX) are remembered.
    pub fn failed_pushes(&self) -> Vec<FailedPush> {
        self.shared.lanes().past.failed()
    }

    /// What has been counted so far.
    pub fn totals(&self) -> Totals {
        let running = self.shared.crews().busy() as u64;
        Totals { running, ..*self.shared.totals() }
    }

    /// Takes no more jobs, and waits for the workers to end; after `within` they are cut off.
    ///
    /// A second call may only shorten the time. A runner that has ended starts no more workers.
    pub async fn drain(&self, within: Duration) -> Drained {
        self.shared.end_by(tokio::time::Instant::now() + within.min(DRAIN_MAX));
        self.shared.ended().await
    }

    /// Takes no more jobs, cuts the workers off, and gives their jobs back.
    pub async fn stop(&self) -> Drained {
        self.drain(Duration::ZERO).await
    }
}

impl Totals {
    /// Counts an attempt whose outcome the store took.
    pub(super) fn taken(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Finish => self.done += 1,
            Verdict::Fail { .. } => self.failed += 1,
            Verdict::Again { .. } => self.again += 1,
            Verdict::Release { .. } => self.released += 1,
            Verdict::Bury { .. } => self.dead += 1,
            Verdict::Leave => self.left += 1,
            Verdict::Recall => self.unbegun += 1,
            Verdict::Touch { .. } => {}
        }
    }

    /// Counts an attempt whose outcome the store did not take.
    pub(super) fn refused(&mut self, error: &Error) {
        match error.code() {
            Code::LeaseLost => self.lost += 1,
            Code::NotFound => self.gone += 1,
            _ => self.unsettled += 1,
        }
    }
}

impl<Q: Queue> Drop for Runner<Q> {
    fn drop(&mut self) {
        self.shared.end_by(tokio::time::Instant::now());
    }
}

impl<Q: Queue> fmt::Debug for Runner<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("totals", &self.totals()).finish_non_exhaustive()
    }
}

impl<Q: Queue> Hire<'_, Q> {
    /// Works on at most this many jobs of the topic at once: one unless set.
    ///
    /// Where several workers of a topic say so, the smallest number holds.
    pub fn concurrency(mut self, slots: usize) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Extends the lease for as long as this worker takes, every third of the job's ttr.
    ///
    /// Without, an attempt that takes longer than ttr loses its job: that is what ttr is for.
    pub fn keep_alive(mut self) -> Self {
        self.keep_alive = true;
        self
    }

    /// From now on the worker is called, for jobs that wait already too.
    ///
    /// Refused if the topic's name is not one, if the concurrency is 0, outside of a tokio runtime,
    /// and when the runner was told to end.
    pub fn start(self) -> Result<()> {
        let post = self.post?;
        let slots = self.slots.map(check_slots).transpose()?;
        let runtime = Handle::try_current().map_err(|cause| {
            let message = "a worker needs a tokio runtime; start it from inside one";
            Error::new(Code::Unavailable, message).because(cause)
        })?;
        let handler = Handler { worker: self.worker, keep_alive: self.keep_alive };
        let shared = &self.runner.shared;
        if shared.join(post, handler, slots)? == Phase::Idle {
            runtime.spawn(Dispatcher::new(shared.clone()).run());
        }
        Ok(())
    }
}

fn check_slots(slots: usize) -> Result<usize> {
    if slots == 0 {
        return Err(Error::invalid("concurrency", "concurrency is 0; give at least 1"));
    }
    Ok(slots)
}
