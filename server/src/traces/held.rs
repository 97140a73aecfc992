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

struct One {
    topic: Topic,
    id: Id,
    lease: Lease,
    span: Span,
    until: SystemTime,
    ttr: Duration,
}

/// A delivery of which something is said.
pub(super) struct Found<'a> {
    pub(super) number: u64,
    pub(super) topic: &'a str,
    pub(super) span: &'a SpanContext,
    /// Whether who says so may hold it: not if the lease is another.
    pub(super) is_held: bool,
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
            over.into_iter().for_each(|number| self.end_late(number));
        }
        self.by_number.len() < HELD_MAX
    }

    pub(super) fn put(&mut self, job: &Delivery, span: Span, until: SystemTime) {
        let number = job.job.number;
        // That it is handed out again is how one learns that the one before had no time left.
        self.end_late(number);
        let (topic, id) = (job.topic().clone(), job.id().clone());
        self.numbers.insert((topic.clone(), id.clone()), number);
        let ttr = job.ttr.as_duration();
        self.by_number.insert(number, One { topic, id, lease: job.lease, span, until, ttr });
    }

    /// The delivery of which something is said.
    pub(super) fn find(&self, settle: &Settle) -> Option<Found<'_>> {
        let number = match &settle.key {
            Key::Number(number) => *number,
            Key::Named(topic, id) => *self.numbers.get(&(topic.clone(), id.clone()))?,
        };
        let one = self.by_number.get(&number)?;
        let is_held = settle.lease.is_none_or(|lease| lease == one.lease);
        let (topic, span) = (one.topic.as_str(), one.span.span_context());
        Some(Found { number, topic, span, is_held })
    }

    /// Does with a delivery as was said: it ends, unless that was to give it more time.
    pub(super) fn settled(&mut self, number: u64, verdict: &Verdict) {
        let more = match verdict {
            Verdict::Touch { ttr } => ttr.map(|ttr| ttr.as_duration()),
            Verdict::Leave => None,
            _ => return self.end(number, verdict),
        };
        if let Some(one) = self.by_number.get_mut(&number) {
            one.until = SystemTime::now() + more.unwrap_or(one.ttr);
        }
    }

    fn end(&mut self, number: u64, verdict: &Verdict) {
        let Some(mut one) = self.take(number) else { return };
        one.span.set_attribute(KeyValue::new("linger.outcome", word(verdict)));
        match verdict {
            Verdict::Fail { error, .. } | Verdict::Bury { error: Some(error), .. } => {
                one.span.set_status(Status::error(error.to_string()));
            }
            _ => {}
        }
        one.span.end();
    }

    /// Ends a delivery of which nothing can be said any more.
    pub(super) fn end_failed(&mut self, number: u64, why: &Error) {
        if let Some(mut one) = self.take(number) {
            failed(&mut one.span, why);
            one.span.end();
        }
    }

    /// Ends all there are, at a stop: what becomes of them others will know.
    pub(super) fn end_all(&mut self) {
        self.numbers.clear();
        self.by_number.drain().for_each(|(_, mut one)| one.span.end());
    }

    fn end_late(&mut self, number: u64) {
        if let Some(mut one) = self.take(number) {
            one.span.set_attribute(KeyValue::new("linger.outcome", "timed_out"));
            one.span.set_status(Status::error("ttr ran out"));
            one.span.end_with_timestamp(one.until.min(SystemTime::now()));
        }
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
