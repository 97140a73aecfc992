//! One fact each, told step by step.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use linger::error::Code;
use linger::machine::Stage;
use linger::queue::{Ask, Bodies, Query, Queue, Verdict};
use linger::store::embedded::files::Files;
use linger::store::embedded::{Durability, Settings, check_files};
use linger::testkit::SimDisk;

use crate::house::{House, SEGMENT_BYTES, is_lost, key, long};

/// Enough for every sector of a few batches to be kept and lost in some of them.
const CRASHES: u64 = 200;

#[test]
fn a_checkpoint_is_never_ahead_of_the_log() {
    for seed in 0..CRASHES {
        let mut house = House::new(Durability::Relaxed);
        house.settings.checkpoint_records = 3;
        let mut house = house.opened();
        for n in 0..5 {
            house.add(&n.to_string(), "body");
        }
        // The keeper looks, and is answered as soon as all is written: nothing is synced yet.
        house.clock.advance(Duration::from_millis(90));
        for _ in 0..100 {
            house.round();
        }
        assert_eq!(house.files("checkpoint-"), Vec::<String>::new(), "nothing is durable yet");
        house.cut(seed);
        for n in 0..5 {
            house.replace(&n.to_string(), "new");
        }
        house.tidy(2);
        assert_eq!(house.files("checkpoint-").len(), 1, "it is made when the log is durable");
        house.cut(seed);
        for n in 0..5 {
            assert_eq!(house.body(&n.to_string()).unwrap(), "new");
        }
    }
}

#[test]
fn a_checkpoint_that_fails_leaves_the_next_one_nothing_stale() {
    for n in 1..40 {
        for fail in [SimDisk::fail_sync_in, SimDisk::fail_write_in] {
            let mut house = House::new(Durability::Sync);
            house.settings.checkpoint_records = 3;
            let mut house = house.opened();
            for n in 0..5 {
                house.add(&n.to_string(), "body");
            }
            house.tidy(2);
            assert_eq!(house.files("checkpoint-").len(), 1);
            for n in 5..10 {
                house.add(&n.to_string(), "body");
            }
            // Only the keeper is at work from here on, and it tries again what has failed.
            fail(&house.disk, n);
            house.tidy(6);
            house.cut(n);
            assert_eq!(ids(&mut house).len(), 10, "operation {n} failed");
        }
    }
}

#[test]
fn a_checkpoint_that_does_not_read_as_written_is_not_published() {
    let mut house = House::new(Durability::Sync);
    house.settings.checkpoint_records = 3;
    let mut house = house.opened();
    for n in 0..5 {
        house.add(&n.to_string(), "body");
    }
    house.clock.advance(Duration::from_secs(1));
    let name = "checkpoint-0000000001";
    let begun = format!("{name}.tmp");
    house
        .rounds_until(|house| house.disk.open(&begun).is_ok_and(|file| file.size().unwrap() > 100));
    house.disk.corrupt(&begun, 50, 1);
    house.tidy(2);
    let made = house.files("checkpoint-");
    assert!(made.len() == 1 && made[0] != name, "another was made instead: {made:?}");
    house.cut(1);
    assert_eq!(ids(&mut house).len(), 5);
}

#[test]
fn stale_records_after_a_cut_never_come_back() {
    let mut torn = 0;
    for seed in 0..CRASHES {
        let mut house = House::new(Durability::Relaxed).opened();
        // All of one length, so that what comes later would fit between what was there before.
        let first: Vec<String> = (0..8).map(|n| format!("old-{n}")).collect();
        for id in &first {
            house.add(id, &long("old", 700));
        }
        house.cut(seed);
        let kept = ids(&mut house);
        let prefix: BTreeSet<String> = first.iter().take(kept.len()).cloned().collect();
        assert_eq!(kept, prefix, "what is left is what came first");
        torn += usize::from(!kept.is_empty() && kept.len() < first.len());
        let mut all = kept;
        for n in 0..4 {
            let id = format!("new-{n}");
            house.add(&id, &long("new", 700));
            all.insert(id);
            house.kill();
            assert_eq!(ids(&mut house), all, "nothing that was cut comes back");
        }
        house.clock.advance(Duration::from_millis(200));
        house.round();
        house.cut(seed + 1);
        assert_eq!(ids(&mut house), all, "nothing that was cut comes back");
    }
    assert!(torn > 20, "a torn log is what this is about: {torn}");
}

#[test]
fn writing_goes_on_in_a_fresh_segment() {
    let mut house = House::new(Durability::Sync).opened();
    for life in 0..6 {
        let used: Vec<_> =
            house.files("segment-").into_iter().filter(|one| house.holds(one)).collect();
        assert_eq!(used.len(), life);
        let before: Vec<_> = used.iter().map(|name| house.bytes(name)).collect();
        house.add(&life.to_string(), "body");
        let after: Vec<_> = used.iter().map(|name| house.bytes(name)).collect();
        assert!(before == after, "what is after the end of a torn log may come back later");
        if life % 2 == 0 { house.kill() } else { house.cut(life as u64) }
    }
}

#[test]
fn compaction_and_recycling_leave_readers_their_bodies() {
    let mut house = House::new(Durability::Sync).opened();
    let body = long("the one that is read", 500);
    house.add("kept", &body);
    fill(&mut house, "filler", 10);
    let queue = house.queue();
    let kept = key("kept");
    // It knows where the body lies, and reads it much later.
    let mut reader = pin!(queue.get(&kept));
    assert!(reader.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    house.store().decide();
    for n in 0..10 {
        house.delete(&format!("filler-{n}"));
    }
    let first = house.files("segment-")[0].clone();
    checkpoint(&mut house);
    house.tidy(10);
    assert_eq!(house.body("kept").unwrap(), body, "it was moved");
    assert!(house.files("segment-").contains(&first), "its old segment is still read");
    fill(&mut house, "more", 20);
    let Poll::Ready(read) = reader.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("what is cached is read on the spot");
    };
    assert_eq!(read.unwrap().body.unwrap().as_bytes(), body.as_bytes());
    house.tidy(10);
    assert!(!house.files("segment-").contains(&first), "nobody reads it any more");
    for seed in 0..20 {
        house.cut(seed);
        assert_eq!(house.body("kept").unwrap(), body);
    }
}

#[test]
fn a_note_that_was_moved_is_found_after_the_next_checkpoint() {
    let mut house = House::new(Durability::Sync).opened();
    house.add("kept", "body");
    for n in 0..3 {
        house.add(&format!("dense-{n}"), &long("dense", 14_000));
    }
    house.clock.advance(Duration::from_secs(3600));
    let held = house.pop().unwrap().remove(0);
    assert_eq!(held.id().as_str(), "kept");
    // The note lies in a segment of which nothing else is left.
    fill(&mut house, "filler", 3);
    let retry_in = Some(Duration::from_secs(24 * 3600));
    house.settle(&held, Verdict::Fail { error: "it failed".into(), retry_in }).unwrap().unwrap();
    let second = house.files("segment-")[1].clone();
    for n in 0..3 {
        house.delete(&format!("filler-{n}")).unwrap().unwrap();
    }
    checkpoint(&mut house);
    house.tidy(10);
    assert!(!house.files("segment-").contains(&second), "the note was moved");
    // By keys alone, so that no job changes but for the note's place.
    let before = house.files("checkpoint-");
    for _ in 0..30 {
        house.put("key", &long("value", 12_000));
        house.tidy(1);
    }
    assert_ne!(house.files("checkpoint-"), before, "the log has outgrown it");
    house.kill();
    let kept = house.get("kept").unwrap();
    assert!(kept.history.iter().any(|entry| entry.error.as_deref() == Some("it failed")));
}

#[test]
fn a_move_and_its_note_are_one_step_at_the_end_of_a_segment() {
    let mut house = House::new(Durability::Sync).opened();
    house.add("1", "body");
    house.clock.advance(Duration::from_secs(3600));
    let held = house.pop().unwrap().remove(0);
    fill(&mut house, "filler", 4);
    let name = house.files("segment-")[0].clone();
    let used = house.bytes(&name).iter().rposition(|byte| *byte != 0).unwrap();
    // What is left has room for the move, and none for a note with so long an error.
    house.add("last", &long("last", SEGMENT_BYTES as usize - used - 600));
    house.tidy(1);
    house.disk.cut_power_after(2);
    let verdict = Verdict::Fail { error: "!".repeat(1000).into(), retry_in: None };
    assert!(house.settle(&held, verdict).is_none(), "the power goes off while it is written");
    for seed in 0..CRASHES {
        let mut after = House::with(house.disk.crash(seed), house.settings).opened();
        let job = after.get("1").unwrap();
        let noted = job.history.iter().any(|entry| entry.error.is_some());
        assert_eq!(job.stage == Stage::Retry, noted, "seed {seed}: {job:?}");
    }
}

#[test]
fn a_recycled_file_is_not_used_before_its_old_name_is_gone() {
    for fails in 1..=6 {
        for last in 1.. {
            let mut house = House::new(Durability::Sync);
            house.settings.checkpoint_records = 5;
            let mut house = house.opened();
            fill(&mut house, "old", 6);
            for n in 0..6 {
                house.delete(&format!("old-{n}"));
            }
            house.disk.fail_sync_folder_in(fails);
            house.disk.cut_power_after(last);
            house.tidy(3);
            fill(&mut house, "new", 10);
            if !house.disk.is_off() {
                break;
            }
            for seed in 0..4 {
                let disk = house.disk.crash(seed);
                let opened = House::with(disk, house.settings).open();
                opened.unwrap_or_else(|why| panic!("{fails}, {last}, {seed}: {why}"));
            }
        }
    }
}

#[test]
fn an_id_used_again_across_a_crash_is_the_new_job() {
    for seed in 0..40 {
        let mut house = House::new(Durability::Sync).opened();
        let first = house.add("1", "first").unwrap();
        let crash = |house: &mut House| if seed % 2 == 0 { house.cut(seed) } else { house.kill() };
        house.delete("1").unwrap().unwrap();
        if seed % 3 == 0 {
            crash(&mut house);
            assert_eq!(house.get("1").unwrap_err().code(), Code::NotFound, "a cancel is a cancel");
        }
        let second = house.add("1", "second").unwrap();
        assert!(second > first, "a number is never used again");
        crash(&mut house);
        assert_eq!(house.body("1").unwrap(), "second");
        let third = house.replace("1", "third").unwrap();
        if seed % 5 == 0 {
            checkpoint(&mut house);
        }
        crash(&mut house);
        assert_eq!(house.body("1").unwrap(), "third");
        assert_eq!(house.get("1").unwrap().number, third);
        house.delete("1").unwrap().unwrap();
        crash(&mut house);
        assert_eq!(house.get("1").unwrap_err().code(), Code::NotFound);
    }
}

#[test]
fn a_lease_outlives_a_kill_and_a_lost_one_is_told() {
    let mut house = House::new(Durability::Sync).opened();
    house.add("1", "body");
    house.clock.advance(Duration::from_secs(3600));
    let held = house.pop().unwrap().remove(0);
    house.kill();
    assert!(house.pop().unwrap().is_empty(), "it is still held");
    assert!(house.settle(&held, Verdict::Touch { ttr: None }).unwrap().is_ok());
    house.clock.advance(Duration::from_secs(61));
    let again = house.pop().unwrap().remove(0);
    assert!(is_lost(house.settle(&held, Verdict::Finish).unwrap()));
    house.settle(&again, Verdict::Finish).unwrap().unwrap();
    house.cut(0);
    assert_eq!(house.get("1").unwrap_err().code(), Code::NotFound);
}

#[test]
fn damage_in_the_middle_is_told_apart_from_a_torn_tail() {
    let mut house = House::new(Durability::Sync).opened();
    for n in 0..20 {
        house.add(&n.to_string(), &long("body", 300));
    }
    house.close();
    let (disk, name) = (house.disk.clone(), house.files("segment-")[0].clone());
    let written = house.bytes(&name).iter().rposition(|byte| *byte != 0).unwrap() as u64;
    // In the last batch it cannot be told from a write that was torn.
    let last = written - 300;
    for offset in (512..last).step_by(97) {
        let copy = disk.survives_kill();
        copy.corrupt(&name, offset, 0x40);
        let mut house = House::with(copy, house.settings);
        let before = (house.files(""), house.bytes(&name));
        let refused = house.open().expect_err("damage is not opened");
        assert_eq!(refused.code(), Code::StorageFailed);
        assert!(refused.message().contains(&name), "{refused}");
        assert!(refused.message().contains("byte "), "{refused}");
        assert_eq!((house.files(""), house.bytes(&name)), before, "nothing was changed");
    }
    for offset in (last..written).step_by(31) {
        let copy = disk.survives_kill();
        copy.corrupt(&name, offset, 0x40);
        let mut house = House::with(copy, house.settings).opened();
        assert_eq!(ids(&mut house).len(), 19, "a torn tail is cut");
    }
}

#[test]
fn damage_at_the_end_of_a_segment_is_told_by_the_next() {
    let mut house = House::new(Durability::Sync).opened();
    for n in 0..8 {
        house.add(&n.to_string(), &long("body", 14_000));
    }
    house.close();
    let name = house.files("segment-")[0].clone();
    let last = house.bytes(&name).iter().rposition(|byte| *byte != 0).unwrap() as u64;
    house.disk.corrupt(&name, last, 0x40);
    let refused = house.open().expect_err("damage is not opened");
    assert!(refused.message().contains(&name), "{refused}");
}

#[test]
fn a_checkpoint_that_knows_more_than_the_log_is_not_opened() {
    let mut house = House::new(Durability::Sync);
    house.settings.checkpoint_records = 3;
    let mut house = house.opened();
    for n in 0..5 {
        house.add(&n.to_string(), "body");
    }
    house.clock.advance(Duration::from_secs(1));
    house.rounds_until(|house| house.disk.open("checkpoint-0000000001.tmp").is_ok());
    let name = house.files("segment-")[0].clone();
    let begun = house.bytes(&name).iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    house.add("while it is made", "body");
    house.tidy(2);
    assert_eq!(house.files("checkpoint-").len(), 1);
    house.close();
    // All that the log has had since, as if it had never reached the disk.
    let zeros = vec![0; SEGMENT_BYTES as usize - begun as usize];
    house.disk.open(&name).unwrap().write_at(&zeros, begun).unwrap();
    let report = check_files(Arc::new(house.disk.clone())).unwrap();
    assert!(!report.is_in_order(), "{report}");
    let refused = house.open().expect_err("acknowledged jobs are lost");
    assert_eq!(refused.code(), Code::StorageFailed);
    assert!(refused.message().contains("checkpoint-0000000001"), "{refused}");
}

/// With two jobs, the first of which has a byte changed on disk.
fn house_with_a_damaged_job() -> House {
    let mut house = House::new(Durability::Sync).opened();
    house.add("1", &long("one", 100));
    house.add("2", "two");
    let name = house.files("segment-")[0].clone();
    let bytes = house.bytes(&name);
    let at = bytes.windows(5).position(|some| some == b"one .").unwrap() as u64;
    house.disk.corrupt(&name, at + 50, 1);
    house
}

#[test]
fn a_body_that_was_damaged_is_told_and_not_shown() {
    let mut house = house_with_a_damaged_job();
    let refused = house.body("1").unwrap_err();
    assert_eq!(refused.code(), Code::StorageFailed);
    assert!(refused.message().contains("check"), "{refused}");
    assert_eq!(house.body("2").unwrap(), "two", "the others are there");
}

#[test]
fn a_job_that_cannot_be_read_keeps_nobody_from_the_next() {
    let mut house = house_with_a_damaged_job();
    house.clock.advance(Duration::from_secs(3600));
    let (queue, ask) = (house.queue(), Ask::one("t".parse().expect("a topic")));
    let refused = house.ask(queue.pop(ask.clone())).expect("the power is on").unwrap_err();
    assert_eq!(refused.code(), Code::StorageFailed);
    let next = house.ask(queue.pop(ask)).expect("the power is on").expect("a pop");
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].job.spec.id.as_str(), "2");
    let stats = house.ask(queue.stats()).expect("the power is on").expect("figures");
    assert_eq!(stats.counts.dead, 1);
}

#[test]
fn what_no_segment_can_hold_is_refused_and_holds_up_nobody() {
    let mut house = House::new(Durability::Sync).opened();
    let refused = house.try_put("key", &long("value", 64_000)).unwrap_err();
    assert_eq!(refused.code(), Code::TooLarge);
    house.put("key", &long("value", 32_000));
    let small = Settings { segment_bytes: SEGMENT_BYTES - 1, ..house.settings };
    let refused = House::with(SimDisk::new(), small).open().unwrap_err();
    assert_eq!(refused.code(), Code::Invalid);
}

#[test]
fn many_jobs_that_a_pop_never_saw_are_ready_again() {
    let mut house = House::new(Durability::Sync).opened();
    for n in 0..300 {
        house.add(&n.to_string(), "body");
    }
    house.clock.advance(Duration::from_secs(3600));
    let ask = Ask { max: 1000, ..Ask::one("t".parse().expect("a topic")) };
    let queue = house.queue();
    let mut unseen = Box::pin(queue.pop(ask.clone()));
    assert!(unseen.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    house.round();
    drop(unseen);
    let seen = house.ask(queue.pop(ask)).expect("the power is on").expect("a pop");
    assert_eq!(seen.len(), 300);
    house.kill();
    assert_eq!(ids(&mut house).len(), 300);
}

#[test]
fn a_second_process_is_kept_out() {
    let mut house = House::new(Durability::Sync).opened();
    house.add("1", "body");
    let mut second = House::with(house.disk.clone(), house.settings);
    let refused = second.open().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("another process"), "{refused}");
    assert_eq!(house.body("1").unwrap(), "body", "the first goes on");
    house.close();
    second.open().unwrap();
    assert_eq!(second.body("1").unwrap(), "body");
}

#[test]
fn a_newer_format_is_refused() {
    let mut house = House::new(Durability::Sync).opened();
    house.add("1", "body");
    house.close();
    let format = house.bytes("FORMAT");
    let newer = String::from_utf8(format.clone()).unwrap().replace("format 1", "format 2");
    house.disk.open("FORMAT").unwrap().write_at(newer.as_bytes(), 0).unwrap();
    let before: Vec<_> = house.files("").iter().map(|name| house.bytes(name)).collect();
    let refused = house.open().unwrap_err();
    assert_eq!(refused.code(), Code::StorageFailed);
    assert!(refused.message().contains("format 2"), "{refused}");
    assert!(refused.message().contains("newer version"), "{refused}");
    let after: Vec<_> = house.files("").iter().map(|name| house.bytes(name)).collect();
    assert_eq!(before, after, "nothing was changed");
    house.disk.open("FORMAT").unwrap().write_at(&format, 0).unwrap();
    house.open().unwrap();
    assert_eq!(house.body("1").unwrap(), "body");
}

#[test]
fn a_full_disk_refuses_adds_and_lets_deleting_make_room() {
    // The smallest is full before a checkpoint is due.
    for segments in [7, 8, 10] {
        fill_and_make_room(segments);
    }
}

fn fill_and_make_room(segments: u64) {
    let mut house = House::new(Durability::Sync);
    house.disk.capacity(segments * u64::from(SEGMENT_BYTES));
    house.open().unwrap();
    let mut there = Vec::new();
    let refused = loop {
        let id = there.len().to_string();
        match house.try_add(house.job(&id, &long(&id, 5000))).unwrap() {
            Ok(_) => there.push(id),
            Err(refused) => break refused,
        }
        house.tidy(1);
        assert!(there.len() < 1000, "the disk is never full");
    };
    assert_eq!(refused.code(), Code::StorageFull);
    let free = house.disk.free_bytes().unwrap();
    assert!(free >= u64::from(SEGMENT_BYTES), "there is room left to finish and delete: {free}");
    let is_there = house.get(&there.len().to_string());
    assert_eq!(is_there.unwrap_err().code(), Code::NotFound, "full means not done");
    for id in there.drain(5..) {
        house.delete(&id).unwrap().expect("deleting goes on within the reserve");
    }
    for id in &there {
        assert_eq!(house.body(id).unwrap(), long(id, 5000));
    }
    house.tidy(30);
    house.try_add(house.job("again", "body")).unwrap().expect("there is room again");
    house.cut(7);
    assert_eq!(ids(&mut house).len(), there.len() + 1);
    // Each opening begins a segment of the log; the one before comes back when something is done.
    house.tidy(30);
    house.delete("again").unwrap().expect("deleting goes on");
    house.tidy(30);
    house.try_add(house.job("once more", "body")).unwrap().expect("there is room again");
}

#[test]
fn after_a_failed_sync_all_is_refused_and_what_was_acknowledged_is_there() {
    for seed in 0..40 {
        let mut house = House::new(Durability::Sync).opened();
        house.add("1", "one");
        // The keeper has nothing left to sync.
        house.tidy(2);
        house.disk.fail_sync_in(1);
        assert!(house.queue().halted().is_none());
        let refused = house.try_add_any("2");
        assert_eq!(refused.unwrap_err().code(), Code::StorageFailed);
        assert!(house.queue().halted().is_some());
        assert_eq!(house.get("1").unwrap_err().code(), Code::StorageFailed);
        if seed % 2 == 0 {
            house.kill();
            let seen = ids(&mut house);
            house.add("3", "three");
            house.cut(seed);
            let mut expected = seen;
            expected.insert("3".into());
            assert_eq!(ids(&mut house), expected, "what was seen once stays");
        } else {
            house.cut(seed);
        }
        assert_eq!(house.body("1").unwrap(), "one");
    }
}

impl House {
    fn try_add_any(&mut self, id: &str) -> linger::Result<()> {
        let (queue, job) = (self.queue(), self.job(id, "any"));
        self.ask(queue.add_all(vec![job])).expect("the power is on").map(|_| ())
    }
}

/// Adds jobs that take up some segments.
fn fill(house: &mut House, name: &str, jobs: usize) {
    for n in 0..jobs {
        house.add(&format!("{name}-{n}"), &long(name, 12_000));
    }
}

/// Has a checkpoint made, whatever the settings say.
fn checkpoint(house: &mut House) {
    let before = house.files("checkpoint-");
    for n in 0..200 {
        if house.files("checkpoint-") != before {
            return;
        }
        // The log outgrows the checkpoint there is.
        house.add(&format!("grow-{n}"), &long("grow", 12_000));
        house.delete(&format!("grow-{n}"));
        house.tidy(1);
    }
    panic!("no checkpoint was made");
}

/// The ids of all jobs, each with a body that can be read.
fn ids(house: &mut House) -> BTreeSet<String> {
    let query =
        Query { limit: 1000, bodies: Bodies::With, ..Query::all("t".parse().expect("a topic")) };
    let queue = house.queue();
    let page = house.ask(queue.browse(query)).expect("the power is on").expect("a page");
    page.jobs.iter().map(|job| job.spec.id.to_string()).collect()
}
