//! A store that says what it is asked, and refuses when it is told to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use linger::error::{Code, Error, Result};
use linger::job::{Id, NewJob};
use linger::machine::Owner;
use linger::queue::*;
use linger::stats::Stats;
use linger::store::memory::Memory;
use linger::time::Clock;
use linger::topic::{Defaults, Topic};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A store in memory that reports every pop and every settle.
pub(crate) struct Spy {
    memory: Memory,
    pops: UnboundedSender<Ask>,
    settles: UnboundedSender<(Verdict, Result<(), Code>)>,
    batches: UnboundedSender<usize>,
    /// Whoever holds it keeps settles from being answered.
    pub(crate) answers: tokio::sync::Mutex<()>,
    faults: Mutex<VecDeque<(Call, Fault)>>,
}

/// What the spy has seen.
pub(crate) struct Seen {
    pub(crate) pops: UnboundedReceiver<Ask>,
    pub(crate) settles: UnboundedReceiver<(Verdict, Result<(), Code>)>,
    /// How many were settled in each call.
    pub(crate) batches: UnboundedReceiver<usize>,
}

/// Which calls go wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Pop,
    Settle,
}

/// How a call goes wrong: the store is unavailable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Before anything is done.
    Before,
    /// When all is done: only the answer is lost.
    After,
}

impl Spy {
    pub(crate) fn new(memory: Memory) -> (Arc<Spy>, Seen) {
        let (pops, pops_seen) = unbounded_channel();
        let (settles, settles_seen) = unbounded_channel();
        let (batches, batches_seen) = unbounded_channel();
        let (answers, faults) = Default::default();
        let spy = Spy { memory, pops, settles, batches, answers, faults };
        let seen = Seen { pops: pops_seen, settles: settles_seen, batches: batches_seen };
        (Arc::new(spy), seen)
    }

    /// Lets the next such call go wrong; said `n` times, the next `n`.
    pub(crate) fn fail_next(&self, call: Call, fault: Fault) {
        self.faults.lock().unwrap().push_back((call, fault));
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let at = faults.iter().position(|(faulty, _)| *faulty == call)?;
        faults.remove(at).map(|(_, fault)| fault)
    }
}

impl Queue for Spy {
    async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        let _ = self.pops.send(ask.clone());
        match self.fault(Call::Pop) {
            Some(_) => Err(Error::new(Code::Unavailable, "away")),
            None => self.memory.pop(ask).await,
        }
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        let _ = self.batches.send(batch.len());
        let _answering = self.answers.lock().await;
        let fault = self.fault(Call::Settle);
        let answers = match fault {
            Some(Fault::Before) => {
                batch.iter().map(|_| Err(Error::new(Code::Unavailable, "away"))).collect()
            }
            _ => self.memory.settle(batch.clone()).await?,
        };
        for (settle, answer) in batch.into_iter().zip(&answers) {
            let code = answer.as_ref().map(|_| ()).map_err(Error::code);
            let _ = self.settles.send((settle.verdict, code));
        }
        match fault {
            Some(_) => Err(Error::new(Code::Unavailable, "away")),
            None => Ok(answers),
        }
    }

    async fn add_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        self.memory.add_all(jobs).await
    }

    async fn get(&self, key: &Key) -> Result<JobInfo> {
        self.memory.get(key).await
    }

    async fn find(&self, id: &Id) -> Result<Vec<JobInfo>> {
        self.memory.find(id).await
    }

    async fn reserve(&self, key: &Key, terms: Terms) -> Result<Delivery> {
        self.memory.reserve(key, terms).await
    }

    async fn change(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        self.memory.change(batch).await
    }

    async fn sweep(&self, sweep: Sweep) -> Result<u64> {
        self.memory.sweep(sweep).await
    }

    async fn let_go(&self, owner: Owner, how: LetGo) -> Result<u64> {
        self.memory.let_go(owner, how).await
    }

    async fn browse(&self, query: Query) -> Result<Page> {
        self.memory.browse(query).await
    }

    async fn dump(&self, query: Query) -> Result<Page<Whole>> {
        self.memory.dump(query).await
    }

    async fn restore(&self, jobs: Vec<Whole>) -> Result<Vec<Result<bool>>> {
        self.memory.restore(jobs).await
    }

    async fn forecast(&self, forecast: Forecast) -> Result<Vec<u64>> {
        self.memory.forecast(forecast).await
    }

    async fn dead_by_error(&self, topic: &Topic) -> Result<Vec<(Arc<str>, u64)>> {
        self.memory.dead_by_error(topic).await
    }

    async fn topics(&self, which: Topics) -> Result<Vec<TopicInfo>> {
        self.memory.topics(which).await
    }

    async fn configure(&self, topic: &Topic, change: TopicChange) -> Result<u64> {
        self.memory.configure(topic, change).await
    }

    fn set_defaults(&self, defaults: Defaults) {
        self.memory.set_defaults(defaults);
    }

    async fn ended(&self, max: usize) -> Result<Vec<Ended>> {
        self.memory.ended(max).await
    }

    async fn moved(&self, max: usize) -> Result<Moves> {
        self.memory.moved(max).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.memory.stats().await
    }

    async fn kv_write(&self, write: KvWrite) -> Result<u64> {
        self.memory.kv_write(write).await
    }

    async fn kv_read(&self, query: KvQuery) -> Result<Vec<KvEntry>> {
        self.memory.kv_read(query).await
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.memory.clock()
    }
}
