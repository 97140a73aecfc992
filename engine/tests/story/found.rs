//! What is found in a store that the story was written into.

use std::num::NonZeroU64;
use std::time::Duration;

use linger::history::What;
use linger::job::{Confirm, Form, Ttr};
use linger::machine::{Reach, Stage};
use linger::queue::{
    Action, Bodies, Change, JobInfo, Key, KvQuery, PausedFor, Query, Queue, TopicChange, TopicInfo,
    Topics,
};
use linger::time::{DAY, HOUR, MINUTE, SECOND};
use linger::topic::Settings;

use super::{Called, key, time, topic};

pub(crate) fn jobs(store: &mut impl Called, name: &str) -> Vec<JobInfo> {
    let query = Query { bodies: Bodies::With, limit: 1000, ..Query::all(topic(name)) };
    store.call(async |store| store.browse(query).await).expect("browsed").jobs
}

pub(crate) fn job(store: &mut impl Called, name: &str, id: &str) -> JobInfo {
    let key = key(name, id);
    store.call(async |store| store.get(&key).await).expect("it is there")
}

fn topic_info(store: &mut impl Called, name: &str) -> TopicInfo {
    let which = Topics::One(topic(name));
    store.call(async |store| store.topics(which).await).expect("looked").remove(0)
}

/// What the bodies of a topic's jobs take by the store's own count, once it is to limit them, and what
/// they do take.
pub(crate) fn weighed(store: &mut impl Called, name: &str) -> (u64, u64) {
    let bytes_max = NonZeroU64::new(1 << 30);
    let set = TopicChange::Set(Box::new(Settings { bytes_max, ..Settings::default() }));
    let in_topic = topic(name);
    store.call(async |store| store.configure(&in_topic, set).await).expect("set");
    let jobs = jobs(store, name);
    (bytes(store, name), jobs.iter().map(|job| body(job).len() as u64).sum())
}

/// What the bodies of a topic's jobs take by the count of a store that limits them.
pub(crate) fn bytes(store: &mut impl Called, name: &str) -> u64 {
    topic_info(store, name).bytes.expect("they are limited")
}

/// Deletes all jobs of a topic, one by one.
pub(crate) fn delete_each(store: &mut impl Called, name: &str) {
    for job in jobs(store, name) {
        let delete = Change::new(Key::Number(job.number), Action::Delete(Reach::Any));
        store.call(async |store| store.change(vec![delete]).await).expect("deleted");
    }
}

pub(crate) fn body(job: &JobInfo) -> &[u8] {
    job.body.as_ref().expect("asked for").as_bytes()
}

fn whats(job: &JobInfo) -> Vec<What> {
    job.history.iter().map(|entry| entry.what).collect()
}

/// What became of the job that was tied to the process that wrote it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tied {
    /// The process is known to be gone.
    LetGo,
    /// Its lease runs on: others may have been there.
    Held,
}

/// Every state, version, priority, attempt and due time.
pub(crate) fn states(store: &mut impl Called, tied: Tied) {
    let (tied_stage, tied_version) = match tied {
        Tied::LetGo => (Stage::Ready, 3),
        Tied::Held => (Stage::Reserved, 2),
    };
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
        ("tied", tied_stage, tied_version, 1024, 1, Duration::ZERO),
        ("touched", Stage::Reserved, 3, 1024, 1, Duration::ZERO),
        ("unheld", Stage::Delayed, 3, 1024, 0, DAY),
        ("updated", Stage::Delayed, 2, 5, 0, DAY),
    ];
    let mut found = jobs(store, "states");
    found.sort_by(|a, b| a.spec.id.cmp(&b.spec.id));
    let seen: Vec<_> = found
        .iter()
        .map(|job| {
            let (id, due) = (job.spec.id.as_str(), job.due.ms_since(time(Duration::ZERO)));
            let due = Duration::from_millis(due);
            (id, job.stage, job.version, job.priority, job.attempt, due)
        })
        .collect();
    assert_eq!(seen, expected);
    for job in &found {
        let text = match job.spec.id.as_str() {
            "late" => "late".to_owned(),
            "replaced" => "in its place".to_owned(),
            "updated" => "another body".to_owned(),
            id => format!("body of {id}"),
        };
        assert_eq!(body(job), text.as_bytes());
    }
    let retained = found.iter().filter(|job| job.spec.retain == Some(30 * DAY)).count();
    assert_eq!(retained, 7);
    assert_eq!(jobs(store, "paused")[0].stage, Stage::Ready);
}

/// What happened to each.
pub(crate) fn history(store: &mut impl Called, tied: Tied) {
    let retry = job(store, "states", "retry");
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
        ("tied", if tied == Tied::LetGo { vec![What::Lost] } else { vec![] }),
        ("unheld", vec![What::Held, What::Unheld]),
        ("updated", vec![What::Updated]),
    ] {
        let one = job(store, "states", id);
        assert_eq!(whats(&one), [vec![What::Added], what.clone()].concat(), "{id}");
        let by = one.history.iter().filter_map(|entry| entry.by.as_ref()).count();
        assert_eq!(by, if id.starts_with("un") || id == "updated" { what.len() } else { 0 });
    }
    assert_eq!(job(store, "states", "dead").last_error.as_deref(), Some("broken"));
}

/// Jobs with settings of their own.
pub(crate) fn own(store: &mut impl Called) {
    let cron = job(store, "own", "cron");
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

    let every = job(store, "own", "every");
    assert_eq!(body(&every), [0, 159, 146, 150]);
    let repeat = every.spec.repeat.expect("it repeats");
    assert_eq!(repeat.ends_at(), Some(time(30 * DAY)));
    assert_eq!(repeat.count_max().map(|count| count.get()), Some(100));
    assert_eq!(repeat.when_dead(), linger::schedule::OnDead::Stop);
    let three = std::num::NonZeroU32::new(3).expect("not 0");
    assert_eq!(repeat.when_missed(), linger::schedule::Misfire::All(three));

    let ladder = job(store, "own", "ladder");
    assert_eq!(
        ladder.spec.target.map(|target| target.to_string()).as_deref(),
        Some("http://example.com/")
    );
    let steps = linger::retry::Retry::ladder(&[SECOND, MINUTE, HOUR]).expect("a ladder").from_due();
    assert_eq!(ladder.spec.retry, Some(steps));

    let backoff = job(store, "own", "回退");
    assert_eq!(body(&backoff), b"");
    let content_type = backoff.spec.content_type.as_ref().map(|one| one.as_str());
    assert_eq!(content_type, Some("text/csv"));
    let retry = linger::retry::Retry::backoff(SECOND, HOUR, 0.5).expect("a backoff").attempts(5);
    assert_eq!(backoff.spec.retry, Some(retry));
}

/// Topics with their settings, and keys.
pub(crate) fn topics_and_keys(store: &mut impl Called, all: &[&str]) {
    let limited = topic_info(store, "limited").settings;
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
    assert_eq!(topic_info(store, "paused").paused, Some(PausedFor::Ever));
    assert_eq!(topic_info(store, "resting").paused, Some(PausedFor::Only(23 * HOUR)));
    let which = Topics::Page { prefix: "".into(), after: None, limit: 100 };
    let topics = store.call(async |store| store.topics(which).await).expect("looked");
    let names: Vec<_> = topics.iter().map(|topic| topic.topic.as_str().to_owned()).collect();
    assert_eq!(names, all);

    let query = KvQuery::Prefix { prefix: "".into(), after: None, limit: 100 };
    let keys = store.call(async |store| store.kv_read(query).await).expect("read");
    let keys: Vec<_> = keys.iter().map(|one| (&*one.key, &one.value[..], one.version)).collect();
    assert_eq!(keys, [("keys/a", &b"4"[..], 5), ("keys/b", b"2", 2)]);
}
