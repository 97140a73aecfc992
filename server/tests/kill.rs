//! The shipped binary, killed in the midst of work again and again: what it acknowledged is there,
//! what was cancelled or finished is gone, and nothing is invented.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::sync::Notify;

const ROUNDS: u64 = 20;
const CLIENTS: u64 = 8;

/// A few numbers from a seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// The server, killed at the end of its round.
struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(folder: &Path) -> Served {
        let mut process = Command::new(env!("CARGO_BIN_EXE_linger"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let mut line = || lines.next().expect("it goes on").expect("text");
        let first = line();
        let address = first.split("http://").nth(1).and_then(|rest| rest.split(',').next());
        let address = address.unwrap_or_else(|| panic!("no address in `{first}`")).to_owned();
        while !line().contains("ready") {}
        // Read on, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Served { process, address }
    }

    fn kill(self) {
        drop(self);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }
}

/// What a client knows of a job.
#[derive(Debug)]
struct Known {
    /// Whether it is there; none if an answer never came.
    there: Option<bool>,
    /// What its body may be.
    bodies: Vec<String>,
    /// By what it is held, if that was acknowledged.
    lease: Option<String>,
    /// Whether a pop may have taken it whose answer never came.
    maybe_held: bool,
    /// Whether it is due in an hour, and so must never be handed out.
    late: bool,
}

/// Someone who has a topic alone, and writes down every answer.
struct Ledger {
    topic: String,
    jobs: BTreeMap<String, Known>,
    next: u64,
    rng: Rng,
}

/// One who calls the server of this round.
struct Caller {
    client: Client<HttpConnector, Full<Bytes>>,
    address: String,
}

impl Caller {
    fn new(served: &Served) -> Caller {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Caller { client, address: served.address.clone() }
    }

    /// The status and the answer; none if it never came.
    async fn call(&self, method: Method, path: &str, body: Value) -> Option<(u16, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        let request = request.body(Full::from(body)).expect("a request");
        let (parts, body) = self.client.request(request).await.ok()?.into_parts();
        let bytes = body.collect().await.ok()?.to_bytes();
        Some((parts.status.as_u16(), serde_json::from_slice(&bytes).expect("JSON")))
    }
}

impl Ledger {
    fn new(client: u64) -> Ledger {
        let (jobs, rng) = (BTreeMap::new(), Rng(client + 1));
        Ledger { topic: format!("topic-{client}"), jobs, next: 0, rng }
    }

    fn path(&self, id: &str, more: &str) -> String {
        format!("/v1/topics/{}/jobs/{id}{more}", self.topic)
    }

    /// Works until an answer does not come.
    async fn work(&mut self, caller: &Caller, acknowledged: &(AtomicI64, Notify)) {
        while self.act(caller).await.is_some() {
            if acknowledged.0.fetch_sub(1, Ordering::Relaxed) == 1 {
                acknowledged.1.notify_one();
            }
        }
    }

    /// Does one thing; none if it was not answered.
    async fn act(&mut self, caller: &Caller) -> Option<()> {
        let some = self.some_job();
        match (self.rng.below(10), some) {
            (0..4, _) | (_, None) => self.add(caller).await,
            (4..6, Some(id)) => self.update(caller, &id).await,
            (6, Some(id)) => self.delete(caller, &id).await,
            (7..9, Some(_)) => self.pop(caller).await,
            (_, Some(id)) => self.finish(caller, &id).await,
        }
    }

    fn some_job(&mut self) -> Option<String> {
        let there: Vec<_> = self.jobs.iter().filter(|(_, job)| job.there == Some(true)).collect();
        let count = there.len() as u64;
        let at = if count == 0 { return None } else { self.rng.below(count) };
        there.get(at as usize).map(|(id, _)| (*id).clone())
    }

    async fn add(&mut self, caller: &Caller) -> Option<()> {
        let (id, late) = (self.next.to_string(), self.rng.below(2) == 0);
        self.next += 1;
        let body = format!("body of {id}");
        let bodies = vec![body.clone()];
        let known = Known { there: None, bodies, lease: None, maybe_held: false, late };
        self.jobs.insert(id.clone(), known);
        let delay = if late { 3600 } else { 0 };
        let job = json!({ "topic": self.topic, "id": id, "body": body, "delay": delay });
        let (status, answer) = caller.call(Method::POST, "/v1/jobs", job).await?;
        assert_eq!(status, 201, "{answer}");
        self.known(&id).there = Some(true);
        Some(())
    }

    async fn update(&mut self, caller: &Caller, id: &str) -> Option<()> {
        let body = format!("{} again", self.jobs[id].bodies[0]);
        self.known(id).bodies.push(body.clone());
        let path = self.path(id, "");
        let (status, answer) = caller.call(Method::PATCH, &path, json!({ "body": body })).await?;
        assert_eq!(status, 200, "{answer}");
        self.known(id).bodies = vec![body];
        Some(())
    }

    async fn delete(&mut self, caller: &Caller, id: &str) -> Option<()> {
        self.known(id).there = None;
        let (status, answer) = caller.call(Method::DELETE, &self.path(id, ""), Value::Null).await?;
        assert_eq!(status, 200, "{answer}");
        self.known(id).there = Some(false);
        Some(())
    }

    async fn pop(&mut self, caller: &Caller) -> Option<()> {
        for job in self.jobs.values_mut() {
            job.maybe_held |= job.there != Some(false) && !job.late && job.lease.is_none();
        }
        let path = format!("/v1/topics/{}/pop", self.topic);
        let (status, answer) = caller.call(Method::POST, &path, json!({ "ttr": "1h" })).await?;
        assert_eq!(status, 200, "{answer}");
        self.jobs.values_mut().for_each(|job| job.maybe_held = false);
        let Some(job) = answer["jobs"].get(0) else { return Some(()) };
        let id = job["id"].as_str().expect("an id").to_owned();
        let known = self.known(&id);
        assert!(!known.late, "{id} was handed out early");
        assert!(known.lease.is_none(), "{id} was handed out twice");
        assert!(known.there == Some(true), "{id} was handed out and is gone: {known:?}");
        assert!(known.bodies.iter().any(|body| job["body"] == **body), "{job}");
        known.lease = Some(job["lease"].as_str().expect("a lease").to_owned());
        Some(())
    }

    async fn finish(&mut self, caller: &Caller, id: &str) -> Option<()> {
        let Some(lease) = self.jobs[id].lease.clone() else { return Some(()) };
        self.known(id).there = None;
        let path = self.path(id, "/finish");
        let (status, answer) = caller.call(Method::POST, &path, json!({ "lease": lease })).await?;
        assert_eq!(status, 200, "a lease that was acknowledged is lost: {answer}");
        self.known(id).there = Some(false);
        Some(())
    }

    fn known(&mut self, id: &str) -> &mut Known {
        self.jobs.get_mut(id).unwrap_or_else(|| panic!("nobody added {id}"))
    }

    /// Holds what the server has now against what it acknowledged.
    async fn check(&mut self, caller: &Caller) {
        let ids: Vec<String> = self.jobs.keys().cloned().collect();
        let mut there = 0;
        for id in ids {
            let path = self.path(&id, "");
            let (status, job) =
                caller.call(Method::GET, &path, Value::Null).await.expect("nobody kills it now");
            let known = self.known(&id);
            let is_there = status == 200;
            assert!(known.there.is_none_or(|there| there == is_there), "{id}: {known:?}, {job}");
            known.there = Some(is_there);
            if !is_there {
                known.maybe_held = false;
                continue;
            }
            there += 1;
            let body = job["body"].as_str().expect("text").to_owned();
            assert!(known.bodies.contains(&body), "{id}: {known:?}, {job}");
            known.bodies = vec![body];
            if known.lease.is_some() {
                assert_eq!(job["state"], "reserved", "{id}: {known:?}");
            } else if !known.maybe_held {
                let state = if known.late { "delayed" } else { "ready" };
                assert_eq!(job["state"], state, "{id}: {known:?}");
            }
            // Held by a pop whose answer never came: nobody has its lease.
            known.maybe_held = job["state"] == "reserved" && known.lease.is_none();
        }
        let path = format!("/v1/topics/{}", self.topic);
        let (status, topic) =
            caller.call(Method::GET, &path, Value::Null).await.expect("nobody kills it now");
        let counted: u64 = match status {
            200 => topic["counts"]
                .as_object()
                .expect("counts")
                .values()
                .filter_map(Value::as_u64)
                .sum(),
            _ => 0,
        };
        assert_eq!(counted, there, "something was invented: {topic}");
        // Those that are held for nobody are of no more use.
        let stuck: Vec<String> =
            self.jobs.iter().filter(|(_, job)| job.maybe_held).map(|(id, _)| id.clone()).collect();
        for id in stuck {
            self.delete(caller, &id).await.expect("nobody kills it now");
            self.known(&id).maybe_held = false;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_every_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ledgers: Vec<Ledger> = (0..CLIENTS).map(Ledger::new).collect();
    let mut rng = Rng(u64::from(std::process::id()));
    for _ in 0..ROUNDS {
        let served = Served::start(folder.path());
        let caller = Arc::new(Caller::new(&served));
        for ledger in &mut ledgers {
            ledger.check(&caller).await;
        }
        let enough = Arc::new((AtomicI64::new(1 + rng.below(400) as i64), Notify::new()));
        let working: Vec<_> = ledgers
            .drain(..)
            .map(|mut ledger| {
                let (caller, enough) = (caller.clone(), enough.clone());
                tokio::spawn(async move {
                    ledger.work(&caller, &enough).await;
                    ledger
                })
            })
            .collect();
        enough.1.notified().await;
        served.kill();
        for ledger in working {
            ledgers.push(ledger.await.expect("the answers were right"));
        }
    }
    let served = Served::start(folder.path());
    let caller = Caller::new(&served);
    for ledger in &mut ledgers {
        ledger.check(&caller).await;
    }
    let done: u64 = ledgers.iter().map(|ledger| ledger.next).sum();
    assert!(done > 100, "only {done} jobs were added");
    served.kill();
}
