//! What is promised about single kinds: sizes, leases, pauses, what is refused.

use std::time::Duration;

use super::super::{StoredEnd, StoredPause};
use super::*;
use crate::dice::Lease;
use crate::history::What;
use crate::job::{Body, Confirm, Ttr};
use crate::machine::{Hold, Tally};
use crate::time::{DAY, HOUR, MINUTE, Time};
use crate::topic::{Pause, Settings};

fn plain(topic: &str, id: &str, body: Body) -> NewJob {
    NewJob::new(topic.parse().unwrap(), id.parse().unwrap(), body)
}

fn at(ms: u64) -> Now {
    Now { wall_us: ms * 1000, tick: Tick::from_us(10 * DAY.as_micros() as u64) }
}

fn time(ms: u64) -> Time {
    Time::from_ms(ms).unwrap()
}

fn held_by(hold: Hold) -> Life {
    let mut life = Life::new(time(1_790_000_000_000), 1024, false);
    life.state = State::Reserved(hold);
    life.version = 2;
    (life.attempt, life.hand_outs, life.tally.reserves) = (1, 1, 1);
    life
}

fn hold(ttr: Duration, now: Now) -> Hold {
    let ttr = Ttr::new(ttr).unwrap();
    let until = now.tick.plus_ms(ttr.as_ms());
    Hold { lease: Lease::from_u64(u64::MAX), since: now.tick, until, ttr, owner: None }
}

fn read_hold(bytes: &[u8], now: Now) -> Hold {
    match whole(bytes, |reader| decode_life(reader, now)).unwrap().life.state {
        State::Reserved(hold) => hold,
        state => panic!("{state:?} is no hold"),
    }
}

#[test]
fn a_plain_job_costs_at_most_8_bytes_beyond_what_it_says() {
    let extra = |job: &NewJob| {
        let said = [job.spec.topic.as_str(), job.spec.id.as_str()].concat().len();
        cold_bytes(job).len() - said - job.body.as_bytes().len()
    };
    assert_eq!(extra(&plain("order.close", "1001", "{}".into())), 4);
    let longest = Body::bytes(vec![0; Body::BYTES_MAX_DEFAULT]);
    let mut job = plain(&"t".repeat(200), &"i".repeat(256), longest);
    assert_eq!(extra(&job), 8);
    job.held = true;
    assert_eq!(extra(&job), 8);
}

#[test]
fn a_job_is_written_in_one_allocation() {
    for_seeds(500, |rng| {
        let mut job = rng.job();
        // A vector that has to grow at least doubles, so that it would not be this full.
        let bytes = cold_bytes(&job);
        let own = Own::of(&job.spec).map_or(0, |own| own.size_max());
        assert!(bytes.capacity() <= bytes.len() + own);
        (job.spec.retry, job.spec.repeat, job.spec.target) = (None, None, None);
        (job.spec.ttr, job.spec.confirm, job.spec.retain) = (None, None, None);
        job.spec.envelope = None;
        let bytes = cold_bytes(&job);
        assert_eq!(bytes.capacity(), bytes.len());
    });
}

#[test]
fn a_jobs_own_settings_are_within_the_room_made_for_them() {
    for_seeds(3000, |rng| {
        if let Some(own) = Own::of(&rng.job().spec) {
            assert!(own_bytes(&own).len() <= own.size_max(), "{own:?}");
        }
    });
}

#[test]
fn a_body_is_not_copied() {
    let payload = Bytes::from(cold_bytes(&plain("t", "i", "hello".into())));
    let body = Cold::decode(payload.clone()).unwrap().body;
    assert_eq!(body.as_bytes().as_ptr(), payload[payload.len() - 5..].as_ptr());
}

#[test]
fn lives_are_small() {
    let now = at(1_790_000_000_000);
    assert_eq!(life_bytes(&Life::new(time(1_790_000_000_000), 1024, false), now).len(), 9);
    assert_eq!(life_bytes(&held_by(hold(MINUTE, now)), now).len(), 27);

    // Everything about it is unusual: it repeats, was retried and touched for longer than its
    // ttr, has a priority of its own, and was popped, given back and kicked 16,383 times.
    let unusual = |count, version| {
        let mut life =
            held_by(Hold { until: now.tick.plus_ms(7 * 86_400_000), ..hold(6 * DAY, now) });
        (life.priority, life.version) = (u32::MAX, version);
        (life.first_due, life.base, life.slot) = (time(1), time(2), time(3));
        (life.attempt, life.hand_outs, life.occurrence) = (count, count - 1, count);
        let (timeouts, releases, buries, kicks, deaths) = (count, count, count, count, count);
        life.tally = Tally { reserves: count, timeouts, releases, buries, kicks, deaths };
        life
    };
    assert_eq!(life_bytes(&unusual((1 << 14) - 1, (1 << 21) - 1), now).len(), 77);
    // The most there can be, with every counter at its end.
    assert_eq!(life_bytes(&unusual(u32::MAX, u64::MAX), now).len(), 111);
}

#[test]
fn no_life_is_larger_than_the_largest() {
    for_seeds(5000, |rng| {
        let now = rng.now();
        assert!(life_bytes(&rng.life(now), now).len() <= 111);
    });
}

#[test]
fn a_lease_goes_on_where_it_was_by_the_clock_on_the_wall() {
    let now = at(1_790_000_000_000);
    let bytes = life_bytes(&held_by(hold(MINUTE, now)), now);
    for (later_ms, left_ms) in [(0, 60_000), (20_000, 40_000), (60_000, 0), (100_000, 0)] {
        let later = Now {
            tick: Tick::from_us(HOUR.as_micros() as u64),
            ..at(1_790_000_000_000 + later_ms)
        };
        let hold = read_hold(&bytes, later);
        assert_eq!(hold.until, later.tick.plus_ms(left_ms), "after {later_ms} ms");
        assert_eq!(later.tick.ms_since(hold.since), 60_000 - left_ms, "after {later_ms} ms");
        assert_eq!(hold.ttr, Ttr::DEFAULT);
        assert_eq!(hold.lease, Lease::from_u64(u64::MAX));
    }
}

#[test]
fn a_clock_that_was_set_back_makes_no_lease_longer() {
    let now = at(1_790_000_000_000);
    let bytes = life_bytes(&held_by(hold(MINUTE, now)), now);
    let earlier = at(1_000_000_000_000);
    let hold = read_hold(&bytes, earlier);
    assert_eq!((hold.since, hold.until), (earlier.tick, earlier.tick.plus_ms(60_000)));
}

#[test]
fn a_lease_touched_for_longer_than_its_ttr_keeps_what_it_was_given() {
    let now = at(1_790_000_000_000);
    let touched = Hold { until: now.tick.plus_ms(3_600_000), ..hold(MINUTE, now) };
    let bytes = life_bytes(&held_by(touched), now);
    let later = at(1_790_000_600_000);
    assert_eq!(read_hold(&bytes, later).until, later.tick.plus_ms(3_000_000));
    assert_eq!(read_hold(&bytes, later).ttr, Ttr::DEFAULT);
    assert_eq!(read_hold(&bytes, later).since, later.tick);
    let earlier = at(1_000_000_000_000);
    assert_eq!(read_hold(&bytes, earlier).until, earlier.tick.plus_ms(3_600_000));
}

#[test]
fn a_hand_out_before_this_process_began_is_cut_to_its_start() {
    let now = at(1_790_000_000_000);
    let bytes = life_bytes(&held_by(hold(MINUTE, now)), now);
    let young = Now { wall_us: now.wall_us + 20_000_000, tick: Tick::from_us(300) };
    let hold = read_hold(&bytes, young);
    assert_eq!((hold.since, hold.until), (Tick::default(), young.tick.plus_ms(40_000)));
}

#[test]
fn a_lease_of_part_of_a_millisecond_ends_within_one() {
    let now = Now { wall_us: 1_790_000_000_000_999, tick: Tick::from_us(5_000_001) };
    for part_us in [0, 1, 500, 999] {
        let until = Tick::from_us(now.tick.as_us() + 1_000_000 + part_us);
        let bytes = life_bytes(&held_by(Hold { until, ..hold(MINUTE, now) }), now);
        assert!(read_hold(&bytes, now).until.as_us().abs_diff(until.as_us()) < 1000, "{part_us}");
    }
}

#[test]
fn a_hold_that_had_an_owner_is_marked() {
    let now = at(1_790_000_000_000);
    for owner in [None, Some(Owner(7))] {
        let bytes = life_bytes(&held_by(Hold { owner, ..hold(MINUTE, now) }), now);
        let read = whole(&bytes, |reader| decode_life(reader, now)).unwrap();
        assert_eq!(read.local, owner.is_some());
    }
}

#[test]
fn a_hold_without_end_is_kept_to_the_longest_there_is() {
    let now = at(1_790_000_000_000);
    let bytes = life_bytes(&held_by(Hold { until: Tick::MAX, ..hold(MINUTE, now) }), now);
    assert_eq!(read_hold(&bytes, now).until, now.tick.plus_ms(Ttr::MAX.as_millis() as u64));
}

#[test]
fn a_reserved_life_without_a_hand_out_is_refused() {
    let now = at(1_790_000_000_000);
    let mut life = held_by(hold(MINUTE, now));
    life.hand_outs = 0;
    let refused = whole(&life_bytes(&life, now), |reader| decode_life(reader, now));
    assert_eq!(refused, Err(Malformed("a reserved job was never handed out")));
}

#[test]
fn flags_that_nobody_sets_are_refused() {
    let ready = |flags: u16| {
        let mut bytes = flags.to_le_bytes().to_vec();
        bytes.extend([0; 6]);
        bytes.push(1);
        whole(&bytes, |reader| decode_life(reader, now())).is_ok()
    };
    assert!(ready(4));
    for bit in 12..16 {
        assert!(!ready(4 | 1 << bit), "bit {bit}");
    }
    let cold = |flags: u8| Cold::peek(&[flags, 1, b't', 1, b'i', 0]).is_ok();
    assert_eq!([0, 1, 2, 3].map(cold), [true, true, true, false]);
    assert!(whole(&[0x80], Own::decode).is_err());
    assert!(whole(&[0x00], Own::decode).is_err());
    assert!(whole(&[0x60], Own::decode).is_err());
    assert_eq!(whole(&[0x40], Own::decode).unwrap().confirm, Some(Confirm::Finish));
    for high in [0x06, 0x08, 0x10, 0x80] {
        assert!(whole(&[0, high], StoredTopic::decode).is_err(), "{high:x}");
    }
    let note = |what: u8| whole(&[what, 0, 0, 0, 0, 0, 0, 0], decode_note).is_ok();
    assert_eq!((0..16).map(note).filter(|read| *read).count(), 14);
    let kv = |flags: u8| whole(&[flags, 1, b'k', 1], StoredKv::decode).is_ok();
    assert_eq!([0, 4, 8, 0x80].map(kv), [true, false, false, false]);
    let repeat = |flags: u8| whole(&[1 << 2, flags, 1], Own::decode).is_ok();
    assert_eq!([0, 8, 0x10, 0x30, 0x40, 0x80].map(repeat), [true, true, true, false, false, false]);
    let report = |flags: u8| whole(&[0x47, 0, 0, 0, 0, 0, 0, 0, flags], decode_note).is_ok();
    assert_eq!([0, 4, 8, 0x80].map(report), [true, false, false, false]);
    let tally = |there: u8| {
        let bytes = [4, 8, 0, 0, 0, 0, 0, 0, 1, there, 1, 1];
        whole(&bytes, |reader| decode_life(reader, now())).is_ok()
    };
    assert_eq!([3, 0x18, 0x23, 0x58, 0x98].map(tally), [true, true, false, false, false]);
}

#[test]
fn names_on_disk_are_checked() {
    let cold = |topic: &str, id: &str| {
        let mut bytes = vec![1];
        put_str(&mut bytes, topic);
        put_str(&mut bytes, id);
        bytes.push(0);
        let peeked = Cold::peek(&bytes).is_ok();
        assert_eq!(peeked, Cold::decode(bytes.into()).is_ok(), "{topic:?} {id:?}");
        peeked
    };
    assert!(cold("t", "i") && cold("t", " i "));
    let (long_topic, long_id) = ("t".repeat(201), "i".repeat(257));
    for (topic, id) in [
        ("", "i"),
        ("t", ""),
        (" t", "i"),
        ("t\n", "i"),
        ("t", "\0"),
        (&long_topic, "i"),
        ("t", &long_id),
    ] {
        assert!(!cold(topic, id), "{topic:?} {id:?}");
    }
    for key in [String::new(), "k".repeat(513)] {
        let bytes = kv_bytes(&StoredKv { key: &key, value: None, version: 1, end: None });
        assert!(whole(&bytes, StoredKv::decode).is_err());
    }
    let value = vec![0; 64 * 1024 + 1];
    let kv = StoredKv { key: "k", value: Some(&value), version: 1, end: None };
    assert!(whole(&kv_bytes(&kv), StoredKv::decode).is_err());
}

#[test]
fn a_text_body_must_be_text() {
    let cold = |form: u8| Cold::decode(vec![form, 1, b't', 1, b'i', 1, 0xff].into()).is_ok();
    assert_eq!([0, 1, 2].map(cold), [false, false, true]);
}

#[test]
fn every_kind_of_note_has_its_number() {
    let all = [
        What::Added,
        What::Updated,
        What::Held,
        What::Unheld,
        What::Run,
        What::Redriven,
        What::Released,
        What::Failed,
        What::Again,
        What::TimedOut,
        What::Lost,
        What::Died,
        What::Finished,
        What::Delivered,
    ];
    for (number, what) in (0..).zip(all) {
        let (at, by) = (Time::MIN, None);
        let note = crate::history::Entry {
            at,
            what,
            attempt: 0,
            took_ms: None,
            error: None,
            report: None,
            by,
        };
        assert_eq!(note_bytes(&note), [number, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(whole(&note_bytes(&note), decode_note), Ok(note));
    }
}

#[test]
fn a_pause_ends_when_it_would_have() {
    let now = at(1_790_000_000_000);
    let pause = StoredPause::of(Pause::Until(now.tick.plus_ms(60_000)), now);
    assert_eq!(pause, StoredPause::Until(time(1_790_000_060_000)));
    let later = Now { tick: Tick::from_us(7), ..at(1_790_000_020_000) };
    assert_eq!(pause.resume(later), Pause::Until(later.tick.plus_ms(40_000)));
    assert_eq!(pause.resume(at(1_790_000_060_000)), Pause::No);
    for same in [Pause::No, Pause::Indefinitely] {
        assert_eq!(StoredPause::of(same, now).resume(later), same);
    }
}

#[test]
fn a_key_is_gone_when_it_would_have_been_and_never_later_than_its_ttl() {
    let end = StoredEnd { at: time(1_790_000_060_000), ttl_ms: 60_000 };
    for (now_ms, left_ms) in [(1_790_000_020_000, 40_000), (1_790_000_070_000, 0), (5, 60_000)] {
        let now = at(now_ms);
        assert_eq!(end.tick(now), now.tick.plus_ms(left_ms), "at {now_ms}");
    }
}

#[test]
fn a_topic_with_nothing_set_takes_two_bytes() {
    let topic = StoredTopic { settings: Settings::default(), pause: StoredPause::No };
    assert_eq!(topic_bytes(&topic), [0, 0]);
}
