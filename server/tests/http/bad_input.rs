//! Whatever is wrong with a request, the answer says what, and nothing has changed.

use hyper::Method;

use crate::client::Server;

/// A method, a path and a body, and the status, code and field that answer them.
type Row = (&'static str, &'static str, &'static str, u16, &'static str, Option<&'static str>);

const ROWS: &[Row] = &[
    // Not JSON, or not an object.
    ("POST", "/v1/jobs", "", 201, "", None),
    ("POST", "/v1/jobs", "{", 400, "invalid", None),
    ("POST", "/v1/jobs", "7", 400, "invalid", None),
    ("POST", "/v1/jobs", "\"x\"", 400, "invalid", None),
    ("POST", "/v1/jobs", "{\"topic\":\"t\"} x", 400, "invalid", None),
    ("POST", "/v1/jobs", "{\"topic\":\"t\",}", 400, "invalid", None),
    ("POST", "/v1/jobs", "{'topic':'t'}", 400, "invalid", None),
    ("POST", "/v1/jobs", "NaN", 400, "invalid", None),
    // Wrong types, and fields that do not exist.
    ("POST", "/v1/jobs", r#"{"topic":7}"#, 400, "invalid", Some("topic")),
    ("POST", "/v1/jobs", r#"{"topic":""}"#, 400, "invalid", Some("topic")),
    ("POST", "/v1/jobs", r#"{"topic":" a"}"#, 400, "invalid", Some("topic")),
    ("POST", "/v1/jobs", r#"{"topic":"a\nb"}"#, 400, "invalid", Some("topic")),
    ("POST", "/v1/jobs", r#"{"id":""}"#, 400, "invalid", Some("id")),
    ("POST", "/v1/jobs", r#"{"id":1}"#, 400, "invalid", Some("id")),
    ("POST", "/v1/jobs", r#"{"id":"a\u0000"}"#, 400, "invalid", Some("id")),
    ("POST", "/v1/jobs", r#"{"id":"a\ud800"}"#, 400, "invalid", Some("id")),
    ("POST", "/v1/jobs", r#"{"tpoic":"t"}"#, 400, "invalid", Some("tpoic")),
    ("POST", "/v1/jobs", r#"{"Topic":"t"}"#, 400, "invalid", Some("Topic")),
    ("POST", "/v1/jobs", r#"{"topic":"a","topic":"b"}"#, 400, "invalid", Some("topic")),
    // Times.
    ("POST", "/v1/jobs", r#"{"delay":-1}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":"-1s"}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":"soon"}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":"NaN"}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":1e300}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":1e999}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":"101000d"}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":true}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":[]}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":"5m2h"}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/jobs", r#"{"delay":1,"at":"2099-01-01T00:00:00Z"}"#, 400, "invalid", Some("at")),
    ("POST", "/v1/jobs", r#"{"at":"tomorrow"}"#, 400, "invalid", Some("at")),
    ("POST", "/v1/jobs", r#"{"at":"2026-13-01T00:00:00Z"}"#, 400, "invalid", Some("at")),
    ("POST", "/v1/jobs", r#"{"at":"1969-12-31T23:59:59Z"}"#, 400, "invalid", Some("at")),
    ("POST", "/v1/jobs", r#"{"at":"10000-01-01T00:00:00Z"}"#, 400, "invalid", Some("at")),
    ("POST", "/v1/jobs", r#"{"at":12345}"#, 400, "invalid", Some("at")),
    ("POST", "/v1/jobs", r#"{"at":-1}"#, 400, "invalid", Some("at")),
    ("POST", "/v1/jobs", r#"{"at":{}}"#, 400, "invalid", Some("at")),
    ("POST", "/v1/jobs", r#"{"ttr":0}"#, 400, "invalid", Some("ttr")),
    ("POST", "/v1/jobs", r#"{"ttr":"8d"}"#, 400, "invalid", Some("ttr")),
    ("POST", "/v1/jobs", r#"{"ttr":"x"}"#, 400, "invalid", Some("ttr")),
    ("POST", "/v1/jobs", r#"{"retain":-1}"#, 400, "invalid", Some("retain")),
    ("POST", "/v1/jobs", r#"{"retain":"10000001d"}"#, 400, "invalid", Some("retain")),
    ("POST", "/v1/jobs", r#"{"retain":1e19}"#, 400, "invalid", Some("retain")),
    // Numbers and flags.
    ("POST", "/v1/jobs", r#"{"priority":-1}"#, 400, "invalid", Some("priority")),
    ("POST", "/v1/jobs", r#"{"priority":4294967296}"#, 400, "invalid", Some("priority")),
    ("POST", "/v1/jobs", r#"{"priority":1.5}"#, 400, "invalid", Some("priority")),
    ("POST", "/v1/jobs", r#"{"priority":"1"}"#, 400, "invalid", Some("priority")),
    ("POST", "/v1/jobs", r#"{"priority":4294967296.0}"#, 400, "invalid", Some("priority")),
    ("POST", "/v1/jobs", r#"{"priority":-5.0}"#, 400, "invalid", Some("priority")),
    ("POST", "/v1/jobs", r#"{"held":"yes"}"#, 400, "invalid", Some("held")),
    ("POST", "/v1/jobs", r#"{"on_conflict":"x"}"#, 400, "invalid", Some("on_conflict")),
    ("POST", "/v1/jobs", r#"{"confirm":"x"}"#, 400, "invalid", Some("confirm")),
    ("POST", "/v1/jobs", r#"{"envelope":"x"}"#, 400, "invalid", Some("envelope")),
    ("PUT", "/v1/topics/t", r#"{"timeout":"8d"}"#, 400, "invalid", Some("timeout")),
    ("PUT", "/v1/topics/t", r#"{"headers":{"host":"x"}}"#, 400, "invalid", Some("headers")),
    ("PUT", "/v1/topics/t", r#"{"headers":{"a":1}}"#, 400, "invalid", Some("headers")),
    ("PUT", "/v1/topics/t", r#"{"archive":"nowhere"}"#, 400, "invalid", Some("archive")),
    ("POST", "/v1/jobs", r#"{"target":"nowhere"}"#, 400, "invalid", Some("target")),
    ("POST", "/v1/jobs", r#"{"target":7}"#, 400, "invalid", Some("target")),
    ("POST", "/v1/jobs", r#"{"content_type":"x"}"#, 400, "invalid", Some("content_type")),
    ("POST", "/v1/jobs", r#"{"traceparent":"x"}"#, 400, "invalid", Some("traceparent")),
    // Bodies.
    ("POST", "/v1/jobs", r#"{"body_base64":"*"}"#, 400, "invalid", Some("body_base64")),
    ("POST", "/v1/jobs", r#"{"body_base64":7}"#, 400, "invalid", Some("body_base64")),
    ("POST", "/v1/jobs", r#"{"body":1,"body_base64":"AA=="}"#, 400, "invalid", Some("body_base64")),
    // Retries.
    ("POST", "/v1/jobs", r#"{"retry":7}"#, 400, "invalid", Some("retry")),
    ("POST", "/v1/jobs", r#"{"retry":{}}"#, 400, "invalid", Some("retry")),
    ("POST", "/v1/jobs", r#"{"retry":{"x":1}}"#, 400, "invalid", Some("retry.x")),
    ("POST", "/v1/jobs", r#"{"retry":{"ladder":[]}}"#, 400, "invalid", Some("retry")),
    ("POST", "/v1/jobs", r#"{"retry":{"ladder":"15s"}}"#, 400, "invalid", Some("ladder")),
    ("POST", "/v1/jobs", r#"{"retry":{"ladder":["x"]}}"#, 400, "invalid", Some("ladder")),
    ("POST", "/v1/jobs", r#"{"retry":{"ladder":["1s"],"from":"x"}}"#, 400, "invalid", Some("from")),
    ("POST", "/v1/jobs", r#"{"retry":{"attempts":2,"from":"due"}}"#, 400, "invalid", Some("retry")),
    ("POST", "/v1/jobs", r#"{"retry":{"attempts":-1}}"#, 400, "invalid", Some("attempts")),
    (
        "POST",
        "/v1/jobs",
        r#"{"retry":{"backoff":{"base":"2h","max":"1h"}}}"#,
        400,
        "invalid",
        Some("retry"),
    ),
    ("POST", "/v1/jobs", r#"{"retry":{"backoff":{"jitter":2}}}"#, 400, "invalid", Some("retry")),
    ("POST", "/v1/jobs", r#"{"retry":{"backoff":{"bse":1}}}"#, 400, "invalid", Some("backoff.bse")),
    (
        "POST",
        "/v1/jobs",
        r#"{"retry":{"ladder":["1s"],"backoff":{}}}"#,
        400,
        "invalid",
        Some("retry"),
    ),
    // Repeats.
    ("POST", "/v1/jobs", r#"{"repeat":{}}"#, 400, "invalid", Some("repeat")),
    (
        "POST",
        "/v1/jobs",
        r#"{"repeat":{"every":"1s","cron":"* * * * *"}}"#,
        400,
        "invalid",
        Some("repeat"),
    ),
    ("POST", "/v1/jobs", r#"{"repeat":{"every":0}}"#, 400, "invalid", Some("repeat")),
    ("POST", "/v1/jobs", r#"{"repeat":{"cron":"x"}}"#, 400, "invalid", Some("repeat")),
    ("POST", "/v1/jobs", r#"{"repeat":{"cron":"0 0 30 2 *"}}"#, 400, "invalid", Some("repeat")),
    (
        "POST",
        "/v1/jobs",
        r#"{"repeat":{"cron":"0 9 * * *","tz":"Mars/Olympus"}}"#,
        400,
        "invalid",
        Some("repeat"),
    ),
    ("POST", "/v1/jobs", r#"{"repeat":{"every":"1m","tz":"UTC"}}"#, 400, "invalid", Some("repeat")),
    ("POST", "/v1/jobs", r#"{"repeat":{"every":"1m","count":0}}"#, 400, "invalid", Some("count")),
    (
        "POST",
        "/v1/jobs",
        r#"{"repeat":{"every":"1m","misfire":"never"}}"#,
        400,
        "invalid",
        Some("misfire"),
    ),
    (
        "POST",
        "/v1/jobs",
        r#"{"repeat":{"every":"1m","misfire":{"all":0}}}"#,
        400,
        "invalid",
        Some("misfire"),
    ),
    ("POST", "/v1/jobs", r#"{"repeat":{"every":"1m","until":"x"}}"#, 400, "invalid", Some("until")),
    ("POST", "/v1/jobs", r#"{"is_loop":true}"#, 400, "invalid", Some("is_loop")),
    ("POST", "/v1/jobs", r#"{"url":"http://a","target":"http://b"}"#, 400, "invalid", Some("url")),
    // Pops.
    ("POST", "/v1/topics/t/pop", r#"{"max":0}"#, 400, "invalid", Some("max")),
    ("POST", "/v1/topics/t/pop", r#"{"max":1001}"#, 400, "invalid", Some("max")),
    ("POST", "/v1/topics/t/pop", r#"{"max":"1"}"#, 400, "invalid", Some("max")),
    ("POST", "/v1/topics/t/pop", r#"{"wait":"1h"}"#, 400, "invalid", Some("wait")),
    ("POST", "/v1/topics/t/pop?wait=30s", "", 400, "invalid", Some("wait")),
    ("POST", "/v1/jobs?topic=t", "", 400, "invalid", Some("topic")),
    ("PATCH", "/v1/topics/t/jobs/none?if_version=1", "{}", 400, "invalid", Some("if_version")),
    ("POST", "/v1/topics/t/pop", r#"{"wait":-1}"#, 400, "invalid", Some("wait")),
    ("POST", "/v1/topics/t/pop", r#"{"ttr":"0s"}"#, 400, "invalid", Some("ttr")),
    ("POST", "/v1/topics/t/pop", r#"{"topics":["a"]}"#, 400, "invalid", Some("topics")),
    ("POST", "/v1/topics/%20/pop", "", 400, "invalid", Some("topic")),
    ("POST", "/v1/topics/%ff/pop", "", 400, "invalid", None),
    ("POST", "/v1/pop", r#"{"topics":[]}"#, 400, "invalid", Some("topics")),
    ("POST", "/v1/pop", r#"{"topics":"a"}"#, 400, "invalid", Some("topics")),
    ("POST", "/v1/pop", r#"{"topics":[""]}"#, 400, "invalid", Some("topic")),
    // One job.
    ("GET", "/v1/topics/t/jobs/none", "", 404, "not_found", None),
    ("GET", "/v1/topics/t/jobs/none?x=1", "", 400, "invalid", Some("x")),
    ("GET", "/v1/topics/t/jobs/none/history", "", 404, "not_found", None),
    ("PATCH", "/v1/topics/t/jobs/none", r#"{"priority":1}"#, 404, "not_found", None),
    ("PATCH", "/v1/topics/t/jobs/none", r#"{"topic":"x"}"#, 400, "invalid", Some("topic")),
    ("PATCH", "/v1/topics/t/jobs/none", r#"{"if_version":-1}"#, 400, "invalid", Some("if_version")),
    ("PATCH", "/v1/topics/t/jobs/none", "[]", 400, "invalid", None),
    ("DELETE", "/v1/topics/t/jobs/none", "", 404, "not_found", None),
    ("DELETE", "/v1/topics/t/jobs/none?if_version=x", "", 400, "invalid", Some("if_version")),
    ("POST", "/v1/topics/t/jobs/none/finish", "", 404, "not_found", None),
    ("POST", "/v1/topics/t/jobs/none/finish", r#"{"lease":7}"#, 400, "invalid", Some("lease")),
    ("POST", "/v1/topics/t/jobs/none/finish", r#"{"delay":7}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/topics/t/jobs/none/fail", r#"{"error":7}"#, 400, "invalid", Some("error")),
    ("POST", "/v1/topics/t/jobs/none/fail", r#"{"again":1}"#, 400, "invalid", Some("again")),
    (
        "POST",
        "/v1/topics/t/jobs/none/fail",
        r#"{"retry_in":"x"}"#,
        400,
        "invalid",
        Some("retry_in"),
    ),
    ("POST", "/v1/topics/t/jobs/none/release", r#"{"delay":-1}"#, 400, "invalid", Some("delay")),
    ("POST", "/v1/topics/t/jobs/none/touch", r#"{"ttr":0}"#, 400, "invalid", Some("ttr")),
    ("POST", "/v1/topics/t/jobs/none/run", r#"{"lease":"x"}"#, 400, "invalid", Some("lease")),
    ("POST", "/v1/topics/t/jobs/none/explode", "", 404, "not_found", None),
    // Many.
    ("POST", "/v1/topics/t/finish", "", 400, "invalid", Some("jobs")),
    ("POST", "/v1/topics/t/delete", r#"{"jobs":7}"#, 400, "invalid", Some("jobs")),
    ("POST", "/v1/topics/t/delete", r#"{"jobs":[{}]}"#, 400, "invalid", Some("id")),
    (
        "POST",
        "/v1/topics/t/delete",
        r#"{"jobs":[{"id":"1","lease":"0123456789abcdef"}]}"#,
        400,
        "invalid",
        Some("lease"),
    ),
    ("POST", "/v1/topics/t/delete", r#"{"jobs":[],"limit":1}"#, 400, "invalid", Some("jobs")),
    ("POST", "/v1/topics/t/delete", r#"{"where":{"state":"gone"}}"#, 400, "invalid", Some("state")),
    ("POST", "/v1/topics/t/delete", r#"{"where":{"x":1}}"#, 400, "invalid", Some("where.x")),
    ("POST", "/v1/topics/t/delete", r#"{"where":{},"limit":-1}"#, 400, "invalid", Some("limit")),
    ("POST", "/v1/topics/t/explode", "", 404, "not_found", None),
    // Topics.
    ("GET", "/v1/topics/none", "", 404, "not_found", None),
    ("GET", "/v1/topics?limit=0", "", 400, "invalid", Some("limit")),
    ("GET", "/v1/topics?limit=1001", "", 400, "invalid", Some("limit")),
    ("GET", "/v1/topics?limit=x", "", 400, "invalid", Some("limit")),
    ("GET", "/v1/topics?limit=1&limit=2", "", 400, "invalid", Some("limit")),
    ("GET", "/v1/topics?prefix=%ff", "", 400, "invalid", None),
    ("GET", "/v1/topics/t/jobs?state=x", "", 400, "invalid", Some("state")),
    ("GET", "/v1/topics/t/jobs?stat=ready", "", 400, "invalid", Some("stat")),
    ("GET", "/v1/topics/t/jobs?due_before=x", "", 400, "invalid", Some("due_before")),
    ("GET", "/v1/topics/t/jobs?cursor=x", "", 400, "invalid", Some("cursor")),
    ("GET", "/v1/topics/t/jobs?body=maybe", "", 400, "invalid", Some("body")),
    ("GET", "/v1/due?buckets=0", "", 400, "invalid", Some("buckets")),
    (
        "GET",
        "/v1/due?from=2099-01-01T00:00:00Z&to=2098-01-01T00:00:00Z",
        "",
        400,
        "invalid",
        Some("to"),
    ),
    ("PUT", "/v1/topics/t", r#"{"rate":"0"}"#, 400, "invalid", Some("rate")),
    ("PUT", "/v1/topics/t", r#"{"rate":"fast"}"#, 400, "invalid", Some("rate")),
    ("PUT", "/v1/topics/t", r#"{"concurrency":0}"#, 400, "invalid", Some("concurrency")),
    ("PUT", "/v1/topics/t", r#"{"jobs_max":0}"#, 400, "invalid", Some("jobs_max")),
    ("PUT", "/v1/topics/t", r#"{"jobs_max":4294967296}"#, 400, "invalid", Some("jobs_max")),
    // Nothing at all is an empty object; blanks are no JSON.
    ("PUT", "/v1/topics/t", "\n", 400, "invalid", None),
    ("POST", "/v1/workers/w/drain", "\n", 400, "invalid", None),
    ("PUT", "/v1/topics/t", r#"{"bytes_max":0}"#, 400, "invalid", Some("bytes_max")),
    ("PUT", "/v1/topics/t", r#"{"bytes_max":-1}"#, 400, "invalid", Some("bytes_max")),
    ("PUT", "/v1/topics/t", r#"{"partitions":0}"#, 400, "invalid", Some("partitions")),
    ("PUT", "/v1/topics/t", r#"{"partitions":257}"#, 400, "invalid", Some("partitions")),
    ("PUT", "/v1/topics/t", r#"{"paused":true}"#, 400, "invalid", Some("paused")),
    ("POST", "/v1/topics/t/pause", r#"{"for":"x"}"#, 400, "invalid", Some("for")),
    ("POST", "/v1/topics/none/resume", "", 404, "not_found", None),
    ("POST", "/v1/topics/none/empty", "", 404, "not_found", None),
    ("DELETE", "/v1/topics/none", "", 404, "not_found", None),
    // Paths and methods.
    ("GET", "/v1/nothing", "", 404, "not_found", None),
    ("GET", "/v2/jobs", "", 404, "not_found", None),
    ("GET", "/v1/jobs", "", 405, "invalid", None),
    ("PUT", "/v1/jobs", "{}", 405, "invalid", None),
    ("DELETE", "/v1/topics", "", 405, "invalid", None),
    ("GET", "/v1/topics/t/pop", "", 405, "invalid", None),
    ("POST", "/v1/topics/t", "{}", 405, "invalid", None),
    ("PUT", "/v1/topics/t/jobs/1", "{}", 405, "invalid", None),
    ("POST", "/healthz", "", 405, "invalid", None),
];

#[tokio::test]
async fn whatever_is_wrong_is_told_and_changes_nothing() {
    let server = Server::start().await;
    // The one row that is right shows what the others would have done.
    let mut added = 0;
    for (method, path, body, status, code, field) in ROWS {
        let method: Method = method.parse().expect("a method");
        let answer = server.call(method.clone(), path, body).await;
        let row = format!("{method} {path} {body}: {} {}", answer.status, answer.text);
        assert_eq!(answer.status.as_u16(), *status, "{row}");
        if *status == 201 {
            added += 1;
            continue;
        }
        let error = &answer.json()["error"];
        assert_eq!(error["code"], *code, "{row}");
        assert_eq!(error["field"].as_str(), *field, "{row}");
        assert!(error["message"].as_str().is_some_and(|text| text.len() > 10), "{row}");
        assert_eq!(answer.headers.contains_key("allow"), *status == 405, "{row}");
    }
    assert!(ROWS.len() >= 120 && added == 1);
    let topics = server.get("/v1/topics").await.ok(200);
    assert_eq!(topics["topics"].as_array().map(Vec::len), Some(1), "{topics}");
    assert_eq!(topics["topics"][0]["counts"]["ready"], 1);
    server.stop().await;
}

#[tokio::test]
async fn sizes_are_held_to_the_byte() {
    let server = Server::with(|config| {
        config.limits.body_bytes = 1000;
        config.limits.batch_jobs = 3;
        config.limits.batch_bytes = 5000;
    })
    .await;
    let job = |bytes: usize| format!(r#"{{"topic":"t","body":"{}"}}"#, "x".repeat(bytes));
    server.add(&job(1000)).await;
    server.post("/v1/jobs", &job(1001)).await.refused(413, "too_large", Some("body"));
    server.post("/v1/jobs", &job(6000)).await.refused(413, "too_large", None);
    server.post("/v1/jobs", "[{},{},{},{}]").await.refused(413, "too_large", None);
    assert_eq!(
        server.post("/v1/jobs", "[{},{},{}]").await.ok(200).as_array().map(Vec::len),
        Some(3)
    );
    server.stop().await;
}

#[tokio::test]
async fn strange_bytes_are_refused() {
    let server = Server::start().await;
    let send = async |headers: &[(&str, &str)], body: &[u8]| {
        server.send(Method::POST, "/v1/jobs", headers, body.to_vec()).await
    };
    send(&[], b"{\"topic\":\"\xff\"}").await.refused(400, "invalid", None);
    send(&[("content-type", "text/xml")], b"{}").await.refused(415, "invalid", None);
    send(&[("content-type", "multipart/form-data")], b"{}").await.refused(415, "invalid", None);
    let deep =
        format!(r#"{{"topic":"t","id":"deep","body":{}1{}}}"#, "[".repeat(100), "]".repeat(100));
    send(&[], deep.as_bytes()).await.ok(201);
    let deeper = format!(r#"{{"topic":"t","ttr":{}1{}}}"#, "[".repeat(9000), "]".repeat(9000));
    send(&[], deeper.as_bytes()).await.refused(400, "invalid", Some("ttr"));
    server.stop().await;
}
