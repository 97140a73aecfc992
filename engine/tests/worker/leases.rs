//! Leases that are kept, lost, or end while the store is away.

use linger::error::Code;
use linger::machine::Stage;
use linger::queue::{LetGo, Queue, Verdict};
use linger::time::SECOND;
use linger::{Delivery, Job};
use tokio::time::Instant;

use crate::bench::{Bench, Gate, soon};
use crate::spy::{Call, Fault};

const TOUCH: Verdict = Verdict::Touch { ttr: None };

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_kept_alive_keeps_its_lease_for_as_long_as_it_takes() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).keep_alive().start().unwrap();
    bench.add_job(Job::new("t", "").id("1").ttr(30 * SECOND)).await;
    gate.begun().await;
    let mut last = Instant::now();
    for _ in 0..10 {
        assert_eq!(bench.settled().await, (TOUCH, Ok(())));
        assert_eq!(last.elapsed().as_secs(), 10, "a third of ttr");
        last = Instant::now();
        bench.clock.advance(10 * SECOND);
    }
    let job = bench.job("t", "1").await;
    assert_eq!((job.stage, job.attempt, job.tally.timeouts), (Stage::Reserved, 1, 0));
    // The runner knows that the lease was extended: it still tells a store that was away.
    bench.store.fail_next(Call::Settle, Fault::Before);
    gate.go(1);
    assert_eq!(bench.settled().await, (Verdict::Finish, Err(Code::Unavailable)));
    assert_eq!(bench.settled().await, (Verdict::Finish, Ok(())));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_not_kept_alive_is_never_touched() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add_job(Job::new("t", "").id("1").ttr(30 * SECOND)).await;
    gate.begun().await;
    // On the paused clock: touches would come first, and no time is spent.
    tokio::time::sleep(60 * SECOND).await;
    gate.go(1);
    assert_eq!(bench.settled().await, (Verdict::Finish, Ok(())));
}

#[tokio::test(start_paused = true)]
async fn touching_survives_a_store_that_is_away_for_a_moment() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).keep_alive().start().unwrap();
    bench.store.fail_next(Call::Settle, Fault::Before);
    bench.add_job(Job::new("t", "").id("1").ttr(30 * SECOND)).await;
    gate.begun().await;
    assert_eq!(bench.settled().await, (TOUCH, Err(Code::Unavailable)));
    assert_eq!(bench.settled().await, (TOUCH, Ok(())));
}

#[tokio::test(start_paused = true)]
async fn touching_stops_when_the_lease_is_lost() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).keep_alive().start().unwrap();
    bench.add_job(Job::new("t", "").id("1").ttr(30 * SECOND)).await;
    gate.begun().await;
    bench.queue.delete("t", "1").await.unwrap();
    assert_eq!(bench.settled().await, (TOUCH, Err(Code::NotFound)));
    // On the paused clock, as above.
    tokio::time::sleep(60 * SECOND).await;
    gate.go(1);
    assert_eq!(bench.settled().await, (Verdict::Finish, Err(Code::NotFound)));
    assert_eq!(bench.totals().await.gone, 1);
}

#[tokio::test]
async fn all_leases_of_a_runner_are_tied_to_one_owner() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("a", worker.clone()).start().unwrap();
    bench.queue.worker("b", worker).start().unwrap();
    for topic in ["a", "b", "c"] {
        bench.add(topic, "1").await;
    }
    gate.begun().await;
    gate.begun().await;
    bench.queue.pop("c").await.unwrap().expect("it is due");
    let ask = soon(bench.seen.pops.recv()).await.unwrap();
    let owner = ask.terms.owner.expect("the runner has one");
    assert_eq!(bench.store.let_go(owner, LetGo::Released).await, Ok(2));
}

#[tokio::test]
async fn a_lost_lease_is_counted_and_changes_nothing() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add_job(Job::new("t", "").id("1").ttr(30 * SECOND)).await;
    gate.begun().await;
    bench.clock.advance(30 * SECOND);
    let other = bench.queue.pop("t").await.unwrap().expect("the lease ran out");
    gate.go(1);
    assert_eq!(bench.settled().await, (Verdict::Finish, Err(Code::LeaseLost)));
    let totals = bench.totals().await;
    assert_eq!((totals.lost, totals.done), (1, 0));
    let job = bench.job("t", "1").await;
    assert_eq!((job.stage, job.version), (Stage::Reserved, other.job.version));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_the_store_cannot_take_yet_is_told_again() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.store.fail_next(Call::Settle, Fault::Before);
    }
    bench.queue.worker("t", |_: Delivery| async { Ok(()) }).start().unwrap();
    bench.add("t", "1").await;
    let mut told_at = Vec::new();
    for _ in 0..3 {
        assert_eq!(bench.settled().await, (Verdict::Finish, Err(Code::Unavailable)));
        told_at.push(Instant::now());
    }
    assert_eq!(bench.settled().await, (Verdict::Finish, Ok(())));
    assert!(told_at[1] - told_at[0] < told_at[2] - told_at[1], "the pauses grow");
    assert_eq!(bench.totals().await.done, 1);
}

#[tokio::test(start_paused = true)]
async fn a_finish_whose_answer_was_lost_is_done() {
    let mut bench = Bench::new();
    bench.store.fail_next(Call::Settle, Fault::After);
    bench.queue.worker("t", |_: Delivery| async { Ok(()) }).start().unwrap();
    bench.add("t", "1").await;
    assert_eq!(bench.settled().await, (Verdict::Finish, Ok(())));
    assert_eq!(bench.settled().await, (Verdict::Finish, Err(Code::NotFound)));
    let totals = bench.totals().await;
    assert_eq!((totals.done, totals.gone), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn telling_an_outcome_is_given_up_in_the_end_and_the_job_comes_again() {
    let mut bench = Bench::new();
    for _ in 0..8 {
        bench.store.fail_next(Call::Settle, Fault::Before);
    }
    let (mut gate, worker) = Gate::new();
    gate.go(2);
    bench.queue.worker("t", worker).start().unwrap();
    bench.add_job(Job::new("t", "").id("1").ttr(30 * SECOND)).await;
    gate.begun().await;
    for _ in 0..8 {
        assert_eq!(bench.settled().await, (Verdict::Finish, Err(Code::Unavailable)));
    }
    tokio::time::resume();
    bench.clock.advance(30 * SECOND);
    assert_eq!(gate.begun().await.job.attempt, 2);
    assert_eq!(bench.settled().await, (Verdict::Finish, Ok(())));
    let totals = bench.totals().await;
    assert_eq!((totals.unsettled, totals.done), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_not_told_again_once_the_lease_is_over() {
    let mut bench = Bench::new();
    bench.store.fail_next(Call::Settle, Fault::Before);
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add_job(Job::new("t", "").id("1").ttr(30 * SECOND)).await;
    gate.begun().await;
    bench.clock.advance(30 * SECOND);
    gate.go(1);
    assert_eq!(bench.settled().await, (Verdict::Finish, Err(Code::Unavailable)));
    assert_eq!(soon(gate.begun()).await.job.attempt, 2);
    assert_eq!(bench.queue.runner().totals().unsettled, 1);
}
