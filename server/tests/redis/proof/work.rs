//! The work that goes on during a run, and how it is judged at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use hyper::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::client::{Client, PUSH, now_ms, time_ms, topics};
use super::fleet::{Rng, Run, Servers};
use super::ledger::{Handed, STUCK, TWICE};
use crate::receiver::{Received, Receiver};
use crate::redis_servers::Server;
use crate::served::{Caller, PATIENCE};

/// More than any run comes to: clients add until it is [`enough`](Work::enough).
const MANY: i64 = i64::MAX / 2;
const CLIENTS: u64 = 48;
/// Every how many pushes one fails.
const FAILS: u64 = 10;

/// Clients at work, and who takes what is pushed.
pub(crate) struct Work {
    run: Arc<Run>,
    clients: Vec<JoinHandle<Client>>,
    receiving: JoinHandle<()>,
    going: Arc<AtomicI64>,
}

impl Work {
    /// Sets the topics up, and has clients add jobs and work on them until it is enough.
    pub(crate) async fn start(run: &Arc<Run>, servers: &Servers, seed: u64) -> Work {
        let receiver = Receiver::start().await;
        set_up(&servers.caller(), &receiver.url("/hooks")).await;
        let receiving = tokio::spawn(receive(run.clone(), receiver, Rng::new(seed)));
        let going = Arc::new(AtomicI64::new(MANY));
        let clients = (0..CLIENTS).map(|at| {
            let client = Client::new(run, format!("c{at}"), seed.wrapping_add(at + 1));
            tokio::spawn(work(client, going.clone()))
        });
        Work { run: run.clone(), clients: clients.collect(), receiving, going }
    }

    /// Has no more jobs added than these, or than there are by now if that is more.
    pub(crate) fn enough(&self, jobs: u64) {
        self.going.fetch_sub(MANY - jobs as i64, Ordering::SeqCst);
    }

    /// Waits until all is added, has what is left worked off, and holds what is there against the ledger.
    pub(crate) async fn end(self, servers: &Servers, redis: &Server) {
        let mut clients = Vec::new();
        for client in self.clients {
            clients.push(client.await.expect("the answers were such"));
        }
        let caller = servers.caller();
        self.run.note(|ledger| eprintln!("all is added: {:?}", ledger.counts));
        self.going.store(1, Ordering::SeqCst);
        let drain = |client| tokio::spawn(drain(client, self.going.clone()));
        let draining: Vec<_> = clients.into_iter().map(drain).collect();
        until_calm(&self.run, &caller).await;
        self.going.store(0, Ordering::SeqCst);
        for client in draining {
            client.await.expect("the answers were such");
        }
        self.receiving.abort();
        for topic in topics() {
            let found = walk(&caller, topic).await;
            self.run.note(|ledger| ledger.found(topic, &found));
        }
        check_index(&self.run, redis);
        check_store(&self.run, servers.url()).await;
        delete_the_rest(&self.run, &caller).await;
        self.run.note(|ledger| ledger.close());
    }
}

async fn work(mut client: Client, going: Arc<AtomicI64>) -> Client {
    while going.load(Ordering::SeqCst) > 0 {
        let added = client.act().await;
        going.fetch_sub(added as i64, Ordering::SeqCst);
    }
    client
}

async fn drain(mut client: Client, going: Arc<AtomicI64>) {
    while going.load(Ordering::SeqCst) > 0 {
        client.drain().await;
    }
}

async fn set_up(caller: &Caller, url: &str) {
    for topic in topics() {
        let mut settings = json!({
            "ttr": "2s",
            "retry": { "attempts": 0, "backoff": { "base": "50ms", "max": "500ms" } },
        });
        if PUSH.contains(&topic) {
            settings["target"] = url.into();
        }
        let path = format!("/v1/topics/{topic}");
        let set = caller.call(Method::PUT, &path, &settings.to_string()).await;
        set.expect("an answer").ok(200);
    }
}

/// Takes what is pushed, and mostly says that it is done.
async fn receive(run: Arc<Run>, mut receiver: Receiver, mut rng: Rng) {
    loop {
        let request = receiver.next().await;
        let done = rng.below(FAILS) > 0;
        run.note(|ledger| ledger.pushed(&pushed(&request), done));
        request.answer(if done { 200 } else { 500 });
    }
}

fn pushed(request: &Received) -> Handed {
    let text = |name: &str| request.header(name).to_owned();
    let name = text("webhook-id");
    let mut parts = name.split('_').skip(1).map(|part| part.parse().expect("a number"));
    let mut part = || parts.next().expect("lg_number_occurrence");
    Handed {
        id: text("linger-job"),
        topic: text("linger-topic"),
        number: part(),
        occurrence: part(),
        lease: text("linger-lease"),
        due_ms: time_ms(&text("linger-due").into()),
        // At the latest.
        from_ms: now_ms(),
        until_ms: u64::MAX,
    }
}

/// Waits until nothing is there but what is due in an hour. Whatever does not move any more is stuck.
async fn until_calm(run: &Run, caller: &Caller) {
    let mut last = (0, Vec::new());
    let mut since = tokio::time::Instant::now();
    loop {
        let mut moving = Vec::new();
        for topic in topics() {
            moving.extend(still_moving(caller, topic).await);
        }
        if moving.is_empty() {
            return;
        }
        let now = (run.progress(), moving);
        if now != last {
            (last, since) = (now, tokio::time::Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return run.note(|ledger| ledger.wrong(STUCK, format!("{last:?}")));
        }
        tokio::task::yield_now().await;
    }
}

/// A topic that has something that must come to its end soon, and its counts.
async fn still_moving(caller: &Caller, topic: &'static str) -> Option<(&'static str, Value)> {
    let counts = count(caller, topic).await;
    let soon_ms = now_ms() + 600_000;
    let path = format!("/v1/topics/{topic}/jobs?state=delayed&limit=1&due_before={soon_ms}");
    let soon = look(caller, &path).await;
    let waits = soon["jobs"].as_array().is_some_and(Vec::is_empty);
    (!waits || counts["delayed"] != sum(&counts)).then_some((topic, counts))
}

/// A topic's counts.
async fn count(caller: &Caller, topic: &str) -> Value {
    look(caller, &format!("/v1/topics/{topic}")).await["counts"].take()
}

/// What is answered there, once the server knows that Redis is back: it learns of a restart by a call.
async fn look(caller: &Caller, path: &str) -> Value {
    loop {
        let answer = caller.get(path).await;
        if answer.status != 503 {
            return answer.ok(200);
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().expect("counts").values().filter_map(Value::as_u64).sum()
}

/// Ids and numbers of all jobs of a topic, page by page; as many as are counted.
async fn walk(caller: &Caller, topic: &str) -> Vec<(String, u64)> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/topics/{topic}/jobs?limit=100{cursor}");
        let page = look(caller, &path).await;
        for job in page["jobs"].as_array().expect("a list") {
            let id = crate::fleet::text(job, "id").to_owned();
            found.push((id, job["number"].as_u64().expect("a number")));
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let counts = count(caller, topic).await;
    assert_eq!(sum(&counts), found.len() as u64, "{topic}: {counts}");
    found
}

/// Every job stands in one order, and everything that stands in one is a job.
fn check_index(run: &Run, redis: &Server) {
    let mut plain = redis.plain();
    let mut count = |pattern: &str, how: &str| -> i64 {
        let keys = plain.ask(&["KEYS", pattern]);
        keys.list().iter().map(|key| plain.ask(&[how, key.text()]).int()).sum()
    };
    let (jobs, ids) = (count("linger:{*}:jobs", "HLEN"), count("linger:{*}:ids", "HLEN"));
    let orders = ["d", "r", "h", "v", "x", "f", "y0", "y1"];
    let standing: i64 =
        orders.iter().map(|order| count(&format!("linger:{{*}}:t*:{order}"), "ZCARD")).sum();
    if (jobs, ids) != (standing, standing) {
        let text = format!("{jobs} jobs and {ids} ids, of which {standing} stand in orders");
        run.note(|ledger| ledger.wrong(TWICE, text));
    }
}

/// `linger check` finds nothing that is not in order.
async fn check_store(run: &Run, url: &str) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_linger"));
    let checked = command.env_clear().args(["check", url]).output().await.expect("it runs");
    if !checked.status.success() {
        run.note(|ledger| ledger.wrong("not in order", format!("{checked:?}")));
    }
}

async fn delete_the_rest(run: &Arc<Run>, caller: &Caller) {
    let mut client = Client::new(run, "end".into(), 0);
    for topic in topics() {
        for id in run.note(|ledger| ledger.alive(topic)) {
            client.delete(topic, &id).await;
        }
        // All that is there beside was found before.
        let left = walk(caller, topic).await;
        run.note(|ledger| ledger.found(topic, &left));
    }
}
