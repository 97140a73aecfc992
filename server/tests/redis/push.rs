//! Jobs are pushed by whichever server may.

use std::collections::BTreeSet;

use crate::fleet::{Fleet, add, until};
use crate::receiver::Receiver;
use crate::served::Served;

#[tokio::test]
async fn each_job_is_pushed_once_by_whichever_server() {
    const JOBS: usize = 20;
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.server(&[]).await, fleet.server(&[]).await);
    let (one, other) = (one.caller(), other.caller());
    let mut receiver = Receiver::start().await;
    let url = receiver.url("/hooks");
    for id in 0..JOBS {
        let job = format!(r#"{{"topic":"orders","id":"{id}","target":"{url}"}}"#);
        add(if id % 2 == 0 { &one } else { &other }, &job).await;
    }
    let mut pushed = BTreeSet::new();
    for _ in 0..JOBS {
        let request = receiver.next().await;
        assert_eq!((request.path.as_str(), request.header("linger-attempt")), ("/hooks", "1"));
        assert!(pushed.insert(request.header("linger-job").to_owned()), "twice: {pushed:?}");
        request.answer(200);
    }
    for id in 0..JOBS {
        let path = format!("/v1/topics/orders/jobs/{id}");
        until(&one, &path, |answer| answer.code() == "not_found").await;
    }
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn what_a_server_that_does_not_push_takes_in_another_pushes() {
    let Some(fleet) = Fleet::start() else { return };
    let api = fleet.server(&["--role", "api"]).await;
    let _worker = fleet.server(&["--role", "timer,worker"]).await;
    let mut receiver = Receiver::start().await;
    let url = receiver.url("/hooks");
    let job = format!(r#"{{"topic":"orders","id":"1","delay":"200ms","target":"{url}"}}"#);
    add(&api.caller(), &job).await;
    receiver.next().await.answer(200);
    let path = "/v1/topics/orders/jobs/1";
    until(&api.caller(), path, |answer| answer.code() == "not_found").await;
}

/// A server that takes calls, and one that pushes; they hear of each other five times a second.
async fn pair(fleet: &Fleet) -> (Served, Served) {
    let often = ["--set", "store.poll=200ms"];
    let api = fleet.server(&[&["--role", "api"][..], &often].concat()).await;
    (api, fleet.server(&often).await)
}

#[tokio::test]
async fn a_worker_that_registers_at_one_server_is_called_by_another_until_it_leaves() {
    let Some(fleet) = Fleet::start() else { return };
    let (api, worker) = pair(&fleet).await;
    let mut receiver = Receiver::start().await;
    let url = receiver.url("/jobs");
    let registration = format!(r#"{{"id":"w","app":"shop","url":"{url}","topics":["orders"]}}"#);
    add(&api.caller(), r#"{"topic":"orders","id":"1","target":"worker:"}"#).await;
    api.caller().post("/v1/workers", &registration).await.ok(201);
    receiver.next().await.answer(200);
    until(&api.caller(), "/v1/topics/orders/jobs/1", |answer| answer.code() == "not_found").await;

    api.caller().delete("/v1/workers/w").await.ok(200);
    until(&worker.caller(), "/v1/workers/w", |answer| answer.code() == "not_found").await;
    add(&api.caller(), r#"{"topic":"orders","id":"2","target":"worker:"}"#).await;
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn a_secret_that_is_given_to_one_server_signs_what_another_pushes() {
    let Some(fleet) = Fleet::start() else { return };
    let (api, worker) = pair(&fleet).await;
    let mut receiver = Receiver::start().await;
    api.caller().post("/v1/secrets", r#"{"topic":"orders"}"#).await.ok(201);
    until(&worker.caller(), "/v1/secrets", |answer| answer.json.to_string().contains("orders"))
        .await;
    let url = receiver.url("/hooks");
    add(&api.caller(), &format!(r#"{{"topic":"orders","id":"1","target":"{url}"}}"#)).await;
    let request = receiver.next().await;
    assert!(request.header("webhook-signature").starts_with("v1,"));
    request.answer(200);
}
