//! The dialect of ouqiang's delay-queue.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use linger::time::{MINUTE, SECOND};
use serde_json::{Value, json};

use super::{Front, House, call, lack};
use crate::speaker::{Add, Again, Job, Popped, Seen, Speaker, Told, refused};

pub(crate) const FRONT: Front = Front {
    name: "ouqiang's dialect",
    house: House::Server {
        // A pop cannot say how long it waits: as long as may be.
        set: |config| config.limits.wait = Duration::from_millis(200),
        speak: |at| Box::new(Ouqiang { address: at.http }),
    },
    lacks: &[
        lack("priority", "a push has none", &["the_most_urgent_comes_first"]),
        lack(
            "attempts",
            "a push has none, and its jobs are tried without a limit",
            &["a_failed_job_is_tried_again_and_dies"],
        ),
        lack("held", "a push has none", &["a_job_is_set_aside_and_let_go"]),
        lack(
            "target",
            "a push has none",
            &["the_same_id_again_is_kept", "a_task_waits_and_is_removed"],
        ),
        lack("reject", "an id that is in use is replaced", &["the_same_id_again_is_refused"]),
        lack(
            "absence",
            "a job that is not there is finished as well as any",
            &["what_is_not_there_is_refused", "a_cancelled_job_is_lost_to_its_holder"],
        ),
        lack(
            "finish apart from delete",
            "they are the same there: the job is gone, in any state and whoever holds it",
            &[
                "a_late_worker_cannot_finish",
                "a_repeating_job_goes_on_when_it_is_finished",
                "a_finished_job_is_kept_as_the_topic_says",
            ],
        ),
        lack("release", "there is no such path", &["a_released_job_waits_as_it_is_told"]),
        lack("touch", "there is no such path", &["a_touched_job_stays_with_its_holder"]),
        lack("again", "there is no such path", &["not_yet_is_no_failure"]),
        lack("bury", "there is no such path", &["a_buried_job_is_dead_until_it_is_kicked"]),
        lack("update", "there is no such path", &["a_job_that_waits_is_changed"]),
        lack("run", "there is no such path", &["a_job_is_run_before_its_time"]),
        lack("redrive", "there is no such path", &["dead_jobs_are_redriven"]),
        lack("pause", "there is no such path", &["a_topic_is_paused_and_resumed"]),
    ],
    simple: Add::new,
};

struct Ouqiang {
    address: SocketAddr,
}

impl Ouqiang {
    fn say(&self, path: &str, body: Value) -> Told<Value> {
        let (status, answer) = call(self.address, "POST", path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        match answer["code"].as_u64() {
            Some(0) => Ok(answer["data"].clone()),
            Some(1) => refused(answer["message"].as_str().expect("text")),
            _ => panic!("{answer}"),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

impl Speaker for Ouqiang {
    fn add(&mut self, add: &Add) -> Told<Job> {
        let Add { topic, name, body, delay, again, .. } = add.clone();
        let ttr = add.ttr.unwrap_or(MINUTE);
        let again = if again == Again::New { Again::New } else { Again::Replace };
        let said = Add { body, delay, ttr: Some(ttr), again, ..Add::new(&topic, &name) };
        add.is_said_by(&said)?;
        // It knows no job without a delay.
        let delay = delay.max(SECOND);
        self.say(
            "/push",
            json!({
                "topic": topic, "id": name, "body": said.body,
                "delay": delay.as_secs(), "ttr": ttr.as_secs(),
            }),
        )?;
        Ok(Job { topic, id: name, number: None })
    }

    fn look(&mut self, job: &Job) -> Told<Seen> {
        let seen = self.say("/get", json!({ "id": job.id }))?;
        if seen.is_null() {
            return refused("null");
        }
        Ok(Seen { state: None, body: Some(text(&seen["body"])) })
    }

    fn pop(&mut self, topic: &str, wait: Duration) -> Told<Option<Popped>> {
        let since = Instant::now();
        loop {
            let popped = self.say("/pop", json!({ "topic": topic }))?;
            if !popped.is_null() {
                let (topic, lease) = (topic.to_owned(), String::new());
                let (id, body) = (text(&popped["id"]), text(&popped["body"]));
                return Ok(Some(Popped { topic, id, body, lease }));
            }
            if since.elapsed() >= wait {
                return Ok(None);
            }
        }
    }

    fn finish(&mut self, popped: &Popped) -> Told<()> {
        self.say("/finish", json!({ "id": popped.id }))?;
        Ok(())
    }

    fn delete(&mut self, job: &Job) -> Told<()> {
        self.say("/delete", json!({ "id": job.id }))?;
        Ok(())
    }
}
