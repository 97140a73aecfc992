//! What every test here starts with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use linger::error::Code;
use linger::queue::{JobInfo, Queue, Topics, Verdict};
use linger::store::Options;
use linger::store::memory::Memory;
use linger::testkit::SimClock;
use linger::topic::Counts;
use linger::worker::{Totals, Worker};
use linger::{Delivery, Job, Linger, Result};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::spy::{Seen, Spy};

/// Longer than any wait here, so that what hangs fails. Under tokio's paused clock it comes when
/// nothing else can happen.
const SOON: Duration = Duration::from_secs(20);

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("it does not happen")
}

pub(crate) struct Bench {
    pub(crate) clock: Arc<SimClock>,
    pub(crate) store: Arc<Spy>,
    pub(crate) queue: Linger<Spy>,
    pub(crate) seen: Seen,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let clock = SimClock::new();
        let options = Options { clock: clock.clone(), ..Options::default() };
        let (store, seen) = Spy::new(Memory::new(options));
        Bench { clock, queue: Linger::new(store.clone()), store, seen }
    }

    /// Adds a job that is due at once.
    pub(crate) async fn add(&self, topic: &str, id: &str) {
        self.add_job(Job::new(topic, "").id(id)).await;
    }

    pub(crate) async fn add_job(&self, job: Job) {
        self.queue.add(job).await.expect("the job is right");
    }

    pub(crate) async fn job(&self, topic: &str, id: &str) -> JobInfo {
        self.queue.get(topic, id).await.expect("the job is there")
    }

    pub(crate) async fn counts(&self, topic: &str) -> Counts {
        let which = Topics::One(topic.parse().unwrap());
        self.store
            .topics(which)
            .await
            .unwrap()
            .first()
            .map(|topic| topic.counts)
            .unwrap_or_default()
    }

    /// The next thing the store was told about a job, and what it answered.
    pub(crate) async fn settled(&mut self) -> (Verdict, Result<(), Code>) {
        soon(self.seen.settles.recv()).await.expect("the spy lives")
    }

    /// Waits until the runner has counted this.
    pub(crate) async fn counted(&self, what: impl Fn(Totals) -> bool) {
        soon(async {
            while !what(self.queue.runner().totals()) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Waits for what is under way, and counts.
    pub(crate) async fn totals(&self) -> Totals {
        soon(self.queue.drain(SOON / 2)).await;
        self.queue.runner().totals()
    }
}

/// A worker that says when it has begun and waits until it may go on.
pub(crate) struct Gate {
    begun: UnboundedReceiver<Delivery>,
    go: Arc<Semaphore>,
    most: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) fn new() -> (Gate, impl Worker + Clone) {
        let (begin, begun) = unbounded_channel();
        let (go, most) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let gate = Gate { begun, go: go.clone(), most: most.clone() };
        let now = Arc::new(AtomicUsize::new(0));
        let worker = move |job: Delivery| {
            let (begin, go, most, now) = (begin.clone(), go.clone(), most.clone(), now.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                begin.send(job)?;
                go.acquire().await?.forget();
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        };
        (gate, worker)
    }

    /// Waits for the next job to be begun.
    pub(crate) async fn begun(&mut self) -> Delivery {
        soon(self.begun.recv()).await.expect("the worker lives")
    }

    /// Lets `n` of those that wait, now or later, go on.
    pub(crate) fn go(&self, n: usize) {
        self.go.add_permits(n);
    }

    /// The most that ever ran at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}
