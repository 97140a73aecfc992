//! The queue as library users know it: text in, checked once, and straight on to the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::job::{Body, Job, NewJob, Patch};
use crate::machine::Reach;
use crate::queue::{
    Action, Added, Ask, Change, Changed, Delivery, JobInfo, Key, Lane, Queue, Settle, TopicChange,
    TopicInfo, Topics, UniqueIds, Verdict,
};
use crate::store::Options;
use crate::store::embedded::{self, Durability, Embedded};
use crate::store::memory::Memory;
#[cfg(feature = "redis")]
use crate::store::redis::{self, Redis};
use crate::topic::Defaults;
use crate::worker::{Drained, Hire, Outcome, Runner, Worker};

/// A delay queue with its workers. Cheap to clone; all clones are the same queue.
///
/// The workers live until [`drain`](Linger::drain), or until the last clone is dropped: jobs
/// under way are then given back. A worker that holds a clone itself is ended by `drain` alone.
///
/// ```
/// use linger::error::Code;
/// use linger::time::{HOUR, SECOND};
/// use linger::{Delivery, Job, Linger, Result};
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// let queue = Linger::memory();
/// queue
///     .worker("mail", |job: Delivery| async move {
///         println!("sending {}", job.id());
///         Ok(())
///     })
///     .start()?;
/// queue.add(Job::new("mail", "hello").id("1").delay(HOUR)).await?;
///
/// // Until it is finished it can be looked at, changed and cancelled.
/// assert_eq!(queue.get("mail", "1").await?.attempt, 0);
/// queue.delete("mail", "1").await?;
/// assert_eq!(queue.get("mail", "1").await.unwrap_err().code(), Code::NotFound);
///
/// queue.drain(10 * SECOND).await;
/// # Ok(())
/// # }
/// ```
///
/// Topics can be limited, paused and looked at:
///
/// ```
/// # use linger::queue::{PausedFor, TopicChange};
/// # use linger::topic::Settings;
/// # use linger::{Linger, Result};
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// # let queue = Linger::memory();
/// let settings = Settings { rate: Some("10/m".parse()?), ..Settings::default() };
/// queue.configure("mail", TopicChange::Set(Box::new(settings))).await?;
/// queue.configure("mail", TopicChange::Pause(None)).await?;
/// let mail = queue.topic("mail").await?.expect("its settings keep it there");
/// assert_eq!(mail.paused, Some(PausedFor::Ever));
/// # Ok(())
/// # }
/// ```
pub struct Linger<Q: Queue = Memory> {
    queue: Arc<Q>,
    runner: Arc<Runner<Q>>,
    body_bytes_max: usize,
}

impl Linger<Memory> {
    /// A queue in memory: its jobs end with the process.
    pub fn memory() -> Linger<Memory> {
        Linger::new(Arc::new(Memory::new(Options::default())))
    }
}

impl Linger<Embedded> {
    /// The queue in this folder, made if it is not there. What is acknowledged is on disk.
    ///
    /// ```
    /// use linger::time::MINUTE;
    /// use linger::{Job, Linger, Result};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder to play in");
    /// # let path = folder.path().join("linger-data");
    /// let queue = Linger::open(&path)?;
    /// queue.add(Job::new("order.close", "").id("1001").delay(30 * MINUTE)).await?;
    /// drop(queue);
    ///
    /// let queue = Linger::open(&path)?;
    /// assert_eq!(queue.get("order.close", "1001").await?.attempt, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Linger<Embedded>> {
        Linger::builder(path).open()
    }

    /// How to open the queue in this folder, to be said in more detail.
    ///
    /// ```
    /// use linger::store::embedded::Durability;
    /// use linger::{Linger, Result};
    ///
    /// # fn main() -> Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder to play in");
    /// # let path = folder.path().join("linger-data");
    /// let queue = Linger::builder(&path).durability(Durability::Relaxed).open()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder {
            path: path.as_ref().to_owned(),
            options: Options::default(),
            settings: embedded::Settings::default(),
        }
    }
}

#[cfg(feature = "redis")]
impl Linger<Redis> {
    /// The queue on the Redis at this URL, made if it is not there, and shared with all who connect
    /// to the same.
    ///
    /// It takes its share in making jobs ready when they are due. When the program ends in good order,
    /// [`Redis::leave`] of the [`store`](Linger::store) hands that over at once.
    ///
    /// The URL is `redis://host:port`, `redis+sentinel://host,host/master` or
    /// `redis+cluster://host,host`; with `rediss` for `redis` the way there is TLS. More can be said
    /// to [`Redis::open`], and its store given to [`Linger::new`].
    ///
    /// ```no_run
    /// use linger::time::MINUTE;
    /// use linger::{Job, Linger, Result};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<()> {
    /// let queue = Linger::connect("redis://127.0.0.1:6379").await?;
    /// queue.add(Job::new("order.close", "").id("1001").delay(30 * MINUTE)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Linger<Redis>> {
        let (address, settings) = (url.parse()?, redis::Settings::default());
        let store = Redis::open(&address, Options::default(), settings).await?;
        Ok(Linger::new(Arc::new(store)))
    }
}

/// How to open a queue in a folder.
#[derive(Clone)]
pub struct Builder {
    path: PathBuf,
    options: Options,
    settings: embedded::Settings,
}

impl Builder {
    /// When an answer may leave: when it is synced, unless set otherwise.
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.settings.durability = durability;
        self
    }

    /// What holds for jobs whose topic does not say.
    pub fn defaults(mut self, defaults: Defaults) -> Builder {
        self.options.defaults = defaults;
        self
    }

    /// Whether the same id may stand in several topics.
    pub fn unique_ids(mut self, unique_ids: UniqueIds) -> Builder {
        self.options.unique_ids = unique_ids;
        self
    }

    /// All the rest that the store can be opened with.
    pub fn settings(mut self, settings: embedded::Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// Opens it: what it holds is read back before this answers.
    pub fn open(self) -> Result<Linger<Embedded>> {
        let store = Embedded::open(self.path, self.options, self.settings)?;
        Ok(Linger::new(Arc::new(store)))
    }
}

impl<Q: Queue> Linger<Q> {
    /// A queue over this store.
    pub fn new(store: Arc<Q>) -> Linger<Q> {
        let runner = Arc::new(Runner::new(store.clone(), Lane::Pull));
        Linger { queue: store, runner, body_bytes_max: Body::BYTES_MAX_DEFAULT }
    }

    /// Refuses bodies over this size: 1 MiB unless set. Holds for this clone and those made of it.
    pub fn body_bytes_max(mut self, bytes_max: usize) -> Linger<Q> {
        self.body_bytes_max = bytes_max;
        self
    }

    /// The store itself, for all that is not here: lists, sweeps, forecasts, keys.
    pub fn store(&self) -> &Arc<Q> {
        &self.queue
    }

    /// The runner of the workers, for its bound over all topics and its counts.
    pub fn runner(&self) -> &Runner<Q> {
        &self.runner
    }

    /// Adds a job. Once this answers, it is kept as safely as the store keeps anything.
    pub async fn add(&self, job: Job) -> Result<Added> {
        let job = self.check(job)?;
        only(self.queue.add_all(vec![job]).await?)
    }

    /// Adds jobs in order, and answers each in its place. One that is refused stops no other; the
    /// outer error means that none is known to be added.
    pub async fn add_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<Result<Added>>> {
        let mut good = Vec::new();
        let checked: Vec<Result<()>> =
            jobs.into_iter().map(|job| self.check(job).map(|job| good.push(job))).collect();
        let mut added = self.queue.add_all(good).await?.into_iter();
        let mut next = || added.next().expect("a store answers each item of a batch");
        Ok(checked.into_iter().map(|checked| checked.and_then(|()| next())).collect())
    }

    /// The job, with its body and history.
    pub async fn get(&self, topic: &str, id: &str) -> Result<JobInfo> {
        self.queue.get(&key(topic, id)?).await
    }

    /// Changes parts of a job, together or not at all.
    pub async fn update(&self, topic: &str, id: &str, patch: Patch) -> Result<Changed> {
        if let Some(body) = &patch.body {
            body.check_size(self.body_bytes_max)?;
        }
        self.change(topic, id, Action::Update(patch)).await
    }

    /// Cancels a job: it is not handed out again.
    pub async fn delete(&self, topic: &str, id: &str) -> Result<Changed> {
        self.change(topic, id, Action::Delete(Reach::Any)).await
    }

    /// Makes a job ready now; a dead one gets its attempts anew.
    pub async fn run(&self, topic: &str, id: &str) -> Result<Changed> {
        self.change(topic, id, Action::Run).await
    }

    /// Sets a job aside: it is kept, and not handed out until it is let go.
    pub async fn hold(&self, topic: &str, id: &str) -> Result<Changed> {
        self.change(topic, id, Action::Hold).await
    }

    /// Lets a job go that was set aside.
    pub async fn unhold(&self, topic: &str, id: &str) -> Result<Changed> {
        self.change(topic, id, Action::Unhold).await
    }

    /// Finishes a job that was handed out, whoever holds it.
    pub async fn finish(&self, topic: &str, id: &str) -> Result<Changed> {
        let settle = Settle::key(key(topic, id)?, Verdict::Finish);
        only(self.queue.settle(vec![settle]).await?)
    }

    /// Leases a job that is ready, if there is one. Tell its end by [`settle`](Linger::settle).
    pub async fn pop(&self, topic: &str) -> Result<Option<Delivery>> {
        self.pop_wait(topic, Duration::ZERO).await
    }

    /// Leases a job, waiting this long for one to become ready.
    pub async fn pop_wait(&self, topic: &str, wait: Duration) -> Result<Option<Delivery>> {
        let ask = Ask { wait, ..Ask::one(topic.parse()?) };
        Ok(self.queue.pop(ask).await?.pop())
    }

    /// Ends the attempt of a job that was popped.
    pub async fn settle(&self, job: &Delivery, outcome: Outcome) -> Result<()> {
        let settle = outcome.settle(job);
        only(self.queue.settle(vec![settle]).await?).map(|_: Changed| ())
    }

    /// Sets, pauses, resumes, empties or forgets a topic, and counts the jobs that are gone by it.
    pub async fn configure(&self, topic: &str, change: TopicChange) -> Result<u64> {
        self.queue.configure(&topic.parse()?, change).await
    }

    /// A topic's settings and counts, if it is there.
    pub async fn topic(&self, topic: &str) -> Result<Option<TopicInfo>> {
        Ok(self.queue.topics(Topics::One(topic.parse()?)).await?.pop())
    }

    /// A worker for the jobs of a topic, to be started. See [`Runner::worker`].
    pub fn worker(&self, topic: &str, worker: impl Worker) -> Hire<'_, Q> {
        self.runner.worker(topic, worker)
    }

    /// Ends the workers for good: they have `within` to end by themselves, then they are cut off
    /// and their jobs given back. Jobs can still be added and popped.
    pub async fn drain(&self, within: Duration) -> Drained {
        self.runner.drain(within).await
    }

    fn check(&self, job: Job) -> Result<NewJob> {
        let job = job.check(self.queue.clock().now().time())?;
        job.body.check_size(self.body_bytes_max)?;
        Ok(job)
    }

    async fn change(&self, topic: &str, id: &str, action: Action) -> Result<Changed> {
        only(self.queue.change(vec![Change::new(key(topic, id)?, action)]).await?)
    }
}

impl<Q: Queue> Clone for Linger<Q> {
    fn clone(&self) -> Self {
        Linger { queue: self.queue.clone(), runner: self.runner.clone(), ..*self }
    }
}

fn key(topic: &str, id: &str) -> Result<Key> {
    Ok(Key::Named(topic.parse()?, id.parse()?))
}

/// The answer of a batch of one.
fn only<T>(mut answers: Vec<Result<T>>) -> Result<T> {
    answers.pop().expect("a store answers each item of a batch")
}
