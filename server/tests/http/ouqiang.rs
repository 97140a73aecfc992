use hyper::Method;
use serde_json::{Value, json};

use crate::client::{Answer, Server};

/// Asserts the one shape that every answer has.
#[track_caller]
pub(crate) fn told(answer: Answer) -> Value {
    let answer = answer.ok(200);
    let names: Vec<&String> = answer.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["code", "data", "message"], "{answer}");
    assert!(answer["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    assert!(answer["code"] == 0 || (answer["code"] == 1 && answer["data"].is_null()), "{answer}");
    answer
}

/// Asserts that a call has succeeded, and answers its data.
async fn call(server: &Server, path: &str, body: &str) -> Value {
    let answer = told(server.post(path, body).await);
    assert_eq!(answer["code"], 0, "{path} {body}: {answer}");
    answer["data"].clone()
}

/// Makes a job ready that would be so only in a second.
async fn run(server: &Server, topic: &str, id: &str) {
    server.post(&format!("/v1/topics/{topic}/jobs/{id}/run"), "").await.ok(200);
}

const PUSH: &str = r#"{"topic":"order","id":"1","delay":3600,"ttr":120,"body":"{\"uid\":10}"}"#;

#[tokio::test]
async fn a_job_lives_by_these_calls_alone() {
    let server = Server::start().await;
    let now = server.add(r#"{"topic":"clock","id":"c"}"#).await["created"].clone();
    assert_eq!(call(&server, "/push", PUSH).await, Value::Null);
    let got = call(&server, "/get", r#"{"id":"1"}"#).await;
    let due = got["delay"].as_u64().expect("a number");
    assert_eq!(due.to_string().len(), 10, "seconds");
    assert_eq!(
        got,
        json!({"topic": "order", "id": "1", "delay": due, "ttr": 120, "body": "{\"uid\":10}"})
    );
    // The absolute second: that of the job's due time as the API tells it.
    let job = server.get("/v1/topics/order/jobs/1").await.ok(200);
    let at = format!(r#"{{"topic":"clock","id":"d","at":{due}}}"#);
    let second = server.add(&at).await["due"].as_str().expect("a time")[..19].to_owned();
    assert_eq!(&job["due"].as_str().expect("a time")[..19], second);
    assert!(job["due"].as_str() > now.as_str());
    assert_eq!(job["retry"]["attempts"], 0);

    run(&server, "order", "1").await;
    let popped = call(&server, "/pop", r#"{"topic":"order"}"#).await;
    assert_eq!(popped, json!({"id": "1", "body": "{\"uid\":10}"}));
    assert_eq!(call(&server, "/finish", r#"{"id":"1"}"#).await, Value::Null);
    assert_eq!(call(&server, "/get", r#"{"id":"1"}"#).await, Value::Null);
    // Whether it was there is not told.
    for path in ["/finish", "/delete"] {
        assert_eq!(call(&server, path, r#"{"id":"1"}"#).await, Value::Null);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_push_of_the_same_id_takes_the_place_of_the_first() {
    let server = Server::start().await;
    call(&server, "/push", PUSH).await;
    let again = r#"{"Topic":" order ","ID":" 1 ","Delay":7200,"TTR":86400,"more":1}"#;
    call(&server, "/push", again).await;
    let got = call(&server, "/get", r#"{"id":"1"}"#).await;
    assert_eq!((&got["ttr"], &got["body"]), (&86_400.into(), &"".into()));
    let counts = server.get("/v1/topics/order").await.ok(200)["counts"].clone();
    assert_eq!(counts["delayed"], 1);
    server.stop().await;
}

#[tokio::test]
async fn a_pop_looks_into_a_list_of_topics_and_waits() {
    let server = Server::start().await;
    let (popped, ()) = tokio::join!(call(&server, "/pop", r#"{"topic":"a, b,,c"}"#), async {
        server.waited_for("c").await;
        let push = r#"{"topic":"b","id":"1","delay":3600,"ttr":1,"body":"x"}"#;
        call(&server, "/push", push).await;
        run(&server, "b", "1").await;
    });
    assert_eq!(popped, json!({"id": "1", "body": "x"}));
    server.stop().await;
}

#[tokio::test]
async fn a_pop_without_a_job_ends_at_the_limit() {
    let server = Server::with(|config| config.limits.wait = std::time::Duration::from_millis(1));
    let server = server.await;
    assert_eq!(call(&server, "/pop", r#"{"topic":"t"}"#).await, Value::Null);
    server.stop().await;
}

#[tokio::test]
async fn an_id_is_known_without_its_topic() {
    let server = Server::start().await;
    for topic in ["a", "b"] {
        server.add(&format!(r#"{{"topic":"{topic}","id":"1","delay":"1h","body":[1]}}"#)).await;
    }
    let got = call(&server, "/get", r#"{"id":"1"}"#).await;
    assert_eq!((&got["topic"], &got["body"]), (&"b".into(), &"[1]".into()), "the last");
    assert_eq!(call(&server, "/finish", r#"{"id":"1"}"#).await, Value::Null);
    assert_eq!(server.get("/v1/jobs/1").await.ok(200)["jobs"], json!([]), "all of them");
    server.stop().await;
}

#[tokio::test]
async fn the_ttr_that_is_told_is_the_one_that_holds() {
    let server = Server::with(|config| {
        config.defaults.ttr =
            linger::job::Ttr::new(std::time::Duration::from_millis(1500)).unwrap();
    })
    .await;
    server.add(r#"{"topic":"t","id":"1","delay":"1h"}"#).await;
    assert_eq!(call(&server, "/get", r#"{"id":"1"}"#).await["ttr"], 2, "of the server");
    server.call(Method::PUT, "/v1/topics/t", r#"{"ttr":"5m"}"#).await.ok(200);
    assert_eq!(call(&server, "/get", r#"{"id":"1"}"#).await["ttr"], 300, "of the topic");
    server.call(Method::PATCH, "/v1/topics/t/jobs/1", r#"{"ttr":"7s"}"#).await.ok(200);
    assert_eq!(call(&server, "/get", r#"{"id":"1"}"#).await["ttr"], 7, "its own");
    server.stop().await;
}

#[tokio::test]
async fn a_finished_job_that_is_kept_is_gone_here() {
    let server = Server::start().await;
    server.add(r#"{"topic":"t","id":"1","retain":"1h"}"#).await;
    server.pop("t").await;
    server.post("/v1/topics/t/jobs/1/finish", "").await.ok(200);
    assert_eq!(server.get("/v1/topics/t/jobs/1").await.ok(200)["state"], "finished");
    assert_eq!(call(&server, "/get", r#"{"id":"1"}"#).await, Value::Null);
    server.stop().await;
}

/// A path, a body, and a part of what is said about it.
const WRONG: &[(&str, &str, &str)] = &[
    ("/push", "", "id is empty"),
    ("/push", "{", "not JSON"),
    ("/push", "[]", "not a JSON object"),
    ("/push", r#"{"topic":"t","delay":1,"ttr":1}"#, "id is empty"),
    ("/push", r#"{"topic":"t","id":"  ","delay":1,"ttr":1}"#, "id is empty"),
    ("/push", r#"{"topic":"t","id":1,"delay":1,"ttr":1}"#, "id is 1; give a string"),
    ("/push", r#"{"topic":"t","id":"a\u0007","delay":1,"ttr":1}"#, "control character"),
    ("/push", r#"{"id":"1","delay":1,"ttr":1}"#, "topic is empty"),
    ("/push", r#"{"topic":" ","id":"1","delay":1,"ttr":1}"#, "topic is empty"),
    ("/push", r#"{"topic":{},"id":"1","delay":1,"ttr":1}"#, "topic is {}"),
    ("/push", r#"{"topic":"t","id":"1","ttr":1}"#, "delay is 0; give 1 to 2147483648"),
    ("/push", r#"{"topic":"t","id":"1","delay":0,"ttr":1}"#, "delay is 0"),
    ("/push", r#"{"topic":"t","id":"1","delay":-1,"ttr":1}"#, "delay is -1"),
    ("/push", r#"{"topic":"t","id":"1","delay":2147483649,"ttr":1}"#, "delay is 2147483649"),
    ("/push", r#"{"topic":"t","id":"1","delay":1.5,"ttr":1}"#, "delay is 1.5"),
    ("/push", r#"{"topic":"t","id":"1","delay":"1","ttr":1}"#, "delay is \"1\""),
    ("/push", r#"{"topic":"t","id":"1","delay":1e999,"ttr":1}"#, "delay is 1e999"),
    ("/push", r#"{"topic":"t","id":"1","delay":1}"#, "ttr is 0; give 1 to 86400"),
    ("/push", r#"{"topic":"t","id":"1","delay":1,"ttr":0}"#, "ttr is 0"),
    ("/push", r#"{"topic":"t","id":"1","delay":1,"ttr":86401}"#, "ttr is 86401"),
    ("/push", r#"{"topic":"t","id":"1","delay":1,"ttr":1,"body":{}}"#, "body is {}"),
    ("/push", r#"{"topic":"t","id":"1","delay":1,"ttr":1,"body":"\ud800"}"#, "body is"),
    ("/pop", "", "topic is empty"),
    ("/pop", "nope", "not JSON"),
    ("/pop", r#"{"topic":" , ,"}"#, "topic is empty"),
    ("/pop", r#"{"topic":["a"]}"#, "topic is [\"a\"]"),
    ("/pop", r#"{"topic":"a,b\u0000"}"#, "control character"),
    ("/finish", "{}", "id is empty"),
    ("/delete", r#"{"id":""}"#, "id is empty"),
    ("/delete", r#"{"id":7}"#, "id is 7"),
    ("/get", "7", "not a JSON object"),
    ("/get", r#"{"id":null}"#, "id is empty"),
];

#[tokio::test]
async fn whatever_is_wrong_is_told_in_the_same_shape() {
    let server = Server::start().await;
    for (path, body, part) in WRONG {
        let answer = told(server.post(path, body).await);
        let row = format!("{path} {body}: {answer}");
        assert_eq!(answer["code"], 1, "{row}");
        assert!(answer["message"].as_str().is_some_and(|why| why.contains(part)), "{row}");
    }
    for path in ["/push", "/pop", "/finish", "/delete", "/get"] {
        let answer = told(server.get(path).await);
        assert!(answer["code"] == 1 && answer["message"] == "this path takes POST", "{answer}");
    }
    let topics = server.get("/v1/topics").await.ok(200);
    assert_eq!(topics["topics"].as_array().map(Vec::len), Some(0), "nothing was added");
    server.stop().await;
}

#[tokio::test]
async fn the_longest_delay_and_ttr_are_taken() {
    let server = Server::start().await;
    let push = r#"{"topic":"t","id":"1","delay":2147483648,"ttr":86400,"body":""}"#;
    call(&server, "/push", push).await;
    assert_eq!(call(&server, "/get", r#"{"id":"1"}"#).await["ttr"], 86_400);
    server.stop().await;
}
