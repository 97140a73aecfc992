//! What is watched.

use serde_json::{Value, json};

use super::super::operation::Operation;
use super::MOMENT;

pub(super) fn calls() -> Vec<Operation> {
    let list = Operation::new(
        "get",
        "/v1/alarms",
        "listAlarms",
        "The rules by which it is watched, and what is not well",
    )
    .note(
        "Rules stand in the settings. What is not well is as this server last saw it, some \
            seconds ago.",
    )
    .answers(200, "The rules, in their order.", "Alarms", alarms())
    .reads(&[])
    .tag("alarms");
    vec![list]
}

fn alarms() -> Value {
    let incident = json!({"state": "pending", "value": 734003200, "since": MOMENT});
    let alarm = json!({
        "name": "disk", "kind": "disk", "threshold": 1073741824, "for": "1m", "quiet": "5m",
        "to": "https://ops.example", "state": "pending", "incidents": [incident],
    });
    json!({"looked": MOMENT, "alarms": [alarm]})
}
