//! The shared store by Redis's clock, with several instances over one server.

#![cfg(feature = "redis")]

mod redis_servers;

use std::collections::BTreeSet;
use std::task::{Context, Waker};
use std::time::Duration;

use linger::error::Code;
use linger::job::Job;
use linger::queue::{Ask, Delivery, Key, Lane, Queue, Settle, Source, TopicChange, Verdict};
use linger::store::Options;
use linger::store::redis::{Redis, Settings};
use linger::time::{MINUTE, SECOND};
use linger::topic::Topic;

use redis_servers::{Cluster, SentinelTrio, Standalone, there};

/// Far more than anything takes: what never comes is to fail, not to hang.
const PATIENCE: Duration = Duration::from_secs(30);

struct Fleet {
    server: Standalone,
}

impl Fleet {
    fn start() -> Option<Fleet> {
        there().then(|| Fleet { server: Standalone::start(&["--appendonly", "no"]) })
    }

    /// How many functions were called so far.
    fn calls(&self) -> u64 {
        self.server.calls_of("fcall")
    }

    /// One more instance.
    async fn instance(&self) -> Redis {
        self.instance_of("linger").await
    }

    async fn instance_of(&self, prefix: &str) -> Redis {
        self.instance_with(Settings { prefix: prefix.into(), ..settings() }).await
    }

    async fn instance_with(&self, settings: Settings) -> Redis {
        let address = self.server.url().parse().unwrap();
        Redis::open(&address, Options::default(), settings).await.unwrap()
    }
}

/// So long a poll that nothing here is owed to it.
fn settings() -> Settings {
    Settings { poll: MINUTE, ..Settings::default() }
}

fn topic(name: &str) -> Topic {
    name.parse().unwrap()
}

async fn add(store: &Redis, job: Job) {
    let new = job.check(store.clock().now().time()).unwrap();
    store.add_all(vec![new]).await.unwrap().pop().unwrap().unwrap();
}

async fn pop(store: &Redis, name: &str, wait: Duration) -> Option<Delivery> {
    let popping = store.pop(Ask { wait, ..Ask::one(topic(name)) });
    tokio::time::timeout(PATIENCE, popping).await.expect("it is answered").unwrap().pop()
}

async fn finish(store: &Redis, job: &Delivery) -> linger::Result<linger::queue::Changed> {
    store.settle(vec![Settle::delivery(job, Verdict::Finish)]).await?.pop().unwrap()
}

#[tokio::test]
async fn what_one_instance_adds_another_hands_out_and_a_third_finishes() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other, third) =
        (fleet.instance().await, fleet.instance().await, fleet.instance().await);
    add(&one, Job::new("orders", "x").id("1")).await;
    let job = pop(&other, "orders", Duration::ZERO).await.unwrap();
    assert_eq!(job.id().as_str(), "1");
    assert!(pop(&third, "orders", Duration::ZERO).await.is_none());
    assert!(finish(&third, &job).await.unwrap().changed);
    let key = Key::Named(topic("orders"), "1".parse().unwrap());
    assert_eq!(one.get(&key).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn who_waits_on_one_instance_is_served_by_an_add_on_another() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.instance().await, fleet.instance().await);
    let (popped, ()) = tokio::join!(pop(&one, "orders", MINUTE), async {
        // It stands in line by then, or comes later and finds the job: both are right.
        while one.stats().await.unwrap().waiting == 0 {}
        add(&other, Job::new("orders", "x").id("1")).await;
    });
    assert_eq!(popped.unwrap().id().as_str(), "1");
}

#[tokio::test]
async fn a_job_is_handed_to_who_waits_when_it_is_due_and_not_before() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.instance().await, fleet.instance().await);
    add(&other, Job::new("orders", "x").id("1").delay(Duration::from_millis(300))).await;
    let job = pop(&one, "orders", MINUTE).await.unwrap();
    assert!(one.clock().now().time() >= job.job.due, "{job:?}");
}

#[tokio::test]
async fn a_lease_that_runs_out_is_taken_back_by_whoever_is_there() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.instance().await, fleet.instance().await);
    add(&one, Job::new("orders", "x").id("1").ttr(Duration::from_millis(300))).await;
    let first = pop(&one, "orders", Duration::ZERO).await.unwrap();
    drop(one);
    let second = pop(&other, "orders", MINUTE).await.unwrap();
    assert_eq!(second.job.attempt, 2);
    let refused = finish(&other, &first).await.unwrap_err();
    assert_eq!(refused.code(), Code::LeaseLost);
    assert!(finish(&other, &second).await.unwrap().changed);
}

#[tokio::test]
async fn a_topic_that_always_has_something_holds_up_no_other() {
    let Some(fleet) = Fleet::start() else { return };
    let store = fleet.instance().await;
    let names: Vec<String> = (0..8).map(|n| format!("topic-{n}")).collect();
    for name in &names {
        for n in 0..10 {
            add(&store, Job::new(name.as_str(), "x").id(n.to_string())).await;
        }
    }
    let from = Source::These(names.iter().map(|name| topic(name)).collect());
    let mut seen = BTreeSet::new();
    for _ in 0..names.len() {
        let jobs = store.pop(Ask { from: from.clone(), ..Ask::one(topic("any")) }).await.unwrap();
        seen.insert(jobs[0].topic().clone());
    }
    // Those in one bucket are served by due time.
    assert!(seen.len() > 4, "{seen:?}");
}

#[tokio::test]
async fn stores_under_two_prefixes_do_not_see_each_other() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.instance_of("a").await, fleet.instance_of("b").await);
    add(&one, Job::new("orders", "of a").id("1")).await;
    assert!(pop(&other, "orders", Duration::ZERO).await.is_none());
    add(&other, Job::new("orders", "of b").id("1")).await;
    let job = pop(&other, "orders", Duration::ZERO).await.unwrap();
    assert_eq!(job.body().as_str(), Some("of b"));
    assert_eq!(one.stats().await.unwrap().counts.ready, 1);
}

#[tokio::test]
async fn jobs_of_many_topics_are_each_handed_out_once_by_several_instances() {
    let Some(fleet) = Fleet::start() else { return };
    let instances = [fleet.instance().await, fleet.instance().await, fleet.instance().await];
    for n in 0..300 {
        let job = Job::new(format!("topic-{}", n % 17), "x").id(n.to_string());
        add(&instances[n % 3], job).await;
    }
    let take_all = async |store: &Redis| {
        let mut ids = Vec::new();
        loop {
            let ask = Ask { from: Source::Any, max: 7, ..Ask::one(topic("any")) };
            let jobs = store.pop(ask).await.unwrap();
            if jobs.is_empty() {
                return ids;
            }
            for job in jobs {
                ids.push(job.id().as_str().to_owned());
                finish(store, &job).await.unwrap();
            }
        }
    };
    let [a, b, c] = &instances;
    let (a, b, c) = tokio::join!(take_all(a), take_all(b), take_all(c));
    let all: Vec<String> = [a, b, c].concat();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (300, 300));
    let stats = instances[0].stats().await.unwrap();
    assert_eq!((stats.counts.total(), stats.topics), (0, 0));
}

#[tokio::test]
async fn what_many_callers_ask_for_at_once_goes_into_few_calls_and_each_gets_its_own() {
    const CALLERS: u64 = 1000;
    let Some(fleet) = Fleet::start() else { return };
    let store = std::sync::Arc::new(fleet.instance().await);
    let before = fleet.calls();
    let mut doing = tokio::task::JoinSet::new();
    for n in 0..CALLERS {
        let store = store.clone();
        doing.spawn(async move {
            let new = Job::new("orders", n.to_string()).id(format!("order-{n}"));
            let new = new.check(store.clock().now().time()).unwrap();
            let added = store.add_all(vec![new]).await.unwrap().pop().unwrap().unwrap();
            assert_eq!(added.job.spec.id.as_str(), format!("order-{n}"));
            let job = pop(&store, "orders", Duration::ZERO).await.expect("as many are there");
            assert!(finish(&store, &job).await.unwrap().changed);
            job.job.spec.id
        });
    }
    let popped: BTreeSet<_> = doing.join_all().await.into_iter().collect();
    assert_eq!(popped.len() as u64, CALLERS, "each got a job of its own");
    let calls = fleet.calls() - before;
    assert!(
        calls < CALLERS,
        "{calls} calls for {CALLERS} jobs that were added, popped and finished"
    );
}

#[tokio::test]
async fn who_pushes_is_told_of_what_is_pushed_alone_and_who_pops_of_the_rest() {
    const TOPICS: u64 = 100;
    let Some(fleet) = Fleet::start() else { return };
    // Nothing is called by itself but to say that it is alive.
    let store = fleet.instance_with(Settings { timer: false, ..settings() }).await;
    let target = "http://127.0.0.1/";
    let of_topic = linger::topic::Settings { target: target.parse().ok(), ..Default::default() };
    store.configure(&topic("pushed"), TopicChange::Set(of_topic.into())).await.unwrap();
    let pushed = async |from: Source| {
        let ask = Ask { wait: MINUTE, lane: Lane::Push, from, ..Ask::one(topic("any")) };
        let pushed = tokio::time::timeout(PATIENCE, store.pop(ask)).await.expect("it is told");
        let pushed = pushed.unwrap().pop().unwrap();
        finish(&store, &pushed).await.unwrap();
        pushed.job.spec.id.to_string()
    };
    let before = fleet.calls();
    let adding = async {
        for n in 0..TOPICS {
            add(&store, Job::new(format!("topic-{n}"), "x")).await;
        }
        add(&store, Job::new("pushed", "x").id("by its topic")).await;
    };
    assert_eq!(tokio::join!(pushed(Source::Any), adding).0, "by its topic");
    let calls = fleet.calls() - before;
    assert!(calls < TOPICS * 5 / 4, "{calls} calls to add {TOPICS} jobs, while somebody pushes");

    let topics = Source::These(vec![topic("own"), topic("pushed")]);
    for from in [Source::Any, topics] {
        let adding = add(&store, Job::new("own", "x").target(target).id("by itself"));
        assert_eq!(tokio::join!(pushed(from.clone()), adding).0, "by itself");
        let adding = add(&store, Job::new("pushed", "x").id("by its topic"));
        assert_eq!(tokio::join!(pushed(from), adding).0, "by its topic");
    }
    let popping = pop(&store, "plain", MINUTE);
    let (popped, ()) = tokio::join!(popping, add(&store, Job::new("plain", "x").id("1")));
    assert_eq!(popped.unwrap().id().as_str(), "1");
}

#[tokio::test]
async fn a_pause_on_one_instance_holds_on_all_and_its_end_serves_who_waits() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.instance().await, fleet.instance().await);
    one.configure(&topic("orders"), TopicChange::Pause(Some(SECOND / 2))).await.unwrap();
    add(&one, Job::new("orders", "x").id("1")).await;
    assert!(pop(&other, "orders", Duration::ZERO).await.is_none());
    assert!(pop(&other, "orders", MINUTE).await.is_some());
}

#[tokio::test]
async fn who_hangs_up_takes_no_job_along() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.instance().await, fleet.instance().await);
    for _ in 0..20 {
        let waiting = pop(&one, "orders", MINUTE);
        let _ = tokio::time::timeout(Duration::from_millis(3), waiting).await;
    }
    while one.stats().await.unwrap().waiting > 0 {}
    add(&other, Job::new("orders", "x").id("1")).await;
    assert_eq!(pop(&other, "orders", MINUTE).await.unwrap().job.attempt, 1);
}

#[tokio::test]
async fn who_hangs_up_while_redis_is_asked_takes_no_job_along() {
    let Some(fleet) = Fleet::start() else { return };
    let store = fleet.instance().await;
    for (is_answered, in_runtime) in [(false, true), (true, true), (false, false), (true, false)] {
        add(&store, Job::new("orders", "x").id("1")).await;
        let before = store.stats().await.unwrap().handed_out;
        let mut popping = Box::pin(store.pop(Ask::one(topic("orders"))));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(popping.as_mut().poll(context).is_pending());
        // Answered, and not looked at.
        while is_answered && store.stats().await.unwrap().handed_out == before {}
        match in_runtime {
            true => drop(popping),
            false => std::thread::scope(|scope| scope.spawn(|| drop(popping)).join().unwrap()),
        }
        let job = pop(&store, "orders", MINUTE).await.unwrap();
        assert_eq!(job.job.attempt, 1);
        finish(&store, &job).await.unwrap();
    }
}

#[tokio::test]
async fn calls_fail_while_the_server_is_away_and_who_waits_is_served_when_it_is_back() {
    if !there() {
        return;
    }
    let mut server = Standalone::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let address = server.url().parse().unwrap();
    let settings = Settings { poll: SECOND / 5, ..Settings::default() };
    let store = Redis::open(&address, Options::default(), settings).await.unwrap();
    let later = Job::new("orders", "x").id("1").delay(SECOND);
    add(&store, later).await;
    let (popped, ()) = tokio::join!(pop(&store, "orders", MINUTE), async {
        while store.stats().await.unwrap().waiting == 0 {}
        server.stop();
        let refused = store.stats().await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        server.start_again();
    });
    let job = popped.unwrap();
    assert_eq!(job.id().as_str(), "1");
    assert!(finish(&store, &job).await.unwrap().changed);
}

#[tokio::test]
async fn what_too_few_replicas_have_is_not_acknowledged() {
    let Some(fleet) = Fleet::start() else { return };
    let port = fleet.server.url().rsplit(':').next().unwrap().to_owned();
    let replica = Standalone::start(&["--replicaof", "127.0.0.1", &port]);
    let address = fleet.server.url().parse().unwrap();
    let settings = Settings { wait: 1, ..Settings::default() };
    let store = Redis::open(&address, Options::default(), settings).await.unwrap();
    add_at_last(&store, Job::new("orders", "{}").id("first")).await;
    replica.pause();
    let new = Job::new("orders", "{}").id("second").check(store.clock().now().time()).unwrap();
    let refused = store.add_all(vec![new]).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("has done it, but fewer than 1"), "{refused}");
    replica.go_on();
    add_at_last(&store, Job::new("orders", "{}").id("third")).await;
    for _ in 0..3 {
        let job = pop(&store, "orders", Duration::ZERO).await.expect("all three are there");
        finish(&store, &job).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_whose_memory_is_used_up_takes_no_job_and_lets_those_it_has_be_finished() {
    let Some(fleet) = Fleet::start() else { return };
    let store = fleet.instance().await;
    let body = "x".repeat(10_000);
    for n in 0..20 {
        add(&store, Job::new("orders", body.as_str()).id(n.to_string())).await;
    }
    let mut plain = fleet.server.plain();
    plain.ask(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let refused = Job::new("orders", body).id("more").check(store.clock().now().time()).unwrap();
    let refused = store.add_all(vec![refused]).await.unwrap_err();
    assert_eq!(refused.code(), Code::StorageFull);
    for _ in 0..20 {
        let job = pop(&store, "orders", Duration::ZERO).await.expect("none is lost half-way");
        assert!(finish(&store, &job).await.unwrap().changed);
    }
    assert_eq!(store.stats().await.unwrap().counts.total(), 0);
}

/// Adds a job, again and again until the server has taken it.
async fn add_at_last(store: &Redis, job: Job) {
    let new = job.check(store.clock().now().time()).unwrap();
    let taken = async {
        loop {
            let refused = match store.add_all(vec![new.clone()]).await {
                Ok(mut answers) => match answers.pop().unwrap() {
                    Ok(_) => return,
                    Err(refused) => refused,
                },
                Err(refused) => refused,
            };
            match refused.code() {
                // An earlier try was taken, though its answer was lost.
                Code::AlreadyExists => return,
                Code::Unavailable => tokio::time::sleep(Duration::from_millis(20)).await,
                _ => panic!("{refused}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, taken).await.expect("it is taken at last");
}

/// Pops and finishes jobs of every topic until so many are gone, and says which.
async fn drain(store: &Redis, count: usize) -> BTreeSet<String> {
    let mut gone = BTreeSet::new();
    let drained = async {
        while gone.len() < count {
            let ask = Ask { from: Source::Any, max: 20, wait: SECOND, ..Ask::one(topic("any")) };
            for job in store.pop(ask).await.unwrap_or_default() {
                // One whose answer is lost comes again, or is gone.
                let _ = finish(store, &job).await;
                gone.insert(job.id().as_str().to_owned());
            }
        }
    };
    tokio::time::timeout(PATIENCE, drained).await.expect("all come at last");
    gone
}

fn job(n: usize) -> Job {
    // A lease that was given by an answer that was lost is soon over.
    Job::new(format!("topic-{}", n % 40), "x").id(n.to_string()).ttr(SECOND)
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_cluster_nothing_is_lost_when_a_slot_moves() {
    if !there() {
        return;
    }
    let cluster = Cluster::start();
    let settings = Settings { poll: SECOND / 5, ..Settings::default() };
    let address = cluster.url().parse().unwrap();
    let store = Redis::open(&address, Options::default(), settings).await.unwrap();
    for n in 0..100 {
        add_at_last(&store, job(n)).await;
    }
    for bucket in [3, 77, 200] {
        let slot = cluster.slot_of(&format!("linger:{{{bucket}}}:jobs"));
        let to = [0, 1, 2].into_iter().find(|to| *to != cluster.primary_of(slot)).unwrap();
        tokio::task::block_in_place(|| cluster.migrate_slot(slot, to));
    }
    for n in 100..200 {
        add_at_last(&store, job(n)).await;
    }
    assert_eq!(drain(&store, 200).await.len(), 200);
    assert_eq!(store.stats().await.unwrap().counts.total(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_sentinels_nothing_is_lost_when_the_master_hands_over() {
    if !there() {
        return;
    }
    let trio = SentinelTrio::start();
    let settings = Settings { poll: SECOND / 5, ..Settings::default() };
    let address = trio.url().parse().unwrap();
    let store = Redis::open(&address, Options::default(), settings).await.unwrap();
    for n in 0..100 {
        add_at_last(&store, job(n)).await;
    }
    tokio::task::block_in_place(|| trio.failover());
    for n in 100..200 {
        add_at_last(&store, job(n)).await;
    }
    assert_eq!(drain(&store, 200).await.len(), 200);
}
