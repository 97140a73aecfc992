use hyper::Method;

use crate::client::Server;

#[tokio::test]
async fn a_job_is_added_looked_at_popped_and_finished() {
    let server = Server::start().await;
    let job = server.add(r#"{"topic":"order.close","id":"1001","body":{"order": 1001}}"#).await;
    assert_eq!((&job["topic"], &job["id"]), (&"order.close".into(), &"1001".into()));
    assert_eq!((&job["state"], &job["attempt"]), (&"ready".into(), &0.into()));

    let path = "/v1/topics/order.close/jobs/1001";
    assert_eq!(server.get(path).await.ok(200)["body"]["order"], 1001);
    let popped = server.pop("order.close").await;
    assert_eq!((&popped["id"], &popped["attempt"]), (&"1001".into(), &1.into()));
    let lease = popped["lease"].as_str().expect("a lease");
    let done = server.post(&format!("{path}/finish"), &format!(r#"{{"lease":"{lease}"}}"#)).await;
    assert_eq!(done.ok(200)["changed"], true);
    server.get(path).await.refused(404, "not_found", None);
    server.stop().await;
}

#[tokio::test]
async fn a_body_comes_back_byte_for_byte_in_the_form_it_was_given() {
    let server = Server::start().await;
    for (id, body) in [
        ("spaces", r#"{ "b" : 1.000, "a": [ ], "b": 2 }"#),
        ("big", "123456789012345678901234567890"),
        ("text", r#""snowman \u2603 and \"quotes\"""#),
        ("null", "null"),
        ("list", "[1, 2,3]"),
    ] {
        server.add(&format!(r#"{{"topic":"t","id":"{id}","body":{body}}}"#)).await;
        let got = server.get(&format!("/v1/topics/t/jobs/{id}")).await.text;
        match id {
            "text" => assert!(got.contains(r#""body":"snowman ☃ and \"quotes\"""#), "{got}"),
            _ => assert!(got.contains(&format!(r#""body":{body}"#)), "{got}"),
        }
    }
    server.add(r#"{"topic":"t","id":"bytes","body_base64":"/wD+"}"#).await;
    let got = server.get("/v1/topics/t/jobs/bytes").await.ok(200);
    assert_eq!(got["body_base64"], "/wD+");
    assert!(got.get("body").is_none());
    server.stop().await;
}

#[tokio::test]
async fn the_same_id_again_is_refused_kept_or_replaced() {
    let server = Server::start().await;
    let job = |more: &str| format!(r#"{{"topic":"t","id":"1","body":"a","delay":"1h"{more}}}"#);
    let first = server.add(&job("")).await;
    server.post("/v1/jobs", &job("")).await.refused(409, "already_exists", Some("id"));
    let kept = server.post("/v1/jobs", &job(r#","on_conflict":"keep""#)).await.ok(200);
    assert_eq!(kept["number"], first["number"]);
    let new = server.post("/v1/jobs", &job(r#","on_conflict":"replace""#)).await.ok(201);
    assert_ne!(new["number"], first["number"]);
    server.stop().await;
}

#[tokio::test]
async fn an_idempotency_key_stands_for_an_id() {
    let server = Server::start().await;
    let add = async |body: &str| {
        let headers = [("idempotency-key", "order-7")];
        server.send(Method::POST, "/v1/jobs", &headers, body.as_bytes().to_vec()).await
    };
    let first = add(r#"{"topic":"t"}"#).await.ok(201);
    let again = add(r#"{"topic":"t"}"#).await.ok(200);
    assert_eq!((&first["id"], &first["number"]), (&again["id"], &again["number"]));
    let named = add(r#"{"topic":"t","id":"own"}"#).await.ok(201);
    assert_eq!(named["id"], "own");
    for wrong in ["", "a\tb", &"x".repeat(201)] {
        let headers = [("idempotency-key", wrong)];
        let body = br#"{"topic":"t"}"#.to_vec();
        let answer = server.send(Method::POST, "/v1/jobs", &headers, body).await;
        answer.refused(400, "invalid", Some("idempotency-key"));
    }
    server.stop().await;
}

#[tokio::test]
async fn many_jobs_are_answered_item_by_item() {
    let server = Server::start().await;
    let batch = r#"[{"topic":"t","id":"1"},{"topic":"t","id":""},{"topic":"t","id":"1"},7]"#;
    let results = server.post("/v1/jobs", batch).await.ok(200);
    assert_eq!(results[0]["job"]["id"], "1");
    assert_eq!(results[1]["error"]["field"], "id");
    assert_eq!(results[2]["error"]["code"], "already_exists");
    assert_eq!(results[3]["error"]["code"], "invalid");
    assert_eq!(server.post("/v1/jobs", "[]").await.ok(200), serde_json::json!([]));
    // Broken JSON changes nothing, however far it was right.
    server.post("/v1/jobs", r#"[{"topic":"t","id":"2"},"#).await.refused(400, "invalid", None);
    server.get("/v1/topics/t/jobs/2").await.refused(404, "not_found", None);
    server.stop().await;
}

#[tokio::test]
async fn a_waiting_job_is_changed_and_cancelled() {
    let server = Server::start().await;
    server.add(r#"{"topic":"t","id":"1","delay":"1h","ttr":"5s","body":"old"}"#).await;
    let path = "/v1/topics/t/jobs/1";
    let patch =
        r#"{"at":"2099-01-01T00:00:00Z","body":[1],"priority":3,"ttr":null,"if_version":1}"#;
    let changed = server.call(Method::PATCH, path, patch).await.ok(200);
    assert_eq!(changed["job"]["version"], 2);
    let job = server.get(path).await.ok(200);
    assert_eq!(job["due"], "2099-01-01T00:00:00.000Z");
    assert_eq!((&job["body"], &job["priority"]), (&serde_json::json!([1]), &3.into()));
    assert!(job.get("ttr").is_none(), "the topic's holds again");
    let stale = server.call(Method::PATCH, path, patch).await;
    stale.refused(409, "version_mismatch", Some("if_version"));
    assert_eq!(server.call(Method::DELETE, path, "").await.ok(200)["changed"], true);
    server.call(Method::DELETE, path, "").await.refused(404, "not_found", None);
    server.stop().await;
}

#[tokio::test]
async fn names_are_percent_encoded_in_paths() {
    let server = Server::start().await;
    server.add(r#"{"topic":"支付宝","id":"a/b c?","delay":60}"#).await;
    let path = "/v1/topics/%E6%94%AF%E4%BB%98%E5%AE%9D/jobs/a%2Fb%20c%3F";
    assert_eq!(server.get(path).await.ok(200)["id"], "a/b c?");
    let found = server.get("/v1/jobs/a%2Fb%20c%3F").await.ok(200);
    assert_eq!(found["jobs"][0]["topic"], "支付宝");
    server.stop().await;
}

#[tokio::test]
async fn old_names_are_understood() {
    let server = Server::start().await;
    let job = r#"{"topic":"t","id":"1","ttr":60,"is_loop":true,"notify_url":"http://a/b"}"#;
    let job = server.add(job).await;
    assert_eq!(job["target"], "http://a/b");
    assert_eq!(job["repeat"]["every"], "1m");
    server.stop().await;
}

#[tokio::test]
async fn what_happened_to_a_job_is_told() {
    let server = Server::start().await;
    server.add(r#"{"topic":"t","id":"1"}"#).await;
    server.pop("t").await;
    let failed = r#"{"error":"no answer","retry_in":"1h"}"#;
    server.post("/v1/topics/t/jobs/1/fail", failed).await.ok(200);
    let told = server.get("/v1/topics/t/jobs/1/history").await.ok(200);
    let last = told["history"].as_array().expect("a list").last().expect("one").clone();
    assert_eq!((&last["what"], &last["error"]), (&"failed".into(), &"no answer".into()));
    assert_eq!(server.get("/v1/topics/t/jobs/1").await.ok(200)["last_error"], "no answer");
    server.stop().await;
}

#[tokio::test]
async fn a_whole_number_is_one_however_it_is_written() {
    let server = Server::start().await;
    for (id, priority) in [("1", "5"), ("2", "5.0"), ("3", "0.5e1")] {
        let job = format!(r#"{{"id":"{id}","priority":{priority}}}"#);
        assert_eq!(server.add(&job).await["priority"], 5, "{job}");
    }
    server.stop().await;
}
