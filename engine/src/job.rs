//! Jobs as callers give them: valid, or not constructible.

mod body;
mod target;

pub use body::{Body, Form};
pub use target::{Confirm, ContentType, Destination, Envelope, Target, Traceparent};

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::dice::Dice;
use crate::error::{Error, Result};
use crate::name::name;
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::time::{DAY, Time, duration_ms, format_duration};
use crate::topic::Topic;

name! {
    /// A job's id within its topic: 1 to 256 bytes of UTF-8 without control characters.
    Id, field "id", bytes_max 256, blank_ends allowed
}

name! {
    /// Who called, as shown in a job's history: a key's name, a node, a consumer.
    Caller, field "by", bytes_max 128, blank_ends allowed
}

/// How long one attempt may take: 1 ms to 7 d.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttr(u32);

impl Ttr {
    /// 60 s.
    pub const DEFAULT: Ttr = Ttr(60_000);
    /// The longest an attempt may take.
    pub const MAX: Duration = Duration::from_secs(7 * 86_400);

    /// This long, rounded up to the millisecond.
    pub fn new(length: Duration) -> Result<Ttr> {
        if length.is_zero() || length > Ttr::MAX {
            let length = format_duration(length);
            return Err(Error::invalid("ttr", format!("ttr is {length}; give 1ms to 7d")));
        }
        Ok(Ttr(duration_ms(length) as u32))
    }

    /// The length in milliseconds.
    pub fn as_ms(self) -> u64 {
        u64::from(self.0)
    }

    /// The length.
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.as_ms())
    }
}

const _: () = assert!(Ttr::MAX.as_millis() < u32::MAX as u128);

/// When a job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This long from now, by the store's clock.
    In(Duration),
    /// At this moment.
    At(Time),
}

/// What to do when a job of the same topic and id is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// Refuse with `already_exists`.
    #[default]
    Reject,
    /// Leave the old one and answer it.
    Keep,
    /// Put the new one in its place, with a new number; an old lease is lost.
    Replace,
}

/// What a caller says about a job that stays as it is until an update: all but its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The topic it belongs to.
    pub topic: Topic,
    /// Its id within the topic.
    pub id: Id,
    /// The content type to deliver the body with; else the default for its form.
    pub content_type: Option<ContentType>,
    /// How long an attempt may take; else the topic's.
    pub ttr: Option<Ttr>,
    /// Attempts and pace; else the topic's.
    pub retry: Option<Retry>,
    /// When it runs again after it finishes.
    pub repeat: Option<Repeat>,
    /// Where it is pushed; else the topic's; else it waits to be popped.
    pub target: Option<Target>,
    /// When a push counts as finished; else the topic's.
    pub confirm: Option<Confirm>,
    /// What a push makes of the body; else the topic's.
    pub envelope: Option<Envelope>,
    /// How long it stays visible when finished; else the topic's.
    pub retain: Option<Duration>,
    /// The caller's trace, continued at delivery.
    pub traceparent: Option<Traceparent>,
}

/// A job to add. Each part is valid by its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// What stays until an update.
    pub spec: Spec,
    /// What it carries.
    pub body: Body,
    /// When it is due; else at once, or when its repeat says.
    pub when: Option<When>,
    /// Smaller is sooner among ready jobs of a topic.
    pub priority: u32,
    /// Whether it is set aside from the start.
    pub held: bool,
    /// What to do if the id is taken.
    pub on_conflict: OnConflict,
    /// Who adds it.
    pub by: Option<Caller>,
}

/// The priority of jobs that do not say.
pub const PRIORITY_DEFAULT: u32 = 1024;

impl NewJob {
    /// A job that is due at once, with nothing but the defaults.
    pub fn new(topic: Topic, id: Id, body: Body) -> NewJob {
        let spec = Spec {
            topic,
            id,
            content_type: None,
            ttr: None,
            retry: None,
            repeat: None,
            target: None,
            confirm: None,
            envelope: None,
            retain: None,
            traceparent: None,
        };
        NewJob {
            spec,
            body,
            when: None,
            priority: PRIORITY_DEFAULT,
            held: false,
            on_conflict: OnConflict::default(),
            by: None,
        }
    }
}

/// A job being written: the builder that library users know. What is wrong with it is said when
/// it is added, or by [`Job::check`].
///
/// ```
/// use linger::Job;
/// use linger::job::OnConflict;
/// use linger::time::{MINUTE, SECOND};
///
/// let job = Job::new("order.close", r#"{"order": 1001}"#)
///     .id("1001")
///     .delay(30 * MINUTE)
///     .ttr(20 * SECOND)
///     .priority(10)
///     .on_conflict(OnConflict::Replace);
/// ```
#[derive(Clone, Debug)]
pub struct Job {
    topic: String,
    id: Option<String>,
    body: Body,
    ttr: Option<Duration>,
    target: Option<String>,
    content_type: Option<String>,
    job: NewJob,
}

impl Job {
    /// A job for `topic` that is due at once.
    pub fn new(topic: impl Into<String>, body: impl Into<Body>) -> Job {
        let blank = NewJob::new(Topic::default(), Id("-".into()), Body::default());
        Job {
            topic: topic.into(),
            id: None,
            body: body.into(),
            ttr: None,
            target: None,
            content_type: None,
            job: blank,
        }
    }

    /// Names it, by an order number, say. Without, it gets a UUIDv7.
    pub fn id(mut self, id: impl Into<String>) -> Job {
        self.id = Some(id.into());
        self
    }

    /// Due this long from now.
    pub fn delay(mut self, delay: Duration) -> Job {
        self.job.when = Some(When::In(delay));
        self
    }

    /// Due at this moment.
    pub fn at(mut self, at: Time) -> Job {
        self.job.when = Some(When::At(at));
        self
    }

    /// How long an attempt may take.
    pub fn ttr(mut self, ttr: Duration) -> Job {
        self.ttr = Some(ttr);
        self
    }

    /// Smaller is sooner among ready jobs of the topic.
    pub fn priority(mut self, priority: u32) -> Job {
        self.job.priority = priority;
        self
    }

    /// Attempts and pace.
    pub fn retry(mut self, retry: Retry) -> Job {
        self.job.spec.retry = Some(retry);
        self
    }

    /// When it runs again after it finishes.
    pub fn repeat(mut self, repeat: Repeat) -> Job {
        self.job.spec.repeat = Some(repeat);
        self
    }

    /// Where it is pushed when due.
    pub fn target(mut self, target: impl Into<String>) -> Job {
        self.target = Some(target.into());
        self
    }

    /// What a push must do to count as finished.
    pub fn confirm(mut self, confirm: Confirm) -> Job {
        self.job.spec.confirm = Some(confirm);
        self
    }

    /// What a push makes of the body.
    pub fn envelope(mut self, envelope: Envelope) -> Job {
        self.job.spec.envelope = Some(envelope);
        self
    }

    /// The content type to deliver the body with, if the default for its form will not do.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Job {
        self.content_type = Some(content_type.into());
        self
    }

    /// How long it stays visible when finished.
    pub fn retain(mut self, retain: Duration) -> Job {
        self.job.spec.retain = Some(retain);
        self
    }

    /// Sets it aside from the start.
    pub fn held(mut self) -> Job {
        self.job.held = true;
        self
    }

    /// What to do if the id is taken.
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Job {
        self.job.on_conflict = on_conflict;
        self
    }

    /// The job, if all of it is right; `now` goes into an id that Linger makes.
    pub fn check(self, now: Time) -> Result<NewJob> {
        let mut job = self.job;
        job.spec.topic = self.topic.parse()?;
        job.spec.id = match self.id {
            Some(id) => id.parse()?,
            None => made_id(now),
        };
        job.spec.ttr = self.ttr.map(Ttr::new).transpose()?;
        job.spec.target = self.target.map(|target| target.parse()).transpose()?;
        job.spec.content_type = self.content_type.map(|text| text.parse()).transpose()?;
        job.body = self.body;
        Ok(job)
    }
}

/// An id for a job whose caller gave none: a UUIDv7, so that ids sort by when they were made.
pub fn made_id(now: Time) -> Id {
    // To ask the system each time would be a call of the kernel for every job.
    static DICE: LazyLock<Dice> = LazyLock::new(Dice::secret);
    static MADE: AtomicU64 = AtomicU64::new(0);
    let chance = DICE.name(MADE.fetch_add(1, Ordering::Relaxed));
    let uuid = uuid::Builder::from_unix_timestamp_millis(now.as_ms(), &chance).into_uuid();
    Id((&*uuid.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer())).into())
}

/// What to do with one part of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Edit<T> {
    /// Leave it.
    #[default]
    Keep,
    /// Give it this value.
    Set(T),
    /// Take its own value away, so that the topic's holds again.
    Clear,
}

impl<T: Clone> Edit<T> {
    /// Carries the edit out.
    pub fn apply(&self, to: &mut Option<T>) {
        match self {
            Edit::Keep => {}
            Edit::Set(value) => *to = Some(value.clone()),
            Edit::Clear => *to = None,
        }
    }
}

/// Changes to a job, made together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// A new due time.
    pub when: Option<When>,
    /// A new body.
    pub body: Option<Body>,
    /// A new priority.
    pub priority: Option<u32>,
    /// A new time to run.
    pub ttr: Edit<Ttr>,
    /// New attempts and pace.
    pub retry: Edit<Retry>,
    /// A new target.
    pub target: Edit<Target>,
}

/// The furthest ahead a job may be due by `delay`; `at` goes as far as [`Time::MAX`].
pub const DELAY_MAX: Duration = Duration::from_secs(100 * 366 * DAY.as_secs());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_job_says_which_field() {
        let now = Time::from_ms(1).unwrap();
        for (job, field) in [
            (Job::new("", "x"), "topic"),
            (Job::new("t", "x").id(""), "id"),
            (Job::new("t", "x").id("a\tb"), "id"),
            (Job::new("t", "x").id("x".repeat(257)), "id"),
            (Job::new("t", "x").ttr(Duration::ZERO), "ttr"),
            (Job::new("t", "x").ttr(8 * DAY), "ttr"),
            (Job::new("t", "x").target("nowhere"), "target"),
            (Job::new("t", "x").content_type("nothing"), "content_type"),
        ] {
            assert_eq!(job.check(now).unwrap_err().at_field(), Some(field));
        }
        assert!(Job::new("t", "x").id("x".repeat(256)).ttr(7 * DAY).check(now).is_ok());
    }

    #[test]
    fn made_ids_differ_and_sort_by_time() {
        let at = |ms| made_id(Time::from_ms(ms).unwrap());
        assert!(at(1000) < at(2000));
        assert_ne!(at(1000), at(1000));
    }
}
