//! The stores on the machine's own clock, with many threads: nothing is lost, nothing is handed out
//! twice, and nobody sleeps through what the clock brings.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linger::Job;
use linger::job::Ttr;
use linger::queue::{Ask, Delivery, Queue, Settle, Source, Terms, TopicChange, Verdict};
use linger::retry::Retry;
use linger::store::Options;
use linger::store::embedded::{self, Durability, Embedded};
use linger::store::memory::Memory;
use linger::time::{HOUR, Time};
use linger::topic::{Settings, Topic};
use tokio::sync::Notify;
use tokio::task::{JoinSet, yield_now};

/// Far more than any of these takes: who hangs is to fail.
const TEST_MAX: Duration = Duration::from_secs(60);
const TOPICS: [&str; 3] = ["a", "b", "c"];
const ADDERS: u64 = 4;
const CONSUMERS: u64 = 8;

fn topic(name: &str) -> Topic {
    name.parse().expect("a test names topics rightly")
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// So much of everything, or as much as that when there is time.
fn rounds(short: u64, long: u64) -> u64 {
    if std::env::var_os("LINGER_TEST_LONG").is_some() { long } else { short }
}

/// Plain chance: which thread comes first is not repeatable anyway.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

async fn add(store: &impl Queue, job: Job) {
    let job = job.retry(Retry::no_limit()).check(Time::MIN).expect("a test writes jobs rightly");
    store.add_all(vec![job]).await.unwrap().remove(0).unwrap();
}

async fn settle(store: &impl Queue, delivery: &Delivery, verdict: Verdict) {
    let settle = Settle::delivery(delivery, verdict);
    store.settle(vec![settle]).await.unwrap().remove(0).expect("the lease is ours");
}

fn ask(chance: &mut Chance) -> Ask {
    let from = match chance.below(3) {
        0 => Source::Any,
        1 => Source::These(TOPICS.map(topic).to_vec()),
        _ => Source::These(vec![topic(TOPICS[chance.below(3) as usize])]),
    };
    let terms = Terms { ttr: Some(Ttr::new(HOUR).unwrap()), owner: None, grace: None };
    Ask { from, max: 1 + chance.below(3) as u32, wait: HOUR, terms, ..Ask::one(topic("a")) }
}

/// What the consumers know of each job: who holds it, and how often it has failed.
#[derive(Default)]
struct Seen {
    jobs: Mutex<HashMap<u64, (bool, u32)>>,
    finished: AtomicU64,
    all_finished: Notify,
}

impl Seen {
    fn taken(&self, delivery: &Delivery) {
        let mut jobs = self.jobs.lock().unwrap();
        let (held, failures) = jobs.entry(delivery.job.number).or_default();
        assert!(!std::mem::replace(held, true), "{} was handed out twice", delivery.id());
        assert_eq!(delivery.job.attempt, *failures + 1, "a call that hung up used an attempt");
    }

    fn given_back(&self, delivery: &Delivery, verdict: &Verdict) {
        let mut jobs = self.jobs.lock().unwrap();
        let (held, failures) = jobs.get_mut(&delivery.job.number).expect("it was taken");
        *held = false;
        *failures += u32::from(matches!(verdict, Verdict::Fail { .. }));
    }
}

/// Takes jobs until it is aborted: some calls hang up, and some jobs come back.
async fn consume(store: Arc<impl Queue>, seen: Arc<Seen>, total: u64, mut chance: Chance) {
    loop {
        let patience = chance.below(6);
        let hangs_up = async {
            for _ in 0..patience {
                yield_now().await;
            }
            // Half of them wait for good, so that a wake-up that is lost is seen.
            if patience > 2 {
                std::future::pending::<()>().await;
            }
        };
        let popped = tokio::select! {
            biased;
            () = hangs_up => continue,
            popped = store.pop(ask(&mut chance)) => popped.unwrap(),
        };
        for delivery in popped {
            seen.taken(&delivery);
            yield_now().await;
            let verdict = match chance.below(6) {
                0 => Verdict::Release { delay: Duration::ZERO, priority: None },
                1 => Verdict::Release { delay: ms(chance.below(3)), priority: Some(1) },
                2 => Verdict::Fail { error: "no".into(), retry_in: Some(ms(chance.below(3))) },
                _ => Verdict::Finish,
            };
            let finishes = verdict == Verdict::Finish;
            // Before the store is told: from then on the next may have it.
            seen.given_back(&delivery, &verdict);
            settle(&*store, &delivery, verdict).await;
            if finishes && seen.finished.fetch_add(1, Ordering::Relaxed) + 1 == total {
                seen.all_finished.notify_one();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_job_has_one_holder_at_a_time_and_is_finished_once() {
    add_and_finish(Memory::default(), rounds(2_000, 50_000)).await;
    for (durability, each) in [(Durability::Relaxed, 2_000), (Durability::Sync, 200)] {
        let folder = tempfile::tempdir().unwrap();
        add_and_finish(embedded(&folder, durability), rounds(each, 10 * each)).await;
    }
}

fn embedded(folder: &tempfile::TempDir, durability: Durability) -> Embedded {
    let settings = embedded::Settings { durability, ..Default::default() };
    Embedded::open(folder.path(), Options::default(), settings).unwrap()
}

async fn add_and_finish(store: impl Queue, each: u64) {
    let store = Arc::new(store);
    let seen = Arc::new(Seen::default());
    let total = ADDERS * each;
    let mut consumers = JoinSet::new();
    for n in 0..CONSUMERS {
        consumers.spawn(consume(store.clone(), seen.clone(), total, Chance(n)));
    }
    let mut adders = JoinSet::new();
    for n in 0..ADDERS {
        let store = store.clone();
        adders.spawn(async move {
            let mut chance = Chance(100 + n);
            for job in 0..each {
                let topic = TOPICS[chance.below(3) as usize];
                let job = Job::new(topic, "x").id(format!("{n}-{job}"));
                add(&*store, job.delay(ms(chance.below(10)))).await;
            }
        });
    }
    let ended = async {
        adders.join_all().await;
        tokio::select! {
            () = seen.all_finished.notified() => {}
            Some(broken) = consumers.join_next() => broken.expect("a consumer goes on for ever"),
        }
    };
    tokio::time::timeout(TEST_MAX, ended).await.expect("a job was lost, or a wake-up");
    consumers.shutdown().await;
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.added, stats.finished, stats.timed_out), (total, total, 0));
    assert_eq!((stats.counts.total(), stats.topics, stats.waiting), (0, 0, 0));
}

/// Begins `n` calls. From then on nobody else calls the store, so that only its own timer can
/// answer those who came too early.
fn begin(store: &Arc<impl Queue>, n: u64, ask: &Ask) -> JoinSet<Vec<Delivery>> {
    let call = |_| {
        let (store, ask) = (store.clone(), ask.clone());
        async move { store.pop(ask).await.unwrap() }
    };
    (0..n).map(call).collect()
}

async fn answered(what: &str, calls: JoinSet<Vec<Delivery>>) -> Vec<Delivery> {
    let answers = tokio::time::timeout(TEST_MAX, calls.join_all()).await;
    answers.unwrap_or_else(|_| panic!("{what}: nobody was woken")).concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_timer_wakes_who_waits_for_whatever_the_clock_brings() {
    wake_by_timer(Memory::default(), rounds(30, 300)).await;
    for (durability, often) in [(Durability::Relaxed, 30), (Durability::Sync, 1)] {
        let folder = tempfile::tempdir().unwrap();
        wake_by_timer(embedded(&folder, durability), rounds(often, 10 * often)).await;
    }
}

async fn wake_by_timer(store: impl Queue, often: u64) {
    let store = Arc::new(store);
    let name = topic("t");
    let waits = Ask { wait: HOUR, ..Ask::one(name.clone()) };
    for round in 0..often {
        let job = |n: u64| Job::new("t", "x").id(format!("{round}-{n}"));
        let later = ms(2 + round % 5);

        let calls = begin(&store, 4, &waits);
        for n in 0..4 {
            add(&*store, job(n).delay(later - ms(n % 2))).await;
        }
        assert_eq!(answered("jobs are due", calls).await.len(), 4);

        let short = Ask { wait: later, ..waits.clone() };
        assert_eq!(answered("the wait is over", begin(&store, 4, &short)).await, []);

        add(&*store, job(4).ttr(later)).await;
        let first = store.pop(waits.clone()).await.unwrap();
        let second = answered("a lease ran out", begin(&store, 1, &waits)).await;
        assert_eq!((second[0].id(), second[0].job.attempt), (first[0].id(), 2));

        store.configure(&name, TopicChange::Pause(Some(later))).await.unwrap();
        add(&*store, job(5)).await;
        assert_eq!(answered("a pause ended", begin(&store, 1, &waits)).await.len(), 1);

        store.configure(&name, TopicChange::Forget).await.unwrap();
        let rate = Settings { rate: Some("500".parse().unwrap()), ..Settings::default() };
        store.configure(&name, TopicChange::Set(Box::new(rate))).await.unwrap();
        for n in 0..505 {
            add(&*store, job(n)).await;
        }
        assert_eq!(answered("tokens come", begin(&store, 505, &waits)).await.len(), 505);
        store.configure(&name, TopicChange::Forget).await.unwrap();
    }
}
