//! Webhooks: what a receiver sees and says, from the add to the end of the job.

use serde_json::{Value, json};

use crate::client::Server;
use crate::job;
use crate::receiver::{Certificate, Receiver};

async fn until(server: &Server, id: &str, state: &str) -> Value {
    job::until(server, "order.close", id, state).await
}

fn job(target: &str) -> Value {
    json!({
        "topic": "order.close", "id": "1001", "body": {"order": 1001}, "retain": "1h",
        "target": target,
    })
}

#[tokio::test]
async fn a_job_that_is_due_is_posted_and_finished() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    server.add(&job(&receiver.url("/hooks")).to_string()).await;
    let got = receiver.next().await;
    assert_eq!((got.method.as_str(), got.path.as_str()), ("POST", "/hooks"));
    assert_eq!(&got.body[..], br#"{"order":1001}"#);
    assert_eq!(got.header("content-type"), "application/json");
    assert_eq!(got.header("linger-topic"), "order.close");
    got.answer_with(200, &[], "thanks");
    let done = until(&server, "1001", "finished").await;
    assert_eq!(done["attempt"], 1);
    let history = server.get("/v1/topics/order.close/jobs/1001/history").await.ok(200);
    let told = history["history"].as_array().unwrap().iter().find_map(|event| event.get("answer"));
    assert_eq!(told, Some(&json!({"status": 200, "excerpt": "thanks"})));
    server.stop().await;
}

#[tokio::test]
async fn a_failed_attempt_is_made_again_with_the_same_webhook_id() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    let mut job = job(&receiver.url("/"));
    job["retry"] = json!({"ladder": ["0s", "0s"]});
    server.add(&job.to_string()).await;
    let first = receiver.next().await;
    let id = first.header("webhook-id").to_owned();
    assert_eq!(first.header("linger-attempt"), "1");
    first.answer(404);
    let second = receiver.next().await;
    assert_eq!((second.header("webhook-id"), second.header("linger-attempt")), (&*id, "2"));
    second.hang_up();
    receiver.next().await.answer(410);
    let dead = until(&server, "1001", "dead").await;
    assert_eq!(dead["last_error"], "answered 410 Gone");
    server.stop().await;
}

#[tokio::test]
async fn a_receiver_may_finish_the_job_later_with_the_lease_that_came_along() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    server.add(&job(&receiver.url("/")).to_string()).await;
    let got = receiver.next().await;
    let lease = json!({"lease": got.header("linger-lease")}).to_string();
    got.answer_with(202, &[("linger-confirm", "finish")], "");
    // It is left as it is: who holds the lease has the say.
    until(&server, "1001", "reserved").await;
    server.post("/v1/topics/order.close/jobs/1001/finish", &lease).await.ok(200);
    until(&server, "1001", "finished").await;
    assert!(receiver.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn strangers_cannot_have_us_call_this_machine_if_we_are_told_so() {
    let server =
        Server::with(|config| config.webhooks.networks = linger_server::config::Networks::Public);
    let server = server.await;
    let receiver = Receiver::start().await;
    let mut job = job(&format!("http://localhost:{}/", receiver.address().port()));
    job["retry"] = json!({"attempts": 1});
    server.add(&job.to_string()).await;
    let dead = until(&server, "1001", "dead").await;
    let error = dead["last_error"].as_str().unwrap();
    assert!(error.contains("is a loopback address"), "{error}");
    assert!(receiver.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_private_authority_can_be_trusted() {
    let certificate = Certificate::for_localhost();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, &certificate.pem).unwrap();
    let server = Server::with(|config| config.webhooks.ca = Some(ca)).await;
    let mut receiver = Receiver::start_tls(&certificate).await;
    server.add(&job(&receiver.url("/")).to_string()).await;
    let got = receiver.next().await;
    assert_eq!((got.version, got.connection), (hyper::Version::HTTP_2, 0));
    got.answer(204);
    until(&server, "1001", "finished").await;
    server.stop().await;
}
