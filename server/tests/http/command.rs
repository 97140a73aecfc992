use serde_json::{Value, json};

use crate::client::{Answer, Server};

/// Asserts the one shape that every answer has.
#[track_caller]
pub(crate) fn told(answer: Answer) -> Value {
    let answer = answer.ok(200);
    let names: Vec<&String> = answer.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["error", "id", "success", "value"], "{answer}");
    let failed = answer["success"] == false;
    assert_eq!(answer["error"].is_string(), failed, "{answer}");
    assert!(!failed || (answer["id"].is_null() && answer["value"].is_null()), "{answer}");
    answer
}

async fn say(server: &Server, command: &str) -> Value {
    told(server.post("/v1/command", command).await)
}

/// Asserts that a command has failed, and answers why.
async fn fails(server: &Server, command: &str) -> String {
    let answer = say(server, command).await;
    assert_eq!(answer["success"], false, "{command}: {answer}");
    answer["error"].as_str().expect("text").to_owned()
}

fn done(id: Option<&str>, value: Option<&str>) -> Value {
    json!({"success": true, "error": null, "id": id, "value": value})
}

#[tokio::test]
async fn a_job_lives_by_commands_alone() {
    let server = Server::start().await;
    for path in ["/", "/v1/command"] {
        let say = async |command: &str| told(server.post(path, command).await);
        let add =
            r#"{"command":"add","topic":"order","id":"1","delay":0,"TTR":60,"body":"{\"a\":1}"}"#;
        assert_eq!(say(add).await, done(Some("1"), None));
        let refused = say(add).await;
        assert!(refused["error"].as_str().is_some_and(|why| why.contains("already")), "{refused}");
        let pop = r#"{"command":"pop","topic":"order"}"#;
        assert_eq!(say(pop).await, done(Some("1"), Some(r#"{"a":1}"#)));
        assert_eq!(say(pop).await, done(None, None));
        let finish = r#"{"command":"finish","id":"1"}"#;
        assert_eq!(say(finish).await, done(Some("1"), None));
        assert_eq!(say(finish).await["success"], false);
    }
    server.stop().await;
}

#[tokio::test]
async fn an_added_job_keeps_what_it_was_given_and_tries_without_an_end() {
    let server = Server::start().await;
    let add = r#"{"command":"add","topic":"t","id":"1","delay":1800,"TTR":90,"body":"b"}"#;
    say(&server, add).await;
    let job = server.get("/v1/topics/t/jobs/1").await.ok(200);
    assert_eq!(job["state"], "delayed");
    assert_eq!((&job["ttr"], &job["body"]), (&"1m30s".into(), &"b".into()));
    assert_eq!(job["retry"]["attempts"], 0);
    let pop = say(&server, r#"{"command":"pop","topic":"t"}"#).await;
    assert_eq!(pop, done(None, None), "it is not due");
    // Delete takes it in any state.
    let delete = r#"{"command":"delete","id":"1","topic":"t"}"#;
    assert_eq!(say(&server, delete).await, done(Some("1"), None));
    server.get("/v1/topics/t/jobs/1").await.refused(404, "not_found", None);
    server.stop().await;
}

#[tokio::test]
async fn what_is_written_otherwise_is_understood() {
    let server = Server::start().await;
    for (id, add) in [
        ("7", r#"{"command":"add","topic":"t","id":7,"delay":0,"TTR":60,"body":"b"}"#),
        ("-8", r#"{"command":"add","topic":"t","id":-8,"delay":"0","TTR":"60","body":"b"}"#),
        ("9", r#"{"command":"add","topic":"t","id":"9","delay":0.0,"ttr":60,"body":"b"}"#),
        ("10", r#"{"command":"add","topic":"t","id":"10","delay":"0s","Ttr":"1m","body":"b"}"#),
        ("é", r#"{"x":[],"command":"add","topic":"t","id":"é","delay":0,"TTR":60,"body":"b"}"#),
    ] {
        assert_eq!(say(&server, add).await, done(Some(id), None), "{add}");
        let ttr = &server.get(&format!("/v1/jobs/{id}")).await.ok(200)["jobs"][0]["ttr"];
        assert_eq!(ttr, "1m", "{add}");
        let pop = say(&server, r#"{"command":"pop","topic":"t"}"#).await;
        assert_eq!(pop, done(Some(id), Some("b")), "{add}");
        let finish = add.replace("\"add\"", "\"finish\"");
        assert_eq!(say(&server, &finish).await, done(Some(id), None), "{add}");
    }
    // Older clients say anything about the content type, or nothing.
    let pop = br#"{"command":"pop"}"#.to_vec();
    let headers = [("content-type", "text/plain;charset=UTF-8")];
    assert_eq!(
        told(server.send("POST".parse().unwrap(), "/", &headers, pop).await)["error"],
        Value::Null
    );
    server.stop().await;
}

#[tokio::test]
async fn a_value_is_always_text() {
    let server = Server::start().await;
    for (body, value) in [
        (r#""a\nb""#, "a\nb"),
        (r#"{"a": 1.0,"b":[]}"#, r#"{"a": 1.0,"b":[]}"#),
        ("[1, 2]", "[1, 2]"),
        ("17", "17"),
        ("false", "false"),
        (r#""""#, ""),
    ] {
        let add =
            format!(r#"{{"command":"add","topic":"t","id":1,"delay":0,"TTR":60,"body":{body}}}"#);
        assert_eq!(say(&server, &add).await["success"], true, "{body}");
        let pop = say(&server, r#"{"command":"pop","topic":"t"}"#).await;
        assert_eq!(pop, done(Some("1"), Some(value)));
        say(&server, r#"{"command":"finish","id":"1"}"#).await;
    }
    // Bytes that are text come as it, others in base64.
    for (coded, value) in [("aGk=", "hi"), ("/w==", "/w==")] {
        server.add(&format!(r#"{{"topic":"t","id":"1","body_base64":"{coded}"}}"#)).await;
        assert_eq!(say(&server, r#"{"command":"pop","topic":"t"}"#).await["value"], value);
        say(&server, r#"{"command":"finish","id":"1"}"#).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn an_id_in_two_topics_needs_its_topic() {
    let server = Server::start().await;
    for topic in ["a", "b"] {
        server.add(&format!(r#"{{"topic":"{topic}","id":"1","delay":"1h"}}"#)).await;
    }
    for command in ["finish", "delete"] {
        let why = fails(&server, &format!(r#"{{"command":"{command}","id":"1"}}"#)).await;
        assert!(why.contains("ambiguous") && why.contains("`a`") && why.contains("`b`"), "{why}");
    }
    let found = server.get("/v1/jobs/1").await.ok(200);
    assert_eq!(found["jobs"].as_array().map(Vec::len), Some(2), "nothing is gone");
    say(&server, r#"{"command":"finish","id":"1","topic":"a"}"#).await;
    let found = server.get("/v1/jobs/1").await.ok(200);
    assert_eq!(found["jobs"][0]["topic"], "b");
    assert_eq!(say(&server, r#"{"command":"delete","id":1}"#).await, done(Some("1"), None));
    let why = fails(&server, r#"{"command":"delete","id":1}"#).await;
    assert!(why.contains("no job `1`"), "{why}");
    server.stop().await;
}

#[tokio::test]
async fn a_pop_may_wait() {
    let server = Server::start().await;
    let (popped, _) =
        tokio::join!(say(&server, r#"{"command":"pop","topic":"t","wait":60}"#), async {
            server.waited_for("t").await;
            let add = r#"{"command":"add","topic":"t","id":"1","delay":0,"TTR":1,"body":"b"}"#;
            say(&server, add).await
        });
    assert_eq!(popped, done(Some("1"), Some("b")));
    server.stop().await;
}

#[tokio::test]
async fn a_wait_is_cut_to_its_limit() {
    let server = Server::with(|config| config.limits.wait = std::time::Duration::from_millis(1));
    let server = server.await;
    assert_eq!(
        say(&server, r#"{"command":"pop","topic":"t","wait":"1h"}"#).await,
        done(None, None)
    );
    server.stop().await;
}

/// A command, and a part of what is said about it.
const WRONG: &[(&str, &str)] = &[
    ("", "command is missing"),
    ("{", "not JSON"),
    ("[]", "not a JSON object"),
    ("null", "not a JSON object"),
    ("\"add\"", "not a JSON object"),
    ("{}", "command is missing"),
    (r#"{"command":null}"#, "command is missing"),
    (r#"{"command":"explode"}"#, "command is \"explode\"; give \"add\""),
    (r#"{"command":"ADD"}"#, "command is \"ADD\""),
    (r#"{"command":7}"#, "command is 7"),
    (r#"{"command":"pop","command":"pop"}"#, "given twice"),
    (r#"{"command":"add","topic":"t","delay":1,"TTR":1,"body":"b"}"#, "id is missing"),
    (r#"{"command":"add","topic":"t","id":"1","TTR":1,"body":"b"}"#, "delay is missing"),
    (r#"{"command":"add","topic":"t","id":"1","delay":1,"body":"b"}"#, "TTR is missing"),
    (r#"{"command":"add","topic":"t","id":"1","delay":1,"TTR":1}"#, "body is missing"),
    (r#"{"command":"add","topic":"t","id":"1","delay":1,"TTR":1,"body":null}"#, "body is missing"),
    (r#"{"command":"add","topic":"","id":"1","delay":1,"TTR":1,"body":"b"}"#, "topic is empty"),
    (r#"{"command":"add","topic":[],"id":"1","delay":1,"TTR":1,"body":"b"}"#, "topic is []"),
    (r#"{"command":"add","topic":"t","id":"","delay":1,"TTR":1,"body":"b"}"#, "id is empty"),
    (r#"{"command":"add","topic":"t","id":true,"delay":1,"TTR":1,"body":"b"}"#, "id is true"),
    (r#"{"command":"add","topic":"t","id":"1","delay":-1,"TTR":1,"body":"b"}"#, "delay is -1"),
    (r#"{"command":"add","topic":"t","id":"1","delay":"x","TTR":1,"body":"b"}"#, "delay is \"x\""),
    (
        r#"{"command":"add","topic":"t","id":"1","delay":1e300,"TTR":1,"body":"b"}"#,
        "delay is 1e300",
    ),
    (r#"{"command":"add","topic":"t","id":"1","delay":1e12,"TTR":1,"body":"b"}"#, "delay"),
    (r#"{"command":"add","topic":"t","id":"1","delay":1,"TTR":0,"body":"b"}"#, "ttr is 0s"),
    (r#"{"command":"add","topic":"t","id":"1","delay":1,"TTR":"8d","body":"b"}"#, "ttr is 8d"),
    (r#"{"command":"add","topic":"t","id":"1","delay":1,"TTR":[],"body":"b"}"#, "TTR is []"),
    (r#"{"command":"add","topic":"t","id":"1","delay":1,"TTR":1,"body":"\ud800"}"#, "body"),
    (r#"{"command":"pop","topic":" t"}"#, "topic"),
    (r#"{"command":"pop","topic":"t","wait":-1}"#, "wait is -1"),
    (r#"{"command":"finish"}"#, "id is missing"),
    (r#"{"command":"finish","id":{}}"#, "id is {}"),
    (r#"{"command":"delete","id":"none"}"#, "no job `none`"),
    (r#"{"command":"delete","id":"none","topic":"t"}"#, "none"),
];

#[tokio::test]
async fn whatever_is_wrong_is_told_in_the_same_shape() {
    let server = Server::start().await;
    for (command, part) in WRONG {
        let why = fails(&server, command).await;
        assert!(why.contains(part), "{command}: {why}");
    }
    let topics = server.get("/v1/topics").await.ok(200);
    assert_eq!(topics["topics"].as_array().map(Vec::len), Some(0), "nothing was added");
    server.stop().await;
}
