use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::client::Server;

#[tokio::test]
async fn what_happened_is_counted() {
    let server = Server::start().await;
    let before = server.get("/v1/stats").await.ok(200);
    assert_eq!((&before["topics"], &before["counts"]["ready"]), (&0.into(), &0.into()));
    assert!(before.get("oldest_ready").is_none(), "{before}");

    server.add(r#"{"topic":"a","id":"1"}"#).await;
    server.add(r#"{"topic":"a","id":"2","delay":"1h"}"#).await;
    server.add(r#"{"topic":"b","id":"3","delay":"1h"}"#).await;
    server.pop("a").await;
    server.post("/v1/topics/a/jobs/1/finish", "").await.ok(200);
    server.call(Method::DELETE, "/v1/topics/b/jobs/3", "").await.ok(200);

    let stats = server.get("/v1/stats").await.ok(200);
    assert_eq!(
        stats["counts"],
        json!({
            "delayed": 1, "ready": 0, "reserved": 0, "retry": 0, "held": 0, "dead": 0, "finished": 0,
        })
    );
    assert_eq!((&stats["topics"], &stats["waiting"]), (&1.into(), &0.into()));
    assert_eq!(
        stats["totals"],
        json!({
            "added": 3, "handed_out": 1, "finished": 1, "failed": 0, "again": 0, "timed_out": 0,
            "died": 0, "deleted": 1,
        })
    );
    let lateness = &stats["lateness"];
    let sum = |name: &str| -> u64 {
        lateness[name].as_array().unwrap().iter().filter_map(Value::as_u64).sum()
    };
    assert_eq!(sum("ready_to_handed_out"), 1);
    let classes = |name: &str| lateness[name].as_array().map(Vec::len).unwrap();
    assert_eq!(classes("due_to_ready"), classes("bounds_ms") + 1);
    assert_eq!((&lateness["bounds_ms"][0], &lateness["bounds_ms"][3]), (&0.1.into(), &1.0.into()));
    assert_eq!(
        (&stats["store"]["kind"], &stats["store"]["durability"]),
        (&"folder".into(), &"sync".into())
    );
    assert_eq!(
        (&stats["version"], &stats["pushes"]["running"]),
        (&env!("CARGO_PKG_VERSION").into(), &0.into())
    );
    let time = |name: &str| stats[name].as_str().unwrap().to_owned();
    assert!(time("started") <= time("now"), "{stats}");
    server.get("/v1/stats?zebra=1").await.refused(400, "invalid", Some("zebra"));
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_does_not_push_says_nothing_of_pushes() {
    let server = Server::with(|config| config.role.worker = false).await;
    let stats = server.get("/v1/stats").await.ok(200);
    assert!(stats.get("pushes").is_none(), "{stats}");
    server.stop().await;
}

#[tokio::test]
async fn the_oldest_ready_job_is_told() {
    let server = Server::start().await;
    server.add(r#"{"topic":"b","id":"new","at":"2020-01-02T00:00:00Z"}"#).await;
    server.add(r#"{"topic":"a","id":"old","at":"2020-01-01T00:00:00Z"}"#).await;
    let stats = server.get("/v1/stats").await.ok(200);
    let oldest = json!({"topic": "a", "id": "old", "due": "2020-01-01T00:00:00.000Z"});
    assert_eq!(stats["oldest_ready"], oldest);
    // What was found is told to all for a while, and then looked for again.
    server.pop("a").await;
    let newer =
        async { while server.get("/v1/stats").await.json()["oldest_ready"]["id"] != "new" {} };
    tokio::time::timeout(Duration::from_secs(30), newer).await.expect("it is looked for again");
    server.stop().await;
}

#[tokio::test]
async fn the_dead_are_counted_by_their_last_error() {
    let server = Server::start().await;
    let errors = async || server.get("/v1/topics/t/errors").await.ok(200);
    assert_eq!(errors().await, json!({"errors": []}));
    for (id, body) in [
        ("1", r#"{"error":"http 500"}"#),
        ("2", r#"{"error":"a"}"#),
        ("3", r#"{"error":"http 500"}"#),
        ("4", ""),
    ] {
        server.add(&format!(r#"{{"topic":"t","id":"{id}","retry":{{"attempts":1}}}}"#)).await;
        server.pop("t").await;
        server.post(&format!("/v1/topics/t/jobs/{id}/fail"), body).await.ok(200);
    }
    let told = errors().await;
    assert_eq!(told["errors"][0], json!({"error": "http 500", "count": 2}));
    assert_eq!(told["errors"][1], json!({"error": "a", "count": 1}));
    assert_eq!(
        told["errors"][2],
        json!({"error": "failed without a word", "count": 1}),
        "each has some error"
    );
    server.call(Method::DELETE, "/v1/topics/t/jobs/1", "").await.ok(200);
    assert_eq!(errors().await["errors"][0], json!({"error": "a", "count": 1}));
    server.get("/v1/topics/t/errors?limit=1").await.refused(400, "invalid", Some("limit"));
    server.post("/v1/topics/t/errors", "").await.refused(405, "invalid", None);
    server.stop().await;
}

#[tokio::test]
async fn the_next_times_of_a_job_are_told() {
    let server = Server::start().await;
    let add = async |id: &str, more: &str| {
        let job = format!(r#"{{"topic":"t","id":"{id}","at":"2099-01-01T00:00:00Z"{more}}}"#);
        server.add(&job).await;
    };
    add("once", "").await;
    add("daily", r#","repeat":{"every":"24h"}"#).await;
    add("thrice", r#","repeat":{"every":"24h","count":3}"#).await;
    add("until", r#","repeat":{"every":"24h","until":"2099-01-02T12:00:00Z"}"#).await;
    let days = |last: u32| -> Vec<String> {
        (1..=last).map(|day| format!("2099-01-0{day}T00:00:00.000Z")).collect()
    };
    for (id, count, last) in [
        ("once", "", 1),
        ("daily", "", 5),
        ("daily", "?count=2", 2),
        ("thrice", "", 3),
        ("until", "?count=100", 2),
    ] {
        let path = format!("/v1/topics/t/jobs/{id}/upcoming{count}");
        assert_eq!(server.get(&path).await.ok(200), json!({"upcoming": days(last)}), "{path}");
    }
    server.post("/v1/topics/t/jobs/once/run", "").await.ok(200);
    let path = "/v1/topics/t/jobs/once/upcoming";
    assert_eq!(
        server.get(path).await.ok(200),
        json!({"upcoming": []}),
        "it neither waits nor repeats"
    );
    for wrong in ["0", "101", "x"] {
        let answer = server.get(&format!("{path}?count={wrong}")).await;
        answer.refused(400, "invalid", Some("count"));
    }
    server.get("/v1/topics/t/jobs/none/upcoming").await.refused(404, "not_found", None);
    server.stop().await;
}
