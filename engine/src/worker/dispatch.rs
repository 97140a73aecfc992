//! Pops jobs when there is a free slot for them, and starts and joins their attempts.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{Id as TaskId, JoinError, JoinSet};
use tokio::time::Instant;

use super::attempt::{Attempt, Ended, Last};
use super::crew::{ALL_DEFAULT, Crews, Handler, Open, Post};
use super::lanes::Lanes;
use super::runner::{Drained, Totals};
use super::settle::{Batch, Told, Unsettled, is_passing, longer, persist};
use crate::error::{Code, Error, Result};
use crate::machine::Owner;
use crate::queue::{Ask, Delivery, Lane, Queue, Settle, Terms, Verdict};
use crate::time::{MINUTE, SECOND};

/// How long a pop waits before it is asked anew.
const POP_WAIT: Duration = MINUTE;
/// How much longer the lease of a push lasts than its attempt may take.
const GRACE: Duration = SECOND.saturating_mul(5);
/// The most outcomes that the store is told in one call.
const SETTLES_MAX: usize = 1000;
/// How long what has ended waits for a call that tells of others.
const GATHER_TIME: Duration = Duration::from_millis(5);
/// How long a push that has ended waits after such a call: nobody waits for it, since there is room at
/// its destination already, and every call is a sync.
const GATHER_PUSHES_TIME: Duration = Duration::from_millis(2);
/// How often others are let go first before the slots are filled that they leave.
const GATHER_MAX: usize = 4;
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
    pub(super) lane: Lane,
    owner: Owner,
    crews: Mutex<Crews>,
    lanes: Mutex<Lanes>,
    /// Also rung when the crews or lanes have changed.
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
            lanes: Mutex::new(Lanes::new(ALL_DEFAULT)),
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
        self.change_lanes(|lanes| lanes.set_slots(slots));
    }

    /// Changes the lanes, and rings if that makes a difference to those who wait.
    pub(super) fn change_lanes(&self, change: impl FnOnce(&mut Lanes)) {
        let differs = {
            let mut lanes = self.lanes();
            let before = lanes.changes();
            change(&mut lanes);
            lanes.changes() != before
        };
        if differs {
            self.phase.send_modify(|_| ());
        }
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

    pub(super) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().expect("nobody panics holding the lanes")
    }

    /// What there are free slots for, and room where that is limited.
    fn wanted(&self) -> Option<Wanted> {
        let open = self.crews().open()?;
        let lanes = (self.lane == Lane::Push).then(|| self.lanes().changes());
        Some(Wanted { open, lanes })
    }
}

/// The one task that pops, and that joins every attempt it has started.
pub(super) struct Dispatcher<Q: Queue> {
    shared: Arc<Shared<Q>>,
    phase: watch::Receiver<Phase>,
    attempts: JoinSet<Last<Q>>,
    /// Where those are told of that have ended before others of their task, and where that is heard.
    early: mpsc::UnboundedSender<(Slot, Ended<Q>)>,
    heard: mpsc::UnboundedReceiver<(Slot, Ended<Q>)>,
    /// Those that have ended, which the store is not told of yet.
    unsettled: Vec<Unsettled<Q>>,
    /// The calls that tell it, and of which attempts each does.
    calls: JoinSet<Told<Q>>,
    /// The latest that tells for the first time, and since when. What ends after it began waits for a
    /// moment, so that a busy store is told of more in fewer calls.
    first: Option<(TaskId, Instant)>,
    called_for: HashMap<TaskId, Vec<Slot>>,
    under_way: HashMap<Slot, UnderWay>,
    /// How long to wait before the next pop, because the last one was refused.
    pause: Duration,
    drained: Drained,
}

/// A job that is being worked on: by which task, and the how manieth of it.
pub(super) type Slot = (TaskId, usize);

/// Whose slot it has, and how to give it back.
struct UnderWay {
    post: Post,
    release: Settle,
}

/// Jobs that a handler works on together.
struct Group<Q> {
    handler: Arc<Handler>,
    jobs: Vec<Delivery>,
    attempts: Vec<Attempt<Q>>,
    under_way: Vec<UnderWay>,
}

impl<Q> Group<Q> {
    fn of(handler: &Arc<Handler>, job: Delivery, attempt: Attempt<Q>, under_way: UnderWay) -> Self {
        Group {
            handler: handler.clone(),
            jobs: vec![job],
            attempts: vec![attempt],
            under_way: vec![under_way],
        }
    }

    fn push(&mut self, job: Delivery, attempt: Attempt<Q>, under_way: UnderWay) {
        self.jobs.push(job);
        self.attempts.push(attempt);
        self.under_way.push(under_way);
    }

    fn fits(&self, job: &Delivery, most: usize) -> bool {
        let first = &self.jobs[0];
        self.jobs.len() < most
            && (first.topic(), &first.target, first.within)
                == (job.topic(), &job.target, job.within)
    }
}

/// What a pop asks for.
struct Wanted {
    open: Open,
    /// How the lanes were, for a push.
    lanes: Option<u64>,
}

impl<Q: Queue> Dispatcher<Q> {
    pub(super) fn new(shared: Arc<Shared<Q>>) -> Dispatcher<Q> {
        let (early, heard) = mpsc::unbounded_channel();
        Dispatcher {
            phase: shared.phase.subscribe(),
            shared,
            attempts: JoinSet::new(),
            early,
            heard,
            unsettled: Vec::new(),
            calls: JoinSet::new(),
            first: None,
            called_for: HashMap::new(),
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
                    self.begin_all(jobs);
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
        let wanted = self.shared.wanted();
        let next_probe = self.shared.lanes().next_probe(tokio::time::Instant::now());
        let popping = popping(self.shared.clone(), wanted.as_ref(), self.pause);
        tokio::pin!(popping);
        loop {
            let settles_at = self.settles_at();
            tokio::select! {
                biased;
                _ = self.phase.changed() => {}
                Some((slot, ended)) = self.heard.recv() => self.over(slot, ended),
                Some(ended) = self.attempts.join_next_with_id() => self.ended(ended),
                Some(told) = self.calls.join_next_with_id() => self.told(told),
                () = at(settles_at) => {}
                popped = &mut popping => return Some(popped),
                () = at(next_probe) => return None,
            }
            self.let_others_end().await;
            self.settle();
            if !self.runs() || !still_right(wanted.as_ref(), self.shared.wanted().as_ref()) {
                return None;
            }
        }
    }

    fn begin_all(&mut self, jobs: Vec<Delivery>) {
        let mut groups: Vec<Group<Q>> = Vec::new();
        let together = self.shared.lanes().together();
        for job in jobs {
            let (post, handlers) = self.shared.crews().take(job.topic());
            let released = Verdict::Release { delay: Duration::ZERO, priority: None };
            let release = Settle::delivery(&job, released);
            let (under_way, attempt) =
                (UnderWay { post, release }, Attempt::new(self.shared.clone(), &job));
            match handlers.as_ref() {
                [handler] if self.shared.lane == Lane::Push && handler.gathers(&job) => {
                    match groups.iter_mut().rfind(|group| group.fits(&job, together)) {
                        Some(group) => group.push(job, attempt, under_way),
                        None => groups.push(Group::of(handler, job, attempt, under_way)),
                    }
                }
                _ => self.spawn(attempt.run(job, handlers), [under_way]),
            }
        }
        for Group { handler, jobs, attempts, under_way } in groups {
            let early = self.early.clone();
            let known = move |at, ended| {
                // Whoever hears it lives as long as the task.
                let _ = early.send(((tokio::task::id(), at), ended));
            };
            self.spawn(Attempt::run_all(attempts, jobs, handler, known), under_way);
        }
    }

    fn spawn(
        &mut self,
        work: impl Future<Output = Last<Q>> + Send + 'static,
        under_way: impl IntoIterator<Item = UnderWay>,
    ) {
        // In a box, so that the task itself is small: those of the runtime are aligned to cache lines,
        // which allocators find hard to serve for odd sizes.
        let task = self.attempts.spawn(Box::pin(work)).id();
        let slots = under_way.into_iter().enumerate();
        self.under_way.extend(slots.map(|(at, under_way)| ((task, at), under_way)));
    }

    /// Those who are about to end go first, so that one pop fills what many have left, and one call
    /// settles them.
    async fn let_others_end(&mut self) {
        for _ in 0..GATHER_MAX {
            tokio::task::yield_now().await;
            let before = self.unsettled.len();
            self.hear();
            while let Some(ended) = self.attempts.try_join_next_with_id() {
                self.ended(ended);
            }
            if self.unsettled.len() == before {
                break;
            }
        }
        self.phase.mark_unchanged();
        while let Some(told) = self.calls.try_join_next_with_id() {
            self.told(told);
        }
    }

    /// Takes the outcomes that a task ends with. One that was cut off stays under way.
    fn ended(&mut self, ended: Result<(TaskId, Last<Q>), JoinError>) {
        match ended {
            Ok((task, ended)) => {
                ended.into_iter().for_each(|(at, ended)| self.over((task, at), ended));
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                self.hear();
                let known = self.called_for.values().flatten();
                let known: Vec<Slot> =
                    known.copied().chain(self.unsettled.iter().map(|one| one.slot)).collect();
                let slots = self.under_way.keys().filter(|slot| slot.0 == error.id());
                let slots: Vec<Slot> =
                    slots.filter(|slot| !known.contains(slot)).copied().collect();
                slots.into_iter().for_each(|slot| self.broke_off(slot, &error));
            }
        }
    }

    /// Takes what is known before the task that knows it ends.
    fn hear(&mut self) {
        while let Ok((slot, ended)) = self.heard.try_recv() {
            self.over(slot, ended);
        }
    }

    fn over(&mut self, slot: Slot, ended: Ended<Q>) {
        let (attempt, settle) = ended.arrived();
        self.unsettled.push(Unsettled { slot, attempt, settle });
    }

    /// Has the store told what has ended, unless that is to wait for more.
    fn settle(&mut self) {
        if self.settles_at().is_none_or(|at| at <= tokio::time::Instant::now()) {
            self.settle_now();
        }
    }

    fn settle_now(&mut self) {
        while !self.unsettled.is_empty() {
            let rest = self.unsettled.split_off(self.unsettled.len().min(SETTLES_MAX));
            let jobs = std::mem::replace(&mut self.unsettled, rest);
            let call = self.call(Batch::new(jobs));
            self.first = Some((call, tokio::time::Instant::now()));
        }
    }

    /// When what has ended is told at the latest, if it waits for a call.
    fn settles_at(&self) -> Option<Instant> {
        let (_, since) = self.first.filter(|_| !self.unsettled.is_empty())?;
        let time = match self.shared.lane {
            Lane::Pull => GATHER_TIME,
            Lane::Push => GATHER_PUSHES_TIME,
        };
        Some(since + time)
    }

    fn call(&mut self, batch: Batch<Q>) -> TaskId {
        let of = batch.jobs.iter().map(|one| one.slot).collect();
        let call = self.calls.spawn(batch.tell(self.shared.clone())).id();
        self.called_for.insert(call, of);
        call
    }

    /// Frees the slots of attempts that the store was told of.
    fn told(&mut self, told: Result<(TaskId, Told<Q>), JoinError>) {
        let call = told.as_ref().map_or_else(JoinError::id, |(call, _)| *call);
        self.first.take_if(|(first, _)| *first == call && self.shared.lane == Lane::Pull);
        match told {
            Ok((_, Told { settled, again })) => {
                self.called_for.remove(&call);
                settled.into_iter().for_each(|slot| self.free(slot));
                if !again.jobs.is_empty() {
                    self.call(again);
                }
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                for slot in self.called_for.remove(&call).unwrap_or_default() {
                    self.broke_off(slot, &error);
                }
            }
        }
    }

    fn broke_off(&mut self, slot: Slot, error: &JoinError) {
        self.shared.count(|totals| totals.unsettled += 1);
        tracing::error!(%error, "an attempt broke off; its job's lease will run out");
        self.free(slot);
    }

    fn free(&mut self, slot: Slot) {
        let under_way = self.under_way.remove(&slot).expect("it was begun");
        self.shared.crews().give_back(&under_way.post);
        self.drained.ended += u64::from(!self.runs());
    }

    async fn wait_for_workers(&mut self) {
        loop {
            self.settle();
            let Phase::Draining { by } = *self.phase.borrow_and_update() else { return };
            if self.under_way.is_empty() {
                return;
            }
            let settles_at = self.settles_at();
            tokio::select! {
                biased;
                Some((slot, ended)) = self.heard.recv() => self.over(slot, ended),
                Some(ended) = self.attempts.join_next_with_id() => self.ended(ended),
                Some(told) = self.calls.join_next_with_id() => self.told(told),
                () = at(settles_at) => {}
                () = tokio::time::sleep_until(by) => return,
                _ = self.phase.changed() => {}
            }
        }
    }

    /// Ends what still runs and gives the jobs back. What has ended is told as it ended.
    async fn cut_off(&mut self) {
        self.attempts.abort_all();
        let _ = tokio::time::timeout(CUT_OFF_WAIT, async {
            loop {
                self.hear();
                self.settle_now();
                tokio::select! {
                    biased;
                    Some(ended) = self.attempts.join_next_with_id() => self.ended(ended),
                    Some(told) = self.calls.join_next() => {
                        // Once is enough now: what is to be told again is given back.
                        let settled = told.map(|told| told.settled).unwrap_or_default();
                        settled.into_iter().for_each(|slot| self.free(slot));
                    }
                    else => return,
                }
            }
        })
        .await;
        self.calls.abort_all();
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
fn still_right(asked: Option<&Wanted>, now: Option<&Wanted>) -> bool {
    match (asked, now) {
        (None, None) => true,
        (Some(asked), Some(now)) => {
            asked.open.from == now.open.from
                && asked.open.max <= now.open.max
                && asked.lanes == now.lanes
        }
        _ => false,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => pending().await,
    }
}

async fn popping<Q: Queue>(
    shared: Arc<Shared<Q>>,
    wanted: Option<&Wanted>,
    pause: Duration,
) -> Result<Vec<Delivery>> {
    let Some(Wanted { open, lanes }) = wanted else { return pending().await };
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    let ask = Ask {
        from: open.from.clone(),
        lane: shared.lane,
        max: open.max,
        wait: POP_WAIT,
        room: lanes.map(|_| Arc::new(shared.lanes().room(tokio::time::Instant::now()))),
        terms: Terms { ttr: None, owner: Some(shared.owner), grace: lanes.map(|_| GRACE) },
    };
    shared.queue.pop(ask).await
}
