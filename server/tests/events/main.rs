//! The event log of the shipped binary, in a folder and on a real Redis.

#[allow(dead_code, reason = "the tests of pushes call more of it")]
#[path = "../push/receiver.rs"]
mod receiver;
#[path = "../../../engine/tests/redis_servers/mod.rs"]
mod redis_servers;
#[allow(dead_code, reason = "the tests of the whole call more of it")]
#[path = "../whole/served.rs"]
mod served;

mod bounds;
mod command;
mod fronts;
mod kinds;
mod look;
mod shared;

use std::path::PathBuf;

use serde_json::Value;

use redis_servers::{Standalone, there};
use served::{Caller, PATIENCE, Served};

/// A store of its own for each test.
pub(crate) enum Place {
    Folder(tempfile::TempDir),
    Redis(Standalone),
}

impl Place {
    pub(crate) fn folder() -> Place {
        Place::Folder(tempfile::tempdir().expect("a folder"))
    }

    /// Both kinds; the second is left out with a word where there is no `redis-server`.
    pub(crate) fn both() -> Vec<Place> {
        let redis = there().then(|| Place::Redis(Standalone::start(&[])));
        [Place::folder()].into_iter().chain(redis).collect()
    }

    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Place::Folder(folder) => folder.path().join("data"),
            Place::Redis(redis) => redis.url().into(),
        }
    }

    /// A server on it, called `here`.
    pub(crate) async fn serve(&self, args: &[&str]) -> Served {
        Served::start(&self.path(), &[&["--set", "name=here"], args].concat()).await
    }
}

/// What a page of events has, by these parameters.
pub(crate) async fn page(server: &Caller, query: &str) -> Value {
    server.get(&format!("/v1/events?{query}")).await.ok(200)
}

/// The events that fit, the oldest first, once there are so many.
pub(crate) async fn events(server: &Caller, query: &str, count: usize) -> Vec<Value> {
    let asked = async {
        loop {
            let path = format!("limit=1000&order=oldest&{query}");
            let found: Vec<Value> = list(&page(server, &path).await["events"]);
            if found.len() >= count {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, asked).await;
    let Ok(found) = found else { panic!("{:#}", page(server, query).await) };
    assert_eq!(found.len(), count, "{found:#?}");
    found
}

pub(crate) fn list(value: &Value) -> Vec<Value> {
    value.as_array().expect("a list").clone()
}

/// Kind and id of each.
pub(crate) fn told(events: &[Value]) -> Vec<(&str, &str)> {
    let each = events.iter();
    each.map(|event| (word(event, "kind"), word(event, "id"))).collect()
}

fn word<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap_or_default()
}

pub(crate) fn kinds(events: &[Value]) -> Vec<&str> {
    told(events).into_iter().map(|(kind, _)| kind).collect()
}

/// Adds a job, given as JSON.
pub(crate) async fn add(server: &Caller, job: &str) -> Value {
    server.post("/v1/jobs", job).await.ok(201)
}

/// The job that a pop leases.
pub(crate) async fn pop(server: &Caller, topic: &str) -> Value {
    let wait = r#"{"wait":"30s"}"#;
    let popped = server.post(&format!("/v1/topics/{topic}/pop"), wait).await.ok(200);
    popped["jobs"][0].clone()
}

/// Ends an attempt by its lease.
pub(crate) async fn settle(server: &Caller, job: &Value, how: &str, more: &str) {
    let text = |name: &str| job[name].as_str().expect("a text").to_owned();
    let (topic, id, lease) = (text("topic"), text("id"), text("lease"));
    let body = format!(r#"{{"lease":"{lease}"{more}}}"#);
    server.post(&format!("/v1/topics/{topic}/jobs/{id}/{how}"), &body).await.ok(200);
}
