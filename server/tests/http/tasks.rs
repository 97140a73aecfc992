use hyper::Method;
use serde_json::{Value, json};

use crate::client::{Answer, Server};

/// Asserts a status and nothing else.
#[track_caller]
pub(crate) fn bare(answer: Answer, status: u16) {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text);
    assert_eq!(answer.text, "");
    assert!(!answer.headers.contains_key("content-type"), "{:?}", answer.headers);
}

const CALLBACK: &str = r#""callback":{"schema":"http","address":"127.0.0.1:9","path":"/cb"}"#;

async fn add(server: &Server, rest: &str) -> String {
    let task = format!(r#"{{"name":"mail",{CALLBACK},{rest}}}"#);
    let answer = server.post("/task/add", &task).await.ok(200);
    let uid = answer["uid"].as_str().expect("a uid").to_owned();
    assert_eq!(answer, json!({"uid": uid}));
    uid
}

async fn get(server: &Server, uid: &str) -> Value {
    server.get(&format!("/task/get/{uid}")).await.ok(200)
}

#[tokio::test]
async fn a_task_is_added_looked_at_and_removed() {
    let server = Server::start().await;
    let uid = add(&server, r#""time":{"duration":3600,"relative":true},"args":"a=1""#).await;
    let job = server.get(&format!("/v1/topics/mail/jobs/{uid}")).await.ok(200);
    assert_eq!((&job["target"], &job["body"]), (&"http://127.0.0.1:9/cb".into(), &"a=1".into()));
    assert_eq!(job["retain"], "1d");
    let task = get(&server, &uid).await;
    let created = task["created_at"].as_u64().expect("a number");
    let due = task["exec_time"].as_u64().expect("a number");
    assert!((3600..=3601).contains(&(due - created)), "{task}");
    let expected = json!({
        "id": job["number"], "uid": uid, "name": "mail", "type": 2, "times": 0, "retry_times": 0,
        "exec_time": due, "next_exec_time": due,
        "schema": "http", "address": "127.0.0.1:9", "path": "/cb",
        "created_at": created, "updated_at": created,
    });
    assert_eq!(task, expected);
    bare(server.call(Method::DELETE, &format!("/task/remove/{uid}"), "").await, 200);
    bare(server.get(&format!("/task/get/{uid}")).await, 404);
    bare(server.call(Method::DELETE, &format!("/task/remove/{uid}"), "").await, 404);
    server.stop().await;
}

#[tokio::test]
async fn a_uid_is_taken_from_path_query_or_body() {
    let server = Server::start().await;
    let removes = [Method::POST, Method::DELETE];
    let looks = [Method::GET, Method::POST];
    for (look, remove) in looks.iter().zip(&removes) {
        for way in ["path", "query", "body"] {
            let uid = add(&server, r#""time":{"duration":3600,"relative":true}"#).await;
            let (tail, body) = match way {
                "path" => (format!("/{uid}"), String::new()),
                "query" => (format!("?x=1&uid={uid}"), String::new()),
                _ => (String::new(), format!(r#"{{"uid":"{uid}","x":1}}"#)),
            };
            let got = server.call(look.clone(), &format!("/task/get{tail}"), &body).await.ok(200);
            assert_eq!(got["uid"], *uid, "{look} by {way}");
            let gone = server.call(remove.clone(), &format!("/task/remove{tail}"), &body).await;
            bare(gone, 200);
            bare(server.get(&format!("/task/get/{uid}")).await, 404);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn the_same_request_is_the_same_task() {
    let server = Server::start().await;
    let time = r#""time":{"duration":3600,"relative":true}"#;
    let first = add(&server, &format!(r#"{time},"args":"a""#)).await;
    assert_eq!(add(&server, &format!(r#""args":"a",{time},"more":1"#)).await, first);
    let mut uids = vec![first];
    for other in [
        &format!(r#"{time},"args":"b""#),
        time,
        r#""time":{"duration":3601,"relative":true},"args":"a""#,
        r#""time":{"duration":3600,"relative":false},"args":"a""#,
        r#""args":"a""#,
    ] {
        uids.push(add(&server, other).await);
    }
    for (name, callback) in [
        ("post", r#"{"schema":"http","address":"127.0.0.1:9","path":"/cb"}"#),
        ("mail", r#"{"schema":"https","address":"127.0.0.1:9","path":"/cb"}"#),
        ("mail", r#"{"schema":"http","address":"127.0.0.1:8","path":"/cb"}"#),
        ("mail", r#"{"schema":"http","address":"127.0.0.1:9","path":"/cc"}"#),
    ] {
        let task = format!(r#"{{"name":"{name}","callback":{callback},{time},"args":"a"}}"#);
        let answer = server.post("/task/add", &task).await.ok(200);
        uids.push(answer["uid"].as_str().expect("a uid").to_owned());
    }
    let all = uids.len();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), all, "each other request is another task");
    server.stop().await;
}

#[tokio::test]
async fn a_task_shows_where_it_is() {
    // Nobody pushes, so that what is due stays so.
    let server = Server::with(|config| config.role.worker = false).await;
    let uid = add(&server, r#""time":{"duration":3600,"relative":true}"#).await;
    let job = format!("/v1/topics/mail/jobs/{uid}");
    for (action, body, kind) in [("hold", "", 1), ("unhold", "", 2), ("run", "", 3)] {
        server.post(&format!("{job}/{action}"), body).await.ok(200);
        assert_eq!(get(&server, &uid).await["type"], kind, "{action}");
    }
    // Of a job that is popped.
    server.add(r#"{"topic":"t","id":"1","retain":"1d"}"#).await;
    server.pop("t").await;
    let task = get(&server, "1").await;
    assert_eq!((&task["type"], &task["times"]), (&4.into(), &1.into()));
    assert_eq!((&task["schema"], &task["path"]), (&"".into(), &"".into()));
    server.post("/v1/topics/t/jobs/1/fail", r#"{"retry_in":"1ms"}"#).await.ok(200);
    server.post("/v1/topics/t/pop", r#"{"wait":"60s"}"#).await.ok(200);
    assert_eq!(get(&server, "1").await["retry_times"], 1);
    server.post("/v1/topics/t/jobs/1/fail", r#"{"retry_in":"1h"}"#).await.ok(200);
    let task = get(&server, "1").await;
    assert_eq!(task["type"], 6);
    assert!(task["next_exec_time"].as_u64() > task["exec_time"].as_u64(), "{task}");
    server.post("/v1/topics/t/jobs/1/run", "").await.ok(200);
    server.pop("t").await;
    server.post("/v1/topics/t/jobs/1/finish", "").await.ok(200);
    assert_eq!(get(&server, "1").await["type"], 5);
    server.add(r#"{"topic":"t","id":"2","retry":{"attempts":1}}"#).await;
    server.pop("t").await;
    server.post("/v1/topics/t/jobs/2/fail", "").await.ok(200);
    assert_eq!(get(&server, "2").await["type"], 5, "the dead have ended");
    server.stop().await;
}

#[tokio::test]
async fn times_and_callbacks_are_written_in_several_ways() {
    // Nobody pushes, so that what is due stays so.
    let server = Server::with(|config| config.role.worker = false).await;
    let look = async |task: &str| {
        let uid = server.post("/task/add", task).await.ok(200)["uid"].clone();
        get(&server, uid.as_str().expect("a uid")).await
    };
    // Absolute, also as protobuf writes it; what is past is due.
    let task = r#"{"name":"a","time":{"duration":4000000000},"callback":{"schema":"grpc","address":"h:1"}}"#;
    let task = look(task).await;
    assert_eq!((&task["exec_time"], &task["type"]), (&4_000_000_000_u64.into(), &2.into()));
    assert_eq!((&task["schema"], &task["path"]), (&"grpc".into(), &"".into()));
    let task = r#"{"name":"a","time":{"duration":"7"},"callback":{"schema":" HTTP ","address":" h ","path":"cb?x=/"}}"#;
    let task = look(task).await;
    assert_eq!((&task["exec_time"], &task["type"]), (&7.into(), &3.into()));
    assert_eq!((&task["schema"], &task["address"]), (&"http".into(), &"h".into()));
    assert_eq!(task["path"], "/cb?x=/");
    // No time is now.
    let task = look(r#"{"name":"a","callback":{"schema":"https","address":"h"}}"#).await;
    assert_eq!(task["type"], 3);
    server.stop().await;
}

/// A method, a path, a body, and the status.
const WRONG: &[(&str, &str, &str, u16)] = &[
    ("POST", "/task/add", "", 400),
    ("POST", "/task/add", "{", 400),
    ("POST", "/task/add", "[]", 400),
    ("POST", "/task/add", r#"{"name":"a"}"#, 400),
    ("POST", "/task/add", r#"{"callback":{"schema":"http","address":"h"}}"#, 400),
    ("POST", "/task/add", r#"{"name":" ","callback":{"schema":"http","address":"h"}}"#, 400),
    ("POST", "/task/add", r#"{"name":7,"callback":{"schema":"http","address":"h"}}"#, 400),
    ("POST", "/task/add", r#"{"name":"a","callback":7}"#, 400),
    ("POST", "/task/add", r#"{"name":"a","callback":{"address":"h"}}"#, 400),
    ("POST", "/task/add", r#"{"name":"a","callback":{"schema":"ftp","address":"h"}}"#, 400),
    ("POST", "/task/add", r#"{"name":"a","callback":{"schema":"sink","address":"h"}}"#, 400),
    ("POST", "/task/add", r#"{"name":"a","callback":{"schema":"http"}}"#, 400),
    ("POST", "/task/add", r#"{"name":"a","callback":{"schema":"http","address":"h/x"}}"#, 400),
    ("POST", "/task/add", r#"{"name":"a","callback":{"schema":"http","address":"h x"}}"#, 400),
    ("POST", "/task/add", r#"{"name":"a","callback":{"schema":"http","address":":80"}}"#, 400),
    (
        "POST",
        "/task/add",
        r#"{"name":"a","args":{},"callback":{"schema":"http","address":"h"}}"#,
        400,
    ),
    (
        "POST",
        "/task/add",
        r#"{"name":"a","time":7,"callback":{"schema":"http","address":"h"}}"#,
        400,
    ),
    (
        "POST",
        "/task/add",
        r#"{"name":"a","time":{"duration":-1},"callback":{"schema":"http","address":"h"}}"#,
        400,
    ),
    (
        "POST",
        "/task/add",
        r#"{"name":"a","time":{"duration":18446744073709551615},"callback":{"schema":"http","address":"h"}}"#,
        400,
    ),
    (
        "POST",
        "/task/add",
        r#"{"name":"a","time":{"duration":18446744073709551615,"relative":true},"callback":{"schema":"http","address":"h"}}"#,
        400,
    ),
    (
        "POST",
        "/task/add",
        r#"{"name":"a","time":{"relative":"yes"},"callback":{"schema":"http","address":"h"}}"#,
        400,
    ),
    ("GET", "/task/add", "", 405),
    ("GET", "/task/get", "", 400),
    ("GET", "/task/get/none", "", 404),
    ("GET", "/task/get/%ff", "", 400),
    ("GET", "/task/get?uid=%ff", "", 400),
    ("GET", "/task/get?uid=a&uid=b", "", 400),
    ("GET", "/task/get?uid=none", "", 404),
    ("POST", "/task/get", r#"{"uid":7}"#, 400),
    ("POST", "/task/get", r#"{"uid":"none"}"#, 404),
    ("DELETE", "/task/get/none", "", 405),
    ("POST", "/task/remove", "", 400),
    ("POST", "/task/remove", "{", 400),
    ("DELETE", "/task/remove/%20", "", 400),
    ("DELETE", "/task/remove/none", "", 404),
    ("GET", "/task/remove/none", "", 405),
];

#[tokio::test]
async fn whatever_is_wrong_is_a_bare_status() {
    let server = Server::start().await;
    for (method, path, body, status) in WRONG {
        let answer = server.call(method.parse().expect("a method"), path, body).await;
        assert_eq!(answer.status.as_u16(), *status, "{method} {path} {body}");
        assert_eq!(answer.headers.contains_key("allow"), *status == 405, "{method} {path}");
        bare(answer, *status);
    }
    let topics = server.get("/v1/topics").await.ok(200);
    assert_eq!(topics["topics"].as_array().map(Vec::len), Some(0), "nothing was added");
    server.stop().await;
}

#[tokio::test]
async fn a_uid_in_two_topics_is_a_conflict() {
    let server = Server::start().await;
    for topic in ["a", "b"] {
        server.add(&format!(r#"{{"topic":"{topic}","id":"1","delay":"1h"}}"#)).await;
    }
    bare(server.get("/task/get/1").await, 409);
    bare(server.call(Method::DELETE, "/task/remove/1", "").await, 409);
    assert_eq!(server.get("/v1/jobs/1").await.ok(200)["jobs"].as_array().map(Vec::len), Some(2));
    server.stop().await;
}
