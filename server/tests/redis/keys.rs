//! Keys that are made or revoked at one server hold at the others.

use hyper::Method;

use crate::fleet::{Fleet, until};

#[tokio::test]
async fn a_key_of_one_server_is_heard_of_by_another_within_the_poll() {
    let Some(fleet) = Fleet::start() else { return };
    let often = ["--set", "store.poll=10ms"];
    let (one, other) = (fleet.server(&often).await, fleet.server(&often).await);
    let (one, other) = (one.caller(), other.caller());
    let made = r#"{"name":"root","scopes":["admin"]}"#;
    let made = one.post("/v1/keys", made).await.ok(201);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    until(&other, "/v1/topics", |answer| answer.code() == "unauthorized").await;
    let (one, other) = (one.by(key), other.by(key));
    other.get("/v1/topics").await.ok(200);
    let gone = other.call(Method::DELETE, &format!("/v1/keys/{id}"), "").await;
    gone.expect("an answer").ok(200);
    // The last is gone, so that nobody is asked for one any more.
    until(&one, "/v1/whoami", |answer| answer.json["keys"] == false).await;
}
