//! Schedules at the edges: changed clocks, missed slots, bad expressions.

use std::num::NonZeroU32;
use std::time::Duration;

use super::*;
use crate::schedule::*;
use crate::time::{DAY, HOUR, MINUTE, Now, Tick, duration_ms};

fn t(text: &str) -> Time {
    text.parse().unwrap_or_else(|_| panic!("{text} is no time"))
}

fn times(texts: &[&str]) -> Vec<Time> {
    texts.iter().map(|text| t(text)).collect()
}

fn cron(expression: &str, zone: &str) -> Repeat {
    Repeat::cron(expression, Some(zone)).unwrap()
}

fn all(n: u32) -> Misfire {
    Misfire::All(NonZeroU32::new(n).unwrap())
}

fn now(time: Time) -> Now {
    Now { wall_us: time.as_ms() * 1000, tick: Tick::default() }
}

/// The slots after `after`, all of the grid.
fn slots(repeat: &Repeat, after: &str, n: usize) -> Vec<Time> {
    repeat.upcoming(Time::MIN, t(after), n)
}

fn assert_slots(zone: &str, expression: &str, after: &str, expected: &[&str]) {
    let told = slots(&cron(expression, zone), after, expected.len());
    assert_eq!(told, times(expected), "`{expression}` in {zone} after {after}");
}

const BERLIN: &str = "Europe/Berlin";
const BEIRUT: &str = "Asia/Beirut";
const CAIRO: &str = "Africa/Cairo";
const LORD_HOWE: &str = "Australia/Lord_Howe";

/// The first is reached from the hours before it.
fn assert_days(zone: &str, expression: &str, expected: &[&str]) {
    let before = t(expected[0]).saturating_sub_ms(duration_ms(11 * HOUR)).to_string();
    assert_slots(zone, expression, &before, expected);
}

#[test]
fn a_daily_job_runs_once_on_the_day_the_clock_skips() {
    for (zone, expression, expected) in [
        (BERLIN, "30 2 * * *", ["2026-03-29T03:00+02", "2026-03-30T02:30+02"]),
        (BERLIN, "0 3 * * *", ["2026-03-29T03:00+02", "2026-03-30T03:00+02"]),
        (BEIRUT, "0 0 * * *", ["2026-03-29T01:00+03", "2026-03-30T00:00+03"]),
        (BEIRUT, "@daily", ["2026-03-29T01:00+03", "2026-03-30T00:00+03"]),
        (BEIRUT, "30 2 * * *", ["2026-03-29T02:30+03", "2026-03-30T02:30+03"]),
        (CAIRO, "30 23 * * *", ["2026-04-23T23:30+02", "2026-04-24T23:30+03"]),
        (LORD_HOWE, "15 2 * * *", ["2026-10-04T02:30+11", "2026-10-05T02:15+11"]),
    ] {
        assert_days(zone, expression, &expected);
    }
}

#[test]
fn a_daily_job_runs_once_on_the_day_an_hour_comes_again() {
    for (zone, expression, expected) in [
        (BERLIN, "30 2 * * *", ["2026-10-25T02:30+02", "2026-10-26T02:30+01"]),
        (BEIRUT, "30 23 * * *", ["2026-10-24T23:30+03", "2026-10-25T23:30+02"]),
        (LORD_HOWE, "45 1 * * *", ["2026-04-05T01:45+11", "2026-04-06T01:45+10:30"]),
    ] {
        assert_days(zone, expression, &expected);
    }
    assert_slots(BERLIN, "30 2 * * *", "2026-10-25T02:15+01", &["2026-10-26T02:30+01"]);
}

#[test]
fn a_job_at_several_times_runs_once_at_each() {
    for (expression, expected) in [
        ("30 2,14 * * *", ["2026-03-29T03:00+02", "2026-03-29T14:30+02"]),
        ("15,45 2 * * *", ["2026-03-29T03:00+02", "2026-03-30T02:15+02"]),
        ("30 2,14 * * *", ["2026-10-25T02:30+02", "2026-10-25T14:30+01"]),
    ] {
        assert_days(BERLIN, expression, &expected);
    }
}

#[test]
fn a_date_that_a_zone_left_out_is_made_up_for_at_the_next_midnight() {
    // Samoa went from 29 to 31 December 2011.
    let expected = ["2011-12-31T00:00+14", "2012-12-30T09:00+14"];
    assert_slots("Pacific/Apia", "0 9 30 12 *", "2011-12-29T12:00-10", &expected);
    let expected = ["2011-12-31T00:00+14", "2012-01-01T00:00+14"];
    assert_slots("Pacific/Apia", "0 0 * * *", "2011-12-29T12:00-10", &expected);
}

#[test]
fn a_job_with_a_star_runs_whenever_the_wall_shows_its_time() {
    let expected = ["2026-03-29T01:30+01", "2026-03-29T03:00+02", "2026-03-29T03:30+02"];
    assert_slots(BERLIN, "*/30 * * * *", "2026-03-29T01:15+01", &expected);
    let expected = ["02:00+02", "02:30+02", "02:00+01", "02:30+01", "03:00+01"]
        .map(|clock| format!("2026-10-25T{clock}"));
    let expected = expected.each_ref().map(|slot| &**slot);
    assert_slots(BERLIN, "*/30 * * * *", "2026-10-25T01:45+02", &expected);
}

#[test]
fn an_expression_means_what_cron_says() {
    for (expression, expected) in [
        // The 13th or a Friday; with a plus, both.
        ("0 0 13 * 5", ["2026-11-06", "2026-11-13", "2026-11-20"]),
        ("0 0 13 * +5", ["2026-11-13", "2027-08-13", "2028-10-13"]),
        ("0 0 * * 7", ["2026-11-08", "2026-11-15", "2026-11-22"]),
        ("0 0 * * 0", ["2026-11-08", "2026-11-15", "2026-11-22"]),
        ("0 0 * * sun", ["2026-11-08", "2026-11-15", "2026-11-22"]),
        ("0 0 * * 7L", ["2026-11-29", "2026-12-27", "2027-01-31"]),
        ("0 0 * * SUNL", ["2026-11-29", "2026-12-27", "2027-01-31"]),
        ("0 0 * * MON#2", ["2026-11-09", "2026-12-14", "2027-01-11"]),
        ("0 0 L * *", ["2026-11-30", "2026-12-31", "2027-01-31"]),
        ("0 0 15W * *", ["2026-11-16", "2026-12-15", "2027-01-15"]),
        ("0 0 1 jan-mar ?", ["2027-01-01", "2027-02-01", "2027-03-01"]),
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29"]),
        ("0 0 29 2 +1", ["2044-02-29", "2072-02-29", "2112-02-29"]),
        ("@daily", ["2026-11-02", "2026-11-03", "2026-11-04"]),
        ("@weekly", ["2026-11-08", "2026-11-15", "2026-11-22"]),
        ("@monthly", ["2026-12-01", "2027-01-01", "2027-02-01"]),
        ("@yearly", ["2027-01-01", "2028-01-01", "2029-01-01"]),
    ] {
        let expected = expected.map(|day| format!("{day}T00:00Z"));
        assert_slots(
            "UTC",
            expression,
            "2026-11-01T12:00Z",
            &expected.each_ref().map(|day| &**day),
        );
    }
    assert_slots("UTC", "@hourly", "2026-11-01T12:00Z", &["2026-11-01T13:00Z"]);
}

#[test]
fn a_sixth_field_in_front_is_seconds() {
    let expected = ["2026-11-01T12:00:20Z", "2026-11-01T12:00:40Z", "2026-11-01T12:01:00Z"];
    assert_slots("UTC", "*/20 * * * * *", "2026-11-01T12:00Z", &expected);
    assert_slots("UTC", "15 30 9 * * *", "2026-11-01T12:00Z", &["2026-11-02T09:30:15Z"]);
}

#[test]
fn a_slot_is_later_than_what_it_follows_by_the_millisecond() {
    for expression in ["* * * * * *", "0 12 * * *"] {
        let first = |after| cron(expression, "UTC").upcoming(Time::MIN, after, 1)[0];
        let noon = t("2026-11-01T12:00Z");
        assert_eq!(first(noon.saturating_sub_ms(1)), noon, "{expression}");
        assert_ne!(first(noon), noon, "{expression}");
        assert_eq!(first(noon.checked_add_ms(999).unwrap()), first(noon), "{expression}");
    }
}

#[test]
fn what_is_no_expression_is_refused_with_the_field_at_fault() {
    for (expression, said) in [
        ("", "`` is not a cron expression"),
        ("  ", "is not a cron expression"),
        ("* * * *", "`* * * *` is not a cron expression; write minute, hour"),
        ("0 0 0 * * * 2027", "is not a cron expression"),
        ("@reboot", "`@reboot` is not a cron expression"),
        ("0 0 @daily * *", "`@daily` is no day"),
        ("61 * * * *", "`61` is no minute in cron expression `61 * * * *`; write 0-59"),
        ("61 * * * * *", "`61` is no second"),
        ("* 24 * * *", "`24` is no hour"),
        ("0 0 32 * *", "`32` is no day"),
        ("0 0 0 * *", "`0` is no day"),
        ("0 0 * 13 *", "`13` is no month"),
        ("0 0 * * 8", "`8` is no weekday"),
        ("0 0 * * MON#6", "`MON#6` is no weekday"),
        ("0/5 * * * *", "`0/5` is no minute"),
        ("*/0 * * * *", "`*/0` is no minute"),
        ("-1 * * * *", "`-1` is no minute"),
        ("30-10 * * * *", "`30-10` is no minute"),
        (", * * * *", "`,` is no minute"),
        ("1,,2 * * * *", "`1,,2` is no minute"),
        ("0 0 FRI * *", "`FRI` is no day"),
        ("0 0 * FRI *", "`FRI` is no month"),
        ("0 0 * * JAN", "`JAN` is no weekday"),
        ("0 0 * * Freitag", "`Freitag` is no weekday"),
        ("0 0 30 2 *", "`0 0 30 2 *` never matches"),
        ("0 0 31 2,4,6,9,11 *", "never matches"),
        ("0 0 * * L", "never matches"),
    ] {
        let refused = Repeat::cron(expression, None).expect_err(expression);
        assert_eq!(refused.at_field(), Some("repeat"), "{expression}");
        assert!(refused.message().contains(said), "{expression}: {refused}");
    }
}

#[test]
fn an_expression_has_a_longest() {
    let long = |bytes: usize| format!("{:<bytes$}", "0 0 * * *");
    assert!(Repeat::cron(&long(EXPRESSION_BYTES_MAX), None).is_ok());
    let refused = Repeat::cron(&long(EXPRESSION_BYTES_MAX + 1), None).unwrap_err();
    assert!(refused.message().contains("513 bytes, over the limit of 512"), "{refused}");
}

#[test]
fn what_is_no_zone_is_refused() {
    for zone in
        ["", "Z", "Europe/Berln", "+01:00", "Etc/Unknown", "Local", "localtime", "posixrules"]
    {
        let refused = Repeat::cron("@daily", Some(zone)).expect_err(zone);
        assert_eq!(refused.at_field(), Some("repeat"), "{zone}");
        assert!(refused.message().contains(&format!("`{zone}` is not a time zone")), "{refused}");
    }
}

#[test]
fn a_zone_is_utc_unless_named_and_has_one_spelling() {
    let zone = |zone| match Repeat::cron("@daily", zone).unwrap().rule() {
        Rule::Cron(cron) => cron.zone().to_owned(),
        Rule::Every { .. } => unreachable!("made from an expression"),
    };
    assert_eq!(zone(None), "UTC");
    assert_eq!(zone(Some("europe/berlin")), BERLIN);
}

#[test]
fn crons_are_equal_by_text_and_zone() {
    assert_eq!(cron("@daily", "UTC"), cron("@daily", "utc"));
    assert_ne!(cron("@daily", "UTC"), cron("@daily", BERLIN));
    assert_ne!(cron("@daily", "UTC"), cron("0 0 * * *", "UTC"));
}

#[test]
fn whatever_text_is_taken_has_a_next_slot() {
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let pieces = [
        "*", "/", "-", ",", "#", "?", "+", "L", "W", "0", "1", "7", "31", "65535", "99999", "MON",
        "-SUN", "FEB", "@", "é", "ß",
    ];
    for case in 0..3000 {
        let field = |random: &mut dyn FnMut(usize) -> usize| {
            (0..=random(3)).map(|_| pieces[random(pieces.len())]).collect::<String>()
        };
        let mut fields = ["*"; 5].map(str::to_owned);
        fields[random(5)] = field(&mut random);
        fields[random(5)] = field(&mut random);
        let expression = fields.join(" ");
        if let Ok(repeat) = Repeat::cron(&expression, None) {
            let told = slots(&repeat, "2026-11-01T12:00Z", 1);
            assert_eq!(told.len(), 1, "case {case}: `{expression}` was taken and never fires");
        }
    }
}

#[test]
fn an_interval_is_one_millisecond_to_a_hundred_years() {
    for good in [Duration::from_millis(1), Duration::from_micros(1), EVERY_MAX] {
        assert!(Repeat::every(good).is_ok(), "{good:?}");
    }
    for (bad, said) in
        [(Duration::ZERO, "`0s`"), (EVERY_MAX + DAY, "`36501d`"), (Duration::MAX, "36500d")]
    {
        let refused = Repeat::every(bad).expect_err("out of range");
        assert_eq!(refused.at_field(), Some("repeat"));
        assert!(refused.message().contains(said), "{refused}");
    }
    assert_eq!(Repeat::every(Duration::from_micros(1)), Repeat::every(Duration::from_millis(1)));
}

#[test]
fn a_repeat_says_what_it_was_told() {
    let repeat = Repeat::every(HOUR).unwrap();
    assert_eq!(repeat.rule(), &Rule::Every { every_ms: 3_600_000 });
    assert_eq!((repeat.ends_at(), repeat.count_max()), (None, None));
    assert_eq!((repeat.when_missed(), repeat.when_dead()), (Misfire::Once, OnDead::GoOn));
    let count = NonZeroU32::MIN;
    let told = repeat.until(Time::MAX).count(count).misfire(all(3)).unwrap().on_dead(OnDead::Stop);
    assert_eq!((told.ends_at(), told.count_max()), (Some(Time::MAX), Some(count)));
    assert_eq!((told.when_missed(), told.when_dead()), (all(3), OnDead::Stop));
}

#[test]
fn more_than_the_limit_cannot_be_made_up_for() {
    let repeat = Repeat::every(HOUR).unwrap();
    assert!(repeat.clone().misfire(all(CATCH_UP_MAX)).is_ok());
    let refused = repeat.misfire(all(CATCH_UP_MAX + 1)).unwrap_err();
    assert_eq!(refused.at_field(), Some("repeat"));
    assert!(refused.message().contains("`1001` is over the limit of 1000"), "{refused}");
}

#[test]
fn the_first_due_is_asked_for_or_one_interval_from_now_or_the_next_match() {
    let noon = t("2026-11-01T12:00Z");
    let asked = t("2026-11-01T12:34:56.789Z");
    for (repeat, expected) in [
        (Repeat::every(HOUR).unwrap(), "2026-11-01T13:00Z"),
        (cron("30 9 * * *", "UTC"), "2026-11-02T09:30Z"),
        (cron("0 12 * * *", "UTC"), "2026-11-02T12:00Z"),
    ] {
        assert_eq!(repeat.first(None, now(noon)), Some(t(expected)));
        assert_eq!(repeat.first(Some(asked), now(noon)), Some(asked));
        assert_eq!(repeat.first(Some(Time::MIN), now(noon)), Some(Time::MIN));
    }
    // A part of a millisecond is rounded up, so that nothing is early.
    let odd = Now { wall_us: noon.as_ms() * 1000 + 1, tick: Tick::default() };
    let expected = t("2026-11-01T13:00:00.001Z");
    assert_eq!(Repeat::every(HOUR).unwrap().first(None, odd), Some(expected));
}

#[test]
fn a_first_due_after_the_end_is_none() {
    let noon = t("2026-11-01T12:00Z");
    let end = t("2026-11-01T13:00Z");
    let late = end.checked_add_ms(1);
    let every = |every| Repeat::every(every).unwrap().until(end);
    assert_eq!(every(HOUR).first(None, now(noon)), Some(end));
    assert_eq!(every(HOUR + MINUTE).first(None, now(noon)), None);
    assert_eq!(every(MINUTE).first(late, now(noon)), None);
    assert_eq!(cron("0 13 * * *", "UTC").until(end).first(None, now(noon)), Some(end));
    assert_eq!(cron("1 13 * * *", "UTC").until(end).first(None, now(noon)), None);
}

/// Hourly by interval and by expression: the same slots, so the same answers.
fn hourly() -> [Repeat; 2] {
    [Repeat::every(HOUR).unwrap(), cron("0 * * * *", "UTC")]
}

#[test]
fn missed_slots_are_skipped_or_made_up_for() {
    let base = "09:00";
    // Misfire, served, now -> slot, due.
    for (misfire, served, now, slot, due) in [
        // Nothing was missed.
        (Misfire::Skip, "10:00", "10:59:59.999", "11:00", "11:00"),
        (Misfire::Once, "10:00", "10:00:05", "11:00", "11:00"),
        (all(3), "10:00", "10:00", "11:00", "11:00"),
        (Misfire::Once, "10:00", "08:00", "11:00", "11:00"),
        // Nothing was served yet.
        (Misfire::Once, "08:30", "08:45", "09:00", "09:00"),
        (all(3), "08:30", "10:10", "09:00", "09:00"),
        // A slot that is due this very millisecond has come.
        (Misfire::Skip, "10:00", "11:00", "12:00", "12:00"),
        (Misfire::Once, "10:00", "11:00", "11:00", "11:00"),
        (all(1), "10:00", "11:00", "11:00", "11:00"),
        // 11, 12, 13 and 14 o'clock were missed.
        (Misfire::Skip, "10:00", "14:10:00.001", "15:00", "15:00"),
        (Misfire::Once, "10:00", "14:10:00.001", "14:10:00.001", "11:00"),
        (all(1), "10:00", "14:10:00.001", "14:00", "14:00"),
        (all(2), "10:00", "14:10:00.001", "13:00", "13:00"),
        (all(3), "10:00", "14:10:00.001", "12:00", "12:00"),
        (all(4), "10:00", "14:10:00.001", "11:00", "11:00"),
        (all(1000), "10:00", "14:10:00.001", "11:00", "11:00"),
        // After one that stood for several, the grid goes on.
        (Misfire::Once, "14:10:00.001", "14:20", "15:00", "15:00"),
    ] {
        let at = |clock: &str| t(&format!("2026-11-01T{clock}Z"));
        for repeat in hourly() {
            let told = repeat.misfire(misfire).unwrap();
            let next = told.next(at(base), at(served), at(now));
            let expected = Some(Slot { slot: at(slot), due: at(due) });
            assert_eq!(next, expected, "{told:?} served {served} now {now}");
        }
    }
}

#[test]
fn all_is_made_up_for_one_after_the_other_and_then_the_grid_goes_on() {
    let (base, now) = (t("2026-11-01T09:00Z"), t("2026-11-01T14:10Z"));
    for repeat in hourly() {
        let repeat = repeat.misfire(all(3)).unwrap();
        let next = |slot: &Time| repeat.next(base, *slot, now).map(|next| next.slot);
        let served: Vec<Time> = std::iter::successors(next(&base), next).take(4).collect();
        let hours = ["12", "13", "14", "15"].map(|hour| t(&format!("2026-11-01T{hour}:00Z")));
        assert_eq!(served, hours);
    }
}

#[test]
fn a_schedule_ends_at_until() {
    let base = "09:00";
    let until = "12:00";
    for (misfire, served, now, slot) in [
        (Misfire::Once, "11:00", "11:10", Some("12:00")),
        (Misfire::Once, "12:00", "12:10", None),
        (all(2), "12:00", "12:10", None),
        // A missed one is made up for after the end; what came later was never due.
        (Misfire::Skip, "09:00", "13:10", None),
        (Misfire::Once, "09:00", "13:10", Some("13:10")),
        (Misfire::Once, "13:10", "13:20", None),
        (all(1), "09:00", "15:10", Some("12:00")),
        (all(2), "09:00", "15:10", Some("11:00")),
        (all(9), "09:00", "15:10", Some("10:00")),
    ] {
        let at = |clock: &str| t(&format!("2026-11-01T{clock}Z"));
        for repeat in hourly() {
            let told = repeat.until(at(until)).misfire(misfire).unwrap();
            let next = told.next(at(base), at(served), at(now)).map(|next| next.slot);
            assert_eq!(next, slot.map(at), "{told:?} served {served} now {now}");
        }
    }
}

#[test]
fn a_base_off_the_grid_is_a_slot_of_its_own() {
    let base = t("2026-11-01T09:17:00.005Z");
    let before = t("2026-11-01T08:00Z");
    let [every, cron] = hourly();
    let expected =
        ["2026-11-01T09:17:00.005Z", "2026-11-01T10:17:00.005Z", "2026-11-01T11:17:00.005Z"];
    assert_eq!(every.upcoming(base, before, 3), times(&expected));
    let expected = ["2026-11-01T09:17:00.005Z", "2026-11-01T10:00Z", "2026-11-01T11:00Z"];
    assert_eq!(cron.upcoming(base, before, 3), times(&expected));

    let late = t("2026-11-01T11:30Z");
    for (n, expected) in
        [(1, "11:00:00"), (2, "10:00:00"), (3, "09:17:00.005"), (4, "09:17:00.005")]
    {
        let told = cron.clone().misfire(all(n)).unwrap().next(base, before, late).unwrap();
        assert_eq!(told.slot, t(&format!("2026-11-01T{expected}Z")), "all {n}");
    }
}

#[test]
fn upcoming_is_bounded_and_ends_at_until() {
    let base = t("2026-11-01T09:00Z");
    for repeat in hourly() {
        assert_eq!(repeat.upcoming(base, base, 0), []);
        assert_eq!(repeat.upcoming(base, base, usize::MAX).len(), UPCOMING_MAX);
        let ended = repeat.until(t("2026-11-01T11:30Z"));
        assert_eq!(
            ended.upcoming(base, base, 10),
            times(&["2026-11-01T10:00Z", "2026-11-01T11:00Z"])
        );
    }
}

#[test]
fn a_schedule_ends_with_the_calendar() {
    let every = Repeat::every(EVERY_MAX).unwrap();
    let cron = cron("* * * * * *", "Pacific/Kiritimati");
    for misfire in [Misfire::Skip, Misfire::Once, all(1000)] {
        for repeat in [&every, &cron] {
            let repeat = repeat.clone().misfire(misfire).unwrap();
            assert!(repeat.next(Time::MAX, Time::MAX, Time::MAX).is_none());
            assert!(repeat.first(None, now(Time::MAX)).is_none());
            // The clock may be anything; an answer is all that is asked.
            repeat.next(Time::MIN, Time::MIN, Time::MAX);
        }
    }
}

const ZONES: [&str; 8] =
    ["UTC", BERLIN, BEIRUT, CAIRO, LORD_HOWE, "America/Havana", "America/Nuuk", "Antarctica/Troll"];

#[test]
fn half_hours_come_every_half_hour_all_year_in_every_zone() {
    let year = t("2026-01-01T00:00Z");
    for zone in ZONES {
        let repeat = cron("*/30 * * * *", zone);
        let mut slot = year;
        for half_hour in 1..=17_520 {
            slot = repeat.next(year, slot, slot).expect("no end was set").slot;
            let expected = year.checked_add_ms(half_hour * duration_ms(30 * MINUTE));
            assert_eq!(Some(slot), expected, "{zone}");
        }
    }
}

#[test]
fn a_named_time_comes_about_once_a_day_all_year_in_every_zone() {
    let new_year = t("2026-01-01T12:00Z");
    // No clock in these zones is changed by more than two hours.
    let day = duration_ms(22 * HOUR)..=duration_ms(26 * HOUR);
    for zone in ZONES {
        for expression in ["0 0 * * *", "45 1 * * *", "30 2 * * *", "30 23 * * *"] {
            let told = cron(expression, zone).upcoming(Time::MIN, new_year, 365);
            for two in told.windows(2) {
                let apart = two[1].ms_since(two[0]);
                assert!(day.contains(&apart), "`{expression}` in {zone}: {two:?}");
            }
        }
    }
}

/// The hours around each change of the clocks in 2026.
fn changes(zone: &str) -> Vec<(Time, Time)> {
    let (year, end) = ("2026-01-01T00:00Z".parse().unwrap(), t("2027-01-01T00:00Z"));
    let side = duration_ms(26 * HOUR);
    let zone = TimeZone::get(zone).unwrap();
    let changes = zone.following(year).map_while(|change| time(change.timestamp()));
    changes
        .take_while(|change| *change < end)
        .map(|change| (change.saturating_sub_ms(side), change.saturating_add_ms(side)))
        .collect()
}

const EXPRESSIONS: [&str; 9] = [
    "*/30 * * * *",
    "*/20 0-3 * * *",
    "10 */2 * * *",
    "0 0 * * *",
    "30 2 * * *",
    "45 1 * * *",
    "30 23 * * *",
    "15,45 2 * * *",
    "0 0-23 * * 0",
];

/// What the definition says, minute by minute, with no search.
fn by_watching_the_wall(cron: &Cron, from: Time, to: Time) -> Vec<Time> {
    let wall = |at: Time| cron.zoned(at).unwrap().datetime();
    let matches = |wall: DateTime| cron.0.cron.is_time_matching(&wall).unwrap();
    let minute = duration_ms(MINUTE);
    let mut furthest = wall(from);
    let mut slots = Vec::new();
    for at in (1..=to.ms_since(from) / minute).map(|k| from.saturating_add_ms(k * minute)) {
        let passed = furthest
            .series(jiff::Span::new().minutes(1))
            .skip(1)
            .take_while(|shown| *shown <= wall(at));
        let named = passed.into_iter().any(matches);
        furthest = furthest.max(wall(at));
        if if cron.names_times() { named } else { matches(wall(at)) } {
            slots.push(at);
        }
    }
    slots
}

/// Every zone, change of its clocks and expression, with the slots around that change.
fn around_changes(mut check: impl FnMut(&Repeat, &[Time], Time, Time)) {
    for zone in ZONES {
        for (from, to) in changes(zone) {
            for expression in EXPRESSIONS {
                let repeat = cron(expression, zone);
                let Rule::Cron(cron) = repeat.rule() else {
                    unreachable!("made from an expression")
                };
                check(&repeat, &by_watching_the_wall(cron, from, to), from, to);
            }
        }
    }
}

#[test]
fn slots_are_found_from_anywhere_around_a_change_of_clocks() {
    around_changes(|repeat, slots, from, to| {
        let step = duration_ms(17 * MINUTE) + 1;
        for at in (0..to.ms_since(from) / step).map(|k| from.saturating_add_ms(k * step)) {
            let expected = slots.iter().find(|slot| **slot > at);
            let told = repeat.upcoming(Time::MIN, at, 1)[0];
            assert!(
                expected.is_none_or(|slot| *slot == told),
                "{repeat:?} after {at}: {told}, not {expected:?}"
            );
        }
    });
}

#[test]
fn the_latest_missed_ones_are_those_that_counting_finds() {
    around_changes(|repeat, slots, from, to| {
        let step = duration_ms(43 * MINUTE) + 1;
        let between = (1..to.ms_since(from) / step).map(|k| from.saturating_add_ms(k * step));
        for now in between.chain(slots.iter().copied()) {
            let missed = slots.iter().filter(|slot| **slot <= now);
            let missed: Vec<Time> = missed.copied().collect();
            for n in [1, 2, 5] {
                let Some(expected) = missed.iter().rev().take(n as usize).next_back() else {
                    continue;
                };
                let repeat = repeat.clone().misfire(all(n)).unwrap();
                let told = repeat.next(from, from, now).unwrap().slot;
                assert_eq!(told, *expected, "{repeat:?} from {from} now {now}");
            }
        }
    });
}

#[test]
fn a_year_of_missed_seconds_is_not_walked() {
    let (base, now) = (t("2026-01-01T00:00Z"), t("2027-01-01T00:00:00.500Z"));
    // Every second, and every second of a month that is long past.
    for (expression, last) in
        [("* * * * * *", "2027-01-01T00:00Z"), ("* * * * 3 *", "2026-03-31T23:59:59Z")]
    {
        let next = |misfire| {
            let repeat = cron(expression, "UTC").misfire(misfire).unwrap();
            repeat.next(base, base, now).unwrap().slot
        };
        assert_eq!(next(all(1)), t(last), "{expression}");
        assert_eq!(next(all(1000)), t(last).saturating_sub_ms(999_000), "{expression}");
        assert_eq!(next(Misfire::Once), now, "{expression}");
        assert!(next(Misfire::Skip) > now, "{expression}");
    }
}
