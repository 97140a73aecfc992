//! Registered workers: who gets the jobs for `worker:shop`.

use std::time::Duration;

use serde_json::json;

use crate::client::{Caller, Server};
use crate::job;
use crate::peer::register;
use crate::receiver::{Receiver, Refusing};

const TOPIC: &str = "order.close";
const HOUR: Duration = Duration::from_secs(3600);

async fn add(server: &Caller, id: &str) {
    let job = json!({"topic": TOPIC, "id": id, "retain": "1h", "target": "worker:shop"});
    server.add(&job.to_string()).await;
}

async fn is_finished(server: &Caller, id: &str) {
    assert_eq!(job::until(server, TOPIC, id, "finished").await["attempt"], 1);
}

/// A server that looks for nobody in vain twice, unless somebody comes.
async fn patient_server() -> Server {
    Server::with(|config| (config.push.pause, config.push.pause_max) = (HOUR, HOUR)).await
}

/// Adds a job that nobody takes: it is as if nothing had been.
async fn add_in_vain(server: &Caller, id: &str) {
    add(server, id).await;
    let nobody = r#"linger_pushes_total{outcome="nobody_there"}"#;
    job::until_counted(server, nobody, 1).await;
    // Or somebody could come before it is known that nobody was there.
    job::until_counted(server, "linger_destinations_closed", 1).await;
    let job = job::until(server, TOPIC, id, "ready").await;
    assert_eq!(job["attempt"], 0, "{job}");
}

#[tokio::test]
async fn live_instances_take_turns() {
    let server = Server::start().await;
    let (mut a, mut b) = (Receiver::start().await, Receiver::start().await);
    register(&server, "a", &a.url("/")).await;
    register(&server, "b", &b.url("/")).await;
    for turn in 0..3 {
        for receiver in [&mut a, &mut b] {
            let id = format!("{turn}-{}", receiver.address());
            add(&server, &id).await;
            receiver.next().await.answer(204);
            is_finished(&server, &id).await;
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn an_instance_that_is_down_is_followed_by_the_next_within_one_attempt() {
    let server = Server::start().await;
    let (refusing, mut well) = (Refusing::new(), Receiver::start().await);
    register(&server, "a", &refusing.url("/")).await;
    register(&server, "b", &well.url("/")).await;
    add(&server, "1").await;
    let got = well.next().await;
    assert_eq!(got.header("linger-attempt"), "1");
    got.answer(204);
    is_finished(&server, "1").await;
    let history = job::history(&server, TOPIC, "1").await;
    assert_eq!(history.len(), 1, "{history:?}");
    // It was its turn, and it is known what became of it.
    let down = server.get("/v1/workers/a").await.ok(200);
    assert_eq!((&down["deliveries"], &down["failures"]), (&1.into(), &1.into()));
    server.stop().await;
}

#[tokio::test]
async fn a_job_for_nobody_waits_without_an_attempt_until_somebody_registers() {
    let server = patient_server().await;
    let mut receiver = Receiver::start().await;
    add_in_vain(&server, "1").await;
    // One that serves other topics is not who was waited for.
    let other = json!({"app": "shop", "topics": ["other"], "url": receiver.url("/other")});
    server.post("/v1/workers", &other.to_string()).await.ok(201);
    register(&server, "a", &receiver.url("/")).await;
    let got = receiver.next().await;
    assert_eq!((got.path.as_str(), got.header("linger-attempt")), ("/", "1"));
    got.answer(204);
    is_finished(&server, "1").await;
    server.stop().await;
}

#[tokio::test]
async fn an_instance_that_drains_gets_nothing_new_until_it_is_back() {
    let server = patient_server().await;
    let (mut drains, mut stays) = (Receiver::start().await, Receiver::start().await);
    register(&server, "a", &drains.url("/")).await;
    register(&server, "b", &stays.url("/")).await;
    add(&server, "before").await;
    let under_way = drains.next().await;
    server.post("/v1/workers/a/drain", "").await.ok(200);
    for id in ["1", "2", "3"] {
        add(&server, id).await;
        stays.next().await.answer(204);
        is_finished(&server, id).await;
    }
    // What it had, it may end.
    under_way.answer(204);
    is_finished(&server, "before").await;

    server.post("/v1/workers/b/drain", "").await.ok(200);
    add_in_vain(&server, "4").await;
    assert!(drains.is_empty() && stays.is_empty());
    let back = r#"{"draining":false}"#;
    server.call(hyper::Method::PUT, "/v1/workers/a/heartbeat", back).await.ok(200);
    drains.next().await.answer(204);
    is_finished(&server, "4").await;
    server.stop().await;
}

#[tokio::test]
async fn registrations_outlive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = || Server::with(|config| config.store = folder.path().join("data").into());
    let server = start().await;
    let (mut live, drains) = (Receiver::start().await, Receiver::start().await);
    register(&server, "a", &drains.url("/")).await;
    register(&server, "b", &live.url("/")).await;
    server.post("/v1/workers/a/drain", "").await.ok(200);
    server.stop().await;
    let server = start().await;
    for id in ["1", "2"] {
        add(&server, id).await;
        live.next().await.answer(204);
        is_finished(&server, id).await;
    }
    assert!(drains.is_empty());
    server.stop().await;
}
