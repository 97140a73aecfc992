//! Every call there is, in the words of the API's description.

mod alarms;
mod backup;
mod config;
mod destinations;
mod events;
mod jobs;
mod keys;
mod nodes;
pub(crate) mod old;
mod probes;
mod secrets;
mod stats;
mod topics;
mod work;
mod workers;

use serde_json::{Value, json};

use super::operation::Operation;
use crate::config::Fronts;

/// The calls of version 1, and of those older dialects that are switched on.
pub(crate) fn calls(fronts: &Fronts) -> Vec<Operation> {
    let mut calls = jobs::calls();
    calls.extend(work::calls());
    calls.extend(topics::calls());
    calls.extend(secrets::calls());
    calls.extend(keys::calls());
    calls.extend(workers::calls());
    calls.extend(destinations::calls());
    calls.extend(nodes::calls());
    calls.extend(backup::calls());
    calls.extend(config::calls());
    calls.extend(stats::calls());
    calls.extend(events::calls());
    calls.extend(alarms::calls());
    calls.extend(probes::calls());
    for (on, dialect) in [
        (fronts.command, old::command as fn() -> Vec<Operation>),
        (fronts.ouqiang, old::ouqiang),
        (fronts.tasks, old::tasks),
    ] {
        if on {
            calls.extend(dialect());
        }
    }
    calls
}

/// Groups of calls, in the order in which a page shows them.
pub(crate) fn tags() -> Value {
    json!([
        {"name": "jobs", "description": "Adding, looking at, changing and cancelling jobs."},
        {"name": "work", "description": "Popping jobs, and saying what became of them."},
        {
            "name": "topics",
            "description": "Looking at topics and their jobs, and changing how they behave.",
        },
        {"name": "secrets", "description": "Keys that sign what is pushed."},
        {"name": "keys", "description": "Keys that let callers in, and what was changed by them."},
        {
            "name": "workers",
            "description": "Registering workers, which are called for jobs of their topics.",
        },
        {"name": "destinations", "description": "Where pushes go, and how that goes."},
        {"name": "nodes", "description": "Instances that share a store, and its buckets."},
        {"name": "stats", "description": "What the server and its store count."},
        {"name": "events", "description": "What happened, and how often."},
        {"name": "alarms", "description": "What is watched, and what is not well."},
        {"name": "probes", "description": "Whether the server is well, and what it offers."},
        {
            "name": "command",
            "description": "The command protocol of the original design. Every answer has status \
                200; `success` says what became of it.",
        },
        {
            "name": "ouqiang",
            "description": "The calls of ouqiang's delay-queue. Every answer has status 200; \
                `code` is 0 if it was done. Names of fields are known in any case.",
        },
        {
            "name": "tasks",
            "description": "The task calls of zywaited's delay-queue. What is refused is a status \
                without a body.",
        },
    ])
}

const MOMENT: &str = "2026-12-01T09:00:00.000Z";
const DUE: &str = "2026-12-01T09:30:00.001Z";
const LEASE: &str = "964575cde7ee6985";

/// Where the job of the examples stands.
fn standing(state: &str) -> Value {
    json!({
        "number": 1, "state": state, "due": DUE, "attempt": 0, "version": 2, "priority": 1024,
    })
}

/// The job of the examples, as it is answered when it is added.
fn job() -> Value {
    json!({
        "topic": "order.close", "id": "1001", "number": 1, "state": "delayed", "due": DUE,
        "attempt": 0, "version": 1, "priority": 1024, "created": MOMENT,
    })
}

/// The same with its body.
fn job_with_body() -> Value {
    let mut job = job();
    job["body"] = json!({"order": 1001});
    job
}

/// The same, handed out.
fn delivery() -> Value {
    json!({
        "lease": LEASE, "topic": "order.close", "id": "1001", "number": 1, "state": "reserved",
        "due": DUE, "attempt": 1, "version": 2, "priority": 1024, "created": MOMENT,
        "reserved_until": "2026-12-01T09:31:00.002Z", "body": {"order": 1001},
    })
}
