//! The one seam between the engine and everything around it.

mod change;
mod ended;
mod info;
mod kv;
mod look;
mod moved;
mod room;
mod whole;
mod work;

pub use change::{Action, Bulk, Change, Mode, Sweep, TopicChange};
pub use ended::{End, Ended};
pub use info::{Added, Changed, How, JobInfo, Key, Standing, Was};
pub(crate) use kv::check_sizes as check_kv_sizes;
pub use kv::{Expect, KvEntry, KvQuery, KvWrite};
pub use look::{Bodies, Cursor, Filter, Forecast, Page, PausedFor, Query, TopicInfo, Topics};
pub use moved::{Moved, Moves};
pub use room::Room;
pub(crate) use room::Taken;
pub use whole::Whole;
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
/// ```
/// use linger::queue::{Ask, Queue, Settle, Verdict};
/// use linger::store::memory::Memory;
/// use linger::{Job, Result};
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// let store = Memory::default();
/// let now = store.clock().now().time();
/// store.add_all(vec![Job::new("mail", "hello").id("1").check(now)?]).await?;
///
/// let popped = store.pop(Ask::one("mail".parse()?)).await?;
/// let done = Settle::delivery(&popped[0], Verdict::Finish);
/// assert!(store.settle(vec![done]).await?[0].is_ok());
/// # Ok(())
/// # }
/// ```
///
/// # For those who write a store
///
/// Whatever passes the cases of `testkit/conformance` and agrees with the model is a store. These
/// are the rules behind them.
///
/// **What is decided already.** [`machine::step`](crate::machine::step) decides every move of a
/// job, and [`record`](crate::record) turns the words of this module into its events, records and
/// answers, errors included. A store keeps records, finds them in order, and carries out what was
/// decided, each move as one atomic step.
///
/// **Each call is one step in time.** It reads the clock once. First comes what the clock has
/// brought, in this order: leases that ran out ([`Event::Expire`]), jobs that are due
/// ([`Event::Due`]), pauses that are over, dead and finished jobs that are no longer kept
/// ([`Event::Lapse`]), keys past their ttl, those who wait, and last the waits that are over: a
/// job that falls due as a wait ends is still given. Then comes the call itself, and then whatever
/// that made possible for those who wait, who need no other call to be served.
///
/// **Two clocks.** Due times and how long dead and finished jobs are kept go by the wall clock;
/// leases, waits, pauses, rates and ttls of keys by the monotonic one.
///
/// **Ready is sticky.** A job is offered [`Event::Due`] when it is added, after every other move,
/// and when the clock reaches its due time. Once ready it stays so, though the clock be set back.
///
/// **Refusals come in this order**, and a refused item changes nothing: `invalid` or `too_large`
/// (a store calls the `check` of what it is given; `Record::new` and `Move::change` refuse a due
/// time that is too far), then `not_found` or `already_exists`, then `version_mismatch`, then what
/// the machine refuses. An invalid call is an outer `Err`; an item of a batch has its own.
///
/// **Batches** are decided in order, item by item, each atomic in itself. The outer `Err` means
/// that nothing of the batch is known to be done.
///
/// **Topics come and go by themselves.** One is there while a job, a setting, a pause or a waiting
/// pop that names it is, and when it goes, its bucket and its count of jobs ever added go too.
/// Looking makes none. Its settings are looked up when they are used, so that a change reaches
/// the jobs that wait and, by the target, those that are ready.
///
/// **Limits** hold for pops, not for [`reserve`](Queue::reserve). Each job popped takes a token of
/// its topic's [`Bucket`]; one that is recalled gives it back; new settings with a rate refit it
/// ([`Bucket::refit`](crate::topic::Bucket::refit)), so that a faster rate holds at once and the
/// same one gives nothing extra.
///
/// **Numbers** of jobs and versions of keys rise and are never used again.
///
/// [`Event::Expire`]: crate::machine::Event::Expire
/// [`Event::Due`]: crate::machine::Event::Due
/// [`Event::Lapse`]: crate::machine::Event::Lapse
/// [`Bucket`]: crate::topic::Bucket
pub trait Queue: Send + Sync + 'static {
    /// Stores the jobs and answers one result each, in order, once none of them can be lost.
    ///
    /// The same topic and id again is answered as [`OnConflict`](crate::job::OnConflict) says;
    /// with [`UniqueIds::Global`] the same id in another topic is refused whatever that says.
    fn add_all(&self, jobs: Vec<NewJob>)
    -> impl Future<Output = Result<Vec<Result<Added>>>> + Send;

    /// The job, with its body and history; `not_found` if there is none.
    fn get(&self, key: &Key) -> impl Future<Output = Result<JobInfo>> + Send;

    /// The jobs of this id in all topics, by number, with their bodies, at flat cost.
    fn find(&self, id: &Id) -> impl Future<Output = Result<Vec<JobInfo>>> + Send;

    /// Leases up to `ask.max` ready jobs, waiting up to `ask.wait` for the first; empty when over.
    ///
    /// The best comes first: by priority, then due, then number, over all topics asked for that
    /// may hand out and for which there is [`Room`], if that is limited. Waiters are served first come, first served; one that cannot be served holds
    /// up nobody. Cancel safe: a dropped call leases nothing, and a job it had taken is ready
    /// again as if it had not been ([`Event::Recall`](crate::machine::Event::Recall)).
    fn pop(&self, ask: Ask) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// Leases this very job: delayed, in retry, ready or dead, whatever its topic's pause, limits
    /// and lane.
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
    /// Jobs whose state does not allow it, or that would not change, are passed over, and count
    /// neither for the answer nor for the limit. In an unknown topic there are none: 0.
    fn sweep(&self, sweep: Sweep) -> impl Future<Output = Result<u64>> + Send;

    /// Lets go of every lease tied to `owner`, and counts them; 0 for an unknown one.
    fn let_go(&self, owner: Owner, how: LetGo) -> impl Future<Output = Result<u64>> + Send;

    /// Jobs of a topic, a page at a time, in the order their state has (see [`Query`]).
    ///
    /// An unknown topic has an empty page. A page may have fewer jobs than asked for and still a
    /// cursor, if the filter passed over [`SCAN_MAX`].
    fn browse(&self, query: Query) -> impl Future<Output = Result<Page>> + Send;

    /// Jobs of a topic with all that is kept of them, in pages as [`browse`](Queue::browse) has them.
    ///
    /// For those who move jobs to another store: leases come along, so this is no answer for callers.
    fn dump(&self, query: Query) -> impl Future<Output = Result<Page<Whole>>> + Send;

    /// Takes in jobs of another store as they were there, with new numbers; answers of each whether
    /// it is new here. One that has the same topic and id is left as it is: false.
    ///
    /// What the clock has brought meanwhile comes to them as to any other: a due time that has passed
    /// makes them ready, a lease that has ended was lost.
    fn restore(&self, jobs: Vec<Whole>) -> impl Future<Output = Result<Vec<Result<bool>>>> + Send;

    /// How many waiting jobs fall due in each of the equal buckets of a span. Held ones do not.
    fn forecast(&self, forecast: Forecast) -> impl Future<Output = Result<Vec<u64>>> + Send;

    /// The dead jobs of a topic counted by their last error: the most frequent first, equals by
    /// text, at most [`ERRORS_MAX`] of them.
    fn dead_by_error(
        &self,
        topic: &Topic,
    ) -> impl Future<Output = Result<Vec<(Arc<str>, u64)>>> + Send;

    /// Topics in the order of their names, with their settings and counts; unknown ones are left
    /// out.
    fn topics(&self, which: Topics) -> impl Future<Output = Result<Vec<TopicInfo>>> + Send;

    /// Sets, pauses, resumes, empties or forgets a topic, and counts the jobs that are gone by it.
    ///
    /// To set or pause a topic makes it; to resume, empty or forget an unknown one is `not_found`.
    fn configure(
        &self,
        topic: &Topic,
        change: TopicChange,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Jobs whose life is over, of topics that name an archive: finished, dead, deleted. Waits for
    /// the first, and hands out each once, to whoever asks first.
    ///
    /// What was not asked for when the store is closed is not handed out any more, nor are jobs
    /// that were replaced or went with all of their topic.
    fn ended(&self, max: usize) -> impl Future<Output = Result<Vec<Ended>>> + Send;

    /// What happened to jobs of which no caller was told one by one: leases that ran out or were lost
    /// with their connection, and whatever a sweep did. Waits for the first, and tells each once.
    ///
    /// Only of a store that was opened with [`Options::tells_moves`](crate::store::Options), and without
    /// jobs that went with all of their topic or are no longer kept.
    fn moved(&self, max: usize) -> impl Future<Output = Result<Moves>> + Send;

    /// What holds for jobs whose topic does not say either, from now on. Not stored.
    fn set_defaults(&self, defaults: Defaults);

    /// What the store has counted since it was opened.
    fn stats(&self) -> impl Future<Output = Result<Stats>> + Send;

    /// Writes or removes one key of the key-value side; answers the version of this write.
    ///
    /// [`KvWrite::check_there`] says when that is refused: removing a key that is not there is
    /// `not_found`. A write replaces the ttl too.
    fn kv_write(&self, write: KvWrite) -> impl Future<Output = Result<u64>> + Send;

    /// Reads the key-value side, in the order of keys; unknown keys are left out.
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
/// The most buckets a forecast may have.
pub const FORECAST_BUCKETS_MAX: u32 = 1000;
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
