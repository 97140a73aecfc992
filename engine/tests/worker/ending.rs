//! Drains, stops and drops: no job is lost by them, and no attempt.

use std::sync::Arc;

use linger::error::Code;
use linger::machine::Stage;
use linger::queue::{Lane, Verdict};
use linger::time::{HOUR, SECOND};
use linger::worker::{Drained, Runner};
use linger::{Delivery, Outcome};
use tokio::time::Instant;

use crate::bench::{Bench, Gate, soon};
use crate::spy::{Call, Fault};

#[tokio::test]
async fn a_drain_waits_for_workers_and_takes_no_more_jobs() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).concurrency(2).start().unwrap();
    bench.add("t", "1").await;
    gate.begun().await;
    let drain = bench.queue.drain(HOUR);
    tokio::pin!(drain);
    assert!(is_pending(&mut drain).await);
    bench.add("t", "2").await;
    gate.go(2);
    assert_eq!(soon(drain).await, Drained { ended: 1, released: 0 });
    assert_eq!(bench.queue.runner().totals().done, 1);
    assert_eq!(bench.job("t", "2").await.stage, Stage::Ready);
}

/// Whether the future has nothing to say after everyone else had their turn.
async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    tokio::select! {
        biased;
        _ = future => false,
        () = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        } => true,
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_past_its_deadline_cuts_workers_off_and_gives_the_attempts_back() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).concurrency(2).start().unwrap();
    bench.add("t", "1").await;
    bench.add("t", "2").await;
    gate.begun().await;
    gate.begun().await;
    let start = Instant::now();
    assert_eq!(soon(bench.queue.drain(10 * SECOND)).await, Drained { ended: 0, released: 2 });
    assert_eq!(start.elapsed().as_secs(), 10);
    for id in ["1", "2"] {
        let job = bench.job("t", id).await;
        assert_eq!((job.stage, job.attempt), (Stage::Ready, 0));
    }
    let totals = bench.queue.runner().totals();
    assert_eq!((totals.released, totals.running), (2, 0));
}

#[tokio::test]
async fn a_stop_cuts_workers_off_at_once() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    gate.begun().await;
    assert_eq!(soon(bench.queue.runner().stop()).await, Drained { ended: 0, released: 1 });
}

#[tokio::test]
async fn a_stop_cuts_a_drain_short_and_both_answer_the_same() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    gate.begun().await;
    let (drained, stopped) =
        soon(async { tokio::join!(bench.queue.drain(HOUR), bench.queue.runner().stop()) }).await;
    assert_eq!((drained, stopped), (Drained { ended: 0, released: 1 }, drained));
}

#[tokio::test]
async fn a_runner_that_never_began_is_drained_at_once() {
    let bench = Bench::new();
    assert_eq!(soon(bench.queue.drain(HOUR)).await, Drained::default());
}

#[tokio::test(start_paused = true)]
async fn jobs_are_given_back_to_a_store_that_is_away_for_a_moment() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    gate.begun().await;
    bench.store.fail_next(Call::Settle, Fault::Before);
    assert_eq!(soon(bench.queue.runner().stop()).await.released, 1);
    assert_eq!(bench.job("t", "1").await.stage, Stage::Ready);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_blocks_its_thread_does_not_hold_up_a_stop() {
    let bench = Bench::new();
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let worker = move |_: Delivery| {
        let blocked = blocked.clone();
        async move { Outcome::of(blocked.lock().unwrap().recv()) }
    };
    bench.queue.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    bench.counted(|totals| totals.running == 1).await;
    assert_eq!(soon(bench.queue.runner().stop()).await, Drained { ended: 0, released: 1 });
    unblock.send(()).unwrap();
}

#[tokio::test]
async fn a_job_deleted_under_a_worker_that_is_cut_off_is_counted_as_gone() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    gate.begun().await;
    bench.queue.delete("t", "1").await.unwrap();
    assert_eq!(soon(bench.queue.runner().stop()).await, Drained::default());
    assert_eq!(bench.queue.runner().totals().gone, 1);
}

#[tokio::test]
async fn dropping_the_last_clone_gives_the_jobs_back() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    let queue = linger::Linger::new(bench.store.clone());
    queue.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    gate.begun().await;
    let clone = queue.clone();
    drop(queue);
    bench.add("t", "2").await;
    gate.go(1);
    assert_eq!(bench.settled().await, (Verdict::Finish, Ok(())), "a clone keeps the workers");
    assert_eq!(gate.begun().await.id().as_str(), "2");
    drop(clone);
    let (verdict, answer) = bench.settled().await;
    assert!(matches!(verdict, Verdict::Release { .. }) && answer == Ok(()), "{verdict:?}");
    let job = bench.job("t", "2").await;
    assert_eq!((job.stage, job.attempt), (Stage::Ready, 0));
}

#[tokio::test]
async fn a_runner_that_is_dropped_leaves_no_task_and_no_handler_behind() {
    let bench = Bench::new();
    let alive = Arc::new(());
    let runner = Runner::new(bench.store.clone(), Lane::Pull);
    let held = alive.clone();
    let worker = move |_: Delivery| {
        let held = held.clone();
        async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok(())
        }
    };
    runner.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    soon(async {
        while runner.totals().running == 0 {
            tokio::task::yield_now().await;
        }
        drop(runner);
        let metrics = tokio::runtime::Handle::current().metrics();
        while metrics.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[tokio::test]
async fn a_drain_lets_go_of_a_worker_that_holds_the_queue_itself() {
    let bench = Bench::new();
    let queue = bench.queue.clone();
    let worker = move |job: Delivery| {
        let queue = queue.clone();
        async move { Outcome::of(queue.get("t", job.id().as_str()).await.map(|_| ())) }
    };
    bench.queue.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    let Bench { queue, store, mut seen, .. } = bench;
    assert_eq!(soon(seen.settles.recv()).await, Some((Verdict::Finish, Ok(()))));
    soon(queue.drain(HOUR)).await;
    drop(queue);
    assert_eq!(Arc::strong_count(&store), 1);
}

#[test]
fn a_runner_has_ended_when_its_runtime_is_gone() {
    let bench = Bench::new();
    let first = tokio::runtime::Builder::new_current_thread().build().unwrap();
    first.block_on(async {
        let (_gate, worker) = Gate::new();
        bench.queue.worker("t", worker).start().unwrap();
    });
    drop(first);
    let second = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    second.block_on(async {
        soon(bench.queue.drain(HOUR)).await;
        let refused = bench.queue.worker("t", |_: Delivery| async { Ok(()) }).start();
        assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    });
}
