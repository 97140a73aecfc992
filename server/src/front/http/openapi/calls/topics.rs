//! Looking at topics and their jobs, and changing how they behave.

use linger::error::Code;
use linger::queue::{FORECAST_BUCKETS_MAX, PAGE_MAX};
use serde_json::{Value, json};

use super::super::operation::{Operation, named};
use super::job;

const TOPIC: &str = "/v1/topics/{topic}";

pub(super) fn calls() -> Vec<Operation> {
    let limit = || json!({"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": 100});
    let text = || json!({"type": "string"});
    let list =
        Operation::new("get", "/v1/topics", "listTopics", "Topics, with counts and settings")
            .asks("prefix", "With names that begin like this.", text(), json!("order."))
            .asks("limit", "At most so many.", limit(), json!(100))
            .asks("cursor", "Where the page before left off.", named("Topic"), json!(""))
            .answers(200, "The topics, by name.", "TopicPage", json!({"topics": [topic()]}))
            .reads(&[]);
    let look = Operation::new("get", TOPIC, "getTopic", "A topic, with counts and settings")
        .answers(200, "The topic.", "TopicInfo", topic())
        .reads(&[Code::NotFound]);
    let set = Operation::new(
        "put",
        TOPIC,
        "setTopic",
        "Gives a topic settings, in place of all it had",
    )
    .note("They reach the jobs that wait already.")
    .takes(
        "TopicSettings",
        &[(
            "All of them",
            json!({
                "ttr": "60s", "retry": {"attempts": 5, "ladder": ["15s", "3m"], "backoff": null},
                "target": null, "confirm": "delivery", "envelope": "body", "timeout": "10s",
                "headers": {"x-shop": "1"}, "archive": "files", "retain": "1h", "retain_dead": "30d",
                "rate": "10/m", "concurrency": 8,
            }),
        )],
    )
    .answers(200, "The topic.", "TopicInfo", topic())
    .writes(&[]);
    let forget =
        Operation::new("delete", TOPIC, "forgetTopic", "Removes a topic's jobs and settings")
            .answers(200, "How many jobs are gone.", "Gone", json!({"count": 1}))
            .writes(&[Code::NotFound]);
    let pause = Operation::new(
        "post",
        "/v1/topics/{topic}/pause",
        "pauseTopic",
        "Stops handing out a topic's jobs",
    )
    .takes("Pause", &[("For ten minutes", json!({"for": "10m"})), ("Until resumed", json!({}))])
    .answers(200, "The topic.", "TopicInfo", paused())
    .writes(&[]);
    let resume = Operation::new(
        "post",
        "/v1/topics/{topic}/resume",
        "resumeTopic",
        "Hands out a topic's jobs again",
    )
    .takes("Nothing", &[("Nothing to say", json!({}))])
    .answers(200, "The topic.", "TopicInfo", topic())
    .writes(&[Code::NotFound]);
    let empty = Operation::new(
        "post",
        "/v1/topics/{topic}/empty",
        "emptyTopic",
        "Removes a topic's jobs and keeps its settings",
    )
    .takes("Nothing", &[("Nothing to say", json!({}))])
    .answers(200, "How many jobs are gone.", "Gone", json!({"count": 1}))
    .writes(&[Code::NotFound]);
    let browse = Operation::new(
        "get",
        "/v1/topics/{topic}/jobs",
        "browseJobs",
        "A topic's jobs, page by page",
    )
    .note(
        "A call without bodies looks at 10,000 jobs at most. If a filter passes over as many, a page has fewer jobs \
         than `limit`, even none, and a `cursor` to go on from.",
    )
    .asks("state", "In this state.", named("State"), json!("delayed"))
    .asks("due_before", "Due before this.", named("Time"), json!("2099-12-01T00:00:00Z"))
    .asks("due_after", "Due at or after this.", named("Time"), json!("2026-01-01T00:00:00Z"))
    .asks("id_prefix", "With an id that begins like this.", text(), json!("10"))
    .asks("error", "With exactly this last error.", text(), json!(""))
    .asks("limit", "At most so many.", limit(), json!(100))
    .asks("cursor", "Where the page before left off: what that page said.", text(), json!(""))
    .asks(
        "body",
        "Whether bodies come along; a page then ends at about 8 MiB.",
        json!({"type": "boolean", "default": false}),
        json!(false),
    )
    .answers(
        200,
        "The jobs: ready ones by priority, others by due time.",
        "JobPage",
        json!({"jobs": [job()]}),
    )
    .reads(&[]);
    let errors = Operation::new(
        "get",
        "/v1/topics/{topic}/errors",
        "listErrors",
        "A topic's dead jobs, counted by their last error",
    )
    .note("The 100 most frequent. An unknown topic has none.")
    .answers(
        200,
        "The errors, the most frequent first, equals by text.",
        "Errors",
        json!({"errors": [{"error": "no answer", "count": 1}]}),
    )
    .reads(&[]);
    let buckets =
        json!({"type": "integer", "minimum": 1, "maximum": FORECAST_BUCKETS_MAX, "default": 24});
    let due = Operation::new("get", "/v1/due", "forecast", "How many jobs fall due when")
        .asks("topic", "Of one topic; of all unless given.", named("Topic"), json!("order.close"))
        .asks(
            "from",
            "From this moment on; now unless given.",
            named("Time"),
            json!("2026-12-01T00:00:00Z"),
        )
        .asks(
            "to",
            "Until before this one; a day later unless given.",
            named("Time"),
            json!("2026-12-02T00:00:00Z"),
        )
        .asks("buckets", "In so many equal parts.", buckets, json!(24))
        .answers(
            200,
            "The counts.",
            "Forecast",
            json!({
                "from": "2026-12-01T00:00:00.000Z", "to": "2026-12-02T00:00:00.000Z",
                "buckets": [{"from": "2026-12-01T00:00:00.000Z", "count": 1}],
            }),
        )
        .reads(&[]);
    let calls = [list, look, set, forget, pause, resume, empty, browse, errors, due];
    calls.into_iter().map(|call| call.tag("topics")).collect()
}

fn topic() -> Value {
    json!({
        "topic": "order.close", "paused": false,
        "counts": {
            "delayed": 1, "ready": 0, "reserved": 0, "retry": 0, "held": 0, "dead": 0,
            "finished": 0,
        },
        "waiting": 0, "added": 1,
        "settings": {},
    })
}

fn paused() -> Value {
    let mut topic = topic();
    topic["paused"] = json!(true);
    topic["paused_for"] = json!("10m");
    topic
}
