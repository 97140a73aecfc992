//! What happened.

use serde_json::{Map, Value, json};

use super::answers::{moment, object};
use super::{about, large, list_of, named, one_of, small, text};
use crate::author::Front;
use crate::events::Kind;

pub(super) fn all() -> Value {
    json!({
        "EventPage": object("Some of what happened.", &["events", "end"], json!({
            "events": list_of(named("LoggedEvent")),
            "cursor": about("Where the next page begins.", text()),
            "end": about("Where the log ended: from there on `order=oldest` is what comes.", text()),
        })),
        "LoggedEvent": event(),
        "EventSums": object("What happened how often.", &["since", "until", "sums"], json!({
            "since": about("The first hour.", moment()),
            "until": about("The end of the last hour.", moment()),
            "sums": list_of(named("EventSum")),
            "cursor": about("Where the next page begins.", text()),
        })),
        "EventSum": sum(),
    })
}

fn kinds() -> [&'static str; Kind::ALL.len()] {
    Kind::ALL.map(Kind::as_str)
}

fn event() -> Value {
    let caller = json!({
        "front": about("Which way they came.", one_of(&Front::ALL.map(Front::as_str))),
        "address": about("Where from.", text()),
        "key": about("By which key, by its name.", text()),
    });
    let properties = json!({
        "at": about("When.", moment()),
        "kind": about(
            "What. `gap`: so many events are missing, as they came faster than they could be written.",
            one_of(&kinds()),
        ),
        "topic": about("The topic; missing if the job's name is not known any more.", text()),
        "id": about("The job's id; missing if it happened to a topic.", text()),
        "number": about("The job's number.", large()),
        "attempt": about("The attempt it was part of, or the attempts used so far.", small()),
        "latency_ms": about(
            "Of a hand-out: since it was due. Else how long it had been reserved.",
            large(),
        ),
        "status": about("What a receiver answered with.", small()),
        "count": about("How many jobs went with their topic, or events are missing.", large()),
        "error": about("What went wrong.", text()),
        "node": about("The instance, by its name.", text()),
        "caller": object("Who did it.", &["front"], caller),
    });
    object("Something that happened.", &["at", "kind", "node", "caller"], properties)
}

fn sum() -> Value {
    let one = object(
        "How often, and how long that took.",
        &["count"],
        json!({
            "count": large(),
            "latency_ms": about("The mean.", json!({"type": "number", "minimum": 0})),
        }),
    );
    let kinds: Map<String, Value> =
        kinds().into_iter().map(|kind| (kind.to_owned(), one.clone())).collect();
    let properties = json!({
        "hour": about("The beginning of its hour.", moment()),
        "topic": text(),
        "count": about("All that happened.", large()),
        "errors": about("With an error.", large()),
        "kinds": object("By kind.", &[], kinds.into()),
    });
    object("Sums of one topic, one hour, or both.", &["count", "errors", "kinds"], properties)
}
