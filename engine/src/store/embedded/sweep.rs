//! Lists, and what is done to many jobs: in slices, so that the decider does nothing long.

use super::call::{CHANGE_BYTES, Shared};
use super::read::{record, with_notes};
use super::state::{Snapshot, SortKey, State};
use crate::error::Result;
use crate::machine::Owner;
use crate::queue::{
    Bodies, Cursor, Filter, JobInfo, LetGo, Mode, PAGE_MAX, Page, Query, SCAN_MAX, Sweep, Whole,
};
use crate::record::{Move, Record};
use crate::time::Now;
use crate::topic::Topic;

/// The most jobs that are changed in one go.
const SLICE: usize = 1000;

/// What a page may have of a job.
pub(crate) trait Shown: Sized + Send {
    fn show(
        job: &Snapshot,
        record: Record,
        bodies: Bodies,
        now: Now,
    ) -> impl Future<Output = Result<Self>> + Send;
}

impl Shown for JobInfo {
    async fn show(_: &Snapshot, record: Record, bodies: Bodies, now: Now) -> Result<JobInfo> {
        Ok(match bodies {
            Bodies::With => record.info_with_body(now),
            Bodies::Without => record.info(now),
        })
    }
}

impl Shown for Whole {
    async fn show(job: &Snapshot, record: Record, _: Bodies, now: Now) -> Result<Whole> {
        Ok(with_notes(record, job).await?.whole(now))
    }
}

/// Some jobs that fit, but for their ids.
struct Slice {
    jobs: Vec<(SortKey, Snapshot)>,
    next: Option<SortKey>,
    seen: usize,
    now: Now,
}

impl Shared {
    /// A page of whatever is shown of each job.
    pub(crate) async fn page<T: Shown>(&self, query: Query) -> Result<Page<T>> {
        let mut after = query.cursor.as_ref().map(Cursor::place).transpose()?;
        let mut page = Page::default();
        let prefix = query.filter.id_prefix.clone();
        let mut scanned = 0;
        loop {
            let limit = if prefix.is_some() { PAGE_MAX } else { query.limit };
            let slice = self.slice(&query.topic, &query.filter, after, limit).await?;
            scanned += slice.seen;
            let last = slice.jobs.len();
            for (index, (place, job)) in slice.jobs.iter().enumerate() {
                let record = record(job).await?;
                let fits = |prefix: &str| record.spec.id.as_str().starts_with(prefix);
                if !prefix.as_deref().is_none_or(fits) {
                    continue;
                }
                page.jobs.push(T::show(job, record, query.bodies, slice.now).await?);
                if page.jobs.len() == query.limit {
                    let more = index + 1 < last || slice.next.is_some();
                    page.cursor = more.then(|| Cursor::at(*place));
                    return Ok(page);
                }
            }
            after = slice.next;
            let cut = prefix.is_none() || scanned >= SCAN_MAX;
            if after.is_none() || cut {
                page.cursor = after.map(Cursor::at);
                return Ok(page);
            }
        }
    }

    async fn slice(
        &self,
        topic: &Topic,
        filter: &Filter,
        after: Option<SortKey>,
        limit: usize,
    ) -> Result<Slice> {
        let (topic, filter) = (topic.clone(), filter.clone());
        self.look(move |state, now| {
            let walked = state.walk(&topic, &filter, after, limit);
            let shown = |(place, slot)| (place, state.snapshot(slot));
            let jobs = walked.slots.into_iter().map(shown).collect();
            Slice { jobs, next: walked.next, seen: walked.seen, now }
        })
        .await
    }

    pub(crate) async fn sweep(&self, sweep: Sweep) -> Result<u64> {
        let made = Move::bulk(sweep.bulk, sweep.by.clone());
        let limit = sweep.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let mut numbers = self.fitting(&sweep, &made, limit).await?;
        if sweep.mode == Mode::DryRun {
            return Ok(numbers.len() as u64);
        }
        let mut changed = 0;
        let size = SLICE.min(self.step_bytes_max / 4 / CHANGE_BYTES);
        while !numbers.is_empty() {
            let rest = numbers.split_off(numbers.len().min(size));
            let slice = std::mem::replace(&mut numbers, rest);
            let made = made.clone();
            let act = move |state: &mut State, now| make_all(state, &slice, &made, now);
            changed += self.write(size * CHANGE_BYTES, act).await?;
        }
        Ok(changed)
    }

    /// The numbers of the jobs that a sweep would change, in browse order.
    async fn fitting(&self, sweep: &Sweep, made: &Move, limit: usize) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        let mut after = None;
        loop {
            let next = match &sweep.filter.id_prefix {
                None => self.fitting_by_index(sweep, made, after, &mut numbers).await?,
                Some(prefix) => {
                    self.fitting_by_id(sweep, made, prefix, after, &mut numbers).await?
                }
            };
            if numbers.len() >= limit || next.is_none() {
                numbers.truncate(limit);
                return Ok(numbers);
            }
            after = next;
        }
    }

    async fn fitting_by_index(
        &self,
        sweep: &Sweep,
        made: &Move,
        after: Option<SortKey>,
        numbers: &mut Vec<u64>,
    ) -> Result<Option<SortKey>> {
        let (topic, filter, made) = (sweep.topic.clone(), sweep.filter.clone(), made.clone());
        let look = move |state: &mut State, now| {
            let walked = state.walk(&topic, &filter, after, SLICE);
            let slots = walked.slots.into_iter().map(|(_, slot)| slot);
            let changing = slots.filter(|slot| state.would_change(*slot, &made, now));
            (changing.map(|slot| state.number(slot)).collect::<Vec<u64>>(), walked.next)
        };
        let (found, next) = self.look(look).await?;
        numbers.extend(found);
        Ok(next)
    }

    /// Ids are on disk, so this reads every job that might fit.
    async fn fitting_by_id(
        &self,
        sweep: &Sweep,
        made: &Move,
        prefix: &str,
        after: Option<SortKey>,
        numbers: &mut Vec<u64>,
    ) -> Result<Option<SortKey>> {
        let slice = self.slice(&sweep.topic, &sweep.filter, after, SLICE).await?;
        let mut fitting = Vec::new();
        for (_, job) in &slice.jobs {
            if record(job).await?.spec.id.as_str().starts_with(prefix) {
                fitting.push(job.number);
            }
        }
        let made = made.clone();
        let look = move |state: &mut State, now| {
            fitting.retain(|number| {
                state.numbered(*number).is_some_and(|slot| state.would_change(slot, &made, now))
            });
            fitting
        };
        numbers.extend(self.look(look).await?);
        Ok(slice.next)
    }

    pub(crate) async fn let_go(&self, owner: Owner, how: LetGo) -> Result<u64> {
        let mut all = 0;
        loop {
            let act = move |state: &mut State, now| state.let_go(owner, how, now);
            let (gone, more) = self.write(CHANGE_BYTES, act).await?;
            all += gone;
            if !more {
                return Ok(all);
            }
        }
    }
}

fn make_all(state: &mut State, numbers: &[u64], made: &Move, now: Now) -> u64 {
    let mut changed = 0;
    for number in numbers {
        let Some(slot) = state.numbered(*number) else { continue };
        // Refused if the job has moved on since it was chosen.
        changed += u64::from(state.make(slot, made, now).unwrap_or(false));
    }
    changed
}
