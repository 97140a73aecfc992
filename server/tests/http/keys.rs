//! API keys: who is let in, and to what.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::Method;
use linger_server::config::Config;
use linger_server::serve::{self, Running};
use serde_json::{Value, json};

use crate::client::{ADMIN_KEY, Answer, Caller, Server};
use crate::openapi::{Call, Document, text_of};

/// What is for everyone, and nothing else is.
const OPEN: [&str; 6] = ["isAlive", "isReady", "openapi", "docs", "dashboard", "whoAmI"];

/// Whether a call was refused, in the shape of its dialect.
fn is_refused(call: &Call<'_>, answer: &Answer, status: u16, code: &str) -> bool {
    match call.about["tags"][0].as_str().unwrap() {
        "command" => answer.status == 200 && answer.json()["success"] == false,
        "ouqiang" => answer.status == 200 && answer.json()["code"] == 1,
        "tasks" => answer.status == status && answer.text.is_empty(),
        _ => answer.status == status && answer.json()["error"]["code"] == code,
    }
}

/// All that can be seen of the server, to tell whether anything has changed.
async fn seen(server: &Server) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [
        "/v1/topics",
        "/v1/jobs/1001",
        "/v1/topics/order.close/jobs?body=true",
        "/v1/topics/mail/jobs",
        "/v1/workers",
        "/v1/secrets",
        "/v1/keys",
        "/v1/audit",
    ] {
        all.push(server.get(path).await.ok(200));
    }
    all
}

/// Something of every kind, under the names of the examples.
async fn prepare(server: &Server) {
    let job = json!({"topic": "order.close", "id": "1001", "body": "SECRET-BODY", "delay": "1h"});
    server.add(&job.to_string()).await;
    let worker = json!({
        "id": "shop-1", "app": "shop", "topics": ["order.close"], "lease": "10m",
        "url": "http://10.0.0.7:8080/jobs",
    });
    server.post("/v1/workers", &worker.to_string()).await.ok(201);
    server.post("/v1/secrets", r#"{"topic":"order.close"}"#).await.ok(201);
    // Under the uid of the examples.
    let callback = json!({"schema": "http", "address": "127.0.0.1:8080", "path": "/sent"});
    let time = json!({"duration": 3600, "relative": true});
    let task = json!({"name": "mail", "time": time, "callback": callback, "args": "to=7"});
    server.post("/task/add", &task.to_string()).await.ok(200);
    while server.get("/v1/audit").await.ok(200)["changes"].as_array().unwrap().len() < 7 {}
}

#[tokio::test]
async fn no_call_of_the_description_lets_anyone_in_who_may_not() {
    let server = Server::with_keys(|config| config.limits.failed_keys = 1_000_000).await;
    let all = ["add", "consume", "read", "metrics"];
    let mut single = Vec::new();
    for scope in all {
        single.push((scope, server.by(Some(&server.make_key(&[scope], &["*"]).await))));
    }
    let elsewhere = server.make_key(&["add", "consume", "read", "metrics"], &["other.*"]).await;
    let elsewhere = server.by(Some(&elsewhere));
    let governor = server.by(Some(&server.make_key(&["admin"], &["other.*", "x"]).await));
    let made = elsewhere.get("/v1/whoami").await.ok(200);
    let wrong_secret = format!("lk_{}_{}", &made["id"].as_str().unwrap()[4..], "A".repeat(43));
    prepare(&server).await;
    let before = seen(&server).await;
    let document = Document::of(&server).await;
    let mut walked = BTreeSet::new();
    for call in document.calls() {
        for body in call.bodies() {
            let (path, text) = (call.path_and_query(&document), text_of(&body));
            let ask = async |caller: &Caller| caller.call(call.method.clone(), &path, &text).await;
            let row = format!("{} {path} {text}", call.method);
            if OPEN.contains(&call.name()) && call.name() != "whoAmI" {
                assert_eq!(ask(&server.by(None)).await.status, 200, "{row}");
                continue;
            }
            // Without a key, and with wrong ones.
            for key in [None, Some(""), Some("x"), Some(&wrong_secret[..]), Some(&ADMIN_KEY[1..])] {
                let answer = ask(&server.by(key)).await;
                let refused = is_refused(&call, &answer, 401, "unauthorized");
                assert!(refused, "{row} with {key:?}: {} {}", answer.status, answer.text);
                if answer.status == 401 {
                    assert_eq!(answer.headers["www-authenticate"], "Bearer", "{row}");
                }
                assert!(!answer.text.contains("SECRET-BODY"), "{row}");
            }
            walked.insert(call.name().to_owned());
            if call.name() == "whoAmI" {
                continue;
            }
            // With a key for another thing.
            let needed = call.about["security"].as_array().unwrap().iter();
            let needed: Vec<&str> = needed.map(|one| one["key"][0].as_str().unwrap()).collect();
            assert!(!needed.is_empty(), "{row}");
            for (scope, caller) in single.iter().filter(|(scope, _)| !needed.contains(scope)) {
                let answer = ask(caller).await;
                let refused = is_refused(&call, &answer, 403, "forbidden");
                assert!(refused, "{row} with {scope}: {} {}", answer.status, answer.text);
            }
            // With a key for other topics: refused, or nothing of ours is to be seen.
            for caller in [&elsewhere, &governor] {
                let answer = ask(caller).await;
                let refused = is_refused(&call, &answer, 403, "forbidden");
                // Item by item.
                let each = answer.text.matches("\"code\":\"forbidden\"").count();
                let items = body.as_array().map_or(usize::MAX, Vec::len);
                let ours = ["order.close", "1001", "SECRET-BODY", "shop-1", "mail", "sec_"];
                let silent = !ours.iter().any(|word| answer.text.contains(word));
                let names_none = answer.status == 404 || looks_like_nothing(&call, &answer);
                assert!(
                    refused || each == items || silent && names_none,
                    "{row}: {} {}",
                    answer.status,
                    answer.text
                );
            }
        }
    }
    assert_eq!(seen(&server).await, before, "nothing has changed");
    assert!(walked.len() > 60, "{walked:?}");
    server.stop().await;
}

/// Whether an answer says that there is nothing: lists that are empty, and what is not told apart
/// from what is not there.
fn looks_like_nothing(call: &Call<'_>, answer: &Answer) -> bool {
    let empty = |name: &str| answer.json()[name].as_array().is_some_and(Vec::is_empty);
    match call.name() {
        "listTopics" => empty("topics"),
        "findJobs" => empty("jobs"),
        "listWorkers" => empty("workers"),
        // The same for any server: instances know no topics.
        "listNodes" => true,
        "finish" | "delete" | "get" => answer.json()["data"].is_null(),
        "command" | "commandAtRoot" => answer.json()["success"] == false,
        _ => false,
    }
}

#[tokio::test]
async fn a_key_does_what_it_is_for_and_nothing_else() {
    let server = Server::with_keys(|_| {}).await;
    let by = async |scopes: &[&str], topics: &[&str]| {
        server.by(Some(&server.make_key(scopes, topics).await))
    };
    let adds = by(&["add"], &["order.*"]).await;
    let works = by(&["consume"], &["order.*", "mail"]).await;
    let looks = by(&["read"], &["order.*"]).await;
    adds.post("/v1/jobs", r#"{"topic":"order.close","id":"1"}"#).await.ok(201);
    let message = adds.post("/v1/jobs", r#"{"topic":"mail"}"#).await;
    let message = message.refused(403, "forbidden", Some("topic"));
    assert_eq!(message, "key `k` is not for topic `mail`");
    let batch = r#"[{"topic":"order.close","id":"2"},{"topic":"mail"},{"topic":"order"}]"#;
    let batch = adds.post("/v1/jobs", batch).await.ok(200);
    assert_eq!(batch[0]["job"]["id"], "2");
    assert_eq!(
        (&batch[1]["error"]["code"], &batch[2]["error"]["code"]),
        (&json!("forbidden"), &json!("forbidden"))
    );
    // All of several topics, or none.
    let pop =
        async |topics: Value| works.post("/v1/pop", &json!({"topics": topics}).to_string()).await;
    pop(json!(["order.close", "other"])).await.refused(403, "forbidden", Some("topic"));
    let popped = pop(json!(["mail", "order.close"])).await.ok(200);
    assert_eq!(popped["jobs"][0]["id"], "1");
    works.post("/v1/topics/order.close/jobs/1/finish", "").await.ok(200);
    works.get("/v1/topics/order.close").await.refused(403, "forbidden", None);
    // Written in code it is the same topic, through the router.
    works.post("/v1/topics/%6Dail/pop", "").await.ok(200);
    works.post("/v1/topics/%6Fther/pop", "").await.refused(403, "forbidden", Some("topic"));
    // What is looked at is what the key is for.
    server.add(r#"{"topic":"mail","id":"2"}"#).await;
    let found = looks.get("/v1/jobs/2").await.ok(200);
    assert_eq!(found["jobs"].as_array().unwrap().len(), 1);
    let topics = looks.get("/v1/topics").await.ok(200);
    assert_eq!(topics["topics"].as_array().unwrap().len(), 1);
    assert_eq!(topics["topics"][0]["topic"], "order.close");
    looks.get("/v1/due").await.refused(403, "forbidden", None);
    looks.get("/v1/due?topic=order.close").await.ok(200);
    // A wrong method is told to those alone who may do anything.
    looks.call(Method::PUT, "/v1/jobs", "").await.refused(403, "forbidden", None);
    server.call(Method::PUT, "/v1/jobs", "").await.refused(405, "invalid", None);
    server.by(None).get("/nothing").await.refused(404, "not_found", None);
    server.stop().await;
}

#[tokio::test]
async fn topics_are_listed_page_by_page_for_every_pattern() {
    let server = Server::with_keys(|_| {}).await;
    for n in 0..5 {
        for topic in [format!("a.{n}"), format!("b.{n}"), format!("c{n}")] {
            server.add(&json!({"topic": topic}).to_string()).await;
        }
    }
    let caller = server.make_key(&["read"], &["b.*", "c3", "a.*", "a.1", "none"]).await;
    let caller = server.by(Some(&caller));
    let pages = async |prefix: &str| {
        let (mut names, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/topics?limit=2&prefix={prefix}&cursor={cursor}");
            let page = caller.get(&path).await.ok(200);
            let topics = page["topics"].as_array().unwrap().iter();
            names.extend(topics.map(|topic| topic["topic"].as_str().unwrap().to_owned()));
            match page["cursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => return names.join(" "),
            }
        }
    };
    assert_eq!(pages("").await, "a.0 a.1 a.2 a.3 a.4 b.0 b.1 b.2 b.3 b.4 c3");
    assert_eq!(pages("a").await, "a.0 a.1 a.2 a.3 a.4");
    assert_eq!(pages("b.4").await, "b.4");
    assert_eq!(pages("c").await, "c3");
    assert_eq!(pages("z").await, "");
    server.stop().await;
}

#[tokio::test]
async fn a_key_is_shown_once_listed_and_revoked() {
    let server = Server::with_keys(|_| {}).await;
    let new = json!({
        "name": "shop", "scopes": ["add", "read"], "topics": ["order.*"], "expires_in": "1h",
        "rate": "600/m",
    });
    let mut made = server.post("/v1/keys", &new.to_string()).await.ok(201);
    let key = made["key"].as_str().unwrap().to_owned();
    assert!(key.starts_with("lk_") && key.len() == 3 + 16 + 1 + 43, "{key}");
    made.as_object_mut().unwrap().remove("key");
    assert_eq!((&made["rate"], &made["topics"]), (&json!("600/1m"), &json!(["order.*"])));
    let listed = server.get("/v1/keys").await;
    assert!(!listed.text.contains(&key[20..]), "{}", listed.text);
    assert_eq!(listed.ok(200)["keys"], json!([made]));
    let shop = server.by(Some(&key));
    let mut who = made.clone();
    who["keys"] = json!(true);
    assert_eq!(shop.get("/v1/whoami").await.ok(200), who);
    let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
    shop.call(Method::DELETE, &path, "").await.refused(403, "forbidden", None);
    assert_eq!(server.call(Method::DELETE, &path, "").await.ok(200), made);
    shop.get("/v1/whoami").await.refused(401, "unauthorized", None);
    server.call(Method::DELETE, &path, "").await.refused(404, "not_found", None);
    assert_eq!(server.get("/v1/keys").await.ok(200)["keys"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_key_is_told() {
    let server = Server::with_keys(|_| {}).await;
    for (body, field) in [
        (r#"{"scopes":["add"]}"#, "name"),
        (r#"{"name":"","scopes":["add"]}"#, "name"),
        (r#"{"name":" a","scopes":["add"]}"#, "name"),
        (r#"{"name":"a"}"#, "scopes"),
        (r#"{"name":"a","scopes":[]}"#, "scopes"),
        (r#"{"name":"a","scopes":["root"]}"#, "scopes"),
        (r#"{"name":"a","scopes":"add"}"#, "scopes"),
        (r#"{"name":"a","scopes":["add"],"topics":[]}"#, "topics"),
        (r#"{"name":"a","scopes":["add"],"topics":["a*b"]}"#, "topics"),
        (r#"{"name":"a","scopes":["add"],"expires":"2020-01-01T00:00:00Z"}"#, "expires"),
        (
            r#"{"name":"a","scopes":["add"],"expires":"2099-01-01T00:00:00Z","expires_in":"1h"}"#,
            "expires_in",
        ),
        (r#"{"name":"a","scopes":["add"],"rate":"0"}"#, "rate"),
    ] {
        server.post("/v1/keys", body).await.refused(400, "invalid", Some(field));
    }
    server.stop().await;
}

#[tokio::test]
async fn the_first_key_closes_the_server_and_the_last_opens_it() {
    let server = Server::start().await;
    assert_eq!(server.get("/v1/whoami").await.ok(200)["keys"], false);
    let first = r#"{"name":"a","scopes":["add"]}"#;
    let why = server.post("/v1/keys", first).await.refused(400, "invalid", Some("scopes"));
    assert!(why.contains("the first key"), "{why}");
    let key = server.make_key(&["admin"], &["*"]).await;
    server.get("/v1/topics").await.refused(401, "unauthorized", None);
    assert_eq!(server.get("/healthz").await.status, 200);
    let admin = server.by(Some(&key));
    admin.get("/v1/topics").await.ok(200);
    // Whatever it is called: no browser sends a key by itself.
    let foreign = [("host", "queue.example"), ("origin", "https://elsewhere.example")];
    assert_eq!(admin.send(Method::GET, "/v1/topics", &foreign, vec![]).await.status, 200);
    let id = admin.get("/v1/whoami").await.ok(200)["id"].as_str().unwrap().to_owned();
    admin.call(Method::DELETE, &format!("/v1/keys/{id}"), "").await.ok(200);
    server.get("/v1/topics").await.ok(200);
    server.stop().await;
}

#[tokio::test]
async fn keys_are_there_again_after_a_restart_and_nothing_is_answered_before() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("data");
    let server = Server::with(|config| config.store = place.clone().into()).await;
    let key = server.make_key(&["admin"], &["*"]).await;
    server.stop().await;
    let server = Server::with(|config| config.store = place.clone().into()).await;
    server.get("/v1/topics").await.refused(401, "unauthorized", None);
    server.by(Some(&key)).get("/v1/topics").await.ok(200);
    server.stop().await;
    let server = Server::without_store().await;
    for path in ["/v1/topics", "/v1/whoami", "/metrics"] {
        server.get(path).await.refused(503, "unavailable", None);
    }
    server.stop().await;
}

#[tokio::test]
async fn whoever_waits_by_a_key_that_is_revoked_is_told() {
    let server = Server::with_keys(|_| {}).await;
    let key = server.make_key(&["consume"], &["t"]).await;
    let caller = server.by(Some(&key));
    let waiting =
        tokio::spawn(async move { caller.post("/v1/topics/t/pop", r#"{"wait":"5m"}"#).await });
    server.waited_for("t").await;
    let id = server.get("/v1/keys").await.ok(200)["keys"][0]["id"].as_str().unwrap().to_owned();
    server.call(Method::DELETE, &format!("/v1/keys/{id}"), "").await.ok(200);
    let answer = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    answer.expect("it ends").unwrap().refused(401, "unauthorized", None);
    server.stop().await;
}

#[tokio::test]
async fn too_many_wrong_keys_and_too_many_requests_are_refused_for_a_while() {
    let mut server = Server::with_keys(|config| config.limits.failed_keys = 3).await;
    let key = server.make_key(&["read"], &["*"]).await;
    let wrong = server.by(Some("wrong"));
    for _ in 0..3 {
        wrong.get("/v1/topics").await.refused(401, "unauthorized", None);
    }
    let answer = wrong.get("/v1/topics").await;
    assert_eq!(answer.headers["retry-after"], "1");
    answer.refused(429, "rate_limited", None);
    // One that nobody could have guessed goes on.
    let reader = server.by(Some(&key));
    reader.get("/v1/topics").await.ok(200);
    server.set(|config| config.limits.key_rate = Some("1/h".parse().unwrap()));
    let why = loop {
        let answer = reader.get("/v1/topics").await;
        if answer.status != 200 {
            break answer.refused(429, "rate_limited", None);
        }
    };
    assert!(why.contains("1/1h"), "{why}");
    server.stop().await;
}

#[tokio::test]
async fn changes_are_taken_down_with_who_made_them() {
    let server = Server::with_keys(|_| {}).await;
    let key = server.make_key(&["admin"], &["mail"]).await;
    server.by(Some(&key)).post("/v1/topics/mail/pause", "").await.ok(200);
    server.by(Some(&key)).post("/v1/topics/other/pause", "").await.refused(
        403,
        "forbidden",
        Some("topic"),
    );
    server.by(Some(&key)).get("/v1/topics/mail").await.ok(200);
    let changes = loop {
        let changes = server.get("/v1/audit").await.ok(200)["changes"].clone();
        if changes.as_array().unwrap().len() >= 2 {
            break changes;
        }
    };
    let who = server.by(Some(&key)).get("/v1/whoami").await.ok(200);
    let of = |call: &str| {
        let mut all = changes.as_array().unwrap().iter();
        all.find(|change| change["call"] == call).unwrap_or_else(|| panic!("{changes}")).clone()
    };
    let paused = of("POST /v1/topics/mail/pause");
    assert_eq!((&paused["key"], &paused["name"]), (&who["id"], &json!("k")));
    assert_eq!(paused["address"], "127.0.0.1");
    let made = of("POST /v1/keys");
    assert_eq!(made["name"], "bootstrap");
    assert_eq!(made["about"], format!("k ({})", who["id"].as_str().unwrap()));
    assert_eq!(changes.as_array().unwrap().len(), 2, "{changes}");
    let page = server.get("/v1/audit?limit=1").await.ok(200);
    let rest = format!("/v1/audit?cursor={}", page["cursor"].as_str().unwrap());
    let rest = server.get(&rest).await.ok(200);
    assert_eq!(json!([page["changes"][0], rest["changes"][0]]), changes);
    server.stop().await;
}

#[tokio::test]
async fn values_of_headers_are_for_those_who_may_set_them() {
    let server = Server::with_keys(|_| {}).await;
    let settings = r#"{"headers":{"authorization":"Bearer hush","x-shop":"1"}}"#;
    let set = server.call(Method::PUT, "/v1/topics/t", settings).await.ok(200);
    assert_eq!(set["settings"]["headers"]["authorization"], "Bearer hush");
    let reader = server.by(Some(&server.make_key(&["read"], &["*"]).await));
    for path in ["/v1/topics/t", "/v1/topics"] {
        let seen = reader.get(path).await;
        assert!(!seen.text.contains("hush"), "{}", seen.text);
        assert!(seen.text.contains(r#""authorization":"(set)""#), "{}", seen.text);
    }
    server.stop().await;
}

/// Starts a server where others can reach it, and answers what became of that.
async fn exposed(change: impl FnOnce(&mut Config)) -> Result<(Running, Caller), String> {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::defaults();
    config.listen = "0.0.0.0:0".parse().unwrap();
    config.store = folder.path().join("data").into();
    change(&mut config);
    let mut running = serve::start(config).await.map_err(|why| format!("{why:#}"))?;
    let ready = running.ready().await;
    let here = SocketAddr::from(([127, 0, 0, 1], running.address().port()));
    match ready {
        Ok(()) => Ok((running, Caller::new(here))),
        Err(why) => Err(format!("{why:#}")),
    }
}

#[tokio::test]
async fn listening_for_others_takes_a_key_or_a_word() {
    let why = exposed(|_| {}).await.err().unwrap();
    assert!(
        why.contains("which others can reach") && why.contains("LINGER_BOOTSTRAP_KEY"),
        "{why}"
    );
    let key = |config: &mut Config| config.bootstrap_key = Some(ADMIN_KEY.parse().unwrap());
    let (running, caller) = exposed(key).await.unwrap();
    caller.get("/v1/topics").await.refused(401, "unauthorized", None);
    caller.by(Some(ADMIN_KEY)).get("/v1/topics").await.ok(200);
    running.stop().await.unwrap();
    let (running, caller) = exposed(|config| config.insecure = true).await.unwrap();
    caller.get("/v1/topics").await.ok(200);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_bootstrap_key_can_stand_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, format!("{ADMIN_KEY}\n")).unwrap();
    let server = Server::with(|config| config.bootstrap_key_file = Some(file.clone())).await;
    server.get("/v1/topics").await.refused(401, "unauthorized", None);
    server.by(Some(ADMIN_KEY)).get("/v1/topics").await.ok(200);
    server.stop().await;
    std::fs::write(&file, "short").unwrap();
    let why = exposed(|config| config.bootstrap_key_file = Some(file)).await.err().unwrap();
    assert!(why.contains("no key of 16 to 200") && !why.contains("short"), "{why}");
}
