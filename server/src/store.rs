//! The store that a server has: in a folder of this machine, or shared on Redis.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use linger::error::{Code, Error, Result};
use linger::job::{Id, NewJob};
use linger::machine::{Owner, Stage};
use linger::queue::{
    Added, Ask, Change, Changed, Delivery, Ended, Filter, Forecast, JobInfo, Key, KvEntry, KvQuery,
    KvWrite, Lane, LetGo, Moves, Page, Query, Queue, Settle, Sweep, Terms, TopicChange, TopicInfo,
    Topics, Whole,
};
use linger::stats::Stats;
use linger::store::embedded::{self, Embedded};
use linger::store::redis::{self, Fleet, Redis};
use linger::time::{Clock, Time};
use linger::topic::{Defaults, Topic};

use crate::author::Front;
use crate::events::{Asked, Recorder, kind_of_change, unnamed};
use crate::traces::Traces;

/// What callers are told until a store is there.
pub(crate) fn loading() -> Error {
    Error::new(Code::Unavailable, "the stored jobs are still being loaded; try again soon")
}

/// One of the stores there are, and who takes down what happens in it and tells of it.
pub(crate) struct Store {
    which: Which,
    log: Option<Arc<Recorder>>,
    traces: Option<Arc<Traces>>,
}

enum Which {
    /// In a folder, for this server alone.
    Embedded(Box<Embedded>),
    /// On Redis, with whoever else is there.
    Redis(Box<Redis>),
}

impl Store {
    /// The same, with what happens in it taken down.
    pub(crate) fn logged(self, log: Option<Arc<Recorder>>) -> Store {
        Store { log, ..self }
    }

    /// The same, with what becomes of its jobs traced.
    pub(crate) fn traced(self, traces: Option<Arc<Traces>>) -> Store {
        Store { traces, ..self }
    }

    /// The store in a folder, if it is that.
    pub(crate) fn embedded(&self) -> Option<&Embedded> {
        match &self.which {
            Which::Embedded(store) => Some(store),
            Which::Redis(_) => None,
        }
    }

    /// The store on Redis, if it is that.
    pub(crate) fn redis(&self) -> Option<&Redis> {
        match &self.which {
            Which::Embedded(_) => None,
            Which::Redis(store) => Some(store),
        }
    }

    /// What jobs are called that are to be changed and are known by their numbers, if that is logged: of
    /// one that is gone by it nobody could say.
    async fn names_of(&self, batch: &[Change]) -> HashMap<u64, (Topic, Id)> {
        let mut names = HashMap::new();
        for key in unnamed(batch) {
            if let (Key::Number(number), Ok(job)) = (key, self.get(key).await) {
                names.insert(*number, (job.spec.topic, job.spec.id));
            }
        }
        names
    }

    /// Why it takes no changes any more, if it does not: only opening it again helps.
    pub(crate) fn halted(&self) -> Option<Error> {
        self.embedded().and_then(Embedded::halted)
    }

    /// Why it cannot be reached at present, if it cannot: it comes back by itself.
    pub(crate) fn away(&self) -> Option<Error> {
        self.redis().and_then(Redis::away)
    }

    /// For how long that has been so; of no folder.
    pub(crate) fn away_for(&self) -> Option<Duration> {
        self.redis().and_then(Redis::away_for)
    }

    /// Why jobs may be late, if no instance sees to the time of those that wait.
    pub(crate) fn without_timer(&self) -> Option<&'static str> {
        self.redis().and_then(Redis::without_timer)
    }

    /// Who shares it, if it can be shared.
    pub(crate) async fn fleet(&self) -> Result<Option<Fleet>> {
        match self.redis() {
            None => Ok(None),
            Some(store) => store.fleet().await.map(Some),
        }
    }

    /// The job of a topic that is next in line.
    pub(crate) async fn next_in_line(&self, topic: &Topic) -> Result<Option<JobInfo>> {
        let filter = Filter { stage: Some(Stage::Ready), ..Filter::default() };
        let query = Query { filter, limit: 1, ..Query::all(topic.clone()) };
        Ok(self.browse(query).await?.jobs.pop())
    }

    /// Begins a copy of all that is there.
    pub(crate) async fn backup(&self) -> Result<Backup> {
        match &self.which {
            Which::Embedded(store) => store.backup().await.map(Backup::Embedded),
            Which::Redis(store) => store.backup().await.map(|it| Backup::Redis(Box::new(it))),
        }
    }

    /// Tells those who share it that this server is gone.
    pub(crate) async fn leave(&self) {
        if let Some(store) = self.redis() {
            store.leave().await;
        }
    }
}

/// A copy of all that is in a store.
pub(crate) enum Backup {
    /// As it is at one moment.
    Embedded(embedded::Backup),
    /// Each thing as it is at some moment between beginning and end.
    Redis(Box<redis::Backup>),
}

/// Asks whichever backup it is.
macro_rules! of_either {
    ($backup:expr, $it:ident => $call:expr) => {
        match $backup {
            Backup::Embedded($it) => $call,
            Backup::Redis($it) => $call,
        }
    };
}

impl Backup {
    /// Whether it shows one moment.
    pub(crate) fn is_of_one_moment(&self) -> bool {
        matches!(self, Backup::Embedded(_))
    }

    /// When it was begun.
    pub(crate) fn at(&self) -> Time {
        of_either!(self, it => it.at())
    }

    /// How many jobs there were then.
    pub(crate) fn jobs(&self) -> u64 {
        of_either!(self, it => it.jobs())
    }

    /// The topics that have settings, or are paused.
    pub(crate) fn topics(&self) -> &[TopicInfo] {
        of_either!(self, it => it.topics())
    }

    /// All of the key-value side.
    pub(crate) fn keys(&self) -> &[KvEntry] {
        of_either!(self, it => it.keys())
    }

    /// The next job; none after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Whole>> {
        of_either!(self, it => it.next().await)
    }
}

impl From<Embedded> for Store {
    fn from(store: Embedded) -> Store {
        Store { which: Which::Embedded(Box::new(store)), log: None, traces: None }
    }
}

impl From<Redis> for Store {
    fn from(store: Redis) -> Store {
        Store { which: Which::Redis(Box::new(store)), log: None, traces: None }
    }
}

/// Has whichever store it is do it.
macro_rules! either {
    ($store:expr, $it:ident => $call:expr) => {
        match &$store.which {
            Which::Embedded($it) => $call,
            Which::Redis($it) => $call,
        }
    };
}

/// Calls that are made all the time are in boxes: a request's future holds the largest that it may need,
/// and is moved at every level.
impl Queue for Store {
    async fn add_all(&self, mut jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        let traced = self.traces.as_ref().map(|traces| (traces, traces.adding(&mut jobs)));
        let answers = either!(self, store => Box::pin(store.add_all(jobs)).await);
        if let Some((traces, adding)) = traced {
            traces.added(adding, &answers);
        }
        let answers = answers?;
        if let Some(log) = &self.log {
            log.added(&answers);
        }
        Ok(answers)
    }

    async fn get(&self, key: &Key) -> Result<JobInfo> {
        either!(self, store => store.get(key).await)
    }

    async fn find(&self, id: &Id) -> Result<Vec<JobInfo>> {
        either!(self, store => store.find(id).await)
    }

    async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        let lane = ask.lane;
        let mut jobs = either!(self, store => Box::pin(store.pop(ask)).await)?;
        if let Some(traces) = &self.traces {
            traces.handed_out(&mut jobs, lane);
        }
        if let Some(log) = &self.log {
            log.handed_out(&jobs, lane == Lane::Push, self.clock().now());
        }
        Ok(jobs)
    }

    async fn reserve(&self, key: &Key, terms: Terms) -> Result<Delivery> {
        let mut job = either!(self, store => store.reserve(key, terms).await)?;
        if let Some(traces) = &self.traces {
            traces.handed_out(std::slice::from_mut(&mut job), Lane::Pull);
        }
        if let Some(log) = &self.log {
            log.handed_out(std::slice::from_ref(&job), false, self.clock().now());
        }
        Ok(job)
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        let asked = self.log.as_ref().map(|log| (log, batch.iter().map(Asked::settle).collect()));
        let traced = self.traces.as_ref().map(|traces| (traces, traces.settling(&batch)));
        let answers = either!(self, store => Box::pin(store.settle(batch)).await);
        if let Some((traces, settling)) = traced {
            traces.settled(settling, &answers);
        }
        let answers = answers?;
        if let Some((log, asked)) = asked {
            // Whoever settles without having called is the push lane.
            log.changed(asked, &answers, Some(Front::Push), self.clock().now());
        }
        Ok(answers)
    }

    async fn change(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        let Some(log) = &self.log else {
            return either!(self, store => store.change(batch).await);
        };
        let mut names = Box::pin(self.names_of(&batch)).await;
        let asked = |change: &Change| {
            let name = match &change.key {
                Key::Number(number) => names.remove(number),
                Key::Named(..) => None,
            };
            Asked::change(change, name)
        };
        let asked = batch.iter().map(asked).collect();
        let answers = either!(self, store => store.change(batch).await)?;
        log.changed(asked, &answers, None, self.clock().now());
        Ok(answers)
    }

    async fn sweep(&self, sweep: Sweep) -> Result<u64> {
        either!(self, store => store.sweep(sweep).await)
    }

    async fn let_go(&self, owner: Owner, how: LetGo) -> Result<u64> {
        either!(self, store => store.let_go(owner, how).await)
    }

    async fn browse(&self, query: Query) -> Result<Page> {
        either!(self, store => store.browse(query).await)
    }

    async fn dump(&self, query: Query) -> Result<Page<Whole>> {
        either!(self, store => store.dump(query).await)
    }

    async fn restore(&self, jobs: Vec<Whole>) -> Result<Vec<Result<bool>>> {
        either!(self, store => store.restore(jobs).await)
    }

    async fn forecast(&self, forecast: Forecast) -> Result<Vec<u64>> {
        either!(self, store => store.forecast(forecast).await)
    }

    async fn dead_by_error(&self, topic: &Topic) -> Result<Vec<(Arc<str>, u64)>> {
        either!(self, store => store.dead_by_error(topic).await)
    }

    async fn topics(&self, which: Topics) -> Result<Vec<TopicInfo>> {
        either!(self, store => store.topics(which).await)
    }

    async fn configure(&self, topic: &Topic, change: TopicChange) -> Result<u64> {
        let kind = kind_of_change(&change);
        let jobs = either!(self, store => store.configure(topic, change).await)?;
        if let Some(log) = &self.log {
            log.configured(topic, kind, jobs, self.clock().now());
        }
        Ok(jobs)
    }

    async fn ended(&self, max: usize) -> Result<Vec<Ended>> {
        either!(self, store => store.ended(max).await)
    }

    async fn moved(&self, max: usize) -> Result<Moves> {
        either!(self, store => store.moved(max).await)
    }

    fn set_defaults(&self, defaults: Defaults) {
        either!(self, store => store.set_defaults(defaults))
    }

    async fn stats(&self) -> Result<Stats> {
        either!(self, store => store.stats().await)
    }

    async fn kv_write(&self, write: KvWrite) -> Result<u64> {
        either!(self, store => store.kv_write(write).await)
    }

    async fn kv_read(&self, query: KvQuery) -> Result<Vec<KvEntry>> {
        either!(self, store => store.kv_read(query).await)
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        either!(self, store => store.clock())
    }
}
