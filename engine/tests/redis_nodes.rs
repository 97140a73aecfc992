//! Instances that share a store share its buckets: by weight and load, and again when one comes or goes.

#![cfg(feature = "redis")]

mod redis_servers;

use std::collections::BTreeMap;
use std::time::Duration;

use linger::error::Code;
use linger::job::Job;
use linger::queue::{Ask, Queue, Source};
use linger::store::Options;
use linger::store::redis::{Fleet, Node, Redis, Settings};
use linger::time::{MINUTE, SECOND};

use redis_servers::{Standalone, there};

/// Far more than anything takes: what never comes is to fail, not to hang.
const PATIENCE: Duration = Duration::from_secs(30);
/// So short that what hangs on it is soon over.
const LEASE: Duration = Duration::from_millis(600);
/// Nothing moves any more if nothing has while each said so often that it is alive.
const ROUNDS: usize = 8;

struct Server(Standalone);

impl Server {
    fn start() -> Option<Server> {
        there().then(|| Server(Standalone::start(&["--appendonly", "yes"])))
    }

    async fn open(&self, settings: Settings) -> Redis {
        let address = self.0.url().parse().unwrap();
        Redis::open(&address, Options::default(), settings).await.unwrap()
    }

    /// An instance by this name and weight, of the group that its name begins with.
    async fn instance(&self, name: &str, weight: u32) -> Redis {
        self.open(settings(name, weight)).await
    }
}

fn settings(name: &str, weight: u32) -> Settings {
    let node = Node { name: name.into(), group: name[..1].into(), weight, ..Node::default() };
    // So long a poll that nothing here is owed to it.
    Settings { poll: MINUTE, lease: LEASE, node, ..Settings::default() }
}

/// For one job of a topic, for so long that nothing here is owed to the end of it.
fn waits(topic: &str) -> Ask {
    Ask { wait: MINUTE, ..Ask::one(topic.parse().unwrap()) }
}

/// How many buckets each holds, by name.
fn counts(fleet: &Fleet) -> BTreeMap<&str, usize> {
    let count = |id: &str| fleet.held_by(id).count();
    fleet.nodes.iter().map(|node| (node.node.name.as_str(), count(&node.id))).collect()
}

/// Asks until it is so.
async fn until(store: &Redis, is_so: impl Fn(&Fleet) -> bool) -> Fleet {
    let asked = async {
        loop {
            // Redis may be away for a moment.
            if let Ok(fleet) = store.fleet().await
                && is_so(&fleet)
            {
                return fleet;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(fleet) => fleet,
        Err(_) => panic!("it stays {:?}", store.fleet().await.map(|f| format!("{:?}", counts(&f)))),
    }
}

/// Waits until no lease moves any more, and answers how many each holds.
async fn settled(store: &Redis) -> BTreeMap<String, usize> {
    let fences =
        |fleet: &Fleet| fleet.buckets.iter().map(|bucket| bucket.fence).collect::<Vec<_>>();
    let heard = |fleet: &Fleet| {
        let heard = |node: &linger::store::redis::NodeInfo| (node.id.clone(), node.heard);
        fleet.nodes.iter().map(heard).collect::<BTreeMap<_, _>>()
    };
    let all_held = |fleet: &Fleet| {
        let is_there = |id: &String| fleet.nodes.iter().any(|node| node.id == *id);
        fleet.buckets.iter().all(|bucket| bucket.holder.as_ref().is_some_and(is_there))
    };
    let mut last = until(store, all_held).await;
    let (mut rounds, mut all) = (0, 0);
    while rounds < ROUNDS {
        all += 1;
        assert!(all < 200, "it never settles: {:?}", counts(&last));
        let before = heard(&last);
        let all_heard =
            |fleet: &Fleet| heard(fleet).iter().all(|(id, at)| before.get(id) != Some(at));
        let now = until(store, all_heard).await;
        let stands = fences(&now) == fences(&last) && all_held(&now);
        rounds = if stands { rounds + 1 } else { 0 };
        last = now;
    }
    counts(&last).into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn shares<const N: usize>(shares: [(&str, usize); N]) -> BTreeMap<String, usize> {
    shares.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

#[tokio::test]
async fn every_bucket_is_held_by_one_and_shares_follow_weight() {
    let Some(server) = Server::start() else { return };
    let one = server.instance("a1", 1).await;
    assert_eq!(counts(&one.fleet().await.unwrap()), BTreeMap::from([("a1", 256)]));
    let _other = server.instance("a2", 3).await;
    assert_eq!(settled(&one).await, shares([("a1", 64), ("a2", 192)]));
    let _third = server.instance("b1", 4).await;
    assert_eq!(settled(&one).await, shares([("a1", 32), ("a2", 96), ("b1", 128)]));
}

#[tokio::test]
async fn one_that_dies_is_taken_over_and_what_is_due_there_is_handed_out() {
    let Some(server) = Server::start() else { return };
    let (one, other) = (server.instance("a1", 1).await, server.instance("a2", 1).await);
    assert_eq!(settled(&one).await, shares([("a1", 128), ("a2", 128)]));
    // In so many topics that many lie with the one that dies.
    for number in 0..40 {
        let job = Job::new(format!("topic-{number}"), "x").id("1").delay(2 * LEASE);
        let new = job.check(one.clock().now().time()).unwrap();
        one.add_all(vec![new]).await.unwrap().pop().unwrap().unwrap();
    }
    drop(one);
    for number in 0..40 {
        let topic = format!("topic-{number}").parse().unwrap();
        let popping = other.pop(Ask { wait: MINUTE, ..Ask::one(topic) });
        let jobs = tokio::time::timeout(PATIENCE, popping).await.expect("it is seen to").unwrap();
        assert_eq!(jobs.len(), 1);
    }
    assert_eq!(settled(&other).await, shares([("a2", 256)]));
}

#[tokio::test]
async fn one_that_says_goodbye_is_taken_over_at_once() {
    let Some(server) = Server::start() else { return };
    // Neither a lease that runs out nor the next beat comes within the patience of this test.
    let long = |name: &str| Settings { lease: 10 * MINUTE, ..settings(name, 1) };
    let (one, other) = (server.open(long("a1")).await, server.open(long("a2")).await);
    // One who has just come takes nothing from others: it may be gone in a moment.
    let has_heard = |fleet: &Fleet| fleet.nodes[0].heard > fleet.nodes[1].started;
    let fleet = until(&one, has_heard).await;
    assert_eq!(counts(&fleet), BTreeMap::from([("a1", 256), ("a2", 0)]));
    one.leave().await;
    let fleet = until(&other, |fleet| counts(fleet).get("a2") == Some(&256)).await;
    assert_eq!(fleet.nodes.len(), 1);
}

#[tokio::test]
async fn one_over_its_threshold_hands_over_to_its_group() {
    let Some(server) = Server::start() else { return };
    let node = Node { threshold: Some(20), ..settings("a1", 1).node };
    let one = server.open(Settings { node, ..settings("a1", 1) }).await;
    let _others = (server.instance("a2", 1).await, server.instance("b1", 2).await);
    assert_eq!(settled(&one).await, shares([("a1", 20), ("a2", 108), ("b1", 128)]));
}

#[tokio::test]
async fn a_group_that_dies_is_taken_over_by_another() {
    let Some(server) = Server::start() else { return };
    let group = (server.instance("a1", 1).await, server.instance("a2", 1).await);
    let other = server.instance("b1", 1).await;
    let even = |fleet: &Fleet| counts(fleet).values().all(|count| (84..=87).contains(count));
    until(&other, even).await;
    drop(group);
    assert_eq!(settled(&other).await, shares([("b1", 256)]));
}

#[tokio::test]
async fn who_has_a_busy_bucket_has_fewer_of_them_until_it_is_busy_no_more() {
    let Some(server) = Server::start() else { return };
    let (one, other) = (server.instance("a1", 1).await, server.instance("a2", 1).await);
    assert_eq!(settled(&one).await, shares([("a1", 128), ("a2", 128)]));
    let feed = async {
        loop {
            let now = one.clock().now().time();
            let job = || Job::new("busy", "x").delay(Duration::from_millis(1)).check(now).unwrap();
            one.add_all(vec![job(), job(), job(), job()]).await.unwrap();
        }
    };
    let uneven = |fleet: &Fleet| counts(fleet).values().any(|count| *count < 64);
    tokio::select! {
        () = feed => {}
        fleet = until(&other, uneven) => {
            let busy = fleet.buckets.iter().max_by_key(|bucket| bucket.load).unwrap();
            let holder = busy.holder.as_ref().expect("it is held");
            assert!(busy.load > 100 && fleet.held_by(holder).count() < 64, "{busy:?}");
        }
    }
    // It fades.
    until(&one, |fleet| counts(fleet).values().all(|count| *count == 128)).await;
}

#[tokio::test]
async fn a_bucket_is_busy_too_when_what_is_due_goes_straight_to_who_waits() {
    let Some(server) = Server::start() else { return };
    let store = server.instance("a1", 1).await;
    assert_eq!(settled(&store).await, shares([("a1", 256)]));
    let work = async {
        loop {
            let popping = async {
                let mut left = 50;
                while left > 0 {
                    left -= store.pop(Ask { max: 100, ..waits("busy") }).await.unwrap().len();
                }
            };
            let adding = async {
                while store.stats().await.unwrap().waiting == 0 {}
                let now = store.clock().now().time();
                let job = || Job::new("busy", "x").delay(Duration::from_millis(20)).check(now);
                let jobs = (0..50).map(|_| job().unwrap());
                store.add_all(jobs.collect()).await.unwrap();
            };
            tokio::join!(popping, adding);
        }
    };
    let busy = |fleet: &Fleet| fleet.buckets.iter().any(|bucket| bucket.load > 100);
    tokio::select! { () = work => {}, _ = until(&store, busy) => {} }
}

#[tokio::test]
async fn one_that_is_no_timer_holds_nothing_and_says_when_nobody_else_does() {
    let Some(server) = Server::start() else { return };
    let idle = Settings { timer: false, ..settings("a1", 1) };
    let one = server.open(idle).await;
    assert!(one.without_timer().unwrap().contains("role timer"));
    assert!(!one.fleet().await.unwrap().has_timer());
    let other = server.instance("a2", 1).await;
    assert_eq!(settled(&one).await, shares([("a1", 0), ("a2", 256)]));
    assert!(one.without_timer().is_none());
    other.leave().await;
    until(&one, |_| one.without_timer().is_some()).await;
}

#[tokio::test]
async fn what_is_due_is_made_ready_by_who_holds_its_bucket_alone() {
    let Some(server) = Server::start() else { return };
    let idle = Settings { timer: false, ..settings("a1", 1) };
    let (idle, timer) = (server.open(idle).await, server.instance("a2", 1).await);
    for number in 0..50 {
        let job = Job::new(format!("topic-{number}"), "x").delay(Duration::from_millis(20));
        let new = job.check(idle.clock().now().time()).unwrap();
        idle.add_all(vec![new]).await.unwrap();
    }
    let all_ready = async { while idle.stats().await.unwrap().counts.ready < 50 {} };
    tokio::time::timeout(PATIENCE, all_ready).await.expect("they are seen to");
    let made_ready = async |store: &Redis| store.stats().await.unwrap().due_to_ready.total();
    assert_eq!((made_ready(&idle).await, made_ready(&timer).await), (0, 50));
}

#[tokio::test]
async fn what_is_due_goes_to_who_waits_where_its_bucket_is_held_before_others_are_told() {
    let Some(server) = Server::start() else { return };
    let idle = Settings { timer: false, ..settings("a1", 1) };
    let (idle, timer) = (server.open(idle).await, server.instance("a2", 1).await);
    assert_eq!(settled(&timer).await, shares([("a1", 0), ("a2", 256)]));
    let orders = waits("orders");
    let any = Ask { from: Source::Any, ..orders.clone() };
    let in_vain = idle.pop(orders.clone());
    let popping = async {
        while idle.stats().await.unwrap().waiting == 0 {}
        let told = server.0.calls_of("spublish");
        for ask in [&orders, &any].repeat(4) {
            let adding = async {
                while timer.stats().await.unwrap().waiting == 0 {}
                let job = Job::new("orders", "x").delay(Duration::from_millis(200));
                idle.add_all(vec![job.check(idle.clock().now().time()).unwrap()]).await.unwrap();
            };
            let (popped, ()) = tokio::join!(timer.pop(ask.clone()), adding);
            assert_eq!(popped.unwrap().len(), 1);
        }
        // Of each job when it is due, and of the first lease when it ends.
        assert_eq!(server.0.calls_of("spublish") - told, 9, "nobody is told that they are ready");
    };
    let over = async {
        tokio::select! { _ = in_vain => false, () = popping => true }
    };
    let over = tokio::time::timeout(PATIENCE, over).await.expect("all are popped");
    assert!(over, "who waits elsewhere was told first");
}

#[tokio::test]
async fn a_redis_that_stood_still_for_longer_than_leases_moves_nothing() {
    let Some(server) = Server::start() else { return };
    // Longer than it takes to connect anew, shorter than a call waits for its answer.
    let long = |name: &str| Settings { lease: 3 * SECOND, ..settings(name, 1) };
    let (one, other) = (server.open(long("a1")).await, server.open(long("a2")).await);
    let even = |fleet: &Fleet| counts(fleet).values().all(|count| *count == 128);
    let before = until(&one, even).await;
    server.0.pause();
    assert_eq!(one.fleet().await.unwrap_err().code(), Code::Unavailable);
    server.0.go_on();
    let heard_since = |fleet: &Fleet| {
        let last = before.nodes.iter().map(|node| node.heard).max().unwrap();
        fleet.nodes.len() == 2 && fleet.nodes.iter().all(|node| node.heard > last)
    };
    let after = until(&other, heard_since).await;
    let fences =
        |fleet: &Fleet| fleet.buckets.iter().map(|bucket| bucket.fence).collect::<Vec<_>>();
    assert_eq!(fences(&after), fences(&before));
}

#[tokio::test]
async fn when_redis_is_back_each_goes_on_with_its_share() {
    let Some(mut server) = Server::start() else { return };
    let (one, other) = (server.instance("a1", 1).await, server.instance("a2", 1).await);
    assert_eq!(settled(&one).await, shares([("a1", 128), ("a2", 128)]));
    server.0.stop();
    assert!(one.fleet().await.is_err());
    server.0.start_again();
    until(&other, |fleet| fleet.nodes.len() == 2).await;
    assert_eq!(settled(&one).await, shares([("a1", 128), ("a2", 128)]));
    let job = Job::new("orders", "x").id("1").delay(Duration::from_millis(50));
    one.add_all(vec![job.check(one.clock().now().time()).unwrap()]).await.unwrap();
    let popping = other.pop(Ask { wait: MINUTE, ..Ask::one("orders".parse().unwrap()) });
    let jobs = tokio::time::timeout(PATIENCE, popping).await.expect("it is seen to").unwrap();
    assert_eq!(jobs.len(), 1);
}
