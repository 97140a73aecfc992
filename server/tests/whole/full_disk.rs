//! A disk that fills up: new jobs are refused, all else goes on, and nothing is lost.

use std::collections::BTreeMap;
use std::time::Instant;

use hyper::Method;
use serde_json::json;

use crate::disk::SmallDisk;
use crate::served::{Answer, Caller, PATIENCE, Served};

/// Segments are of 64 MiB, and three of them are held back: room for some two full ones.
const DISK_BYTES: u64 = 448 << 20;
const BODY_BYTES: usize = 512 << 10;

/// Someone who writes down what was acknowledged: each job, and whether it is there.
struct Ledger {
    caller: Caller,
    jobs: BTreeMap<String, bool>,
    refused: Vec<String>,
    next: usize,
}

/// Those that fill the disk are long, those that find out whether it is full are not.
fn body_of(id: &str) -> String {
    if id.starts_with("long") { id.repeat(BODY_BYTES / id.len()) } else { id.to_owned() }
}

fn path(id: &str) -> String {
    format!("/v1/topics/t/jobs/{id}")
}

impl Ledger {
    /// Tries to add one more; answers whether it was taken.
    async fn add(&mut self, kind: &str) -> bool {
        let id = format!("{kind}-{:08}", self.next);
        self.next += 1;
        let job = format!(r#"{{"topic":"t","id":"{id}","body":"{}"}}"#, body_of(&id));
        let answer = self.caller.post("/v1/jobs", &job).await;
        match answer.status {
            201 => self.jobs.insert(id, true),
            507 => {
                assert_eq!(answer.code(), "storage_full", "{}", answer.json);
                self.refused.push(id);
                return false;
            }
            other => panic!("{other}: {}", answer.json),
        };
        true
    }

    /// Adds until one is refused.
    async fn fill(&mut self) {
        let until = Instant::now() + PATIENCE;
        while self.add("long").await {
            assert!(Instant::now() < until, "no job is ever refused");
        }
    }

    /// Tries until one is taken.
    async fn until_there_is_room(&mut self) {
        let until = Instant::now() + PATIENCE;
        while !self.add("short").await {
            assert!(Instant::now() < until, "jobs are refused for ever");
        }
    }

    /// What goes on whatever the disk says: looking, handing out, finishing, cancelling.
    async fn go_on(&mut self, times: usize) {
        for _ in 0..times {
            let popped = self.caller.post("/v1/topics/t/pop", r#"{"ttr":"1h"}"#).await.ok(200);
            let job = &popped["jobs"][0];
            let id = job["id"].as_str().expect("there are jobs").to_owned();
            assert_eq!(self.jobs.get(&id), Some(&true), "{id} was never there");
            assert_eq!(job["body"], body_of(&id));
            let lease = json!({ "lease": job["lease"] }).to_string();
            self.caller.post(&format!("{}/finish", path(&id)), &lease).await.ok(200);
            self.jobs.insert(id, false);
            let there = self.there();
            let newest = there.iter().rfind(|id| id.starts_with("long")).expect("there are jobs");
            self.look(newest).await;
            self.delete(newest).await;
        }
    }

    fn there(&self) -> Vec<String> {
        self.jobs.iter().filter(|(_, there)| **there).map(|(id, _)| id.clone()).collect()
    }

    async fn look(&self, id: &str) {
        let job = self.caller.get(&path(id)).await.ok(200);
        assert_eq!(job["body"], body_of(id));
    }

    async fn delete(&mut self, id: &str) {
        self.caller.delete(&path(id)).await.ok(200);
        self.jobs.insert(id.to_owned(), false);
    }

    async fn grow(&self, id: &str) -> Answer {
        let body = format!(r#"{{"body":"{} and more"}}"#, body_of(id));
        self.caller.call(Method::PATCH, &path(id), &body).await.expect("an answer")
    }

    async fn register(&self, id: &str) -> Answer {
        let url = format!("http://{id}/");
        let worker = json!({"id": id, "app": "a", "topics": ["t"], "url": url, "lease": "10m"});
        self.caller.post("/v1/workers", &worker.to_string()).await
    }

    /// Says that a worker is alive.
    async fn keep(&self, id: &str) -> Answer {
        let path = format!("/v1/workers/{id}/heartbeat");
        self.caller.call(Method::PUT, &path, "").await.expect("an answer")
    }

    /// Holds what the server has against what it acknowledged.
    async fn check(&self) {
        for (id, there) in &self.jobs {
            match there {
                true => self.look(id).await,
                false => drop(self.caller.get(&path(id)).await.ok(404)),
            }
        }
        for id in &self.refused {
            self.caller.get(&path(id)).await.ok(404);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_new_jobs_and_loses_none() {
    let Some(disk) = SmallDisk::new(DISK_BYTES) else { return };
    let store = disk.path("data");
    let served = Served::start(&store, &[]).await;
    let (jobs, refused) = (BTreeMap::new(), Vec::new());
    let mut ledger = Ledger { caller: served.caller(), jobs, refused, next: 0 };

    ledger.register("kept").await.ok(201);

    // Others fill the disk, and give the room back.
    ledger.until_there_is_room().await;
    disk.take(DISK_BYTES as usize / 2);
    ledger.fill().await;
    disk.give_back();
    ledger.until_there_is_room().await;

    // Our own jobs fill it.
    ledger.fill().await;
    let added = ledger.jobs.len();
    assert!(added > 100, "only {added} jobs were taken");
    ledger.go_on(5).await;

    // Not a byte is left.
    disk.take(usize::MAX);
    ledger.go_on(20).await;
    assert!(!ledger.add("short").await, "a job was taken that there is no room for");
    // Who is registered stays so: it is by their work that room is made.
    ledger.keep("kept").await.ok(200);
    let one_more = ledger.register("one-more").await;
    assert_eq!((one_more.status, one_more.code()), (507, "storage_full"));
    ledger.keep("one-more").await.ok(404);
    let last = ledger.there().pop().expect("some are left");
    let grown = ledger.grow(&last).await;
    assert_eq!((grown.status, grown.code()), (507, "storage_full"));
    let metrics = ledger.caller.text(Method::GET, "/metrics", String::new()).await;
    assert!(metrics.contains("\nlinger_disk_full 1\n"), "{metrics}");
    ledger.look(&last).await;

    // Killed on the full disk it starts there, too.
    served.kill();
    let served = Served::start(&store, &[]).await;
    ledger.caller = served.caller();
    ledger.check().await;
    disk.give_back();

    // Room comes back by cancelling what takes it, with no restart.
    let there = ledger.there();
    for id in &there[5..] {
        ledger.delete(id).await;
    }
    ledger.until_there_is_room().await;
    ledger.check().await;

    served.kill();
    let served = Served::start(&store, &[]).await;
    ledger.caller = served.caller();
    ledger.check().await;
    // Each start begins a segment of the log; the one before comes back when something is done.
    let last = ledger.there().pop().expect("some are left");
    ledger.delete(&last).await;
    ledger.until_there_is_room().await;
    served.kill();
}
