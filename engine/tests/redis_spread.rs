//! Topics that are spread over several buckets, with several instances over one Redis.

#![cfg(feature = "redis")]

mod redis_servers;

use std::collections::BTreeSet;
use std::time::Duration;

use linger::error::Code;
use linger::job::{Job, OnConflict};
use linger::machine::{Reach, Stage};
use linger::queue::{
    Action, Ask, Change, Cursor, Delivery, Filter, Key, Page, Query, Queue, Settle, TopicChange,
    TopicInfo, Topics, Verdict,
};
use linger::store::Options;
use linger::store::redis::{Redis, Settings};
use linger::time::{MINUTE, SECOND};
use linger::topic::{Partitions, Topic};

use redis_servers::{Standalone, there};

const PATIENCE: Duration = Duration::from_secs(30);

struct Fleet {
    server: Standalone,
}

impl Fleet {
    fn start() -> Option<Fleet> {
        there().then(|| Fleet { server: Standalone::start(&["--appendonly", "no"]) })
    }

    async fn instance(&self) -> Redis {
        let address = self.server.url().parse().unwrap();
        // So long a poll that nothing here is owed to it.
        let settings = Settings { poll: MINUTE, ..Settings::default() };
        Redis::open(&address, Options::default(), settings).await.unwrap()
    }
}

fn topic() -> Topic {
    "hot".parse().unwrap()
}

fn key(id: &str) -> Key {
    Key::Named(topic(), id.parse().unwrap())
}

async fn spread(store: &Redis, parts: u32) -> linger::Result<u64> {
    let partitions = Some(Partitions::new(parts).unwrap());
    let settings = linger::topic::Settings { partitions, ..Default::default() };
    store.configure(&topic(), TopicChange::Set(Box::new(settings))).await
}

async fn try_add(store: &Redis, id: &str) -> linger::Result<u64> {
    let mut new = Job::new("hot", "x").id(id).check(store.clock().now().time()).unwrap();
    new.on_conflict = OnConflict::Reject;
    store.add_all(vec![new]).await?.pop().unwrap().map(|added| added.job.number)
}

async fn add_many(store: &Redis, count: u32) -> Vec<u64> {
    let now = store.clock().now().time();
    let jobs = (0..count).map(|n| Job::new("hot", "x").id(n.to_string()).check(now).unwrap());
    let added = store.add_all(jobs.collect()).await.unwrap();
    added.into_iter().map(|added| added.unwrap().job.number).collect()
}

async fn pop(store: &Redis, max: u32, wait: Duration) -> Vec<Delivery> {
    let popping = store.pop(Ask { max, wait, ..Ask::one(topic()) });
    tokio::time::timeout(PATIENCE, popping).await.expect("it is answered").unwrap()
}

async fn finish(store: &Redis, job: &Delivery) {
    let settles = vec![Settle::delivery(job, Verdict::Finish)];
    assert!(store.settle(settles).await.unwrap().pop().unwrap().unwrap().changed);
}

async fn info(store: &Redis) -> Option<TopicInfo> {
    store.topics(Topics::One(topic())).await.unwrap().pop()
}

/// The ids of its jobs, by pages of 7.
async fn browsed(store: &Redis) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), None::<Cursor>);
    loop {
        let query = Query {
            filter: Filter { stage: Some(Stage::Ready), ..Filter::default() },
            cursor,
            limit: 7,
            ..Query::all(topic())
        };
        let Page { jobs, cursor: next } = store.browse(query).await.unwrap();
        ids.extend(jobs.into_iter().map(|job| job.spec.id.as_str().to_owned()));
        cursor = next;
        if cursor.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn jobs_of_a_topic_that_is_spread_lie_in_many_buckets_and_are_one_topic() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.instance().await, fleet.instance().await);
    spread(&one, 8).await.unwrap();
    let numbers = add_many(&one, 100).await;
    let buckets: BTreeSet<u64> = numbers.iter().map(|number| number % 256).collect();
    assert_eq!(buckets.len(), 8, "{buckets:?}");

    // An instance that has not heard of it learns of it by its first add.
    assert_eq!(try_add(&other, "7").await.unwrap_err().code(), Code::AlreadyExists);
    for id in ["0", "50", "99"] {
        assert_eq!(other.get(&key(id)).await.unwrap().spec.id.as_str(), id);
    }
    let there = info(&other).await.unwrap();
    assert_eq!((there.counts.ready, there.added), (100, 100));
    assert_eq!(
        other
            .topics(Topics::Page { prefix: "".into(), after: None, limit: 10 })
            .await
            .unwrap()
            .len(),
        1
    );
    let stats = other.stats().await.unwrap();
    assert_eq!((stats.topics, stats.counts.ready), (1, 100));

    let ids = browsed(&other).await;
    assert_eq!(ids.len(), 100);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 100);
    other
        .change(vec![Change::new(key("13"), Action::Delete(Reach::Any))])
        .await
        .unwrap()
        .pop()
        .unwrap()
        .unwrap();
    let mut popped = BTreeSet::new();
    while popped.len() < 99 {
        let jobs = pop(&other, 10, Duration::ZERO).await;
        assert!(!jobs.is_empty(), "{} of 99", popped.len());
        for job in jobs {
            assert!(popped.insert(job.id().as_str().to_owned()));
            finish(&one, &job).await;
        }
    }
    assert!(!popped.contains("13"));
    assert_eq!(info(&one).await.unwrap().counts.ready, 0);
}

#[tokio::test]
async fn who_waits_for_a_topic_that_is_spread_is_told_of_every_part() {
    let Some(fleet) = Fleet::start() else { return };
    let one = fleet.instance().await;
    spread(&one, 4).await.unwrap();
    let other = fleet.instance().await;
    for n in 0..12 {
        let id = n.to_string();
        let (jobs, ()) = tokio::join!(pop(&other, 1, MINUTE), async {
            while other.stats().await.unwrap().waiting == 0 {}
            try_add(&one, &id).await.unwrap();
        });
        assert_eq!(jobs[0].id().as_str(), id);
        finish(&other, &jobs[0]).await;
    }
}

#[tokio::test]
async fn only_a_topic_without_jobs_is_spread_anew_and_then_wholly() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.instance().await, fleet.instance().await);
    spread(&one, 4).await.unwrap();
    add_many(&one, 5).await;
    for parts in [1, 3, 8] {
        let refused = spread(&other, parts).await.unwrap_err();
        assert_eq!(refused.code(), Code::WrongState);
    }
    assert_eq!(try_add(&other, "3").await.unwrap_err().code(), Code::AlreadyExists);
    try_add(&other, "another").await.unwrap();
    assert_eq!(info(&other).await.unwrap().settings.partitions.map(Partitions::get), Some(4));

    assert_eq!(one.configure(&topic(), TopicChange::Empty).await.unwrap(), 6);
    spread(&other, 8).await.unwrap();
    let numbers = add_many(&one, 100).await;
    assert_eq!(numbers.iter().map(|number| number % 256).collect::<BTreeSet<_>>().len(), 8);

    assert_eq!(one.configure(&topic(), TopicChange::Forget).await.unwrap(), 100);
    assert!(info(&other).await.is_none());
    let numbers = [try_add(&other, "1").await.unwrap(), try_add(&one, "2").await.unwrap()];
    assert_eq!(numbers[0] % 256, numbers[1] % 256, "it is one again");
    assert_eq!(try_add(&one, "1").await.unwrap_err().code(), Code::AlreadyExists);
}

#[tokio::test]
async fn a_pause_and_its_end_hold_in_every_part() {
    let Some(fleet) = Fleet::start() else { return };
    let one = fleet.instance().await;
    spread(&one, 4).await.unwrap();
    let other = fleet.instance().await;
    add_many(&one, 20).await;
    one.configure(&topic(), TopicChange::Pause(None)).await.unwrap();
    assert!(pop(&other, 20, Duration::ZERO).await.is_empty());
    let (jobs, ()) = tokio::join!(pop(&other, 20, 20 * SECOND), async {
        while other.stats().await.unwrap().waiting == 0 {}
        one.configure(&topic(), TopicChange::Resume).await.unwrap();
    });
    assert!(!jobs.is_empty());
}
