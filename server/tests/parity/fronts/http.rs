//! Version 1 of the HTTP interface.

use std::net::SocketAddr;
use std::time::Duration;

use linger::time::format_duration;
use serde_json::{Value, json};

use super::{Front, House, call, lack};
use crate::speaker::{Add, Again, Job, Popped, Seen, Settings, Speaker, Told, Update, refused};

pub(crate) const FRONT: Front = Front {
    name: "HTTP v1",
    house: House::Server { set: |_| {}, speak: |at| Box::new(Http { address: at.http }) },
    lacks: &[lack(
        "bury",
        "a job dies by failing for the last time",
        &["a_buried_job_is_dead_until_it_is_kicked"],
    )],
    simple: Add::new,
};

/// One who calls a server.
pub(crate) struct Http {
    pub(crate) address: SocketAddr,
}

impl Http {
    pub(crate) fn call(&self, method: &str, path: &str, body: Value) -> Told<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        match call(self.address, method, path, &body) {
            (200..300, answer) => Ok(answer),
            (_, answer) => refused(answer["error"]["code"].as_str().expect("a code")),
        }
    }

    fn act(&self, job: &Job, action: &str) -> Told<()> {
        self.call("POST", &format!("{}/{action}", path(&job.topic, &job.id)), Value::Null)?;
        Ok(())
    }

    fn settle(&self, popped: &Popped, action: &str, mut body: Value) -> Told<()> {
        body["lease"] = popped.lease.as_str().into();
        self.call("POST", &format!("{}/{action}", path(&popped.topic, &popped.id)), body)?;
        Ok(())
    }
}

fn path(topic: &str, id: &str) -> String {
    format!("/v1/topics/{topic}/jobs/{id}")
}

/// Only those that are there.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn length(duration: Duration) -> Value {
    format_duration(duration).into()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

impl Speaker for Http {
    fn add(&mut self, add: &Add) -> Told<Job> {
        let again = match add.again {
            Again::New => None,
            Again::Reject => Some("reject".into()),
            Again::Keep => Some("keep".into()),
            Again::Replace => Some("replace".into()),
        };
        let job = object([
            ("topic", Some(add.topic.as_str().into())),
            ("id", Some(add.name.as_str().into())),
            ("body", Some(add.body.as_str().into())),
            ("delay", Some(length(add.delay))),
            ("ttr", add.ttr.map(length)),
            ("priority", Some(add.priority.into())),
            ("retry", add.attempts.map(|attempts| json!({ "attempts": attempts }))),
            ("repeat", add.repeat.map(|every| json!({ "every": length(every) }))),
            ("target", add.target.as_deref().map(Value::from)),
            ("envelope", add.as_task.then_some("task".into())),
            ("retain", add.retain.map(length)),
            ("held", add.held.then_some(true.into())),
            ("on_conflict", again),
        ]);
        let job = self.call("POST", "/v1/jobs", job)?;
        let number = job["number"].as_u64();
        Ok(Job { topic: text(&job["topic"]), id: text(&job["id"]), number })
    }

    fn look(&mut self, job: &Job) -> Told<Seen> {
        let seen = self.call("GET", &path(&job.topic, &job.id), Value::Null)?;
        Ok(Seen { state: Some(text(&seen["state"])), body: Some(text(&seen["body"])) })
    }

    fn pop(&mut self, topic: &str, wait: Duration) -> Told<Option<Popped>> {
        let wait = json!({ "wait": length(wait) });
        let popped = self.call("POST", &format!("/v1/topics/{topic}/pop"), wait)?;
        Ok(popped["jobs"].get(0).map(|job| Popped {
            topic: text(&job["topic"]),
            id: text(&job["id"]),
            body: text(&job["body"]),
            lease: text(&job["lease"]),
        }))
    }

    fn finish(&mut self, popped: &Popped) -> Told<()> {
        self.settle(popped, "finish", json!({}))
    }

    fn fail(&mut self, popped: &Popped, error: &str, retry_in: Option<Duration>) -> Told<()> {
        let body = object([("error", Some(error.into())), ("retry_in", retry_in.map(length))]);
        self.settle(popped, "fail", body)
    }

    fn again(&mut self, popped: &Popped, retry_in: Duration) -> Told<()> {
        self.settle(popped, "fail", json!({ "again": true, "retry_in": length(retry_in) }))
    }

    fn release(&mut self, popped: &Popped, delay: Duration, priority: u32) -> Told<()> {
        let body = json!({ "delay": length(delay), "priority": priority });
        self.settle(popped, "release", body)
    }

    fn touch(&mut self, popped: &Popped) -> Told<()> {
        self.settle(popped, "touch", json!({}))
    }

    fn delete(&mut self, job: &Job) -> Told<()> {
        self.call("DELETE", &path(&job.topic, &job.id), Value::Null)?;
        Ok(())
    }

    fn update(&mut self, job: &Job, update: &Update) -> Told<()> {
        let body = object([
            ("body", update.body.as_deref().map(Value::from)),
            ("delay", update.delay.map(length)),
            ("ttr", update.ttr.map(length)),
            ("priority", update.priority.map(Value::from)),
        ]);
        self.call("PATCH", &path(&job.topic, &job.id), body)?;
        Ok(())
    }

    fn run(&mut self, job: &Job) -> Told<()> {
        self.act(job, "run")
    }

    fn hold(&mut self, job: &Job) -> Told<()> {
        self.act(job, "hold")
    }

    fn unhold(&mut self, job: &Job) -> Told<()> {
        self.act(job, "unhold")
    }

    fn redrive(&mut self, topic: &str) -> Told<u64> {
        let done = self.call("POST", &format!("/v1/topics/{topic}/redrive"), Value::Null)?;
        Ok(done["count"].as_u64().expect("a count"))
    }

    fn pause(&mut self, topic: &str, pause: Duration) -> Told<()> {
        let body = json!({ "for": length(pause) });
        self.call("POST", &format!("/v1/topics/{topic}/pause"), body)?;
        Ok(())
    }

    fn resume(&mut self, topic: &str) -> Told<()> {
        self.call("POST", &format!("/v1/topics/{topic}/resume"), Value::Null)?;
        Ok(())
    }

    fn configure(&mut self, topic: &str, settings: &Settings) -> Told<()> {
        let body = object([
            ("concurrency", settings.concurrency.map(Value::from)),
            ("retain", settings.retain.map(length)),
            ("ttr", settings.ttr.map(length)),
        ]);
        self.call("PUT", &format!("/v1/topics/{topic}"), body)?;
        Ok(())
    }
}
