//! Which key signs what is pushed.

use serde_json::{Value, json};

use crate::client::Server;
use crate::receiver::Receiver;

/// How often what is pushed is signed: by so many keys.
async fn signatures(server: &Server, receiver: &mut Receiver, topic: &str, path: &str) -> usize {
    let job = json!({"topic": topic, "target": receiver.url(path), "body": 1});
    server.add(&job.to_string()).await;
    let got = receiver.next().await;
    let signed = got.header("webhook-signature").split_whitespace().count();
    got.answer(204);
    signed
}

async fn made(server: &Server, owner: Value) -> Value {
    server.post("/v1/secrets", &owner.to_string()).await.ok(201)
}

#[tokio::test]
async fn a_secret_signs_from_when_it_is_made_until_it_is_removed() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    assert_eq!(signatures(&server, &mut receiver, "a", "/").await, 0);
    made(&server, json!({"topic": "a"})).await;
    let second = made(&server, json!({"topic": "a", "kind": "ed25519"})).await;
    assert_eq!(signatures(&server, &mut receiver, "a", "/").await, 2);
    assert_eq!(signatures(&server, &mut receiver, "b", "/").await, 0);
    // A target has the say over a topic.
    made(&server, json!({"target": receiver.url("/hooks/")})).await;
    assert_eq!(signatures(&server, &mut receiver, "a", "/hooks/x").await, 1);
    assert_eq!(signatures(&server, &mut receiver, "b", "/hooks/x").await, 1);
    let path = format!("/v1/secrets/{}", second["id"].as_str().unwrap());
    server.call(hyper::Method::DELETE, &path, "").await.ok(200);
    assert_eq!(signatures(&server, &mut receiver, "a", "/").await, 1);
    server.stop().await;
}

#[tokio::test]
async fn the_secret_of_the_settings_signs_what_has_none_of_its_own_and_can_change() {
    let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let mut server = Server::start().await;
    let mut receiver = Receiver::start().await;
    assert_eq!(signatures(&server, &mut receiver, "a", "/").await, 0);
    server.set(|config| config.webhooks.secret = vec![secret.parse().unwrap()]);
    assert_eq!(signatures(&server, &mut receiver, "a", "/").await, 1);
    made(&server, json!({"topic": "a"})).await;
    made(&server, json!({"topic": "a"})).await;
    assert_eq!(signatures(&server, &mut receiver, "a", "/").await, 2);
    server.stop().await;
}
