//! The store that a server has: in a folder of this machine, or shared on Redis.

use std::sync::Arc;
use std::time::Duration;

use linger::error::{Error, Result};
use linger::job::{Id, NewJob};
use linger::machine::{Owner, Stage};
use linger::queue::{
    Added, Ask, Change, Changed, Delivery, Ended, Filter, Forecast, JobInfo, Key, KvEntry, KvQuery,
    KvWrite, LetGo, Page, Query, Queue, Settle, Sweep, Terms, TopicChange, TopicInfo, Topics,
    Whole,
};
use linger::stats::Stats;
use linger::store::embedded::{self, Embedded};
use linger::store::redis::{self, Fleet, Redis};
use linger::time::{Clock, Time};
use linger::topic::{Defaults, Topic};

/// One of the stores there are.
pub(crate) enum Store {
    /// In a folder, for this server alone.
    Embedded(Box<Embedded>),
    /// On Redis, with whoever else is there.
    Redis(Box<Redis>),
}

impl Store {
    /// The store in a folder, if it is that.
    pub(crate) fn embedded(&self) -> Option<&Embedded> {
        match self {
            Store::Embedded(store) => Some(store),
            Store::Redis(_) => None,
        }
    }

    /// Why it takes no changes any more, if it does not: only opening it again helps.
    pub(crate) fn halted(&self) -> Option<Error> {
        self.embedded().and_then(Embedded::halted)
    }

    /// Why it cannot be reached at present, if it cannot: it comes back by itself.
    pub(crate) fn away(&self) -> Option<Error> {
        match self {
            Store::Embedded(_) => None,
            Store::Redis(store) => store.away(),
        }
    }

    /// For how long that has been so; of no folder.
    pub(crate) fn away_for(&self) -> Option<Duration> {
        match self {
            Store::Embedded(_) => None,
            Store::Redis(store) => store.away_for(),
        }
    }

    /// Why jobs may be late, if no instance sees to the time of those that wait.
    pub(crate) fn without_timer(&self) -> Option<&'static str> {
        match self {
            Store::Embedded(_) => None,
            Store::Redis(store) => store.without_timer(),
        }
    }

    /// Who shares it, if it can be shared.
    pub(crate) async fn fleet(&self) -> Result<Option<Fleet>> {
        match self {
            Store::Embedded(_) => Ok(None),
            Store::Redis(store) => store.fleet().await.map(Some),
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
        match self {
            Store::Embedded(store) => store.backup().await.map(Backup::Embedded),
            Store::Redis(store) => store.backup().await.map(|it| Backup::Redis(Box::new(it))),
        }
    }

    /// Tells those who share it that this server is gone.
    pub(crate) async fn leave(&self) {
        if let Store::Redis(store) = self {
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
        Store::Embedded(Box::new(store))
    }
}

impl From<Redis> for Store {
    fn from(store: Redis) -> Store {
        Store::Redis(Box::new(store))
    }
}

/// Has whichever store it is do it.
macro_rules! either {
    ($store:expr, $it:ident => $call:expr) => {
        match $store {
            Store::Embedded($it) => $call,
            Store::Redis($it) => $call,
        }
    };
}

impl Queue for Store {
    async fn add_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        either!(self, store => store.add_all(jobs).await)
    }

    async fn get(&self, key: &Key) -> Result<JobInfo> {
        either!(self, store => store.get(key).await)
    }

    async fn find(&self, id: &Id) -> Result<Vec<JobInfo>> {
        either!(self, store => store.find(id).await)
    }

    async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        either!(self, store => store.pop(ask).await)
    }

    async fn reserve(&self, key: &Key, terms: Terms) -> Result<Delivery> {
        either!(self, store => store.reserve(key, terms).await)
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        either!(self, store => store.settle(batch).await)
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
