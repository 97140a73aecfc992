//! What holds for the three older dialects alike.

use std::time::Duration;

use hyper::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Answer, Server};
use crate::{command, ouqiang, tasks};

const ADD: &str = r#"{"command":"add","topic":"t","id":"1","delay":3600,"TTR":60,"body":"b"}"#;
const PUSH: &str = r#"{"topic":"t","id":"2","delay":3600,"ttr":60,"body":"b"}"#;
const TASK: &str = r#"{"name":"t","callback":{"schema":"http","address":"h"},"args":"b"}"#;

/// One call of each gate that a dialect goes through, right as it stands.
const CALLS: &[(&str, &str)] = &[
    ("/", ADD),
    ("/v1/command", r#"{"command":"pop","topic":"u"}"#),
    ("/v1/command", r#"{"command":"finish","topic":"t","id":"1"}"#),
    ("/push", PUSH),
    ("/get", r#"{"id":"2"}"#),
    ("/finish", r#"{"id":"2"}"#),
    ("/task/add", TASK),
];

/// Asserts that a call has failed, in the shape of its dialect.
#[track_caller]
fn failed(path: &str, answer: Answer, status: u16, why: &str) {
    let told = match path {
        "/" | "/v1/command" => command::told(answer)["error"].clone(),
        path if path.starts_with("/task/") => return tasks::bare(answer, status),
        _ => {
            let told = ouqiang::told(answer);
            assert_eq!(told["code"], 1, "{told}");
            told["message"].clone()
        }
    };
    assert!(told.as_str().is_some_and(|told| told.contains(why)), "{path}: {told}");
}

#[tokio::test]
async fn a_dialect_that_is_switched_off_is_not_there() {
    let mut server = Server::start().await;
    let paths = [
        ("/", 0),
        ("/v1/command", 0),
        ("/push", 1),
        ("/pop", 1),
        ("/finish", 1),
        ("/delete", 1),
        ("/get", 1),
        ("/task/add", 2),
        ("/task/get/x", 2),
        ("/task/remove", 2),
    ];
    for off in 0..3 {
        server.set(|config| {
            let fronts = &mut config.fronts;
            (fronts.command, fronts.ouqiang, fronts.tasks) = (off != 0, off != 1, off != 2);
        });
        for (path, front) in paths {
            let answer = server.post(path, "{").await;
            if front != off {
                assert!(!answer.text.contains("not_found"), "{path}: {}", answer.text);
                continue;
            }
            let why = answer.refused(404, "not_found", None);
            assert_eq!(why, format!("there is nothing at `{path}`"));
            // Nor is it with another method; but at the root is the dashboard.
            if path != "/" {
                server.call(Method::PUT, path, "").await.refused(404, "not_found", None);
            }
        }
    }
    server.set(|config| config.fronts.tasks = true);
    tasks::bare(server.post("/task/add", "{").await, 400);
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_is_not_ready_says_so_in_each_shape() {
    let server = Server::without_store().await;
    for (path, body) in CALLS {
        failed(path, server.post(path, body).await, 503, "still being loaded");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_overload_is_told_in_each_shape() {
    let server = Server::with(|config| config.limits.requests = 0).await;
    for (path, body) in CALLS {
        failed(path, server.post(path, body).await, 503, "at the limit of 0");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_wait_too_many_is_told_in_each_shape() {
    let server = Server::with(|config| config.limits.waiting = 0).await;
    let pop = r#"{"command":"pop","topic":"t","wait":60}"#;
    failed("/", server.post("/", pop).await, 503, "waiting pops are at the limit of 0");
    let pop = server.post("/pop", r#"{"topic":"t"}"#).await;
    failed("/pop", pop, 503, "waiting pops are at the limit of 0");
    server.stop().await;
}

#[tokio::test]
async fn sizes_are_held_and_told_in_each_shape() {
    let server = Server::with(|config| {
        config.limits.body_bytes = 100;
        config.limits.batch_bytes = 1000;
    })
    .await;
    let with =
        |call: &str, bytes: usize| call.replace("\"b\"", &format!("{:?}", "x".repeat(bytes)));
    for (path, call) in [("/", ADD), ("/push", PUSH), ("/task/add", TASK)] {
        let answer = server.post(path, &with(call, 101)).await;
        failed(path, answer, 413, "101 bytes, over the limit of 100");
        let answer = server.post(path, &with(call, 2000)).await;
        assert_eq!(answer.headers["connection"], "close");
        failed(path, answer, 413, "over the limit of 1000 bytes");
        assert_eq!(server.post(path, &with(call, 100)).await.status, 200);
    }
    assert_eq!(server.get("/v1/topics/t").await.ok(200)["added"], 3);
    server.stop().await;
}

#[tokio::test]
async fn an_object_may_have_so_many_fields() {
    let server = Server::start().await;
    let object = |fields: usize| {
        let fields: Vec<String> = (0..fields).map(|n| format!("\"{n}\":1")).collect();
        format!("{{{}}}", fields.join(","))
    };
    for path in ["/", "/push", "/task/add"] {
        let answer = server.post(path, &object(257)).await;
        failed(path, answer, 413, "257 fields, over the limit of 256");
        failed(path, server.post(path, &object(256)).await, 400, "is ");
    }
    server.post("/v1/jobs", &object(257)).await.refused(413, "too_large", None);
    server.stop().await;
}

#[tokio::test]
async fn strange_bytes_are_told_in_each_shape() {
    let server = Server::start().await;
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(9000), "]".repeat(9000)).into_bytes();
    for path in ["/", "/push", "/pop", "/finish", "/get", "/task/add", "/task/remove"] {
        let send = async |bytes: &[u8]| server.send(Method::POST, path, &[], bytes.to_vec()).await;
        failed(path, send(b"{\"id\":\"\xff\"}").await, 400, "not UTF-8");
        failed(path, send(b"\0").await, 400, "not JSON");
        failed(path, send(&deep).await, 400, "");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_foreign_page_reaches_no_dialect() {
    let server = Server::start().await;
    for (path, body) in CALLS {
        for foreign in [("origin", "http://evil.example"), ("host", "evil.example")] {
            let bytes = body.as_bytes().to_vec();
            let answer = server.send(Method::POST, path, &[foreign], bytes).await;
            answer.refused(403, "forbidden", None);
        }
    }
    assert_eq!(server.get("/v1/topics").await.ok(200)["topics"], serde_json::json!([]));
    server.stop().await;
}

#[tokio::test]
async fn a_stop_answers_those_who_wait() {
    let server = Server::with(|config| config.drain = Duration::from_secs(5)).await;
    let address = server.address();
    let ask = |path: &'static str, body: &'static str| {
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            let length = body.len();
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}");
            stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            answer
        })
    };
    let one = ask("/", r#"{"command":"pop","topic":"a","wait":"5m"}"#);
    let other = ask("/pop", r#"{"topic":"b"}"#);
    for topic in ["a", "b"] {
        server.waited_for(topic).await;
    }
    server.stop().await;
    let both = async { (one.await.expect("no panic"), other.await.expect("no panic")) };
    let (one, other) =
        tokio::time::timeout(Duration::from_secs(30), both).await.expect("both are answered");
    assert!(one.ends_with(r#"{"success":true,"error":null,"id":null,"value":null}"#), "{one}");
    assert!(other.ends_with(r#"{"code":0,"message":"ok","data":null}"#), "{other}");
}
