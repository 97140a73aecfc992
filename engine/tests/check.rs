//! `check` finds what is wrong with a folder, and changes nothing.

#[allow(dead_code, reason = "it has more to tell than is needed here")]
mod story;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use linger::Job;
use linger::error::Code;
use linger::queue::Queue;
use linger::store::Options;
use linger::store::embedded::files::{Files, Folder};
use linger::store::embedded::{Embedded, Finding, Report, Settings, check, check_files};
use linger::testkit::{SimClock, SimDisk};
use linger::time::{DAY, Time};
use story::{SEGMENT_BYTES, Stepped};

/// A store with a bit of everything.
fn written() -> SimDisk {
    let disk = SimDisk::new();
    story::write(Arc::new(disk.clone()));
    disk.survives_kill()
}

fn checked(disk: &SimDisk) -> Report {
    check_files(Arc::new(disk.clone())).expect("it can be checked")
}

fn bytes(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).expect("it is there");
    let mut bytes = vec![0; file.size().expect("known") as usize];
    file.read_at(&mut bytes, 0).expect("read");
    bytes
}

fn names(disk: &SimDisk, beginning: &str) -> Vec<String> {
    let mut names = disk.list().expect("listed");
    names.retain(|name| name.starts_with(beginning));
    names.sort();
    names
}

/// The segments of a kind: 0 log, 1 survivors.
fn segments(disk: &SimDisk, kind: u8) -> Vec<String> {
    let mut names = names(disk, "segment-");
    names.retain(|name| bytes(disk, name)[12] == kind);
    names
}

/// Where the batches of a segment begin.
fn batches(disk: &SimDisk, segment: &str) -> Vec<u64> {
    let bytes = bytes(disk, segment);
    let mut at = 512;
    let mut found = Vec::new();
    while bytes.get(at..at + 4) == Some(b"LgrB") {
        found.push(at as u64);
        let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four"));
        at += 40 + len as usize;
    }
    found
}

/// Where the blocks of a checkpoint begin, and their kinds.
fn blocks(disk: &SimDisk, checkpoint: &str) -> Vec<(u64, u8)> {
    let bytes = bytes(disk, checkpoint);
    let (mut at, mut found) = (8, Vec::new());
    while at < bytes.len() {
        found.push((at as u64, bytes[at + 4]));
        let len = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        at += 9 + len as usize;
    }
    found
}

/// The checkpoint in force.
fn checkpoint(disk: &SimDisk) -> String {
    names(disk, "checkpoint-").pop().expect("there is one")
}

/// The segment that the log is in, after the checkpoint.
fn tail(disk: &SimDisk) -> String {
    let (file, _) = checked(disk).log_end.expect("the log has an end");
    file
}

/// A segment of the log from before the checkpoint, with jobs in it.
fn old(disk: &SimDisk) -> String {
    let first = segments(disk, 0).remove(0);
    assert!(first < tail(disk), "an old segment is left");
    first
}

/// Flips a bit; it must be found, and in this file.
fn damaged(disk: &SimDisk, name: &str, offset: u64) -> Vec<Finding> {
    let xor = 1 << (offset % 8);
    disk.corrupt(name, offset, xor);
    let report = checked(disk);
    disk.corrupt(name, offset, xor);
    assert!(!report.is_in_order(), "{name} at {offset}");
    let here = report.damage.iter().filter(|finding| finding.file == name).count();
    assert!(here > 0, "{name} at {offset}: {report}");
    report.damage
}

#[test]
fn a_healthy_store_is_in_order_and_counted() {
    let disk = written();
    let report = checked(&disk);
    assert_eq!(report.damage, [], "{report}");
    assert_eq!(report.warnings, [""; 0]);
    let stored = (story::DENSE - 1 + story::LEFT.len()) as u64;
    assert_eq!((report.jobs, report.keys), (14 + 4 + stored, 2), "{report}");
    assert!(!report.is_torn && report.checkpoint.is_some() && report.live_bytes > 0, "{report:?}");
    // What the other tests rely on.
    assert!(!segments(&disk, 1).is_empty(), "there are survivors");
    assert!(batches(&disk, &tail(&disk)).len() > 2, "there is a log after the checkpoint");
    assert!(batches(&disk, &old(&disk)).len() > 2);
    let kinds: Vec<u8> = blocks(&disk, &checkpoint(&disk)).iter().map(|(_, kind)| *kind).collect();
    assert_eq!(kinds, [1, 2, 3, 4]);
}

#[test]
fn nothing_is_changed_and_a_second_process_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = Arc::new(Folder::open(folder.path()).expect("it is there"));
    story::write(files);
    let before = all_of(folder.path());
    assert!(check(folder.path()).expect("checked").is_in_order());
    std::fs::remove_file(folder.path().join("LOCK")).expect("there");
    assert!(check(folder.path()).expect("checked").is_in_order());
    let mut after = all_of(folder.path());
    after.insert("LOCK".into(), before["LOCK"].clone());
    assert_eq!(after, before);

    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::default() };
    let options = Options { clock: SimClock::new(), ..Options::default() };
    let store = Embedded::open(folder.path(), options, settings).expect("opened");
    assert_eq!(check(folder.path()).map_err(|refused| refused.code()), Err(Code::Unavailable));
    drop(store);
    assert!(check(folder.path()).expect("checked").is_in_order());
}

/// Every file with its bytes and when it was changed.
fn all_of(folder: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let entries = std::fs::read_dir(folder).expect("there").map(|entry| entry.expect("listed"));
    entries
        .map(|entry| {
            let changed = entry.metadata().and_then(|data| data.modified()).expect("known");
            let bytes = std::fs::read(entry.path()).expect("read");
            (entry.file_name().to_string_lossy().into_owned(), (bytes, changed))
        })
        .collect()
}

#[test]
fn a_folder_without_a_store_is_told_and_not_made() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(check(folder.path()).map_err(|refused| refused.code()), Err(Code::NotFound));
    let missing = folder.path().join("missing");
    assert_eq!(check(&missing).map_err(|refused| refused.code()), Err(Code::StorageFailed));
    assert!(!missing.exists());
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
}

#[test]
fn a_flipped_byte_is_found_wherever_it_matters() {
    let disk = written();
    for offset in 0..bytes(&disk, "FORMAT").len() as u64 {
        damaged(&disk, "FORMAT", offset);
    }
    for name in names(&disk, "segment-") {
        for offset in 0..17 {
            damaged(&disk, &name, offset);
        }
    }
    let tail = tail(&disk);
    let from = replayed_from(&disk);
    let batches: Vec<u64> = batches(&disk, &tail).into_iter().filter(|at| *at >= from).collect();
    // Not in the last one, which nobody can tell from one that was cut short.
    for (batch, next) in batches.iter().zip(&batches[1..]) {
        for offset in [0, 5, 9, 17, 25, 29, 33, 37, 40, 47, 58].map(|offset| batch + offset) {
            if offset < *next {
                damaged(&disk, &tail, offset);
            }
        }
    }
}

/// Where the log goes on after the checkpoint, in its last segment.
fn replayed_from(disk: &SimDisk) -> u64 {
    let name = checkpoint(disk);
    let (end, _) = *blocks(disk, &name).last().expect("there is an end");
    let bytes = bytes(disk, &name);
    let mut numbers = Vec::new();
    let (mut value, mut shift) = (0_u64, 0);
    for byte in &bytes[end as usize + 9..] {
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            numbers.push(value);
            (value, shift) = (0, 0);
        }
    }
    let segment = format!("segment-{:010}", numbers[1]);
    assert_eq!(segment, tail(disk), "the story ends in the segment of its checkpoint");
    numbers[2]
}

#[test]
fn a_flipped_byte_of_a_record_that_a_job_needs_is_found() {
    let disk = written();
    for name in [old(&disk), segments(&disk, 1).remove(0)] {
        let body = bytes(&disk, &name);
        // In its body, in its head, and in its name: the first of these that is still wanted.
        let text = if name == old(&disk) { "dense   7 " } else { "sparse  41 " };
        let at = body.windows(text.len()).position(|window| window == text.as_bytes());
        let at = at.expect("the job lies there") as u64;
        for offset in [at, at + 300, at - 20, at - 45] {
            let damage = damaged(&disk, &name, offset);
            assert_eq!(damage.len(), 1, "one job is hit: {damage:?}");
            assert!(damage[0].what.contains("cold record of job"), "{damage:?}");
            assert!(damage[0].offset <= offset && offset < damage[0].offset + 1200, "{damage:?}");
        }
    }
}

#[test]
fn a_flipped_byte_of_a_jobs_history_is_found() {
    let disk = written();
    let hit = |name: &&String| bytes(&disk, name).windows(4).any(|window| window == b"busy");
    let name = names(&disk, "segment-").iter().find(hit).expect("it lies somewhere").clone();
    let at = bytes(&disk, &name).windows(4).position(|window| window == b"busy").expect("there");
    let damage = damaged(&disk, &name, at as u64);
    assert!(damage.len() == 1 && damage[0].what.contains("note record of job"), "{damage:?}");
}

#[test]
fn a_flipped_byte_of_a_checkpoint_is_found_in_every_block() {
    let disk = written();
    let name = checkpoint(&disk);
    damaged(&disk, &name, 3);
    let size = bytes(&disk, &name).len() as u64;
    let starts = blocks(&disk, &name);
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([size]);
    for ((start, kind), end) in starts.iter().zip(ends) {
        for offset in [*start, start + 4, start + 5, start + 9, (start + end) / 2, end - 1] {
            let damage = damaged(&disk, &name, offset);
            assert_eq!(damage[0].offset, *start, "kind {kind}: {damage:?}");
        }
    }
}

#[test]
fn a_flipped_byte_of_what_a_checkpoint_names_in_an_earlier_one_is_found() {
    let disk = SimDisk::new();
    let settings = Settings { checkpoint_records: 1000, ..Settings::default() };
    let mut store = Stepped::open_with(Arc::new(disk.clone()), &SimClock::new(), settings);
    let add = |store: &mut Stepped, range: std::ops::Range<u32>| {
        let job = |n: u32| Job::new("t", "x").id(n.to_string()).delay(DAY);
        let jobs = range.map(|n| job(n).check(Time::MIN).expect("a right job")).collect();
        store.call(async |store| store.add_all(jobs).await).expect("added");
        store.tidy_up();
    };
    add(&mut store, 0..10_000);
    add(&mut store, 10_000..12_000);
    drop(store);
    let disk = disk.survives_kill();
    let checkpoints = names(&disk, "checkpoint-");
    let [earlier, newest] = &checkpoints[..] else { panic!("{checkpoints:?}") };
    assert!(blocks(&disk, newest).iter().any(|(_, kind)| *kind == 5), "it names some");
    assert!(checked(&disk).is_in_order());
    damaged(&disk, earlier, blocks(&disk, earlier)[0].0 + 100);
    disk.remove(earlier).expect("removed");
    let report = checked(&disk);
    assert!(report.damage.iter().any(|finding| finding.file == *newest), "{report}");
}

#[test]
fn all_damage_is_told_not_only_the_first() {
    let disk = written();
    let (old, tail) = (old(&disk), tail(&disk));
    let body = bytes(&disk, &old);
    let starts = (0..5).map(|n| format!("dense   {} ", n + 3));
    for text in starts {
        let at = body.windows(text.len()).position(|window| window == text.as_bytes());
        disk.corrupt(&old, at.expect("it lies there") as u64, 1);
    }
    let batches = batches(&disk, &tail);
    let from = replayed_from(&disk);
    let after: Vec<u64> = batches.into_iter().filter(|batch| *batch >= from).collect();
    // The second lies behind a batch that is whole.
    for batch in [after[0], after[2]] {
        disk.corrupt(&tail, batch + 41, 1);
    }
    disk.corrupt("FORMAT", 2, 1);
    let report = checked(&disk);
    let of = |file: &str| report.damage.iter().filter(|finding| finding.file == file).count();
    assert_eq!((of("FORMAT"), of(&old)), (1, 5), "{report}");
    assert!(of(&tail) >= 2, "{report}");
}

#[test]
fn missing_swapped_and_cut_files_are_found() {
    for kind in [0, 1] {
        let disk = written();
        let first = segments(&disk, kind).remove(0);
        disk.remove(&first).expect("removed");
        let report = checked(&disk);
        let missing = report.damage.iter().any(|f| f.file == first && f.what.contains("missing"));
        assert!(missing, "{report}");
    }
    let disk = written();
    let tail = tail(&disk);
    disk.remove(&tail).expect("removed");
    assert!(checked(&disk).damage.iter().any(|finding| finding.file == tail));

    let disk = written();
    let names = names(&disk, "segment-");
    let (one, other) = (&names[0], &names[1]);
    disk.rename(one, "x").expect("renamed");
    disk.rename(other, one).expect("renamed");
    disk.rename("x", other).expect("renamed");
    let report = checked(&disk);
    for name in [one, other] {
        assert!(report.damage.iter().any(|finding| finding.file == *name), "{report}");
    }

    let disk = written();
    let name = checkpoint(&disk);
    disk.remove(&name).expect("removed");
    let report = checked(&disk);
    assert!(!report.is_in_order(), "what the checkpoint knew is not in the log: {report}");

    disk.remove("FORMAT").expect("removed");
    let report = checked(&disk);
    assert!(report.damage.iter().any(|finding| finding.file == "FORMAT"), "{report}");
}

#[test]
fn the_format_of_another_store_is_found() {
    let (disk, other) = (written(), written());
    // Whole in itself, and with another key, by which no id would be found.
    let format = bytes(&other, "FORMAT");
    disk.open("FORMAT").and_then(|file| file.write_at(&format, 0)).expect("written");
    let report = checked(&disk);
    assert!(report.damage.iter().any(|finding| finding.what.contains("another id")), "{report}");
}

#[test]
fn a_checkpoint_cut_anywhere_is_found() {
    let disk = written();
    let name = checkpoint(&disk);
    let whole = bytes(&disk, &name);
    for len in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        let disk = disk.survives_kill();
        disk.remove(&name).expect("removed");
        let file = disk.create(&name).expect("created");
        file.write_at(&whole[..len], 0).expect("written");
        let report = checked(&disk);
        assert!(report.damage.iter().any(|finding| finding.file == name), "{len}: {report}");
    }
}

#[test]
fn a_stranger_is_a_warning_and_what_was_not_finished_is_none() {
    let disk = written();
    for name in ["notes.txt", "checkpoint-0000000099.tmp", "spare-0000000099"] {
        disk.create(name).map(drop).expect("created");
    }
    let report = checked(&disk);
    assert!(report.is_in_order(), "{report}");
    assert_eq!(report.warnings, ["`notes.txt` is no file of the store"]);
}

#[test]
fn a_batch_that_was_cut_short_is_told_and_no_damage() {
    let disk = written();
    let tail = tail(&disk);
    let last = *batches(&disk, &tail).last().expect("there are some");
    // As if its records had not got to the disk.
    disk.corrupt(&tail, last + 50, 0xff);
    let report = checked(&disk);
    assert!(report.is_in_order() && report.is_torn, "{report}");
    assert_eq!(report.log_end, Some((tail, last)));
    Stepped::open(Arc::new(disk.survives_kill()), &SimClock::new());
}
