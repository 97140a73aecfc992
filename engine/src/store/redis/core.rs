//! What all calls share: the connection, and what this instance alone knows.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use redis::Value;

use super::conn::{Conn, Script};
use super::keys::{Bucket, Keys};
use super::reply::Reply;
use super::waiters::Waiters;
use crate::dice::Dice;
use crate::error::Result;
use crate::machine::Owner;
use crate::queue::{Ended, UniqueIds};
use crate::stats::Stats;
use crate::store::leaving::Leaving;
use crate::time::{Clock, Now, StepWatch, Wake};
use crate::topic::{Defaults, Topic};

pub(super) struct Core {
    pub(super) conn: Conn,
    pub(super) keys: Keys,
    pub(super) clock: Arc<dyn Clock>,
    /// Whether that clock is the one that scripts go by; else they go by Redis's.
    pub(super) clock_is_given: bool,
    pub(super) dice: Dice,
    pub(super) unique_ids: UniqueIds,
    pub(super) leaving: Leaving<Ended>,
    defaults: Mutex<Defaults>,
    known: Mutex<Known>,
    /// How many messages were heard.
    heard: AtomicU64,
    /// On a clock that is given: the moment at which the call under way was made.
    moment: Mutex<Option<Now>>,
}

/// What this instance alone knows.
#[derive(Default)]
pub(super) struct Known {
    pub(super) waiters: Waiters,
    pub(super) stats: Stats,
    pub(super) watch: StepWatch,
    /// What was handed out to somebody who may let go of all, and was not settled here since.
    pub(super) owned: HashMap<u64, Owner>,
    /// When the clock brings the next thing.
    pub(super) wake: Wake,
}

impl Core {
    pub(super) fn new(
        conn: Conn,
        keys: Keys,
        options: crate::store::Options,
        clock_is_given: bool,
    ) -> Core {
        Core {
            conn,
            keys,
            clock: options.clock,
            clock_is_given,
            dice: options.dice,
            unique_ids: options.unique_ids,
            leaving: Leaving::default(),
            defaults: Mutex::new(options.defaults),
            known: Mutex::default(),
            heard: AtomicU64::new(0),
            moment: Mutex::default(),
        }
    }

    /// A message came.
    pub(super) fn heard_something(&self) {
        self.heard.fetch_add(1, Ordering::SeqCst);
    }

    /// How many have come.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::SeqCst)
    }

    /// The time, as far as this instance knows it.
    pub(super) fn now(&self) -> Now {
        let moment = *self.moment.lock().expect("nobody panics holding it");
        moment.unwrap_or_else(|| self.clock.now())
    }

    /// Sets the time that the next calls go by.
    pub(super) fn set_moment(&self, now: Now) {
        *self.moment.lock().expect("nobody panics holding it") = Some(now);
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("nobody panics holding it")
    }

    pub(super) fn defaults(&self) -> Defaults {
        self.defaults.lock().expect("nobody panics holding them").clone()
    }

    pub(super) fn set_defaults(&self, defaults: Defaults) {
        *self.defaults.lock().expect("nobody panics holding them") = defaults;
    }

    pub(super) fn bucket_of(&self, topic: &Topic) -> Bucket {
        self.keys.bucket_of(topic)
    }

    /// Runs a script in a bucket.
    pub(super) async fn eval(
        &self,
        script: &Script,
        bucket: Bucket,
        args: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Value> {
        let waited_for = self.known().waiters.topics_in(&self.keys, bucket);
        self.eval_at(script, self.keys.of_bucket(bucket), waited_for, args).await
    }

    /// Runs a script in a bucket that answers a list.
    pub(super) async fn ask(
        &self,
        script: &Script,
        bucket: Bucket,
        args: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Reply> {
        Reply::of(self.eval(script, bucket, args).await?)
    }

    /// Runs a script with the same arguments in all buckets.
    pub(super) async fn ask_all(&self, script: &Script, args: &[Vec<u8>]) -> Result<Vec<Reply>> {
        let ask = |bucket| self.ask(script, bucket, args.to_vec());
        all(self.keys.buckets().map(ask)).await
    }

    pub(super) async fn eval_at(
        &self,
        script: &Script,
        key: String,
        waited_for: Vec<u8>,
        args: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Value> {
        let mut all = vec![self.time(), waited_for];
        all.extend(args);
        self.conn.eval(script, key.as_bytes(), all).await
    }

    fn time(&self) -> Vec<u8> {
        if !self.clock_is_given {
            return Vec::new();
        }
        let now = self.now();
        format!("{}:{}", now.wall_us, now.tick.as_us()).into_bytes()
    }
}

/// Has them all done side by side, which is one batch for the connection; answers in order.
pub(super) async fn all<T>(
    doing: impl IntoIterator<Item = impl Future<Output = Result<T>>>,
) -> Result<Vec<T>> {
    let mut doing: Vec<_> = doing.into_iter().map(|one| (Box::pin(one), None)).collect();
    poll_fn(|context| {
        let mut under_way = false;
        for (one, answer) in doing.iter_mut().filter(|(_, answer)| answer.is_none()) {
            match one.as_mut().poll(context) {
                Poll::Ready(done) => *answer = Some(done),
                Poll::Pending => under_way = true,
            }
        }
        if under_way { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    doing.into_iter().map(|(_, answer)| answer.expect("all are done")).collect()
}

/// A number as an argument.
pub(super) fn arg(number: impl ToString) -> Vec<u8> {
    number.to_string().into_bytes()
}
