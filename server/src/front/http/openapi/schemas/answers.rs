//! What calls answer.

use linger::error::Code;
use linger::queue::{ERRORS_MAX, FORECAST_BUCKETS_MAX, PAGE_MAX};
use serde_json::{Value, json};

use super::{about, flag, joined, large, list_of, named, one_of, small, text, with};
use crate::front::http::upcoming::COUNT_MAX;

pub(super) fn all() -> Value {
    joined([jobs(), results(), topics(), secrets(), errors()])
}

pub(super) fn moment() -> Value {
    json!({"type": "string", "format": "date-time"})
}

pub(super) fn object(text: &str, required: &[&str], properties: Value) -> Value {
    json!({"description": text, "type": "object", "required": required, "properties": properties})
}

/// An object of one field, which is a list.
fn only_list(name: &str, of: &str) -> Value {
    let items = list_of(named(of));
    json!({"type": "object", "required": [name], "properties": {name: items}})
}

/// One page of a list.
pub(super) fn page(name: &str, of: &str) -> Value {
    let mut page = only_list(name, of);
    page["properties"][name]["maxItems"] = json!(PAGE_MAX);
    page["properties"]["cursor"] = about("Where to go on; missing on the last page.", text());
    page
}

fn jobs() -> Value {
    const STANDS: [&str; 6] = ["number", "state", "due", "attempt", "version", "priority"];
    let standing = json!({
        "number": about("Its number in this store, never given twice.", large()),
        "state": named("State"),
        "due": moment(),
        "attempt": about("How often it was handed out.", small()),
        "version": about("Counts its changes.", large()),
        "priority": small(),
        "occurrence": about("Of a repeating job: which one this is, from 0.", small()),
        "reserved_until": about("When its lease ends.", moment()),
    });
    let given = json!({
        "created": moment(),
        "last_error": text(),
        "ttr": named("DurationText"),
        "retry": named("Retry"),
        "repeat": named("Repeat"),
        "target": named("Target"),
        "confirm": named("Confirm"),
        "envelope": named("Envelope"),
        "retain": named("DurationText"),
        "content_type": text(),
        "traceparent": text(),
        "body": {"description": "As it was given."},
        "body_base64": about("In place of `body`, if it is bytes.", text()),
    });
    let names = json!({"topic": named("Topic"), "id": named("Id")});
    let job = joined([names, standing.clone(), given]);
    let delivery = joined([json!({"lease": named("Lease")}), job.clone()]);
    let always = [&["topic", "id", "created"], &STANDS[..]].concat();
    let handed_out = [&["lease", "reserved_until"], &always[..]].concat();
    let (where_it_stands, pushed) =
        ("Where a job stands, without what its caller gave.", "What a push was answered.");
    json!({
        "Job": object("A job.", &always, job),
        "Delivery": object("A job that was handed out.", &handed_out, delivery),
        "Standing": object(where_it_stands, &STANDS, standing),
        "Jobs": only_list("jobs", "Job"),
        "Deliveries": only_list("jobs", "Delivery"),
        "JobPage": page("jobs", "Job"),
        "History": only_list("history", "Event"),
        "Upcoming": object("When a job is due next.", &["upcoming"], json!({
            "upcoming": with(list_of(moment()), "maxItems", COUNT_MAX.into()),
        })),
        "Event": object("Something that happened to a job.", &["at", "what", "attempt"], json!({
            "at": moment(),
            "what": text(),
            "attempt": small(),
            "took": named("DurationText"),
            "error": text(),
            "by": about("Who did it.", text()),
            "answer": object(pushed, &[], json!({"status": small(), "excerpt": text()})),
        })),
    })
}

fn results() -> Value {
    let changed = json!({
        "changed": about("Whether this call changed anything.", flag()),
        "job": about("Where it stands now; missing if it is gone.", named("Standing")),
    });
    let result =
        joined([json!({"id": named("Id")}), changed.clone(), json!({"error": named("Reason")})]);
    json!({
        "Changed": object("What became of a job.", &["changed"], changed),
        "Result": object("What became of one of many: `changed` or `error`.", &["id"], result),
        "Added": {
            "description": "The job as it was added, or why it was refused.",
            "oneOf": [
                object("", &["job"], json!({"job": named("Job")})),
                object("", &["error"], json!({"error": named("Reason")})),
            ],
        },
        "JobOrMany": {"anyOf": [named("Job"), list_of(named("Added"))]},
        "ManyDone": {
            "description": "One result for each of `jobs`, in order; a count for `where`.",
            "anyOf": [
                only_list("results", "Result"),
                object("", &["count", "dry_run"], json!({"count": large(), "dry_run": flag()})),
            ],
        },
        "Gone": object("How many jobs are gone.", &["count"], json!({"count": large()})),
    })
}

fn topics() -> Value {
    let bucket = object("", &["from", "count"], json!({"from": moment(), "count": large()}));
    let topic = json!({
        "topic": named("Topic"),
        "paused": flag(),
        "paused_for": about("How much longer, if not until resumed.", named("DurationText")),
        "counts": named("Counts"),
        "waiting": about("Calls that wait for its jobs.", large()),
        "added": about("Jobs added since it came to be.", large()),
        "bytes": about("What the bodies of its jobs have together, if it has a `bytes_max`.", large()),
        "settings": named("TopicSettings"),
    });
    let error = object("", &["error", "count"], json!({"error": text(), "count": large()}));
    let errors = json!({"errors": with(list_of(error), "maxItems", ERRORS_MAX.into())});
    let about_topic = "A topic; one that nothing names any more has only its name.";
    json!({
        "TopicInfo": object(about_topic, &["topic"], topic),
        "TopicPage": page("topics", "TopicInfo"),
        "Errors": object("Dead jobs by their last error.", &["errors"], errors),
        "Forecast": object("How many jobs fall due when.", &["from", "to", "buckets"], json!({
            "from": moment(),
            "to": moment(),
            "buckets": with(list_of(bucket), "maxItems", FORECAST_BUCKETS_MAX.into()),
        })),
    })
}

fn secrets() -> Value {
    const ALWAYS: [&str; 3] = ["id", "kind", "created"];
    let secret = json!({
        "id": text(),
        "topic": about("Whose jobs it signs.", named("Topic")),
        "target": about("In place of `topic`: how targets begin.", text()),
        "kind": named("SecretKind"),
        "created": moment(),
        "expires": about("When it ends, once there is a newer one.", moment()),
        "public_key": about("Of ed25519: what receivers verify with, `whpk_…`.", text()),
    });
    let made = joined([
        secret.clone(),
        json!({"secret": about("Of HMAC: what receivers verify with, shown this once.", text())}),
    ]);
    json!({
        "Secret": object("A secret, without what is secret.", &ALWAYS, secret),
        "NewSecretMade": object("A secret that was made.", &ALWAYS, made),
        "SecretPage": page("secrets", "Secret"),
    })
}

fn errors() -> Value {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    json!({
        "Error": object("Why a call was refused.", &["error"], json!({"error": named("Reason")})),
        "Reason": object("Match on `code`; the text is for people.", &["code", "message"], json!({
            "code": one_of(&codes),
            "message": about("What is wrong, and what would have been right.", text()),
            "field": about("The field or parameter at fault, if it is one.", text()),
        })),
    })
}
