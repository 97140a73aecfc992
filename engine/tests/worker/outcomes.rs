//! What a worker answers reaches the job.

use std::time::Duration;

use linger::error::Code;
use linger::history::Report;
use linger::machine::Stage;
use linger::queue::Verdict;
use linger::retry::Retry;
use linger::time::{HOUR, MINUTE, SECOND};
use linger::worker::{Worker, json};
use linger::{Delivery, Job, Outcome};
use serde::Deserialize;

use crate::bench::{Bench, Gate, soon};

/// Runs one attempt of a job with a ladder of an hour, and answers what the store was told.
async fn attempt(bench: &mut Bench, worker: impl Worker) -> Verdict {
    bench.queue.worker("t", worker).start().unwrap();
    let retry = Retry::ladder(&[HOUR]).unwrap();
    bench.add_job(Job::new("t", "body").id("1").retry(retry)).await;
    let (verdict, taken) = bench.settled().await;
    assert_eq!(taken, Ok(()));
    verdict
}

fn failed(error: &str) -> Verdict {
    Verdict::Fail { error: error.into(), retry_in: None }
}

#[tokio::test]
async fn ok_finishes_the_job() {
    let mut bench = Bench::new();
    assert_eq!(attempt(&mut bench, |_: Delivery| async { Ok(()) }).await, Verdict::Finish);
    assert_eq!(bench.queue.get("t", "1").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(bench.totals().await.done, 1);
}

#[tokio::test]
async fn an_error_is_a_failed_attempt_with_its_text() {
    let mut bench = Bench::new();
    let worker = |job: Delivery| async move {
        job.id().as_str().parse::<bool>()?;
        Ok(())
    };
    let error = "provided string was not `true` or `false`";
    assert_eq!(attempt(&mut bench, worker).await, failed(error));
    let job = bench.job("t", "1").await;
    assert_eq!((job.stage, job.last_error.as_deref()), (Stage::Retry, Some(error)));
    assert_eq!(job.due, bench.clock.time().saturating_add_ms(3_600_000));
    assert_eq!(bench.totals().await.failed, 1);
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_and_the_runner_goes_on() {
    let mut bench = Bench::new();
    let worker = |job: Delivery| async move {
        assert!(job.id().as_str() != "1", "job {} is cursed", job.id());
        Ok(())
    };
    let error = "handler panicked: job 1 is cursed";
    assert_eq!(attempt(&mut bench, worker).await, failed(error));
    bench.add("t", "2").await;
    assert_eq!(bench.settled().await, (Verdict::Finish, Ok(())));
    assert_eq!(bench.job("t", "1").await.last_error.as_deref(), Some(error));
}

struct Hasty;

impl Worker for Hasty {
    fn work(&self, job: Delivery) -> impl Future<Output = Outcome> + Send {
        assert!(job.id().as_str() != "1", "at once");
        std::future::ready(Outcome::done())
    }
}

#[tokio::test]
async fn a_panic_before_there_is_a_future_is_a_failed_attempt_too() {
    let mut bench = Bench::new();
    assert_eq!(attempt(&mut bench, Hasty).await, failed("handler panicked: at once"));
}

#[tokio::test]
async fn again_waits_the_next_step_and_is_no_failure() {
    let mut bench = Bench::new();
    let verdict = attempt(&mut bench, |_: Delivery| async { Outcome::again() }).await;
    assert_eq!(verdict, Verdict::Again { retry_in: None });
    let job = bench.job("t", "1").await;
    assert_eq!((job.stage, job.attempt, job.last_error), (Stage::Retry, 1, None));
    assert_eq!(bench.totals().await.again, 1);
}

#[tokio::test]
async fn retry_in_replaces_one_step() {
    for outcome in [Outcome::again(), Outcome::failed("no")] {
        let mut bench = Bench::new();
        let outcome = outcome.retry_in(5 * MINUTE);
        attempt(&mut bench, move |_: Delivery| {
            let outcome = outcome.clone();
            async move { outcome }
        })
        .await;
        assert_eq!(bench.job("t", "1").await.due, bench.clock.time().saturating_add_ms(300_000));
    }
}

#[tokio::test]
async fn release_gives_the_attempt_back_and_waits_as_long_as_it_says() {
    let mut bench = Bench::new();
    attempt(&mut bench, |_: Delivery| async { Outcome::release(7 * SECOND) }).await;
    let job = bench.job("t", "1").await;
    assert_eq!((job.stage, job.attempt), (Stage::Delayed, 0));
    assert_eq!(job.due, bench.clock.time().saturating_add_ms(7000));
    assert_eq!(bench.totals().await.released, 1);
}

#[tokio::test]
async fn dead_goes_to_the_shelf_with_attempts_left() {
    let mut bench = Bench::new();
    attempt(&mut bench, |_: Delivery| async { Outcome::dead("card expired") }).await;
    let job = bench.job("t", "1").await;
    assert_eq!((job.stage, job.last_error.as_deref()), (Stage::Dead, Some("card expired")));
    assert_eq!(bench.totals().await.dead, 1);
}

#[tokio::test]
async fn a_job_that_is_left_stays_reserved_for_someone_else_to_settle() {
    let bench = Bench::new();
    bench.queue.worker("t", |_: Delivery| async { Outcome::leave() }).start().unwrap();
    bench.add("t", "1").await;
    bench.counted(|totals| totals.left == 1).await;
    bench.totals().await;
    assert_eq!(bench.job("t", "1").await.stage, Stage::Reserved, "a drain leaves it too");
    bench.queue.finish("t", "1").await.unwrap();
}

#[tokio::test]
async fn a_report_goes_into_the_history() {
    let mut bench = Bench::new();
    let report = Report { status: Some(503), excerpt: Some("busy".into()) };
    let said = report.clone();
    attempt(&mut bench, move |_: Delivery| {
        let report = said.clone();
        async move { Outcome::failed("HTTP 503").report(report) }
    })
    .await;
    let history = bench.job("t", "1").await.history;
    assert_eq!(history.last().unwrap().report, Some(report));
}

#[tokio::test]
async fn all_workers_of_a_topic_are_called_and_the_worst_outcome_counts() {
    let ranked = [
        Outcome::done(),
        Outcome::leave(),
        Outcome::not_now(),
        Outcome::release(Duration::ZERO),
        Outcome::again(),
        Outcome::failed("no"),
        Outcome::dead("never"),
    ];
    for (worse, better) in (1..ranked.len()).flat_map(|w| (0..w).map(move |b| (w, b))) {
        for (first, second) in [(worse, better), (better, worse)] {
            let mut bench = Bench::new();
            for outcome in [&ranked[first], &ranked[second]] {
                let outcome = outcome.clone();
                let worker = move |_: Delivery| {
                    let outcome = outcome.clone();
                    async move { outcome }
                };
                bench.queue.worker("t", worker).start().unwrap();
            }
            bench.add_job(Job::new("t", "").id("1").retry(Retry::ladder(&[HOUR]).unwrap())).await;
            let settle = ranked[worse].clone().settle(&delivery(&bench).await);
            assert_eq!(bench.settled().await.0, settle.verdict);
        }
    }
}

/// Any delivery, to see what an outcome makes of it.
async fn delivery(bench: &Bench) -> Delivery {
    bench.add("other", "1").await;
    bench.queue.pop("other").await.unwrap().unwrap()
}

#[tokio::test]
async fn a_worker_that_hangs_does_not_keep_the_others_from_being_called() {
    let bench = Bench::new();
    bench.queue.worker("t", |_: Delivery| std::future::pending::<Outcome>()).start().unwrap();
    let (mut gate, worker) = crate::bench::Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    gate.begun().await;
}

#[derive(Deserialize)]
struct Order {
    order: u64,
}

#[tokio::test]
async fn a_typed_worker_gets_the_body_in_its_type() {
    let mut bench = Bench::new();
    let worker = json(|order: Order, job: Delivery| async move {
        Outcome::failed(format!("order {} by job {}", order.order, job.id()))
    });
    bench.queue.worker("t", worker).start().unwrap();
    bench.add_job(Job::new("t", r#"{"order": 1001}"#).id("a")).await;
    assert_eq!(bench.settled().await.0, failed("order 1001 by job a"));
}

#[tokio::test]
async fn a_body_that_does_not_fit_the_type_is_a_failed_attempt_that_says_so() {
    let mut bench = Bench::new();
    let verdict = attempt(&mut bench, json(|_: Order, _: Delivery| async { Ok(()) })).await;
    let Verdict::Fail { error, .. } = verdict else { panic!("{verdict:?}") };
    assert!(error.starts_with("body does not read as the type wanted"), "{error}");
}

/// So many jobs that are being worked on at once.
async fn under_way(bench: &Bench, jobs: usize) -> Gate {
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).concurrency(jobs).start().unwrap();
    for id in 0..jobs {
        bench.add("t", &id.to_string()).await;
        gate.begun().await;
    }
    gate
}

#[tokio::test]
async fn what_ends_together_is_settled_in_one_call() {
    let mut bench = Bench::new();
    let gate = under_way(&bench, 3).await;
    gate.go(3);
    assert_eq!(soon(bench.seen.batches.recv()).await, Some(3));
    assert_eq!(bench.totals().await.done, 3);
}

#[tokio::test(start_paused = true)]
async fn what_ends_while_the_store_is_told_is_settled_together_after() {
    let mut bench = Bench::new();
    let gate = under_way(&bench, 3).await;
    let silent = bench.store.answers.lock().await;
    gate.go(1);
    assert_eq!(soon(bench.seen.batches.recv()).await, Some(1));
    for _ in 0..2 {
        gate.go(1);
        // On one thread each has run to its end by then.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    drop(silent);
    assert_eq!(soon(bench.seen.batches.recv()).await, Some(2));
    assert_eq!(bench.totals().await.done, 3);
}

#[tokio::test(start_paused = true)]
async fn what_ends_waits_a_moment_and_no_longer_for_a_store_that_is_told_and_silent() {
    let mut bench = Bench::new();
    let gate = under_way(&bench, 2).await;
    let silent = bench.store.answers.lock().await;
    gate.go(1);
    assert_eq!(soon(bench.seen.batches.recv()).await, Some(1));
    gate.go(1);
    assert_eq!(soon(bench.seen.batches.recv()).await, Some(1));
    drop(silent);
    assert_eq!(bench.totals().await.done, 2);
}
