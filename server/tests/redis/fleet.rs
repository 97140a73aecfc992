//! A Redis of its own for each test, and servers on it.

use std::path::Path;

use hyper::Method;
use serde_json::Value;

use crate::redis_servers::{Standalone, there};
use crate::served::{Answer, Caller, PATIENCE, Served};

pub(crate) struct Fleet {
    pub(crate) redis: Standalone,
}

impl Fleet {
    /// None, with a word why, if there is no `redis-server`; in CI that fails.
    pub(crate) fn start() -> Option<Fleet> {
        there().then(|| Fleet { redis: Standalone::start(&["--appendonly", "yes"]) })
    }

    /// One more server, which is ready. So long a poll that nothing is owed to it.
    pub(crate) async fn server(&self, args: &[&str]) -> Served {
        let args = [&["--set", "store.poll=1h"], args].concat();
        Served::start(Path::new(&self.redis.url()), &args).await
    }
}

/// Adds a job, given as JSON.
pub(crate) async fn add(server: &Caller, job: &str) {
    server.post("/v1/jobs", job).await.ok(201);
}

/// The jobs that a pop leases.
pub(crate) async fn pop(server: &Caller, topic: &str, ask: &str) -> Vec<Value> {
    let mut popped = server.post(&format!("/v1/topics/{topic}/pop"), ask).await.ok(200);
    serde_json::from_value(popped["jobs"].take()).expect("a list")
}

/// Ends an attempt by its lease.
pub(crate) async fn finish(server: &Caller, job: &Value) -> Answer {
    let (topic, id) = (text(job, "topic"), text(job, "id"));
    let lease = format!(r#"{{"lease":"{}"}}"#, text(job, "lease"));
    server.post(&format!("/v1/topics/{topic}/jobs/{id}/finish"), &lease).await
}

pub(crate) fn text<'a>(job: &'a Value, name: &str) -> &'a str {
    job[name].as_str().unwrap_or_else(|| panic!("no {name} in {job}"))
}

/// Asks until the answer is such.
pub(crate) async fn until(server: &Caller, path: &str, is_such: impl Fn(&Answer) -> bool) {
    let asked = async {
        while !is_such(&server.get(path).await) {
            tokio::task::yield_now().await;
        }
    };
    let is_so = tokio::time::timeout(PATIENCE, asked).await.is_ok();
    assert!(is_so, "{path} stays {:?}", server.get(path).await);
}

/// Waits until so many calls wait for a job.
pub(crate) async fn until_waiting(server: &Caller, count: u64) {
    let line = format!("\nlinger_waiting {count}\n");
    let asked = async {
        while !server.text(Method::GET, "/metrics", String::new()).await.contains(&line) {}
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("somebody waits");
}
