//! The event log: what happened, and how often.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::error::Code;
use linger::time::{Time, duration_ms};

use super::App;
use super::error::{Refused, Result};
use super::read;
use super::request::Asked;
use super::write::{Object, json};
use crate::auth::Caller;
use crate::events::{Events, Kind, Kinds, Line, Order, Query};

/// The most events or sums on a page, and how many there are unless it is said.
pub(super) const LIMIT_MAX: usize = 1000;
const LIMIT_DEFAULT: usize = 100;
/// The most hours that are summed up in one answer.
pub(super) const HOURS_MAX: u64 = 31 * 24;
const HOUR_MS: u64 = 3_600_000;

/// `GET /v1/events`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut asked: Asked,
) -> Result<Response> {
    let order = match asked.take("order").as_deref() {
        None | Some("newest") => Order::Newest,
        Some("oldest") => Order::Oldest,
        Some(text) => {
            let text = read::short(text);
            let message = format!("order is `{text}`; give newest or oldest");
            return Err(Refused::invalid("order", message));
        }
    };
    let wait = wait(&mut asked)?;
    if order == Order::Newest && !wait.is_zero() {
        let message = "wait is for events to come; ask with order=oldest";
        return Err(Refused::invalid("wait", message));
    }
    let topic = asked.take("topic");
    let query = Query {
        topic,
        id: asked.take("id"),
        kinds: asked.take("kind").map(|text| kinds(&text)).transpose()?.unwrap_or_default(),
        since: asked.time("since")?,
        until: asked.time("until")?,
        error: asked.take("error"),
        order,
        limit: limit(&mut asked)?,
        from: asked.take("cursor").map(|text| text.parse()).transpose()?,
    };
    asked.end()?;
    caller.check_asked(query.topic.as_deref())?;
    app.check_wait(wait)?;
    let limits = &app.config().limits;
    let _stay = match wait.is_zero() {
        true => app.gates.calls.enter(limits.requests, "requests")?,
        false => app.gates.waits.enter(limits.waiting, "waiting pops")?,
    };
    let events = events(&app)?;
    let page = tokio::select! {
        page = events.page(query.clone(), wait) => page?,
        // What is there is told.
        () = app.stopping.cancelled() => events.page(query, Duration::ZERO).await?,
        why = caller.ended(), if !wait.is_zero() => return Err(why.into()),
    };
    Ok(json(StatusCode::OK, |out| {
        out.array("events", |out| {
            page.events.iter().for_each(|event| out.object(|out| put_event(out, event)));
        });
        if let Some(cursor) = page.cursor {
            out.text("cursor", &cursor.to_string());
        }
        out.text("end", &page.end.to_string());
    }))
}

/// The log; refused if there is none.
fn events(app: &App) -> Result<&Arc<Events>> {
    app.store()?;
    app.events().ok_or_else(|| {
        let message = "nothing is logged of what happens; set events.enabled";
        Refused::new(Code::NotFound, message)
    })
}

fn wait(asked: &mut Asked) -> Result<Duration> {
    let Some(text) = asked.take("wait") else { return Ok(Duration::ZERO) };
    linger::time::parse_duration(&text)
        .map_err(|cause| Refused::invalid("wait", format!("wait: {}", cause.message())))
}

fn limit(asked: &mut Asked) -> Result<usize> {
    let limit = asked.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    if limit == 0 || limit > LIMIT_MAX {
        let message = format!("limit is {limit}; give 1 to {LIMIT_MAX}");
        return Err(Refused::invalid("limit", message));
    }
    Ok(limit)
}

fn kinds(text: &str) -> Result<Vec<Kind>> {
    let kind = |name: &str| {
        Kind::of(name.trim()).ok_or_else(|| {
            let known = Kind::ALL.map(Kind::as_str).join(", ");
            let name = read::short(name);
            let message =
                format!("kind is `{name}`; give some of {known}, with commas between them");
            Refused::invalid("kind", message)
        })
    };
    text.split(',').map(kind).collect()
}

fn put_event(out: &mut Object<'_>, event: &Line<'_>) {
    out.time("at", Time::from_ms(event.at).unwrap_or(Time::MAX));
    out.text("kind", &event.kind);
    let texts = [("topic", &event.topic), ("id", &event.id)];
    for (name, text) in texts {
        if let Some(text) = text {
            out.text(name, text);
        }
    }
    let numbers = [
        ("number", event.number),
        ("attempt", event.attempt.map(u64::from)),
        ("latency_ms", event.latency_ms),
        ("status", event.status.map(u64::from)),
        ("count", event.count),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            out.number(name, number);
        }
    }
    if let Some(error) = &event.error {
        out.text("error", error);
    }
    out.text("node", &event.node);
    out.object("caller", |out| {
        out.text("front", &event.front);
        for (name, text) in [("address", &event.address), ("key", &event.key)] {
            if let Some(text) = text {
                out.text(name, text);
            }
        }
    });
}

/// What sums are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    TopicAndHour,
    Topic,
    Hour,
}

/// A sum: the latest hours first, then by topic.
type Key = (std::cmp::Reverse<Option<Time>>, Option<String>);

/// `GET /v1/events/sums`.
pub(crate) async fn sums(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut asked: Asked,
) -> Result<Response> {
    let topic = asked.take("topic");
    let (since, until) = (asked.time("since")?, asked.time("until")?);
    let by = match asked.take("by").as_deref() {
        None | Some("topic_and_hour") => By::TopicAndHour,
        Some("topic") => By::Topic,
        Some("hour") => By::Hour,
        Some(text) => {
            let text = read::short(text);
            let message = format!("by is `{text}`; give topic_and_hour, topic or hour");
            return Err(Refused::invalid("by", message));
        }
    };
    let limit = limit(&mut asked)?;
    let after = asked.take("cursor").map(|text| cursor(&text)).transpose()?;
    asked.end()?;
    caller.check_asked(topic.as_deref())?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let events = events(&app)?;
    let until = until.unwrap_or_else(|| events.now().saturating_add_ms(1));
    let since = since.unwrap_or_else(|| until.saturating_sub_ms(24 * HOUR_MS));
    let oldest = events.now().saturating_sub_ms(duration_ms(events.keep()));
    let (first, last) = (since.max(oldest).as_ms() / HOUR_MS, until.as_ms().div_ceil(HOUR_MS));
    if last.saturating_sub(first) > HOURS_MAX {
        let message = format!("since and until are more than {HOURS_MAX} hours apart");
        return Err(Refused::invalid("since", message));
    }
    let mut rows: BTreeMap<Key, Kinds> = BTreeMap::new();
    for hour in first..last {
        let hour = Time::from_ms(hour * HOUR_MS).unwrap_or(Time::MAX);
        for (name, kinds) in events.sums(hour).await? {
            if topic.as_ref().is_some_and(|topic| *topic != name) {
                continue;
            }
            let key = match by {
                By::TopicAndHour => (std::cmp::Reverse(Some(hour)), Some(name)),
                By::Topic => (std::cmp::Reverse(None), Some(name)),
                By::Hour => (std::cmp::Reverse(Some(hour)), None),
            };
            let row = rows.entry(key).or_default();
            kinds.into_iter().for_each(|(kind, tally)| row.entry(kind).or_default().add(tally));
        }
    }
    let mut rows =
        rows.into_iter().filter(|(key, _)| after.as_ref().is_none_or(|after| key > after));
    let page: Vec<(Key, Kinds)> = rows.by_ref().take(limit).collect();
    let more = rows.next().is_some();
    Ok(json(StatusCode::OK, |out| {
        out.time("since", Time::from_ms(first * HOUR_MS).unwrap_or(Time::MAX));
        out.time("until", Time::from_ms(last * HOUR_MS).unwrap_or(Time::MAX));
        out.array("sums", |out| {
            page.iter().for_each(|(key, kinds)| out.object(|out| put_sum(out, key, kinds)));
        });
        if let Some((key, _)) = page.last().filter(|_| more) {
            out.text("cursor", &cursor_text(key));
        }
    }))
}

fn put_sum(out: &mut Object<'_>, (hour, topic): &Key, kinds: &Kinds) {
    if let Some(hour) = hour.0 {
        out.time("hour", hour);
    }
    if let Some(topic) = topic {
        out.text("topic", topic);
    }
    out.number("count", kinds.values().map(|tally| tally.count).sum());
    out.number("errors", kinds.values().map(|tally| tally.errors).sum());
    out.object("kinds", |out| {
        for (kind, tally) in kinds {
            out.object(kind.as_str(), |out| {
                out.number("count", tally.count);
                if tally.timed > 0 {
                    let mean = tally.latency_ms as f64 / tally.timed as f64;
                    out.decimal("latency_ms", (mean * 10.0).round() / 10.0);
                }
            });
        }
    });
}

/// Which sum a page ended with: `hour/topic`, each of which may be missing.
fn cursor_text((hour, topic): &Key) -> String {
    let hour = hour.0.map(|hour| hour.as_ms().to_string()).unwrap_or_default();
    let topic = topic.as_ref().map(|topic| format!("/{topic}")).unwrap_or_default();
    format!("{hour}{topic}")
}

fn cursor(text: &str) -> Result<Key> {
    let (hour, topic) = match text.split_once('/') {
        Some((hour, topic)) => (hour, Some(topic.to_owned())),
        None => (text, None),
    };
    let wrong = || {
        let message = "cursor is none that a page gave; leave it out to begin";
        Refused::invalid("cursor", message)
    };
    let hour = match hour {
        "" => None,
        digits => {
            let ms = digits.parse().map_err(|_| wrong())?;
            Some(Time::from_ms(ms).ok_or_else(wrong)?)
        }
    };
    Ok((std::cmp::Reverse(hour), topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let hour = Time::from_ms(7 * HOUR_MS);
        for (hour, topic) in [(hour, Some("a/b")), (hour, None), (None, Some("")), (hour, Some(""))]
        {
            let key = (std::cmp::Reverse(hour), topic.map(str::to_owned));
            assert_eq!(cursor(&cursor_text(&key)).ok(), Some(key));
        }
        assert!(cursor("x/y").is_err());
    }
}
