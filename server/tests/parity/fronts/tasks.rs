//! The task calls of the second lineage.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{Front, House, call, lack};
use crate::speaker::{Add, Again, Job, Seen, Speaker, Told, refused};

pub(crate) const FRONT: Front = Front {
    name: "task calls",
    house: House::Server { set: |_| {}, speak: |at| Box::new(Tasks { address: at.http }) },
    lacks: &[
        lack(
            "target",
            "a task always has one, and so is never popped",
            &[
                "a_job_is_added_popped_and_finished",
                "a_job_that_waits_is_not_handed_out",
                "a_job_comes_when_it_is_due",
                "a_job_is_handed_out_again_when_its_time_is_up",
                "a_released_job_waits_as_it_is_told",
                "a_touched_job_stays_with_its_holder",
                "a_failed_job_is_tried_again_and_dies",
                "not_yet_is_no_failure",
                "a_buried_job_is_dead_until_it_is_kicked",
                "the_most_urgent_comes_first",
                "a_cancelled_job_is_gone",
                "a_cancelled_job_is_lost_to_its_holder",
                "a_job_that_waits_is_changed",
                "a_job_is_run_before_its_time",
                "a_job_is_set_aside_and_let_go",
                "a_job_that_is_set_aside_is_not_handed_out",
                "a_finished_job_is_kept_as_the_topic_says",
                "a_topic_is_paused_and_resumed",
                "a_paused_topic_hands_nothing_out",
                "no_more_are_under_way_than_the_topic_allows",
                "the_same_id_again_is_refused",
                "the_same_id_again_is_replaced",
                "text_in_any_script_is_kept",
                "a_body_may_be_as_large_as_the_limit",
                "an_id_of_a_wrong_name_is_refused",
                "an_empty_id_is_refused",
                "a_time_to_run_out_of_bounds_is_refused",
            ],
        ),
        lack(
            "pop",
            "a task is called back",
            &[
                "a_late_worker_cannot_finish",
                "the_most_urgent_is_popped_first_whoever_added_it",
                "a_job_whose_time_was_up_too_often_is_dead_until_it_is_redriven",
                "a_repeating_job_goes_on_when_it_is_finished",
                "the_topics_time_to_run_holds_for_jobs_without_one",
            ],
        ),
        lack("redrive", "there is no such path", &["dead_jobs_are_redriven"]),
    ],
    simple: Add::task,
};

struct Tasks {
    address: SocketAddr,
}

impl Tasks {
    fn call(&self, method: &str, path: &str, body: &str) -> Told<Value> {
        match call(self.address, method, path, body) {
            (200, answer) => Ok(answer),
            (status, _) => refused(status.to_string()),
        }
    }
}

impl Speaker for Tasks {
    fn add(&mut self, add: &Add) -> Told<Job> {
        let Add { topic, name, body, delay, target, again, .. } = add.clone();
        let again = if again == Again::New { Again::New } else { Again::Keep };
        let target = target.or(Add::task("", "").target);
        let said = Add { body, delay, target, again, ..Add::task(&topic, &name) };
        add.is_said_by(&said)?;
        let target = said.target.as_deref().expect("it has one");
        let (schema, rest) = target.split_once("://").expect("a URL");
        let (address, path) = rest.split_once('/').expect("a path");
        let task = json!({
            "name": topic, "args": said.body,
            "time": { "duration": delay.as_secs(), "relative": true },
            "callback": { "schema": schema, "address": address, "path": path },
        });
        let added = self.call("POST", "/task/add", &task.to_string())?;
        let id = added["uid"].as_str().expect("a uid").to_owned();
        Ok(Job { topic, id, number: None })
    }

    fn look(&mut self, job: &Job) -> Told<Seen> {
        let seen = self.call("GET", &format!("/task/get/{}", job.id), "")?;
        let state = match seen["type"].as_u64() {
            Some(1) => "held",
            Some(2) => "delayed",
            Some(3) => "ready",
            Some(4) => "reserved",
            Some(6) => "retry",
            other => panic!("type is {other:?}"),
        };
        Ok(Seen { state: Some(state.to_owned()), body: None })
    }

    fn delete(&mut self, job: &Job) -> Told<()> {
        self.call("DELETE", &format!("/task/remove/{}", job.id), "")?;
        Ok(())
    }
}
