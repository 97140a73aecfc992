use std::collections::VecDeque;
use std::sync::Mutex;

use linger::Job;
use linger::history::Report;
use linger::job::Id;
use linger::queue::{Ask, Lane};
use linger::store::memory::Memory;
use linger::time::{HOUR, MINUTE};
use linger::worker::{Limits, Runner, Totals};

use super::*;
use crate::registry::{Registration, State};

/// Calls nobody, and does as it was told.
#[derive(Clone, Default)]
struct Fake {
    /// What the next calls do; those after them are done.
    next: Arc<Mutex<VecDeque<Does>>>,
    /// The host of each call, and what it was given.
    calls: Arc<Mutex<Vec<(String, Duration)>>>,
}

/// What a call does.
enum Does {
    Answers(Outcome),
    /// Answers when so much time has passed.
    Takes(Duration, Outcome),
    Hangs,
}

impl Call for Fake {
    async fn call(&self, url: &str, _: &Delivery, within: Duration) -> Outcome {
        let host = url.split(['/', ':']).nth(3).unwrap().to_owned();
        self.calls.lock().unwrap().push((host, within));
        let next = self.next.lock().unwrap().pop_front();
        match next {
            None => Outcome::done(),
            Some(Does::Answers(outcome)) => outcome,
            Some(Does::Takes(time, outcome)) => {
                tokio::time::sleep(time).await;
                outcome
            }
            Some(Does::Hangs) => std::future::pending().await,
        }
    }
}

/// A registry of its own, and the sink that is tried.
struct Bench {
    store: Arc<Memory>,
    registry: Arc<Registry<Memory>>,
    fake: Fake,
    workers: Workers<Fake, Memory>,
}

impl Bench {
    /// With these instances of `shop`, for topic `t`.
    async fn new(names: &[&str]) -> Bench {
        let store = Arc::new(Memory::default());
        let registry = Arc::new(Registry::open(store.clone()).await.unwrap());
        let fake = Fake::default();
        let workers = Workers::new(registry.clone(), fake.clone());
        let bench = Bench { store, registry, fake, workers };
        for name in names {
            bench.register(name, "shop", "t").await;
        }
        bench
    }

    async fn register(&self, name: &str, app: &str, topic: &str) {
        let (id, app, topic) = (id(name), app.parse().unwrap(), topic.parse().unwrap());
        let url = format!("http://{name}/jobs?key=secret").parse().unwrap();
        let new = Registration::new(Some(id), app, vec![topic], url, 10 * MINUTE).unwrap();
        self.registry.register(new, 100).await.unwrap();
    }

    /// What the next calls do.
    fn calls_do(&self, does: impl IntoIterator<Item = Does>) {
        self.fake.next.lock().unwrap().extend(does);
    }

    /// A job that was handed out, for this target.
    async fn delivery(&self, target: &str) -> Delivery {
        let now = self.store.clock().now().time();
        let job = Job::new("t", "").target(target).check(now).unwrap();
        self.store.add_all(vec![job]).await.unwrap();
        let ask = Ask { lane: Lane::Push, ..Ask::one("t".parse().unwrap()) };
        self.store.pop(ask).await.unwrap().pop().expect("it is due")
    }

    /// Has a job done that may take so long.
    async fn work_within(&self, within: Duration) -> Outcome {
        let job = Delivery { within, ..self.delivery("worker:shop").await };
        self.workers.work(job).await
    }

    async fn work(&self) -> Outcome {
        self.work_within(30 * SECOND).await
    }

    /// Who was called since this was last asked.
    fn called(&self) -> String {
        self.fake.calls.lock().unwrap().drain(..).map(|(host, _)| host).collect()
    }

    /// What they were given.
    fn shares(&self) -> Vec<Duration> {
        self.fake.calls.lock().unwrap().drain(..).map(|(_, within)| within).collect()
    }

    /// Deliveries, failures and the last error of an instance.
    fn health(&self, name: &str) -> (u64, u64, Option<String>) {
        let health = self.registry.get(&id(name)).unwrap().health;
        let error = health.last_error.map(|error| error.to_string());
        (health.deliveries, health.failures, error)
    }
}

fn id(name: &str) -> Id {
    name.parse().unwrap()
}

fn down(n: usize) -> impl Iterator<Item = Does> {
    (0..n).map(|_| Does::Answers(Outcome::down("connection refused")))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test]
async fn jobs_go_to_the_instances_by_turns() {
    let bench = Bench::new(&["a", "b", "c"]).await;
    for _ in 0..4 {
        assert_eq!(bench.work().await, Outcome::done());
    }
    assert_eq!(bench.called(), "abca");
    assert_eq!(bench.health("a"), (2, 0, None));
}

#[tokio::test]
async fn a_target_names_an_application_or_none() {
    let bench = Bench::new(&["a"]).await;
    bench.register("m", "mail", "t").await;
    bench.register("x", "mail", "other").await;
    for (target, called) in
        [("worker:", "a"), ("worker:", "m"), ("worker:mail", "m"), ("worker:shop", "a")]
    {
        let job = bench.delivery(target).await;
        assert_eq!(bench.workers.work(job).await, Outcome::done(), "{target}");
        assert_eq!(bench.called(), called, "{target}");
    }
}

#[tokio::test]
async fn one_that_is_down_is_followed_by_the_next() {
    let bench = Bench::new(&["a", "b", "c"]).await;
    bench.calls_do(down(1));
    assert_eq!(bench.work().await, Outcome::done());
    assert_eq!(bench.called(), "ab");
    assert_eq!(bench.health("a"), (1, 1, Some("connection refused".into())));
    assert_eq!(bench.health("b"), (1, 0, None));
    // It is not the first to be called for a while.
    for _ in 0..2 {
        bench.work().await;
    }
    assert_eq!(bench.called(), "bc");
}

#[tokio::test]
async fn only_one_that_is_down_is_followed() {
    let bench = Bench::new(&["a", "b"]).await;
    for outcome in [Outcome::done(), Outcome::again(), Outcome::leave()] {
        bench.calls_do([Does::Answers(outcome.clone())]);
        assert_eq!(bench.work().await, outcome);
        assert_eq!(bench.called().len(), 1, "{outcome:?}");
    }
    bench.calls_do([Does::Answers(Outcome::failed("status 400"))]);
    let refused = bench.work().await;
    assert_eq!(refused, Outcome::failed("worker `b` at http://b/jobs: status 400"));
    assert_eq!(bench.health("b"), (2, 0, None), "it did answer");
}

#[tokio::test]
async fn three_are_tried_at_most_and_the_last_counts() {
    let bench = Bench::new(&["a", "b", "c", "d"]).await;
    bench.calls_do(down(4));
    let outcome = bench.work().await;
    assert_eq!(outcome, Outcome::down("worker `c` at http://c/jobs: connection refused"));
    assert_eq!(bench.called(), "abc");
}

#[tokio::test]
async fn what_else_an_outcome_says_is_kept() {
    let bench = Bench::new(&["a"]).await;
    let report = Report { status: Some(503), excerpt: Some("busy".into()) };
    let busy = |error| Outcome::down(error).retry_in(MINUTE).report(report.clone());
    bench.calls_do([Does::Answers(busy("status 503"))]);
    assert_eq!(bench.work().await, busy("worker `a` at http://a/jobs: status 503"));
    let gone = |error| Outcome::dead(error).report(report.clone());
    bench.calls_do([Does::Answers(gone("status 410"))]);
    assert_eq!(bench.work().await, gone("worker `a` at http://a/jobs: status 410"));
}

#[tokio::test(start_paused = true)]
async fn the_time_is_shared_by_those_that_are_tried() {
    use Does::{Answers, Hangs, Takes};
    let refused = || Outcome::down("connection refused");
    for (within, does, shares) in [
        (ms(30_000), vec![Hangs, Hangs, Hangs], vec![ms(10_000), ms(10_000), ms(10_000)]),
        (ms(30_000), vec![Answers(refused()), Hangs], vec![ms(10_000), ms(15_000), ms(15_000)]),
        (
            ms(30_000),
            vec![Takes(ms(6000), refused()), Takes(ms(4000), refused())],
            vec![ms(10_000), ms(12_000), ms(20_000)],
        ),
        // None gets less than a second while there is one.
        (ms(2500), vec![Hangs, Hangs, Hangs], vec![ms(1000), ms(1000), ms(500)]),
        (ms(2000), vec![Hangs, Hangs, Hangs], vec![ms(1000), ms(1000)]),
        (ms(300), vec![Hangs, Hangs, Hangs], vec![ms(300)]),
    ] {
        let bench = Bench::new(&["a", "b", "c", "d"]).await;
        bench.calls_do(does);
        let began = Instant::now();
        bench.work_within(within).await;
        assert!(began.elapsed() <= within + ms(5), "{within:?}");
        assert_eq!(bench.shares(), shares, "{within:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_answer_is_down() {
    let bench = Bench::new(&["a"]).await;
    bench.calls_do([Does::Hangs]);
    let outcome = bench.work_within(5 * SECOND).await;
    assert_eq!(outcome, Outcome::down("worker `a` at http://a/jobs: took longer than 5s"));
    assert_eq!(bench.health("a"), (1, 1, Some("took longer than 5s".into())));
}

#[tokio::test]
async fn an_attempt_that_is_broken_off_counts_against_its_instance() {
    let bench = Bench::new(&["a"]).await;
    bench.calls_do([Does::Hangs]);
    {
        let mut work = Box::pin(bench.work());
        let is_called =
            |_: &mut std::task::Context<'_>| match bench.fake.calls.lock().unwrap().len() {
                1 => std::task::Poll::Ready(()),
                _ => std::task::Poll::Pending,
            };
        tokio::select! {
            biased;
            _ = &mut work => panic!("it hangs"),
            () = std::future::poll_fn(is_called) => {}
        }
        assert_eq!(bench.registry.get(&id("a")).unwrap().health.under_way, 1);
    }
    assert_eq!(bench.registry.get(&id("a")).unwrap().health.under_way, 0);
    assert_eq!(bench.health("a"), (1, 1, Some("it did not answer in time".into())));
}

#[tokio::test]
async fn without_a_live_instance_nothing_is_begun() {
    let bench = Bench::new(&[]).await;
    assert_eq!(bench.work().await, Outcome::not_now());
    bench.register("m", "mail", "t").await;
    bench.register("s", "shop", "other").await;
    assert_eq!(bench.work().await, Outcome::not_now());
    bench.register("a", "shop", "t").await;
    bench.registry.heartbeat(&id("a"), Some(State::Draining)).await.unwrap();
    assert_eq!(bench.work().await, Outcome::not_now());
    assert_eq!(bench.called(), "");
    bench.registry.heartbeat(&id("a"), Some(State::Live)).await.unwrap();
    assert_eq!(bench.work().await, Outcome::done());
}

#[tokio::test]
async fn a_name_that_nobody_can_have_is_not_waited_for() {
    let bench = Bench::new(&["a"]).await;
    let job = bench.delivery("worker:a/b").await;
    let why = "app `a/b` has blanks, control characters or slashes; leave them out";
    assert_eq!(bench.workers.work(job).await, Outcome::dead(why));
}

/// Waits until a runner has counted this.
async fn counted(runner: &Runner<Memory>, what: impl Fn(Totals) -> bool) {
    let wait = async {
        while !what(runner.totals()) {
            tokio::task::yield_now().await;
        }
    };
    timeout(MINUTE, wait).await.expect("it is counted");
}

#[tokio::test]
async fn jobs_wait_for_a_worker_and_go_to_it_when_it_comes() {
    let Bench { store, registry, fake, workers } = Bench::new(&[]).await;
    let runner = Runner::new(store.clone(), Lane::Push);
    // Only one who comes may open it again.
    let limits = Limits { pause: HOUR, pause_max: HOUR, per_destination: 1, ..Limits::default() };
    runner.set_limits(limits).unwrap();
    runner.worker_for_all(workers).start().unwrap();
    let mut changes = registry.changes();
    let now = store.clock().now().time();
    let job = |n: usize, target: &str| Job::new("t", "").id(n.to_string()).target(target);
    let jobs = (0..6).map(|n| job(n, ["worker:", "worker:shop"][n % 2]).check(now).unwrap());
    store.add_all(jobs.collect()).await.unwrap();
    counted(&runner, |totals| totals.unbegun == 2).await;
    assert_eq!(runner.closed().len(), 2);

    let (app, topics) = ("shop".parse().unwrap(), vec!["t".parse().unwrap()]);
    let url = "http://a".parse().unwrap();
    let new = Registration::new(None, app, topics, url, MINUTE).unwrap();
    let (worker, _) = registry.register(new, 9).await.unwrap();
    changes.next().await.iter().for_each(|destination| runner.reopen(destination));
    counted(&runner, |totals| totals.done == 6).await;
    assert_eq!(runner.totals().unbegun, 2);
    assert_eq!(fake.calls.lock().unwrap().len(), 6);
    assert_eq!(registry.get(&worker.id).unwrap().health.deliveries, 6);
    runner.stop().await;
}
