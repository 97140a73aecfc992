//! Servers that are replaced one after the other, while others call them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hyper::Method;
use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::fleet::{Fleet, text};
use crate::served::{Answer, Caller};

/// Who adds, and who pops and finishes.
const CALLERS: usize = 4;
/// So many jobs are finished before, between and after the restarts.
const JOBS: usize = 100;

/// What callers know: where the servers are, and how far they have come.
struct World {
    servers: Mutex<[Caller; 2]>,
    turn: AtomicUsize,
    ends: AtomicBool,
    added: Mutex<BTreeSet<String>>,
    finished: Mutex<BTreeSet<String>>,
    /// Rung for each.
    progress: Notify,
    /// Calls that had to be made once more.
    repeated: AtomicUsize,
}

impl World {
    /// Calls one server, and once more the other if that fails.
    async fn call(&self, path: &str, body: &str) -> Value {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for nth in [first, first + 1] {
            let server = self.servers.lock().unwrap()[nth % 2].clone();
            match server.call(Method::POST, path, body).await {
                Some(Answer { status: 200 | 201, json, .. }) => return json,
                failed if nth == first => {
                    let away = failed.as_ref().is_none_or(|answer| answer.code() == "unavailable");
                    assert!(away, "{path}: {failed:?}");
                    self.repeated.fetch_add(1, Ordering::Relaxed);
                }
                failed => panic!("{path} failed twice: {failed:?}"),
            }
        }
        unreachable!("it has returned or panicked")
    }

    async fn add(&self, caller: usize) {
        for nth in 0.. {
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            let id = format!("{caller}-{nth}");
            // What is done and not answered is done once: the same id is kept, the same finish is done.
            let job = format!(
                r#"{{"topic":"t","id":"{id}","retain":"1h","ttr":"1h","on_conflict":"keep"}}"#
            );
            self.call("/v1/jobs", &job).await;
            self.added.lock().unwrap().insert(id);
        }
    }

    async fn work(&self) {
        while !self.ends.load(Ordering::Relaxed) || !self.is_done() {
            let popped = self.call("/v1/topics/t/pop", r#"{"wait":"1s","max":3}"#).await;
            for job in popped["jobs"].as_array().unwrap() {
                let (id, lease) = (text(job, "id"), text(job, "lease"));
                let path = format!("/v1/topics/t/jobs/{id}/finish");
                self.call(&path, &format!(r#"{{"lease":"{lease}"}}"#)).await;
                self.finished.lock().unwrap().insert(id.to_owned());
                self.progress.notify_one();
            }
        }
    }

    fn is_done(&self) -> bool {
        *self.finished.lock().unwrap() == *self.added.lock().unwrap()
    }

    /// Returns when so many more jobs are finished; panics with whoever did.
    async fn more(&self, callers: &mut JoinSet<()>) {
        let goal = self.finished.lock().unwrap().len() + JOBS;
        while self.finished.lock().unwrap().len() < goal {
            tokio::select! {
                () = self.progress.notified() => {}
                Some(ended) = callers.join_next() => panic!("a caller has ended: {ended:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_one_after_the_other_fail_no_call_that_is_made_once_more() {
    let Some(fleet) = Fleet::start() else { return };
    let mut servers = [fleet.server(&[]).await, fleet.server(&[]).await];
    let world = Arc::new(World {
        servers: Mutex::new(servers.each_ref().map(|server| server.caller())),
        turn: AtomicUsize::new(0),
        ends: AtomicBool::new(false),
        added: Mutex::default(),
        finished: Mutex::default(),
        progress: Notify::new(),
        repeated: AtomicUsize::new(0),
    });
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (adds, works) = (world.clone(), world.clone());
        callers.spawn(async move { adds.add(caller).await });
        callers.spawn(async move { works.work().await });
    }
    world.more(&mut callers).await;
    for (at, server) in servers.iter_mut().enumerate() {
        server.signal(Signal::TERM);
        // The other serves alone for a while.
        world.more(&mut callers).await;
        let next = fleet.server(&[]).await;
        world.servers.lock().unwrap()[at] = next.caller();
        let before = std::mem::replace(server, next);
        assert!(before.ended().await.success());
        world.more(&mut callers).await;
    }
    world.ends.store(true, Ordering::Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    assert!(world.is_done());
    let (repeated, all) = (&world.repeated, world.finished.lock().unwrap().len());
    assert!(repeated.load(Ordering::Relaxed) > 0, "nobody noticed");
    assert!(all > 5 * JOBS, "{all}");
}
