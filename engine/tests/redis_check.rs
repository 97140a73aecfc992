//! Checking a store on Redis: whatever is broken in it is found, and put right.

#![cfg(feature = "redis")]

mod redis_servers;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use linger::job::Job;
use linger::machine::Reach;
use linger::queue::{
    Action, Ask, Change, Key, Lane, Query, Queue, Settle, Source, TopicChange, Topics, Verdict,
    Whole,
};
use linger::retry::Retry;
use linger::store::Options;
use linger::store::redis::{Checked, Redis, Repair, Settings, check};
use linger::time::{DAY, HOUR, SECOND};
use linger::topic::{Settings as TopicSettings, Topic};

use redis_servers::{Plain, Standalone, there};

fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

async fn open(server: &Standalone) -> Redis {
    let settings = Settings { buckets: 4, ..Settings::default() };
    let address = server.url().parse().expect("an address");
    Redis::open(&address, Options::default(), settings).await.expect("it is there")
}

async fn checked(server: &Standalone, repair: Repair) -> Checked {
    let address = server.url().parse().expect("an address");
    check(&address, "linger", repair, |_| {}).await.expect("it is checked")
}

fn kinds(checked: &Checked) -> BTreeSet<&str> {
    checked.faults.iter().map(|fault| fault.kind.as_str()).collect()
}

async fn add(store: &Redis, job: Job) {
    let new = job.check(store.clock().now().time()).expect("a right job");
    store.add_all(vec![new]).await.unwrap().remove(0).expect("it is taken");
}

/// A store with jobs in every state, which is closed.
async fn filled() -> Option<Standalone> {
    if !there() {
        return None;
    }
    let server = Standalone::start(&["--appendonly", "no"]);
    let store = open(&server).await;
    let settings =
        TopicSettings { retain: Some(DAY), retain_dead: Some(DAY), ..TopicSettings::default() };
    let set = TopicChange::Set(Box::new(settings));
    store.configure(&topic("kept"), set).await.unwrap();
    for id in ["finished", "dead", "retry", "reserved"] {
        add(&store, Job::new("kept", "x").id(id).retry(Retry::default()).ttr(HOUR)).await;
        let held = store.pop(Ask::one(topic("kept"))).await.unwrap().remove(0);
        let verdict = match id {
            "finished" => Verdict::Finish,
            "dead" => Verdict::Bury { error: Some("broken".into()), priority: None },
            "retry" => Verdict::Fail { error: "no".into(), retry_in: Some(HOUR) },
            _ => continue,
        };
        store.settle(vec![Settle::delivery(&held, verdict)]).await.unwrap().remove(0).unwrap();
    }
    for id in ["ready", "ready too"] {
        add(&store, Job::new("kept", "x").id(id)).await;
    }
    add(&store, Job::new("kept", "x").id("pushed").target("https://example.org")).await;
    for id in ["delayed", "delayed too"] {
        add(&store, Job::new("kept", "x").id(id).delay(HOUR)).await;
    }
    add(&store, Job::new("kept", "x").id("held").delay(HOUR).held()).await;
    // Some were added and are gone, so that an entry too many is not one more than were ever added.
    for id in ["gone", "gone too"] {
        add(&store, Job::new("kept", "x").id(id).delay(HOUR)).await;
        let key = Key::Named(topic("kept"), id.parse().unwrap());
        let delete = Change::new(key, Action::Delete(Reach::Any));
        store.change(vec![delete]).await.unwrap().remove(0).unwrap();
    }
    for n in 0..12 {
        add(&store, Job::new(format!("other-{n}"), "x").id("ready").delay(HOUR)).await;
    }
    Some(server)
}

async fn jobs(store: &Redis) -> Vec<Whole> {
    store.dump(Query::all(topic("kept"))).await.unwrap().jobs
}

/// What every breaking begins with: `b` is the bucket of the topic `kept`, `t` what its keys begin with.
const WHERE: &str = "
    local call, b, t, tno = redis.call, nil, nil, nil
    for _, key in ipairs(call('KEYS', 'linger:{*}:names')) do
      if call('HEXISTS', key, 'kept') == 1 then b = string.sub(key, 1, -6) end
    end
    tno = call('HGET', b .. 'names', 'kept')
    t = b .. 't' .. tno .. ':'
    local function first(order) return call('ZRANGE', t .. order, 0, 0)[1] end
    local nobody = struct.pack('>I8', 4000000)
    ";

fn break_it(plain: &mut Plain, how: &str) {
    plain.ask(&["EVAL", &format!("{WHERE}{how}"), "0"]);
}

/// What is broken, and what a check calls it.
const BREAKS: [(&str, &[&str]); 29] = [
    ("call('ZREM', t .. 'd', first('d'))", &["job_out_of_order"]),
    ("call('ZREM', t .. 'r', first('r'))", &["job_out_of_order"]),
    ("call('DEL', t .. 'h')", &["job_out_of_order"]),
    ("call('DEL', t .. 'v')", &["job_out_of_order"]),
    ("call('DEL', t .. 'x', t .. 'f')", &["errors_miscounted", "job_out_of_order"]),
    ("call('DEL', t .. 'y0')", &["job_out_of_order"]),
    (
        "call('DEL', t .. 'y1', t .. 'y:https://example.org')",
        &["destination_empty", "job_out_of_order"],
    ),
    ("call('DEL', t .. 'o', t .. 'u')", &["job_out_of_order"]),
    ("call('ZADD', t .. 'd', 5, nobody)", &["entry_without_job"]),
    ("call('ZADD', t .. 'v', 5, 'nonsense!')", &["entry_without_job"]),
    ("call('ZADD', t .. 'y0', 0, struct.pack('>I4I8', 1, 1) .. nobody)", &["entry_without_job"]),
    ("call('ZINCRBY', t .. 'd', 5, first('d'))", &["entry_misplaced"]),
    ("call('ZADD', t .. 'd', 5, first('v'))", &["entry_misplaced"]),
    ("call('ZADD', t .. 'y1', 0, first('y0'))", &["entry_misplaced"]),
    ("call('ZADD', t .. 'o', 5, first('h'))", &["entry_misplaced"]),
    ("call('HDEL', b .. 'ids', 'ready', 'dead')", &["job_without_id"]),
    ("call('HSET', b .. 'ids', 'nobody', struct.pack('>I4', tno) .. nobody)", &["id_without_job"]),
    (
        "call('HSET', b .. 'ids', 'held', struct.pack('>I4', tno) .. first('v'))",
        &["id_without_job", "job_without_id"],
    ),
    ("call('HDEL', b .. 'names', 'kept')", &["job_without_topic", "topic_unlisted"]),
    (
        "call('ZREM', b .. 'topics', 'kept') call('ZADD', b .. 'topics', 0, 'ghost')",
        &["topic_unlisted"],
    ),
    ("call('DEL', b .. 'ready')", &["topic_not_ready"]),
    ("call('SADD', b .. 'ready', 999)", &["topic_not_ready"]),
    ("call('ZREM', b .. 'wall', tno)", &["clock_asleep"]),
    ("call('ZADD', b .. 'tick', 9007199254740991, tno)", &["clock_asleep"]),
    ("call('ZADD', b .. 'wall', 9007199254740991, 999)", &["clock_astray"]),
    ("call('HSET', t .. 'e', 'broken', 7, 'never', 1)", &["errors_miscounted"]),
    (
        "call('HSET', b .. 'meta', 'seq', 0, 'topic', 0) call('HSET', t .. 's', 'added', 1)",
        &["counter_behind"],
    ),
    ("call('DEL', t .. 'yd')", &["destination_unlisted"]),
    ("call('SADD', t .. 'yd', 'https://nowhere.example')", &["destination_empty"]),
];

#[tokio::test]
async fn whatever_is_broken_is_found_and_put_right() {
    let Some(server) = filled().await else { return };
    let fine = checked(&server, Repair::No).await;
    assert_eq!((fine.jobs, fine.topics, fine.buckets), (22, 13, (4, 4)));
    assert_eq!(fine.faults, []);
    let before = jobs(&open(&server).await).await;
    assert_eq!(before.len(), 10);
    for (how, expected) in BREAKS {
        break_it(&mut server.plain(), how);
        let found = checked(&server, Repair::No).await;
        assert_eq!(kinds(&found), expected.iter().copied().collect(), "{how}: {found:#?}");
        assert!(found.is_faulty() && found.faults.iter().all(|fault| fault.repaired == 0));
        let repaired = checked(&server, Repair::Yes).await;
        assert!(!repaired.faults.is_empty() && !repaired.is_faulty(), "{how}: {repaired:#?}");
        let after = checked(&server, Repair::No).await;
        assert_eq!(after.faults, [], "{how}");
        assert_eq!(jobs(&open(&server).await).await, before, "{how}");
    }
    hand_out_all(&open(&server).await).await;
}

#[tokio::test]
async fn what_bodies_take_is_counted_anew() {
    let Some(server) = filled().await else { return };
    let store = open(&server).await;
    let settings = TopicSettings { bytes_max: NonZeroU64::new(1000), ..TopicSettings::default() };
    store.configure(&topic("kept"), TopicChange::Set(Box::new(settings))).await.unwrap();
    assert_eq!(checked(&server, Repair::No).await.faults, []);
    for how in ["call('HINCRBY', t .. 's', 'bytes', 5)", "call('HDEL', t .. 's', 'bytes')"] {
        break_it(&mut server.plain(), how);
        assert_eq!(kinds(&checked(&server, Repair::No).await), ["bytes_miscounted"].into());
        assert!(!checked(&server, Repair::Yes).await.is_faulty(), "{how}");
        let kept = store.topics(Topics::One(topic("kept"))).await.unwrap().remove(0);
        assert_eq!(kept.bytes, Some(10), "{how}");
    }
}

/// Every job that is ready, or is let go, is handed out.
async fn hand_out_all(store: &Redis) {
    let ask = |lane| Ask { max: 10, lane, from: Source::Any, ..Ask::one(topic("kept")) };
    assert_eq!(store.pop(ask(Lane::Pull)).await.unwrap().len(), 2);
    assert_eq!(store.pop(ask(Lane::Push)).await.unwrap().len(), 1);
    for id in ["delayed", "delayed too", "held", "retry", "dead"] {
        let key = Key::Named(topic("kept"), id.parse().unwrap());
        let run = Change::new(key, Action::Run);
        store.change(vec![run]).await.unwrap().remove(0).expect("it is found by its id");
    }
    assert_eq!(store.pop(ask(Lane::Pull)).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_topic_whose_settings_are_gone_keeps_its_jobs() {
    let Some(server) = filled().await else { return };
    break_it(&mut server.plain(), "call('DEL', t .. 's')");
    assert_eq!(
        kinds(&checked(&server, Repair::No).await),
        BTreeSet::from(["job_without_topic", "topic_misnamed", "counter_behind", "clock_astray"])
    );
    assert!(!checked(&server, Repair::Yes).await.is_faulty());
    assert_eq!(checked(&server, Repair::No).await.faults, []);
    let store = open(&server).await;
    assert_eq!(jobs(&store).await.len(), 10);
    hand_out_all(&store).await;
}

#[tokio::test]
async fn a_topic_that_was_made_anew_gets_the_jobs_of_the_old_one() {
    let Some(server) = filled().await else { return };
    break_it(&mut server.plain(), "call('HDEL', b .. 'names', 'kept')");
    add(&open(&server).await, Job::new("kept", "x").id("new").delay(HOUR)).await;
    assert!(!checked(&server, Repair::Yes).await.is_faulty());
    assert_eq!(checked(&server, Repair::No).await.faults, []);
    let store = open(&server).await;
    assert_eq!(jobs(&store).await.len(), 11);
    hand_out_all(&store).await;
}

#[tokio::test]
async fn a_job_that_is_gone_leaves_nothing_behind() {
    let Some(server) = filled().await else { return };
    let all = "for _, order in ipairs({ 'd', 'r', 'h', 'v', 'x', 'f' }) do
          call('HDEL', b .. 'jobs', first(order))
        end
        for _, order in ipairs({ 'y0', 'y1' }) do call('HDEL', b .. 'jobs', string.sub(first(order), 13)) end";
    break_it(&mut server.plain(), all);
    let found = checked(&server, Repair::Yes).await;
    let found = kinds(&found);
    assert!(found.contains("entry_without_job") && found.contains("id_without_job"), "{found:?}");
    assert_eq!(checked(&server, Repair::No).await.faults, []);
    let store = open(&server).await;
    assert_eq!(jobs(&store).await.len(), 2);
    add(&store, Job::new("kept", "x").id("dead")).await;
}

#[tokio::test]
async fn entries_without_jobs_that_the_clock_comes_upon_are_dropped_and_counted() {
    let Some(server) = filled().await else { return };
    let strays = "call('ZADD', t .. 'd', 5, nobody) call('ZADD', t .. 'u', 5, nobody)
        call('ZADD', t .. 'v', 5, nobody) call('ZADD', t .. 'x', 5, nobody)
        call('ZADD', b .. 'wall', 5, tno) call('ZADD', b .. 'tick', 5, tno)";
    break_it(&mut server.plain(), strays);
    let store = open(&server).await;
    let counted = async {
        while store.stats().await.unwrap().stray_entries < 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(30 * SECOND, counted).await.expect("they are counted");
    assert_eq!(store.stats().await.unwrap().stray_entries, 4);
    assert_eq!(checked(&server, Repair::No).await.faults, []);
}

#[tokio::test]
async fn an_entry_without_a_job_that_a_pop_comes_upon_is_dropped_and_counted() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--appendonly", "no"]);
    let store = open(&server).await;
    add(&store, Job::new("orders", "x").id("gone")).await;
    add(&store, Job::new("orders", "x").id("there")).await;
    let jobs = server.plain().ask(&["KEYS", "linger:*:jobs"]).list()[0].text().to_owned();
    let lose_the_first = "local first = redis.call('HKEYS', KEYS[1])
        table.sort(first)
        return redis.call('HDEL', KEYS[1], first[1])";
    assert_eq!(server.plain().ask(&["EVAL", lose_the_first, "1", &jobs]).int(), 1);
    let popped = store.pop(Ask::one("orders".parse().unwrap())).await.unwrap();
    assert_eq!(popped[0].job.spec.id.as_str(), "there");
    assert_eq!(store.stats().await.unwrap().stray_entries, 1);
    assert!(store.pop(Ask::one("orders".parse().unwrap())).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_cannot_be_put_right_is_left_and_told() {
    let Some(server) = filled().await else { return };
    break_it(&mut server.plain(), "call('HSET', b .. 'jobs', nobody, 'nonsense')");
    let twice = "local n = first('h')
        call('HSET', b .. 'jobs', struct.pack('>I8', 4), call('HGET', b .. 'jobs', n))";
    break_it(&mut server.plain(), twice);
    let repaired = checked(&server, Repair::Yes).await;
    let left = |kind: &str| {
        let fault = repaired.faults.iter().find(|fault| fault.kind == kind);
        fault.map(|fault| (fault.found, fault.repaired))
    };
    assert_eq!(
        (left("job_unreadable"), left("job_twice")),
        (Some((1, 0)), Some((1, 0))),
        "{repaired:#?}"
    );
    let again = checked(&server, Repair::Yes).await;
    assert_eq!(kinds(&again), BTreeSet::from(["job_unreadable", "job_twice"]));
    assert!(again.is_faulty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_use_is_never_taken_for_a_broken_one() {
    let Some(server) = filled().await else { return };
    let (store, other) = (open(&server).await, open(&server).await);
    let is_over = AtomicBool::new(false);
    let work = async |store: &Redis, who: &str| {
        for n in 0.. {
            if is_over.load(Ordering::SeqCst) {
                return n;
            }
            for lane in ["", "https://example.org"] {
                let job = Job::new(format!("busy-{}", n % 3), "x").id(format!("{who}{n}{lane}"));
                let job = job.ttr(SECOND / 50).retry(Retry::none());
                add(store, if lane.is_empty() { job } else { job.target(lane) }).await;
            }
            for lane in [Lane::Pull, Lane::Push] {
                let ask = Ask { from: Source::Any, lane, max: 2, ..Ask::one(topic("any")) };
                for held in store.pop(ask).await.unwrap() {
                    let failed = Verdict::Fail { error: "no".into(), retry_in: None };
                    let verdict = if n % 2 == 0 { Verdict::Finish } else { failed };
                    let _ = store.settle(vec![Settle::delivery(&held, verdict)]).await.unwrap();
                }
            }
        }
        unreachable!("it ends when it is told to")
    };
    let look = async {
        let mut jobs = 0;
        for round in 0..60 {
            let repair = if round % 2 == 0 { Repair::No } else { Repair::Yes };
            let seen = checked(&server, repair).await;
            assert_eq!(seen.faults, [], "round {round}");
            jobs = jobs.max(seen.jobs);
        }
        is_over.store(true, Ordering::SeqCst);
        jobs
    };
    let (one, two, jobs) = tokio::join!(work(&store, "a"), work(&other, "b"), look);
    assert!(one > 0 && two > 0 && jobs > 22, "{one} {two} {jobs}");
}

#[tokio::test]
async fn a_store_that_is_not_there_is_not_made_by_a_check() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--appendonly", "no"]);
    let address = server.url().parse().unwrap();
    let refused = check(&address, "linger", Repair::Yes, |_| {}).await.unwrap_err();
    assert_eq!(refused.code(), linger::error::Code::NotFound);
    assert_eq!(server.plain().ask(&["DBSIZE"]).int(), 0);
}
