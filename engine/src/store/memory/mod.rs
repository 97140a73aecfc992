//! The store in memory: complete and plain. The reference for every other store, and a real one
//! for whoever does not mind losing it.

mod browse;

mod orders;
mod pop;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::Result;
use crate::job::{Id, NewJob};
use crate::machine::Owner;
use crate::queue::{
    Added, Ask, Change, Changed, Delivery, Ended, Forecast, JobInfo, Key, KvEntry, KvQuery,
    KvWrite, LetGo, Moves, Page, Query, Queue, Settle, Sweep, Terms, TopicChange, TopicInfo,
    Topics, Whole,
};
use crate::record::not_found;
use crate::stats::Stats;
use crate::store::Options;
use crate::store::leaving::moves_of;
use crate::time::{Bell, Clock, Now};
use crate::topic::{Defaults, Topic};

use pop::Waiting;
use state::State;

/// A complete store that lives and dies with its process.
pub struct Memory {
    shared: Arc<Shared>,
    timer: Option<JoinHandle<()>>,
}

/// What the callers and the timer thread share.
struct Shared {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    bell: Arc<Bell>,
}

impl Memory {
    /// An empty store. Its timer is a thread of its own, which ends with the store.
    pub fn new(options: Options) -> Memory {
        let shared = Arc::new(Shared {
            clock: options.clock.clone(),
            state: Mutex::new(State::new(options)),
            bell: Arc::default(),
        });
        let timer = std::thread::Builder::new()
            .name("linger-timer".into())
            .spawn({
                let shared = shared.clone();
                move || shared.keep_time()
            })
            .expect("a thread can be started");
        Memory { shared, timer: Some(timer) }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new(Options::default())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // After a panic elsewhere too: a second one in a destructor would end the process.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).stopping = true;
        self.shared.bell.ring();
        if let Some(timer) = self.timer.take() {
            // A panic there has been printed; one here would hide what led to it.
            let _ = timer.join();
        }
    }
}

impl Shared {
    /// Does one thing, as one step: first what the clock has brought, then the thing itself,
    /// then whatever that made possible for those who wait.
    fn with<T>(&self, act: impl FnOnce(&mut State, Now) -> T) -> T {
        let mut state = self.lock();
        let now = self.clock.now();
        state.tick(now);
        let answer = act(&mut state, now);
        state.serve(now);
        if state.must_wake_earlier() {
            self.bell.ring();
        }
        answer
    }

    /// Sleeps until the next thing the clock will bring, for as long as the store lives.
    fn keep_time(&self) {
        loop {
            if self.with(|state, _| state.stopping) {
                return;
            }
            let wake = self.lock().arm();
            self.clock.park(&self.bell, wake);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the store never panics half-way")
    }
}

impl Queue for Memory {
    async fn add_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        Ok(self.shared.with(|state, now| jobs.into_iter().map(|job| state.add(job, now)).collect()))
    }

    async fn get(&self, key: &Key) -> Result<JobInfo> {
        self.shared.with(|state, now| {
            state.look(key).map(|job| job.info_in_full(now)).ok_or_else(|| not_found(key))
        })
    }

    async fn find(&self, id: &Id) -> Result<Vec<JobInfo>> {
        Ok(self
            .shared
            .with(|state, now| state.by_id(id).map(|job| job.info_with_body(now)).collect()))
    }

    async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        ask.check()?;
        let waiting = self.shared.with(|state, now| {
            let jobs = state.hand_out(&ask, now);
            if !jobs.is_empty() || ask.wait.is_zero() {
                return Err(jobs);
            }
            Ok(Waiting::new(&self.shared, state.wait(ask, now)))
        });
        match waiting {
            Err(at_once) => Ok(at_once),
            Ok(waiting) => waiting.await,
        }
    }

    async fn reserve(&self, key: &Key, terms: Terms) -> Result<Delivery> {
        self.shared.with(|state, now| state.reserve(key, terms, now))
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        Ok(self
            .shared
            .with(|state, now| batch.into_iter().map(|settle| state.settle(settle, now)).collect()))
    }

    async fn change(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        Ok(self
            .shared
            .with(|state, now| batch.into_iter().map(|change| state.change(change, now)).collect()))
    }

    async fn sweep(&self, sweep: Sweep) -> Result<u64> {
        Ok(self.shared.with(|state, now| state.sweep(sweep, now)))
    }

    async fn let_go(&self, owner: Owner, how: LetGo) -> Result<u64> {
        Ok(self.shared.with(|state, now| state.let_go(owner, how, now)))
    }

    async fn browse(&self, query: Query) -> Result<Page> {
        query.check()?;
        self.shared.with(|state, now| state.browse(&query, now))
    }

    async fn dump(&self, query: Query) -> Result<Page<Whole>> {
        query.check()?;
        self.shared.with(|state, now| state.page(&query, |job| job.whole(now)))
    }

    async fn restore(&self, jobs: Vec<Whole>) -> Result<Vec<Result<bool>>> {
        Ok(self
            .shared
            .with(|state, now| jobs.into_iter().map(|job| state.restore(job, now)).collect()))
    }

    async fn forecast(&self, forecast: Forecast) -> Result<Vec<u64>> {
        forecast.check()?;
        Ok(self.shared.with(|state, _| state.forecast(&forecast)))
    }

    async fn dead_by_error(&self, topic: &Topic) -> Result<Vec<(Arc<str>, u64)>> {
        Ok(self.shared.with(|state, _| state.dead_by_error(topic)))
    }

    async fn topics(&self, which: Topics) -> Result<Vec<TopicInfo>> {
        which.check()?;
        Ok(self.shared.with(|state, now| state.topics(&which, now)))
    }

    async fn configure(&self, topic: &Topic, change: TopicChange) -> Result<u64> {
        self.shared.with(|state, now| state.configure(topic, change, now))
    }

    async fn ended(&self, max: usize) -> Result<Vec<Ended>> {
        let leaving = self.shared.lock().leaving.clone();
        Ok(leaving.take(max).await)
    }

    async fn moved(&self, max: usize) -> Result<Moves> {
        let moves = self.shared.lock().moves.clone();
        moves_of(moves.as_deref(), max).await
    }

    fn set_defaults(&self, defaults: Defaults) {
        self.shared.with(|state, _| state.defaults = defaults);
    }

    async fn stats(&self) -> Result<Stats> {
        Ok(self.shared.with(|state, _| state.stats()))
    }

    async fn kv_write(&self, write: KvWrite) -> Result<u64> {
        write.check()?;
        self.shared.with(|state, now| state.kv.write(write, now))
    }

    async fn kv_read(&self, query: KvQuery) -> Result<Vec<KvEntry>> {
        query.check()?;
        Ok(self.shared.with(|state, _| state.kv.read(&query)))
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }
}
