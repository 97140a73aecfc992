//! Destinations do not stand in each other's way: one that hangs or is gone keeps no other waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::client::{Caller, Server};
use crate::job;
use crate::receiver::{Received, Receiver, Refusing};

/// How many jobs each destination gets, which is more than may be under way to it.
const JOBS: usize = 100;
const PER_DESTINATION: usize = 16;
const FAILURES: usize = 4;

/// Which topics the jobs are in.
#[derive(Clone, Copy)]
enum Topics {
    One,
    Each,
}

impl Topics {
    fn of(self, destination: &str) -> &str {
        match self {
            Topics::One => "all",
            Topics::Each => destination,
        }
    }
}

#[tokio::test]
async fn in_one_topic_a_healthy_destination_waits_for_no_other() {
    isolation(Topics::One).await;
}

#[tokio::test]
async fn in_topics_of_their_own_a_healthy_destination_waits_for_no_other() {
    isolation(Topics::Each).await;
}

async fn isolation(topics: Topics) {
    let server = start().await;
    let (mut hanging, healthy) = (Receiver::start().await, Receiver::start().await);
    let refusing = Refusing::new();
    for topic in ["hanging", "refusing", "healthy"].map(|name| topics.of(name)) {
        // So long that none of it plays a part here.
        let path = format!("/v1/topics/{topic}");
        server.call(Method::PUT, &path, r#"{"ttr":"1h","timeout":"1h"}"#).await.ok(200);
    }
    let urls = [hanging.url("/"), refusing.url("/"), healthy.url("/")];
    add_interleaved(&server, topics, &urls).await;

    job::until_counted(&server, "linger_destinations_closed", 1).await;
    let untried = jobs(&server, topics, "refusing").await;
    let untried = untried.iter().filter(|job| job["state"] == "ready" && job["attempt"] == 0);
    assert!(untried.count() > 0, "all were tried where nobody listens");

    all_end(&server, topics, "healthy", healthy).await;
    // Those under way to the one that hangs still hang, and the others wait.
    let held = hold(&mut hanging).await;
    let hangs = states(&server, topics, "hanging").await;
    assert_eq!(hangs, count(&[("reserved", PER_DESTINATION), ("ready", JOBS - PER_DESTINATION)]));

    all_end(&server, topics, "refusing", refusing.listen()).await;
    assert_eq!(states(&server, topics, "hanging").await, hangs);
    drop(held);
    server.stop().await;
}

/// A server that finds out soon who is there and who is not.
async fn start() -> Server {
    Server::with(|config| {
        config.drain = Duration::from_millis(10);
        config.push.concurrency = 4 * PER_DESTINATION;
        config.push.per_destination = PER_DESTINATION;
        config.push.failures = FAILURES;
        config.push.pause = Duration::from_millis(100);
        config.push.pause_max = Duration::from_millis(200);
    })
    .await
}

fn ids(destination: &str) -> impl Iterator<Item = String> {
    (0..JOBS).map(move |n| format!("{destination}-{n}"))
}

/// To hanging, refusing, healthy, hanging, …
async fn add_interleaved(server: &Caller, topics: Topics, urls: &[String; 3]) {
    let names = ["hanging", "refusing", "healthy"];
    let job = |n, name: &str, url: &String| {
        json!({
            "topic": topics.of(name), "id": format!("{name}-{n}"), "target": url, "retain": "1h",
            "retry": {"ladder": ["50ms"], "attempts": 1000},
        })
    };
    let jobs =
        (0..JOBS).flat_map(|n| names.iter().zip(urls).map(move |(name, url)| job(n, name, url)));
    let jobs: Vec<Value> = jobs.collect();
    server.post("/v1/jobs", &Value::from(jobs).to_string()).await.ok(200);
}

/// Takes all that comes until all jobs for a destination are finished.
async fn all_end(server: &Caller, topics: Topics, destination: &str, mut receiver: Receiver) {
    let finished = async {
        for id in ids(destination) {
            job::until(server, topics.of(destination), &id, "finished").await;
        }
    };
    tokio::select! {
        () = finished => {}
        () = async { loop { receiver.next().await.answer(204) } } => {}
    }
}

/// Takes as many as may be under way at once, and leaves them without an answer.
async fn hold(receiver: &mut Receiver) -> Vec<Received> {
    let mut held = Vec::new();
    for _ in 0..PER_DESTINATION {
        held.push(receiver.next().await);
    }
    assert!(receiver.is_empty(), "more than {PER_DESTINATION} are under way");
    held
}

async fn jobs(server: &Caller, topics: Topics, destination: &str) -> Vec<Value> {
    let mut jobs = Vec::new();
    for id in ids(destination) {
        jobs.push(job::look(server, topics.of(destination), &id).await);
    }
    jobs
}

/// How many jobs for a destination are in each state.
async fn states(server: &Caller, topics: Topics, destination: &str) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    for job in jobs(server, topics, destination).await {
        *states.entry(job["state"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    states
}

fn count(states: &[(&str, usize)]) -> BTreeMap<String, usize> {
    states.iter().map(|(state, jobs)| ((*state).to_owned(), *jobs)).collect()
}
