//! Starting with much to load: until all of it is there nothing is accepted and nothing handed out,
//! so that no cancel is acknowledged on half of the jobs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;
use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::Notify;

use crate::served::{Answer, Caller, PATIENCE, Served};

/// A million as `./test` runs it, optimised; a tenth of that between two edits.
fn jobs() -> usize {
    if std::env::var_os("LINGER_TEST_ALL").is_some() { 1_000_000 } else { 100_000 }
}

const BATCH: usize = 1000;
const CANCELLERS: usize = 8;
/// So many cancels are acknowledged before it is killed in the midst of more.
const CANCELS: usize = 500;
/// Of each canceller's jobs so many are left alone after they were refused.
const LEFT_ALONE: usize = 100;

/// Every fourth job is due, the others are not for an hour.
fn batch(from: usize) -> String {
    let job = |n: usize| match n % 4 {
        0 => format!(r#"{{"topic":"due","id":"{n}"}}"#),
        _ => format!(r#"{{"topic":"later","id":"{n}","delay":"1h"}}"#),
    };
    let jobs: Vec<String> = (from..from + BATCH).map(job).collect();
    format!("[{}]", jobs.join(","))
}

/// The path of the nth job that is not due.
fn later(n: usize) -> String {
    format!("/v1/topics/later/jobs/{}", n / 3 * 4 + n % 3 + 1)
}

async fn fill(store: &Path) {
    let served = Served::start(store, &["--durability", "relaxed"]).await;
    let next = Arc::new(AtomicUsize::new(0));
    let fillers: Vec<_> = (0..2)
        .map(|_| {
            let (caller, next) = (served.caller(), next.clone());
            tokio::spawn(async move {
                loop {
                    let from = next.fetch_add(BATCH, Ordering::Relaxed);
                    if from >= jobs() {
                        return;
                    }
                    let added = caller.text(Method::POST, "/v1/jobs", batch(from)).await;
                    assert!(added.contains(r#""job":"#) && !added.contains(r#""error":"#));
                }
            })
        })
        .collect();
    for filler in fillers {
        filler.await.expect("all were added");
    }
    served.kill();
}

/// What one who cancels knows of its jobs, by their paths.
#[derive(Default)]
struct Cancelled {
    gone: BTreeSet<String>,
    there: BTreeSet<String>,
}

/// Whether an answer says that it is too early. Nothing else may be said before all is loaded.
fn is_too_early(answer: &Answer) -> bool {
    let early = answer.status == 503;
    if early {
        assert_eq!(answer.code(), "unavailable", "{}", answer.json);
        assert!(answer.headers.contains_key("retry-after"));
    }
    early
}

/// Whoever was served asks whether the server is ready: it must have been.
async fn check_ready(caller: &Caller, what: &str) -> Option<()> {
    let ready = caller.call(Method::GET, "/readyz", "").await?;
    assert_eq!(ready.status, 200, "{what} was answered before all was loaded: {}", ready.json);
    Some(())
}

/// Cancels one job after the other from the first moment on, until the server is gone.
async fn cancel(
    caller: Caller,
    ours: usize,
    (acknowledged, enough): (Arc<AtomicUsize>, Arc<Notify>),
) -> Cancelled {
    let mut known = Cancelled::default();
    let mut paths = (0..).map(|n| later(n * CANCELLERS + ours));
    let mut path = paths.next().expect("no end");
    while let Some(answer) = caller.call(Method::DELETE, &path, "").await {
        if is_too_early(&answer) {
            if known.there.len() < LEFT_ALONE {
                known.there.insert(std::mem::replace(&mut path, paths.next().expect("no end")));
            }
            continue;
        }
        assert_eq!(answer.status, 200, "{path}: {}", answer.json);
        known.gone.insert(std::mem::replace(&mut path, paths.next().expect("no end")));
        if acknowledged.fetch_add(1, Ordering::Relaxed) + 1 == CANCELS {
            enough.notify_one();
        }
        if known.gone.len() == 1 && check_ready(&caller, "a cancel").await.is_none() {
            break;
        }
    }
    known
}

/// Tries all else that must not be answered yet, and is answered when the server is ready.
async fn try_the_rest(caller: Caller) {
    for (method, path, body) in [
        (Method::POST, "/v1/topics/due/pop", "{}"),
        (Method::POST, "/v1/jobs", r#"{"topic":"new"}"#),
        (Method::GET, "/v1/topics/due/jobs/0", ""),
        (Method::GET, "/v1/topics", ""),
        (Method::POST, "/v1/topics/later/finish", r#"{"jobs":[{"id":"1"}]}"#),
    ] {
        // Only the first of them races with the start; the rest see that it has ended.
        loop {
            let Some(answer) = caller.call(method.clone(), path, body).await else { return };
            if !is_too_early(&answer) {
                break;
            }
        }
        if check_ready(&caller, path).await.is_none() {
            return;
        }
    }
}

/// How the share grew that is loaded, until all was.
async fn watch(caller: Caller) -> Vec<f64> {
    let mut shares = Vec::new();
    loop {
        let answer = caller.get("/readyz").await;
        if !is_too_early(&answer) {
            assert_eq!(answer.ok(200)["ready"], true);
            return shares;
        }
        shares.push(answer.json["loaded"].as_f64().expect("the share that is loaded"));
    }
}

async fn count(caller: &Caller, topic: &str) -> u64 {
    let topic = caller.get(&format!("/v1/topics/{topic}")).await.ok(200);
    let counts = topic["counts"].as_object().expect("counts");
    counts.values().filter_map(Value::as_u64).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_cancel_is_acknowledged_before_every_job_is_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("data");
    fill(&store).await;

    // Told to end in the midst of loading, it does not load on.
    let mut served = Served::listening(&store, &[]).await;
    served.signal(Signal::TERM);
    served.says("stopped before the stored jobs were loaded").await;
    assert_eq!(served.ended().await.code(), Some(0));

    let mut served = Served::listening(&store, &[]).await;
    let (acknowledged, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let watching = tokio::spawn(watch(served.caller()));
    let trying = tokio::spawn(try_the_rest(served.caller()));
    let cancelling: Vec<_> = (0..CANCELLERS)
        .map(|ours| {
            tokio::spawn(cancel(served.caller(), ours, (acknowledged.clone(), enough.clone())))
        })
        .collect();
    served.says(" ready").await;
    let shares = watching.await.expect("it became ready");
    // Whoever fell does not cancel any more: who did, and why, is told below.
    let _ = tokio::time::timeout(PATIENCE, enough.notified()).await;
    served.kill();
    trying.await.expect("nothing was answered too early");
    let mut known = Cancelled::default();
    for one in cancelling {
        let one = one.await.expect("the answers were right");
        known.gone.extend(one.gone);
        known.there.extend(one.there);
    }
    assert!(shares.is_sorted(), "the share fell: {shares:?}");
    assert!(shares.iter().all(|share| (0.0..1.0).contains(share)), "{shares:?}");
    let steps: BTreeSet<u64> = shares.iter().map(|share| (share * 100.0).round() as u64).collect();
    assert!(steps.len() > 3, "the share hardly moved: {steps:?}");
    assert!(!known.there.is_empty(), "nobody came too early");
    assert!(known.gone.len() >= CANCELS, "only {} were cancelled", known.gone.len());

    let served = Served::start(&store, &[]).await;
    let caller = served.caller();
    for path in &known.gone {
        assert_eq!(caller.get(path).await.status, 404, "{path} was cancelled and is there");
    }
    for path in &known.there {
        caller.get(path).await.ok(200);
    }
    // Those whose answer never came are as they are: one a canceller.
    let (left, all) = (count(&caller, "later").await, jobs() as u64 * 3 / 4);
    let gone = all - left - known.gone.len() as u64;
    assert!(gone <= CANCELLERS as u64, "{gone} jobs are gone that nobody cancelled");
    assert_eq!(count(&caller, "due").await, jobs() as u64 / 4);
    served.kill();
}
