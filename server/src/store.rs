//! The store that a server has: in a folder of this machine, or shared on Redis.

use std::sync::Arc;
use std::time::Duration;

use linger::error::{Error, Result};
use linger::job::{Id, NewJob};
use linger::machine::{Owner, Stage};
use linger::queue::{
    Added, Ask, Change, Changed, Delivery, Ended, Filter, Forecast, JobInfo, Key, KvEntry, KvQuery,
    KvWrite, Lane, LetGo, Page, Query, Queue, Settle, Sweep, Terms, TopicChange, TopicInfo, Topics,
    Whole,
};
use linger::stats::Stats;
use linger::store::embedded::Embedded;
use linger::store::redis::{Fleet, Redis};
use linger::time::Clock;
use linger::topic::{Defaults, Topic};

use crate::traces::Traces;

/// One of the stores there are, and who is told what becomes of its jobs.
pub(crate) struct Store {
    kind: Kind,
    traces: Option<Arc<Traces>>,
}

enum Kind {
    /// In a folder, for this server alone.
    Embedded(Box<Embedded>),
    /// On Redis, with whoever else is there.
    Redis(Box<Redis>),
}

impl Store {
    /// The same, with what becomes of its jobs traced.
    pub(crate) fn traced(self, traces: Option<Arc<Traces>>) -> Store {
        Store { traces, ..self }
    }

    /// The store in a folder, if it is that.
    pub(crate) fn embedded(&self) -> Option<&Embedded> {
        match &self.kind {
            Kind::Embedded(store) => Some(store),
            Kind::Redis(_) => None,
        }
    }

    /// Why it takes no changes any more, if it does not: only opening it again helps.
    pub(crate) fn halted(&self) -> Option<Error> {
        self.embedded().and_then(Embedded::halted)
    }

    /// Why it cannot be reached at present, if it cannot: it comes back by itself.
    pub(crate) fn away(&self) -> Option<Error> {
        match &self.kind {
            Kind::Embedded(_) => None,
            Kind::Redis(store) => store.away(),
        }
    }

    /// For how long that has been so; of no folder.
    pub(crate) fn away_for(&self) -> Option<Duration> {
        match &self.kind {
            Kind::Embedded(_) => None,
            Kind::Redis(store) => store.away_for(),
        }
    }

    /// Why jobs may be late, if no instance sees to the time of those that wait.
    pub(crate) fn without_timer(&self) -> Option<&'static str> {
        match &self.kind {
            Kind::Embedded(_) => None,
            Kind::Redis(store) => store.without_timer(),
        }
    }

    /// Who shares it, if it can be shared.
    pub(crate) async fn fleet(&self) -> Result<Option<Fleet>> {
        match &self.kind {
            Kind::Embedded(_) => Ok(None),
            Kind::Redis(store) => store.fleet().await.map(Some),
        }
    }

    /// The job of a topic that is next in line.
    pub(crate) async fn next_in_line(&self, topic: &Topic) -> Result<Option<JobInfo>> {
        let filter = Filter { stage: Some(Stage::Ready), ..Filter::default() };
        let query = Query { filter, limit: 1, ..Query::all(topic.clone()) };
        Ok(self.browse(query).await?.jobs.pop())
    }

    /// Tells those who share it that this server is gone.
    pub(crate) async fn leave(&self) {
        if let Kind::Redis(store) = &self.kind {
            store.leave().await;
        }
    }
}

impl From<Embedded> for Store {
    fn from(store: Embedded) -> Store {
        Store { kind: Kind::Embedded(Box::new(store)), traces: None }
    }
}

impl From<Redis> for Store {
    fn from(store: Redis) -> Store {
        Store { kind: Kind::Redis(Box::new(store)), traces: None }
    }
}

/// Has whichever store it is do it.
macro_rules! either {
    ($store:expr, $it:ident => $call:expr) => {
        match &$store.kind {
            Kind::Embedded($it) => $call,
            Kind::Redis($it) => $call,
        }
    };
}

impl Queue for Store {
    async fn add_all(&self, mut jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        let Some(traces) = &self.traces else {
            return either!(self, store => store.add_all(jobs).await);
        };
        let adding = traces.adding(&mut jobs);
        let answer = either!(self, store => store.add_all(jobs).await);
        traces.added(adding, &answer);
        answer
    }

    async fn get(&self, key: &Key) -> Result<JobInfo> {
        either!(self, store => store.get(key).await)
    }

    async fn find(&self, id: &Id) -> Result<Vec<JobInfo>> {
        either!(self, store => store.find(id).await)
    }

    async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        let lane = ask.lane;
        let mut answer = either!(self, store => store.pop(ask).await);
        if let (Some(traces), Ok(jobs)) = (&self.traces, &mut answer) {
            traces.handed_out(jobs, lane);
        }
        answer
    }

    async fn reserve(&self, key: &Key, terms: Terms) -> Result<Delivery> {
        let mut answer = either!(self, store => store.reserve(key, terms).await);
        if let (Some(traces), Ok(job)) = (&self.traces, &mut answer) {
            traces.handed_out(std::slice::from_mut(job), Lane::Pull);
        }
        answer
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        let Some(traces) = &self.traces else {
            return either!(self, store => store.settle(batch).await);
        };
        let settling = traces.settling(&batch);
        let answer = either!(self, store => store.settle(batch).await);
        traces.settled(settling, &answer);
        answer
    }

    async fn change(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        either!(self, store => store.change(batch).await)
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
        either!(self, store => store.configure(topic, change).await)
    }

    async fn ended(&self, max: usize) -> Result<Vec<Ended>> {
        either!(self, store => store.ended(max).await)
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
