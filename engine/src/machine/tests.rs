//! The fine print as a table: what each event does in each state.

use std::num::NonZeroU32;
use std::time::Duration;

use super::*;
use crate::dice::{Chance, Dice};
use crate::retry::Retry;
use crate::schedule::{Misfire, Repeat};
use crate::time::{HOUR, MINUTE, SECOND, Tick};

/// `wrong` and `lost` are refusals, `same` is done without a change, `gone` is the end; a state
/// is where the job goes. `retry` and `ready` stand for jobs that were handed out before.
const TABLE: &str = "
event               | delayed  | fresh   | retry   | held    | ready   | reserved | dead    | finished
due, too early      | same     | same    | same    | same    | same    | same     | same    | same
due                 | ready    | same    | ready   | same    | same    | same     | same    | same
reserve             | wrong    | reserved| wrong   | wrong   | reserved| wrong    | wrong   | wrong
reserve named       | reserved | reserved| reserved| wrong   | reserved| wrong    | reserved| wrong
recall, its lease   | lost     | lost    | lost    | lost    | lost    | ready    | lost    | lost
recall, other lease | lost     | lost    | lost    | lost    | lost    | lost     | lost    | lost
recall, by id       | wrong    | wrong   | wrong   | wrong   | wrong   | ready    | wrong   | wrong
expire, too early   | same     | same    | same    | same    | same    | same     | same    | same
expire              | same     | same    | same    | same    | same    | ready    | same    | same
lost                | wrong    | wrong   | wrong   | wrong   | wrong   | ready    | wrong   | wrong
finish, its lease   | lost     | lost    | lost    | lost    | lost    | gone     | lost    | same
finish, other lease | lost     | lost    | lost    | lost    | lost    | lost     | lost    | lost
finish, late        | lost     | lost    | lost    | lost    | lost    | lost     | lost    | same
finish, by id       | wrong    | wrong   | gone    | gone    | gone    | gone     | wrong   | same
fail, its lease     | lost     | lost    | lost    | lost    | lost    | retry    | lost    | lost
fail, other lease   | lost     | lost    | lost    | lost    | lost    | lost     | lost    | lost
fail, by id         | wrong    | wrong   | wrong   | wrong   | wrong   | retry    | wrong   | wrong
again, its lease    | lost     | lost    | lost    | lost    | lost    | retry    | lost    | lost
again, other lease  | lost     | lost    | lost    | lost    | lost    | lost     | lost    | lost
again, by id        | wrong    | wrong   | wrong   | wrong   | wrong   | retry    | wrong   | wrong
release, its lease  | lost     | lost    | lost    | lost    | lost    | ready    | lost    | lost
release, other lease| lost     | lost    | lost    | lost    | lost    | lost     | lost    | lost
release, by id      | wrong    | wrong   | wrong   | wrong   | wrong   | ready    | wrong   | wrong
release with a delay| wrong    | wrong   | wrong   | wrong   | wrong   | delayed  | wrong   | wrong
touch, its lease    | lost     | lost    | lost    | lost    | lost    | reserved | lost    | lost
touch, other lease  | lost     | lost    | lost    | lost    | lost    | lost     | lost    | lost
touch, by id        | wrong    | wrong   | wrong   | wrong   | wrong   | reserved | wrong   | wrong
leave, its lease    | lost     | lost    | lost    | lost    | lost    | reserved | lost    | lost
leave, other lease  | lost     | lost    | lost    | lost    | lost    | lost     | lost    | lost
leave, by id        | wrong    | wrong   | wrong   | wrong   | wrong   | reserved | wrong   | wrong
bury, its lease     | lost     | lost    | lost    | lost    | lost    | dead     | lost    | lost
bury, other lease   | lost     | lost    | lost    | lost    | lost    | lost     | lost    | lost
bury, by id         | wrong    | wrong   | wrong   | wrong   | wrong   | dead     | wrong   | wrong
update              | delayed  | ready   | retry   | held    | ready   | reserved | wrong   | wrong
update the due time | delayed  | delayed | retry   | held    | delayed | wrong    | wrong   | wrong
run                 | ready    | same    | ready   | ready   | same    | wrong    | ready   | wrong
redrive             | wrong    | wrong   | wrong   | wrong   | wrong   | wrong    | ready   | wrong
hold                | held     | held    | held    | same    | held    | wrong    | wrong   | wrong
unhold              | same     | same    | same    | delayed | same    | wrong    | wrong   | wrong
unhold, when due    | same     | same    | same    | ready   | same    | wrong    | wrong   | wrong
delete              | gone     | gone    | gone    | gone    | gone    | gone     | gone    | gone
delete, unreserved  | gone     | gone    | gone    | gone    | gone    | wrong    | gone    | gone
lapse               | wrong    | wrong   | wrong   | wrong   | wrong   | wrong    | gone    | gone
";

const NOW_MS: u64 = 1_800_000_000_000;
const TTR: Ttr = Ttr::DEFAULT;

fn now() -> Now {
    later(Duration::ZERO)
}

fn later(by: Duration) -> Now {
    let us = by.as_micros() as u64;
    Now { wall_us: NOW_MS * 1000 + us, tick: Tick::from_us(1_000_000 + us) }
}

fn time(ms: u64) -> Time {
    Time::from_ms(ms).unwrap()
}

fn its_lease() -> Lease {
    Dice::seeded(1).lease(1, 1)
}

fn other_lease() -> Lease {
    Dice::seeded(1).lease(2, 2)
}

fn hold() -> Hold {
    let until = now().tick.plus_ms(TTR.as_ms());
    Hold { lease: its_lease(), since: now().tick, until, ttr: TTR, owner: None }
}

/// A job in each state, under the names of the table's columns. Waiting ones are due in a minute.
fn life(column: &str) -> Life {
    let in_a_minute = time(NOW_MS + 60_000);
    let mut life = Life::new(in_a_minute, 1024, false);
    let tally = Tally { reserves: 1, ..Tally::default() };
    let handed_out = Life { attempt: 1, hand_outs: 1, tally, ..life.clone() };
    match column {
        "delayed" => {}
        "fresh" => life = Life { state: State::Ready, due: time(NOW_MS), ..life },
        "retry" => life = Life { state: State::Waiting { retry: true, held: false }, ..handed_out },
        "held" => life = Life { state: State::Waiting { retry: false, held: true }, ..handed_out },
        "ready" => life = Life { state: State::Ready, due: time(NOW_MS), ..handed_out },
        "reserved" => {
            life = Life { state: State::Reserved(hold()), due: time(NOW_MS), ..handed_out }
        }
        "dead" => life = Life { state: State::Dead { at: time(NOW_MS) }, ..handed_out },
        "finished" => {
            let (at, until) = (time(NOW_MS), time(NOW_MS + 1000));
            let state = State::Finished { at, until, lease: Some(its_lease()) };
            life = Life { state, ..handed_out };
        }
        other => panic!("no such column: {other}"),
    }
    life
}

/// The event of a row, and when it happens.
fn event(row: &str) -> (Event, Now) {
    let (name, detail) = row.split_once(", ").unwrap_or((row, ""));
    let lease = match detail {
        "its lease" | "late" => Some(its_lease()),
        "other lease" => Some(other_lease()),
        _ => None,
    };
    let (retry_in_ms, delay_ms, priority, ttr) = (None, 0, None, None);
    let event = match name {
        "due" => Event::Due,
        "reserve" => Event::Reserve(hold()),
        "reserve named" => Event::ReserveNamed(hold()),
        "recall" => Event::Recall(lease),
        "expire" => Event::Expire,
        "lost" => Event::Lost,
        "finish" => Event::Finish(lease),
        "fail" => Event::Fail { lease, retry_in_ms },
        "again" => Event::Again { lease, retry_in_ms },
        "release" => Event::Release { lease, delay_ms, priority },
        "release with a delay" => Event::Release { lease, delay_ms: 5, priority },
        "touch" => Event::Touch { lease, ttr },
        "leave" => Event::Leave(lease),
        "bury" => Event::Bury { lease, priority },
        "update" => Event::Update { due: None, priority },
        "update the due time" => Event::Update { due: Some(time(NOW_MS + 1)), priority },
        "run" => Event::Run,
        "redrive" => Event::Redrive,
        "hold" => Event::Hold,
        "unhold" => Event::Unhold,
        "delete" if detail == "unreserved" => Event::Delete(Reach::Unreserved),
        "delete" => Event::Delete(Reach::Any),
        "lapse" => Event::Lapse,
        other => panic!("no such event: {other}"),
    };
    let at = match row {
        "due" | "expire" | "finish, late" | "unhold, when due" => later(MINUTE),
        _ => now(),
    };
    (event, at)
}

/// The events, by the first words of their rows.
const EVENTS: [&str; 20] = [
    "due",
    "reserve",
    "reserve named",
    "recall",
    "expire",
    "lost",
    "finish",
    "fail",
    "again",
    "release",
    "touch",
    "leave",
    "bury",
    "update",
    "run",
    "redrive",
    "hold",
    "unhold",
    "delete",
    "lapse",
];

/// Without a `_` arm: a new event does not compile until it has a name above, and rows.
fn event_name(event: &Event) -> &'static str {
    let index = match event {
        Event::Due => 0,
        Event::Reserve(_) => 1,
        Event::ReserveNamed(_) => 2,
        Event::Recall(_) => 3,
        Event::Expire => 4,
        Event::Lost => 5,
        Event::Finish(_) => 6,
        Event::Fail { .. } => 7,
        Event::Again { .. } => 8,
        Event::Release { .. } => 9,
        Event::Touch { .. } => 10,
        Event::Leave(_) => 11,
        Event::Bury { .. } => 12,
        Event::Update { .. } => 13,
        Event::Run => 14,
        Event::Redrive => 15,
        Event::Hold => 16,
        Event::Unhold => 17,
        Event::Delete(_) => 18,
        Event::Lapse => 19,
    };
    EVENTS[index]
}

fn plain_rules(retry: &Retry) -> Rules<'_> {
    Rules { retry, repeat: None, retain_ms: None, chance: Chance::MIDDLE }
}

fn outcome(walked: &Result<Step, Refusal>) -> String {
    match walked {
        Err(Refusal::WrongState(_)) => "wrong".into(),
        Err(Refusal::LeaseLost) => "lost".into(),
        Ok(Step { next: Next::Same, .. }) => "same".into(),
        Ok(Step { next: Next::Gone, .. }) => "gone".into(),
        Ok(Step { next: Next::Keep(life), .. }) => life.stage().to_string(),
    }
}

#[test]
fn every_event_does_in_every_state_what_the_table_says() {
    let mut lines = TABLE.trim().lines().map(|line| line.split('|').map(str::trim));
    let columns: Vec<&str> = lines.next().unwrap().skip(1).collect();
    let retry = Retry::default();
    let mut seen = Vec::new();
    for mut cells in lines {
        let row = cells.next().unwrap();
        let (event, at) = event(row);
        seen.push(event_name(&event));
        for (column, expected) in columns.iter().zip(cells) {
            let before = life(column);
            let walked = step(&before, &event, &plain_rules(&retry), at);
            assert_eq!(outcome(&walked), expected, "`{row}` in `{column}`: {walked:?}");
            check_version_of(&before, &event, &walked);
        }
    }
    seen.dedup();
    assert_eq!(seen, EVENTS, "each event has rows, in this order");
}

/// Each change adds one to the version; becoming due is no change, for it is derived.
fn check_version_of(before: &Life, event: &Event, walked: &Result<Step, Refusal>) {
    if let Ok(Step { next: Next::Keep(after), .. }) = walked {
        let counted = u64::from(*event != Event::Due);
        assert_eq!(after.version, before.version + counted, "{event:?}");
    }
}

/// Takes a step that must be allowed and leave a job.
fn after(life: &Life, event: Event, rules: &Rules<'_>, at: Now) -> Life {
    match step(life, &event, rules, at) {
        Ok(Step { next: Next::Keep(next), .. }) => next,
        other => panic!("{event:?} led to {other:?}"),
    }
}

fn fail() -> Event {
    Event::Fail { lease: None, retry_in_ms: None }
}

#[test]
fn an_attempt_is_used_by_failure_and_given_back_by_release_and_recall() {
    let retry = Retry::default();
    let rules = plain_rules(&retry);
    let reserved = life("reserved");
    let release = Event::Release { lease: None, delay_ms: 0, priority: Some(3) };
    for (event, attempt) in
        [(fail(), 1), (Event::Lost, 1), (release.clone(), 0), (Event::Recall(Some(its_lease())), 0)]
    {
        assert_eq!(after(&reserved, event.clone(), &rules, now()).attempt, attempt, "{event:?}");
    }
    assert_eq!(after(&reserved, Event::Expire, &rules, later(MINUTE)).attempt, 1);
    assert_eq!(after(&reserved, release, &rules, now()).priority, 3);
}

#[test]
fn the_last_attempt_leads_to_the_dead_shelf_with_its_reason() {
    let retry = Retry::none();
    let rules = plain_rules(&retry);
    let again = Event::Again { lease: None, retry_in_ms: None };
    for (event, error) in [
        (fail(), None),
        (Event::Lost, Some(CONNECTION_LOST)),
        (again, Some(GAVE_UP)),
        (Event::Expire, Some(TTR_RAN_OUT)),
    ] {
        let walked = step(&life("reserved"), &event, &rules, later(MINUTE)).unwrap();
        let Next::Keep(dead) = walked.next else { panic!("{event:?} ended the job") };
        assert_eq!((dead.stage(), dead.tally.deaths), (Stage::Dead, 1), "{event:?}");
        let note = walked.note.unwrap();
        assert_eq!((note.what, note.error), (What::Died, error), "{event:?}");
    }
}

#[test]
fn due_changes_with_a_delay_a_step_a_run_and_a_redrive_and_stays_otherwise() {
    let retry = Retry::ladder(&[10 * SECOND]).unwrap();
    let rules = plain_rules(&retry);
    let at = later(5 * SECOND);
    let release = |delay_ms| Event::Release { lease: None, delay_ms, priority: None };
    let due = |column, event| after(&life(column), event, &rules, at).due.as_ms() - NOW_MS;
    assert_eq!(due("reserved", release(0)), 0);
    assert_eq!(due("reserved", Event::Lost), 0);
    assert_eq!(due("reserved", release(700)), 5700);
    assert_eq!(due("reserved", fail()), 15_000);
    let in_7_ms = Event::Fail { lease: None, retry_in_ms: Some(7) };
    assert_eq!(due("reserved", in_7_ms), 5007);
    assert_eq!(due("delayed", Event::Run), 5000);
    assert_eq!(due("dead", Event::Redrive), 5000);
    assert_eq!(due("held", Event::Unhold), 60_000);
}

#[test]
fn a_redrive_starts_attempts_anew_and_keeps_the_tallies() {
    let retry = Retry::none();
    let dead = after(&life("reserved"), fail(), &plain_rules(&retry), now());
    let ready = after(&dead, Event::Redrive, &plain_rules(&retry), now());
    assert_eq!((ready.attempt, ready.tally.deaths, ready.tally.kicks), (0, 1, 1));
}

#[test]
fn a_touch_restarts_the_lease_from_now() {
    let retry = Retry::default();
    let at = later(10 * SECOND);
    let until = |ttr| {
        let touched =
            after(&life("reserved"), Event::Touch { lease: None, ttr }, &plain_rules(&retry), at);
        let State::Reserved(hold) = touched.state else { panic!("it is reserved") };
        hold.until.ms_since(at.tick)
    };
    assert_eq!(until(None), TTR.as_ms());
    assert_eq!(until(Some(Ttr::new(SECOND).unwrap())), 1000);
}

#[test]
fn a_finished_job_is_kept_for_its_time_if_it_has_one() {
    let retry = Retry::default();
    let rules = Rules { retain_ms: Some(5000), ..plain_rules(&retry) };
    let kept = after(&life("reserved"), Event::Finish(Some(its_lease())), &rules, now());
    let expected =
        State::Finished { at: time(NOW_MS), until: time(NOW_MS + 5000), lease: Some(its_lease()) };
    assert_eq!(kept.state, expected);
}

/// A repeating job at its last attempt.
fn repeating() -> (Life, Retry) {
    let due = time(NOW_MS);
    let life = Life {
        state: State::Reserved(hold()),
        attempt: 3,
        hand_outs: 1,
        ..Life::new(due, 1024, false)
    };
    (life, Retry::none())
}

#[test]
fn an_occurrence_that_ends_leads_to_the_next_with_attempts_of_its_own() {
    let repeat = Repeat::every(HOUR).unwrap();
    let (life, retry) = repeating();
    let rules = Rules { repeat: Some(&repeat), ..plain_rules(&retry) };
    for event in [Event::Finish(None), fail(), Event::Bury { lease: None, priority: None }] {
        let next = after(&life, event.clone(), &rules, later(MINUTE));
        assert_eq!(next.stage(), Stage::Delayed, "{event:?}");
        assert_eq!((next.due, next.slot), (time(NOW_MS + 3_600_000), time(NOW_MS + 3_600_000)));
        assert_eq!((next.attempt, next.occurrence, next.hand_outs), (0, 1, 0));
    }
}

#[test]
fn the_last_occurrence_ends_the_job() {
    let repeat = Repeat::every(HOUR).unwrap().count(NonZeroU32::MIN);
    let (life, retry) = repeating();
    let rules = Rules { repeat: Some(&repeat), ..plain_rules(&retry) };
    assert_eq!(step(&life, &Event::Finish(None), &rules, now()).unwrap().next, Next::Gone);
    assert_eq!(after(&life, fail(), &rules, now()).stage(), Stage::Dead);
}

#[test]
fn an_occurrence_that_dies_stops_the_job_if_it_says_so() {
    let repeat = Repeat::every(HOUR).unwrap().on_dead(OnDead::Stop);
    let (life, retry) = repeating();
    let rules = Rules { repeat: Some(&repeat), ..plain_rules(&retry) };
    assert_eq!(after(&life, fail(), &rules, now()).stage(), Stage::Dead);
}

#[test]
fn a_run_by_hand_leaves_the_slots_alone() {
    let repeat = Repeat::every(HOUR).unwrap().misfire(Misfire::Skip).unwrap();
    let retry = Retry::default();
    let rules = Rules { repeat: Some(&repeat), ..plain_rules(&retry) };
    let waiting = Life::new(time(NOW_MS + 60_000), 1024, false);
    let run = after(&waiting, Event::Run, &rules, now());
    let reserved = after(&run, Event::Reserve(hold()), &rules, now());
    let next = after(&reserved, Event::Finish(None), &rules, now());
    assert_eq!((next.due, next.occurrence), (time(NOW_MS + 60_000), 1));
}

#[test]
fn a_counter_at_its_end_stays_there() {
    let repeat = Repeat::every(HOUR).unwrap();
    let retry = Retry::no_limit();
    let rules = Rules { repeat: Some(&repeat), ..plain_rules(&retry) };
    let (most, rows) = (u32::MAX, TABLE.trim().lines().skip(1));
    for row in rows.map(|line| line.split('|').next().unwrap().trim()) {
        for column in ["delayed", "fresh", "retry", "held", "ready", "reserved", "dead"] {
            let before = Life {
                attempt: most,
                occurrence: most,
                hand_outs: most,
                tally: Tally {
                    reserves: most,
                    timeouts: most,
                    releases: most,
                    buries: most,
                    kicks: most,
                    deaths: most,
                },
                ..life(column)
            };
            let (event, at) = event(row);
            if let Ok(Step { next: Next::Keep(after), .. }) = step(&before, &event, &rules, at) {
                assert_eq!(after.occurrence, most, "`{row}` in `{column}`");
                assert_eq!(after.tally.timeouts, most, "`{row}` in `{column}`");
                assert!(after.tally.reserves >= most - 1, "`{row}` in `{column}`");
            }
        }
    }
}
