//! Secrets: made, listed without what is secret, removed.

use hyper::Method;
use serde_json::{Value, json};

use crate::client::Server;

const MINE: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

async fn made(server: &Server, body: Value) -> Value {
    server.post("/v1/secrets", &body.to_string()).await.ok(201)
}

async fn listed(server: &Server) -> Vec<Value> {
    let page = server.get("/v1/secrets").await.ok(200);
    page["secrets"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_secret_is_shown_once() {
    let server = Server::start().await;
    let hmac = made(&server, json!({"topic": "支付"})).await;
    let secret = hmac["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 6 + 44, "{secret}");
    assert_eq!((&hmac["topic"], &hmac["kind"]), (&json!("支付"), &json!("hmac")));
    let target = json!({"target": "https://Shop.Example", "kind": "ed25519"});
    let ed25519 = made(&server, target).await;
    assert_eq!(ed25519["target"], "https://shop.example/");
    assert!(ed25519["public_key"].as_str().unwrap().starts_with("whpk_"));
    assert!(ed25519.get("secret").is_none());
    let mine = made(&server, json!({"topic": "b", "secret": MINE})).await;
    assert_eq!(mine["secret"], MINE);

    let page = server.get("/v1/secrets").await;
    for hidden in [secret, MINE, "whsk_"] {
        assert!(!page.text.contains(hidden), "{}", page.text);
    }
    let without = |mut made: Value| {
        made.as_object_mut().unwrap().remove("secret");
        made
    };
    assert_eq!(listed(&server).await, [without(mine), without(hmac), ed25519]);
    server.stop().await;
}

#[tokio::test]
async fn older_secrets_end_and_any_can_be_removed() {
    let server = Server::start().await;
    let first = made(&server, json!({"topic": "a"})).await;
    let second = made(&server, json!({"topic": "a", "keep_old": "1h"})).await;
    let now = listed(&server).await;
    assert_eq!(
        now.iter().map(|each| &each["id"]).collect::<Vec<_>>(),
        [&second["id"], &first["id"]]
    );
    assert!(now[0].get("expires").is_none() && now[1]["expires"].is_string(), "{now:?}");

    let path = format!("/v1/secrets/{}", second["id"].as_str().unwrap());
    let gone = server.call(Method::DELETE, &path, "").await.ok(200);
    assert_eq!(gone, now[0]);
    assert_eq!(listed(&server).await, now[1..]);
    server.call(Method::DELETE, &path, "").await.refused(404, "not_found", None);

    let third = made(&server, json!({"topic": "a", "keep_old": 0})).await;
    assert_eq!(listed(&server).await.len(), 1);
    assert_eq!(listed(&server).await[0]["id"], third["id"]);
    server.stop().await;
}

#[tokio::test]
async fn secrets_are_listed_page_by_page() {
    let server = Server::start().await;
    for n in 0..5 {
        made(&server, json!({"topic": format!("t{n}")})).await;
    }
    let (mut topics, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/secrets?limit=2&cursor={cursor}")).await.ok(200);
        let each = page["secrets"].as_array().unwrap().iter();
        topics.extend(each.map(|secret| secret["topic"].as_str().unwrap().to_owned()));
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(topics, ["t0", "t1", "t2", "t3", "t4"]);
    server.get("/v1/secrets?cursor=x").await.refused(400, "invalid", Some("cursor"));
    for limit in ["0", "1001", "x"] {
        let answer = server.get(&format!("/v1/secrets?limit={limit}")).await;
        answer.refused(400, "invalid", Some("limit"));
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_secret_is_said_and_the_secret_is_not() {
    let server = Server::start().await;
    for (body, field, why) in [
        (json!({}), "topic", "give one of them"),
        (json!({"topic": "a", "target": "https://a/"}), "target", "not both"),
        (json!({"topic": " a"}), "topic", "begins or ends with a blank"),
        (json!({"target": "shop"}), "target", "is not one we know"),
        (json!({"target": "https://me:pw@a/"}), "target", "user name or password"),
        (json!({"topic": "a", "kind": "rsa"}), "kind", "hmac or ed25519"),
        (json!({"topic": "a", "kind": "ed25519", "secret": MINE}), "kind", "one for `hmac`"),
        (json!({"topic": "a", "secret": &MINE[6..]}), "secret", "whsec_…"),
        (json!({"topic": "a", "secret": &MINE[..30]}), "secret", "24 to 64"),
        (json!({"topic": "a", "secret": [MINE]}), "secret", "not a string"),
        (json!({"topic": "a", "keep_old": "soon"}), "keep_old", "number of seconds"),
        (json!({"topic": "a", "secrets": MINE}), "secrets", "did you mean `secret`?"),
    ] {
        let answer = server.post("/v1/secrets", &body.to_string()).await;
        let message = answer.refused(400, "invalid", Some(field));
        assert!(message.contains(why), "{body}: {message}");
        assert!(!message.contains(&MINE[8..28]), "{body}: {message}");
    }
    assert_eq!(listed(&server).await, Vec::<Value>::new());
    server.stop().await;
}
