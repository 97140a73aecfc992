//! Popping jobs, and saying what became of them.

use linger::error::Code;
use serde_json::json;

use super::super::operation::Operation;
use super::{LEASE, delivery, standing};

pub(super) fn calls() -> Vec<Operation> {
    let pop =
        Operation::new("post", "/v1/topics/{topic}/pop", "popJobs", "Hands out jobs that are due")
            .note(
                "Waits for the first if asked to. A caller who hangs up before the answer leases \
            nothing; jobs that would make the answer larger than 8 MiB are given back.",
            )
            .takes(
                "Pop",
                &[
                    ("One, waiting for it", json!({"max": 1, "wait": "30s", "ttr": "60s"})),
                    ("One, now or never", json!({})),
                ],
            )
            .answers(
                200,
                "The jobs, each with its lease; none when the wait is over.",
                "Deliveries",
                json!({"jobs": [delivery()]}),
            )
            .writes(&[]);
    let pop_many = Operation::new(
        "post",
        "/v1/pop",
        "popFromTopics",
        "Hands out jobs of several topics",
    )
    .needs(
        "PopMany",
        &[(
            "Ten, of the best priority",
            json!({"topics": ["order.close", "mail"], "max": 10, "wait": "30s", "ttr": "60s"}),
        )],
    )
    .answers(
        200,
        "The jobs, each with its lease; none when the wait is over.",
        "Deliveries",
        json!({"jobs": [delivery()]}),
    )
    .writes(&[]);
    let settle =
        |path, id, summary| {
            Operation::new("post", path, id, summary)
            .note("With a lease that was lost it changes nothing; without one it holds whoever has \
                the job.")
            .writes(&[Code::NotFound, Code::LeaseLost, Code::WrongState])
        };
    let finish = settle(
        "/v1/topics/{topic}/jobs/{id}/finish",
        "finishJob",
        "An attempt has finished its job",
    )
    .takes("Finish", &[("By its lease", json!({"lease": LEASE}))])
    .answers(
        200,
        "It is gone, unless it is retained or repeats.",
        "Changed",
        json!({"changed": true}),
    );
    let fail = settle("/v1/topics/{topic}/jobs/{id}/fail", "failJob", "An attempt has failed")
        .takes(
            "Fail",
            &[
                ("Why", json!({"lease": LEASE, "error": "the shop did not answer"})),
                ("Not yet", json!({"lease": LEASE, "again": true, "retry_in": "10s"})),
            ],
        )
        .answers(
            200,
            "It waits for its next attempt, or is dead.",
            "Changed",
            json!({"changed": true, "job": standing("retry")}),
        );
    let release = settle(
        "/v1/topics/{topic}/jobs/{id}/release",
        "releaseJob",
        "Gives a job back, as if it had not been handed out",
    )
    .takes("Release", &[("In a while", json!({"lease": LEASE, "delay": "10s", "priority": 10}))])
    .answers(
        200,
        "It waits to be handed out again.",
        "Changed",
        json!({"changed": true, "job": standing("delayed")}),
    );
    let mut held = standing("reserved");
    held["reserved_until"] = json!("2026-12-01T09:32:00.002Z");
    let touch =
        settle("/v1/topics/{topic}/jobs/{id}/touch", "touchJob", "An attempt needs more time")
            .takes("Touch", &[("Two minutes more", json!({"lease": LEASE, "ttr": "2m"}))])
            .answers(200, "Its lease runs on.", "Changed", json!({"changed": true, "job": held}));
    let many = [
        ("/v1/topics/{topic}/finish", "finishJobs", "Finishes many jobs", None),
        ("/v1/topics/{topic}/delete", "deleteJobs", "Cancels many jobs", None),
        ("/v1/topics/{topic}/run", "runJobs", "Makes many jobs ready now", Some("ready")),
        ("/v1/topics/{topic}/hold", "holdJobs", "Sets many jobs aside", Some("held")),
        (
            "/v1/topics/{topic}/unhold",
            "unholdJobs",
            "Lets many jobs go that were set aside",
            Some("delayed"),
        ),
        (
            "/v1/topics/{topic}/redrive",
            "redriveJobs",
            "Gives dead jobs their attempts anew",
            Some("ready"),
        ),
    ];
    let many = many.map(|(path, id, summary, state)| {
        let filter = json!({
            "where": {
                "state": "delayed", "due_after": "2026-12-01T00:00:00Z",
                "due_before": "2099-12-01T00:00:00Z", "id_prefix": "10", "error": "no answer",
            },
            "limit": 100, "dry_run": true,
        });
        let mut examples = vec![
            ("By id", json!({"jobs": [{"id": "1001"}, {"id": "1002"}]})),
            ("How many would fit", filter),
        ];
        if id == "finishJobs" {
            examples.push(("By lease", json!({"jobs": [{"id": "1001", "lease": LEASE}]})));
        }
        let call = Operation::new("post", path, id, summary);
        let call = match id {
            "redriveJobs" => call.takes("ChosenDead", &examples),
            _ => call.needs("Chosen", &examples),
        };
        let mut done = json!({"id": "1001", "changed": true});
        if let Some(state) = state {
            done["job"] = standing(state);
        }
        let missing = json!({
            "code": "not_found", "message": "topic `order.close` has no job `1002`",
        });
        let results = json!({"results": [done, {"id": "1002", "error": missing}]});
        call.note("Each job is changed or refused by itself. Leases are for finish only.")
            .answers(200, "One result each, or a count.", "ManyDone", results)
            .writes(&[])
    });
    let calls = [pop, pop_many, finish, fail, release, touch].into_iter().chain(many);
    calls.map(|call| call.tag("work")).collect()
}
