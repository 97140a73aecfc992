//! The shared store: many instances over one Redis.
//!
//! A topic lies wholly in one of the store's buckets (or in several, see `spread.rs`), whose keys share
//! a slot, so that every move of a job is one script on one node (`lua/`). Adding, handing out and finishing
//! are decided there; what is rarer is decided by the machine here, and carried out by a script that looks
//! whether the job is still what it was. See `lua/common.lua` for what lies where.

mod address;
mod backup;
mod check;
mod clock;
mod conn;
mod core;
mod events;
mod foreign;
mod gather;
mod job;
mod keys;
mod line;
mod live;
mod look;
mod moves;
mod nodes;
mod pop;
mod quiet;
mod reply;
mod scripts;
mod spread;
mod time;
mod topics;
mod waiters;
mod whole;

use std::sync::Arc;
use std::time::Duration;

pub use address::Address;
pub use backup::Backup;
pub use check::{Checked, EXAMPLES_MAX, Fault, Repair, check, is_there};
pub use events::{Added as Counted, Append, Segment};
pub use foreign::{Answer, Foreign};
pub use nodes::{BucketInfo, Fleet, NO_TIMER, Node, NodeInfo};

use self::clock::RedisClock;
use self::conn::Conn;
use self::core::Core;
use self::keys::Keys;
use self::line::Line;
use self::live::Live;
use crate::error::{Code, Error, Result};
use crate::job::{Id, NewJob};
use crate::machine::Owner;
use crate::queue::{
    Added, Ask, Change, Changed, Delivery, Ended, Forecast, JobInfo, Key, KvEntry, KvQuery,
    KvWrite, LetGo, Moves, Page, Query, Queue, Settle, Sweep, Terms, TopicChange, TopicInfo,
    Topics, Whole,
};
use crate::stats::Stats;
use crate::store::Options;
use crate::store::leaving::moves_of;
use crate::time::{Clock, SECOND, duration_ms};
use crate::topic::{Defaults, Topic};

/// How a shared store is used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What every key begins with, so that several stores can share one server.
    pub prefix: String,
    /// Into how many parts topics are spread: what was said when the store was made holds.
    pub buckets: u16,
    /// How often everything is looked at anew, in case a message was lost.
    pub poll: Duration,
    /// How many replicas must have what was done before it is answered. Without any, a failover may undo
    /// the last moments.
    pub wait: u32,
    /// Whether this instance sees to buckets: it takes leases on a share of them, and makes ready what
    /// is due there. Some instance must, or jobs are late.
    pub timer: bool,
    /// How long such a lease holds without a heartbeat, of which there are three in it: so long nobody
    /// sees to the buckets of an instance that dies. 100 ms to 10 minutes.
    pub lease: Duration,
    /// What this instance tells the others of itself.
    pub node: Node,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            prefix: "linger".into(),
            buckets: 256,
            poll: SECOND,
            wait: 0,
            timer: true,
            lease: 3 * SECOND,
            node: Node::default(),
        }
    }
}

/// A store that many instances share.
pub struct Redis {
    core: Arc<Core>,
    calls: Calls,
}

/// How calls are done.
enum Calls {
    /// One after the other, on a clock that is given.
    InLine(Line),
    /// As they come, by Redis's clock.
    Live(Live),
}

impl Calls {
    async fn call<T: Send + 'static, F, Fut>(&self, act: F) -> Result<T>
    where
        F: FnOnce(Arc<Core>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        match self {
            Calls::InLine(line) => line.call(act).await,
            Calls::Live(live) => live.call(act).await,
        }
    }
}

impl Redis {
    /// The store at this address, which is made if it is not there. Its clock is Redis's.
    pub async fn open(address: &Address, options: Options, settings: Settings) -> Result<Redis> {
        let conn = Conn::open(address).await?.with_replicas(settings.wait);
        let keys = Keys::found(&conn, &settings).await?;
        warn_of_eviction(&conn).await;
        let clock = Arc::new(RedisClock::default());
        let options = Options { clock: clock.clone(), ..options };
        let core = Arc::new(Core::new(conn, keys, options, false));
        core.read_spread().await?;
        let live = Live::start(core.clone(), clock, &settings).await?;
        Ok(Redis { core, calls: Calls::Live(live) })
    }

    /// Who shares the store, and who sees to which bucket. On a clock that is given there is nobody.
    pub async fn fleet(&self) -> Result<Fleet> {
        self.core.fleet(self.id()).await
    }

    /// Why jobs may be late, if no instance that is alive sees to buckets.
    pub fn without_timer(&self) -> Option<&'static str> {
        match &self.calls {
            Calls::Live(live) if !live.has_timer() => Some(NO_TIMER),
            _ => None,
        }
    }

    /// Says goodbye to the others: the buckets of this instance are free at once, and it takes none
    /// any more. Calls are still answered. One that is only dropped is missed when its lease is over.
    pub async fn leave(&self) {
        if let Calls::Live(live) = &self.calls {
            live.leave().await;
        }
    }

    /// The id by which the others know this instance.
    fn id(&self) -> &str {
        match &self.calls {
            Calls::Live(live) => live.id(),
            Calls::InLine(_) => "",
        }
    }

    /// Why calls are refused at present, if they are. Redis is looked for all the while, so that
    /// this ends by itself.
    pub fn away(&self) -> Option<Error> {
        let away_ms = duration_ms(self.away_for()?);
        let since = self.core.now().time().saturating_sub_ms(away_ms);
        let message = format!(
            "Redis cannot be reached since {since}; calls are answered again when it is back"
        );
        Some(Error::new(Code::Unavailable, message))
    }

    /// For how long that has been so.
    pub fn away_for(&self) -> Option<Duration> {
        self.core.conn.away_since().map(|since| since.elapsed())
    }

    /// The store at this address by the clock of the options, with calls one after the other: to prove
    /// that it does what other stores do. No other instance may use it meanwhile.
    pub async fn open_on_clock(
        address: &Address,
        options: Options,
        settings: Settings,
    ) -> Result<Redis> {
        let conn = Conn::open(address).await?;
        let keys = Keys::new(&settings.prefix, settings.buckets);
        let core = Arc::new(Core::new(conn, keys, options, true));
        core.read_spread().await?;
        Ok(Redis { calls: Calls::InLine(Line::start(core.clone())), core })
    }
}

/// A server that drops keys when its memory is used up drops jobs.
async fn warn_of_eviction(conn: &Conn) {
    let asked = conn.command(b"", &[b"CONFIG", b"GET", b"maxmemory-policy"]).await;
    // One that does not let us ask may be right.
    let Some(policy) = asked.ok().and_then(reply::last_text) else { return };
    if policy != "noeviction" {
        tracing::error!(
            policy,
            "Redis is set to drop keys when its memory is used up, and will lose jobs: \
             set maxmemory-policy to noeviction"
        );
    }
}

impl Queue for Redis {
    async fn add_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        self.calls.call(async move |core| core.add_all(jobs).await).await
    }

    async fn get(&self, key: &Key) -> Result<JobInfo> {
        let key = key.clone();
        self.calls.call(async move |core| core.get(&key).await).await
    }

    async fn find(&self, id: &Id) -> Result<Vec<JobInfo>> {
        let id = id.clone();
        self.calls.call(async move |core| core.find(&id).await).await
    }

    async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        ask.check()?;
        match &self.calls {
            Calls::InLine(line) => line.pop(ask).await,
            Calls::Live(live) => live.pop(ask).await,
        }
    }

    async fn reserve(&self, key: &Key, terms: Terms) -> Result<Delivery> {
        let key = key.clone();
        self.calls.call(async move |core| core.reserve(&key, terms).await).await
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        self.calls.call(async move |core| core.settle(batch).await).await
    }

    async fn change(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        self.calls.call(async move |core| core.change(batch).await).await
    }

    async fn sweep(&self, sweep: Sweep) -> Result<u64> {
        self.calls.call(async move |core| core.sweep(sweep).await).await
    }

    async fn let_go(&self, owner: Owner, how: LetGo) -> Result<u64> {
        self.calls.call(async move |core| core.let_go(owner, how).await).await
    }

    async fn browse(&self, query: Query) -> Result<Page> {
        query.check()?;
        self.calls.call(async move |core| core.browse(&query).await).await
    }

    async fn dump(&self, query: Query) -> Result<Page<Whole>> {
        query.check()?;
        self.calls.call(async move |core| core.dump(&query).await).await
    }

    async fn restore(&self, jobs: Vec<Whole>) -> Result<Vec<Result<bool>>> {
        self.calls.call(async move |core| core.restore(jobs).await).await
    }

    async fn forecast(&self, forecast: Forecast) -> Result<Vec<u64>> {
        forecast.check()?;
        self.calls.call(async move |core| core.forecast(&forecast).await).await
    }

    async fn dead_by_error(&self, topic: &Topic) -> Result<Vec<(Arc<str>, u64)>> {
        let topic = topic.clone();
        self.calls.call(async move |core| core.dead_by_error(&topic).await).await
    }

    async fn topics(&self, which: Topics) -> Result<Vec<TopicInfo>> {
        which.check()?;
        self.calls.call(async move |core| core.topics(&which).await).await
    }

    async fn configure(&self, topic: &Topic, change: TopicChange) -> Result<u64> {
        let topic = topic.clone();
        self.calls.call(async move |core| core.configure(&topic, change).await).await
    }

    async fn ended(&self, max: usize) -> Result<Vec<Ended>> {
        Ok(self.core.leaving.take(max).await)
    }

    async fn moved(&self, max: usize) -> Result<Moves> {
        moves_of(self.core.moves.as_ref(), max).await
    }

    fn set_defaults(&self, defaults: Defaults) {
        self.core.set_defaults(defaults);
    }

    async fn stats(&self) -> Result<Stats> {
        self.calls.call(async move |core| core.stats().await).await
    }

    async fn kv_write(&self, write: KvWrite) -> Result<u64> {
        write.check()?;
        self.calls.call(async move |core| core.kv_write(write).await).await
    }

    async fn kv_read(&self, query: KvQuery) -> Result<Vec<KvEntry>> {
        query.check()?;
        self.calls.call(async move |core| core.kv_read(&query).await).await
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.core.clock
    }
}
