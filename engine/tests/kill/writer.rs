//! The process that is killed: it works, and tells each answer as soon as it has it.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use linger::dice::Lease;
use linger::error::{Code, Result};
use linger::job::{Body, Edit, NewJob, OnConflict, Patch, Ttr, When};
use linger::machine::{Owner, Reach, Stage};
use linger::queue::{
    Action, Ask, Change, Changed, Delivery, Expect, JobInfo, Key, KvWrite, Queue, Settle, Standing,
    Terms, TopicChange, Verdict,
};
use linger::retry::Retry;
use linger::schedule::Repeat;
use linger::store::embedded::Embedded;
use linger::time::{Clock, DAY, HOUR, SystemClock, Time, duration_ms};
use tokio::task::JoinSet;

use crate::words::*;

/// Keys of each task.
const KEYS: u64 = 8;
/// Each task keeps about so many jobs.
const JOBS: usize = 60;

/// Works until it is killed.
pub(crate) fn run(open: impl FnOnce() -> Embedded, seed: u64) -> ! {
    let told: Vec<Told> = serde_json::from_reader(std::io::stdin()).expect("the judge tells");
    say(&Line::Opening);
    let store = Arc::new(open());
    say(&Line::Open);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let chance = Chance::new(seed ^ (task as u64) << 32);
            let jobs = told.iter().filter(|told| owner(&told.name) == task).cloned().collect();
            let mut writer = Writer { task, seed, store: store.clone(), chance, jobs, made: 0 };
            tasks.spawn(async move {
                loop {
                    writer.turn().await;
                }
            });
        }
        tasks.join_next().await.expect("there are tasks").expect("a writer goes on for ever")
    })
}

/// The task that may change a job by name: nobody else adds, replaces or deletes it.
fn owner(name: &Name) -> usize {
    match name.topic.strip_prefix("own-") {
        Some(task) => task.parse().expect("a topic of ours"),
        None => name.id.bytes().map(usize::from).sum::<usize>() % TASKS,
    }
}

/// One write, so that a line is there whole or not at all. Without a judge there is nothing to do.
fn say(line: &Line) {
    let mut text = serde_json::to_string(line).expect("words are plain");
    text.push('\n');
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

struct Writer {
    task: usize,
    seed: u64,
    store: Arc<Embedded>,
    chance: Chance,
    /// Jobs that this task may change by name, and jobs that it holds.
    jobs: Vec<Told>,
    made: u64,
}

impl Writer {
    async fn turn(&mut self) {
        let busy = self.jobs.len() >= JOBS;
        match self.chance.below(100) {
            0..2 => self.add().await,
            2..35 if !busy => self.add().await,
            2..35 => self.change().await,
            35..60 => self.pop().await,
            60..61 => self.empty().await,
            61..68 => self.put().await,
            68..82 => self.change().await,
            _ => self.settle().await,
        }
    }

    fn begin(&self, op: Op) {
        say(&Line::Begin(self.task, op));
    }

    fn end(&self, came: Came) {
        say(&Line::End(self.task, came));
    }

    fn topic(&mut self) -> String {
        if self.chance.below(2) == 0 { SHARED.into() } else { own_topic(self.task) }
    }

    fn text(&mut self) -> Text {
        let len = match self.chance.below(40) {
            0 => self.chance.below(40_000),
            1..4 => 0,
            _ => self.chance.below(600),
        };
        Text { len: len as usize, seed: self.chance.next() }
    }

    async fn add(&mut self) {
        let count = 1 + self.chance.below(4);
        let mut batch = Vec::new();
        for _ in 0..count {
            let name = self.name();
            if !batch.iter().any(|(taken, _)| *taken == name) {
                batch.push((name, self.text()));
            }
        }
        let jobs = batch.iter().map(|(name, text)| self.new_job(name, *text)).collect();
        self.begin(Op::Add(batch.clone()));
        let added = self.store.add_all(jobs).await.expect("added");
        let mut seen = Vec::new();
        for ((name, _), added) in batch.into_iter().zip(added) {
            let job = added.expect("nothing is wrong with it").job;
            self.jobs.retain(|told| told.name != name);
            self.jobs.push(Told { name, number: job.number, lease: None });
            seen.push(seen_of(&job));
        }
        self.end(Came::Added(seen));
    }

    /// A new name, or one that is taken.
    fn name(&mut self) -> Name {
        let mine: Vec<&Told> =
            self.jobs.iter().filter(|told| owner(&told.name) == self.task).collect();
        if self.chance.below(8) == 0
            && let Some(told) = pick(&mut self.chance, &mine)
        {
            return told.name.clone();
        }
        let topic = self.topic();
        loop {
            self.made += 1;
            let id = format!("{:x}-{}-{}", self.seed, self.task, self.made);
            let name = Name { topic: topic.clone(), id };
            if owner(&name) == self.task {
                return name;
            }
        }
    }

    fn new_job(&mut self, name: &Name, text: Text) -> NewJob {
        let topic = name.topic.parse().expect("a topic");
        let mut job = NewJob::new(topic, name.id.parse().expect("an id"), body(text));
        job.on_conflict = OnConflict::Replace;
        match self.chance.below(16) {
            0..4 => job.when = Some(When::In(DAY)),
            4 => job.held = true,
            5 => job.priority = self.chance.below(2000) as u32,
            6 => job.spec.retain = Some(DAY),
            7 => job.spec.retry = Some(Retry::ladder(&[Duration::ZERO, DAY]).expect("a ladder")),
            8 => job.spec.repeat = Some(Repeat::every(DAY).expect("an interval")),
            _ => {}
        }
        job
    }

    async fn pop(&mut self) {
        let topic = self.topic();
        let local = self.chance.below(8) == 0;
        let ttr = Some(Ttr::new(6 * DAY).expect("a ttr"));
        let terms = Terms { ttr, owner: local.then_some(Owner(self.task as u64)), grace: None };
        let max = 1 + self.chance.below(3) as u32;
        let ask = Ask { max, terms, ..Ask::one(topic.parse().expect("a topic")) };
        self.begin(Op::Pop { topic, local });
        let popped = self.store.pop(ask).await.expect("popped");
        let mut seen = Vec::new();
        for Delivery { job, lease, .. } in popped {
            let name =
                Name { topic: job.spec.topic.as_str().into(), id: job.spec.id.as_str().into() };
            let token = lease.as_u64();
            if !local {
                self.jobs.retain(|told| told.number != job.number);
                let number = job.number;
                self.jobs.push(Told { name: name.clone(), number, lease: Some(token) });
            }
            seen.push((name, seen_of(&job), token));
        }
        self.end(Came::Popped(seen));
    }

    async fn settle(&mut self) {
        let held: Vec<Told> =
            self.jobs.iter().filter(|told| told.lease.is_some()).cloned().collect();
        let mut batch: Vec<Settled> = Vec::new();
        for _ in 0..1 + self.chance.below(3) {
            let Some(told) = pick(&mut self.chance, &held) else { return };
            let verb = match self.chance.below(12) {
                0 => Verb::Fail,
                1 => Verb::FailForLong,
                2 => Verb::Release,
                3 => Verb::ReleaseForLong,
                4 => Verb::Touch,
                5 => Verb::Bury,
                _ => Verb::Finish,
            };
            if batch.iter().all(|one| one.number != told.number) {
                let lease = told.lease.expect("only held ones");
                batch.push(Settled { name: told.name, number: told.number, lease, verb });
            }
        }
        let settles = batch.iter().map(settle_of).collect();
        self.begin(Op::Settle(batch.clone()));
        let answers = self.store.settle(settles).await.expect("settled");
        for one in &batch {
            self.jobs.retain(|told| told.number != one.number);
        }
        for (one, answer) in batch.iter().zip(&answers) {
            // Whoever owns the name goes on with it.
            let held = one.verb == Verb::Touch;
            if let Ok(Changed { job: Some(_), .. }) = answer
                && (held || owner(&one.name) == self.task)
            {
                let lease = held.then_some(one.lease);
                self.jobs.push(Told { name: one.name.clone(), number: one.number, lease });
            }
        }
        self.end(Came::Stands(answers.into_iter().map(stands).collect()));
    }

    async fn change(&mut self) {
        let mine: Vec<Told> =
            self.jobs.iter().filter(|told| owner(&told.name) == self.task).cloned().collect();
        let Some(told) = pick(&mut self.chance, &mine) else { return };
        let how = match self.chance.below(if self.jobs.len() < JOBS { 8 } else { 16 }) {
            0 | 1 => How::Body(self.text()),
            2 => How::PutOff,
            3 => How::Priority(self.chance.below(2000) as u32),
            4 => How::Hold,
            5 => How::Unhold,
            6 => How::Run,
            _ => How::Delete,
        };
        let key = if self.chance.below(2) == 0 {
            Key::Number(told.number)
        } else {
            let Name { topic, id } = &told.name;
            Key::Named(topic.parse().expect("a topic"), id.parse().expect("an id"))
        };
        self.begin(Op::Change(Edited { name: told.name.clone(), number: told.number, how }));
        let change = Change::new(key, action(how));
        let answer = self.store.change(vec![change]).await.expect("changed").remove(0);
        let there = match &answer {
            Ok(changed) => changed.job.is_some(),
            Err(refused) => refused.code() != Code::NotFound,
        };
        if !there {
            self.jobs.retain(|other| other.number != told.number);
        }
        self.end(Came::Stands(vec![stands(answer)]));
    }

    async fn empty(&mut self) {
        let topic = own_topic(self.task);
        self.begin(Op::Empty { topic: topic.clone() });
        match self.store.configure(&topic.parse().expect("a topic"), TopicChange::Empty).await {
            Ok(_) => {}
            Err(refused) => assert_eq!(refused.code(), Code::NotFound, "{refused}"),
        }
        self.jobs.retain(|told| told.name.topic != topic);
        self.end(Came::Emptied);
    }

    async fn put(&mut self) {
        let key = format!("{}/{}", self.task, self.chance.below(KEYS));
        let value = (self.chance.below(4) > 0).then(|| self.text());
        let write = KvWrite {
            key: key.as_str().into(),
            value: value.map(|text| Bytes::from(text.bytes())),
            expect: Expect::Any,
            ttl: (self.chance.below(4) == 0).then_some(DAY),
        };
        self.begin(Op::Put { key, value });
        let version = self.store.kv_write(write).await.map_err(|refused| code(&refused));
        self.end(Came::Put(version));
    }
}

fn pick<T: Clone>(chance: &mut Chance, from: &[T]) -> Option<T> {
    (!from.is_empty()).then(|| from[chance.below(from.len() as u64) as usize].clone())
}

fn body(text: Text) -> Body {
    Body::bytes(text.bytes())
}

fn settle_of(one: &Settled) -> Settle {
    let verdict = match one.verb {
        Verb::Finish => Verdict::Finish,
        Verb::Fail => Verdict::Fail { error: "no".into(), retry_in: Some(Duration::ZERO) },
        Verb::FailForLong => Verdict::Fail { error: "not now".into(), retry_in: Some(DAY) },
        Verb::Release => Verdict::Release { delay: Duration::ZERO, priority: None },
        Verb::ReleaseForLong => Verdict::Release { delay: DAY, priority: Some(7) },
        Verb::Touch => Verdict::Touch { ttr: None },
        Verb::Bury => Verdict::Bury { error: Some("enough".into()), priority: None },
    };
    let lease = Some(Lease::from_u64(one.lease));
    Settle { lease, ..Settle::key(Key::Number(one.number), verdict) }
}

fn action(how: How) -> Action {
    match how {
        How::Body(text) => {
            Action::Update(Patch { body: Some(body(text)), ttr: Edit::Clear, ..Patch::default() })
        }
        How::PutOff => Action::Update(Patch { when: Some(When::In(DAY)), ..Patch::default() }),
        How::Priority(priority) => {
            Action::Update(Patch { priority: Some(priority), ..Patch::default() })
        }
        How::Hold => Action::Hold,
        How::Unhold => Action::Unhold,
        How::Run => Action::Run,
        How::Delete => Action::Delete(Reach::Any),
    }
}

fn stands(answer: Result<Changed>) -> std::result::Result<Option<Seen>, String> {
    answer.map(|changed| changed.job.map(seen_standing)).map_err(|refused| code(&refused))
}

fn code(refused: &linger::error::Error) -> String {
    refused.code().as_str().to_owned()
}

/// A job that is due in a moment may be ready by the time that somebody looks.
fn stage_of(stage: Stage, due: Time) -> String {
    let soon = SystemClock::new().now().time().saturating_add_ms(duration_ms(HOUR));
    match stage {
        Stage::Delayed | Stage::Retry if due < soon => Stage::Ready.as_str().into(),
        _ => stage.as_str().into(),
    }
}

fn seen_standing(job: Standing) -> Seen {
    Seen {
        number: job.number,
        version: job.version,
        stage: stage_of(job.stage, job.due),
        due_ms: job.due.as_ms(),
        priority: job.priority,
        attempt: job.attempt,
    }
}

pub(crate) fn seen_of(job: &JobInfo) -> Seen {
    Seen {
        number: job.number,
        version: job.version,
        stage: stage_of(job.stage, job.due),
        due_ms: job.due.as_ms(),
        priority: job.priority,
        attempt: job.attempt,
    }
}
