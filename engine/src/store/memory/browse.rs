//! Looking at jobs without touching them.

use std::ops::Bound;
use std::sync::Arc;

use crate::error::Result;
use crate::machine::Stage;
use crate::queue::{
    Bodies, Cursor, ERRORS_MAX, Filter, Forecast, Page, PausedFor, Query, SCAN_MAX, TopicInfo,
    Topics,
};
use crate::record::Record;
use crate::time::{Now, Time};
use crate::topic::Topic;

use super::orders::{Orders, Place, number_at};
use super::state::State;

impl State {
    pub(super) fn browse(&self, query: &Query, now: Now) -> Result<Page> {
        self.page(query, |job| match query.bodies {
            Bodies::With => job.info_with_body(now),
            Bodies::Without => job.info(now),
        })
    }

    /// A page of whatever is shown of each job.
    pub(super) fn page<T>(&self, query: &Query, show: impl Fn(&Record) -> T) -> Result<Page<T>> {
        let after = query.cursor.as_ref().map(Cursor::place).transpose()?;
        let mut page = Page::default();
        let mut last = None;
        let mut walk = self.walk(&query.topic, &query.filter, after).peekable();
        for (place, job) in walk.by_ref().take(SCAN_MAX) {
            last = Some(place);
            if fits(&query.filter, job) {
                page.jobs.push(show(job));
            }
            if page.jobs.len() == query.limit {
                break;
            }
        }
        page.cursor = walk.peek().and(last).map(Cursor::at);
        Ok(page)
    }

    /// The numbers of all jobs that fit, in browse order.
    pub(super) fn fitting(&self, topic: &Topic, filter: &Filter) -> impl Iterator<Item = u64> {
        let walk = self.walk(topic, filter, None);
        walk.filter(|(_, job)| fits(filter, job)).map(|(_, job)| job.number)
    }

    /// The jobs of a topic in the order of the filter's stage, from `after` on. Bounds on the due
    /// time narrow the walk where the order is by due time.
    fn walk<'a>(
        &'a self,
        topic: &Topic,
        filter: &Filter,
        after: Option<Place>,
    ) -> impl Iterator<Item = (Place, &'a Record)> {
        let stage = filter.stage;
        let by_due = matches!(stage, None | Some(Stage::Delayed | Stage::Retry | Stage::Held));
        let edge = |due: Option<Time>| due.filter(|_| by_due).map(|due| [due.as_ms(), 0, 0]);
        let start = edge(filter.due_after).unwrap_or_default();
        let end = edge(filter.due_before).unwrap_or([u64::MAX; 3]);
        let from = match after {
            Some(after) if after >= start => Bound::Excluded(after),
            _ => Bound::Included(start),
        };
        let orders = self.topics.get(topic);
        orders
            .into_iter()
            .flat_map(move |orders| orders.order(stage).range((from, Bound::Unbounded)))
            .take_while(move |place| **place < end)
            .map(move |place| (*place, self.job(number_at(*place, stage))))
    }

    pub(super) fn forecast(&self, forecast: &Forecast) -> Vec<u64> {
        let topic = forecast.topic.as_ref().map(|topic| self.topics.get(topic));
        (0..forecast.buckets)
            .map(|part| forecast.bucket_start(part)..forecast.bucket_start(part + 1))
            .map(|span| match topic {
                None => self.due.count(span),
                Some(orders) => orders.map_or(0, |orders| orders.due_within(span)),
            })
            .collect()
    }

    pub(super) fn dead_by_error(&self, topic: &Topic) -> Vec<(Arc<str>, u64)> {
        let mut errors: Vec<(Arc<str>, u64)> = self
            .topics
            .get(topic)
            .into_iter()
            .flat_map(Orders::errors)
            .map(|(error, count)| (error.clone(), count))
            .collect();
        // Stable: among equal counts the order of the texts stays.
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        errors.truncate(ERRORS_MAX);
        errors
    }

    pub(super) fn topics(&self, which: &Topics, now: Now) -> Vec<TopicInfo> {
        let shown = |(topic, orders): (&Topic, &Orders)| topic_info(topic, orders, now);
        match which {
            Topics::One(topic) => self.topics.get_key_value(topic).into_iter().map(shown).collect(),
            Topics::Page { prefix, after, limit } => {
                let from = match after {
                    Some(after) if after.as_str() >= &**prefix => Bound::Excluded(after.as_str()),
                    _ => Bound::Included(&**prefix),
                };
                self.topics
                    .range::<str, _>((from, Bound::Unbounded))
                    .take_while(|(topic, _)| topic.as_str().starts_with(&**prefix))
                    .take(*limit)
                    .map(shown)
                    .collect()
            }
        }
    }
}

fn topic_info(topic: &Topic, orders: &Orders, now: Now) -> TopicInfo {
    TopicInfo {
        topic: topic.clone(),
        settings: orders.settings.clone(),
        paused: PausedFor::of(orders.pause, now.tick),
        counts: orders.counts(),
        waiting: orders.waiters.iter().map(|waiters| waiters.len() as u64).sum(),
        added: orders.added,
        bytes: orders.settings.bytes_max.map(|_| orders.bytes),
    }
}

fn fits(filter: &Filter, job: &Record) -> bool {
    filter.fits(job.life.stage(), job.life.due, &job.spec.id, job.notes.last_error())
}
