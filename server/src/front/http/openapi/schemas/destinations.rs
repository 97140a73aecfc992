//! Where pushes go.

use linger::queue::PAGE_MAX;
use linger::worker::FAILED_MAX;
use serde_json::{Value, json};

use super::answers::{moment, object};
use super::{about, large, list_of, named, one_of, small, text, with};

pub(super) fn all() -> Value {
    let destinations = with(list_of(named("Destination")), "maxItems", PAGE_MAX.into());
    let failures = with(list_of(named("FailedPush")), "maxItems", FAILED_MAX.into());
    let required = ["destinations", "recent_failures"];
    json!({
        "Destinations": object("Where this server pushes to.", &required, json!({
            "destinations": destinations,
            "cursor": about("Where to go on; missing on the last page.", text()),
            "recent_failures": about("The latest attempts that failed, the newest first.", failures),
        })),
        "Destination": destination(),
        "FailedPush": failed(),
    })
}

fn destination() -> Value {
    let ms = || json!({"type": "number", "minimum": 0});
    let latency = object(
        "How long recent attempts took, in milliseconds; missing if there were none.",
        &["p50", "p99"],
        json!({"p50": ms(), "p99": ms()}),
    );
    let properties = json!({
        "destination": text(),
        "state": about(
            "`closed` gets no job before a probe has succeeded, `probing` is being tried.",
            one_of(&["open", "closed", "probing"]),
        ),
        "under_way": about("Attempts under way.", large()),
        "deliveries": about("Attempts that have ended, since the server started.", large()),
        "failures": about("Those of them that failed, whoever is at fault.", large()),
        "latency_ms": latency,
        "last_success": about("When one last ended otherwise.", moment()),
        "last_failure": about("When one last failed.", moment()),
        "last_error": about("What that was.", text()),
        "opens": about("Of a closed one: when it is probed next, if there is a job for it.", moment()),
    });
    let required = ["destination", "state", "under_way", "deliveries", "failures"];
    object("A host, a sink, or the workers of a topic.", &required, properties)
}

fn failed() -> Value {
    let properties = json!({
        "time": about("When it ended.", moment()),
        "topic": named("Topic"),
        "id": named("Id"),
        "attempt": small(),
        "destination": text(),
        "error": text(),
    });
    let required = ["time", "topic", "id", "attempt", "destination", "error"];
    object("An attempt that failed.", &required, properties)
}
