//! A folder that was written once is read by every later version.
//!
//! `LINGER_WRITE_FIXTURE=1 cargo test -p linger --test format` writes it anew: only while the
//! format may still change. Afterwards a new format gets a fixture of its own beside this one.

#[allow(dead_code, reason = "it has more to tell than is needed here")]
mod story;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use linger::dice::Lease;
use linger::history::What;
use linger::job::{Confirm, Form, Ttr};
use linger::machine::Stage;
use linger::queue::{
    Ask, Bodies, JobInfo, KvQuery, PausedFor, Query, Queue, Settle, TopicInfo, Topics, Verdict,
};
use linger::store::embedded::check;
use linger::store::embedded::files::Folder;
use linger::testkit::SimClock;
use linger::time::{DAY, HOUR, MINUTE, SECOND};
use story::{DENSE, LEFT, Stepped, time, topic};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1")
}

/// The fixture in a folder of its own, opened a while after it was written.
fn opened() -> (tempfile::TempDir, Stepped) {
    if std::env::var_os("LINGER_WRITE_FIXTURE").is_some() {
        static WRITTEN: std::sync::Once = std::sync::Once::new();
        WRITTEN.call_once(write);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for entry in fs::read_dir(fixture()).expect("the fixture is there") {
        let entry = entry.expect("listed");
        fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
    }
    let clock = SimClock::new();
    clock.advance(HOUR);
    let files = Arc::new(Folder::open(folder.path()).expect("it is there"));
    (folder, Stepped::open(files, &clock))
}

fn write() {
    let _ = fs::remove_dir_all(fixture());
    let files = Arc::new(Folder::open(fixture()).expect("made"));
    let leases = story::write(files);
    assert_eq!(leases.into_iter().collect::<Vec<_>>(), LEASES, "by the story's own dice");
    // These say nothing about the format.
    for entry in fs::read_dir(fixture()).expect("it is there") {
        let entry = entry.expect("listed");
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "LOCK" || name.starts_with("spare-") {
            fs::remove_file(entry.path()).expect("removed");
        }
    }
}

/// The leases that were given when the fixture was written.
const LEASES: [(&str, u64); 3] = [
    ("reserved", 3_951_383_112_168_736_448),
    ("tied", 16_546_076_929_533_934_540),
    ("touched", 17_139_648_098_932_122_043),
];

impl Stepped {
    fn jobs(&mut self, name: &str) -> Vec<JobInfo> {
        let query = Query { bodies: Bodies::With, limit: 1000, ..Query::all(topic(name)) };
        self.call(async |store| store.browse(query).await).expect("browsed").jobs
    }

    fn job(&mut self, name: &str, id: &str) -> JobInfo {
        let key = story::key(name, id);
        self.call(async |store| store.get(&key).await).expect("it is there")
    }

    fn topic(&mut self, name: &str) -> TopicInfo {
        let which = Topics::One(topic(name));
        self.call(async |store| store.topics(which).await).expect("looked").remove(0)
    }
}

fn body(job: &JobInfo) -> &[u8] {
    job.body.as_ref().expect("asked for").as_bytes()
}

fn history(job: &JobInfo) -> Vec<What> {
    job.history.iter().map(|entry| entry.what).collect()
}

#[test]
fn the_fixture_has_every_kind_of_file_and_is_in_order() {
    let (folder, store) = opened();
    drop(store);
    let names: Vec<String> = fs::read_dir(fixture())
        .expect("there")
        .map(|entry| entry.expect("listed").file_name().to_string_lossy().into_owned())
        .collect();
    let kinds: Vec<u8> = names
        .iter()
        .filter(|name| name.starts_with("segment-"))
        .map(|name| fs::read(fixture().join(name)).expect("read")[12])
        .collect();
    assert!(kinds.contains(&0) && kinds.contains(&1), "a log and survivors: {names:?}");
    assert!(names.iter().any(|name| name.starts_with("checkpoint-")), "{names:?}");
    let bytes: u64 = fs::read_dir(fixture())
        .expect("there")
        .map(|entry| entry.expect("listed").metadata().expect("known").len())
        .sum();
    assert!(bytes < 300 << 10, "the fixture has {bytes} bytes");
    let report = check(folder.path()).expect("nobody has it open");
    assert!(report.is_in_order(), "{report}");
}

#[test]
fn every_state_is_read() {
    let (_folder, mut store) = opened();
    // (id, state, version, priority, attempt, due after the start)
    let expected = [
        ("dead", Stage::Dead, 3, 9, 1, Duration::ZERO),
        ("delayed", Stage::Delayed, 1, 1024, 0, DAY),
        ("finished", Stage::Finished, 3, 1024, 1, Duration::ZERO),
        ("held", Stage::Held, 1, 1024, 0, DAY),
        ("late", Stage::Delayed, 1, 1024, 0, DAY + 40 * SECOND),
        ("released", Stage::Delayed, 3, 7, 0, DAY),
        ("replaced", Stage::Delayed, 1, 1024, 0, 2 * DAY + 40 * SECOND),
        ("reserved", Stage::Reserved, 2, 1024, 1, Duration::ZERO),
        ("retry", Stage::Retry, 3, 1024, 1, DAY),
        ("tied", Stage::Ready, 3, 1024, 1, Duration::ZERO),
        ("touched", Stage::Reserved, 3, 1024, 1, Duration::ZERO),
        ("unheld", Stage::Delayed, 3, 1024, 0, DAY),
        ("updated", Stage::Delayed, 2, 5, 0, DAY),
    ];
    // What was tied to the process that wrote it is let go when the log has room.
    store.tidy_up();
    let mut jobs = store.jobs("states");
    jobs.sort_by(|a, b| a.spec.id.cmp(&b.spec.id));
    let found: Vec<_> = jobs
        .iter()
        .map(|job| {
            let (id, due) = (job.spec.id.as_str(), job.due.ms_since(time(Duration::ZERO)));
            let due = Duration::from_millis(due);
            (id, job.stage, job.version, job.priority, job.attempt, due)
        })
        .collect();
    assert_eq!(found, expected);
    for job in &jobs {
        let text = match job.spec.id.as_str() {
            "late" => "late".to_owned(),
            "replaced" => "in its place".to_owned(),
            "updated" => "another body".to_owned(),
            id => format!("body of {id}"),
        };
        assert_eq!(body(job), text.as_bytes());
    }
    let retained = jobs.iter().filter(|job| job.spec.retain == Some(30 * DAY)).count();
    assert_eq!(retained, 7);
    assert_eq!(store.jobs("paused")[0].stage, Stage::Ready);
}

#[test]
fn history_is_read() {
    let (_folder, mut store) = opened();
    store.tidy_up();
    let retry = store.job("states", "retry");
    assert_eq!(retry.last_error.as_deref(), Some("not now"));
    let [_, entry] = &retry.history[..] else { panic!("{:?}", retry.history) };
    let report = entry.report.as_ref().expect("the receiver had something to say");
    assert_eq!((entry.what, entry.attempt, entry.at), (What::Failed, 1, time(Duration::ZERO)));
    assert_eq!((report.status, report.excerpt.as_deref()), (Some(503), Some("busy")));
    for (id, what) in [
        ("dead", vec![What::Died]),
        ("delayed", vec![]),
        ("finished", vec![What::Finished]),
        ("released", vec![What::Released]),
        ("tied", vec![What::Lost]),
        ("unheld", vec![What::Held, What::Unheld]),
        ("updated", vec![What::Updated]),
    ] {
        let job = store.job("states", id);
        assert_eq!(history(&job), [vec![What::Added], what.clone()].concat(), "{id}");
        let by = job.history.iter().filter_map(|entry| entry.by.as_ref()).count();
        assert_eq!(by, if id.starts_with("un") || id == "updated" { what.len() } else { 0 });
    }
    assert_eq!(store.job("states", "dead").last_error.as_deref(), Some("broken"));
}

#[test]
fn leases_hold() {
    let (_folder, mut store) = opened();
    for (id, lease) in LEASES {
        let settle = Settle {
            lease: Some(Lease::from_u64(lease)),
            ..Settle::key(story::key("states", id), Verdict::Finish)
        };
        let settled = store.call(async |store| store.settle(vec![settle]).await);
        let settled = settled.expect("settled").remove(0);
        assert_eq!(settled.is_ok(), id != "tied", "{id}: {settled:?}");
    }
    let popped = store.call(async |store| store.pop(Ask::one(topic("states"))).await);
    assert_eq!(popped.expect("popped")[0].id().as_str(), "tied");
}

#[test]
fn settings_of_its_own_are_read() {
    let (_folder, mut store) = opened();
    let cron = store.job("own", "cron");
    assert_eq!(body(&cron), br#"{"order": 1001}"#);
    assert_eq!(cron.body.as_ref().map(|body| body.form()), Some(Form::Json));
    assert_eq!(cron.spec.ttr, Some(Ttr::new(20 * SECOND).expect("a ttr")));
    let repeat = cron.spec.repeat.as_ref().expect("it repeats");
    assert_eq!(
        *repeat,
        linger::schedule::Repeat::cron("0 9 * * 1-5", Some("Europe/Berlin")).expect("a schedule")
    );
    // Nine o'clock in Berlin.
    assert_eq!(cron.due, time(8 * HOUR));
    assert_eq!(cron.spec.confirm, Some(Confirm::Delivery));
    let trace = cron.spec.traceparent.as_ref().map(|trace| trace.as_str());
    assert_eq!(trace, Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));

    let every = store.job("own", "every");
    assert_eq!(body(&every), [0, 159, 146, 150]);
    let repeat = every.spec.repeat.expect("it repeats");
    assert_eq!(repeat.ends_at(), Some(time(30 * DAY)));
    assert_eq!(repeat.count_max().map(|count| count.get()), Some(100));
    assert_eq!(repeat.when_dead(), linger::schedule::OnDead::Stop);
    let three = std::num::NonZeroU32::new(3).expect("not 0");
    assert_eq!(repeat.when_missed(), linger::schedule::Misfire::All(three));

    let ladder = store.job("own", "ladder");
    assert_eq!(
        ladder.spec.target.map(|target| target.to_string()).as_deref(),
        Some("http://example.com/")
    );
    let steps = linger::retry::Retry::ladder(&[SECOND, MINUTE, HOUR]).expect("a ladder").from_due();
    assert_eq!(ladder.spec.retry, Some(steps));

    let backoff = store.job("own", "回退");
    assert_eq!(body(&backoff), b"");
    let content_type = backoff.spec.content_type.as_ref().map(|one| one.as_str());
    assert_eq!(content_type, Some("text/csv"));
    let retry = linger::retry::Retry::backoff(SECOND, HOUR, 0.5).expect("a backoff").attempts(5);
    assert_eq!(backoff.spec.retry, Some(retry));
}

#[test]
fn topics_and_keys_are_read() {
    let (_folder, mut store) = opened();
    let limited = store.topic("limited").settings;
    assert_eq!(limited.ttr, Some(Ttr::new(30 * SECOND).expect("a ttr")));
    assert_eq!(limited.rate, Some("100/m".parse().expect("a rate")));
    assert_eq!(limited.concurrency.map(|most| most.get()), Some(5));
    assert_eq!(limited.retain, Some(HOUR));
    assert_eq!(limited.retain_dead, Some(7 * DAY));
    assert_eq!(limited.confirm, Some(Confirm::Finish));
    let retry = linger::retry::Retry::ladder(&[15 * SECOND, 3 * MINUTE]).expect("a ladder");
    assert_eq!(limited.retry, Some(retry.attempts(3)));
    let target = limited.target.as_ref().map(|target| target.to_string());
    assert_eq!(target.as_deref(), Some("https://example.com/hook"));
    assert_eq!(store.topic("paused").paused, Some(PausedFor::Ever));
    assert_eq!(store.topic("resting").paused, Some(PausedFor::Only(23 * HOUR)));
    let which = Topics::Page { prefix: "".into(), after: None, limit: 100 };
    let topics = store.call(async |store| store.topics(which).await).expect("looked");
    let names: Vec<_> = topics.iter().map(|topic| topic.topic.as_str().to_owned()).collect();
    assert_eq!(names, ["dense", "limited", "own", "paused", "resting", "sparse", "states"]);

    let query = KvQuery::Prefix { prefix: "".into(), after: None, limit: 100 };
    let keys = store.call(async |store| store.kv_read(query).await).expect("read");
    let keys: Vec<_> = keys.iter().map(|one| (&*one.key, &one.value[..], one.version)).collect();
    assert_eq!(keys, [("keys/a", &b"4"[..], 5), ("keys/b", b"2", 2)]);
}

#[test]
fn moved_and_old_records_are_read_and_work_goes_on() {
    let (folder, mut store) = opened();
    for (name, ids) in [("dense", 1..DENSE), ("sparse", LEFT)] {
        let jobs = store.jobs(name);
        assert_eq!(jobs.len(), ids.len());
        for n in ids {
            let job = store.job(name, &n.to_string());
            assert_eq!(body(&job), format!("{name} {n:3} ").repeat(80).as_bytes());
        }
    }
    let highest = store.job("states", "late").number;
    let new = linger::Job::new("states", "new").id("new").check(time(HOUR)).expect("right");
    let added = store.call(async |store| store.add_all(vec![new]).await);
    let number = added.expect("added").remove(0).expect("new").job.number;
    assert_eq!(number, highest + 1, "numbers go on");
    drop(store);
    assert!(check(folder.path()).expect("nobody has it open").is_in_order());
}
