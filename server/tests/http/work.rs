use std::time::Duration;

use crate::client::Server;

#[tokio::test]
async fn a_waiting_pop_gets_a_job_as_it_comes() {
    let server = Server::start().await;
    let (popped, _) = tokio::join!(
        server.post("/v1/topics/t/pop", r#"{"wait":"10s","ttr":"5s","max":3}"#),
        async {
            // Until someone waits for the topic, there is none.
            server.waited_for("t").await;
            server.add(r#"{"topic":"t","id":"1","body":"x"}"#).await
        }
    );
    let popped = popped.ok(200);
    assert_eq!(popped["jobs"][0]["id"], "1");
    assert_eq!(popped["jobs"].as_array().map(Vec::len), Some(1));
    server.stop().await;
}

#[tokio::test]
async fn a_pop_of_nothing_is_an_empty_list() {
    let server = Server::start().await;
    for ask in ["", "{}", r#"{"wait":0.001}"#, r#"{"wait":"1ms"}"#] {
        let popped = server.post("/v1/topics/none/pop", ask).await.ok(200);
        assert_eq!(popped, serde_json::json!({ "jobs": [] }));
    }
    server.stop().await;
}

#[tokio::test]
async fn one_pop_may_look_into_several_topics() {
    let server = Server::start().await;
    server.add(r#"{"topic":"b","id":"1","priority":5}"#).await;
    server.add(r#"{"topic":"a","id":"2","priority":9}"#).await;
    let popped = server.post("/v1/pop", r#"{"topics":["a","b"],"max":2}"#).await.ok(200);
    let ids: Vec<_> = popped["jobs"].as_array().unwrap().iter().map(|job| &job["id"]).collect();
    assert_eq!(ids, ["1", "2"]);
    server.post("/v1/pop", "{}").await.refused(400, "invalid", Some("topics"));
    server.stop().await;
}

#[tokio::test]
async fn a_stop_answers_those_who_wait() {
    let server = Server::start().await;
    let address = server.address();
    let waiting = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let body = r#"{"wait":"60s"}"#;
        let head = format!(
            "POST /v1/topics/t/pop HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    });
    server.waited_for("t").await;
    server.stop().await;
    let answer = waiting.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"jobs":[]}"#), "{answer}");
}

#[tokio::test]
async fn a_caller_who_hangs_up_leases_nothing() {
    let server = Server::start().await;
    let ask = server.post("/v1/topics/t/pop", r#"{"wait":"60s"}"#);
    let waits = server.waited_for("t");
    tokio::select! {
        _ = ask => panic!("there is nothing to pop"),
        () = waits => {}
    }
    // Gone: nothing names the topic any more once the server has noticed.
    let gone = async { while server.get("/v1/topics/t").await.status == 200 {} };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it is noticed");
    server.add(r#"{"topic":"t","id":"1"}"#).await;
    assert_eq!(server.get("/v1/topics/t/jobs/1").await.ok(200)["state"], "ready");
    server.stop().await;
}

#[tokio::test]
async fn attempts_end_as_their_holder_says() {
    let server = Server::start().await;
    for (id, action, body, state) in [
        ("1", "fail", r#"{"error":"x","retry_in":"1h"}"#, "retry"),
        ("2", "fail", r#"{"again":true,"retry_in":"1h"}"#, "retry"),
        ("3", "release", r#"{"delay":"1h"}"#, "delayed"),
        ("4", "release", "", "ready"),
        ("5", "touch", r#"{"ttr":"2h"}"#, "reserved"),
    ] {
        let topic = format!("t{id}");
        server.add(&format!(r#"{{"topic":"{topic}","id":"{id}"}}"#)).await;
        let popped = server.pop(&topic).await;
        let lease = popped["lease"].as_str().unwrap();
        let body = match body.strip_prefix('{') {
            Some(rest) => format!(r#"{{"lease":"{lease}",{rest}"#),
            None => String::new(),
        };
        let path = format!("/v1/topics/{topic}/jobs/{id}");
        let done = server.post(&format!("{path}/{action}"), &body).await.ok(200);
        assert_eq!(done["job"]["state"], state, "{action}");
        assert_eq!(server.get(&path).await.ok(200)["state"], state, "{action}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_lost_lease_cannot_finish() {
    let server = Server::start().await;
    server.add(r#"{"topic":"t","id":"1"}"#).await;
    let finish = "/v1/topics/t/jobs/1/finish";
    server.post(finish, "").await.refused(409, "wrong_state", None);
    let lease = r#"{"lease":"0123456789abcdef"}"#;
    server.post(finish, lease).await.refused(409, "lease_lost", None);
    server.pop("t").await;
    server.post(finish, lease).await.refused(409, "lease_lost", None);
    server.post(finish, r#"{"lease":"zz"}"#).await.refused(400, "invalid", Some("lease"));
    assert_eq!(server.post(finish, "").await.ok(200)["changed"], true);
    server.stop().await;
}

#[tokio::test]
async fn jobs_are_held_let_go_and_run() {
    let server = Server::start().await;
    server.add(r#"{"topic":"t","id":"1","delay":"1h"}"#).await;
    for (action, state) in [("hold", "held"), ("unhold", "delayed"), ("run", "ready")] {
        let path = format!("/v1/topics/t/jobs/1/{action}");
        assert_eq!(server.post(&path, "").await.ok(200)["job"]["state"], state);
    }
    server.stop().await;
}

#[tokio::test]
async fn many_are_done_at_once_by_name_or_by_filter() {
    let server = Server::start().await;
    for id in 0..6 {
        server.add(&format!(r#"{{"topic":"t","id":"{id}","delay":"1h"}}"#)).await;
    }
    let named = r#"{"jobs":[{"id":"0"},{"id":"nope"}]}"#;
    let results = server.post("/v1/topics/t/delete", named).await.ok(200)["results"].clone();
    assert_eq!(results[0]["changed"], true);
    assert_eq!(results[1]["error"]["code"], "not_found");
    let all = r#"{"where":{"state":"delayed"},"limit":3,"dry_run":true}"#;
    assert_eq!(server.post("/v1/topics/t/hold", all).await.ok(200)["count"], 3);
    let all = r#"{"where":{"state":"delayed"},"limit":3}"#;
    assert_eq!(server.post("/v1/topics/t/hold", all).await.ok(200)["count"], 3);
    let counts = server.get("/v1/topics/t").await.ok(200)["counts"].clone();
    assert_eq!((&counts["held"], &counts["delayed"]), (&3.into(), &2.into()));
    server.post("/v1/topics/t/delete", "{}").await.refused(400, "invalid", Some("jobs"));
    assert_eq!(server.post("/v1/topics/t/redrive", "").await.ok(200)["count"], 0);
    server.stop().await;
}

#[tokio::test]
async fn an_answer_ends_at_its_limit_and_the_rest_is_given_back() {
    let server = Server::with(|config| config.limits.answer_bytes = 1024).await;
    let body = "x".repeat(800);
    for id in 0..4 {
        server.add(&format!(r#"{{"topic":"t","id":"{id}","body":"{body}"}}"#)).await;
    }
    let popped = server.post("/v1/topics/t/pop", r#"{"max":4}"#).await.ok(200);
    assert_eq!(popped["jobs"].as_array().map(Vec::len), Some(1));
    let counts = server.get("/v1/topics/t").await.ok(200)["counts"].clone();
    assert_eq!((&counts["ready"], &counts["reserved"]), (&3.into(), &1.into()));
    assert_eq!(server.get("/v1/topics/t/jobs/3").await.ok(200)["attempt"], 0);
    server.stop().await;
}

#[tokio::test]
async fn too_many_waiting_pops_are_turned_away_at_once() {
    let server = Server::with(|config| config.limits.waiting = 1).await;
    let first = server.post("/v1/topics/t/pop", r#"{"wait":"60s"}"#);
    let second = async {
        server.waited_for("t").await;
        let refused = server.post("/v1/topics/t/pop", r#"{"wait":"60s"}"#).await;
        assert_eq!(refused.headers["retry-after"], "1");
        refused.refused(503, "overloaded", None);
        // Others go on.
        server.add(r#"{"topic":"t","id":"1"}"#).await
    };
    let both = async { tokio::join!(first, second) };
    let (first, _) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("no hang");
    assert_eq!(first.ok(200)["jobs"][0]["id"], "1");
    server.stop().await;
}
