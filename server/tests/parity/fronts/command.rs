//! The command protocol of the original design.

use std::net::SocketAddr;
use std::time::Duration;

use linger::time::MINUTE;
use serde_json::{Value, json};

use super::{Front, House, call, lack};
use crate::speaker::{Add, Again, Job, Popped, Speaker, Told, refused};

pub(crate) const FRONT: Front = Front {
    name: "command protocol",
    house: House::Server { set: |_| {}, speak: |at| Box::new(Command { address: at.http }) },
    lacks: &[
        lack("priority", "an add has none", &["the_most_urgent_comes_first"]),
        lack(
            "attempts",
            "an add has none, and its jobs are tried without a limit",
            &["a_failed_job_is_tried_again_and_dies"],
        ),
        lack("held", "an add has none", &["a_job_is_set_aside_and_let_go"]),
        lack(
            "target",
            "an add has none",
            &["the_same_id_again_is_kept", "a_task_waits_and_is_removed"],
        ),
        lack("replace", "an id that is in use is refused", &["the_same_id_again_is_replaced"]),
        lack("look", "there is no such command", &["a_job_can_be_looked_at"]),
        lack(
            "finish apart from delete",
            "they are the same there: the job is gone, in any state and whoever holds it",
            &[
                "a_late_worker_cannot_finish",
                "a_repeating_job_goes_on_when_it_is_finished",
                "a_finished_job_is_kept_as_the_topic_says",
            ],
        ),
        lack("release", "there is no such command", &["a_released_job_waits_as_it_is_told"]),
        lack("touch", "there is no such command", &["a_touched_job_stays_with_its_holder"]),
        lack("again", "there is no such command", &["not_yet_is_no_failure"]),
        lack("bury", "there is no such command", &["a_buried_job_is_dead_until_it_is_kicked"]),
        lack("update", "there is no such command", &["a_job_that_waits_is_changed"]),
        lack("run", "there is no such command", &["a_job_is_run_before_its_time"]),
        lack("redrive", "there is no such command", &["dead_jobs_are_redriven"]),
        lack("pause", "there is no such command", &["a_topic_is_paused_and_resumed"]),
    ],
    simple: Add::new,
};

struct Command {
    address: SocketAddr,
}

impl Command {
    fn say(&self, command: Value) -> Told<Value> {
        let (status, answer) = call(self.address, "POST", "/", &command.to_string());
        assert_eq!(status, 200, "{answer}");
        match &answer["success"] {
            Value::Bool(true) => Ok(answer),
            Value::Bool(false) => refused(answer["error"].as_str().expect("text")),
            _ => panic!("{answer}"),
        }
    }
}

impl Speaker for Command {
    fn add(&mut self, add: &Add) -> Told<Job> {
        let Add { topic, name, body, delay, again, .. } = add.clone();
        let ttr = add.ttr.unwrap_or(MINUTE);
        let again = if again == Again::New { Again::New } else { Again::Reject };
        let said = Add { body, delay, ttr: Some(ttr), again, ..Add::new(&topic, &name) };
        add.is_said_by(&said)?;
        let Add { body, delay, .. } = said;
        self.say(json!({
            "command": "add", "topic": topic, "id": name, "body": body,
            "delay": delay.as_secs(), "TTR": ttr.as_secs(),
        }))?;
        Ok(Job { topic, id: name, number: None })
    }

    fn pop(&mut self, topic: &str, wait: Duration) -> Told<Option<Popped>> {
        let wait = wait.as_secs_f64();
        let popped = self.say(json!({ "command": "pop", "topic": topic, "wait": wait }))?;
        let text = |field: &str| popped[field].as_str().map(str::to_owned);
        let topic = topic.to_owned();
        Ok(text("id").map(|id| Popped {
            topic,
            id,
            body: text("value").expect("a body"),
            lease: String::new(),
        }))
    }

    fn finish(&mut self, popped: &Popped) -> Told<()> {
        self.say(json!({ "command": "finish", "id": popped.id }))?;
        Ok(())
    }

    fn delete(&mut self, job: &Job) -> Told<()> {
        self.say(json!({ "command": "delete", "id": job.id, "topic": job.topic }))?;
        Ok(())
    }
}
