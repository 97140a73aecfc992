//! Every kind of event, once, with what belongs to it.

use hyper::Method;
use serde_json::json;

use crate::{Place, add, events, kinds, pop, settle, told};

#[tokio::test(flavor = "multi_thread")]
async fn a_life_is_told_from_its_beginning_to_its_end_and_after() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        let job =
            add(&server, r#"{"topic":"mail","id":"1","retry":{"attempts":5,"ladder":["1ms"]}}"#)
                .await;
        let held = pop(&server, "mail").await;
        settle(&server, &held, "fail", r#","error":"no such address","retry_in":"1ms""#).await;
        let held = pop(&server, "mail").await;
        settle(&server, &held, "touch", "").await;
        settle(&server, &held, "release", "").await;
        let held = pop(&server, "mail").await;
        settle(&server, &held, "finish", "").await;
        server.get("/v1/topics/mail/jobs/1").await.ok(404);

        let all = events(&server, "topic=mail&id=1", 8).await;
        let right = [
            "added",
            "handed_out",
            "failed",
            "handed_out",
            "touched",
            "released",
            "handed_out",
            "finished",
        ];
        assert_eq!(kinds(&all), right);
        for event in &all {
            assert_eq!(event["node"], "here", "{event}");
            assert_eq!(event["number"], job["number"], "{event}");
            assert_eq!(event["caller"]["front"], "http", "{event}");
            assert!(event["caller"]["address"].as_str().unwrap().starts_with("127.0.0.1:"));
        }
        let attempts: Vec<_> = all.iter().map(|event| event["attempt"].as_u64()).collect();
        // A release gives its attempt back.
        let right = [None, Some(1), Some(1), Some(2), Some(2), Some(2), Some(2), Some(2)];
        assert_eq!(attempts, right);
        assert_eq!(all[2]["error"], "no such address");
        assert_eq!(all[0]["latency_ms"], json!(null));
        assert!(all[1..].iter().all(|event| event["latency_ms"].is_u64()), "{all:#?}");
        assert!(all.windows(2).all(|two| two[0]["at"].as_str() <= two[1]["at"].as_str()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_hand_are_told_and_what_changes_nothing_is_not() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        add(&server, r#"{"topic":"mail","id":"1","delay":"1h"}"#).await;
        server
            .call(Method::PATCH, "/v1/topics/mail/jobs/1", r#"{"priority":1}"#)
            .await
            .unwrap()
            .ok(200);
        server.post("/v1/topics/mail/jobs/1/hold", "").await.ok(200);
        server.post("/v1/topics/mail/jobs/1/hold", "").await.ok(200);
        server.post("/v1/topics/mail/jobs/1/unhold", "").await.ok(200);
        server.post("/v1/topics/mail/jobs/1/run", "").await.ok(200);
        server.post("/v1/jobs", r#"{"topic":"mail","id":"1"}"#).await.ok(409);
        add(&server, r#"{"topic":"mail","id":"1","on_conflict":"replace"}"#).await;
        server.delete("/v1/topics/mail/jobs/1").await.ok(200);
        server.delete("/v1/topics/mail/jobs/1").await.ok(404);
        let all = events(&server, "topic=mail", 7).await;
        let right = ["added", "updated", "held", "unheld", "run", "replaced", "deleted"];
        assert_eq!(kinds(&all), right);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deaths_are_told_with_what_led_to_them() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        for (id, ttr) in [("fails", "60s"), ("again", "60s"), ("slow", "50ms")] {
            let retry = r#"{"attempts":1}"#;
            add(
                &server,
                &format!(r#"{{"topic":"{id}","id":"{id}","ttr":"{ttr}","retry":{retry}}}"#),
            )
            .await;
            let held = pop(&server, id).await;
            match id {
                "fails" => settle(&server, &held, "fail", r#","error":"no""#).await,
                "again" => settle(&server, &held, "fail", r#","again":true"#).await,
                _ => {}
            }
        }
        for (topic, led, error) in [
            ("fails", "failed", "no"),
            ("again", "again", "gave_up"),
            ("slow", "timed_out", "ttr ran out"),
        ] {
            let all = events(&server, &format!("topic={topic}"), 4).await;
            assert_eq!(kinds(&all), ["added", "handed_out", led, "died"]);
            assert_eq!(
                (&all[3]["error"], &all[3]["attempt"]),
                (&json!(error), &json!(1)),
                "{topic}"
            );
        }
        server.post("/v1/topics/fails/jobs/fails/run", "").await.ok(200);
        server.post("/v1/topics/again/redrive", "").await.ok(200);
        assert_eq!(kinds(&events(&server, "topic=fails", 5).await)[4], "run");
        assert_eq!(told(&events(&server, "topic=again", 5).await)[4], ("redriven", "again"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_to_many_is_told_of_each_and_what_is_done_to_a_topic_once() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        let jobs = r#"[{"topic":"mail","id":"1","delay":"1h"},{"topic":"mail","id":"2","delay":"1h"},
            {"topic":"mail","id":"3","delay":"1h"}]"#;
        server.post("/v1/jobs", jobs).await.ok(200);
        let where_2 = r#"{"where":{"id_prefix":"2"}}"#;
        server.post("/v1/topics/mail/delete", where_2).await.ok(200);
        server.post("/v1/topics/mail/hold", r#"{"where":{}}"#).await.ok(200);
        let all = events(&server, "topic=mail", 6).await;
        assert_eq!(told(&all)[3], ("deleted", "2"));
        assert_eq!(kinds(&all)[4..], ["held", "held"]);

        server.post("/v1/topics/mail/pause", "").await.ok(200);
        server.post("/v1/topics/mail/resume", "").await.ok(200);
        server.call(Method::PUT, "/v1/topics/mail", r#"{"ttr":"5s"}"#).await.unwrap().ok(200);
        server.post("/v1/topics/mail/empty", "").await.ok(200);
        server.delete("/v1/topics/mail").await.ok(200);
        let all = events(&server, "topic=mail", 11).await;
        let right = ["paused", "resumed", "configured", "emptied", "forgotten"];
        assert_eq!(kinds(&all)[6..], right);
        assert_eq!((&all[9]["count"], &all[9]["id"]), (&json!(2), &json!(null)));
    }
}
