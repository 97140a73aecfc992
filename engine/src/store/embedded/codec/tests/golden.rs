//! One example of each kind, byte for byte: whoever changes the format must mean to.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::super::part::put_repeat;
use super::super::{StoredEnd, StoredPause};
use super::*;
use crate::dice::Lease;
use crate::history::{Entry, Report, What};
use crate::job::{Body, Confirm, Envelope, Ttr};
use crate::machine::{Hold, Tally};
use crate::retry::Retry;
use crate::schedule::{Misfire, OnDead};
use crate::time::{DAY, HOUR, MINUTE, SECOND, Time};
use crate::topic::{Archive, Headers, Partitions, Settings};

/// Compares with hex digits, field by field as `docs/format.md` has them.
#[track_caller]
fn golden(bytes: &[u8], fields: &str) {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, fields.replace(char::is_whitespace, ""));
}

fn time(ms: u64) -> Time {
    Time::from_ms(ms).unwrap()
}

#[test]
fn a_plain_job() {
    let job = NewJob::new("mail".parse().unwrap(), "7".parse().unwrap(), Body::text("hi"));
    golden(&cold_bytes(&job), "01 046d61696c 0137 026869");
}

#[test]
fn a_job_that_says_everything() {
    let body = Body::json("{}").unwrap();
    let mut job = NewJob::new("mail".parse().unwrap(), "7".parse().unwrap(), body);
    (job.priority, job.held, job.by) = (7, true, Some("ops".parse().unwrap()));
    let repeat = Repeat::cron("0 9 * * *", Some("Asia/Shanghai")).unwrap();
    job.spec.content_type = Some("a/b".parse().unwrap());
    job.spec.ttr = Some(Ttr::DEFAULT);
    job.spec.retry = Some("1s 3m".parse::<Retry>().unwrap().from_due().attempts(0));
    job.spec.repeat = Some(
        repeat
            .until(Time::MAX)
            .count(NonZeroU32::new(300).unwrap())
            .on_dead(OnDead::Stop)
            .misfire(Misfire::All(NonZeroU32::new(5).unwrap()))
            .unwrap(),
    );
    job.spec.target = Some("sink:x".parse().unwrap());
    job.spec.confirm = Some(Confirm::Finish);
    job.spec.retain = Some(Duration::new(3600, 500_000_000));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    job.spec.traceparent = Some(trace.parse().unwrap());
    golden(
        &cold_bytes(&job),
        "fc 046d61696c 0137 036f7073 03612f62 07
           5f e0d403
           02 00 02 e807 a0fe0a
           2f 09302039202a202a202a 0d417369612f5368616e67686169 00a38bcc77e6 ac02 05
           0673696e6b3a78 901c 80cab5ee01
           000af7651916cd43dd8448eb211c80319cb7ad6b716920333101 027b7d",
    );
}

#[test]
fn settings_of_a_jobs_own() {
    let job = NewJob::new("t".parse().unwrap(), "i".parse().unwrap(), Body::default());
    let mut spec = job.spec;
    spec.retry = Some(Retry::default());
    spec.repeat = Some(Repeat::every(MINUTE).unwrap().misfire(Misfire::Skip).unwrap());
    spec.confirm = Some(Confirm::Delivery);
    golden(&own_bytes(&Own::of(&spec).unwrap()), "26 00 10 e807 80dddb01 c801 10 e0d403");
}

#[test]
fn lives() {
    let now = Now { wall_us: 1_790_000_000_000_000, tick: Tick::from_us(5_000_000) };
    let new = Life::new(time(1_790_000_000_000), 1024, false);
    golden(&life_bytes(&new, now), "0000 006c50c4a001 01");

    let until = now.tick.plus_ms(90_000);
    let (lease, owner) = (Lease::from_u64(0x0123_4567_89ab_cdef), Some(Owner(1)));
    let hold = Hold { lease, since: now.tick, until, ttr: Ttr::DEFAULT, owner };
    let held = Life {
        state: State::Reserved(hold),
        due: time(1_790_000_000_000),
        priority: 10,
        attempt: 2,
        version: 300,
        first_due: time(1_789_999_000_000),
        base: time(1_780_000_000_000),
        slot: time(1_789_998_000_000),
        occurrence: 4,
        hand_outs: 3,
        tally: Tally { reserves: 9, timeouts: 1, releases: 0, buries: 0, kicks: 0, deaths: 2 },
    };
    golden(
        &life_bytes(&held, now),
        "fd3f 006c50c4a001 ac02 c02941c4a001 008844709e01 80e731c4a001 0a 02 03 09 04
           11 01 02 90cb51c4a001 efcdab8967452301 e0d403 90bf05",
    );

    let until = now.tick.plus_ms(60_000);
    let mut first =
        Life { state: State::Reserved(Hold { until, ..hold }), version: 2, ..new.clone() };
    (first.attempt, first.hand_outs, first.tally.reserves) = (1, 1, 1);
    golden(
        &life_bytes(&first, now),
        "8510 006c50c4a001 02 01 605651c4a001 efcdab8967452301 e0d403",
    );

    let (at, until) = (time(1_790_000_001_000), time(1_790_000_002_000));
    let state = State::Finished { at, until, lease: Some(lease) };
    golden(
        &life_bytes(&Life { state, ..new.clone() }, now),
        "0740 006c50c4a001 01 e86f50c4a001 d07350c4a001 efcdab8967452301",
    );
    golden(
        &life_bytes(&Life { state: State::Dead { at }, ..new }, now),
        "0600 006c50c4a001 01 e86f50c4a001",
    );
}

#[test]
fn every_state_has_its_number() {
    let now = now();
    let at = Time::MIN;
    let states = [
        State::Waiting { retry: false, held: false },
        State::Waiting { retry: true, held: false },
        State::Waiting { retry: false, held: true },
        State::Waiting { retry: true, held: true },
        State::Ready,
        State::Reserved(Hold {
            lease: Lease::from_u64(0),
            since: now.tick,
            until: now.tick,
            ttr: Ttr::DEFAULT,
            owner: None,
        }),
        State::Dead { at },
        State::Finished { at, until: at, lease: None },
    ];
    for (number, state) in (0..).zip(states) {
        let life = Life { state, ..Life::new(at, 1024, false) };
        assert_eq!(life_bytes(&life, now)[..2], [number, 0]);
    }
}

/// Where all fields are there, two flags could change places and nobody would notice.
#[test]
fn each_flag_of_a_job_means_its_own_field() {
    let plain = || NewJob::new("t".parse().unwrap(), "i".parse().unwrap(), Body::text(""));
    let with = |change: fn(&mut NewJob), fields: &str| {
        let mut job = plain();
        change(&mut job);
        golden(&cold_bytes(&job), fields);
    };
    with(|_| {}, "01 0174 0169 00");
    with(|job| job.body = Body::bytes(vec![]), "02 0174 0169 00");
    with(|job| job.held = true, "05 0174 0169 00");
    with(|job| job.priority = 1025, "09 0174 0169 8108 00");
    with(|job| job.by = Some("b".parse().unwrap()), "21 0174 0169 0162 00");
    with(|job| job.spec.content_type = Some("a/b".parse().unwrap()), "41 0174 0169 03612f62 00");
    with(|job| job.spec.ttr = Some(Ttr::DEFAULT), "11 0174 0169 01 e0d403 00");
    with(|job| job.spec.retry = Some("5s".parse().unwrap()), "11 0174 0169 02 01 02 01 8827 00");
    with(
        |job| job.spec.repeat = Some(Repeat::every(SECOND).unwrap()),
        "11 0174 0169 04 00 e807 00",
    );
    with(
        |job| job.spec.target = Some("worker:".parse().unwrap()),
        "11 0174 0169 08 07776f726b65723a 00",
    );
    with(|job| job.spec.retain = Some(MINUTE), "11 0174 0169 10 3c 00 00");
    with(|job| job.spec.confirm = Some(Confirm::Finish), "11 0174 0169 40 00");
    with(|job| job.spec.envelope = Some(Envelope::Task), "11 0174 0169 80 03 00");
}

#[test]
fn each_flag_of_a_repeat_means_its_own_field() {
    let with = |change: fn(Repeat) -> Repeat, fields: &str| {
        let mut out = Vec::new();
        put_repeat(&mut out, &change(Repeat::every(SECOND).unwrap()));
        golden(&out, fields);
    };
    with(|repeat| repeat, "00 e807");
    with(|_| Repeat::cron("@daily", None).unwrap(), "01 06406461696c79 03555443");
    with(|repeat| repeat.until(Time::MIN), "02 e807 000000000000");
    with(|repeat| repeat.count(NonZeroU32::MIN), "04 e807 01");
    with(|repeat| repeat.on_dead(OnDead::Stop), "08 e807");
    with(|repeat| repeat.misfire(Misfire::Skip).unwrap(), "10 e807");
    with(|repeat| repeat.misfire(Misfire::All(NonZeroU32::MIN)).unwrap(), "20 e807 01");
}

#[test]
fn each_flag_of_a_life_means_its_own_field() {
    let with = |change: fn(&mut Life), fields: &str| {
        let mut life = Life { state: State::Ready, ..Life::new(Time::MIN, 1024, false) };
        change(&mut life);
        golden(&life_bytes(&life, now()), fields);
    };
    with(|_| {}, "0400 000000000000 01");
    with(|life| life.base = time(5), "1400 000000000000 01 050000000000");
    with(|life| life.slot = time(5), "2400 000000000000 01 050000000000");
    with(|life| life.priority = 5, "4400 000000000000 01 05");
    with(|life| life.hand_outs = 5, "0403 000000000000 01 05 00");
    with(|life| life.tally.reserves = 5, "0402 000000000000 01 05");
    with(|life| life.occurrence = 5, "0404 000000000000 01 05");
    with(|life| life.tally.timeouts = 5, "0408 000000000000 01 01 05");
    with(|life| life.tally.releases = 5, "0408 000000000000 01 02 05");
    with(|life| life.tally.buries = 5, "0408 000000000000 01 04 05");
    with(|life| life.tally.kicks = 5, "0408 000000000000 01 08 05");
    with(|life| life.tally.deaths = 5, "0408 000000000000 01 10 05");
    with(
        |life| (life.first_due, life.base, life.slot) = (time(5), time(5), time(5)),
        "0c00 000000000000 01 050000000000",
    );
    with(
        |life| (life.attempt, life.hand_outs, life.tally.reserves) = (5, 5, 5),
        "8400 000000000000 01 05",
    );
}

#[test]
fn each_flag_of_a_note_means_its_own_field() {
    let with = |change: fn(&mut Entry), fields: &str| {
        let (at, what, by) = (Time::MIN, What::Added, None);
        let mut note = Entry { at, what, attempt: 1, took_ms: None, error: None, report: None, by };
        change(&mut note);
        golden(&note_bytes(&note), fields);
    };
    with(|_| {}, "00 000000000000 01");
    with(|note| note.took_ms = Some(2), "10 000000000000 01 02");
    with(|note| note.error = Some("e".into()), "20 000000000000 01 0165");
    with(|note| note.report = Some(Report::default()), "40 000000000000 01 00");
    with(|note| note.by = Some("b".parse().unwrap()), "80 000000000000 01 0162");
    with(
        |note| note.report = Some(Report { status: Some(200), excerpt: None }),
        "40 000000000000 01 01 c800",
    );
    with(
        |note| note.report = Some(Report { status: None, excerpt: Some("x".into()) }),
        "40 000000000000 01 02 0178",
    );
}

#[test]
fn each_flag_of_a_topic_means_its_own_field() {
    let with = |change: fn(&mut Settings), fields: &str| {
        let mut settings = Settings::default();
        change(&mut settings);
        golden(&topic_bytes(&StoredTopic { settings, pause: StoredPause::No }), fields);
    };
    with(|settings| settings.ttr = Some(Ttr::DEFAULT), "0100 e0d403");
    with(|settings| settings.retry = Some("5s".parse().unwrap()), "0200 01 02 01 8827");
    with(|settings| settings.target = Some("worker:".parse().unwrap()), "0400 07776f726b65723a");
    with(|settings| settings.retain = Some(MINUTE), "0800 3c 00");
    with(|settings| settings.retain_dead = Some(MINUTE), "1000 3c 00");
    with(|settings| settings.rate = Some("7".parse().unwrap()), "2000 07 e807");
    with(|settings| settings.concurrency = NonZeroU32::new(7), "4000 07");
    with(|settings| settings.partitions = Partitions::new(256).ok(), "0006 04 8002");
    with(|settings| settings.jobs_max = NonZeroU32::new(300), "0006 08 ac02");
    let both = |settings: &mut Settings| {
        settings.partitions = Partitions::new(2).ok();
        settings.jobs_max = NonZeroU32::new(7);
    };
    with(both, "0006 0c 02 07");
    with(|settings| settings.bytes_max = NonZeroU64::new(1 << 40), "0006 10 808080808020");
    with(|settings| settings.confirm = Some(Confirm::Delivery), "8000");
    with(|settings| settings.confirm = Some(Confirm::Finish), "0001");
    with(|settings| settings.timeout = Some(Ttr::DEFAULT), "0008 e0d403");
    with(|settings| settings.headers = Headers::new([("a", "b")]).unwrap(), "0010 01 0161 0162");
    with(|settings| settings.envelope = Some(Envelope::Body), "0020");
    with(|settings| settings.envelope = Some(Envelope::CloudEvents), "0040");
    with(|settings| settings.envelope = Some(Envelope::Task), "0060");
    with(|settings| settings.archive = Some(Archive::Files), "0080 0566696c6573");
    with(|settings| settings.archive = "sink:a".parse().ok(), "0080 0673696e6b3a61");
}

#[test]
fn a_note() {
    let note = Entry {
        at: time(1_790_000_000_000),
        what: What::Failed,
        attempt: 3,
        took_ms: Some(250),
        error: Some("no".into()),
        report: Some(Report { status: Some(503), excerpt: Some("busy".into()) }),
        by: Some("ops".parse().unwrap()),
    };
    golden(&note_bytes(&note), "f7 006c50c4a001 03 fa01 026e6f 03 f701 0462757379 036f7073");
}

#[test]
fn a_topic() {
    let settings = Settings {
        ttr: Some(Ttr::new(30 * SECOND).unwrap()),
        retry: Some(Retry::none()),
        target: Some("worker:".parse().unwrap()),
        confirm: Some(Confirm::Delivery),
        retain: Some(HOUR),
        retain_dead: Some(7 * DAY),
        rate: Some("10/m".parse().unwrap()),
        concurrency: NonZeroU32::new(200),
        envelope: Some(Envelope::CloudEvents),
        timeout: Some(Ttr::new(10 * SECOND).unwrap()),
        headers: Headers::new([("x-b", "2"), ("X-A", "1")]).unwrap(),
        archive: Some(Archive::Files),
        partitions: Partitions::new(16).ok(),
        jobs_max: None,
        bytes_max: None,
    };
    let pause = StoredPause::Until(time(1_790_000_000_000));
    golden(
        &topic_bytes(&StoredTopic { settings, pause }),
        "ffde 05 b0ea01 00 01 e807 80dddb01 c801 07776f726b65723a 901c 00 80f524 00 0a e0d403 c801
           006c50c4a001 904e 02 03782d61 0131 03782d62 0132 0566696c6573 10",
    );
    let (settings, pause) = (Settings::default(), StoredPause::Indefinitely);
    golden(&topic_bytes(&StoredTopic { settings, pause }), "0004");
}

#[test]
fn a_key() {
    let end = Some(StoredEnd { at: time(1_790_000_000_000), ttl_ms: 60_000 });
    let kv = StoredKv { key: "keys/a", value: Some(b"\x01\x02"), version: 300, end };
    golden(&kv_bytes(&kv), "03 066b6579732f61 ac02 006c50c4a001 e0d403 020102");
    let removed = StoredKv { key: "keys/a", value: None, version: 301, end: None };
    golden(&kv_bytes(&removed), "00 066b6579732f61 ad02");
}
