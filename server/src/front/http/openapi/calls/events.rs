//! What happened.

use linger::error::Code;
use serde_json::{Value, json};

use super::super::operation::{Operation, named};
use super::MOMENT;
use crate::front::http::events::LIMIT_MAX;

pub(super) fn calls() -> Vec<Operation> {
    let limit = || json!({"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": 100});
    let text = || json!({"type": "string"});
    let list = Operation::new("get", "/v1/events", "listEvents", "What happened, job by job")
        .note(
            "A bounded part of the log is looked at for an answer: a page may have few events or none, and \
                still a cursor. With `order=oldest` there always is one, and when it is the same as `end` there is \
                no more at present: ask from there with `wait` to follow what happens. Events stand in the \
                log in the order in which they were told, some milliseconds after they happened.",
        )
        .asks("topic", "Of this topic.", text(), json!("order.close"))
        .asks("id", "Of jobs with this id.", text(), json!("1001"))
        .asks(
            "kind",
            "Of these kinds, with commas between them.",
            text(),
            json!("failed,died"),
        )
        .asks("since", "From this moment on.", named("Time"), json!("2026-01-01T00:00:00Z"))
        .asks("until", "Before this moment.", named("Time"), json!("2099-12-01T00:00:00Z"))
        .asks("error", "With this in the error.", text(), json!("answer"))
        .asks(
            "order",
            "Which come first.",
            json!({"type": "string", "enum": ["newest", "oldest"], "default": "newest"}),
            json!("newest"),
        )
        .asks("limit", "At most so many.", limit(), json!(100))
        .asks("cursor", "Where the page before left off: what that page said.", text(), json!(""))
        .asks(
            "wait",
            "How long to wait for the first, with `order=oldest`; a number is seconds.",
            named("DurationText"),
            json!("0s"),
        )
        .answers(200, "The events.", "EventPage", json!({"events": [event()], "end": "1-4096"}))
        .reads(&[Code::NotFound]);
    let sums = Operation::new("get", "/v1/events/sums", "sumEvents", "What happened how often")
        .note(
            "By the hour, in whole hours. The first 10,000 topics of an hour are told apart; those beyond are \
                the topic without a name. Sums are kept as long as events, and are of those too that had to \
                make room.",
        )
        .asks("topic", "Of this topic.", text(), json!("order.close"))
        .asks(
            "since",
            "From the hour of this moment on; a day before `until` unless given.",
            named("Time"),
            json!(""),
        )
        .asks(
            "until",
            "Before this moment; now unless given.",
            named("Time"),
            json!(""),
        )
        .asks(
            "by",
            "What each sum is of.",
            json!({
                "type": "string", "enum": ["topic_and_hour", "topic", "hour"],
                "default": "topic_and_hour",
            }),
            json!("topic_and_hour"),
        )
        .asks("limit", "At most so many.", limit(), json!(100))
        .asks("cursor", "Where the page before left off: what that page said.", text(), json!(""))
        .answers(200, "The sums, the latest hour first, then by topic.", "EventSums", sums())
        .reads(&[Code::NotFound]);
    [list, sums].into_iter().map(|call| call.tag("events")).collect()
}

fn event() -> Value {
    json!({
        "at": MOMENT, "kind": "failed", "topic": "order.close", "id": "1001", "number": 1,
        "attempt": 1, "latency_ms": 12, "error": "no answer", "node": "a",
        "caller": {"front": "http", "address": "10.0.0.7:51320", "key": "shop"},
    })
}

fn sums() -> Value {
    json!({
        "since": MOMENT, "until": "2026-12-01T10:00:00.000Z",
        "sums": [{
            "hour": MOMENT, "topic": "order.close", "count": 3, "errors": 1,
            "kinds": {"added": {"count": 2}, "failed": {"count": 1, "latency_ms": 12.5}},
        }],
    })
}
