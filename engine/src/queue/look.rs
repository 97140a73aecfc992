//! Looking at jobs and topics without touching them.

use std::sync::Arc;
use std::time::Duration;

use super::{FORECAST_BUCKETS_MAX, JobInfo, check_limit};
use crate::error::{Error, Result, excerpt};
use crate::job::Id;
use crate::machine::Stage;
use crate::time::{Tick, Time};
use crate::topic::{Counts, Pause, Settings, Topic};

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
    /// At most so many, 1 to [`super::PAGE_MAX`].
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

impl Cursor {
    /// At a place in a store's order.
    pub(crate) fn at([a, b, c]: [u64; 3]) -> Cursor {
        Cursor(format!("{a:x}-{b:x}-{c:x}"))
    }

    /// The place that it is at.
    pub(crate) fn place(&self) -> Result<[u64; 3]> {
        let parts: Option<Vec<u64>> =
            self.0.split('-').map(|part| u64::from_str_radix(part, 16).ok()).collect();
        parts.and_then(|parts| parts.try_into().ok()).ok_or_else(|| {
            let text = excerpt(&self.0);
            let message = format!("`{text}` is not a cursor; give one from the page before");
            Error::invalid("cursor", message)
        })
    }
}

/// Some jobs, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T = JobInfo> {
    /// The jobs.
    pub jobs: Vec<T>,
    /// Where to go on; none on the last page.
    pub cursor: Option<Cursor>,
}

impl<T> Default for Page<T> {
    fn default() -> Page<T> {
        Page { jobs: Vec::new(), cursor: None }
    }
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
    /// In so many equal buckets, 1 to [`FORECAST_BUCKETS_MAX`].
    pub buckets: u32,
}

impl Forecast {
    /// Refuses a span without length, or too many buckets.
    pub fn check(&self) -> Result<()> {
        if self.buckets == 0 || self.buckets > FORECAST_BUCKETS_MAX {
            let buckets = self.buckets;
            return Err(Error::invalid(
                "buckets",
                format!("buckets is {buckets}; give 1 to {FORECAST_BUCKETS_MAX}"),
            ));
        }
        if self.from >= self.to {
            return Err(Error::invalid(
                "to",
                format!("to is {}, not after from {}; give a later one", self.to, self.from),
            ));
        }
        Ok(())
    }

    /// The moment at which bucket `n` begins; bucket `buckets` begins at the end.
    pub fn bucket_start(&self, n: u32) -> Time {
        let span = u128::from(self.to.ms_since(self.from));
        let ms = span * u128::from(n) / u128::from(self.buckets);
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
        /// At most so many, 1 to [`super::PAGE_MAX`].
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
    /// How many bytes the bodies of its jobs have together, if it has a limit of these.
    pub bytes: Option<u64>,
}

/// How long a topic stays paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausedFor {
    /// This long from now, rounded up to the millisecond.
    Only(Duration),
    /// Until someone resumes it.
    Ever,
}

impl PausedFor {
    /// How long a topic with this pause stays paused from `now` on; none if it is not.
    pub fn of(pause: Pause, now: Tick) -> Option<PausedFor> {
        match pause {
            Pause::No => None,
            Pause::Indefinitely => Some(PausedFor::Ever),
            Pause::Until(end) => {
                let left_us = end.as_us().saturating_sub(now.as_us());
                Some(PausedFor::Only(Duration::from_millis(left_us.div_ceil(1000))))
            }
        }
    }
}
