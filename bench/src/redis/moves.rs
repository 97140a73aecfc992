//! Those who keep jobs on Redis, by the moves that are measured.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ::redis::Script;
use ::redis::aio::MultiplexedConnection;
use linger::job::{Body, NewJob, When};
use linger::queue::{Ask, Queue, Settle, Verdict};
use linger::store::Options;
use linger::store::redis::{Redis as Store, Settings};
use linger::topic::Topic;

use super::body;
use super::served::Redis;
use crate::Result;
use crate::work::id;

const DAY: Duration = Duration::from_secs(86_400);
/// For how long a job is leased.
const TTR_MS: u64 = 60_000;
/// Of the raw queue, as the scripts want them: of one slot, as they would have to be in a cluster.
const KEYS: [&str; 5] =
    ["{raw}:jobs", "{raw}:due", "{raw}:ready", "{raw}:leases", "{raw}:attempts"];

/// When a job that is added is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    InADay,
}

/// Who keeps jobs. It panics if anything goes wrong, for then nothing measured is worth anything.
pub(super) trait Moves: Clone + Send + Sync + 'static {
    /// Adds the jobs of these numbers by one call.
    fn add(&self, numbers: Range<u64>, due: Due) -> impl Future<Output = ()> + Send;

    /// Pops a job and finishes it; false if none is due.
    fn take(&self) -> impl Future<Output = bool> + Send;
}

/// Linger's store, in this process.
#[derive(Clone)]
pub(super) struct Ours {
    store: Arc<Store>,
    topic: Topic,
}

/// Three scripts, called by nothing but a connection.
#[derive(Clone)]
pub(super) struct Raw {
    pub(super) conn: MultiplexedConnection,
    scripts: Arc<Scripts>,
}

struct Scripts {
    add: Script,
    pop: Script,
    finish: Script,
}

impl Ours {
    pub(super) async fn open(redis: &Redis) -> Result<Ours> {
        let address = redis.url().parse()?;
        let store = Store::open(&address, Options::default(), Settings::default()).await?;
        Ok(Ours { store: Arc::new(store), topic: "orders".parse()? })
    }

    fn job(&self, n: u64, due: Due) -> NewJob {
        let mut job = NewJob::new(self.topic.clone(), id(n), Body::text(body(n)));
        job.when = Some(When::In(due.delay()));
        job
    }
}

impl Moves for Ours {
    async fn add(&self, numbers: Range<u64>, due: Due) {
        let jobs = numbers.map(|n| self.job(n, due)).collect();
        let added = self.store.add_all(jobs).await.expect("the store takes jobs");
        assert!(added.iter().all(|one| one.is_ok()), "a job was refused: {added:?}");
    }

    async fn take(&self) -> bool {
        let popped = self.store.pop(Ask::one(self.topic.clone())).await.expect("the store pops");
        let Some(delivery) = popped.first() else { return false };
        let done = vec![Settle::delivery(delivery, Verdict::Finish)];
        let settled = self.store.settle(done).await.expect("the store settles");
        assert!(settled[0].is_ok(), "not finished: {:?}", settled[0]);
        true
    }
}

impl Raw {
    pub(super) async fn open(redis: &Redis) -> Result<Raw> {
        let mut conn = redis.connect().await?;
        let scripts = Scripts {
            add: Script::new(include_str!("lua/add.lua")),
            pop: Script::new(include_str!("lua/pop.lua")),
            finish: Script::new(include_str!("lua/finish.lua")),
        };
        for script in [&scripts.add, &scripts.pop, &scripts.finish] {
            script.load_async(&mut conn).await?;
        }
        Ok(Raw { conn, scripts: Arc::new(scripts) })
    }
}

impl Moves for Raw {
    async fn add(&self, numbers: Range<u64>, due: Due) {
        let (mut conn, mut calls) = (self.conn.clone(), ::redis::pipe());
        let delay_ms = due.delay().as_millis() as u64;
        for n in numbers {
            let mut add = self.scripts.add.key(&KEYS);
            calls.invoke_script(add.arg(id(n).as_str()).arg(delay_ms).arg(body(n)));
        }
        let added: Vec<u64> = calls.query_async(&mut conn).await.expect("Redis adds");
        assert!(added.iter().all(|due| *due > 0), "a job was refused: {added:?}");
    }

    async fn take(&self) -> bool {
        let mut conn = self.conn.clone();
        let popped = self.scripts.pop.key(&KEYS).arg(TTR_MS).invoke_async(&mut conn).await;
        let popped: Option<(String, String, u64)> = popped.expect("Redis pops");
        let Some((id, _, _)) = popped else { return false };
        let done = self.scripts.finish.key(&KEYS).arg(id).invoke_async(&mut conn).await;
        let done: u64 = done.expect("Redis finishes");
        assert_eq!(done, 1, "not finished");
        true
    }
}

impl Due {
    fn delay(self) -> Duration {
        match self {
            Due::Now => Duration::ZERO,
            Due::InADay => DAY,
        }
    }
}
