//! The one seam between the engine and everything around it.

mod change;
mod info;
mod kv;
mod look;
mod work;

pub use change::{Action, Bulk, Change, Mode, Sweep, TopicChange};
pub use info::{Added, Changed, How, JobInfo, Key, Standing};
pub use kv::{Expect, KvEntry, KvQuery, KvWrite};
pub use look::{Bodies, Cursor, Filter, Forecast, Page, PausedFor, Query, TopicInfo, Topics};
pub use work::{Ask, Delivery, Lane, LetGo, Settle, Source, Terms, Verdict};

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::job::{Id, NewJob};
use crate::machine::Owner;
use crate::stats::Stats;
use crate::time::Clock;
use crate::topic::{Defaults, Topic};

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
