//! All that can be seen of a store from outside.

use std::fmt::Debug;
use std::sync::Arc;

use super::Difference;
use super::side::{PAGES_MAX, Side};
use crate::error::Result;
use crate::machine::Stage;
use crate::queue::{
    Bodies, Filter, Forecast, JobInfo, Key, KvEntry, KvQuery, PAGE_MAX, Query, Queue, TopicInfo,
    Topics,
};
use crate::stats::Stats;
use crate::time::Time;
use crate::topic::Topic;

/// Small, so that every walk turns pages.
const PAGE: usize = 3;

/// What is cheap enough to look at after every step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counters {
    pub(super) stats: Stats,
    pub(super) topics: Vec<TopicInfo>,
}

/// Errors of dead jobs, and how many have each.
type Errors = Vec<(Arc<str>, u64)>;

/// All there is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    /// Every job by topic, in browse order, with body and history.
    pub(super) jobs: Vec<JobInfo>,
    /// The jobs of each topic in each state, in that state's order, by number.
    stages: Vec<(Topic, Stage, Vec<u64>)>,
    forecasts: Vec<(Option<Topic>, Vec<u64>)>,
    errors: Vec<(Topic, Errors)>,
    entries: Vec<KvEntry>,
}

impl<Q: Queue> Side<Q> {
    pub(super) async fn counters(&self) -> Result<Counters> {
        let mut topics = Vec::<TopicInfo>::new();
        for _ in 0..PAGES_MAX {
            let after = topics.last().map(|info| info.topic.clone());
            let page = Topics::Page { prefix: "".into(), after, limit: PAGE };
            let page = self.queue.topics(page).await?;
            if page.is_empty() {
                return Ok(Counters { stats: self.queue.stats().await?, topics });
            }
            topics.extend(page);
        }
        panic!("a walk over topics does not end");
    }

    pub(super) async fn state(&self, counters: &Counters) -> Result<State> {
        let mut state = State {
            jobs: Vec::new(),
            stages: Vec::new(),
            forecasts: vec![(None, self.forecast(None).await?)],
            errors: Vec::new(),
            entries: self.entries().await?,
        };
        for TopicInfo { topic, .. } in &counters.topics {
            state.jobs.extend(self.jobs_in_full(topic).await?);
            for stage in Stage::ALL {
                let jobs = self.browse(pages(topic, Some(stage))).await?;
                let numbers = jobs.iter().map(|job| job.number).collect();
                state.stages.push((topic.clone(), stage, numbers));
            }
            let forecast = self.forecast(Some(topic.clone())).await?;
            state.forecasts.push((Some(topic.clone()), forecast));
            state.errors.push((topic.clone(), self.queue.dead_by_error(topic).await?));
        }
        Ok(state)
    }

    /// Every job, by topic, without its history.
    pub(super) async fn jobs(&self, counters: &Counters) -> Result<Vec<JobInfo>> {
        let mut jobs = Vec::new();
        for TopicInfo { topic, .. } in &counters.topics {
            let query = Query { limit: PAGE_MAX, ..Query::all(topic.clone()) };
            jobs.extend(self.browse(query).await?);
        }
        Ok(jobs)
    }

    async fn jobs_in_full(&self, topic: &Topic) -> Result<Vec<JobInfo>> {
        let mut jobs = self.browse(pages(topic, None)).await?;
        for job in &mut jobs {
            let named = Key::Named(job.spec.topic.clone(), job.spec.id.clone());
            let full = self.get(&named).await?;
            let listed = JobInfo { history: full.history.clone(), ..job.clone() };
            assert_eq!(full, listed, "a job looks different in a list and by itself");
            *job = full;
        }
        Ok(jobs)
    }

    async fn forecast(&self, topic: Option<Topic>) -> Result<Vec<u64>> {
        let from = self.clock.time().saturating_sub_ms(3_600_000);
        let to = Time::saturating_add_ms(from, 30 * 3_600_000);
        self.queue.forecast(Forecast { topic, from, to, buckets: 7 }).await
    }

    async fn entries(&self) -> Result<Vec<KvEntry>> {
        let mut entries = Vec::<KvEntry>::new();
        for _ in 0..PAGES_MAX {
            let after = entries.last().map(|entry| entry.key.clone());
            let page = KvQuery::Prefix { prefix: "".into(), after, limit: PAGE };
            let page = self.queue.kv_read(page).await?;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
        panic!("a walk over keys does not end");
    }
}

fn pages(topic: &Topic, stage: Option<Stage>) -> Query {
    let filter = Filter { stage, ..Filter::default() };
    // Bodies come with the walk over all states; one of them is enough.
    let bodies = if stage.is_none() { Bodies::With } else { Bodies::Without };
    Query { filter, bodies, limit: PAGE, ..Query::all(topic.clone()) }
}

impl Counters {
    pub(super) fn compare(&self, other: &Counters) -> Result<(), Difference> {
        same_list("topics", &self.topics, &other.topics)?;
        same("stats", &self.stats, &other.stats)
    }
}

impl State {
    pub(super) fn compare(&self, other: &State) -> Result<(), Difference> {
        same_list("jobs", &self.jobs, &other.jobs)?;
        same_list("jobs by state", &self.stages, &other.stages)?;
        same_list("forecasts", &self.forecasts, &other.forecasts)?;
        same_list("dead by error", &self.errors, &other.errors)?;
        same_list("keys", &self.entries, &other.entries)
    }
}

/// Compares one thing.
pub(super) fn same<T: PartialEq + Debug>(what: &str, a: &T, b: &T) -> Result<(), Difference> {
    if a == b {
        return Ok(());
    }
    let what = format!("the stores differ in {what}");
    Err(Difference { what, a: format!("{a:#?}"), b: format!("{b:#?}") })
}

/// Compares two lists, and says where they begin to differ.
fn same_list<T: PartialEq + Debug>(what: &str, a: &[T], b: &[T]) -> Result<(), Difference> {
    for nth in 0..a.len().max(b.len()) {
        same(&format!("{what}, number {nth} of the list"), &a.get(nth), &b.get(nth))?;
    }
    Ok(())
}
