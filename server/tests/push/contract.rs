//! What holds for jobs that are pushed, wherever they go: each story is told once, and happens to
//! every kind of target.

use std::path::Path;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::broker::{Kafka, Nats, RabbitMq, Redis, Sink};
use crate::client::{Caller, Server};
use crate::job;
use crate::peer::{Answer, Grpc, Peer, Webhook, Worker};
use crate::shipped::Shipped;

const TOPIC: &str = "order.close";
const ID: &str = "1001";

/// A test for each story, in a module for each kind.
macro_rules! contract {
    ($($kind:ident: $peer:ty),+ $(,)?) => {
        $(mod $kind { use super::*; stories!($peer); })+
    };
}

macro_rules! stories {
    ($peer:ty) => {
        stories! { $peer:
            success_finishes_the_job
            a_transient_failure_is_tried_again
            a_permanent_failure_ends_on_the_dead_shelf
            no_answer_in_time_is_a_failed_attempt
            a_connection_that_breaks_in_the_midst_is_a_failed_attempt
            a_job_whose_answer_is_lost_is_brought_again_and_can_be_known_again
            a_job_under_way_outlives_a_stop
            a_job_under_way_outlives_a_kill
            a_job_that_nobody_confirms_is_brought_again
            a_job_can_be_confirmed_after_a_restart
        }
    };
    ($peer:ty: $($story:ident)+) => {
        $(#[tokio::test]
        async fn $story() {
            super::$story::<$peer>().await;
        })+
    };
}

contract! {
    webhook: Webhook,
    grpc: Grpc,
    worker_over_http: Worker<Webhook>,
    worker_over_grpc: Worker<Grpc>,
    rabbitmq: Sink<RabbitMq>,
    redis: Sink<Redis>,
    nats: Sink<Nats>,
    kafka: Sink<Kafka>,
}

/// A server that knows of a peer what it must.
async fn server_for(peer: &impl Peer) -> Server {
    Server::with(|config| config.sinks = peer.settings().parse().unwrap()).await
}

/// Adds a job for a peer, with these fields besides.
async fn add(server: &Caller, peer: &impl Peer, more: Value) {
    let target = peer.target(server).await;
    let mut job = json!({"topic": TOPIC, "id": ID, "body": 1, "retain": "1h", "target": target});
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.add(&job.to_string()).await;
}

async fn until(server: &Caller, state: &str) -> Value {
    job::until(server, TOPIC, ID, state).await
}

async fn set_topic(server: &Caller, settings: Value) {
    let path = format!("/v1/topics/{TOPIC}");
    server.call(Method::PUT, &path, &settings.to_string()).await.ok(200);
}

/// What happened to the job: the words for it, in order.
async fn happened(server: &Caller) -> Vec<String> {
    let told = job::history(server, TOPIC, ID).await;
    told.iter().map(|event| event["what"].as_str().unwrap().to_owned()).collect()
}

/// Why each attempt failed that did.
async fn errors(server: &Caller) -> Vec<String> {
    let told = job::history(server, TOPIC, ID).await;
    told.iter().filter_map(|event| event["error"].as_str().map(str::to_owned)).collect()
}

async fn success_finishes_the_job<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let server = server_for(&peer).await;
    add(&server, &peer, json!({})).await;
    let brought = peer.next().await;
    assert_eq!(brought.attempt, "1");
    brought.answer(Answer::Ok);
    assert_eq!(until(&server, "finished").await["attempt"], 1);
    let history = job::history(&server, TOPIC, ID).await;
    assert_eq!(history.len(), 1, "{history:?}");
    assert!(P::is_ok(&history[0]["answer"]), "{history:?}");
    assert!(peer.is_empty());
    server.stop().await;
}

async fn a_transient_failure_is_tried_again<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let server = server_for(&peer).await;
    add(&server, &peer, json!({"retry": {"ladder": ["10ms", "20ms"]}})).await;
    let first = peer.next().await;
    let webhook_id = first.webhook_id.clone();
    assert!(!webhook_id.is_empty());
    first.answer(Answer::Transient);
    for (attempt, answer) in [("2", Answer::Transient), ("3", Answer::Ok)] {
        let again = peer.next().await;
        assert_eq!((&*again.webhook_id, &*again.attempt), (&*webhook_id, attempt));
        again.answer(answer);
    }
    assert_eq!(until(&server, "finished").await["attempt"], 3);
    assert_eq!(happened(&server).await, ["failed", "failed", "finished"]);
    for error in errors(&server).await {
        assert!(error.contains(P::TRANSIENT), "{error}");
    }
    server.stop().await;
}

async fn a_permanent_failure_ends_on_the_dead_shelf<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let server = server_for(&peer).await;
    add(&server, &peer, json!({"retry": {"ladder": ["10ms"]}})).await;
    // One that has no word for it is asked until the attempts are used up.
    let attempts = if P::CAN_REFUSE_FOR_GOOD { 1 } else { 2 };
    for _ in 0..attempts {
        peer.next().await.answer(Answer::Permanent);
    }
    let dead = until(&server, "dead").await;
    assert_eq!(dead["attempt"], attempts);
    let error = dead["last_error"].as_str().unwrap();
    assert!(error.contains(P::PERMANENT), "{error}");
    assert!(peer.is_empty());
    server.stop().await;
}

async fn no_answer_in_time_is_a_failed_attempt<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let server = server_for(&peer).await;
    set_topic(&server, json!({"timeout": "300ms"})).await;
    add(&server, &peer, json!({"retry": {"ladder": ["10ms"], "attempts": 100}})).await;
    let hangs = peer.next().await;
    let webhook_id = hangs.webhook_id.clone();
    tokio::select! {
        _ = until(&server, "finished") => {}
        // On a busy machine a quick answer can be late as well.
        () = async { loop {
            let again = peer.next().await;
            assert_eq!(again.webhook_id, webhook_id);
            again.answer(Answer::Ok);
        } } => {}
    }
    assert_eq!(happened(&server).await.first().unwrap(), "failed");
    for error in errors(&server).await {
        assert!(error.contains("took longer than "), "{error}");
    }
    drop(hangs);
    server.stop().await;
}

async fn a_connection_that_breaks_in_the_midst_is_a_failed_attempt<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let server = server_for(&peer).await;
    peer.break_next();
    add(&server, &peer, json!({"retry": {"ladder": ["10ms"]}})).await;
    let again = peer.next().await;
    assert_eq!(again.attempt, "2");
    again.answer(Answer::Ok);
    until(&server, "finished").await;
    assert_eq!(happened(&server).await, ["failed", "finished"]);
    server.stop().await;
}

async fn a_job_whose_answer_is_lost_is_brought_again_and_can_be_known_again<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let server = server_for(&peer).await;
    add(&server, &peer, json!({"retry": {"ladder": ["10ms"]}})).await;
    let done = peer.next().await;
    let webhook_id = done.webhook_id.clone();
    done.drop_connection();
    let again = peer.next().await;
    assert_eq!((&*again.webhook_id, &*again.attempt), (&*webhook_id, "2"));
    again.answer(Answer::Ok);
    until(&server, "finished").await;
    assert_eq!(happened(&server).await, ["failed", "finished"]);
    server.stop().await;
}

/// A server on a folder, that waits for nobody when it stops.
async fn on(folder: &Path, peer: &impl Peer) -> Server {
    Server::with(|config| {
        config.sinks = peer.settings().parse().unwrap();
        config.store = folder.join("data").into();
        config.drain = Duration::from_millis(10);
    })
    .await
}

async fn a_job_under_way_outlives_a_stop<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = on(folder.path(), &peer).await;
    add(&server, &peer, json!({})).await;
    let held = peer.next().await;
    server.stop().await;
    let server = on(folder.path(), &peer).await;
    let again = peer.next().await;
    assert_eq!(again.webhook_id, held.webhook_id);
    again.answer(Answer::Ok);
    until(&server, "finished").await;
    assert_eq!(happened(&server).await, ["released", "finished"]);
    assert!(peer.is_empty());
    server.stop().await;
}

async fn a_job_under_way_outlives_a_kill<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("linger.toml"), peer.settings()).unwrap();
    let server = Shipped::start(folder.path());
    add(&server, &peer, json!({})).await;
    let held = peer.next().await;
    server.kill();
    let server = Shipped::start(folder.path());
    let again = peer.next().await;
    assert_eq!(again.webhook_id, held.webhook_id);
    again.answer(Answer::Ok);
    until(&server, "finished").await;
    assert_eq!(happened(&server).await, ["lost", "finished"]);
    assert!(peer.is_empty());
    server.kill();
}

/// Finishes the job by the lease that travelled along.
async fn finish(server: &Caller, lease: &str) -> crate::client::Answer {
    let path = format!("/v1/topics/{TOPIC}/jobs/{ID}/finish");
    server.post(&path, &json!({"lease": lease}).to_string()).await
}

async fn a_job_that_nobody_confirms_is_brought_again<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let server = server_for(&peer).await;
    set_topic(&server, json!({"ttr": "1s", "retry": {"ladder": ["10ms"]}})).await;
    add(&server, &peer, json!({"confirm": "finish"})).await;
    let first = peer.next().await;
    let lost = first.lease.clone();
    let webhook_id = first.webhook_id.clone();
    // For the next time: there is no hurry any more.
    set_topic(&server, json!({"ttr": "1h", "retry": {"ladder": ["10ms"]}})).await;
    first.answer(Answer::Ok);
    let second = peer.next().await;
    assert_eq!((&*second.webhook_id, &*second.attempt), (&*webhook_id, "2"));
    let lease = second.lease.clone();
    second.answer(Answer::Ok);
    job::until_counted(&server, r#"linger_pushes_total{outcome="left"}"#, 2).await;
    assert_eq!(until(&server, "reserved").await["attempt"], 2);
    finish(&server, &lost).await.refused(409, "lease_lost", None);
    finish(&server, &lease).await.ok(200);
    until(&server, "finished").await;
    assert_eq!(happened(&server).await, ["delivered", "timed_out", "delivered", "finished"]);
    assert!(peer.is_empty());
    server.stop().await;
}

async fn a_job_can_be_confirmed_after_a_restart<P: Peer>() {
    let Some(mut peer) = P::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = on(folder.path(), &peer).await;
    add(&server, &peer, json!({"confirm": "finish", "ttr": "1h"})).await;
    let brought = peer.next().await;
    let lease = brought.lease.clone();
    brought.answer(Answer::Ok);
    job::until_counted(&server, r#"linger_pushes_total{outcome="left"}"#, 1).await;
    server.stop().await;
    let server = on(folder.path(), &peer).await;
    assert_eq!(job::look(&server, TOPIC, ID).await["state"], "reserved");
    finish(&server, &lease).await.ok(200);
    until(&server, "finished").await;
    assert_eq!(happened(&server).await, ["delivered", "finished"]);
    assert!(peer.is_empty());
    server.stop().await;
}
