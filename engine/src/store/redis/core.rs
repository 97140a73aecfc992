//! What all calls share: the connection, and what this instance alone knows.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use redis::Value;
use tokio::sync::Notify;

use super::conn::{Conn, Script};
use super::gather::Gather;
use super::keys::{Bucket, Keys};
use super::moves::{Adds, Finishes};
use super::pop::Hands;
use super::quiet::Quiet;
use super::reply::Reply;
use super::spread::Spread;
use super::waiters::Waiters;
use crate::dice::Dice;
use crate::error::Result;
use crate::machine::Owner;
use crate::queue::{Ended, Moved, UniqueIds};
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
    /// Moves that nobody is told of, if somebody wants to know.
    pub(super) moves: Option<Leaving<Moved>>,
    pub(super) adds: Gather<Adds>,
    pub(super) hands: Gather<Hands>,
    pub(super) finishes: Gather<Finishes>,
    defaults: Mutex<Defaults>,
    known: Mutex<Known>,
    /// Rung when a wait ends sooner than anybody would look.
    pub(super) sooner: Notify,
    /// What leases and nonces are made from, by this instance alone, and how often they were.
    pub(super) chances: AtomicU64,
    pub(super) chance: Dice,
    /// Which of several buckets is asked first goes round by this.
    pub(super) turn: AtomicUsize,
    /// On a clock that is given: the moment at which the call under way was made.
    moment: Mutex<Option<Now>>,
}

/// What this instance alone knows.
#[derive(Default)]
pub(super) struct Known {
    pub(super) waiters: Waiters,
    pub(super) quiet: Quiet,
    pub(super) spread: Spread,
    /// Topics that nobody waits for any more: they may be over.
    pub(super) unnamed: BTreeSet<Topic>,
    pub(super) stats: Stats,
    pub(super) watch: StepWatch,
    /// What was handed out to somebody who may let go of all, and was not settled here since.
    pub(super) owned: HashMap<u64, Owner>,
    /// When the clock brings the next thing.
    pub(super) wake: Wake,
    /// How many jobs pops made ready, which are work done for these buckets as well.
    pub(super) made_ready: HashMap<Bucket, u64>,
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
            leaving: Leaving::to_archive(),
            moves: options.tells_moves.then(Leaving::to_log),
            adds: Gather::default(),
            hands: Gather::default(),
            finishes: Gather::default(),
            defaults: Mutex::new(options.defaults),
            known: Mutex::default(),
            sooner: Notify::new(),
            chances: AtomicU64::new(0),
            chance: Dice::secret(),
            turn: AtomicUsize::new(0),
            moment: Mutex::default(),
        }
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

    /// Runs a script in a bucket.
    pub(super) async fn eval(
        &self,
        script: &Script,
        bucket: Bucket,
        args: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Value> {
        let waited_for = self.known().waited_for_in(&self.keys, bucket);
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

    /// As [`Core::ask`]; when the answer is lost, has `instead` run, and says so. Such a script finds out
    /// what was done, or may be done twice. What its arguments are follows from those of the first.
    pub(super) async fn ask_or(
        &self,
        bucket: Bucket,
        script: &Script,
        args: Vec<Vec<u8>>,
        instead: &Script,
        its_args: impl FnOnce(Vec<Vec<u8>>) -> Vec<Vec<u8>>,
    ) -> Result<(Reply, bool)> {
        let waited_for = self.known().waited_for_in(&self.keys, bucket);
        let front = [self.time(), waited_for];
        let all: Vec<Vec<u8>> = front.iter().cloned().chain(args).collect();
        let again = |all: Vec<Vec<u8>>| {
            let args = its_args(all.into_iter().skip(front.len()).collect());
            front.into_iter().chain(args).collect()
        };
        let key = self.keys.of_bucket(bucket);
        let asked = self.conn.eval_or(key.as_bytes(), script, all, instead, again).await;
        asked.and_then(|(value, instead)| Ok((Reply::of(value)?, instead)))
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
