//! One who adds, pops, finishes and deletes jobs at whichever server, and writes down every answer.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use linger::time::{Clock, SystemClock, Time};
use serde_json::{Value, json};

use super::fleet::{Rng, Run};
use super::ledger::{By, Handed, Kind, New, Refused};
use crate::served::Answer;

pub(crate) const PULL: [&str; 6] = ["pull-0", "pull-1", "pull-2", "pull-3", "pull-4", "pull-5"];
pub(crate) const PUSH: [&str; 3] = ["push-0", "push-1", "push-2"];
pub(crate) const REPEATING: &str = "repeating";
/// How often each repeating job is done.
const OCCURRENCES: u32 = 5;
const HOUR_MS: u64 = 3_600_000;
/// A client deletes only some of what it has added last.
const MINE_MAX: usize = 50;

pub(crate) struct Client {
    run: Arc<Run>,
    name: String,
    rng: Rng,
    next: u64,
    mine: Vec<(String, String)>,
}

pub(crate) fn now_ms() -> u64 {
    SystemClock::default().now().time().as_ms()
}

/// Names all topics.
pub(crate) fn topics() -> impl Iterator<Item = &'static str> {
    PULL.into_iter().chain(PUSH).chain([REPEATING])
}

/// Reads a time of an answer.
pub(crate) fn time_ms(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("not a time: {value}"));
    text.parse::<Time>().expect("a time").as_ms()
}

impl Client {
    pub(crate) fn new(run: &Arc<Run>, name: String, seed: u64) -> Client {
        Client { run: run.clone(), name, rng: Rng::new(seed), next: 0, mine: Vec::new() }
    }

    /// Does something; how many jobs it has added.
    pub(crate) async fn act(&mut self) -> u64 {
        match self.rng.below(10) {
            0..3 => return self.add_some().await,
            3..8 => self.work().await,
            _ => self.delete_some().await,
        }
        0
    }

    async fn add_some(&mut self) -> u64 {
        let count = 1 + self.rng.below(10);
        let jobs: Vec<New> = (0..count)
            .map(|_| {
                let kind = match self.rng.below(100) {
                    0 => Kind::Repeating(OCCURRENCES),
                    1..3 => Kind::Late,
                    3..25 => Kind::Pushed,
                    _ => Kind::Popped,
                };
                self.new_job(kind)
            })
            .collect();
        // Those that repeat are all to be done to the end.
        let once = jobs.iter().filter(|job| job.topic != REPEATING);
        self.mine.extend(once.map(|job| (job.topic.clone(), job.id.clone())));
        self.add(jobs).await;
        let over = self.mine.len().saturating_sub(MINE_MAX);
        self.mine.drain(..over);
        // At the very moment when they are made ready and handed out.
        if self.rng.below(2) == 0 {
            self.delete_some().await;
        }
        count
    }

    fn new_job(&mut self, kind: Kind) -> New {
        let topic = match kind {
            Kind::Popped | Kind::Late => *self.rng.one_of(&PULL),
            Kind::Pushed => *self.rng.one_of(&PUSH),
            Kind::Repeating(_) => REPEATING,
        };
        let delay_ms = match (kind, self.rng.below(4)) {
            (Kind::Late, _) => HOUR_MS,
            (Kind::Repeating(_), _) | (_, 0) => 0,
            (_, 1) => self.rng.below(20),
            _ => self.rng.below(1000),
        };
        self.next += 1;
        New { topic: topic.into(), id: format!("{}-{}", self.name, self.next), kind, delay_ms }
    }

    async fn add(&mut self, mut jobs: Vec<New>) {
        while !jobs.is_empty() {
            jobs = self.add_once(jobs).await;
        }
    }

    /// Those of which nobody knows whether they were added.
    async fn add_once(&mut self, jobs: Vec<New>) -> Vec<New> {
        let body = Value::from_iter(jobs.iter().map(|job| {
            let mut json = json!({
                "topic": job.topic, "id": job.id, "delay": format!("{}ms", job.delay_ms),
                "on_conflict": "keep", "body": job.id,
            });
            if let Kind::Repeating(count) = job.kind {
                json["repeat"] = json!({ "every": "300ms", "count": count });
            }
            json
        }));
        let run = self.run.clone();
        let sends = || run.note(|ledger| ledger.sends(&jobs, now_ms()));
        let (answer, _) = self.ask(Method::POST, "/v1/jobs", body, sends).await;
        let items = answer.ok(200);
        let items = items.as_array().expect("one for each");
        let mut unknown = Vec::new();
        for (job, item) in jobs.iter().zip(items) {
            if item["error"]["code"] == "unavailable" {
                self.run.note(|ledger| ledger.unknown());
                unknown.push(job.clone());
                continue;
            }
            let number = item["job"]["number"].as_u64().unwrap_or_else(|| panic!("{item}"));
            self.run.note(|ledger| ledger.added(&job.id, number));
        }
        unknown
    }

    /// Pops some, and ends what it has popped one way or the other.
    async fn work(&mut self) {
        let topic = *self.rng.one_of(&PULL);
        for job in self.pop(&[topic, REPEATING], 100).await {
            let repeats = job.topic == REPEATING;
            match self.rng.below(20) {
                // Its time runs out.
                0 => {}
                1..3 if !repeats => self.give_back(&job, "fail", json!({"retry_in": "50ms"})).await,
                3 if !repeats => self.give_back(&job, "release", json!({"delay": "20ms"})).await,
                4 => {
                    self.touch(&job).await;
                    self.finish(&job).await;
                }
                _ => self.finish(&job).await,
            }
        }
    }

    /// Pops and finishes whatever is there.
    pub(crate) async fn drain(&mut self) {
        let topics: Vec<_> = PULL.into_iter().chain([REPEATING]).collect();
        for job in self.pop(&topics, 500).await {
            self.finish(&job).await;
        }
    }

    async fn pop(&mut self, topics: &[&str], wait_ms: u64) -> Vec<Handed> {
        let (max, ttr_ms) = (1 + self.rng.below(10), 1000 + self.rng.below(2000));
        let ask = json!({
            "topics": topics, "max": max, "wait": format!("{wait_ms}ms"), "ttr": format!("{ttr_ms}ms"),
        });
        let begun = self.run.note(|ledger| ledger.begin());
        // What a lost answer had comes back when its time has run out.
        let answer = self.ask_once(Method::POST, "/v1/pop", &ask.to_string()).await;
        let Some(answer) = answer else { return Vec::new() };
        let popped = answer.ok(200);
        let jobs: Vec<Handed> = popped["jobs"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|job| handed(job, ttr_ms))
            .collect();
        self.run.note(|ledger| jobs.iter().for_each(|job| ledger.handed_out(begun, job)));
        jobs
    }

    async fn finish(&mut self, job: &Handed) {
        self.run.note(|ledger| ledger.ends(job, By::Finish));
        let (answer, again) = self.settle(job, "finish", json!({})).await;
        match answer.status {
            200 => self.run.note(|ledger| ledger.finished(job, again, now_ms())),
            _ => self.refused(job, By::Finish, &answer, again),
        }
    }

    async fn give_back(&mut self, job: &Handed, how: &str, terms: Value) {
        self.run.note(|ledger| ledger.ends(job, By::Other));
        let (answer, again) = self.settle(job, how, terms).await;
        if answer.status != 200 {
            self.refused(job, By::Other, &answer, again);
        }
    }

    async fn touch(&mut self, job: &Handed) {
        let (answer, again) = self.settle(job, "touch", json!({"ttr": "4s"})).await;
        match answer.status {
            200 => {
                let until_ms = time_ms(&answer.json["job"]["reserved_until"]);
                self.run.note(|ledger| ledger.touched(job, until_ms));
            }
            _ => self.refused(job, By::Other, &answer, again),
        }
    }

    async fn settle(&mut self, job: &Handed, how: &str, mut terms: Value) -> (Answer, bool) {
        terms["lease"] = job.lease.as_str().into();
        let path = format!("/v1/topics/{}/jobs/{}/{how}", job.topic, job.id);
        self.ask(Method::POST, &path, terms, || {}).await
    }

    fn refused(&self, job: &Handed, by: By, answer: &Answer, again: bool) {
        let refused = Refused { by, code: answer.code(), again, at_ms: now_ms() };
        self.run.note(|ledger| ledger.refused(job, refused));
    }

    async fn delete_some(&mut self) {
        for _ in 0..2 {
            let last = self.mine.len().saturating_sub(1 + self.rng.below(12) as usize);
            if self.mine.is_empty() {
                return;
            }
            let (topic, id) = self.mine.remove(last);
            self.delete(&topic, &id).await;
        }
    }

    pub(crate) async fn delete(&mut self, topic: &str, id: &str) {
        self.run.note(|ledger| ledger.deletes(id));
        let path = format!("/v1/topics/{topic}/jobs/{id}");
        let (answer, again) = self.ask(Method::DELETE, &path, Value::Null, || {}).await;
        let at_ms = now_ms();
        self.run.note(|ledger| match answer.status {
            200 => ledger.deleted(id, at_ms),
            _ => ledger.not_deleted(id, answer.code(), again),
        });
    }

    /// Calls until there is an answer that says what was done; whether it was sent more than once.
    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Value,
        sends: impl Fn(),
    ) -> (Answer, bool) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut again = false;
        loop {
            sends();
            if let Some(answer) = self.ask_once(method.clone(), path, &body).await {
                return (answer, again);
            }
            again = true;
        }
    }

    /// The answer; none if nobody knows what was done.
    async fn ask_once(&mut self, method: Method, path: &str, body: &str) -> Option<Answer> {
        let caller = self.run.caller(&mut self.rng);
        let answer = caller.call(method, path, body).await.filter(|answer| answer.status < 500);
        if answer.is_none() {
            self.run.note(|ledger| ledger.unknown());
            // So that whoever is away gets to come back.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        answer
    }
}

fn handed(job: &Value, ttr_ms: u64) -> Handed {
    let text = |name: &str| crate::fleet::text(job, name).to_owned();
    let until_ms = time_ms(&job["reserved_until"]);
    Handed {
        id: text("id"),
        topic: text("topic"),
        number: job["number"].as_u64().expect("a number"),
        occurrence: job["occurrence"].as_u64().unwrap_or_default(),
        lease: text("lease"),
        due_ms: time_ms(&job["due"]),
        from_ms: until_ms - ttr_ms,
        until_ms,
    }
}
