//! One store under comparison: does what it is told and answers in words common to all stores.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use super::op::{ChangeOp, ExpectOp, KvOp, Op, Proof, SettleOp, Who};
use crate::dice::Lease;
use crate::error::{Code, Error, Result};
use crate::job::{Id, NewJob};
use crate::queue::{
    Added, Ask, Change, Changed, Cursor, Delivery, Expect, How, JobInfo, Key, KvEntry, KvQuery,
    KvWrite, Query, Queue, Settle, Standing, TopicInfo, Was,
};
use crate::testkit::SimClock;
use crate::topic::Topic;

/// Far more pages than any walk has: one that goes round in circles is found out.
pub(super) const PAGES_MAX: usize = 1000;

/// One store, its clock, and what its numbers and leases are called here.
pub(super) struct Side<Q> {
    pub(super) queue: Arc<Q>,
    pub(super) clock: Arc<SimClock>,
    /// The pops that wait, oldest first.
    pub(super) pops: Vec<Pending>,
    /// The query whose pages are being turned, and where the next one starts.
    pub(super) walk: Option<(Query, Cursor)>,
    names: Names,
}

/// What a call answered, with numbers and leases replaced by names common to all stores.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Added(Result<Vec<Result<Added>>>),
    Job(Result<Box<JobInfo>>),
    Jobs(Result<Vec<JobInfo>>),
    Popped(Result<Vec<Delivery>>),
    Waits,
    Reserved(Result<Box<Delivery>>),
    Changed(Result<Vec<Result<Changed>>>),
    Count(Result<u64>),
    Counts(Result<Vec<u64>>),
    Errors(Result<Vec<(Arc<str>, u64)>>),
    Topics(Result<Vec<TopicInfo>>),
    Entries(Result<Vec<KvEntry>>),
    HungUp(Unseen),
    Done,
}

/// What a waiting pop was told that it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unseen {
    Nothing,
    Something,
}

impl Answer {
    /// The codes of what was refused.
    pub(super) fn refusals(&self) -> Vec<Code> {
        fn codes<T>(all: &Result<Vec<Result<T>>>) -> Vec<Code> {
            let each = |all: &Vec<Result<T>>| all.iter().filter_map(code).collect();
            all.as_ref().map_or_else(|error| vec![error.code()], each)
        }
        fn code<T>(one: &Result<T>) -> Option<Code> {
            one.as_ref().err().map(Error::code)
        }
        let one = match self {
            Answer::Added(all) => return codes(all),
            Answer::Changed(all) => return codes(all),
            Answer::Job(one) => code(one),
            Answer::Jobs(one) => code(one),
            Answer::Popped(one) => code(one),
            Answer::Reserved(one) => code(one),
            Answer::Count(one) => code(one),
            Answer::Counts(one) => code(one),
            Answer::Errors(one) => code(one),
            Answer::Topics(one) => code(one),
            Answer::Entries(one) => code(one),
            Answer::Waits | Answer::HungUp(_) | Answer::Done => None,
        };
        one.into_iter().collect()
    }
}

/// A pop that waits.
pub(super) struct Pending {
    future: Pin<Box<dyn Future<Output = Result<Vec<Delivery>>> + Send>>,
    rung: Arc<Rung>,
    /// Whether what it has been given since it was last looked at can only be from this step.
    pub(super) fresh: bool,
}

impl Pending {
    pub(super) fn unseen(&self) -> Unseen {
        if self.rung.rung.load(Ordering::SeqCst) { Unseen::Something } else { Unseen::Nothing }
    }

    /// What it has been told once it was told something, or once patience has run out.
    pub(super) async fn told(&self, patience: Duration) -> Unseen {
        while self.unseen() == Unseen::Nothing {
            if tokio::time::timeout(patience, self.rung.heard.notified()).await.is_err() {
                break;
            }
        }
        self.unseen()
    }
}

/// Whether a waiting pop was woken.
#[derive(Default)]
struct Rung {
    rung: AtomicBool,
    heard: Notify,
}

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        self.heard.notify_one();
    }
}

/// A pop that was answered: its place among those that waited, and whether it was told before
/// it was polled.
#[derive(Debug, PartialEq)]
pub(super) struct Served {
    pub(super) place: usize,
    pub(super) unseen: Unseen,
    pub(super) fresh: bool,
    pub(super) answer: Answer,
}

impl<Q: Queue> Side<Q> {
    pub(super) fn new(queue: Q, clock: Arc<SimClock>) -> Side<Q> {
        let (pops, walk, names) = (Vec::new(), None, Names::default());
        Side { queue: Arc::new(queue), clock, pops, walk, names }
    }

    pub(super) async fn apply(&mut self, op: &Op) -> Answer {
        let queue = self.queue.clone();
        match op {
            Op::Add(jobs) => Answer::Added(self.add(jobs.clone()).await),
            Op::Get(who) => Answer::Job(self.get(&self.names.key(who)).await.map(Box::new)),
            Op::Find(id) => Answer::Jobs(queue.find(id).await.map(|jobs| self.names.jobs(jobs))),
            Op::Pop(ask) => self.pop(ask.clone()).await,
            Op::Reserve(who, terms) => {
                let reserved = queue.reserve(&self.names.key(who), *terms).await;
                Answer::Reserved(reserved.map(|one| Box::new(self.names.delivery(one))))
            }
            Op::Settle(batch) => {
                let batch = batch.iter().map(|one| self.names.settle(one)).collect();
                Answer::Changed(queue.settle(batch).await.map(|all| self.names.changed(all)))
            }
            Op::Change(batch) => Answer::Changed(self.change(batch).await),
            Op::Sweep(sweep) => Answer::Count(queue.sweep(sweep.clone()).await),
            Op::LetGo(owner, how) => Answer::Count(queue.let_go(*owner, *how).await),
            Op::Browse(query) => Answer::Jobs(self.browse(query.clone()).await),
            Op::Page(query) => self.page(query.as_deref()).await,
            Op::Forecast(forecast) => Answer::Counts(queue.forecast(forecast.clone()).await),
            Op::DeadByError(topic) => Answer::Errors(queue.dead_by_error(topic).await),
            Op::Topics(which) => Answer::Topics(queue.topics(which.clone()).await),
            Op::Configure(topic, change) => {
                Answer::Count(queue.configure(topic, change.clone()).await)
            }
            Op::KvWrite(write) => Answer::Count(self.kv_write(write).await),
            Op::KvRead(query) => Answer::Entries(queue.kv_read(query.clone()).await),
            Op::SetDefaults(_) | Op::HangUp(_) | Op::Advance(_) | Op::Jump(_) => {
                self.do_without_answer(op)
            }
        }
    }

    fn do_without_answer(&mut self, op: &Op) -> Answer {
        match op {
            Op::SetDefaults(defaults) => self.queue.set_defaults(defaults.clone()),
            Op::HangUp(which) if !self.pops.is_empty() => {
                let pop = self.pops.remove(which % self.pops.len());
                return Answer::HungUp(pop.unseen());
            }
            Op::Advance(by) => self.clock.advance(*by),
            Op::Jump(by_ms) => self.clock.jump_ms(*by_ms),
            _ => {}
        }
        Answer::Done
    }

    async fn add(&mut self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        let added = self.queue.add_all(jobs).await?;
        Ok(added.into_iter().map(|one| one.map(|one| self.names.added(one))).collect())
    }

    pub(super) async fn get(&self, key: &Key) -> Result<JobInfo> {
        self.queue.get(key).await.map(|job| self.names.job(job))
    }

    /// Pops; a pop that waits is kept and polled by [`Side::poll`].
    async fn pop(&mut self, ask: Ask) -> Answer {
        let queue = self.queue.clone();
        // Polled by hand, over and over in one task: tokio would make it wait its turn.
        let future = tokio::task::unconstrained(async move { queue.pop(ask).await });
        let rung = Arc::default();
        self.pops.push(Pending { future: Box::pin(future), rung, fresh: true });
        let place = self.pops.len() - 1;
        if let Some(answer) = self.poll_one(place) {
            return answer;
        }
        // Another thread may decide about it: once it has answered a later call, it has.
        let _ = self.queue.stats().await;
        self.poll_one(place).unwrap_or(Answer::Waits)
    }

    /// Polls the pops that wait and says which of them were answered.
    pub(super) fn poll(&mut self) -> Vec<Served> {
        let mut served = Vec::new();
        let mut place = 0;
        for nth in 0..self.pops.len() {
            let pop = &self.pops[place];
            let (unseen, fresh) = (pop.unseen(), pop.fresh);
            match self.poll_one(place) {
                Some(answer) => served.push(Served { place: nth, unseen, fresh, answer }),
                None => place += 1,
            }
        }
        served
    }

    fn poll_one(&mut self, place: usize) -> Option<Answer> {
        let pop = &mut self.pops[place];
        pop.fresh = true;
        // It sees all that it was told before; and it may wake itself, to let others go first.
        pop.rung.rung.store(false, Ordering::SeqCst);
        let waker = Waker::from(pop.rung.clone());
        let polled = pop.future.as_mut().poll(&mut Context::from_waker(&waker));
        let Poll::Ready(popped) = polled else { return None };
        drop(self.pops.remove(place));
        Some(Answer::Popped(popped.map(|all| self.names.deliveries(all))))
    }

    async fn change(&mut self, batch: &[ChangeOp]) -> Result<Vec<Result<Changed>>> {
        let mut changes = Vec::new();
        for one in batch {
            let key = self.names.key(&one.who);
            let mut if_version = None;
            if let Some(off) = one.version_off {
                let version = self.queue.get(&key).await.map_or(1, |job| job.version);
                if_version = Some(version.saturating_add_signed(off));
            }
            changes.push(Change {
                key,
                if_version,
                action: one.action.clone(),
                by: one.by.clone(),
            });
        }
        Ok(self.names.changed(self.queue.change(changes).await?))
    }

    /// All pages of a query, one after the other.
    pub(super) async fn browse(&self, mut query: Query) -> Result<Vec<JobInfo>> {
        let mut jobs = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = self.queue.browse(query.clone()).await?;
            jobs.extend(self.names.jobs(page.jobs));
            query.cursor = page.cursor;
            if query.cursor.is_none() {
                return Ok(jobs);
            }
        }
        panic!("a walk over jobs does not end: {query:?}");
    }

    async fn page(&mut self, query: Option<&Query>) -> Answer {
        let query = match (query, self.walk.take()) {
            (Some(query), _) => query.clone(),
            (None, Some((query, cursor))) => Query { cursor: Some(cursor), ..query },
            (None, None) => return Answer::Done,
        };
        let page = self.queue.browse(query.clone()).await;
        Answer::Jobs(page.map(|page| {
            self.walk = page.cursor.map(|cursor| (query, cursor));
            self.names.jobs(page.jobs)
        }))
    }

    async fn kv_write(&self, write: &KvOp) -> Result<u64> {
        let expect = match write.expect {
            ExpectOp::Any => Expect::Any,
            ExpectOp::Absent => Expect::Absent,
            ExpectOp::VersionOff(off) => {
                let there = self.queue.kv_read(KvQuery::Key(write.key.clone())).await?;
                let version = there.first().map_or(1, |entry| entry.version);
                Expect::Version(version.saturating_add_signed(off))
            }
        };
        let (key, value, ttl) = (write.key.clone(), write.value.clone(), write.ttl);
        self.queue.kv_write(KvWrite { key, value, expect, ttl }).await
    }
}

/// What this store's numbers and leases are called, so that stores may choose their own.
#[derive(Default)]
struct Names {
    /// Each number as the how-manieth that was given.
    order: HashMap<u64, u64>,
    /// The numbers that each name has had.
    numbers: HashMap<(Topic, Id), Vec<u64>>,
    /// The leases that each name has had.
    leases: HashMap<(Topic, Id), Vec<Lease>>,
    handed_out: u64,
}

impl Names {
    fn key(&self, who: &Who) -> Key {
        match who {
            Who::Named(topic, id) => Key::Named(topic.clone(), id.clone()),
            Who::Number(_, _, back) => {
                let known = self.numbers.get(&who.name());
                Key::Number(known.and_then(|all| nth_back(all, *back)).unwrap_or(u64::MAX))
            }
        }
    }

    fn settle(&self, one: &SettleOp) -> Settle {
        let made_up = Lease::from_u64(42);
        let lease = match one.proof {
            Proof::None => None,
            Proof::MadeUp => Some(made_up),
            Proof::Lease(back) => {
                let known = self.leases.get(&one.who.name());
                Some(known.and_then(|all| nth_back(all, back)).unwrap_or(made_up))
            }
        };
        Settle {
            key: self.key(&one.who),
            lease,
            verdict: one.verdict.clone(),
            report: one.report.clone(),
            by: one.by.clone(),
        }
    }

    fn added(&mut self, added: Added) -> Added {
        let number = added.job.number;
        if added.how != How::Kept {
            let (next, spec) = (self.order.len() as u64 + 1, &added.job.spec);
            let again = self.order.insert(number, next);
            assert!(again.is_none(), "number {number} was used for a second job, {spec:?}");
            self.numbers.entry((spec.topic.clone(), spec.id.clone())).or_default().push(number);
        }
        Added { job: self.job(added.job), ..added }
    }

    fn job(&self, job: JobInfo) -> JobInfo {
        JobInfo { number: self.number(job.number), ..job }
    }

    fn number(&self, number: u64) -> u64 {
        self.order.get(&number).copied().unwrap_or(u64::MAX)
    }

    fn jobs(&self, jobs: Vec<JobInfo>) -> Vec<JobInfo> {
        jobs.into_iter().map(|job| self.job(job)).collect()
    }

    fn changed(&self, all: Vec<Result<Changed>>) -> Vec<Result<Changed>> {
        let named = |one: Changed| Changed {
            job: one.job.map(|job| Standing { number: self.number(job.number), ..job }),
            was: one.was.map(|was| Was { number: self.number(was.number), ..was }),
            ..one
        };
        all.into_iter().map(|one| one.map(named)).collect()
    }

    fn deliveries(&mut self, all: Vec<Delivery>) -> Vec<Delivery> {
        all.into_iter().map(|one| self.delivery(one)).collect()
    }

    fn delivery(&mut self, delivery: Delivery) -> Delivery {
        let name = (delivery.topic().clone(), delivery.id().clone());
        let leases = self.leases.entry(name).or_default();
        assert!(!leases.contains(&delivery.lease), "a lease was given twice: {delivery:?}");
        leases.push(delivery.lease);
        self.handed_out += 1;
        let lease = Lease::from_u64(self.handed_out);
        Delivery { job: self.job(delivery.job), lease, ..delivery }
    }
}

fn nth_back<T: Copy>(all: &[T], back: usize) -> Option<T> {
    all.iter().rev().nth(back).copied()
}
