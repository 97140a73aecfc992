//! What is counted.

use linger::machine::Stage;
use linger::stats::BOUNDS_US;
use linger::worker::Totals;
use serde_json::{Map, Value, json};

use super::answers::{moment, object};
use super::{about, flag, large, list_of, named, one_of, text, with};
use crate::front::http::metrics;

pub(super) fn all() -> Value {
    json!({
        "Counts": numbers("Jobs by state.", &Stage::ALL.map(Stage::as_str)),
        "Stats": stats(),
        "Lateness": lateness(),
        "StoreFacts": store(),
        "Pushes": pushes(),
    })
}

fn numbers(words: &str, names: &[&str]) -> Value {
    let fields: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), large())).collect();
    object(words, names, fields.into())
}

fn stats() -> Value {
    let required =
        ["now", "version", "started", "counts", "topics", "waiting", "totals", "lateness", "store"];
    let totals =
        ["added", "handed_out", "finished", "failed", "again", "timed_out", "died", "deleted"];
    let oldest = object(
        "Of the jobs that are next in line in topics that are not paused, the one that has been due \
            for longest, as it was up to 2 s ago. Looked for in the first 1,000 topics that have ready \
            jobs; missing if nothing is ready.",
        &["topic", "id", "due"],
        json!({"topic": named("Topic"), "id": named("Id"), "due": moment()}),
    );
    let properties = json!({
        "now": moment(),
        "version": about("Of the server that answers.", text()),
        "started": about("When that server started.", moment()),
        "counts": about("Over all topics.", named("Counts")),
        "topics": about("Topics there are.", large()),
        "waiting": about("Calls that wait for jobs.", large()),
        "totals": numbers("What happened since the store was opened.", &totals),
        "lateness": named("Lateness"),
        "oldest_ready": oldest,
        "store": named("StoreFacts"),
        "pushes": about("Missing if this server does not push.", named("Pushes")),
    });
    object("What the server and its store count.", &required, properties)
}

fn lateness() -> Value {
    let many = |schema: Value, many: usize| {
        with(with(list_of(schema), "minItems", many.into()), "maxItems", many.into())
    };
    let bounds = many(json!({"type": "number", "minimum": 0}), BOUNDS_US.len());
    let counts = || many(large(), BOUNDS_US.len() + 1);
    let properties = json!({
        "bounds_ms": about("The upper bounds of the classes; the last class has none.", bounds),
        "due_to_ready": about("The server's part of being late.", counts()),
        "ready_to_handed_out": about("The consumers' part.", counts()),
    });
    let required = ["bounds_ms", "due_to_ready", "ready_to_handed_out"];
    object("How late jobs were, as histograms since the store was opened.", &required, properties)
}

fn store() -> Value {
    let folder = object(
        "In a folder.",
        &["kind", "durability", "log_bytes", "live_bytes", "checkpoint_bytes", "full"],
        json!({
            "kind": {"const": "folder"},
            "durability": one_of(&["sync", "relaxed"]),
            "log_bytes": about("What the log takes on disk.", large()),
            "live_bytes": about("What of it is still wanted.", large()),
            "checkpoint_bytes": about("What checkpoints take on disk.", large()),
            "free_bytes": about("What is free, once that was looked at.", large()),
            "full": about("Whether the disk is too full for new jobs.", flag()),
        }),
    );
    let redis = object(
        "On Redis.",
        &["kind", "away_seconds"],
        json!({
            "kind": {"const": "redis"},
            "away_seconds": about("For how long it has been away.", large()),
        }),
    );
    json!({"description": "Where jobs are kept.", "oneOf": [folder, redis]})
}

fn pushes() -> Value {
    let outcomes = metrics::outcomes(&Totals::default()).map(|(name, _)| name);
    let properties = json!({
        "running": about("Pushes under way.", large()),
        "closed": about("Destinations that are closed until a probe succeeds.", large()),
        "totals": numbers("Attempts by how they ended, since this server started.", &outcomes),
    });
    object("What this server pushes.", &["running", "closed", "totals"], properties)
}
