//! A runner that pushes: one destination that is slow, down or gone holds up no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use linger::job::Destination;
use linger::machine::Stage;
use linger::queue::Lane;
use linger::time::SECOND;
use linger::worker::{DestinationState, Limits, Percentiles, Runner, Totals, Worker};
use linger::{Delivery, Job, Outcome};

use crate::bench::{Bench, Gate, soon};
use crate::spy::Spy;

/// A runner of the push lane with this worker for all topics.
fn pushing(bench: &Bench, worker: impl Worker) -> Runner<Spy> {
    let runner = Runner::new(bench.store.clone(), Lane::Push);
    runner.worker_for_all(worker).concurrency(256).start().unwrap();
    runner
}

/// Waits until the runner has counted this. On tokio's paused clock, which moves on only when
/// everyone waits.
async fn counted(runner: &Runner<Spy>, what: impl Fn(Totals) -> bool) {
    let mut look = tokio::time::interval(Duration::from_millis(1));
    while !what(runner.totals()) {
        look.tick().await;
    }
}

fn to(url: &str, id: usize) -> Job {
    Job::new("t", "").id(format!("{url} {id}")).target(url)
}

#[tokio::test(start_paused = true)]
async fn all_for_a_healthy_destination_end_while_one_hangs_and_one_refuses() {
    let bench = Bench::new();
    for n in 0..100 {
        for url in ["http://hangs", "http://refuses", "http://well"] {
            bench.add_job(to(url, n)).await;
        }
    }
    let worker = |job: Delivery| async move {
        match job.target.as_ref().expect("it is pushed").as_str() {
            "http://hangs" => std::future::pending().await,
            "http://refuses" => Outcome::down("connection refused"),
            _ => Outcome::done(),
        }
    };
    let runner = pushing(&bench, worker);
    counted(&runner, |totals| totals.done == 100).await;
    let counts = bench.counts("t").await;
    assert_eq!(counts.reserved, 32, "no more hang than a destination has slots for");
    // Those that were under way when it was found to be down have failed; the others wait.
    assert!((8..=32).contains(&counts.retry), "{counts:?}");
    let mut untried = 0;
    for n in 0..100 {
        untried += u64::from(bench.job("t", &format!("http://refuses {n}")).await.attempt == 0);
    }
    assert_eq!(untried, 100 - counts.retry, "what waits uses no attempt");
    assert_eq!(runner.closed().len(), 1);
    soon(runner.stop()).await;
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_was_down_is_probed_and_then_served() {
    let bench = Bench::new();
    let (up, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let worker = {
        let (up, calls) = (up.clone(), calls.clone());
        move |_: Delivery| {
            calls.fetch_add(1, Ordering::SeqCst);
            let up = up.load(Ordering::SeqCst);
            async move { if up { Outcome::done() } else { Outcome::down("refused") } }
        }
    };
    let runner = pushing(&bench, worker);
    runner.set_limits(Limits { failures: 1, per_destination: 1, ..Limits::default() }).unwrap();
    for n in 0..10 {
        bench.add_job(to("http://a", n)).await;
    }
    counted(&runner, |totals| totals.failed == 3).await;
    assert_eq!(calls.load(Ordering::SeqCst), 3, "one job at a time finds out");
    up.store(true, Ordering::SeqCst);
    counted(&runner, |totals| totals.done == 7).await;
    assert_eq!(runner.closed(), []);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_a_failed_one() {
    let bench = Bench::new();
    let runner = pushing(&bench, |_: Delivery| std::future::pending::<Outcome>());
    bench.add_job(to("http://a", 1).ttr(10 * SECOND)).await;
    let begun = tokio::time::Instant::now();
    counted(&runner, |totals| totals.failed == 1).await;
    assert_eq!(begun.elapsed().as_secs(), 10);
    let job = bench.job("t", "http://a 1").await;
    let error = job.last_error.as_deref();
    assert_eq!((job.stage, error), (Stage::Retry, Some("took longer than 10s")));
}

#[tokio::test(start_paused = true)]
async fn with_nobody_to_take_them_jobs_wait_and_use_no_attempts() {
    let bench = Bench::new();
    let (there, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let worker = {
        let (there, calls) = (there.clone(), calls.clone());
        move |_: Delivery| {
            calls.fetch_add(1, Ordering::SeqCst);
            let there = there.load(Ordering::SeqCst);
            async move { if there { Outcome::done() } else { Outcome::not_now() } }
        }
    };
    let runner = pushing(&bench, worker);
    runner.set_limits(Limits { per_destination: 1, ..Limits::default() }).unwrap();
    for n in 0..5 {
        bench.add_job(to("worker:shop", n)).await;
    }
    counted(&runner, |totals| totals.unbegun == 1).await;
    for n in 0..5 {
        let job = bench.job("t", &format!("worker:shop {n}")).await;
        assert_eq!((job.stage, job.attempt, job.history.len()), (Stage::Ready, 0, 1));
    }
    there.store(true, Ordering::SeqCst);
    let begun = tokio::time::Instant::now();
    let target = "worker:shop".parse().unwrap();
    runner.reopen(&Destination::of(&"t".parse().unwrap(), &target));
    counted(&runner, |totals| totals.done == 5).await;
    assert!(begun.elapsed() < SECOND, "it did not wait for a probe");
    assert_eq!(calls.load(Ordering::SeqCst), 6);
}

#[tokio::test(start_paused = true)]
async fn a_topic_with_many_jobs_leaves_slots_for_others() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    let runner = pushing(&bench, worker);
    runner.concurrency(6).unwrap();
    for n in 0..20 {
        bench.add_job(to(&format!("http://{n}"), n)).await;
    }
    for _ in 0..3 {
        gate.begun().await;
    }
    bench.add_job(Job::new("other", "").id("1").target("http://0")).await;
    assert_eq!(gate.begun().await.topic().as_str(), "other");
    bench.add_job(Job::new("third", "").id("1").target("http://0")).await;
    assert_eq!(gate.begun().await.topic().as_str(), "third");
    gate.go(22);
    counted(&runner, |totals| totals.done == 22).await;
}

#[tokio::test(start_paused = true)]
async fn how_pushes_go_is_told_by_destination() {
    let bench = Bench::new();
    let clock = bench.clock.clone();
    let runner = pushing(&bench, move |job: Delivery| {
        let clock = clock.clone();
        async move {
            clock.advance(Duration::from_millis(10));
            match job.target.as_ref().expect("it is pushed").as_str() {
                "http://a/1" => Outcome::done(),
                "http://a/2" => Outcome::dead("x".repeat(5000)),
                "worker:shop" => Outcome::not_now(),
                _ => Outcome::down("refused"),
            }
        }
    });
    runner.set_limits(Limits { failures: 1, ..Limits::default() }).unwrap();
    for (n, url) in ["http://a/1", "http://a/2", "http://b/", "worker:shop"].iter().enumerate() {
        bench.add_job(to(url, n)).await;
        counted(&runner, |totals| {
            (totals.done + totals.dead + totals.failed + totals.unbegun) as usize > n
        })
        .await;
    }
    let told = runner.destinations("", 10);
    let names: Vec<&str> = told.iter().map(|info| info.destination.as_str()).collect();
    assert_eq!(names, ["http://a", "http://b", "worker:shop/t"]);
    let [a, b, shop] = &told[..] else { panic!("{told:?}") };
    assert_eq!((a.state, a.under_way, a.deliveries, a.failures), (DestinationState::Open, 0, 2, 1));
    let Some(Percentiles { p50, p99 }) = a.latency else { panic!("{a:?}") };
    let near = Duration::from_millis(8)..Duration::from_millis(12);
    assert!(near.contains(&p50) && near.contains(&p99), "{a:?}");
    assert!(a.last_success < a.last_failure.as_ref().map(|(at, _)| *at), "{a:?}");
    assert!(matches!(b.state, DestinationState::Closed { .. }), "{b:?}");
    assert_eq!((b.deliveries, b.failures, b.last_success), (1, 1, None));
    assert!(matches!(shop.state, DestinationState::Closed { .. }), "{shop:?}");
    assert_eq!((shop.deliveries, shop.latency), (0, None), "nobody was there");
    let page = runner.destinations("http://a", 1);
    assert_eq!(page.iter().map(|info| info.destination.as_str()).collect::<Vec<_>>(), ["http://b"]);

    let failed = runner.failed_pushes();
    let ids: Vec<&str> = failed.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["http://b/ 2", "http://a/2 1"], "the newest first");
    assert_eq!((&*failed[0].error, failed[0].attempt), ("refused", 1));
    assert_eq!(failed[1].error.len(), 1024, "no more is kept than of a job");
    soon(runner.stop()).await;
}
