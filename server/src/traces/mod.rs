//! Traces: what becomes of a job as spans of its caller's trace, sent by OTLP.
//!
//! A job keeps the trace that it was added with. `add` is the call that added it, `wait` the time until it
//! was handed out, `deliver` the time until whoever got it has said what became of it, and `finish` (or
//! `fail` and so on) that word. The store calls this, so that all fronts and pushes are seen alike.

mod export;
mod held;

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linger::error::{Error, Result};
use linger::job::{NewJob, Traceparent};
use linger::queue::{Added, Changed, Delivery, How, Lane, Settle, Verdict};
use linger::time::Time;
use opentelemetry::trace::{
    Event, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _,
    TraceFlags, TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};

use crate::config::{Config, shown_target};
use crate::sink;
use held::{Held, Of};

/// Makes spans and has them sent.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// Whether traces are begun here for jobs that bring none.
    begins: bool,
    /// The deliveries under way.
    held: Mutex<Held>,
}

/// The spans of jobs that are being added, in their order.
pub(crate) struct Adding(Vec<Option<Span>>);

/// The spans of attempts that are being ended, in their order.
pub(crate) struct Settling(Vec<Option<Word>>);

/// What is said of a delivery.
struct Word {
    of: Of,
    span: Span,
    verdict: Verdict,
}

impl Traces {
    /// Begins to send to where the settings say. Nothing is called before there are spans.
    pub(crate) fn start(config: &Config, instance: &str) -> anyhow::Result<Option<Traces>> {
        let Some(endpoint) = &config.traces.endpoint else { return Ok(None) };
        let http = sink::http_client(&config.webhooks)?;
        let (provider, tracer) = export::start(endpoint, &config.traces, http, instance)?;
        let begins = config.traces.ratio.is_any();
        Ok(Some(Traces { provider, tracer, begins, held: Mutex::new(Held::default()) }))
    }

    /// Sends what there is, and ends. Waits for the receiver, so it is called where one may block.
    pub(crate) fn stop(&self) {
        self.held.lock().expect("nobody panics holding it").end_all();
        if let Err(why) = self.provider.shutdown() {
            tracing::warn!("the last traces may not have been sent: {why}");
        }
    }

    /// Begins the spans of jobs that are about to be added. A job that brings no trace gets one, if it is
    /// among those that do.
    pub(crate) fn adding(&self, jobs: &mut [NewJob]) -> Adding {
        Adding(jobs.iter_mut().map(|job| self.adding_one(job)).collect())
    }

    fn adding_one(&self, job: &mut NewJob) -> Option<Span> {
        let parent = context(job.spec.traceparent.as_ref());
        if !parent.as_ref().map_or(self.begins, SpanContext::is_sampled) {
            return None;
        }
        let about = about(job.spec.topic.as_str(), job.spec.id.as_str());
        let builder = named("add", job.spec.topic.as_str())
            .with_kind(SpanKind::Server)
            .with_attributes(about.into_iter().chain(operation("add", "send")));
        let span = self.begin(builder, parent.as_ref());
        if !span.span_context().is_sampled() {
            return None;
        }
        // What the caller gave is left as it was: it comes out again where the job does.
        if parent.is_none() {
            job.spec.traceparent = traceparent(span.span_context());
        }
        Some(span)
    }

    /// Ends the spans of jobs that were added, or were not.
    pub(crate) fn added(&self, adding: Adding, answer: &Result<Vec<Result<Added>>>) {
        for (at, span) in adding.0.into_iter().enumerate() {
            let Some(mut span) = span else { continue };
            match answer.as_ref().map(|answers| &answers[at]) {
                Ok(Ok(added)) => span.set_attribute(KeyValue::new("linger.added", how(added.how))),
                Ok(Err(why)) | Err(why) => failed(&mut span, why),
            }
            span.end();
        }
    }

    /// Tells that jobs have waited, and begins their deliveries. What is pushed carries the delivery on.
    pub(crate) fn handed_out(&self, jobs: &mut [Delivery], lane: Lane) {
        for job in jobs {
            let Some(parent) = context(job.job.spec.traceparent.as_ref()) else { continue };
            if parent.is_sampled() {
                self.handed_out_one(job, &parent, lane);
            }
        }
    }

    fn handed_out_one(&self, job: &mut Delivery, parent: &SpanContext, lane: Lane) {
        let (now, topic) = (SystemTime::now(), job.topic().as_str());
        let about: Vec<KeyValue> = about(topic, job.id().as_str())
            .into_iter()
            .chain([KeyValue::new("linger.attempt", i64::from(job.job.attempt))])
            .collect();
        let due = moment(job.job.due);
        // Of later attempts and occurrences it is not kept when they began to wait.
        let is_first = job.job.attempt <= 1 && job.job.occurrence == 0;
        let begun = if is_first { moment(job.job.created) } else { due };
        let waited = named("wait", topic)
            .with_start_time(begun.min(now))
            .with_attributes(about.clone())
            .with_events(vec![Event::new("due", due.min(now), vec![], 0)]);
        self.begin(waited, Some(parent)).end_with_timestamp(now);

        let mut held = self.held.lock().expect("nobody panics holding it");
        if !held.has_room(now) {
            return;
        }
        let kind = if lane == Lane::Push { SpanKind::Producer } else { SpanKind::Consumer };
        let delivery = named("deliver", topic)
            .with_kind(kind)
            .with_start_time(now)
            .with_attributes(about.into_iter().chain(operation("deliver", "process")));
        let mut span = self.begin(delivery, Some(parent));
        if let Some(target) = job.target.as_ref().filter(|_| lane == Lane::Push) {
            span.set_attribute(KeyValue::new("linger.target", shown_target(target)));
            job.job.spec.traceparent = traceparent(span.span_context());
        }
        held.put(job, span, moment(job.until));
    }

    /// Begins the spans of words on deliveries that are traced.
    pub(crate) fn settling(&self, batch: &[Settle]) -> Settling {
        let mut held = self.held.lock().expect("nobody panics holding it");
        if held.is_empty() {
            return Settling(Vec::new());
        }
        let begun = batch.iter().map(|settle| {
            let (topic, delivery, of) = held.find(settle)?;
            let name = word(&settle.verdict);
            let builder = named(name, topic.as_str()).with_attributes(operation(name, "settle"));
            let span = self.begin(builder, Some(&delivery));
            Some(Word { of, span, verdict: settle.verdict.clone() })
        });
        Settling(begun.collect())
    }

    /// Ends them, and the deliveries that they end.
    pub(crate) fn settled(&self, settling: Settling, answer: &Result<Vec<Result<Changed>>>) {
        for (at, said) in settling.0.into_iter().enumerate() {
            let Some(Word { of, mut span, verdict }) = said else { continue };
            let answer = answer.as_ref().map(|answers| answers[at].as_ref());
            if let Err(why) = answer.and_then(|one| one) {
                failed(&mut span, why);
            }
            span.end();
            let held = || self.held.lock().expect("nobody panics holding it");
            match (of, answer) {
                (Of::Ending(one), Ok(Ok(_))) => one.end(&verdict),
                // Lost, or the job is gone: this delivery leads nowhere any more.
                (Of::Ending(one), Ok(Err(why))) => one.end_failed(why),
                (Of::Ending(one), Err(_)) => held().put_back(*one),
                (Of::GoingOn(number, lease), Ok(Ok(_))) => held().prolong(number, lease, &verdict),
                (Of::GoingOn(..) | Of::None, _) => {}
            }
        }
    }

    fn begin(&self, builder: SpanBuilder, parent: Option<&SpanContext>) -> Span {
        let none = Context::new();
        let context = match parent {
            Some(parent) => none.with_remote_span_context(parent.clone()),
            None => none,
        };
        self.tracer.build_with_context(builder, &context)
    }
}

fn named(what: &str, topic: &str) -> SpanBuilder {
    SpanBuilder::from_name(format!("{what} {topic}"))
}

/// As the conventions for messaging have it.
fn about(topic: &str, id: &str) -> [KeyValue; 3] {
    [
        KeyValue::new("messaging.system", "linger"),
        KeyValue::new("messaging.destination.name", topic.to_owned()),
        KeyValue::new("messaging.message.id", id.to_owned()),
    ]
}

fn operation(name: &'static str, kind: &'static str) -> [KeyValue; 2] {
    [
        KeyValue::new("messaging.operation.name", name),
        KeyValue::new("messaging.operation.type", kind),
    ]
}

fn how(how: How) -> &'static str {
    match how {
        How::New => "new",
        How::Kept => "kept",
        How::Replaced => "replaced",
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Finish => "finish",
        Verdict::Fail { .. } => "fail",
        Verdict::Again { .. } => "again",
        Verdict::Release { .. } => "release",
        Verdict::Touch { .. } => "touch",
        Verdict::Leave => "leave",
        Verdict::Recall => "recall",
        Verdict::Bury { .. } => "bury",
    }
}

fn failed(span: &mut Span, why: &Error) {
    span.set_attribute(KeyValue::new("error.type", why.code().as_str()));
    span.set_status(Status::error(why.message().to_owned()));
}

fn moment(time: Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(time.as_ms())
}

/// The trace that a job brings, if it is one.
fn context(given: Option<&Traceparent>) -> Option<SpanContext> {
    let mut parts = given?.as_str().split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let span = SpanId::from_hex(parts.next()?).ok()?;
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    let context =
        SpanContext::new(trace, span, TraceFlags::new(flags), true, TraceState::default());
    context.is_valid().then_some(context)
}

fn traceparent(context: &SpanContext) -> Option<Traceparent> {
    let (trace, span) = (context.trace_id(), context.span_id());
    format!("00-{trace}-{span}-{:02x}", context.trace_flags().to_u8()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_written_alike() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let given: Traceparent = text.parse().unwrap();
        let read = context(Some(&given)).unwrap();
        assert!(read.is_sampled() && read.is_remote());
        assert_eq!(traceparent(&read), Some(given));
        let unsampled: Traceparent = text.replace("-01", "-00").parse().unwrap();
        assert!(!context(Some(&unsampled)).unwrap().is_sampled());
    }

    #[test]
    fn what_is_no_trace_is_none() {
        assert_eq!(context(None), None);
        let zeros = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        assert_eq!(context(Some(&zeros.parse().unwrap())), None);
    }
}
