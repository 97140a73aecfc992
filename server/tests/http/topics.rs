use hyper::Method;
use linger::queue::SCAN_MAX;

use crate::client::Server;

#[tokio::test]
async fn a_topic_has_counts_and_settings() {
    let server = Server::start().await;
    let settings = r#"{"ttr":"5m","retry":{"ladder":["15s","3m"],"from":"due"},"rate":"10/m","concurrency":3,"partitions":16,"retain":"1d"}"#;
    let topic = server.call(Method::PUT, "/v1/topics/t", settings).await.ok(200);
    assert_eq!(topic["settings"]["ttr"], "5m");
    assert_eq!(topic["settings"]["retry"]["ladder"], serde_json::json!(["15s", "3m"]));
    assert_eq!(topic["settings"]["retry"]["attempts"], 3);
    assert_eq!(topic["settings"]["rate"], "10/1m");
    assert_eq!(topic["settings"]["partitions"], 16);
    server.add(r#"{"topic":"t","delay":"1h"}"#).await;
    let topic = server.get("/v1/topics/t").await.ok(200);
    assert_eq!((&topic["counts"]["delayed"], &topic["added"]), (&1.into(), &1.into()));
    assert_eq!(server.post("/v1/topics/t/empty", "").await.ok(200)["count"], 1);
    assert_eq!(server.call(Method::DELETE, "/v1/topics/t", "").await.ok(200)["count"], 0);
    server.get("/v1/topics/t").await.refused(404, "not_found", None);
    server.stop().await;
}

#[tokio::test]
async fn a_paused_topic_hands_nothing_out() {
    let server = Server::start().await;
    server.add(r#"{"topic":"t","id":"1"}"#).await;
    assert_eq!(server.post("/v1/topics/t/pause", "").await.ok(200)["paused"], true);
    assert!(server.pop("t").await.is_null());
    assert_eq!(server.post("/v1/topics/t/resume", "").await.ok(200)["paused"], false);
    assert_eq!(server.pop("t").await["id"], "1");
    server.stop().await;
}

#[tokio::test]
async fn topics_and_jobs_are_listed_page_by_page() {
    let server = Server::start().await;
    for n in 0..5 {
        let job = format!(r#"{{"topic":"t{n}","id":"{n}","delay":{}}}"#, 100 + n);
        server.add(&job).await;
        server.add(&job.replace(&format!("t{n}"), "all")).await;
    }
    let page = server.get("/v1/topics?prefix=t&limit=3").await.ok(200);
    assert_eq!(page["topics"].as_array().map(Vec::len), Some(3));
    let cursor = page["cursor"].as_str().unwrap();
    let page = server.get(&format!("/v1/topics?prefix=t&limit=3&cursor={cursor}")).await.ok(200);
    assert_eq!(page["topics"][0]["topic"], "t3");
    assert!(page.get("cursor").is_none());

    let mut ids = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/topics/all/jobs?state=delayed&limit=2&cursor={cursor}");
        let page = server.get(&path).await.ok(200);
        for job in page["jobs"].as_array().unwrap() {
            assert!(job.get("body").is_none(), "lists carry no bodies");
            ids.push(job["id"].as_str().unwrap().to_owned());
        }
        match page.get("cursor") {
            Some(next) => cursor = next.as_str().unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(ids, ["0", "1", "2", "3", "4"]);
    let with = server.get("/v1/topics/all/jobs?body=true&limit=1").await.ok(200);
    assert_eq!(with["jobs"][0]["body"], "");
    server.stop().await;
}

#[tokio::test]
async fn a_rare_job_is_found_by_going_on_and_no_call_looks_at_all_of_a_topic() {
    let server = Server::start().await;
    for chunk in 0..=SCAN_MAX / 1000 {
        let job = |n| format!(r#"{{"topic":"t","id":"common {chunk} {n}","delay":"1h"}}"#);
        let jobs: Vec<String> = (0..1000).map(job).collect();
        server.post("/v1/jobs", &format!("[{}]", jobs.join(","))).await.ok(200);
    }
    server.add(r#"{"topic":"t","id":"rare","delay":"2h"}"#).await;
    for filter in ["id_prefix=rare", "id_prefix=rare&body=true"] {
        let path = format!("/v1/topics/t/jobs?{filter}");
        let page = server.get(&path).await.ok(200);
        assert_eq!(page["jobs"], serde_json::json!([]), "{filter}");
        let cursor = page["cursor"].as_str().expect("there is more");
        let page = server.get(&format!("{path}&cursor={cursor}")).await.ok(200);
        assert_eq!(page["jobs"][0]["id"], "rare", "{filter}");
        assert!(page.get("cursor").is_none(), "{filter}");
    }
    let page = server.get("/v1/topics/t/jobs?id_prefix=common&error=none").await.ok(200);
    assert!(page["cursor"].is_string(), "what no filter lets through is looked at, too");
    server.stop().await;
}

#[tokio::test]
async fn what_falls_due_is_told_in_buckets() {
    let server = Server::start().await;
    server.add(r#"{"topic":"t","at":"2099-01-01T00:30:00Z"}"#).await;
    let path = "/v1/due?topic=t&from=2099-01-01T00:00:00Z&to=2099-01-01T02:00:00Z&buckets=2";
    let due = server.get(path).await.ok(200);
    assert_eq!(due["buckets"][0]["count"], 1);
    assert_eq!(due["buckets"][1]["from"], "2099-01-01T01:00:00.000Z");
    server.stop().await;
}

#[tokio::test]
async fn a_list_with_bodies_ends_at_the_limit_of_answers_and_goes_on() {
    let server = Server::with(|config| {
        config.limits.answer_bytes = 2000;
        config.limits.body_bytes = 1000;
    })
    .await;
    for n in 0..5 {
        let job = format!(
            r#"{{"topic":"t","id":"{n}","delay":{},"body":"{}"}}"#,
            100 + n,
            "x".repeat(800)
        );
        server.add(&job).await;
    }
    let page = server.get("/v1/topics/t/jobs?body=true").await.ok(200);
    assert_eq!(page["jobs"].as_array().map(Vec::len), Some(4));
    let cursor = page["cursor"].as_str().expect("there is more");
    let path = format!("/v1/topics/t/jobs?body=true&cursor={cursor}");
    let rest = server.get(&path).await.ok(200);
    assert_eq!(rest["jobs"][0]["id"], "4");
    assert!(rest.get("cursor").is_none());
    let all = server.get("/v1/topics/t/jobs").await.ok(200);
    assert_eq!(all["jobs"].as_array().map(Vec::len), Some(5));
    server.stop().await;
}
