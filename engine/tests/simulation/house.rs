//! A store that is moved by hand, and what tests do to it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use linger::Job;
use linger::dice::Dice;
use linger::error::{Error, Result};
use linger::job::{Body, NewJob, OnConflict};
use linger::machine::Reach;
use linger::queue::{
    Action, Ask, Change, Delivery, Expect, JobInfo, Key, KvWrite, Queue, Settle, Verdict,
};
use linger::store::Options;
use linger::store::embedded::files::Files;
use linger::store::embedded::{Durability, Embedded, Manual, Settings};
use linger::testkit::{SimClock, SimDisk};
use linger::time::Clock;

/// The smallest segments that a store has.
pub(crate) const SEGMENT_BYTES: u32 = 64 << 10;
/// Far more rounds than it takes to answer anything.
const ROUNDS_MAX: usize = 1000;

/// A store, its disk and its clock.
pub(crate) struct House {
    pub(crate) disk: SimDisk,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) settings: Settings,
    store: Option<Manual>,
    secret: u64,
}

impl House {
    pub(crate) fn new(durability: Durability) -> House {
        let settings =
            Settings { durability, segment_bytes: SEGMENT_BYTES, checkpoint_records: 1_000_000 };
        House::with(SimDisk::new(), settings)
    }

    /// A house that is not opened yet.
    pub(crate) fn with(disk: SimDisk, settings: Settings) -> House {
        House { disk, clock: SimClock::new(), settings, store: None, secret: 0 }
    }

    /// Opens it, or says why not. Each process has a secret of its own.
    pub(crate) fn open(&mut self) -> Result<()> {
        self.secret += 1;
        let options = Options {
            clock: self.clock.clone(),
            dice: Dice::seeded(self.secret),
            ..Options::default()
        };
        let files = Arc::new(self.disk.clone());
        self.store = Some(Manual::open(files, options, self.settings)?);
        Ok(())
    }

    pub(crate) fn opened(mut self) -> House {
        self.open().expect("it can be opened");
        self
    }

    /// Another process with what a power cut leaves.
    pub(crate) fn cut(&mut self, seed: u64) {
        self.store = None;
        self.disk = self.disk.crash(seed);
        self.open().expect("a crash is no damage");
    }

    /// Another process after kill -9.
    pub(crate) fn kill(&mut self) {
        self.store = None;
        self.disk = self.disk.survives_kill();
        self.open().expect("a kill is no damage");
    }

    pub(crate) fn close(&mut self) {
        self.store = None;
    }

    pub(crate) fn store(&mut self) -> &mut Manual {
        self.store.as_mut().expect("it is open")
    }

    pub(crate) fn queue(&mut self) -> Arc<Embedded> {
        self.store().store().clone()
    }

    /// Asks, and moves everything until it is answered; none if the power went off.
    pub(crate) fn ask<T>(&mut self, call: impl Future<Output = Result<T>>) -> Option<Result<T>> {
        let mut call = pin!(call);
        for _ in 0..ROUNDS_MAX {
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(answer) = polled {
                return Some(answer);
            }
            self.round();
            if self.disk.is_off() {
                return None;
            }
        }
        panic!("never answered");
    }

    pub(crate) fn round(&mut self) {
        let store = self.store();
        store.keep();
        store.decide();
        store.sync();
    }

    /// Moves everything until something has come about.
    pub(crate) fn rounds_until(&mut self, has_come: impl Fn(&House) -> bool) {
        let come = (0..ROUNDS_MAX).any(|_| {
            self.round();
            has_come(self)
        });
        assert!(come, "it never came about");
    }

    /// Lets the keeper do all it can, for some seconds.
    pub(crate) fn tidy(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
            for _ in 0..30 {
                self.round();
            }
        }
    }

    /// Adds a job that waits; answers its number, or none if the power went off.
    pub(crate) fn add(&mut self, id: &str, body: &str) -> Option<u64> {
        self.try_add(self.job(id, body)).map(|added| added.expect("it is added").number)
    }

    pub(crate) fn replace(&mut self, id: &str, body: &str) -> Option<u64> {
        let job = NewJob { on_conflict: OnConflict::Replace, ..self.job(id, body) };
        self.try_add(job).map(|added| added.expect("it is added").number)
    }

    pub(crate) fn job(&self, id: &str, body: &str) -> NewJob {
        let job = Job::new("t", Body::text(body)).id(id).delay(Duration::from_secs(3600));
        job.check(self.clock.now().time()).expect("a job")
    }

    pub(crate) fn try_add(&mut self, job: NewJob) -> Option<Result<JobInfo>> {
        let queue = self.queue();
        let mut added = self.ask(queue.add_all(vec![job]))?.expect("adds are answered");
        Some(added.remove(0).map(|added| added.job))
    }

    /// Deletes a job; none if the power went off.
    pub(crate) fn delete(&mut self, id: &str) -> Option<Result<()>> {
        let change = Change::new(key(id), Action::Delete(Reach::Any));
        let queue = self.queue();
        let mut deleted = self.ask(queue.change(vec![change]))?.expect("changes are answered");
        Some(deleted.remove(0).map(|_| ()))
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) {
        self.try_put(key, value).expect("it is written");
    }

    pub(crate) fn try_put(&mut self, key: &str, value: &str) -> Result<u64> {
        let (key, value) = (key.into(), Some(value.to_owned().into()));
        let (queue, write) = (self.queue(), KvWrite { key, value, expect: Expect::Any, ttl: None });
        self.ask(queue.kv_write(write)).expect("the power is on")
    }

    pub(crate) fn pop(&mut self) -> Option<Vec<Delivery>> {
        let queue = self.queue();
        Some(self.ask(queue.pop(Ask::one("t".parse().expect("a topic"))))?.expect("a pop"))
    }

    pub(crate) fn settle(&mut self, delivery: &Delivery, verdict: Verdict) -> Option<Result<()>> {
        let queue = self.queue();
        let settle = Settle::delivery(delivery, verdict);
        let mut settled = self.ask(queue.settle(vec![settle]))?.expect("settles are answered");
        Some(settled.remove(0).map(|_| ()))
    }

    pub(crate) fn get(&mut self, id: &str) -> Result<JobInfo> {
        let (queue, key) = (self.queue(), key(id));
        self.ask(queue.get(&key)).expect("the power is on")
    }

    pub(crate) fn body(&mut self, id: &str) -> Result<String> {
        let body = self.get(id)?.body.expect("it has a body");
        Ok(String::from_utf8_lossy(body.as_bytes()).into_owned())
    }

    /// The names of the files that begin like this, in order.
    pub(crate) fn files(&self, prefix: &str) -> Vec<String> {
        let mut names = self.disk.list().expect("the power is on");
        names.retain(|name| name.starts_with(prefix) && !name.ends_with(".tmp"));
        names.sort();
        names
    }

    /// All bytes of a file.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let file = self.disk.open(name).expect("the file is there");
        let mut bytes = vec![0; file.size().expect("a size") as usize];
        file.read_at(&mut bytes, 0).expect("it can be read");
        bytes
    }

    /// Whether there is more in a segment than its head.
    pub(crate) fn holds(&self, segment: &str) -> bool {
        self.bytes(segment)[512..].iter().any(|byte| *byte != 0)
    }
}

pub(crate) fn key(id: &str) -> Key {
    Key::Named("t".parse().expect("a topic"), id.parse().expect("an id"))
}

/// A body of so many bytes, unlike others.
pub(crate) fn long(what: &str, bytes: usize) -> String {
    format!("{what} {}", ".".repeat(bytes))
}

pub(crate) fn is_lost(answer: Result<()>) -> bool {
    answer.is_err_and(|error: Error| error.code() == linger::error::Code::LeaseLost)
}
