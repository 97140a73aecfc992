//! The deliveries under way that are traced, until somebody says what became of them.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use linger::dice::Lease;
use linger::error::Error;
use linger::job::Id;
use linger::queue::{Delivery, Key, Settle, Verdict};
use linger::topic::Topic;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, SpanContext, Status};
use opentelemetry_sdk::trace::Span;

use super::{failed, word};

/// The most at once. More are handed out all the same, and their spans end with their waiting.
const HELD_MAX: usize = 10_000;
/// How often it is looked for those whose time is over.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Held {
    by_number: HashMap<u64, One>,
    numbers: HashMap<(Topic, Id), u64>,
    swept: Option<SystemTime>,
}

/// A delivery under way.
pub(super) struct One {
    number: u64,
    topic: Topic,
    id: Id,
    lease: Lease,
    span: Span,
    until: SystemTime,
    ttr: Duration,
}

/// The delivery of which something is said.
pub(super) enum Of {
    /// This one, which ends by it. It is taken out before the store is told, since by the time that has
    /// answered the job may be out again.
    Ending(Box<One>),
    /// This one, which goes on.
    GoingOn(u64, Lease),
    /// Not one that whoever says so holds.
    None,
}

impl One {
    /// Ends as somebody said.
    pub(super) fn end(mut self, verdict: &Verdict) {
        self.span.set_attribute(KeyValue::new("linger.outcome", word(verdict)));
        match verdict {
            Verdict::Fail { error, .. } | Verdict::Bury { error: Some(error), .. } => {
                self.span.set_status(Status::error(error.to_string()));
            }
            _ => {}
        }
        self.span.end();
    }

    /// Ends, as nothing can be said of it any more.
    pub(super) fn end_failed(mut self, why: &Error) {
        failed(&mut self.span, why);
        self.span.end();
    }

    /// Ends, since its time was over.
    fn end_late(mut self) {
        self.span.set_attribute(KeyValue::new("linger.outcome", "timed_out"));
        self.span.set_status(Status::error("ttr ran out"));
        self.span.end_with_timestamp(self.until.min(SystemTime::now()));
    }
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// Whether one more may be held, after those are ended whose lease ran out.
    pub(super) fn has_room(&mut self, now: SystemTime) -> bool {
        let is_recent = |at| now.duration_since(at).is_ok_and(|since| since < SWEEP_EVERY);
        if !self.swept.is_some_and(is_recent) {
            self.swept = Some(now);
            let over = self.by_number.iter().filter(|(_, one)| one.until < now);
            let over: Vec<u64> = over.map(|(number, _)| *number).collect();
            over.into_iter().filter_map(|number| self.take(number)).for_each(One::end_late);
        }
        self.by_number.len() < HELD_MAX
    }

    pub(super) fn put(&mut self, job: &Delivery, span: Span, until: SystemTime) {
        let number = job.job.number;
        // That it is handed out again is how one learns that the one before had no time left.
        if let Some(before) = self.take(number) {
            before.end_late();
        }
        let (topic, id) = (job.topic().clone(), job.id().clone());
        let ttr = job.ttr.as_duration();
        self.insert(One { number, topic, id, lease: job.lease, span, until, ttr });
    }

    /// The topic and the span of the delivery of which something is said, and what becomes of it.
    pub(super) fn find(&mut self, settle: &Settle) -> Option<(Topic, SpanContext, Of)> {
        let number = match &settle.key {
            Key::Number(number) => *number,
            Key::Named(topic, id) => *self.numbers.get(&(topic.clone(), id.clone()))?,
        };
        let one = self.by_number.get(&number)?;
        let (topic, span, lease) = (one.topic.clone(), one.span.span_context().clone(), one.lease);
        let of = match &settle.verdict {
            _ if settle.lease.is_some_and(|given| given != lease) => Of::None,
            Verdict::Touch { .. } | Verdict::Leave => Of::GoingOn(number, lease),
            _ => self.take(number).map_or(Of::None, |one| Of::Ending(Box::new(one))),
        };
        Some((topic, span, of))
    }

    /// Puts back what has not ended after all, unless the job is out again.
    pub(super) fn put_back(&mut self, one: One) {
        if !self.by_number.contains_key(&one.number) {
            self.insert(one);
        }
    }

    /// Gives a delivery more time.
    pub(super) fn prolong(&mut self, number: u64, lease: Lease, verdict: &Verdict) {
        let more = match verdict {
            Verdict::Touch { ttr } => ttr.map(|ttr| ttr.as_duration()),
            _ => None,
        };
        let held = self.by_number.get_mut(&number).filter(|one| one.lease == lease);
        if let Some(one) = held {
            one.until = SystemTime::now() + more.unwrap_or(one.ttr);
        }
    }

    /// Ends all there are, at a stop: what becomes of them others will know.
    pub(super) fn end_all(&mut self) {
        self.numbers.clear();
        self.by_number.drain().for_each(|(_, mut one)| one.span.end());
    }

    fn insert(&mut self, one: One) {
        self.numbers.insert((one.topic.clone(), one.id.clone()), one.number);
        self.by_number.insert(one.number, one);
    }

    fn take(&mut self, number: u64) -> Option<One> {
        let one = self.by_number.remove(&number)?;
        // The id may be another job's by now.
        let name = (one.topic.clone(), one.id.clone());
        if self.numbers.get(&name) == Some(&number) {
            self.numbers.remove(&name);
        }
        Some(one)
    }
}
