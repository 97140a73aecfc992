//! The jobs that are added, and who takes them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linger::bench_support::Null;
use linger::job::{Body, Id, NewJob, When};
use linger::queue::{Key, Queue};
use linger::store::embedded::Embedded;
use linger::time::Time;
use linger::topic::Topic;

use crate::Result;

/// Makes the jobs: 200 bytes of text in ten topics, due within ten days and not today.
#[derive(Clone)]
pub(crate) struct Maker {
    topics: Arc<[Topic]>,
    /// The topic of the jobs that are due.
    pub(crate) due: Topic,
    body: Body,
}

const BODY_BYTES: usize = 200;
const DAY_MS: u64 = 86_400_000;

impl Maker {
    pub(crate) fn new() -> Result<Maker> {
        let topics: std::result::Result<Vec<Topic>, _> =
            (0..10).map(|n| format!("orders-{n}").parse()).collect();
        let mut text =
            r#"{"order":"00001234","customer":"c-8812","items":[{"sku":"A-100","#.to_owned();
        text.push_str(r#""count":2}],"note":""#);
        text.push_str(&"close unless paid ".repeat(9));
        text.truncate(BODY_BYTES - 2);
        text.push_str("\"}");
        Ok(Maker { topics: topics?.into(), due: "due".parse()?, body: Body::json(text)? })
    }

    /// Job number `n`, which waits.
    pub(crate) fn waiting(&self, n: u64) -> NewJob {
        let due_ms = now_ms() + DAY_MS + mix(n) % (9 * DAY_MS);
        self.job(self.topic(n).clone(), n, due_ms)
    }

    /// Job number `n`, which is due then.
    pub(crate) fn due(&self, n: u64, due_ms: u64) -> NewJob {
        self.job(self.due.clone(), n, due_ms)
    }

    fn job(&self, topic: Topic, n: u64, due_ms: u64) -> NewJob {
        let mut job = NewJob::new(topic, id(n), self.body.clone());
        job.when = Some(When::At(Time::from_ms(due_ms).expect("it is soon")));
        job
    }

    /// What every job's body is, as JSON.
    pub(crate) fn body(&self) -> &str {
        self.body.as_str().expect("it is text")
    }

    fn topic(&self, n: u64) -> &Topic {
        &self.topics[(n % 10) as usize]
    }

    /// What job number `n` is called.
    pub(crate) fn key(&self, n: u64) -> Key {
        Key::Named(self.topic(n).clone(), id(n))
    }
}

/// What job number `n` is called within its topic.
pub(crate) fn id(n: u64) -> Id {
    format!("order-{n:08}").parse().expect("it is short")
}

/// Spreads numbers that follow one another.
pub(crate) fn mix(n: u64) -> u64 {
    let mixed = (n ^ 0x5851_f42d_4c95_7f2d).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(crate) fn now_ms() -> u64 {
    since_1970().as_millis() as u64
}

/// Whoever takes jobs: the store, or the engine that forgets them.
pub(crate) trait Takes: Send + Sync + 'static {
    fn take(&self, jobs: Vec<NewJob>) -> impl Future<Output = ()> + Send;
}

impl Takes for Embedded {
    async fn take(&self, jobs: Vec<NewJob>) {
        let added = self.add_all(jobs).await.expect("the store takes jobs");
        assert!(added.iter().all(|one| one.is_ok()), "a job was refused: {added:?}");
    }
}

impl Takes for Null {
    async fn take(&self, jobs: Vec<NewJob>) {
        self.add_all(jobs).await.expect("the null engine takes jobs");
    }
}
