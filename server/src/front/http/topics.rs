//! Topics: looking at them and at their jobs, and changing how they behave.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::error::Code;
use linger::job::Ttr;
use linger::queue::{
    Bodies, Cursor, Filter, Forecast, PausedFor, Query, Queue, TopicChange, TopicInfo, Topics,
};
use linger::topic::{Counts, Headers, Partitions, Rate, Settings, Topic};
use serde_json::value::RawValue;

use super::App;
use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::request::{Asked, InTopic, Payload};
use super::shape;
use super::work::STATES;
use super::write::{Object, json};
use crate::auth::Caller;
use crate::front::shown_to;

/// How many are listed if nobody says.
const LIMIT_DEFAULT: usize = 100;
/// How many buckets a forecast has if nobody says.
const BUCKETS_DEFAULT: u32 = 24;

/// `GET /v1/topics`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut asked: Asked,
) -> Result<Response> {
    let prefix = asked.take("prefix").unwrap_or_default().into();
    let limit = asked.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    let after = asked.take("cursor").map(|text| text.parse()).transpose();
    let after: Option<Topic> =
        after.map_err(|_| Refused::invalid("cursor", "cursor is not one that was given out"))?;
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let topics = app.topics_for(&caller, prefix, after, limit).await?;
    Ok(json(StatusCode::OK, |out| {
        out.array("topics", |out| {
            topics.iter().for_each(|topic| out.object(|out| put_topic(out, &caller, topic)));
        });
        if topics.len() == limit
            && let Some(last) = topics.last()
        {
            out.text("cursor", last.topic.as_str());
        }
    }))
}

/// `GET /v1/topics/{topic}`.
pub(crate) async fn look(
    State(app): State<Arc<App>>,
    caller: Caller,
    InTopic(topic): InTopic,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let info = info(&app, topic).await?;
    Ok(json(StatusCode::OK, |out| put_topic(out, &caller, &info)))
}

async fn info(app: &App, topic: Topic) -> Result<TopicInfo> {
    let name = read::short(topic.as_str());
    let found = app.store()?.topics(Topics::One(topic)).await?.pop();
    found.ok_or_else(|| Refused::new(Code::NotFound, format!("there is no topic `{name}`")))
}

/// `PUT /v1/topics/{topic}`: these settings in place of all it had.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    caller: Caller,
    InTopic(topic): InTopic,
    Payload(bytes): Payload,
) -> Result<Response> {
    let settings = read_settings(Fields::of_request(read::utf8(&bytes)?)?)?;
    configure(&app, &topic, TopicChange::Set(Box::new(settings))).await?;
    shown(&app, &caller, topic).await
}

pub(super) fn read_settings(mut fields: Fields<'_>) -> Result<Settings> {
    let settings = Settings {
        ttr: fields.read_by("ttr", shape::ttr)?,
        retry: fields.read_by("retry", shape::retry)?,
        target: fields.read_by("target", shape::target)?,
        confirm: fields.read_by("confirm", shape::confirm)?,
        envelope: fields.read_by("envelope", shape::envelope)?,
        timeout: fields.read_by("timeout", timeout)?,
        headers: fields.read_by("headers", headers)?.unwrap_or_default(),
        archive: fields.read_by("archive", |name, raw| Ok(read::text(name, raw)?.parse()?))?,
        retain: fields.read_by("retain", read::duration)?,
        retain_dead: fields.read_by("retain_dead", read::duration)?,
        rate: fields.read_by("rate", rate)?,
        concurrency: fields.read_by("concurrency", |name, raw| {
            NonZeroU32::new(read::small(name, raw)?)
                .ok_or_else(|| read::wrong(name, raw, "1 or more, or pause the topic"))
        })?,
        jobs_max: fields.read_by("jobs_max", |name, raw| {
            NonZeroU32::new(read::small(name, raw)?)
                .ok_or_else(|| read::wrong(name, raw, "1 or more, or leave it out"))
        })?,
        bytes_max: fields.read_by("bytes_max", |name, raw| {
            NonZeroU64::new(read::number(name, raw)?)
                .ok_or_else(|| read::wrong(name, raw, "1 or more, or leave it out"))
        })?,
        partitions: fields.read_by("partitions", |name, raw| {
            Partitions::new(read::small(name, raw)?)
                .map_err(|_| read::wrong(name, raw, "a number from 1 to 256"))
        })?,
    };
    fields.end()?;
    Ok(settings)
}

fn timeout(name: &'static str, raw: &RawValue) -> Result<Ttr> {
    Ttr::new(read::duration(name, raw)?).map_err(|_| read::wrong(name, raw, "1ms to 7d"))
}

fn headers(name: &'static str, raw: &RawValue) -> Result<Headers> {
    let pairs = Fields::within(name, raw)?.all();
    let texts = pairs.map(|(header, value)| Ok((header, read::text(name, value)?)));
    Ok(Headers::new(texts.collect::<Result<Vec<_>>>()?)?)
}

fn rate(name: &'static str, raw: &RawValue) -> Result<Rate> {
    Ok(read::word(name, raw)?.parse()?)
}

/// `DELETE /v1/topics/{topic}`: its jobs and its settings.
pub(crate) async fn forget(
    State(app): State<Arc<App>>,
    InTopic(topic): InTopic,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    let gone = configure(&app, &topic, TopicChange::Forget).await?;
    Ok(json(StatusCode::OK, |out| out.number("count", gone)))
}

/// `POST /v1/topics/{topic}/pause`.
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    InTopic(topic): InTopic,
    Payload(bytes): Payload,
) -> Result<Response> {
    let mut fields = Fields::of_request(read::utf8(&bytes)?)?;
    let length = fields.read_by("for", read::duration)?;
    fields.end()?;
    configure(&app, &topic, TopicChange::Pause(length)).await?;
    shown(&app, &caller, topic).await
}

/// `POST /v1/topics/{topic}/resume`.
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    InTopic(topic): InTopic,
    Payload(bytes): Payload,
) -> Result<Response> {
    Fields::of_request(read::utf8(&bytes)?)?.end()?;
    configure(&app, &topic, TopicChange::Resume).await?;
    shown(&app, &caller, topic).await
}

/// `POST /v1/topics/{topic}/empty`.
pub(crate) async fn empty(
    State(app): State<Arc<App>>,
    InTopic(topic): InTopic,
    Payload(bytes): Payload,
) -> Result<Response> {
    Fields::of_request(read::utf8(&bytes)?)?.end()?;
    let gone = configure(&app, &topic, TopicChange::Empty).await?;
    Ok(json(StatusCode::OK, |out| out.number("count", gone)))
}

async fn configure(app: &App, topic: &Topic, change: TopicChange) -> Result<u64> {
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    Ok(app.store()?.configure(topic, change).await?)
}

/// The topic after a change; one that nothing names any more is told by its name.
async fn shown(app: &App, caller: &Caller, topic: Topic) -> Result<Response> {
    let info = app.store()?.topics(Topics::One(topic.clone())).await?.pop();
    Ok(json(StatusCode::OK, |out| match &info {
        Some(info) => put_topic(out, caller, info),
        None => out.text("topic", topic.as_str()),
    }))
}

/// `GET /v1/topics/{topic}/jobs`.
pub(crate) async fn browse(
    State(app): State<Arc<App>>,
    InTopic(topic): InTopic,
    mut asked: Asked,
) -> Result<Response> {
    let stage = asked.take("state").map(|text| {
        text.parse().map_err(|_| {
            let text = read::short(&text);
            Refused::invalid("state", format!("state is `{text}`; give {STATES}"))
        })
    });
    let filter = Filter {
        stage: stage.transpose()?,
        due_after: asked.time("due_after")?,
        due_before: asked.time("due_before")?,
        id_prefix: asked.take("id_prefix").map(Into::into),
        error: asked.take("error").map(Into::into),
    };
    let limit = asked.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    let cursor = asked.take("cursor").map(Cursor);
    let bodies = if asked.flag("body")? { Bodies::With } else { Bodies::Without };
    asked.end()?;
    let config = app.config();
    let _stay = app.gates.calls.enter(config.limits.requests, "requests")?;
    let query = Query { topic, filter, bodies, limit, cursor };
    query.check()?;
    let page = app.page(query, config.limits.answer_bytes).await?;
    Ok(json(StatusCode::OK, |out| {
        out.array("jobs", |out| {
            page.jobs.iter().for_each(|job| out.object(|out| shape::put_job(out, job)));
        });
        if let Some(Cursor(cursor)) = &page.cursor {
            out.text("cursor", cursor);
        }
    }))
}

/// `GET /v1/due`: what falls due when.
pub(crate) async fn due(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut asked: Asked,
) -> Result<Response> {
    let topic: Option<Topic> = asked.take("topic").map(|text| text.parse()).transpose()?;
    match &topic {
        Some(topic) => caller.check_topic(topic)?,
        None => caller.check_all_topics()?,
    }
    let (from, to) = (asked.time("from")?, asked.time("to")?);
    let buckets = asked.number("buckets")?.unwrap_or(BUCKETS_DEFAULT);
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let store = app.store()?;
    let from = from.unwrap_or_else(|| store.clock().now().time());
    let to = to.unwrap_or_else(|| from.saturating_add_ms(24 * 3_600_000));
    let forecast = Forecast { topic, from, to, buckets };
    let counts = store.forecast(forecast.clone()).await?;
    Ok(json(StatusCode::OK, |out| {
        out.time("from", from);
        out.time("to", to);
        out.array("buckets", |out| {
            for (n, count) in (0..).zip(&counts) {
                out.object(|out| {
                    out.time("from", forecast.bucket_start(n));
                    out.number("count", *count);
                });
            }
        });
    }))
}

fn put_topic(out: &mut Object<'_>, caller: &Caller, info: &TopicInfo) {
    out.text("topic", info.topic.as_str());
    out.flag("paused", info.paused.is_some());
    if let Some(PausedFor::Only(left)) = info.paused {
        out.duration("paused_for", left);
    }
    out.object("counts", |out| put_counts(out, &info.counts));
    out.number("waiting", info.waiting);
    out.number("added", info.added);
    if let Some(bytes) = info.bytes {
        out.number("bytes", bytes);
    }
    let settings = shown_to(caller, &info.settings);
    out.object("settings", |out| put_settings(out, &settings));
}

pub(super) fn put_counts(out: &mut Object<'_>, counts: &Counts) {
    out.number("delayed", counts.delayed);
    out.number("ready", counts.ready);
    out.number("reserved", counts.reserved);
    out.number("retry", counts.retry);
    out.number("held", counts.held);
    out.number("dead", counts.dead);
    out.number("finished", counts.finished);
}

pub(super) fn put_settings(out: &mut Object<'_>, settings: &Settings) {
    if let Some(ttr) = settings.ttr {
        out.duration("ttr", ttr.as_duration());
    }
    if let Some(retry) = &settings.retry {
        out.object("retry", |out| shape::put_retry(out, retry));
    }
    if let Some(target) = &settings.target {
        out.text("target", &target.to_string());
    }
    if let Some(confirm) = settings.confirm {
        out.text("confirm", shape::confirm_text(confirm));
    }
    if let Some(envelope) = settings.envelope {
        out.text("envelope", shape::envelope_text(envelope));
    }
    if let Some(timeout) = settings.timeout {
        out.duration("timeout", timeout.as_duration());
    }
    if !settings.headers.is_empty() {
        out.object("headers", |out| {
            for (name, value) in settings.headers.iter() {
                out.pair(name, &serde_json::to_vec(value).expect("a text can be written"));
            }
        });
    }
    if let Some(archive) = &settings.archive {
        out.text("archive", &archive.to_string());
    }
    if let Some(retain) = settings.retain {
        out.duration("retain", retain);
    }
    if let Some(retain) = settings.retain_dead {
        out.duration("retain_dead", retain);
    }
    if let Some(rate) = settings.rate {
        out.text(
            "rate",
            &format!("{}/{}", rate.count(), linger::time::format_duration(rate.per())),
        );
    }
    if let Some(concurrency) = settings.concurrency {
        out.number("concurrency", concurrency.get().into());
    }
    if let Some(jobs_max) = settings.jobs_max {
        out.number("jobs_max", jobs_max.get().into());
    }
    if let Some(bytes_max) = settings.bytes_max {
        out.number("bytes_max", bytes_max.get());
    }
    if let Some(partitions) = settings.partitions {
        out.number("partitions", partitions.get().into());
    }
}
