//! Rules by which it is watched, and incidents.

use serde_json::{Value, json};

use super::answers::{moment, object};
use super::{about, list_of, named, one_of, text};
use crate::alarms::State;
use crate::config::Kind;

pub(super) fn all() -> Value {
    json!({
        "Alarms": object("What is watched.", &["alarms"], json!({
            "looked": about("When it was last looked; missing until it first is.", moment()),
            "alarms": list_of(named("Alarm")),
        })),
        "Alarm": alarm(),
        "Incident": incident(),
    })
}

fn number(words: &str) -> Value {
    about(words, json!({"type": "number", "minimum": 0}))
}

fn alarm() -> Value {
    let required = ["name", "kind", "threshold", "for", "quiet", "to", "state", "incidents"];
    let properties = json!({
        "name": text(),
        "kind": about("What is watched.", one_of(&Kind::ALL.map(|(name, _)| name))),
        "topic": about("Of each topic that fits; missing: of all together.", text()),
        "destination": about("Of each destination that fits; missing: of all together.", text()),
        "threshold": number("What it must be over, or below for `disk`: a number, seconds, bytes."),
        "for": about("How long it must be so before it is told.", named("DurationText")),
        "quiet": about("How long it must be over before that is told.", named("DurationText")),
        "to": about("Where it is told, without what follows the host.", text()),
        "state": about(
            "The worst of its incidents; `pending` was not so for long enough to be told.",
            one_of(&State::ALL.map(State::as_str)),
        ),
        "incidents": about("At most 100 are told at a time.", list_of(named("Incident"))),
    });
    object("A rule by which it is watched.", &required, properties)
}

fn incident() -> Value {
    let properties = json!({
        "topic": about("Of which topic, if the rule is of each.", text()),
        "destination": about("Of which destination, if the rule is of each.", text()),
        "state": one_of(&[State::Pending, State::Firing].map(State::as_str)),
        "value": number("How much it was when it was last so."),
        "since": about("Since when it is so.", moment()),
    });
    object("What is not well.", &["state", "value", "since"], properties)
}
