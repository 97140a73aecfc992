//! What calls take.

use linger::job::PRIORITY_DEFAULT;
use linger::queue::POP_MAX;
use linger::topic::Headers;
use serde_json::{Value, json};

use super::words::{NUMBER, units};
use super::{
    about, fields, flag, given, joined, large, list_of, named, not_both, one_of, small, text,
    whole, with,
};

pub(super) fn all() -> Value {
    joined([
        json!({"NewJob": new_job(), "NewJobs": new_jobs(), "Patch": patch()}),
        pops(),
        settles(),
        many(),
        topics(),
        secrets(),
    ])
}

fn body() -> Value {
    about("Any JSON, kept byte for byte; a string is kept as its text.", json!({}))
}

fn body_base64() -> Value {
    const BASE64: &str =
        "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
    let bytes = json!({"type": "string", "contentEncoding": "base64", "pattern": BASE64});
    about("Bytes, in place of `body`.", bytes)
}

/// As `not_both`, but that null is a body, too.
fn one_body() -> Value {
    json!({"not": {"allOf": [{"required": ["body"]}, given("body_base64")]}})
}

fn lease() -> Value {
    about("Whose attempt it was. Without it, whoever holds the job.", named("Lease"))
}

fn if_version() -> Value {
    about("Only if the job's `version` is this.", large())
}

fn new_job() -> Value {
    const TTR: &str = "Time to run: how long an attempt may take before the job is handed out \
         again. Its topic's unless given.";
    let old = |text: &str, schema: Value| with(about(text, schema), "deprecated", json!(true));
    let content_type = json!({
        "type": "string", "maxLength": 255, "pattern": "^[!-.0-~]([ -.0-~]*)/([ -~]*)[!-~]$",
        "examples": ["application/json"],
    });
    let traceparent = json!({
        "type": "string",
        "pattern": "^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$",
        "examples": ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
    });
    let priority = with(small(), "default", PRIORITY_DEFAULT.into());
    let on_conflict = one_of(&["reject", "keep", "replace"]);
    let mut job = fields(
        "A job to add.",
        json!({
            "topic": about("`default` unless given.", named("Topic")),
            "id": about("A UUID is made unless given.", named("Id")),
            "body": body(),
            "body_base64": body_base64(),
            "delay": about("How long from now it is due; at once unless given.", named("Delay")),
            "at": about("When it is due, in place of `delay`.", named("Time")),
            "ttr": about(TTR, named("Ttr")),
            "priority": about("Smaller is sooner among ready jobs.", priority),
            "retry": about("Its topic's unless given.", named("Retry")),
            "repeat": named("Repeat"),
            "target": about("Without one it waits to be popped.", named("Target")),
            "confirm": named("Confirm"),
            "envelope": named("Envelope"),
            "retain": about("How long it stays visible when finished.", named("Duration")),
            "held": about("Set aside from the start.", flag()),
            "on_conflict": about("What to do if the topic has a job of this id.", on_conflict),
            "content_type": about("What the body is.", content_type),
            "traceparent": about("A W3C trace, continued at delivery.", traceparent),
            "notify_url": old("An old name of `target`.", named("Target")),
            "url": old("An old name of `target`.", named("Target")),
            "is_loop": old("An old way to say: repeat every `ttr`.", flag()),
        }),
    );
    job["allOf"] = json!([
        not_both("delay", "at"),
        one_body(),
        not_both("target", "notify_url"),
        not_both("target", "url"),
        not_both("notify_url", "url"),
    ]);
    job
}

fn new_jobs() -> Value {
    json!({
        "description": "A job, or up to 1,000 of them, each added or refused by itself.",
        "anyOf": [named("NewJob"), with(list_of(named("NewJob")), "maxItems", json!(1000))],
    })
}

fn patch() -> Value {
    let mut patch = fields(
        "Changes to a job. Null takes its own `ttr`, `retry` or `target` away, so that its topic's \
         hold again.",
        json!({
            "delay": about("Due so long from now.", named("Delay")),
            "at": about("Due then, in place of `delay`.", named("Time")),
            "body": body(),
            "body_base64": body_base64(),
            "priority": small(),
            "ttr": named("Ttr"),
            "retry": named("Retry"),
            "target": named("Target"),
            "if_version": if_version(),
        }),
    );
    patch["allOf"] = json!([not_both("delay", "at"), one_body()]);
    patch
}

fn pops() -> Value {
    const ABOUT: &str = "What to pop, and how long to wait for it.";
    const WAIT: &str =
        "How long to wait for the first; 10 minutes at most unless the server is set otherwise.";
    let max = with(whole(1, POP_MAX.into()), "default", json!(1));
    let pop = json!({
        "max": about("At most so many.", max),
        "wait": about(WAIT, named("Duration")),
        "ttr": about("How long these attempts may take, in place of the jobs' own.", named("Ttr")),
    });
    let mut many = fields(ABOUT, pop.clone());
    many["properties"]["topics"] = with(list_of(named("Topic")), "minItems", json!(1));
    many["required"] = json!(["topics"]);
    json!({"Pop": fields(ABOUT, pop), "PopMany": many})
}

fn settles() -> Value {
    json!({
        "Finish": fields("Which attempt has finished.", json!({"lease": lease()})),
        "Fail": fields("Which attempt has failed, and why.", json!({
            "lease": lease(),
            "error": about("Why, for people.", text()),
            "retry_in": about("When to try again, in place of its next step.", named("Delay")),
            "again": about("Not a failure, only not yet.", flag()),
        })),
        "Release": fields("Which attempt is given back.", json!({
            "lease": lease(),
            "delay": about("Ready again after so long; at once unless given.", named("Delay")),
            "priority": about("Its priority from now on.", small()),
        })),
        "Touch": fields("Which attempt needs more time.", json!({
            "lease": lease(),
            "ttr": about("How much, from now; as long as before unless given.", named("Ttr")),
        })),
        "ByHand": fields("Which version of the job.", json!({"if_version": if_version()})),
        "Nothing": fields("Nothing to say.", json!({})),
    })
}

fn many() -> Value {
    let mut named_job = fields("A job by its id.", json!({"lease": lease()}));
    named_job["properties"]["id"] = named("Id");
    named_job["required"] = json!(["id"]);
    let mut chosen = fields(
        "Which jobs: `jobs` or `where`.",
        json!({
            "jobs": about("These.", list_of(named("NamedJob"))),
            "where": about("All that fit, in place of `jobs`; `{}` is all.", named("Filter")),
            "limit": about("At most so many of those that fit.", large()),
            "dry_run": about("Only count those that fit.", flag()),
        }),
    );
    chosen["allOf"] = ["where", "limit", "dry_run"].map(|other| not_both("jobs", other)).into();
    let mut dead = chosen.clone();
    dead["description"] = json!("Which jobs: `jobs` or `where`; all dead ones unless given.");
    chosen["anyOf"] = json!([given("jobs"), given("where")]);
    json!({
        "NamedJob": named_job,
        "Chosen": chosen,
        "ChosenDead": dead,
        "Filter": fields("Which jobs. All that is given must fit.", json!({
            "state": named("State"),
            "due_after": about("Due at or after this.", named("Time")),
            "due_before": about("Due before this.", named("Time")),
            "id_prefix": about("With an id that begins like this.", text()),
            "error": about("With exactly this last error.", text()),
        })),
    })
}

fn topics() -> Value {
    const SETTINGS: &str = "What holds for the jobs of a topic that do not say otherwise, and how \
         fast they are handed out.";
    const ARCHIVE: &str = "Where jobs go that were finished, died or were deleted: `files` of JSON \
    lines, or where to push them to.";
    const JOBS_MAX: &str = "The most jobs that it may have, in whatever state; more are refused as \
         `overloaded`.";
    const BYTES_MAX: &str = "The most bytes that the bodies of its jobs may have together, in whatever \
         state; what would make it more is refused as `overloaded`.";
    const PARTITIONS: &str = "Over how many parts of a shared store its jobs are spread, each with an \
         order and limits of its own; to be changed only while it has no jobs.";
    const RATE: &str = "So many hand-outs in so much time: `100` a second, `10/m`, `500/15m`; \
         counted over 1 ms to a day.";
    let (count, per) = ("[0-9]{1,10}", format!("(d|h|m|s|ms|{NUMBER}|{})", units()));
    let rate = json!({
        "anyOf": [
            whole(1, u32::MAX.into()),
            {"type": "string", "pattern": format!("^{count}$|^{count}/{per}$")},
        ],
        "examples": ["100", "10/m"],
    });
    let headers = json!({
        "type": "object", "maxProperties": Headers::COUNT_MAX,
        "additionalProperties": {"type": "string"},
    });
    let archive = json!({"anyOf": [{"type": "string", "enum": ["files"]}, named("Target")]});
    let until_resumed = about("Until resumed unless given.", named("Duration"));
    json!({
        "Pause": fields("How long.", json!({"for": until_resumed})),
        "TopicSettings": fields(SETTINGS, json!({
            "ttr": about("How long an attempt may take.", named("Ttr")),
            "retry": named("Retry"),
            "target": about("Where its jobs are pushed.", named("Target")),
            "confirm": named("Confirm"),
            "envelope": named("Envelope"),
            "timeout": about("The most an attempt to push may take; 30s unless given.", named("Ttr")),
            "headers": about("What every push brings along besides.", headers),
            "archive": about(ARCHIVE, archive),
            "retain": about("How long finished jobs stay visible.", named("Duration")),
            "retain_dead": about("How long dead ones do; for ever unless given.", named("Duration")),
            "rate": about(RATE, rate),
            "concurrency": about("So many handed out at once.", whole(1, u32::MAX.into())),
            "jobs_max": about(JOBS_MAX, whole(1, u32::MAX.into())),
            "bytes_max": about(BYTES_MAX, with(large(), "minimum", 1.into())),
            "partitions": about(PARTITIONS, whole(1, 256)),
        })),
    })
}

fn secrets() -> Value {
    let mut new = fields(
        "A secret, and what it signs: a `topic` or a `target`.",
        json!({
            "topic": about("The jobs of this topic.", named("Topic")),
            "target": about(
                "Jobs with targets that begin like this, up to a `/` or `?`; without a user name.",
                named("Target"),
            ),
            "kind": about("`hmac` unless given, or what the secret is for.", named("SecretKind")),
            "secret": about(
                "Your own: `whsec_` and 24 to 64 bytes in base64, or `whsk_` and 32 (or 64, with \
                 the public key). One is made unless given.",
                json!({"type": "string", "pattern": "^wh(sec|sk)_[A-Za-z0-9+/]+=*$"}),
            ),
            "keep_old": about(
                "How long the owner's older ones sign as well; a day unless given.",
                named("Duration"),
            ),
        }),
    );
    new["allOf"] =
        json!([not_both("topic", "target"), {"anyOf": [given("topic"), given("target")]}]);
    json!({
        "NewSecret": new,
        "SecretKind": about("How it signs.", one_of(&["hmac", "ed25519"])),
    })
}
