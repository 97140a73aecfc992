use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::client::Server;

const SHOP: &str = r#"{"id":"shop-1","app":"shop","topics":["a","b"],"url":"http://127.0.0.1:1/"}"#;

impl Server {
    async fn heartbeat(&self, worker: &str, body: &str) -> crate::client::Answer {
        self.call(Method::PUT, &format!("/v1/workers/{worker}/heartbeat"), body).await
    }

    /// The ids of those who are listed.
    async fn workers(&self, query: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/workers{query}")).await.ok(200);
        page["workers"].as_array().unwrap().iter().map(|worker| worker["id"].clone()).collect()
    }
}

#[tokio::test]
async fn a_worker_registers_and_is_shown() {
    let server = Server::start().await;
    let worker = server.post("/v1/workers", SHOP).await.ok(201);
    for (name, value) in [
        ("id", json!("shop-1")),
        ("app", json!("shop")),
        ("topics", json!(["a", "b"])),
        ("url", json!("http://127.0.0.1:1/")),
        ("state", json!("live")),
        ("lease", json!("30s")),
        ("under_way", json!(0)),
        ("deliveries", json!(0)),
        ("failures", json!(0)),
    ] {
        assert_eq!(worker[name], value, "{name}");
    }
    assert!(worker["expires"].as_str() > worker["registered"].as_str());
    assert_eq!(server.get("/v1/workers/shop-1").await.ok(200)["app"], "shop");
    server.get("/v1/workers/none").await.refused(404, "not_found", None);
    server.stop().await;
}

#[tokio::test]
async fn one_that_registers_again_keeps_its_id() {
    let server = Server::start().await;
    let made = r#"{"app":"shop","topics":["a"],"url":"http://127.0.0.1:1/"}"#;
    let first = server.post("/v1/workers", made).await.ok(201);
    let again = server.post("/v1/workers", &made.replace("\"a\"", "\"c\"")).await.ok(200);
    assert_eq!((&again["id"], &again["topics"]), (&first["id"], &json!(["c"])));
    // By its name, from elsewhere.
    let id = first["id"].as_str().unwrap();
    let moved = json!({"id": id, "app": "mail", "topics": ["a"], "url": "http://127.0.0.1:2/"});
    let moved = server.post("/v1/workers", &moved.to_string()).await.ok(200);
    assert_eq!((&moved["id"], &moved["app"]), (&first["id"], &json!("mail")));
    assert_eq!(server.workers("").await, [first["id"].clone()]);
    server.stop().await;
}

#[tokio::test]
async fn workers_are_listed_by_application_and_topic() {
    let server = Server::start().await;
    for (id, app, topic) in [("2", "shop", "a"), ("1", "shop", "b"), ("3", "mail", "支付宝")] {
        let url = format!("http://127.0.0.1:{id}/");
        let worker = json!({"id": id, "app": app, "topics": [topic], "url": url});
        server.post("/v1/workers", &worker.to_string()).await.ok(201);
    }
    for (query, ids) in [
        ("", &["1", "2", "3"][..]),
        ("?app=shop", &["1", "2"]),
        ("?topic=a", &["2"]),
        ("?topic=%E6%94%AF%E4%BB%98%E5%AE%9D", &["3"]),
        ("?app=mail&topic=a", &[]),
        ("?limit=2", &["1", "2"]),
        ("?limit=2&cursor=2", &["3"]),
    ] {
        assert_eq!(server.workers(query).await, ids, "{query}");
    }
    let page = server.get("/v1/workers?limit=2").await.ok(200);
    assert_eq!(page["cursor"], "2");
    assert!(server.get("/v1/workers?limit=4").await.ok(200).get("cursor").is_none());
    server.get("/v1/workers?limit=0").await.refused(400, "invalid", Some("limit"));
    server.get("/v1/workers?app=a/b").await.refused(400, "invalid", Some("app"));
    server.stop().await;
}

#[tokio::test]
async fn a_list_ends_at_the_limit_of_answers_and_goes_on() {
    let server = Server::with(|config| config.limits.answer_bytes = 1024).await;
    for n in 0..9 {
        let worker = json!({"id": n.to_string(), "app": "shop", "topics": ["a"],
            "url": format!("http://127.0.0.1:{n}/")});
        server.post("/v1/workers", &worker.to_string()).await.ok(201);
    }
    let (mut ids, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = server.get(&format!("/v1/workers?cursor={cursor}")).await.ok(200);
        let workers = page["workers"].as_array().unwrap();
        ids.extend(workers.iter().map(|worker| worker["id"].as_str().unwrap().to_owned()));
        pages += 1;
        match page.get("cursor") {
            Some(next) => cursor = next.as_str().unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(ids.concat(), "012345678");
    assert!(pages > 1);
    server.stop().await;
}

#[tokio::test]
async fn a_heartbeat_gives_a_full_lease_again() {
    let server = Server::start().await;
    let before = server.post("/v1/workers", SHOP).await.ok(201);
    let later = async {
        loop {
            let worker = server.heartbeat("shop-1", "").await.ok(200);
            assert_eq!(worker["registered"], before["registered"]);
            if worker["expires"].as_str() > before["expires"].as_str() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), later).await.expect("it expires later");
    server.stop().await;
}

#[tokio::test]
async fn an_unknown_heartbeat_is_told_to_register_again() {
    let server = Server::start().await;
    let told = server.heartbeat("shop-1", "").await.refused(404, "not_found", None);
    assert_eq!(told, "there is no worker `shop-1`; register again");
    server.post("/v1/workers/shop-1/drain", "").await.refused(404, "not_found", None);
    let gone = server.call(Method::DELETE, "/v1/workers/shop-1", "").await;
    gone.refused(404, "not_found", None);
    server.stop().await;
}

#[tokio::test]
async fn a_worker_drains_until_it_says_otherwise() {
    let server = Server::start().await;
    server.post("/v1/workers", SHOP).await.ok(201);
    assert_eq!(server.post("/v1/workers/shop-1/drain", "").await.ok(200)["state"], "draining");
    assert_eq!(server.heartbeat("shop-1", "").await.ok(200)["state"], "draining");
    assert_eq!(server.get("/v1/workers/shop-1").await.ok(200)["state"], "draining");
    let live = server.heartbeat("shop-1", r#"{"draining":false}"#).await.ok(200);
    assert_eq!(live["state"], "live");
    let drains = server.heartbeat("shop-1", r#"{"draining":true}"#).await.ok(200);
    assert_eq!(drains["state"], "draining");
    assert_eq!(server.post("/v1/workers", SHOP).await.ok(200)["state"], "live");
    server.stop().await;
}

#[tokio::test]
async fn one_that_deregisters_is_gone() {
    let server = Server::start().await;
    server.post("/v1/workers", SHOP).await.ok(201);
    let gone = server.call(Method::DELETE, "/v1/workers/shop-1", "").await.ok(200);
    assert_eq!(gone["id"], "shop-1");
    server.get("/v1/workers/shop-1").await.refused(404, "not_found", None);
    server.post("/v1/workers", SHOP).await.ok(201);
    server.stop().await;
}

#[tokio::test]
async fn one_without_a_heartbeat_is_forgotten_when_its_lease_is_over() {
    let server = Server::start().await;
    let short = SHOP.replace("}", r#","lease":"1s"}"#);
    assert_eq!(server.post("/v1/workers", &short).await.ok(201)["lease"], "1s");
    let forgotten = async { while server.get("/v1/workers/shop-1").await.status != 404 {} };
    tokio::time::timeout(Duration::from_secs(30), forgotten).await.expect("it is forgotten");
    assert!(server.workers("").await.is_empty());
    server.heartbeat("shop-1", "").await.refused(404, "not_found", None);
    server.stop().await;
}

#[tokio::test]
async fn workers_are_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(|config| config.store = folder.path().join("data").into()).await;
    let long = SHOP.replace("}", r#","lease":"10m"}"#);
    let before = server.post("/v1/workers", &long).await.ok(201);
    server.post("/v1/workers", &long.replace("shop-1", "gone").replace(":1/", ":2/")).await.ok(201);
    server.post("/v1/workers/shop-1/drain", "").await.ok(200);
    server.call(Method::DELETE, "/v1/workers/gone", "").await.ok(200);
    server.stop().await;

    let server = Server::with(|config| config.store = folder.path().join("data").into()).await;
    let after = server.get("/v1/workers/shop-1").await.ok(200);
    for name in ["id", "app", "topics", "url", "lease", "registered"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert_eq!(after["state"], "draining");
    assert!(after["expires"].as_str() > before["expires"].as_str(), "a full lease anew");
    assert_eq!(server.workers("").await, ["shop-1"]);
    server.stop().await;
}

#[tokio::test]
async fn what_is_set_holds_for_those_that_do_not_say() {
    let mut server = Server::with(|config| {
        config.workers.lease = Duration::from_secs(90);
        config.workers.max = 1;
    })
    .await;
    assert_eq!(server.post("/v1/workers", SHOP).await.ok(201)["lease"], "1m30s");
    let other = SHOP.replace("shop-1", "shop-2").replace(":1/", ":2/");
    let told = server.post("/v1/workers", &other).await.refused(503, "overloaded", None);
    assert!(told.contains("at the limit of 1"), "{told}");
    server.post("/v1/workers", SHOP).await.ok(200);
    server.set(|config| config.workers.max = 2);
    server.post("/v1/workers", &other).await.ok(201);
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_registration_names_what_is_wrong() {
    let server = Server::start().await;
    for (body, field, told) in [
        ("{}", "app", "app is missing"),
        (r#"{"app":"a"}"#, "topics", "topics is missing"),
        (r#"{"app":"a","topics":["t"]}"#, "url", "url is missing"),
        (r#"{"app":"a b"}"#, "app", "has blanks"),
        (r#"{"app":7}"#, "app", "app is 7; give a string"),
        (r#"{"topics":"t"}"#, "topics", "give"),
        (r#"{"app":"a","topics":[],"url":"http://a"}"#, "topics", "name at least one"),
        (r#"{"url":"ftp://a"}"#, "url", "is none that can be called"),
        (r#"{"url":"http://u:p@a"}"#, "url", "names a user"),
        (r#"{"id":"","app":"a"}"#, "id", "id is empty"),
        (r#"{"lease":"soon"}"#, "lease", "lease is"),
        (
            r#"{"app":"a","topics":["t"],"url":"http://a","lease":"1ms"}"#,
            "lease",
            "lease is 1ms; give 1s to 10m",
        ),
        (r#"{"topic":"a"}"#, "topic", "did you mean `topics`?"),
    ] {
        let message = server.post("/v1/workers", body).await.refused(400, "invalid", Some(field));
        assert!(message.contains(told), "{body}: {message}");
    }
    let many: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    let many = json!({"app": "a", "topics": many, "url": "http://a"}).to_string();
    server.post("/v1/workers", &many).await.refused(413, "too_large", Some("topics"));
    assert!(server.workers("").await.is_empty());
    server.stop().await;
}
