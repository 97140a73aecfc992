//! How many jobs are worked on at once, and which are asked for.

use std::sync::Arc;

use linger::error::Code;
use linger::queue::{Lane, Source};
use linger::topic::Topic;
use linger::worker::{CONCURRENCY_DEFAULT, Runner};
use linger::{Delivery, Job, Linger};
use tokio::sync::mpsc::unbounded_channel;

use crate::bench::{Bench, Gate, soon};
use crate::spy::{Call, Fault};

#[tokio::test]
async fn a_topic_has_never_more_jobs_leased_than_it_has_slots() {
    let bench = Bench::new();
    for id in 0..20 {
        bench.add("t", &id.to_string()).await;
    }
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).concurrency(3).start().unwrap();
    for _ in 0..3 {
        gate.begun().await;
    }
    for left in (0..17).rev() {
        gate.go(1);
        gate.begun().await;
        let counts = bench.counts("t").await;
        assert_eq!((counts.reserved, counts.ready), (3, left));
    }
    gate.go(3);
    assert_eq!(bench.totals().await.done, 20);
    assert_eq!(gate.most(), 3);
}

#[tokio::test]
async fn the_bound_over_all_topics_holds_besides_each_topics_own() {
    let bench = Bench::new();
    bench.queue.runner().concurrency(3).unwrap();
    let (mut gate, worker) = Gate::new();
    for topic in ["a", "b"] {
        for id in 0..10 {
            bench.add(topic, &id.to_string()).await;
        }
        bench.queue.worker(topic, worker.clone()).concurrency(2).start().unwrap();
    }
    for _ in 0..3 {
        gate.begun().await;
    }
    for _ in 0..10 {
        gate.go(1);
        gate.begun().await;
        let (a, b) = (bench.counts("a").await.reserved, bench.counts("b").await.reserved);
        assert!(a <= 2 && b <= 2 && a + b == 3, "{a} of a and {b} of b are leased");
    }
    gate.go(10);
    for _ in 0..7 {
        gate.begun().await;
    }
    assert_eq!(bench.totals().await.done, 20);
    assert_eq!(gate.most(), 3);
}

#[tokio::test]
async fn a_topic_is_worked_on_one_at_a_time_unless_told_otherwise() {
    let mut bench = Bench::new();
    let (_gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    let ask = soon(bench.seen.pops.recv()).await.unwrap();
    assert_eq!(ask.max as usize, CONCURRENCY_DEFAULT);
}

#[tokio::test]
async fn of_several_workers_of_a_topic_the_smallest_concurrency_holds() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).concurrency(8).start().unwrap();
    bench.queue.worker("t", |_: Delivery| async { Ok(()) }).concurrency(2).start().unwrap();
    bench.queue.worker("t", |_: Delivery| async { Ok(()) }).start().unwrap();
    for id in 0..6 {
        bench.add("t", &id.to_string()).await;
    }
    for _ in 0..6 {
        gate.begun().await;
        gate.go(1);
    }
    assert_eq!(bench.totals().await.done, 6);
    assert!(gate.most() <= 2, "{} at once", gate.most());
}

#[tokio::test]
async fn a_topic_without_a_free_slot_does_not_hold_up_another() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("a", worker.clone()).start().unwrap();
    bench.queue.worker("b", worker).start().unwrap();
    bench.add("a", "1").await;
    bench.add("a", "2").await;
    assert_eq!(gate.begun().await.topic().as_str(), "a");
    bench.add("b", "1").await;
    assert_eq!(gate.begun().await.topic().as_str(), "b");
    assert_eq!(bench.counts("a").await.reserved, 1);
    // Every slot is taken, so nothing is asked for; the first that is freed opens its topic again.
    while bench.seen.pops.try_recv().is_ok() {}
    gate.go(1);
    let asked = soon(bench.seen.pops.recv()).await.unwrap();
    assert_eq!(asked.from, these(["a"]));
}

#[tokio::test]
async fn the_pop_that_waits_is_asked_anew_when_a_slot_opens_another_topic() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("a", worker.clone()).start().unwrap();
    bench.queue.worker("b", worker).concurrency(2).start().unwrap();
    bench.add("a", "1").await;
    gate.begun().await;
    while soon(bench.seen.pops.recv()).await.unwrap().from != these(["b"]) {}
    gate.go(1);
    assert_eq!(soon(bench.seen.pops.recv()).await.unwrap().from, these(["a", "b"]));
    // One more slot of a topic that is asked for already changes nothing: the pop waits on.
    bench.add("b", "1").await;
    gate.begun().await;
    assert_eq!(soon(bench.seen.pops.recv()).await.unwrap().from, these(["a", "b"]));
    gate.go(1);
    bench.counted(|totals| totals.done == 2 && totals.running == 0).await;
    assert!(bench.seen.pops.try_recv().is_err());
}

fn these<const N: usize>(topics: [&str; N]) -> Source {
    Source::These(topics.map(|topic| topic.parse::<Topic>().unwrap()).to_vec())
}

#[tokio::test]
async fn a_bound_that_is_lowered_holds_for_the_pop_that_waits_too() {
    let mut bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).concurrency(5).start().unwrap();
    assert_eq!(soon(bench.seen.pops.recv()).await.unwrap().max, 5);
    bench.queue.runner().concurrency(2).unwrap();
    assert_eq!(soon(bench.seen.pops.recv()).await.unwrap().max, 2);
    let jobs = (0..5).map(|id| Job::new("t", "").id(id.to_string()));
    bench.queue.add_all(jobs).await.unwrap();
    gate.go(5);
    for _ in 0..5 {
        gate.begun().await;
    }
    assert_eq!(bench.totals().await.done, 5);
    assert!(gate.most() <= 2, "{} at once", gate.most());
}

#[tokio::test]
async fn a_worker_started_later_serves_jobs_that_wait_already() {
    let bench = Bench::new();
    bench.add("b", "1").await;
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("a", worker.clone()).start().unwrap();
    bench.add("a", "1").await;
    assert_eq!(gate.begun().await.topic().as_str(), "a");
    bench.queue.worker("b", worker).start().unwrap();
    assert_eq!(gate.begun().await.topic().as_str(), "b");
}

#[tokio::test]
async fn a_second_worker_of_a_topic_is_called_from_the_next_job_on() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add("t", "1").await;
    gate.begun().await;
    let (mut later, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add("t", "2").await;
    gate.go(2);
    assert_eq!(later.begun().await.id().as_str(), "2");
}

#[tokio::test]
async fn a_job_that_falls_due_reaches_the_worker_that_waits() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    bench.add_job(Job::new("t", "").id("1").delay(linger::time::MINUTE)).await;
    bench.clock.advance(linger::time::MINUTE);
    assert_eq!(gate.begun().await.id().as_str(), "1");
}

#[tokio::test]
async fn a_runner_of_the_push_lane_gets_jobs_with_a_target_of_every_topic() {
    let bench = Bench::new();
    let (mut gate, worker) = Gate::new();
    let runner = Runner::new(bench.store.clone(), Lane::Push);
    runner.worker_for_all(worker).concurrency(2).start().unwrap();
    bench.add("a", "popped").await;
    for topic in ["a", "b", "c"] {
        bench.add_job(Job::new(topic, "").id("pushed").target("https://example.com")).await;
    }
    let mut topics = vec![gate.begun().await, gate.begun().await];
    assert_eq!(runner.totals().running, 2);
    gate.go(3);
    topics.push(gate.begun().await);
    let mut pushed: Vec<_> =
        topics.iter().map(|job| (job.topic().as_str(), job.id().as_str())).collect();
    pushed.sort();
    assert_eq!(pushed, [("a", "pushed"), ("b", "pushed"), ("c", "pushed")]);
    assert!(topics.iter().all(|job| job.target.is_some()));
    soon(runner.drain(linger::time::SECOND)).await;
    assert_eq!(gate.most(), 2);
    assert_eq!(bench.counts("a").await.ready, 1, "the job to be popped is left alone");
}

#[tokio::test]
async fn a_runner_serves_topics_by_name_or_all_of_them() {
    let bench = Bench::new();
    let runner = Runner::new(bench.store.clone(), Lane::Pull);
    let worker = |_: Delivery| async { Ok(()) };
    runner.worker("t", worker).start().unwrap();
    let refused = runner.worker_for_all(worker).start().unwrap_err();
    assert_eq!(refused.at_field(), Some("topic"));
}

#[tokio::test(start_paused = true)]
async fn a_pop_that_is_refused_is_asked_again_after_a_growing_pause() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.store.fail_next(Call::Pop, Fault::Before);
    }
    bench.add("t", "1").await;
    let (mut gate, worker) = Gate::new();
    bench.queue.worker("t", worker).start().unwrap();
    let mut asked_at = Vec::new();
    for _ in 0..5 {
        soon(bench.seen.pops.recv()).await.unwrap();
        asked_at.push(tokio::time::Instant::now());
    }
    let pauses: Vec<_> = asked_at.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.windows(2).all(|two| two[0] < two[1]), "{pauses:?}");
    gate.begun().await;
}

#[tokio::test]
async fn a_worker_that_cannot_be_started_says_why() {
    let bench = Bench::new();
    let worker = |_: Delivery| async { Ok(()) };
    let refused = bench.queue.worker(" blank", worker).start().unwrap_err();
    assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("topic")));
    let refused = bench.queue.worker("t", worker).concurrency(0).start().unwrap_err();
    assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("concurrency")));
    let refused = bench.queue.runner().concurrency(0).unwrap_err();
    assert_eq!(refused.at_field(), Some("concurrency"));
    bench.queue.drain(linger::time::SECOND).await;
    let refused = bench.queue.worker("t", worker).start().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[test]
fn a_worker_is_refused_outside_of_a_runtime() {
    let refused = Linger::memory().worker("t", |_: Delivery| async { Ok(()) }).start().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_jobs_on_many_threads_are_each_done_once() {
    let queue = Linger::memory();
    queue.runner().concurrency(10).unwrap();
    let (done, mut seen) = unbounded_channel();
    let running = Arc::new(tokio::sync::Semaphore::new(10));
    for topic in ["a", "b", "c"] {
        let (done, running) = (done.clone(), running.clone());
        let worker = move |job: Delivery| {
            let (done, running) = (done.clone(), running.clone());
            async move {
                let _one = running.try_acquire()?;
                tokio::task::yield_now().await;
                done.send(format!("{} {}", job.topic(), job.id()))?;
                Ok(())
            }
        };
        queue.worker(topic, worker).concurrency(5).start().unwrap();
        let jobs = (0..300).map(|id| Job::new(topic, "").id(id.to_string()));
        assert!(queue.add_all(jobs).await.unwrap().iter().all(Result::is_ok));
    }
    let mut all = Vec::new();
    while all.len() < 900 {
        all.push(soon(seen.recv()).await.unwrap());
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 900);
    soon(queue.drain(linger::time::MINUTE)).await;
    assert_eq!(queue.runner().totals().done, 900);
}
