//! The one seam between the engine and everything around it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::dice::Lease;
use crate::error::{Code, Error, Result};
use crate::history::{Entry, Report};
use crate::job::{Body, Caller, Confirm, Id, NewJob, Patch, Spec, Target, Ttr};
use crate::machine::{Owner, Reach, Stage, Tally};
use crate::stats::Stats;
use crate::time::{Clock, Time};
use crate::topic::{Counts, Defaults, Settings, Topic};

/// A set of delayed jobs: the one seam between the engine and everything around it.
///
/// What each method promises is spelled out as tests in `testkit/conformance`; whatever passes
/// them is a store. Batches are decided in order, item by item, each atomic in itself; the outer
/// `Err` means that nothing of the batch is known to be done.
pub trait Queue: Send + Sync + 'static {
    /// Stores the jobs and answers one result each, in order, once none of them can be lost.
    fn add_all(&self, jobs: Vec<NewJob>)
    -> impl Future<Output = Result<Vec<Result<Added>>>> + Send;

    /// The job, with its body and history.
    fn get(&self, key: &Key) -> impl Future<Output = Result<JobInfo>> + Send;

    /// The jobs of this id in all topics, by number, with their bodies, at flat cost.
    fn find(&self, id: &Id) -> impl Future<Output = Result<Vec<JobInfo>>> + Send;

    /// Leases up to `ask.max` ready jobs, waiting up to `ask.wait` for the first; empty when over.
    ///
    /// Waiters are served first come, first served. Cancel safe: a dropped call leases nothing,
    /// and a job it had taken is ready again as if it had not been.
    fn pop(&self, ask: Ask) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// Leases this very job, ready or not: delayed, in retry, ready or dead; paused or not.
    fn reserve(&self, key: &Key, terms: Terms) -> impl Future<Output = Result<Delivery>> + Send;

    /// Ends or extends attempts: finish, fail, again, release, touch, bury.
    fn settle(
        &self,
        batch: Vec<Settle>,
    ) -> impl Future<Output = Result<Vec<Result<Changed>>>> + Send;

    /// Changes jobs by hand: update, hold, unhold, run, redrive, delete.
    fn change(
        &self,
        batch: Vec<Change>,
    ) -> impl Future<Output = Result<Vec<Result<Changed>>>> + Send;

    /// Does one thing to every job that fits a filter, in browse order, and counts them.
    ///
    /// Jobs whose state does not allow it are passed over and not counted.
    fn sweep(&self, sweep: Sweep) -> impl Future<Output = Result<u64>> + Send;

    /// Lets go of every lease tied to `owner`, and counts them.
    fn let_go(&self, owner: Owner, how: LetGo) -> impl Future<Output = Result<u64>> + Send;

    /// Jobs of a topic, a page at a time, in the order their state has.
    fn browse(&self, query: Query) -> impl Future<Output = Result<Page>> + Send;

    /// How many waiting jobs fall due in each of the equal parts of a span. Held ones do not.
    fn forecast(&self, forecast: Forecast) -> impl Future<Output = Result<Vec<u64>>> + Send;

    /// The dead jobs of a topic counted by their last error: the most frequent first, at most
    /// [`ERRORS_MAX`] of them.
    fn dead_by_error(
        &self,
        topic: &Topic,
    ) -> impl Future<Output = Result<Vec<(Arc<str>, u64)>>> + Send;

    /// Topics by name, with their settings and counts.
    fn topics(&self, which: Topics) -> impl Future<Output = Result<Vec<TopicInfo>>> + Send;

    /// Sets, pauses, resumes, empties or forgets a topic, and counts the jobs that are gone by it.
    fn configure(
        &self,
        topic: &Topic,
        change: TopicChange,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// What holds for jobs whose topic does not say either, from now on.
    fn set_defaults(&self, defaults: Defaults);

    /// What the store has counted since it was opened.
    fn stats(&self) -> impl Future<Output = Result<Stats>> + Send;

    /// Writes or removes one key of the key-value side; answers the version it now has.
    fn kv_write(&self, write: KvWrite) -> impl Future<Output = Result<u64>> + Send;

    /// Reads the key-value side, in the order of keys.
    fn kv_read(&self, query: KvQuery) -> impl Future<Output = Result<Vec<KvEntry>>> + Send;

    /// The clock that this store goes by.
    fn clock(&self) -> &Arc<dyn Clock>;
}

/// The most jobs one pop may lease.
pub const POP_MAX: u32 = 1000;
/// The most jobs a page may have.
pub const PAGE_MAX: usize = 1000;
/// The most entries a filtered page may look at; a page cut short by it still has a cursor.
pub const SCAN_MAX: usize = 10_000;
/// The most parts a forecast may have.
pub const FORECAST_PARTS_MAX: u32 = 1000;
/// The most errors that are told apart when dead jobs are counted.
pub const ERRORS_MAX: usize = 100;
/// The longest key of the key-value side, in bytes.
pub const KV_KEY_BYTES_MAX: usize = 512;
/// The largest value of the key-value side, in bytes.
pub const KV_VALUE_BYTES_MAX: usize = 64 * 1024;

/// How a caller names a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// By topic and id.
    Named(Topic, Id),
    /// By its number.
    Number(u64),
}

/// What became of an added job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Whether it is new.
    pub how: How,
    /// The job that is there now, without body and history.
    pub job: JobInfo,
}

/// Whether an added job is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is.
    New,
    /// One was there, and is left as it was.
    Kept,
    /// One was there, and this one took its place.
    Replaced,
}

/// A job as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Its number, never used again.
    pub number: u64,
    /// What the caller said.
    pub spec: Spec,
    /// What it carries, where that was asked for.
    pub body: Option<Body>,
    /// Where it is.
    pub stage: Stage,
    /// When it may run, or might have.
    pub due: Time,
    /// Smaller is sooner among ready jobs of a topic.
    pub priority: u32,
    /// When it was first due at all: what anchors the slots of its repeat.
    pub base: Time,
    /// Hand-outs of this occurrence that count.
    pub attempt: u32,
    /// Occurrences that ended before this one.
    pub occurrence: u32,
    /// How often it has changed.
    pub version: u64,
    /// When it was added.
    pub created: Time,
    /// Until when it is reserved, if it is.
    pub reserved_until: Option<Time>,
    /// What went wrong last.
    pub last_error: Option<Arc<str>>,
    /// What happened how often.
    pub tally: Tally,
    /// What happened, oldest first, where that was asked for.
    pub history: Vec<Entry>,
}

impl JobInfo {
    /// The next `n` times at which it is due, as far as that is known: its due time while it
    /// waits, then the slots of its repeat.
    pub fn upcoming(&self, n: usize) -> Vec<Time> {
        let waits = matches!(self.stage, Stage::Delayed | Stage::Retry | Stage::Held);
        let mut times: Vec<Time> = waits.then_some(self.due).into_iter().collect();
        if let Some(repeat) = &self.spec.repeat {
            let later = repeat
                .count_max()
                .map_or(n, |count| n.min(count.get().saturating_sub(self.occurrence + 1) as usize));
            times.extend(repeat.upcoming(self.base, self.due, later));
        }
        times.truncate(n);
        times
    }
}

/// A job that was handed out, with the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The job, with its body, without history.
    pub job: JobInfo,
    /// The proof that it is yours.
    pub lease: Lease,
    /// Until when.
    pub until: Time,
    /// How long it was given for.
    pub ttr: Ttr,
    /// Where to push it: the job's own target or its topic's.
    pub target: Option<Target>,
    /// When a push counts as finished: the job's own say or its topic's.
    pub confirm: Confirm,
}

impl Delivery {
    /// How to name the job when settling it.
    pub fn key(&self) -> Key {
        Key::Number(self.job.number)
    }

    /// The topic.
    pub fn topic(&self) -> &Topic {
        &self.job.spec.topic
    }

    /// The id.
    pub fn id(&self) -> &Id {
        &self.job.spec.id
    }

    /// What the job carries.
    pub fn body(&self) -> &Body {
        self.job.body.as_ref().expect("a delivery has a body")
    }

    /// The body, read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        self.body().parse()
    }
}

/// A wish for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// From which topics: best priority first, then oldest.
    pub from: Source,
    /// Jobs to be popped, or jobs to be pushed.
    pub lane: Lane,
    /// At most so many, 1 to [`POP_MAX`].
    pub max: u32,
    /// How long to wait for the first.
    pub wait: Duration,
    /// On what terms they are leased.
    pub terms: Terms,
}

impl Ask {
    /// One job of one topic, now or never.
    pub fn one(topic: Topic) -> Ask {
        Ask {
            from: Source::These(vec![topic]),
            lane: Lane::Pull,
            max: 1,
            wait: Duration::ZERO,
            terms: Terms::default(),
        }
    }

    /// Refuses an ask that could never be served.
    pub fn check(&self) -> Result<()> {
        if self.max == 0 || self.max > POP_MAX {
            let max = self.max;
            return Err(Error::invalid("max", format!("max is {max}; give 1 to {POP_MAX}")));
        }
        match &self.from {
            Source::These(topics) if topics.is_empty() => {
                Err(Error::invalid("topics", "topics is empty; name at least one"))
            }
            _ => Ok(()),
        }
    }
}

/// Where a pop looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In these topics.
    These(Vec<Topic>),
    /// In every topic, those to come included.
    Any,
}

/// A job with a target is pushed and never popped; one without is popped and never pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Jobs without a target.
    #[default]
    Pull,
    /// Jobs with one, of their own or by their topic.
    Push,
}

/// How a job is leased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// For this long; else as the job or its topic says.
    pub ttr: Option<Ttr>,
    /// Tied to this connection, stream or runner.
    pub owner: Option<Owner>,
}

/// The end of an attempt, or more time for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// Which job.
    pub key: Key,
    /// The holder's proof; without, whoever holds it.
    pub lease: Option<Lease>,
    /// What is to happen.
    pub verdict: Verdict,
    /// What the receiver answered, for the history.
    pub report: Option<Report>,
    /// Who says so.
    pub by: Option<Caller>,
}

impl Settle {
    /// Settles a delivery by its lease.
    pub fn delivery(delivery: &Delivery, verdict: Verdict) -> Settle {
        Settle { lease: Some(delivery.lease), ..Settle::key(delivery.key(), verdict) }
    }

    /// Settles a job whoever holds it.
    pub fn key(key: Key, verdict: Verdict) -> Settle {
        Settle { key, lease: None, verdict, report: None, by: None }
    }
}

/// What is to happen to a job that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Finish,
    /// The attempt failed.
    Fail {
        /// Why.
        error: Arc<str>,
        /// Wait this long instead of the next step.
        retry_in: Option<Duration>,
    },
    /// Not yet: ask again at the next step. Told apart from failures.
    Again {
        /// Wait this long instead of the next step.
        retry_in: Option<Duration>,
    },
    /// Give it back; no attempt is used.
    Release {
        /// Not before this long.
        delay: Duration,
        /// With a new priority.
        priority: Option<u32>,
    },
    /// Give it more time.
    Touch {
        /// This much from now; else as long as it was given for.
        ttr: Option<Ttr>,
    },
    /// Put it on the dead shelf.
    Bury {
        /// Why.
        error: Option<Arc<str>>,
        /// With a new priority.
        priority: Option<u32>,
    },
}

/// A change by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which job.
    pub key: Key,
    /// Only if it still has this version.
    pub if_version: Option<u64>,
    /// What to do.
    pub action: Action,
    /// Who does it.
    pub by: Option<Caller>,
}

impl Change {
    /// Does `action` to the job, whatever its version.
    pub fn new(key: Key, action: Action) -> Change {
        Change { key, if_version: None, action, by: None }
    }
}

/// What can be done to a job by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Change parts of it.
    Update(Patch),
    /// Set it aside.
    Hold,
    /// Let it go.
    Unhold,
    /// Make it ready now; a dead one is redriven.
    Run,
    /// Take it off the dead shelf.
    Redrive,
    /// Cancel it.
    Delete(Reach),
}

/// What became of a job that was settled or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Whether anything did change.
    pub changed: bool,
    /// The job as it is now, without body and history; none if it is gone.
    pub job: Option<JobInfo>,
}

/// One thing done to many jobs of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The topic.
    pub topic: Topic,
    /// Which of its jobs.
    pub filter: Filter,
    /// What to do.
    pub bulk: Bulk,
    /// To at most so many.
    pub limit: Option<u64>,
    /// For real, or only counting.
    pub mode: Mode,
    /// Who does it.
    pub by: Option<Caller>,
}

/// What can be done to many jobs at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// Finish them, whoever holds them.
    Finish,
    /// Cancel them.
    Delete,
    /// Make them ready now.
    Run,
    /// Set them aside.
    Hold,
    /// Let them go.
    Unhold,
    /// Take them off the dead shelf.
    Redrive,
}

/// Whether a sweep is for real.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Do it.
    #[default]
    Apply,
    /// Only count what would be done.
    DryRun,
}

/// Which jobs of a topic. All that is given must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// In this state.
    pub stage: Option<Stage>,
    /// Due at or after this moment.
    pub due_after: Option<Time>,
    /// Due before this moment.
    pub due_before: Option<Time>,
    /// With an id that begins like this.
    pub id_prefix: Option<Arc<str>>,
    /// With exactly this last error.
    pub error: Option<Arc<str>>,
}

impl Filter {
    /// Whether a job in this state, due then, with this id and error fits.
    pub fn fits(&self, stage: Stage, due: Time, id: &Id, error: Option<&Arc<str>>) -> bool {
        self.stage.is_none_or(|wanted| wanted == stage)
            && self.due_after.is_none_or(|after| due >= after)
            && self.due_before.is_none_or(|before| due < before)
            && self.id_prefix.as_ref().is_none_or(|prefix| id.as_str().starts_with(&**prefix))
            && self.error.as_ref().is_none_or(|wanted| Some(wanted) == error)
    }
}

/// How the leases of an owner are let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// The connection is gone: an attempt is used up.
    Lost,
    /// In good order: the attempt is given back.
    Released,
}

/// A wish to look at jobs.
///
/// In the order of their state: ready by priority, due and number; reserved by lease end; dead
/// and finished by when they became so; the others, and all states together, by due and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The topic.
    pub topic: Topic,
    /// Which of its jobs.
    pub filter: Filter,
    /// Whether bodies come along.
    pub bodies: Bodies,
    /// At most so many, 1 to [`PAGE_MAX`].
    pub limit: usize,
    /// Where the page before left off.
    pub cursor: Option<Cursor>,
}

impl Query {
    /// The first page of all jobs of a topic, without bodies.
    pub fn all(topic: Topic) -> Query {
        Query {
            topic,
            filter: Filter::default(),
            bodies: Bodies::Without,
            limit: 100,
            cursor: None,
        }
    }

    /// Refuses a page of no or too many jobs.
    pub fn check(&self) -> Result<()> {
        check_limit(self.limit)
    }
}

/// Whether a list carries bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bodies {
    /// It does not.
    #[default]
    Without,
    /// It does.
    With,
}

/// A place in a list that stays valid while jobs come and go. Opaque: only its store reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor(pub String);

/// Some jobs, and where to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The jobs.
    pub jobs: Vec<JobInfo>,
    /// Where to go on; none on the last page.
    pub cursor: Option<Cursor>,
}

/// A question about the future.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Of one topic, or of all.
    pub topic: Option<Topic>,
    /// From this moment on.
    pub from: Time,
    /// Until before this one.
    pub to: Time,
    /// In so many equal parts, 1 to [`FORECAST_PARTS_MAX`].
    pub parts: u32,
}

impl Forecast {
    /// Refuses a span without length, or too many parts.
    pub fn check(&self) -> Result<()> {
        if self.parts == 0 || self.parts > FORECAST_PARTS_MAX {
            let parts = self.parts;
            return Err(Error::invalid(
                "buckets",
                format!("buckets is {parts}; give 1 to {FORECAST_PARTS_MAX}"),
            ));
        }
        if self.from >= self.to {
            return Err(Error::invalid(
                "to",
                format!("to is {}, not after from {}", self.to, self.from),
            ));
        }
        Ok(())
    }

    /// The moment at which part `n` begins; part `parts` begins at the end.
    pub fn part_start(&self, n: u32) -> Time {
        let span = u128::from(self.to.ms_since(self.from));
        let ms = span * u128::from(n) / u128::from(self.parts);
        self.from.saturating_add_ms(ms as u64)
    }
}

/// Which topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topics {
    /// This one, if it exists.
    One(Topic),
    /// Those whose names begin like this and come after that one, at most so many.
    Page {
        /// The names' beginning.
        prefix: Arc<str>,
        /// The last name of the page before.
        after: Option<Topic>,
        /// At most so many, 1 to [`PAGE_MAX`].
        limit: usize,
    },
}

impl Topics {
    /// Refuses a page of no or too many topics.
    pub fn check(&self) -> Result<()> {
        match self {
            Topics::One(_) => Ok(()),
            Topics::Page { limit, .. } => check_limit(*limit),
        }
    }
}

/// A topic as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its name.
    pub topic: Topic,
    /// Its settings.
    pub settings: Settings,
    /// Whether it is paused, and for how long yet.
    pub paused: Option<PausedFor>,
    /// How many jobs are in each state.
    pub counts: Counts,
    /// How many calls wait for its jobs by name.
    pub waiting: u64,
    /// How many jobs were ever added to it, since it came to be.
    pub added: u64,
}

/// How long a topic stays paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausedFor {
    /// This long from now, rounded up to the millisecond.
    Only(Duration),
    /// Until someone resumes it.
    Ever,
}

/// What can be done to a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicChange {
    /// Gives it these settings in place of all it had.
    Set(Box<Settings>),
    /// Hands out nothing, for this long or until it is resumed.
    Pause(Option<Duration>),
    /// Hands out again.
    Resume,
    /// Removes all its jobs; settings stay.
    Empty,
    /// Removes all its jobs and settings.
    Forget,
}

/// A write to the key-value side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvWrite {
    /// The key, 1 to [`KV_KEY_BYTES_MAX`] bytes.
    pub key: Arc<str>,
    /// The value, at most [`KV_VALUE_BYTES_MAX`] bytes; none removes the key.
    pub value: Option<Bytes>,
    /// What must be there for the write to happen.
    pub expect: Expect,
    /// Gone by itself after this long.
    pub ttl: Option<Duration>,
}

impl KvWrite {
    /// Refuses a key or value over its limit.
    pub fn check(&self) -> Result<()> {
        if self.key.is_empty() || self.key.len() > KV_KEY_BYTES_MAX {
            let len = self.key.len();
            return Err(Error::invalid(
                "key",
                format!("key is {len} bytes; give 1 to {KV_KEY_BYTES_MAX}"),
            ));
        }
        match &self.value {
            Some(value) if value.len() > KV_VALUE_BYTES_MAX => {
                let message = format!(
                    "value is {} bytes, over the limit of {KV_VALUE_BYTES_MAX}",
                    value.len()
                );
                Err(Error::new(Code::TooLarge, message).field("value"))
            }
            _ => Ok(()),
        }
    }
}

/// What a write to the key-value side expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Anything.
    #[default]
    Any,
    /// Nothing there.
    Absent,
    /// This version there.
    Version(u64),
}

/// What to read from the key-value side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvQuery {
    /// One key.
    Key(Arc<str>),
    /// Keys that begin like this and come after that one, at most so many.
    Prefix {
        /// The keys' beginning.
        prefix: Arc<str>,
        /// The last key of the page before.
        after: Option<Arc<str>>,
        /// At most so many, 1 to [`PAGE_MAX`].
        limit: usize,
    },
}

impl KvQuery {
    /// Refuses a page of no or too many keys.
    pub fn check(&self) -> Result<()> {
        match self {
            KvQuery::Key(_) => Ok(()),
            KvQuery::Prefix { limit, .. } => check_limit(*limit),
        }
    }
}

/// One key of the key-value side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEntry {
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: Bytes,
    /// Counts the writes to the store's key-value side, so it is never used again for a key.
    pub version: u64,
}

/// Whether the same id may stand in several topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UniqueIds {
    /// It may.
    #[default]
    PerTopic,
    /// It is refused in a second topic.
    Global,
}

fn check_limit(limit: usize) -> Result<()> {
    if limit == 0 || limit > PAGE_MAX {
        return Err(Error::invalid("limit", format!("limit is {limit}; give 1 to {PAGE_MAX}")));
    }
    Ok(())
}
