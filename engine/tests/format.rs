//! A folder that was written once is read by every later version.
//!
//! `LINGER_WRITE_FIXTURE=1 cargo test -p linger --test format` writes it anew: only while the
//! format may still change. Afterwards a new format gets a fixture of its own beside this one.

#[allow(dead_code, reason = "it has more to tell than is needed here")]
mod story;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linger::dice::Lease;
use linger::queue::{Ask, Queue, Settle, Verdict};
use linger::store::embedded::check;
use linger::store::embedded::files::Folder;
use linger::testkit::SimClock;
use linger::time::HOUR;
use story::found::{self, Tied};
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
    // What was tied to the process that wrote it is let go when the log has room.
    store.tidy_up();
    found::states(&mut store, Tied::LetGo);
}

#[test]
fn history_is_read() {
    let (_folder, mut store) = opened();
    store.tidy_up();
    found::history(&mut store, Tied::LetGo);
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
    found::own(&mut store);
}

#[test]
fn topics_and_keys_are_read() {
    let (_folder, mut store) = opened();
    let all = ["dense", "limited", "own", "paused", "resting", "sparse", "states"];
    found::topics_and_keys(&mut store, &all);
}

#[test]
fn bodies_are_weighed_that_were_written_before_they_were() {
    let (_folder, mut store) = opened();
    for name in ["own", "sparse", "states"] {
        let (counted, bodies) = found::weighed(&mut store, name);
        // With the names and settings of those that the checkpoint had.
        assert!(counted > bodies && counted < bodies * 2 + 1000, "{name}: {counted}, {bodies}");
        found::delete_each(&mut store, name);
        assert_eq!(found::bytes(&mut store, name), 0, "{name}");
    }
}

#[test]
fn moved_and_old_records_are_read_and_work_goes_on() {
    let (folder, mut store) = opened();
    for (name, ids) in [("dense", 1..DENSE), ("sparse", LEFT)] {
        let jobs = found::jobs(&mut store, name);
        assert_eq!(jobs.len(), ids.len());
        for n in ids {
            let job = found::job(&mut store, name, &n.to_string());
            assert_eq!(found::body(&job), format!("{name} {n:3} ").repeat(80).as_bytes());
        }
    }
    let highest = found::job(&mut store, "states", "late").number;
    let new = linger::Job::new("states", "new").id("new").check(time(HOUR)).expect("right");
    let added = store.call(async |store| store.add_all(vec![new]).await);
    let number = added.expect("added").remove(0).expect("new").job.number;
    assert_eq!(number, highest + 1, "numbers go on");
    drop(store);
    assert!(check(folder.path()).expect("nobody has it open").is_in_order());
}
