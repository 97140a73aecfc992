//! Pops jobs when there is a free slot for them, and starts and joins their attempts.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id as TaskId, JoinError, JoinSet};
use tokio::time::Instant;

use super::attempt::{Attempt, is_passing, longer, persist};
use super::crew::{Crews, Handler, Open, Post};
use super::runner::{Drained, Totals};
use crate::error::{Code, Error, Result};
use crate::machine::Owner;
use crate::queue::{Ask, Delivery, Lane, Queue, Settle, Terms, Verdict};
use crate::time::{MINUTE, SECOND};

/// How long a pop waits before it is asked anew.
const POP_WAIT: Duration = MINUTE;
/// How long handlers that were cut off have to let go; one that blocks its thread never does.
const CUT_OFF_WAIT: Duration = SECOND;

/// How far a runner is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Running,
    Draining { by: Instant },
    Ended(Drained),
}

/// What the runner, its dispatcher and its attempts have in common.
pub(super) struct Shared<Q> {
    pub(super) queue: Arc<Q>,
    lane: Lane,
    owner: Owner,
    crews: Mutex<Crews>,
    /// Also rung when the crews have changed.
    phase: watch::Sender<Phase>,
    totals: Mutex<Totals>,
}

impl<Q> Shared<Q> {
    pub(super) fn new(queue: Arc<Q>, lane: Lane) -> Shared<Q> {
        Shared {
            queue,
            lane,
            owner: Owner(uuid::Uuid::new_v4().as_u64_pair().0),
            crews: Mutex::new(Crews::new()),
            phase: watch::Sender::new(Phase::Idle),
            totals: Mutex::default(),
        }
    }

    /// Adds a handler to a runner that has not been told to end; answers the phase it was in.
    pub(super) fn join(&self, post: Post, handler: Handler, slots: Option<usize>) -> Result<Phase> {
        let mut joined = Err(Error::new(Code::Unavailable, "the runner has ended; make another"));
        self.phase.send_if_modified(|phase| {
            if let Phase::Idle | Phase::Running = *phase {
                joined = self.crews().join(post, handler, slots).map(|()| *phase);
            }
            if joined.is_ok() {
                *phase = Phase::Running;
            }
            joined.is_ok()
        });
        joined
    }

    pub(super) fn set_slots(&self, slots: usize) {
        self.crews().set_slots(slots);
        self.phase.send_modify(|_| ());
    }

    pub(super) fn end_by(&self, by: Instant) {
        self.phase.send_if_modified(|phase| {
            *phase = match *phase {
                Phase::Idle => Phase::Ended(Drained::default()),
                Phase::Running => Phase::Draining { by },
                Phase::Draining { by: earlier } => Phase::Draining { by: by.min(earlier) },
                ended => ended,
            };
            true
        });
    }

    /// Waits until the dispatcher has ended.
    pub(super) async fn ended(&self) -> Drained {
        let mut phase = self.phase.subscribe();
        loop {
            if let Phase::Ended(drained) = *phase.borrow_and_update() {
                return drained;
            }
            phase.changed().await.expect("the sender is ours");
        }
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Totals)) {
        count(&mut self.totals());
    }

    pub(super) fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().expect("nobody panics holding the totals")
    }

    pub(super) fn crews(&self) -> MutexGuard<'_, Crews> {
        self.crews.lock().expect("nobody panics holding the crews")
    }
}

/// The one task that pops, and that joins every attempt it has started.
pub(super) struct Dispatcher<Q: Queue> {
    shared: Arc<Shared<Q>>,
    phase: watch::Receiver<Phase>,
    attempts: JoinSet<()>,
    under_way: HashMap<TaskId, UnderWay>,
    /// How long to wait before the next pop, because the last one was refused.
    pause: Duration,
    drained: Drained,
}

/// A job that is being worked on: whose slot it has, and how to give it back.
struct UnderWay {
    post: Post,
    release: Settle,
}

impl<Q: Queue> Dispatcher<Q> {
    pub(super) fn new(shared: Arc<Shared<Q>>) -> Dispatcher<Q> {
        Dispatcher {
            phase: shared.phase.subscribe(),
            shared,
            attempts: JoinSet::new(),
            under_way: HashMap::new(),
            pause: Duration::ZERO,
            drained: Drained::default(),
        }
    }

    pub(super) async fn run(mut self) {
        while self.runs() {
            match self.pop().await {
                Some(Ok(jobs)) => {
                    self.pause = Duration::ZERO;
                    jobs.into_iter().for_each(|job| self.begin(job));
                }
                Some(Err(error)) => {
                    self.pause = longer(self.pause);
                    tracing::warn!(%error, pause = ?self.pause, "jobs could not be popped");
                }
                None => {}
            }
        }
        self.wait_for_workers().await;
        self.cut_off().await;
    }

    fn runs(&self) -> bool {
        *self.phase.borrow() == Phase::Running
    }

    /// Waits for jobs that have a free slot; none if what to ask for has changed meanwhile.
    async fn pop(&mut self) -> Option<Result<Vec<Delivery>>> {
        let open = self.shared.crews().open();
        let popping = popping(self.shared.clone(), open.as_ref(), self.pause);
        tokio::pin!(popping);
        loop {
            tokio::select! {
                biased;
                _ = self.phase.changed() => {}
                Some(ended) = self.attempts.join_next_with_id() => self.ended(ended),
                popped = &mut popping => return Some(popped),
            }
            if !self.runs() || !still_right(open.as_ref(), self.shared.crews().open()) {
                return None;
            }
        }
    }

    fn begin(&mut self, job: Delivery) {
        let (post, handlers) = self.shared.crews().take(job.topic());
        let released = Verdict::Release { delay: Duration::ZERO, priority: None };
        let release = Settle::delivery(&job, released);
        let attempt = Attempt::new(self.shared.clone(), job);
        let task = self.attempts.spawn(attempt.run(handlers));
        self.under_way.insert(task.id(), UnderWay { post, release });
    }

    /// Frees the slot of an attempt that has ended. One that was cut off stays under way.
    fn ended(&mut self, ended: Result<(TaskId, ()), JoinError>) {
        let task = match ended {
            Ok((task, ())) => task,
            Err(error) if error.is_cancelled() => return,
            Err(error) => {
                self.shared.count(|totals| totals.unsettled += 1);
                tracing::error!(%error, "an attempt broke off; its job's lease will run out");
                error.id()
            }
        };
        let under_way = self.under_way.remove(&task).expect("it was begun");
        self.shared.crews().give_back(&under_way.post);
        self.drained.ended += u64::from(!self.runs());
    }

    async fn wait_for_workers(&mut self) {
        loop {
            let Phase::Draining { by } = *self.phase.borrow_and_update() else { return };
            tokio::select! {
                biased;
                ended = self.attempts.join_next_with_id() => match ended {
                    Some(ended) => self.ended(ended),
                    None => return,
                },
                () = tokio::time::sleep_until(by) => return,
                _ = self.phase.changed() => {}
            }
        }
    }

    /// Ends what still runs and gives the jobs back.
    async fn cut_off(&mut self) {
        self.attempts.abort_all();
        let _ = tokio::time::timeout(CUT_OFF_WAIT, async {
            while let Some(ended) = self.attempts.join_next_with_id().await {
                self.ended(ended);
            }
        })
        .await;
        // By their leases, not by their owner: a job that a worker left stays as it is.
        let batch: Vec<Settle> =
            self.under_way.values().map(|under_way| under_way.release.clone()).collect();
        if batch.is_empty() {
            return;
        }
        let queue = &self.shared.queue;
        let told = persist(|| async {
            queue.settle(batch.clone()).await.map_err(|error| (is_passing(&error), error))
        });
        let answers = told.await.unwrap_or_else(|error| {
            let jobs = batch.len();
            tracing::error!(%error, jobs, "jobs that were cut off could not be given back");
            vec![Err(error); jobs]
        });
        let mut totals = self.shared.totals();
        for answer in answers {
            match answer {
                Ok(_) => {
                    totals.released += 1;
                    self.drained.released += 1;
                }
                Err(error) => totals.refused(&error),
            }
        }
    }
}

/// However the dispatcher ends, with its runtime even, the runner has ended then.
impl<Q: Queue> Drop for Dispatcher<Q> {
    fn drop(&mut self) {
        // A handler may hold the last of the runner, and dropping that takes the locks.
        let handlers = self.shared.crews().dismiss();
        drop(handlers);
        self.shared.phase.send_replace(Phase::Ended(self.drained));
    }
}

/// Whether a pop for `asked` may go on waiting: for fewer jobs than would fit by now is fine.
fn still_right(asked: Option<&Open>, open: Option<Open>) -> bool {
    match (asked, open) {
        (None, None) => true,
        (Some(asked), Some(open)) => asked.from == open.from && asked.max <= open.max,
        _ => false,
    }
}

async fn popping<Q: Queue>(
    shared: Arc<Shared<Q>>,
    open: Option<&Open>,
    pause: Duration,
) -> Result<Vec<Delivery>> {
    let Some(open) = open else { return pending().await };
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    let ask = Ask {
        from: open.from.clone(),
        lane: shared.lane,
        max: open.max,
        wait: POP_WAIT,
        terms: Terms { ttr: None, owner: Some(shared.owner) },
    };
    shared.queue.pop(ask).await
}
