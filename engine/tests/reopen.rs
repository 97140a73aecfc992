//! What opening a folder must not bring back, and what it must not pass over.

#[allow(dead_code, reason = "it has more to tell than is needed here")]
mod story;

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use linger::Job;
use linger::error::Code;
use linger::job::Patch;
use linger::machine::Reach;
use linger::queue::{Action, Ask, Change, Key, Query, Queue, TopicChange, Topics};
use linger::store::Options;
use linger::store::embedded::files::Files;
use linger::store::embedded::{Embedded, Settings};
use linger::testkit::{SimClock, SimDisk};
use linger::time::{DAY, SECOND, Time};
use story::{SEGMENT_BYTES, Stepped, topic};

fn add(store: &mut Stepped, name: &'static str, range: Range<u32>) {
    let job = |n: u32| Job::new(name, "x").id(n.to_string()).delay(DAY);
    let jobs = range.map(|n| job(n).check(Time::MIN).expect("a right job")).collect();
    store.call(async |store| store.add_all(jobs).await).expect("added");
}

fn count(store: &mut Stepped, name: &str) -> u64 {
    let which = Topics::One(topic(name));
    let topics = store.call(async |store| store.topics(which).await).expect("looked");
    topics.first().map_or(0, |topic| topic.counts.total())
}

#[test]
fn a_topic_that_is_emptied_while_a_checkpoint_is_made_stays_empty() {
    let (disk, clock) = (SimDisk::new(), SimClock::new());
    let settings = Settings { checkpoint_records: 1000, ..Settings::default() };
    let mut store = Stepped::open_with(Arc::new(disk.clone()), &clock, settings);
    add(&mut store, "full", 0..100_000);
    store.tidy_up();
    add(&mut store, "other", 0..2_000);
    // Its jobs are freed bit by bit, so some are there yet when their chunks are to be copied.
    clock.advance(2 * SECOND);
    let name = topic("full");
    store.call(async |store| store.configure(&name, TopicChange::Empty).await).expect("emptied");
    store.tidy_up();
    assert_eq!(count(&mut store, "full"), 0);
    drop(store);
    let mut store = Stepped::open_with(Arc::new(disk.survives_kill()), &clock, settings);
    assert_eq!((count(&mut store, "full"), count(&mut store, "other")), (0, 2_000));
}

fn bytes(store: &mut Stepped) -> Option<u64> {
    let which = Topics::One(topic("weighed"));
    let topics = store.call(async |store| store.topics(which).await).expect("looked");
    topics[0].bytes
}

#[test]
fn what_bodies_take_is_known_again_from_the_log_and_from_a_checkpoint() {
    let (disk, clock) = (SimDisk::new(), SimClock::new());
    let settings = Settings { checkpoint_records: 100, ..Settings::default() };
    let mut store = Stepped::open_with(Arc::new(disk.clone()), &clock, settings);
    let name = topic("weighed");
    let bytes_max = NonZeroU64::new(1 << 20);
    let set = Box::new(linger::topic::Settings { bytes_max, ..Default::default() });
    let set = TopicChange::Set(set);
    store.call(async |store| store.configure(&name, set).await).expect("set");
    let job = |n: usize| {
        let job = Job::new("weighed", "x".repeat(n)).id(n.to_string()).delay(DAY);
        if n.is_multiple_of(2) { job } else { job.ttr(SECOND).target("https://shop.example/hooks") }
    };
    let jobs = (1..=100).map(|n| job(n).check(Time::MIN).expect("a right job")).collect();
    store.call(async |store| store.add_all(jobs).await).expect("added");
    let changed = |n: usize, action| {
        Change::new(Key::Named(name.clone(), n.to_string().parse().unwrap()), action)
    };
    let patch = |bytes| Patch { body: Some("x".repeat(bytes).into()), ..Patch::default() };
    let changes = vec![
        changed(1, Action::Update(patch(1000))),
        changed(100, Action::Update(patch(0))),
        changed(50, Action::Delete(Reach::Any)),
    ];
    store.call(async |store| store.change(changes).await).expect("changed");
    let all = 5050 - 1 - 100 - 50 + 1000;
    assert_eq!(bytes(&mut store), Some(all));
    drop(store);
    let disk = disk.survives_kill();
    let mut store = Stepped::open_with(Arc::new(disk.clone()), &clock, settings);
    assert_eq!(bytes(&mut store), Some(all), "from the log");
    clock.advance(2 * SECOND);
    store.tidy_up();
    drop(store);
    let disk = disk.survives_kill();
    assert!(disk.list().expect("listed").iter().any(|name| name.starts_with("checkpoint-")));
    let mut store = Stepped::open_with(Arc::new(disk), &clock, settings);
    assert_eq!(bytes(&mut store), Some(all), "from a checkpoint");
    store.call(async |store| store.configure(&name, TopicChange::Empty).await).expect("emptied");
    assert_eq!(bytes(&mut store), Some(0));
}

#[test]
fn a_large_job_of_another_store_is_taken_in_whole_or_not_at_all() {
    let clock = SimClock::new();
    let settings = Settings { segment_bytes: 8 << 20, ..Settings::default() };
    let open = |disk: &SimDisk| Stepped::open_with(Arc::new(disk.clone()), &clock, settings);
    // More than is written at once.
    let job = Job::new("large", "x".repeat(3 << 20)).id("1").check(Time::MIN).expect("a right job");
    let mut elsewhere = open(&SimDisk::new());
    elsewhere.call(async |store| store.add_all(vec![job]).await).expect("added");
    elsewhere.call(async |store| store.pop(Ask::one(topic("large"))).await).expect("popped");
    let jobs = elsewhere.call(async |store| store.dump(Query::all(topic("large"))).await);
    let disk = SimDisk::new();
    let mut store = open(&disk);
    let jobs = jobs.expect("read").jobs;
    store.call(async |store| store.restore(jobs.clone()).await).expect("restored");
    drop(store);
    let disk = disk.survives_kill();
    let names = disk.list().expect("listed");
    let segment = names.iter().find(|name| name.starts_with("segment-") && ends(&disk, name) > 0);
    let segment = segment.expect("it was written to");
    // The end of the last record, which says that it is reserved.
    disk.corrupt(segment, ends(&disk, segment) - 1, 0xff);
    assert_eq!(count(&mut open(&disk), "large"), 0);
}

/// Where the last byte is that is not zero, in all but the head of a segment.
fn ends(disk: &SimDisk, name: &str) -> u64 {
    let mut bytes = vec![0; 8 << 20];
    disk.open(name).and_then(|file| file.read_at(&mut bytes, 0)).expect("read");
    bytes.iter().skip(512).rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 513)
}

fn open(disk: &SimDisk) -> linger::Result<Embedded> {
    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::default() };
    let options = Options { clock: SimClock::new(), ..Options::default() };
    Embedded::open_files(Arc::new(disk.clone()), options, settings)
}

/// Whether there is more in a segment than its head.
fn holds_anything(disk: &SimDisk, name: &str) -> bool {
    let mut bytes = vec![0; SEGMENT_BYTES as usize];
    disk.open(name).and_then(|file| file.read_at(&mut bytes, 0)).expect("read");
    bytes[512..].iter().any(|byte| *byte != 0)
}

#[test]
fn a_folder_that_misses_a_segment_is_refused_by_name() {
    let disk = SimDisk::new();
    story::write(Arc::new(disk.clone()));
    let disk = disk.survives_kill();
    let mut names = disk.list().expect("listed");
    // Not the one that was made ready and not begun.
    names.retain(|name| name.starts_with("segment-") && holds_anything(&disk, name));
    assert_eq!(names.len(), 3, "before the checkpoint, after it, and survivors: {names:?}");
    for name in &names {
        let disk = disk.survives_kill();
        disk.remove(name).expect("removed");
        let refused = open(&disk).err().unwrap_or_else(|| panic!("{name} was not missed"));
        assert_eq!(refused.code(), Code::StorageFailed);
        assert!(refused.message().contains(name), "{name}: {refused}");
    }
    open(&disk.survives_kill()).expect("it was all there");
}

#[test]
fn a_folder_that_misses_its_format_is_not_taken_for_a_new_one() {
    let disk = SimDisk::new();
    story::write(Arc::new(disk.clone()));
    let disk = disk.survives_kill();
    disk.remove("FORMAT").expect("removed");
    let refused = open(&disk).err().expect("the key of its ids is lost");
    assert_eq!(refused.code(), Code::StorageFailed);
    assert!(refused.message().contains("FORMAT"), "{refused}");
    assert!(disk.open("FORMAT").is_err(), "nothing was changed");
}
