//! What callers are told, written.

use std::time::Duration;

use linger::history::Entry;
use linger::job::{Confirm, Envelope, Form};
use linger::machine::Stage;
use linger::queue::{Added, Changed, Delivery, How, JobInfo, PausedFor, Standing, TopicInfo};
use linger::retry::{Pace, Retry, StepsFrom};
use linger::schedule::{Misfire, OnDead, Repeat, Rule};
use linger::time::{Time, format_duration};
use linger::topic::Settings;
use prost_types::{Duration as Span, Timestamp};

use crate::proto::linger as pb;

fn span(duration: Duration) -> Span {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Span { seconds, nanos: duration.subsec_nanos() as i32 }
}

fn span_ms(ms: u64) -> Span {
    span(Duration::from_millis(ms))
}

fn stamp(time: Time) -> Timestamp {
    let ms = time.as_ms();
    Timestamp { seconds: (ms / 1000) as i64, nanos: (ms % 1000) as i32 * 1_000_000 }
}

fn state(stage: Stage) -> i32 {
    let state = match stage {
        Stage::Delayed => pb::State::Delayed,
        Stage::Ready => pb::State::Ready,
        Stage::Reserved => pb::State::Reserved,
        Stage::Retry => pb::State::Retry,
        Stage::Held => pb::State::Held,
        Stage::Dead => pb::State::Dead,
        Stage::Finished => pb::State::Finished,
    };
    state.into()
}

fn confirm(confirm: Option<Confirm>) -> i32 {
    let confirm = match confirm {
        None => pb::Confirm::Unspecified,
        Some(Confirm::Delivery) => pb::Confirm::Delivery,
        Some(Confirm::Finish) => pb::Confirm::Finish,
    };
    confirm.into()
}

fn envelope(envelope: Option<Envelope>) -> i32 {
    let envelope = match envelope {
        None => pb::Envelope::Unspecified,
        Some(Envelope::Body) => pb::Envelope::Body,
        Some(Envelope::CloudEvents) => pb::Envelope::Cloudevents,
        Some(Envelope::Task) => pb::Envelope::Task,
    };
    envelope.into()
}

/// What became of an added job.
pub(super) fn added(added: Added) -> pb::AddResponse {
    let how = match added.how {
        How::New => pb::How::New,
        How::Kept => pb::How::Kept,
        How::Replaced => pb::How::Replaced,
    };
    pb::AddResponse { job: Some(job(added.job)), how: how.into() }
}

/// A job.
pub(super) fn job(job: JobInfo) -> pb::Job {
    let spec = job.spec;
    let text = |text: Option<&str>| text.map(str::to_owned).unwrap_or_default();
    let form = job.body.as_ref().map_or(pb::BodyForm::Unspecified, |body| match body.form() {
        Form::Text => pb::BodyForm::Text,
        Form::Json => pb::BodyForm::Json,
        Form::Bytes => pb::BodyForm::Bytes,
    });
    pb::Job {
        topic: spec.topic.as_str().to_owned(),
        id: spec.id.as_str().to_owned(),
        number: job.number,
        state: state(job.stage),
        due: Some(stamp(job.due)),
        attempt: job.attempt,
        version: job.version,
        priority: job.priority,
        created: Some(stamp(job.created)),
        occurrence: job.occurrence,
        reserved_until: job.reserved_until.map(stamp),
        last_error: text(job.last_error.as_deref()),
        ttr: spec.ttr.map(|ttr| span(ttr.as_duration())),
        retry: spec.retry.as_ref().map(retry),
        repeat: spec.repeat.as_ref().map(repeat),
        target: text(spec.target.as_ref().map(|target| target.as_str())),
        confirm: confirm(spec.confirm),
        envelope: envelope(spec.envelope),
        retain: spec.retain.map(span),
        content_type: text(spec.content_type.as_ref().map(|kind| kind.as_str())),
        traceparent: text(spec.traceparent.as_ref().map(|trace| trace.as_str())),
        body: job.body.map(|body| body.as_bytes().clone()).unwrap_or_default(),
        body_form: form.into(),
    }
}

/// A job that was handed out.
pub(super) fn delivery(delivery: Delivery) -> pb::Delivery {
    pb::Delivery { lease: delivery.lease.to_string(), job: Some(job(delivery.job)) }
}

fn retry(retry: &Retry) -> pb::Retry {
    let pace = match retry.pace() {
        Pace::Backoff(backoff) => pb::retry::Pace::Backoff(pb::Backoff {
            base: Some(span_ms(backoff.base_ms)),
            max: Some(span_ms(backoff.max_ms)),
            jitter: Some(f64::from(backoff.jitter_permille) / 1000.0),
        }),
        Pace::Ladder { steps_ms, from } => pb::retry::Pace::Ladder(pb::Ladder {
            steps: steps_ms.iter().map(|ms| span_ms(*ms)).collect(),
            from_due: *from == StepsFrom::Due,
        }),
    };
    pb::Retry { attempts: Some(retry.attempts_max()), pace: Some(pace) }
}

fn repeat(repeat: &Repeat) -> pb::Repeat {
    let rule = match repeat.rule() {
        Rule::Every { every_ms } => pb::repeat::Rule::Every(span_ms(*every_ms)),
        Rule::Cron(cron) => pb::repeat::Rule::Cron(pb::Cron {
            expression: cron.expression().to_owned(),
            tz: cron.zone().to_owned(),
        }),
    };
    let (misfire, all) = match repeat.when_missed() {
        Misfire::Once => (pb::Misfire::Once, 0),
        Misfire::Skip => (pb::Misfire::Skip, 0),
        Misfire::All(most) => (pb::Misfire::All, most.get()),
    };
    let on_dead = match repeat.when_dead() {
        OnDead::GoOn => pb::OnDead::GoOn,
        OnDead::Stop => pb::OnDead::Stop,
    };
    pb::Repeat {
        rule: Some(rule),
        until: repeat.ends_at().map(stamp),
        count: repeat.count_max().map_or(0, |count| count.get()),
        misfire: misfire.into(),
        misfire_all: all,
        on_dead: on_dead.into(),
    }
}

/// What happened to a job once.
pub(super) fn event(entry: &Entry) -> pb::Event {
    pb::Event {
        at: Some(stamp(entry.at)),
        what: entry.what.as_str().to_owned(),
        attempt: entry.attempt,
        took: entry.took_ms.map(span_ms),
        error: entry.error.as_deref().unwrap_or_default().to_owned(),
        by: entry.by.as_ref().map(|by| by.as_str().to_owned()).unwrap_or_default(),
    }
}

/// What became of a job.
pub(super) fn changed(changed: Changed) -> pb::Changed {
    pb::Changed { changed: changed.changed, job: changed.job.as_ref().map(standing) }
}

fn standing(job: &Standing) -> pb::Standing {
    pb::Standing {
        number: job.number,
        state: state(job.stage),
        due: Some(stamp(job.due)),
        attempt: job.attempt,
        version: job.version,
        priority: job.priority,
        occurrence: job.occurrence,
        reserved_until: job.reserved_until.map(stamp),
    }
}

/// A topic.
pub(super) fn topic(info: &TopicInfo) -> pb::Topic {
    let counts = &info.counts;
    pb::Topic {
        topic: info.topic.as_str().to_owned(),
        paused: info.paused.is_some(),
        paused_for: match info.paused {
            Some(PausedFor::Only(left)) => Some(span(left)),
            Some(PausedFor::Ever) | None => None,
        },
        counts: Some(pb::Counts {
            delayed: counts.delayed,
            ready: counts.ready,
            reserved: counts.reserved,
            retry: counts.retry,
            held: counts.held,
            dead: counts.dead,
            finished: counts.finished,
        }),
        waiting: info.waiting,
        added: info.added,
        bytes: info.bytes.unwrap_or(0),
        settings: Some(settings(&info.settings)),
    }
}

fn settings(settings: &Settings) -> pb::Settings {
    let rate =
        settings.rate.map(|rate| format!("{}/{}", rate.count(), format_duration(rate.per())));
    pb::Settings {
        ttr: settings.ttr.map(|ttr| span(ttr.as_duration())),
        retry: settings.retry.as_ref().map(retry),
        target: settings.target.as_ref().map(|to| to.as_str().to_owned()).unwrap_or_default(),
        confirm: confirm(settings.confirm),
        envelope: envelope(settings.envelope),
        timeout: settings.timeout.map(|timeout| span(timeout.as_duration())),
        headers: settings
            .headers
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        archive: settings.archive.as_ref().map(ToString::to_string).unwrap_or_default(),
        retain: settings.retain.map(span),
        retain_dead: settings.retain_dead.map(span),
        rate: rate.unwrap_or_default(),
        concurrency: settings.concurrency.map_or(0, |most| most.get()),
        jobs_max: settings.jobs_max.map_or(0, |most| most.get()),
        bytes_max: settings.bytes_max.map_or(0, |most| most.get()),
        partitions: settings.partitions.map_or(0, |count| count.get().into()),
    }
}
