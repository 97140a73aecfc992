//! Looking without changing: jobs, pages, counts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::All;
use super::jobs::{Kept, Place};
use crate::error::{Error, Result};
use crate::job::Id;
use crate::machine::{Stage, State};
use crate::queue::{
    Bodies, Cursor, ERRORS_MAX, Filter, Forecast, JobInfo, Key, Page, PausedFor, Query, TopicInfo,
    Topics,
};
use crate::record::Record;
use crate::stats::Stats;
use crate::time::Now;
use crate::topic::{Counts, Topic};

/// Where a job stands among those of its state.
type Rank = (u64, u64, u64);

impl All {
    pub(super) fn get(&self, key: &Key, now: Now) -> Result<JobInfo> {
        self.number(key).map(|number| self.job(number).record.info_in_full(now))
    }

    pub(super) fn find(&self, id: &Id, now: Now) -> Vec<JobInfo> {
        let mut found: Vec<_> = self.jobs.iter().filter(|job| job.record.spec.id == *id).collect();
        found.sort_by_key(|job| job.record.number);
        found.iter().map(|job| job.record.info_with_body(now)).collect()
    }

    pub(super) fn browse(&self, query: &Query, now: Now) -> Result<Page> {
        self.page(query, |job| match query.bodies {
            Bodies::Without => job.info(now),
            Bodies::With => job.info_with_body(now),
        })
    }

    /// A page of whatever is shown of each job.
    pub(super) fn page<T>(&self, query: &Query, show: impl Fn(&Record) -> T) -> Result<Page<T>> {
        let stage = query.filter.stage;
        let after = query.cursor.as_ref().map(read_cursor).transpose()?;
        let mut left = self.fitting(&query.topic, &query.filter);
        left.retain(|job| after.is_none_or(|after| rank(job, stage) > after));
        let cursor =
            (left.len() > query.limit).then(|| write_cursor(rank(left[query.limit - 1], stage)));
        let shown = left.iter().take(query.limit).map(|job| show(&job.record));
        Ok(Page { jobs: shown.collect(), cursor })
    }

    /// The jobs of a topic that fit, in browse order.
    pub(super) fn fitting(&self, topic: &Topic, filter: &Filter) -> Vec<&Kept> {
        let fits = |job: &&Kept| {
            let (life, spec) = (&job.record.life, &job.record.spec);
            spec.topic == *topic
                && filter.fits(life.stage(), life.due, &spec.id, job.record.notes.last_error())
        };
        let mut found: Vec<_> = self.jobs.iter().filter(fits).collect();
        found.sort_by_key(|job| rank(job, filter.stage));
        found
    }

    pub(super) fn forecast(&self, forecast: &Forecast) -> Vec<u64> {
        let counted = |job: &&Kept| {
            forecast.topic.as_ref().is_none_or(|topic| topic == job.topic())
                && matches!(job.state(), State::Waiting { held: false, .. })
        };
        let part = |part: u32| {
            let (start, end) = (forecast.bucket_start(part), forecast.bucket_start(part + 1));
            let falls = |job: &&Kept| (start..end).contains(&job.record.life.due);
            self.jobs.iter().filter(counted).filter(falls).count() as u64
        };
        (0..forecast.buckets).map(part).collect()
    }

    pub(super) fn dead_by_error(&self, topic: &Topic) -> Vec<(Arc<str>, u64)> {
        let dead = Filter { stage: Some(Stage::Dead), ..Filter::default() };
        let mut counts = BTreeMap::<Arc<str>, u64>::new();
        for job in self.fitting(topic, &dead) {
            let error = job.record.notes.last_error().expect("a dead job has an error");
            *counts.entry(error.clone()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| Reverse(*count));
        counts.truncate(ERRORS_MAX);
        counts
    }

    pub(super) fn topics(&self, which: &Topics, now: Now) -> Vec<TopicInfo> {
        let fits = |topic: &&Topic| match which {
            Topics::One(one) => *topic == one,
            Topics::Page { prefix, after, .. } => {
                topic.as_str().starts_with(&**prefix)
                    && after.as_ref().is_none_or(|after| *topic > after)
            }
        };
        let limit = match which {
            Topics::One(_) => 1,
            Topics::Page { limit, .. } => *limit,
        };
        let names = self.topics.keys().filter(fits).take(limit);
        names.map(|topic| self.topic_info(topic, &self.topics[topic], now)).collect()
    }

    fn topic_info(&self, topic: &Topic, place: &Place, now: Now) -> TopicInfo {
        TopicInfo {
            topic: topic.clone(),
            settings: place.settings.clone(),
            paused: PausedFor::of(place.pause, now.tick),
            counts: self.counts(|job| job.topic() == topic),
            waiting: self.waiters.iter().filter(|waiter| waiter.names(topic)).count() as u64,
            added: place.added,
            bytes: place.settings.bytes_max.map(|_| self.bytes(topic)),
        }
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            counts: self.counts(|_| true),
            topics: self.topics.len() as u64,
            waiting: self.waiters.iter().filter(|waiter| waiter.pops()).count() as u64,
            ..self.stats.clone()
        }
    }

    fn counts(&self, fits: impl Fn(&Kept) -> bool) -> Counts {
        let mut counts = Counts::default();
        for job in self.jobs.iter().filter(|job| fits(job)) {
            match job.record.life.stage() {
                Stage::Delayed => counts.delayed += 1,
                Stage::Retry => counts.retry += 1,
                Stage::Held => counts.held += 1,
                Stage::Ready => counts.ready += 1,
                Stage::Reserved => counts.reserved += 1,
                Stage::Dead => counts.dead += 1,
                Stage::Finished => counts.finished += 1,
            }
            if job.state() == State::Ready && job.record.life.priority < 1024 {
                counts.urgent += 1;
            }
        }
        counts
    }
}

/// Where a job stands in the order that `stage` is browsed in.
fn rank(job: &Kept, stage: Option<Stage>) -> Rank {
    let (life, number) = (&job.record.life, job.record.number);
    match (stage, life.state) {
        (Some(Stage::Ready), _) => (u64::from(life.priority), life.due.as_ms(), number),
        (Some(Stage::Reserved), State::Reserved(hold)) => (hold.until.as_us(), number, 0),
        (Some(Stage::Dead | Stage::Finished), State::Dead { at } | State::Finished { at, .. }) => {
            (at.as_ms(), number, 0)
        }
        _ => (life.due.as_ms(), number, 0),
    }
}

fn write_cursor((first, second, third): Rank) -> Cursor {
    Cursor(format!("{first}-{second}-{third}"))
}

fn read_cursor(cursor: &Cursor) -> Result<Rank> {
    let parts: Option<Vec<u64>> = cursor.0.split('-').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some(&[first, second, third]) => Ok((first, second, third)),
        _ => Err(Error::invalid("cursor", "the cursor is none of ours; start from the first page")),
    }
}
