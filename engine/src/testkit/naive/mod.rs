//! The reference model: a queue so plain that it is right by reading it.
//!
//! Everything is a list under one lock, every question a scan. With the real stores it shares what
//! is decided outside of them (`record`, `machine`, the words of the domain) and nothing else. It
//! keeps no thread: time is noticed at every call, and when a waiting pop is polled.

mod jobs;
mod kv;
mod look;
mod pop;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use self::jobs::{Kept, Place};
use self::kv::Shelf;
use self::pop::{Popped, Waiter};
use crate::dice::Dice;
use crate::error::Result;
use crate::job::{Id, NewJob};
use crate::machine::Owner;
use crate::queue::{
    Added, Ask, Change, Changed, Delivery, Ended, Forecast, JobInfo, Key, KvEntry, KvQuery,
    KvWrite, LetGo, Moved, Moves, Page, Query, Queue, Settle, Sweep, Terms, TopicChange, TopicInfo,
    Topics, UniqueIds, Whole,
};
use crate::stats::Stats;
use crate::store::Options;
use crate::store::leaving::{Leaving, moves_of};
use crate::time::{Clock, Now, StepWatch};
use crate::topic::{Defaults, Topic};

/// A queue of plain lists and scans, which the real stores are compared with.
pub struct Naive {
    clock: Arc<dyn Clock>,
    all: Mutex<All>,
}

/// All there is.
struct All {
    dice: Dice,
    unique_ids: UniqueIds,
    defaults: Defaults,
    jobs: Vec<Kept>,
    topics: BTreeMap<Topic, Place>,
    /// In order of arrival.
    waiters: Vec<Waiter>,
    /// What was found for waiters that have not been polled since.
    answers: BTreeMap<u64, Vec<Delivery>>,
    /// To be woken once the lock is free.
    awake: Vec<Waker>,
    shelf: Shelf,
    leaving: Arc<Leaving<Ended>>,
    moves: Option<Arc<Leaving<Moved>>>,
    numbers_used: u64,
    waiters_seen: u64,
    /// The counters; what can be counted afresh is left at nothing.
    stats: Stats,
    watch: StepWatch,
}

impl Naive {
    /// An empty queue.
    pub fn new(options: Options) -> Naive {
        let all = All {
            dice: options.dice,
            unique_ids: options.unique_ids,
            defaults: options.defaults,
            jobs: Vec::new(),
            topics: BTreeMap::new(),
            waiters: Vec::new(),
            answers: BTreeMap::new(),
            awake: Vec::new(),
            shelf: Shelf::default(),
            leaving: Arc::new(Leaving::to_archive()),
            moves: options.tells_moves.then(|| Arc::new(Leaving::to_log())),
            numbers_used: 0,
            waiters_seen: 0,
            stats: Stats::default(),
            watch: StepWatch::default(),
        };
        Naive { clock: options.clock, all: Mutex::new(all) }
    }

    /// Does what the clock has brought, then the call itself, then what follows from it.
    fn call<T>(&self, act: impl FnOnce(&mut All, Now) -> T) -> T {
        let mut all = self.all.lock().expect("nobody panics holding the model");
        let now = self.clock.now();
        all.tick(now);
        let answer = act(&mut all, now);
        all.follow_up(now);
        let awake = std::mem::take(&mut all.awake);
        drop(all);
        awake.into_iter().for_each(Waker::wake);
        answer
    }
}

impl All {
    fn tick(&mut self, now: Now) {
        if self.watch.observe(now).is_some() {
            self.stats.clock_steps += 1;
        }
        self.expire(now);
        self.promote(now);
        self.end_pauses(now);
        self.lapse(now);
        self.shelf.forget_old(now);
        self.serve(now);
        self.send_away(now);
        self.drop_empty_topics();
    }

    fn follow_up(&mut self, now: Now) {
        self.serve(now);
        self.drop_empty_topics();
    }
}

impl Queue for Naive {
    async fn add_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        self.call(|all, now| Ok(jobs.into_iter().map(|job| all.add(job, now)).collect()))
    }

    async fn get(&self, key: &Key) -> Result<JobInfo> {
        self.call(|all, now| all.get(key, now))
    }

    async fn find(&self, id: &Id) -> Result<Vec<JobInfo>> {
        self.call(|all, now| Ok(all.find(id, now)))
    }

    async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        ask.check()?;
        match self.call(|all, now| all.pop(ask, now)) {
            Popped::Now(found) => Ok(found),
            Popped::Later(waiter) => Ok(Waiting { naive: self, waiter }.await),
        }
    }

    async fn reserve(&self, key: &Key, terms: Terms) -> Result<Delivery> {
        self.call(|all, now| all.reserve(key, terms, now))
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        self.call(|all, now| Ok(batch.into_iter().map(|one| all.settle(one, now)).collect()))
    }

    async fn change(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        self.call(|all, now| Ok(batch.into_iter().map(|one| all.change(one, now)).collect()))
    }

    async fn sweep(&self, sweep: Sweep) -> Result<u64> {
        self.call(|all, now| Ok(all.sweep(&sweep, now)))
    }

    async fn let_go(&self, owner: Owner, how: LetGo) -> Result<u64> {
        self.call(|all, now| Ok(all.let_go(owner, how, now)))
    }

    async fn browse(&self, query: Query) -> Result<Page> {
        query.check()?;
        self.call(|all, now| all.browse(&query, now))
    }

    async fn dump(&self, query: Query) -> Result<Page<Whole>> {
        query.check()?;
        self.call(|all, now| all.page(&query, |job| job.whole(now)))
    }

    async fn restore(&self, jobs: Vec<Whole>) -> Result<Vec<Result<bool>>> {
        self.call(|all, now| Ok(jobs.into_iter().map(|job| all.restore(job, now)).collect()))
    }

    async fn forecast(&self, forecast: Forecast) -> Result<Vec<u64>> {
        forecast.check()?;
        self.call(|all, _| Ok(all.forecast(&forecast)))
    }

    async fn dead_by_error(&self, topic: &Topic) -> Result<Vec<(Arc<str>, u64)>> {
        self.call(|all, _| Ok(all.dead_by_error(topic)))
    }

    async fn topics(&self, which: Topics) -> Result<Vec<TopicInfo>> {
        which.check()?;
        self.call(|all, now| Ok(all.topics(&which, now)))
    }

    async fn configure(&self, topic: &Topic, change: TopicChange) -> Result<u64> {
        self.call(|all, now| all.configure(topic, change, now))
    }

    fn set_defaults(&self, defaults: Defaults) {
        self.call(|all, _| all.defaults = defaults);
    }

    async fn ended(&self, max: usize) -> Result<Vec<Ended>> {
        let leaving = self.call(|all, _| all.leaving.clone());
        Ok(leaving.take(max).await)
    }

    async fn moved(&self, max: usize) -> Result<Moves> {
        let moves = self.call(|all, _| all.moves.clone());
        moves_of(moves.as_deref(), max).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.call(|all, _| Ok(all.stats()))
    }

    async fn kv_write(&self, write: KvWrite) -> Result<u64> {
        write.check()?;
        self.call(|all, now| all.shelf.write(write, now))
    }

    async fn kv_read(&self, query: KvQuery) -> Result<Vec<KvEntry>> {
        query.check()?;
        self.call(|all, _| Ok(all.shelf.read(&query)))
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

/// A pop that found nothing yet. Dropped, it leaves no trace.
struct Waiting<'a> {
    naive: &'a Naive,
    waiter: u64,
}

impl Future for Waiting<'_> {
    type Output = Vec<Delivery>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Delivery>> {
        let found = self.naive.call(|all, _| all.collect(self.waiter, context.waker()));
        found.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.naive.call(|all, now| all.hang_up(self.waiter, now));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job::{Body, Job};
    use crate::queue::Verdict;
    use crate::testkit::SimClock;
    use crate::time::{MINUTE, SECOND};

    fn naive() -> (Naive, Arc<SimClock>) {
        let clock = SimClock::new();
        let options = Options { clock: clock.clone(), ..Options::default() };
        (Naive::new(options), clock)
    }

    async fn add(naive: &Naive, id: &str, delay: Duration) {
        let job = Job::new("t", Body::default()).id(id).delay(delay);
        let job = job.check(naive.clock().now().time()).unwrap();
        naive.add_all(vec![job]).await.unwrap().remove(0).unwrap();
    }

    fn ask(wait: Duration) -> Ask {
        Ask { wait, ..Ask::one("t".parse().unwrap()) }
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_job_is_handed_out_when_due_and_gone_when_finished() {
        let (naive, clock) = naive();
        add(&naive, "1", MINUTE).await;
        assert!(naive.pop(ask(Duration::ZERO)).await.unwrap().is_empty());
        clock.advance(MINUTE);
        let popped = naive.pop(ask(Duration::ZERO)).await.unwrap();
        let done = Settle::delivery(&popped[0], Verdict::Finish);
        assert!(naive.settle(vec![done]).await.unwrap()[0].is_ok());
        let stats = naive.stats().await.unwrap();
        assert_eq!((stats.topics, stats.finished, stats.counts.total()), (0, 1, 0));
    }

    #[tokio::test]
    async fn a_waiting_pop_is_served_in_turn_or_sent_away() {
        let (naive, clock) = naive();
        let mut first = Box::pin(naive.pop(ask(MINUTE)));
        let mut second = Box::pin(naive.pop(ask(2 * SECOND)));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        add(&naive, "1", SECOND).await;
        clock.advance(SECOND);
        assert!(poll(second.as_mut()).is_pending());
        assert!(matches!(poll(first.as_mut()), Poll::Ready(Ok(found)) if found.len() == 1));
        clock.advance(SECOND);
        assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(found)) if found.is_empty()));
    }

    #[tokio::test]
    async fn a_dropped_pop_leases_nothing() {
        let (naive, _clock) = naive();
        let mut waiting = Box::pin(naive.pop(ask(MINUTE)));
        assert!(poll(waiting.as_mut()).is_pending());
        add(&naive, "1", Duration::ZERO).await;
        assert_eq!(naive.stats().await.unwrap().counts.reserved, 1);
        drop(waiting);
        let stats = naive.stats().await.unwrap();
        assert_eq!((stats.counts.reserved, stats.counts.ready, stats.handed_out), (0, 1, 1));
        assert_eq!(naive.pop(ask(Duration::ZERO)).await.unwrap()[0].job.attempt, 1);
    }
}
