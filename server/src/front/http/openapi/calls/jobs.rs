//! Adding, looking at, changing and cancelling jobs.

use linger::error::Code;
use serde_json::json;

use super::super::operation::Operation;
use super::{DUE, MOMENT, job, job_with_body, standing};
use crate::front::http::upcoming::{COUNT_DEFAULT, COUNT_MAX};

const JOB: &str = "/v1/topics/{topic}/jobs/{id}";

pub(super) fn calls() -> Vec<Operation> {
    let key = json!({
        "type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]([ -~]*[!-~])?$",
    });
    let add = Operation::new("post", "/v1/jobs", "addJobs", "Adds a job, or many")
        .note("One job is answered by itself. Many are answered in order, each added or refused by \
            itself; past 1,000 or 16 MiB, or if the JSON is broken, nothing is changed.")
        .header(
            "Idempotency-Key",
            "A job without an id gets one that is made from this key, and is kept if it is there \
                already.",
            key,
            "order-1001-close",
        )
        .header(
            "traceparent",
            "The W3C trace that the call is part of. It is kept with jobs that bring none, and passed \
                over if it is none.",
            json!({"type": "string"}),
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
        .takes("NewJobs", &[
            (
                "Close an order in half an hour",
                json!({
                    "topic": "order.close", "id": "1001", "delay": "30m",
                    "body": {"order": 1001},
                }),
            ),
            (
                "Retry along a ladder",
                json!({
                    "topic": "mail", "at": "2026-12-01T09:00:00+08:00", "body": "hello",
                    "ttr": "20s", "priority": 10, "retain": "1d",
                    "retry": {"attempts": 5, "ladder": ["15s", "3m", "10m"], "from": "due"},
                }),
            ),
            (
                "Retry with a backoff",
                json!({
                    "topic": "mail", "id": "7", "body_base64": "AAEC", "content_type": "image/png",
                    "on_conflict": "replace", "held": true,
                    "retry": {
                        "attempts": 16,
                        "backoff": {"base": "1s", "max": "1h", "jitter": 0.2},
                    },
                }),
            ),
            (
                "Every minute, ten times",
                json!({
                    "topic": "poll", "id": "shop",
                    "repeat": {
                        "every": "60s", "count": 10,
                        "misfire": {"all": 3},
                        "on_dead": "stop",
                    },
                }),
            ),
            (
                "Every morning",
                json!({
                    "topic": "report", "id": "daily", "target": "https://shop.example/hooks/report",
                    "confirm": "delivery", "envelope": "cloudevents",
                    "repeat": {
                        "cron": "0 9 * * *", "tz": "Asia/Shanghai", "until": "2099-12-31T00:00:00Z",
                    },
                }),
            ),
            (
                "Many",
                json!([
                    {"topic": "mail", "body": "one"},
                    {"topic": "mail", "body": "two", "delay": 60},
                ]),
            ),
        ])
        .answers(201, "The job.", "Job", job())
        .answers(
            200, "The job that was there, if it was kept; or many jobs, one answer each.",
            "JobOrMany",
            json!([
                {"job": job()},
                {
                    "error": {
                        "code": "already_exists",
                        "message": "topic `order.close` has a job `1001` already",
                    },
                },
            ]),
        )
        .writes(&[Code::AlreadyExists]);
    let find =
        Operation::new("get", "/v1/jobs/{id}", "findJobs", "The jobs of an id in all topics")
            .answers(
                200,
                "The jobs; none if there are none.",
                "Jobs",
                json!({"jobs": [job_with_body()]}),
            )
            .reads(&[]);
    let look = Operation::new("get", JOB, "getJob", "A job, with its body")
        .answers(200, "The job.", "Job", job_with_body())
        .reads(&[Code::NotFound]);
    let update = Operation::new("patch", JOB, "updateJob", "Changes a job")
        .takes(
            "Patch",
            &[
                ("Later", json!({"delay": "1h"})),
                (
                    "Another body, if nobody was faster",
                    json!({"body": {"order": 1001, "paid": false}, "priority": 5, "if_version": 1}),
                ),
                ("The topic's retries again", json!({"retry": null, "ttr": "90s"})),
                ("A pace of its own", json!({"retry": {"attempts": 3, "backoff": {"base": "1s"}}})),
            ],
        )
        .answers(
            200,
            "What became of it.",
            "Changed",
            json!({"changed": true, "job": standing("delayed")}),
        )
        .writes(&[Code::NotFound, Code::WrongState, Code::VersionMismatch]);
    let delete = Operation::new("delete", JOB, "deleteJob", "Cancels a job, whatever its state")
        .asks(
            "if_version",
            "Only if the job's `version` is this.",
            json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
            json!(1),
        )
        .answers(200, "It is gone.", "Changed", json!({"changed": true}))
        .writes(&[Code::NotFound, Code::VersionMismatch]);
    let events = json!({"history": [
        {"at": MOMENT, "what": "added", "attempt": 0},
        {"at": DUE, "what": "failed", "attempt": 1, "took": "2s", "error": "no answer"},
    ]});
    let history = Operation::new(
        "get",
        "/v1/topics/{topic}/jobs/{id}/history",
        "getHistory",
        "What happened to a job",
    )
    .answers(200, "The latest events, oldest first.", "History", events)
    .reads(&[Code::NotFound]);
    let count = json!({
        "type": "integer", "minimum": 1, "maximum": COUNT_MAX, "default": COUNT_DEFAULT,
    });
    let upcoming = Operation::new(
        "get",
        "/v1/topics/{topic}/jobs/{id}/upcoming",
        "getUpcoming",
        "When a job is due next",
    )
    .note(
        "Its due time while it waits, then the times of its `repeat` that are still to come, as far \
            as `until` and `count` let them. None for a job that neither waits nor repeats, and for \
            one that is dead or finished.",
    )
    .asks("count", "At most so many.", count, json!(5))
    .answers(200, "The times, the next one first.", "Upcoming", json!({"upcoming": [DUE]}))
    .reads(&[Code::NotFound]);
    let by_hand = [
        ("/v1/topics/{topic}/jobs/{id}/run", "runJob", "Makes a job ready now", "ready"),
        ("/v1/topics/{topic}/jobs/{id}/hold", "holdJob", "Sets a job aside", "held"),
        (
            "/v1/topics/{topic}/jobs/{id}/unhold",
            "unholdJob",
            "Lets a job go that was set aside",
            "delayed",
        ),
    ];
    let by_hand = by_hand.map(|(path, id, summary, state)| {
        Operation::new("post", path, id, summary)
            .takes(
                "ByHand",
                &[
                    ("Whatever its version", json!({})),
                    ("If nobody was faster", json!({"if_version": 1})),
                ],
            )
            .answers(
                200,
                "What became of it.",
                "Changed",
                json!({"changed": true, "job": standing(state)}),
            )
            .writes(&[Code::NotFound, Code::WrongState, Code::VersionMismatch])
    });
    let calls = [add, find, look, update, delete, history, upcoming].into_iter().chain(by_hand);
    calls.map(|call| call.tag("jobs")).collect()
}
