//! From one store to another and back.

use std::num::NonZeroU32;
use std::path::Path;

use linger::Job;
use linger::history::Report;
use linger::job::{Body, Confirm, Envelope, NewJob, Ttr};
use linger::queue::{
    Action, Ask, Change, Delivery, Expect, Key, KvWrite, Lane, Queue, Settle, Terms, TopicChange,
    Verdict,
};
use linger::retry::Retry;
use linger::schedule::{Misfire, OnDead, Repeat};
use linger::store::Options;
use linger::store::embedded::{self, Embedded};
use linger::store::redis::{self, Redis};
use linger::time::{DAY, HOUR, MINUTE, SECOND};
use linger::topic::{Headers, Partitions, Settings, Topic};
use serde_json::Value;

use crate::redis_servers::{Standalone, there};
use crate::run::{done, exported, json, run, text};

fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, Options::default(), embedded::Settings::default()).expect("a store")
}

async fn connect(url: &str) -> Redis {
    let address = url.parse().expect("an address");
    let settings = redis::Settings::default();
    Redis::open(&address, Options::default(), settings).await.expect("it is there")
}

async fn add(store: &impl Queue, job: Job) {
    let new = job.check(store.clock().now().time()).expect("a right job");
    add_new(store, new).await;
}

async fn add_new(store: &impl Queue, new: NewJob) {
    store.add_all(vec![new]).await.expect("added").remove(0).expect("it is taken");
}

async fn reserve(store: &impl Queue, name: &str, id: &str) -> Delivery {
    let key = Key::Named(topic(name), id.parse().expect("an id"));
    let terms = Terms { ttr: Ttr::new(HOUR).ok(), ..Terms::default() };
    store.reserve(&key, terms).await.expect("it can be had")
}

async fn settle(store: &impl Queue, settle: Settle) {
    store.settle(vec![settle]).await.expect("settled").remove(0).expect("the lease holds");
}

async fn change(store: &impl Queue, name: &str, id: &str, action: Action) {
    let key = Key::Named(topic(name), id.parse().expect("an id"));
    store.change(vec![Change::new(key, action)]).await.expect("done").remove(0).expect("allowed");
}

async fn set(store: &impl Queue, name: &str, change: TopicChange) {
    store.configure(&topic(name), change).await.expect("configured");
}

fn every_setting() -> Settings {
    Settings {
        ttr: Ttr::new(90 * SECOND).ok(),
        retry: Retry::ladder(&[15 * SECOND, 3 * MINUTE]).ok().map(Retry::from_due),
        target: "https://example.org/hook".parse().ok(),
        confirm: Some(Confirm::Finish),
        envelope: Some(Envelope::CloudEvents),
        timeout: Ttr::new(5 * SECOND).ok(),
        headers: Headers::new(
            [("x-shop", "%C3%A9 1")].map(|(name, value)| (name, value.to_owned())),
        )
        .expect("right headers"),
        retain: Some(HOUR),
        retain_dead: Some(7 * DAY),
        archive: "files".parse().ok(),
        rate: "10/m".parse().ok(),
        concurrency: NonZeroU32::new(3),
        partitions: Partitions::new(4).ok(),
        jobs_max: std::num::NonZeroU32::new(1000),
        bytes_max: std::num::NonZeroU64::new(1 << 40),
    }
}

/// Jobs in every state with all that jobs can have; answers a lease that holds for an hour.
async fn fill(store: &impl Queue) -> String {
    set(store, "settled", TopicChange::Set(Box::new(every_setting()))).await;
    set(store, "asleep", TopicChange::Pause(None)).await;
    set(store, "napping", TopicChange::Pause(Some(HOUR))).await;
    let kept = Settings { retain: Some(DAY), ..Settings::default() };
    set(store, "kept", TopicChange::Set(Box::new(kept))).await;
    add(store, Job::new("支付宝", "支付 ✓").id("ünï/1").delay(HOUR).priority(3)).await;
    add(store, Job::new("支付宝", Body::bytes(vec![0, 255, 10, 13])).id("bytes").delay(HOUR)).await;
    add(store, Job::new("kept", "x".repeat(16 << 10)).id("large").delay(DAY)).await;
    let lines = Body::json("{\n  \"a\": [1, 2]\n}").expect("JSON");
    add(store, Job::new("kept", lines).id("lines").delay(DAY)).await;
    add(store, Job::new("kept", Body::json("{\"b\":1.50}").expect("JSON")).id("json").held()).await;
    add(store, Job::new("kept", "").id("ready").priority(1)).await;
    let mut full = Job::new("settled", "x")
        .id("full")
        .retry(Retry::backoff(SECOND, HOUR, 0.25).expect("right").attempts(7))
        .target("worker:shop")
        .confirm(Confirm::Delivery)
        .envelope(Envelope::Body)
        .content_type("text/csv")
        .retain(MINUTE)
        .ttr(20 * SECOND)
        .delay(HOUR)
        .check(store.clock().now().time())
        .expect("a right job");
    full.by = "shop".parse().ok();
    full.spec.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().ok();
    add_new(store, full).await;
    let cron = Repeat::cron("0 9 * * 1-5", Some("Asia/Shanghai")).expect("right");
    let cron = cron.count(NonZeroU32::new(9).expect("some")).misfire(Misfire::Skip).expect("right");
    add(store, Job::new("kept", "x").id("cron").repeat(cron.on_dead(OnDead::Stop))).await;
    let every = Repeat::every(HOUR).expect("right");
    add(store, Job::new("kept", "x").id("every").repeat(every)).await;
    let held = reserve(store, "kept", "every").await;
    settle(store, Settle::delivery(&held, Verdict::Finish)).await;
    for id in ["retry", "held after", "dead", "finished", "reserved", "released"] {
        add(store, Job::new("kept", format!("body of {id}")).id(id).retry(Retry::default())).await;
        let held = reserve(store, "kept", id).await;
        let report = Some(Report { status: Some(503), excerpt: Some("busy\n".into()) });
        let by = |verdict| Settle { by: "ops".parse().ok(), ..Settle::delivery(&held, verdict) };
        match id {
            "retry" | "held after" => {
                let failed = Verdict::Fail { error: "no\nway".into(), retry_in: Some(HOUR) };
                settle(store, Settle { report, ..by(failed) }).await;
            }
            "dead" => {
                let buried = Verdict::Bury { error: Some("broken".into()), priority: Some(8) };
                settle(store, by(buried)).await;
            }
            "finished" => settle(store, by(Verdict::Finish)).await,
            "released" => {
                let released = Verdict::Release { delay: HOUR, priority: None };
                settle(store, by(released)).await;
            }
            _ => {}
        }
    }
    change(store, "kept", "held after", Action::Hold).await;
    change(store, "kept", "large", Action::Hold).await;
    change(store, "kept", "large", Action::Unhold).await;
    reserve(store, "支付宝", "bytes").await.lease.to_string()
}

/// Lines that can be compared: without the moment of the export, and without the ends of leases and
/// pauses, which go by another clock and may be told a millisecond apart.
fn comparable(mut lines: Vec<Value>) -> Vec<Value> {
    lines[0].as_object_mut().expect("an object").remove("at").expect("it says when");
    for line in &mut lines {
        for name in ["reserved_until", "paused_until"] {
            if let Some(time) = line.get_mut(name) {
                let told: linger::time::Time =
                    time.as_str().expect("text").parse().expect("a time");
                *time = (told.as_ms() / 100_000).into();
            }
        }
    }
    lines
}

fn jobs(lines: &[Value]) -> usize {
    lines.iter().filter(|line| line["kind"] == "job").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_from_a_folder_to_redis_and_back_and_are_the_same() {
    if !there() {
        return;
    }
    let (folder, server) = (tempfile::tempdir().unwrap(), Standalone::start(&[]));
    let first = folder.path().join("first");
    let lease = {
        let store = open(&first);
        fill(&store).await
    };
    let (first, second) = (text(&first).to_owned(), folder.path().join("second"));
    let file = folder.path().join("jobs.jsonl");
    let told = json(&["export", "--store", &first, "--out", text(&file)]);
    assert_eq!((&told["jobs"], &told["topics"]), (&15.into(), &4.into()));
    let one = comparable(exported(&first));
    assert_eq!(jobs(&one), 15);

    let url = server.url();
    let told = json(&["import", "--store", &url, text(&file)]);
    assert_eq!(told["jobs"], serde_json::json!({ "new": 15, "kept": 0 }));
    assert_eq!(told["topics"], serde_json::json!({ "new": 4, "kept": 0 }));
    assert_eq!(comparable(exported(&url)), one);

    let (back, second) = (folder.path().join("back.jsonl"), text(&second).to_owned());
    done(&["export", "--store", &url, "--out", text(&back)]);
    done(&["import", "--store", &second, text(&back)]);
    assert_eq!(comparable(exported(&second)), one);

    // Whoever held it there can finish it here.
    for_both(&url, &second, &lease).await;
}

async fn for_both(url: &str, folder: &str, lease: &str) {
    let key = Key::Named(topic("支付宝"), "bytes".parse().expect("an id"));
    let finish =
        || Settle { lease: lease.parse().ok(), ..Settle::key(key.clone(), Verdict::Finish) };
    settle(&connect(url).await, finish()).await;
    settle(&open(Path::new(folder)), finish()).await;
    let store = connect(url).await;
    let ready = store.pop(Ask { lane: Lane::Pull, ..Ask::one(topic("kept")) }).await.unwrap();
    assert_eq!(ready[0].id().as_str(), "ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_was_cut_short_is_begun_again() {
    if !there() {
        return;
    }
    let (folder, server) = (tempfile::tempdir().unwrap(), Standalone::start(&[]));
    let first = folder.path().join("first");
    {
        let store = open(&first);
        fill(&store).await;
    }
    let all = done(&["export", "--store", text(&first)]);
    let (half, whole) = (folder.path().join("half.jsonl"), folder.path().join("whole.jsonl"));
    let lines: Vec<_> = all.split_inclusive('\n').collect();
    std::fs::write(&half, lines[..12].concat()).unwrap();
    std::fs::write(&whole, &all).unwrap();
    let second = folder.path().join("second");
    for store in [server.url(), text(&second).to_owned()] {
        let cut = run(&["import", "--store", &store, text(&half)]);
        assert_eq!(
            (cut.code, cut.out.lines().next()),
            (2, Some("imported 7 jobs, kept 0 that were there"))
        );
        assert!(
            cut.err.contains("no end after line 12") && cut.err.contains("cut short"),
            "{cut:?}"
        );
        let told = json(&["import", "--store", &store, text(&whole)]);
        assert_eq!(told["jobs"], serde_json::json!({ "new": 8, "kept": 7 }));
        assert_eq!(told["topics"], serde_json::json!({ "new": 0, "kept": 4 }));
        assert_eq!(comparable(exported(&store)), comparable(exported(text(&first))));
        let told = json(&["import", "--store", &store, text(&whole)]);
        assert_eq!(told["jobs"], serde_json::json!({ "new": 0, "kept": 15 }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_wrong_is_told_by_number_and_field_or_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    for id in ["1", "2", "3"] {
        add(&open(&first), Job::new("t", "x").id(id).delay(HOUR)).await;
    }
    let all = done(&["export", "--store", text(&first)]);
    let wrong = folder.path().join("wrong.jsonl");
    let mut lines: Vec<_> = all.lines().map(str::to_owned).collect();
    lines[2] = lines[2].replace("\"delayed\"", "\"asleep\"");
    std::fs::write(&wrong, lines.join("\n")).unwrap();
    let refused = run(&["import", "--store", text(&second), text(&wrong)]);
    assert_eq!(
        (refused.code, refused.out.as_str()),
        (2, "imported 1 jobs, kept 0 that were there\n")
    );
    for told in ["line 3", "`asleep` is not a state", "field `state`", "give one of delayed"] {
        assert!(refused.err.contains(told), "{told}: {}", refused.err);
    }
    let passed =
        run(&["import", "--store", text(&second), "--skip-invalid", "--json", text(&wrong)]);
    let told: Value = serde_json::from_str(&passed.out).unwrap();
    assert_eq!((passed.code, &told["skipped"]), (0, &1.into()), "{passed:?}");
    assert_eq!(told["jobs"], serde_json::json!({ "new": 1, "kept": 1 }));
    assert!(passed.err.contains("passed over line 3"), "{}", passed.err);

    std::fs::write(&wrong, "{\"id\":\"1\"}\n").unwrap();
    let refused = run(&["import", "--store", text(&second), text(&wrong)]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("line 1: it is no export of linger: kind is missing"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_in_use_or_not_there_is_not_exported() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("used"));
    let used = run(&["export", "--store", text(&folder.path().join("used"))]);
    assert_eq!((used.code, used.out.as_str()), (2, ""));
    assert!(used.err.contains("another process has this store open"), "{}", used.err);
    drop(store);
    let nowhere = folder.path().join("nowhere");
    let none = run(&["export", "--store", text(&nowhere)]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("there is no store") && !nowhere.exists(), "{}", none.err);
    let unknown = run(&["export", "--store", text(&folder.path().join("used")), "--topic", "t"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (1, ""), "{}", unknown.err);
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let none = run(&["export", "--store", &server.url()]);
    assert!(none.code == 2 && none.err.contains("there is no store"), "{}", none.err);
    assert_eq!(server.plain().ask(&["DBSIZE"]).int(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_go_along_only_if_asked_for_and_one_topic_goes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    {
        let store = open(&first);
        for key in ["secrets/topic/t", "workers/1"] {
            let value = Some("geheim".into());
            let write = KvWrite { key: key.into(), value, expect: Expect::Any, ttl: None };
            store.kv_write(write).await.unwrap();
        }
        add(&store, Job::new("mail", "x").id("1")).await;
        add(&store, Job::new("orders", "x").id("1")).await;
    }
    let store = text(&first);
    let keys = |lines: &[Value]| lines.iter().filter(|line| line["kind"] == "key").count();
    assert_eq!(keys(&exported(store)), 0);
    let file = folder.path().join("jobs.jsonl");
    let out = ["--out", text(&file)];
    let told =
        json(&[&["export", "--store", store, "--secrets", "--topic", "mail"], &out[..]].concat());
    assert_eq!(told, serde_json::json!({ "jobs": 1, "topics": 0, "secrets": 1 }));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = run(&[&["export", "--store", store], &out[..]].concat());
    assert!(again.code == 2 && again.err.contains("is there already"), "{}", again.err);
    for counts in [[1, 0], [0, 1]] {
        let told = json(&["import", "--store", text(&second), text(&file)]);
        assert_eq!(told["secrets"], serde_json::json!({ "new": counts[0], "kept": counts[1] }));
    }
    let lines = exported(text(&second));
    assert_eq!((jobs(&lines), &lines[1]["topic"]), (1, &"mail".into()));
}
