//! What is done on one server holds on the others.

use hyper::Method;

use crate::fleet::{Fleet, add, finish, pop, text, until_waiting};

#[tokio::test]
async fn what_one_server_adds_another_hands_out_and_the_first_finishes() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.server(&[]).await, fleet.server(&[]).await);
    let (one, other) = (one.caller(), other.caller());
    add(&one, r#"{"topic":"orders","id":"1","body":{"total":5}}"#).await;
    let jobs = pop(&other, "orders", "").await;
    assert_eq!((jobs.len(), text(&jobs[0], "id")), (1, "1"));
    assert_eq!(jobs[0]["body"]["total"], 5);
    assert!(pop(&one, "orders", "").await.is_empty());
    finish(&one, &jobs[0]).await.ok(200);
    assert_eq!(other.get("/v1/topics/orders/jobs/1").await.code(), "not_found");
}

#[tokio::test]
async fn who_waits_at_one_server_is_answered_by_an_add_at_another() {
    let Some(fleet) = Fleet::start() else { return };
    // Without pushes, which wait for jobs too.
    let roles = ["--role", "api,timer"];
    let (one, other) = (fleet.server(&roles).await, fleet.server(&roles).await);
    let (one, other) = (one.caller(), other.caller());
    let (jobs, ()) = tokio::join!(pop(&one, "orders", r#"{"wait":"5m"}"#), async {
        until_waiting(&one, 1).await;
        add(&other, r#"{"topic":"orders","id":"1"}"#).await;
    });
    assert_eq!(text(&jobs[0], "id"), "1");
}

#[tokio::test]
async fn a_wait_ends_in_its_time_although_nobody_polls() {
    let Some(fleet) = Fleet::start() else { return };
    let server = fleet.server(&["--role", "api,timer"]).await;
    let (long, short) = (server.caller(), server.caller());
    let waits = tokio::spawn(async move { pop(&long, "orders", r#"{"wait":"5m"}"#).await });
    until_waiting(&short, 1).await;
    assert!(pop(&short, "orders", r#"{"wait":"20ms"}"#).await.is_empty());
    add(&short, r#"{"topic":"orders","id":"1"}"#).await;
    assert_eq!(waits.await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_a_killed_server_had_leased_another_hands_out_again() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.server(&[]).await, fleet.server(&[]).await);
    add(&one.caller(), r#"{"topic":"orders","id":"1","ttr":"1s"}"#).await;
    let first = pop(&one.caller(), "orders", "").await;
    one.kill();
    let second = pop(&other.caller(), "orders", r#"{"wait":"5m","ttr":"1h"}"#).await;
    assert_eq!((text(&second[0], "id"), &second[0]["attempt"]), ("1", &2.into()));
    assert_eq!(finish(&other.caller(), &first[0]).await.code(), "lease_lost");
    finish(&other.caller(), &second[0]).await.ok(200);
}

#[tokio::test]
async fn what_is_set_of_a_topic_at_one_server_holds_at_another() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.server(&[]).await, fleet.server(&[]).await);
    let (one, other) = (one.caller(), other.caller());
    let settings = r#"{"ttr":"17s","concurrency":1}"#;
    let set = one.call(Method::PUT, "/v1/topics/orders", settings).await;
    set.expect("an answer").ok(200);
    let shown = other.get("/v1/topics/orders").await.ok(200);
    assert_eq!(shown["settings"]["ttr"], "17s", "{shown}");

    add(&other, r#"{"topic":"orders","id":"1"}"#).await;
    add(&other, r#"{"topic":"orders","id":"2"}"#).await;
    let jobs = pop(&other, "orders", r#"{"max":2}"#).await;
    assert_eq!(jobs.len(), 1, "only one at once: {jobs:?}");
    finish(&other, &jobs[0]).await.ok(200);

    one.post("/v1/topics/orders/pause", "").await.ok(200);
    assert!(pop(&other, "orders", "").await.is_empty());
    other.post("/v1/topics/orders/resume", "").await.ok(200);
    assert_eq!(pop(&one, "orders", "").await.len(), 1);
}

#[tokio::test]
async fn servers_with_other_prefixes_share_nothing() {
    let Some(fleet) = Fleet::start() else { return };
    let one = fleet.server(&[]).await;
    let other = fleet.server(&["--set", "store.prefix=shop"]).await;
    add(&one.caller(), r#"{"topic":"orders","id":"1"}"#).await;
    assert!(pop(&other.caller(), "orders", "").await.is_empty());
    let keys = |pattern: &str| fleet.redis.plain().ask(&["KEYS", pattern]).list().len();
    assert_eq!(keys("*"), keys("linger:*") + keys("shop:*"));
    assert!(keys("linger:*") > keys("shop:*"));
}
