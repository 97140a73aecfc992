//! Jobs that run again and again, by an interval or by cron.

use std::num::NonZeroU32;
use std::time::Duration;

use super::trial::{RELEASE, handed};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::history::What;
use crate::job::{Job, Patch, When};
use crate::machine::{Reach, Stage, TTR_RAN_OUT};
use crate::queue::{Action, JobInfo, Queue, Standing, Verdict};
use crate::retry::Retry;
use crate::schedule::{Misfire, OnDead, Repeat};
use crate::time::{DAY, HOUR, MINUTE, SECOND, Time};

const MS: Duration = Duration::from_millis(1);

fn every(every: Duration) -> Repeat {
    Repeat::every(every).expect("a case writes repeats rightly")
}

fn times(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("a case counts from one")
}

fn all(n: u32) -> Misfire {
    Misfire::All(times(n))
}

fn missed(misfire: Misfire) -> Repeat {
    every(10 * MINUTE).misfire(misfire).expect("a case writes repeats rightly")
}

/// Adds job `1` to `orders` with this repeat.
async fn add<S: Subject>(t: &Trial<S>, repeat: Repeat) -> JobInfo {
    t.add(Job::new("orders", "x").id("1").ttr(HOUR).retry(Retry::none()).repeat(repeat)).await
}

/// Pops the occurrence that is ready and finishes it; answers the job if it goes on.
async fn serve<S: Subject>(t: &Trial<S>) -> Option<Standing> {
    let delivery = t.popped("orders").await;
    t.finish(&delivery).await.job
}

/// Serves the occurrence that is ready, and answers when the next is due, as time from `start`.
async fn next_due<S: Subject>(t: &Trial<S>, start: Time) -> Duration {
    let next = serve(t).await.expect("it goes on");
    Duration::from_millis(next.due.ms_since(start))
}

suite! {
    async fn a_job_that_repeats_waits_again_for_its_next_slot_when_finished(t) {
        let added = add(&t, every(10 * MINUTE)).await;
        assert_eq!((added.stage, added.due), (Stage::Delayed, t.after(10 * MINUTE)));
        for occurrence in 1..=3 {
            t.pass(10 * MINUTE - MS).await;
            assert!(t.pop("orders").await.is_none());
            t.pass(MS).await;
            let next = serve(&t).await.unwrap();
            assert_eq!((next.stage, next.due), (Stage::Delayed, t.after(10 * MINUTE)));
            assert_eq!((next.occurrence, next.number), (occurrence, added.number));
        }
    }

    async fn the_next_slot_counts_from_the_schedule_never_from_now(t) {
        let start = t.now();
        add(&t, every(10 * MINUTE)).await;
        t.pass(13 * MINUTE).await;
        let delivery = t.popped("orders").await;
        t.pass(5 * MINUTE).await;
        let next = t.finish(&delivery).await.job.unwrap();
        assert_eq!(next.due.ms_since(start), 20 * 60_000);
    }

    async fn slots_count_from_the_first_due_time_the_caller_gave(t) {
        let start = t.now();
        let job = Job::new("orders", "x").repeat(every(HOUR));
        t.add(job.clone().id("delay").delay(7 * MINUTE)).await;
        t.add(job.id("at").at(t.after(7 * MINUTE))).await;
        t.pass(7 * MINUTE).await;
        for delivery in t.pop_up_to("orders", 2).await {
            let next = t.finish(&delivery).await.job.unwrap();
            assert_eq!(next.due.ms_since(start), 67 * 60_000);
        }
    }

    async fn cron_runs_when_the_wall_clock_of_its_zone_says_so(t) {
        // 01:00 in UTC; the clock starts at midnight.
        let start = t.now();
        let added = add(&t, Repeat::cron("0 9 * * *", Some("Asia/Shanghai")).unwrap()).await;
        assert_eq!(added.due, t.after(HOUR));
        t.pass(3 * HOUR).await;
        assert_eq!(next_due(&t, start).await, DAY + HOUR);
        t.pass(22 * HOUR).await;
        assert_eq!(next_due(&t, start).await, 2 * DAY + HOUR);
    }

    async fn cron_with_a_first_due_time_runs_then_and_at_its_matches(t) {
        let start = t.now();
        let job = Job::new("orders", "x").id("1").delay(90 * SECOND);
        t.add(job.repeat(Repeat::cron("*/5 * * * *", None).unwrap())).await;
        t.pass(90 * SECOND).await;
        assert_eq!(next_due(&t, start).await, 5 * MINUTE);
        t.pass(4 * MINUTE).await;
        assert_eq!(next_due(&t, start).await, 10 * MINUTE);
    }

    async fn count_ends_it_after_so_many_occurrences(t) {
        add(&t, every(MINUTE).count(times(3))).await;
        for goes_on in [true, true, false] {
            t.pass(MINUTE).await;
            assert_eq!(serve(&t).await.is_some(), goes_on);
        }
        assert_eq!(t.stage("orders", "1").await, None);
    }

    async fn until_is_the_last_moment_at_which_it_may_be_due(t) {
        add(&t, every(MINUTE).until(t.after(2 * MINUTE))).await;
        t.pass(MINUTE).await;
        assert_eq!(serve(&t).await.unwrap().due, t.after(MINUTE));
        t.pass(MINUTE).await;
        assert_eq!(serve(&t).await, None);
        assert_eq!(t.stage("orders", "1").await, None);
    }

    async fn by_default_all_missed_slots_are_made_up_for_by_one_at_once(t) {
        let start = t.now();
        add(&t, every(10 * MINUTE)).await;
        t.pass(45 * MINUTE).await;
        let next = serve(&t).await.unwrap();
        assert_eq!((next.stage, next.due.ms_since(start)), (Stage::Ready, 20 * 60_000));
        assert_eq!(next_due(&t, start).await, 50 * MINUTE);
    }

    async fn skip_leaves_missed_slots_and_takes_the_first_to_come(t) {
        let start = t.now();
        add(&t, missed(Misfire::Skip)).await;
        t.pass(45 * MINUTE).await;
        assert_eq!(next_due(&t, start).await, 50 * MINUTE);
        assert!(t.pop("orders").await.is_none());
    }

    async fn all_runs_the_latest_missed_slots_one_after_the_other(t) {
        for (n, expected) in [(2, vec![30, 40, 50]), (9, vec![20, 30, 40, 50])] {
            let start = t.now();
            add(&t, missed(all(n))).await;
            t.pass(45 * MINUTE).await;
            let mut due = Vec::new();
            while due.len() < 10 && t.stage("orders", "1").await == Some(Stage::Ready) {
                due.push(next_due(&t, start).await.as_secs() / 60);
            }
            assert_eq!(due, expected, "all {n}");
            t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        }
    }

    async fn all_makes_up_for_missed_matches_of_cron_too(t) {
        let start = t.now();
        let cron = Repeat::cron("*/10 * * * *", None).unwrap();
        add(&t, cron.misfire(all(2)).unwrap()).await;
        t.pass(45 * MINUTE).await;
        for expected in [30, 40, 50] {
            assert_eq!(next_due(&t, start).await, expected * MINUTE);
        }
    }

    async fn slots_after_the_end_are_not_made_up_for(t) {
        for misfire in [Misfire::Once, Misfire::Skip, all(9), all(1)] {
            let start = t.now();
            add(&t, missed(misfire).until(t.after(25 * MINUTE))).await;
            t.pass(HOUR).await;
            if misfire != Misfire::Skip {
                assert_eq!(next_due(&t, start).await, 20 * MINUTE, "{misfire:?}");
            }
            assert_eq!(serve(&t).await, None, "{misfire:?}");
        }
    }

    async fn what_is_made_up_for_counts_as_an_occurrence(t) {
        add(&t, missed(all(9)).count(times(2))).await;
        t.pass(HOUR).await;
        assert!(serve(&t).await.is_some());
        assert_eq!(serve(&t).await, None);
    }

    async fn there_is_one_occurrence_at_a_time(t) {
        add(&t, every(MINUTE)).await;
        t.pass(MINUTE).await;
        let delivery = t.popped("orders").await;
        t.pass(10 * MINUTE).await;
        assert!(t.pop("orders").await.is_none());
        assert_eq!(t.counts("orders").await.total(), 1);
        t.finish(&delivery).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 1);
    }

    async fn the_lease_of_an_occurrence_is_no_good_for_the_next(t) {
        add(&t, every(MINUTE)).await;
        t.pass(MINUTE).await;
        let first = t.popped("orders").await;
        t.finish(&first).await;
        let refused = t.settle(&first, Verdict::Finish).await.unwrap_err();
        assert_eq!(refused.code(), Code::LeaseLost);
        t.pass(MINUTE).await;
        let second = t.popped("orders").await;
        let refused = t.settle(&first, Verdict::Finish).await.unwrap_err();
        assert_eq!(refused.code(), Code::LeaseLost);
        assert!(t.finish(&second).await.changed);
    }

    async fn each_occurrence_has_attempts_of_its_own(t) {
        let retry = Retry::ladder(&[SECOND, MINUTE]).unwrap();
        t.add(Job::new("orders", "x").id("1").retry(retry).repeat(every(HOUR))).await;
        for wait in [HOUR, HOUR - SECOND] {
            t.pass(wait).await;
            let delivery = t.popped("orders").await;
            assert_eq!(delivery.job.attempt, 1);
            assert_eq!(t.fail(&delivery, "no").await.job.unwrap().due, t.after(SECOND));
            t.pass(SECOND).await;
            assert_eq!(serve(&t).await.unwrap().attempt, 0);
        }
    }

    async fn a_ladder_from_due_counts_from_each_occurrences_own_due_time(t) {
        let retry = Retry::ladder(&[MINUTE]).unwrap().from_due();
        t.add(Job::new("orders", "x").id("1").retry(retry).repeat(every(HOUR))).await;
        t.pass(HOUR).await;
        let due = serve(&t).await.unwrap().due;
        t.pass(HOUR + SECOND).await;
        let delivery = t.popped("orders").await;
        let job = t.fail(&delivery, "no").await.job.unwrap();
        assert_eq!(job.due.ms_since(due), 60_000);
    }

    async fn a_release_does_not_end_the_occurrence(t) {
        let due = add(&t, every(10 * MINUTE)).await.due;
        t.pass(10 * MINUTE).await;
        let delivery = t.popped("orders").await;
        let job = t.settle(&delivery, RELEASE).await.unwrap().job.unwrap();
        assert_eq!((job.stage, job.due, job.occurrence), (Stage::Ready, due, 0));
        assert_eq!(serve(&t).await.unwrap().due, t.after(10 * MINUTE));
    }

    async fn an_occurrence_that_dies_leaves_its_error_and_the_job_goes_on(t) {
        add(&t, every(10 * MINUTE)).await;
        t.pass(10 * MINUTE).await;
        let delivery = t.popped("orders").await;
        let job = t.fail(&delivery, "no").await.job.unwrap();
        assert_eq!((job.stage, job.due), (Stage::Delayed, t.after(10 * MINUTE)));
        assert_eq!((job.attempt, job.occurrence), (0, 1));
        let mut job = t.get("orders", "1").await;
        assert_eq!((job.tally.deaths, job.last_error.as_deref()), (1, Some("no")));
        let entry = job.history.pop().unwrap();
        assert_eq!((entry.what, entry.error.as_deref()), (What::Died, Some("no")));
        assert_eq!(entry.attempt, 1);
        assert_eq!(t.queue.stats().await.unwrap().died, 1);
        assert_eq!(t.counts("orders").await.dead, 0);
    }

    async fn an_occurrence_whose_last_lease_runs_out_goes_on_too(t) {
        let start = t.now();
        add(&t, every(10 * MINUTE)).await;
        t.pass(10 * MINUTE).await;
        t.popped("orders").await;
        t.pass(HOUR).await;
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.due.ms_since(start)), (Stage::Ready, 20 * 60_000));
        assert_eq!(job.last_error.as_deref(), Some(TTR_RAN_OUT));
    }

    async fn with_on_dead_stop_the_job_is_shelved(t) {
        add(&t, every(10 * MINUTE).on_dead(OnDead::Stop)).await;
        t.pass(10 * MINUTE).await;
        let delivery = t.popped("orders").await;
        assert_eq!(t.fail(&delivery, "no").await.job.unwrap().stage, Stage::Dead);
        t.pass(HOUR).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Dead));
        assert!(t.pop("orders").await.is_none());
    }

    async fn a_stopped_job_goes_on_with_its_slots_when_redriven(t) {
        let start = t.now();
        add(&t, missed(Misfire::Skip).on_dead(OnDead::Stop)).await;
        t.pass(10 * MINUTE).await;
        let delivery = t.popped("orders").await;
        t.fail(&delivery, "no").await;
        t.pass(15 * MINUTE).await;
        let job = t.change("orders", "1", Action::Redrive).await.unwrap().job.unwrap();
        assert_eq!((job.stage, job.attempt, job.due), (Stage::Ready, 0, t.now()));
        assert_eq!(next_due(&t, start).await, 30 * MINUTE);
    }

    async fn the_last_occurrence_is_retained_when_it_finishes_and_none_before(t) {
        let job = Job::new("orders", "x").id("1").retain(HOUR);
        t.add(job.repeat(every(MINUTE).count(times(2)))).await;
        t.pass(MINUTE).await;
        assert_eq!(serve(&t).await.unwrap().stage, Stage::Delayed);
        t.pass(MINUTE).await;
        assert_eq!(serve(&t).await.unwrap().stage, Stage::Finished);
        t.pass(HOUR).await;
        assert_eq!(t.stage("orders", "1").await, None);
    }

    async fn the_last_occurrence_is_dead_when_it_dies(t) {
        let by_count = every(MINUTE).count(times(1));
        for repeat in [by_count, every(MINUTE).until(t.after(2 * MINUTE))] {
            add(&t, repeat).await;
            t.pass(MINUTE).await;
            let delivery = t.popped("orders").await;
            t.fail(&delivery, "no").await;
            let job = t.get("orders", "1").await;
            assert_eq!((job.stage, job.last_error.as_deref()), (Stage::Dead, Some("no")));
            t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        }
    }

    async fn run_fires_one_now_and_leaves_the_slots_alone(t) {
        let start = t.now();
        add(&t, every(10 * MINUTE)).await;
        for passed in [3, 4] {
            t.pass(passed * MINUTE).await;
            let job = t.change("orders", "1", Action::Run).await.unwrap().job.unwrap();
            assert_eq!((job.stage, job.due), (Stage::Ready, t.now()));
            assert_eq!(next_due(&t, start).await, 10 * MINUTE);
        }
        t.pass(3 * MINUTE).await;
        assert_eq!(next_due(&t, start).await, 20 * MINUTE);
        t.pass(MINUTE).await;
        t.change("orders", "1", Action::Run).await.unwrap();
        assert_eq!(next_due(&t, start).await, 20 * MINUTE);
    }

    async fn run_leaves_the_matches_of_cron_alone(t) {
        let start = t.now();
        add(&t, Repeat::cron("*/10 * * * *", None).unwrap()).await;
        t.pass(3 * MINUTE).await;
        t.change("orders", "1", Action::Run).await.unwrap();
        assert_eq!(next_due(&t, start).await, 10 * MINUTE);
        t.pass(7 * MINUTE).await;
        assert_eq!(next_due(&t, start).await, 20 * MINUTE);
    }

    async fn run_of_an_occurrence_in_retry_serves_the_slot_it_failed_for(t) {
        let retry = Retry::ladder(&[5 * MINUTE]).unwrap();
        t.add(Job::new("orders", "x").id("1").retry(retry).repeat(every(10 * MINUTE))).await;
        t.pass(10 * MINUTE).await;
        let delivery = t.popped("orders").await;
        t.fail(&delivery, "no").await;
        t.change("orders", "1", Action::Run).await.unwrap();
        assert_eq!(serve(&t).await.unwrap().due, t.after(10 * MINUTE));
    }

    async fn an_occurrence_that_was_run_by_hand_is_counted(t) {
        add(&t, every(MINUTE).count(times(2))).await;
        t.change("orders", "1", Action::Run).await.unwrap();
        assert_eq!(serve(&t).await.unwrap().occurrence, 1);
        t.pass(MINUTE).await;
        assert_eq!(serve(&t).await, None);
    }

    async fn a_new_due_time_moves_this_occurrence_only(t) {
        let start = t.now();
        add(&t, every(10 * MINUTE)).await;
        for (delay, next) in [(4, 20), (12, 30)] {
            let when = Some(When::In(delay * MINUTE));
            let patch = Patch { when, ..Patch::default() };
            let job = t.change("orders", "1", Action::Update(patch)).await.unwrap().job.unwrap();
            assert_eq!(job.due, t.after(delay * MINUTE));
            t.pass(delay * MINUTE).await;
            assert_eq!(next_due(&t, start).await, next * MINUTE);
            t.pass(6 * MINUTE).await;
        }
    }

    async fn an_occurrence_put_off_past_later_slots_stands_for_them(t) {
        let start = t.now();
        add(&t, every(10 * MINUTE)).await;
        let patch = Patch { when: Some(When::In(35 * MINUTE)), ..Patch::default() };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        t.pass(35 * MINUTE).await;
        assert_eq!(next_due(&t, start).await, 40 * MINUTE);
    }

    async fn a_new_body_is_for_all_occurrences_to_come(t) {
        add(&t, every(MINUTE)).await;
        let patch = Patch { body: Some("y".into()), ..Patch::default() };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        for _ in 0..2 {
            t.pass(MINUTE).await;
            let delivery = t.popped("orders").await;
            assert_eq!(delivery.body().as_str(), Some("y"));
            t.finish(&delivery).await;
        }
    }

    async fn between_occurrences_there_is_nothing_to_finish_by_id(t) {
        add(&t, every(MINUTE)).await;
        t.pass(MINUTE).await;
        let next = serve(&t).await.unwrap();
        for _ in 0..2 {
            let refused = t.settle_id("orders", "1", Verdict::Finish).await.unwrap_err();
            assert_eq!(refused.code(), Code::WrongState);
            assert_eq!(t.get("orders", "1").await.due, next.due);
            t.pass(MINUTE).await;
        }
    }

    async fn an_occurrence_that_was_handed_out_is_finished_by_id(t) {
        add(&t, every(10 * MINUTE)).await;
        t.pass(10 * MINUTE).await;
        let delivery = t.popped("orders").await;
        t.settle(&delivery, RELEASE).await.unwrap();
        let next = t.settle_id("orders", "1", Verdict::Finish).await.unwrap().job.unwrap();
        assert_eq!((next.stage, next.due), (Stage::Delayed, t.after(10 * MINUTE)));
    }

    async fn a_cancel_ends_all_occurrences(t) {
        add(&t, every(MINUTE)).await;
        t.pass(MINUTE).await;
        let delivery = t.popped("orders").await;
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        let refused = t.settle(&delivery, Verdict::Finish).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        t.pass(HOUR).await;
        assert!(t.pop("orders").await.is_none());
    }

    async fn a_held_job_lets_its_slots_pass(t) {
        let start = t.now();
        add(&t, missed(Misfire::Skip)).await;
        t.change("orders", "1", Action::Hold).await.unwrap();
        t.pass(45 * MINUTE).await;
        assert!(t.pop("orders").await.is_none());
        t.change("orders", "1", Action::Unhold).await.unwrap();
        assert_eq!(next_due(&t, start).await, 50 * MINUTE);
    }

    async fn a_held_occurrence_that_is_run_after_its_slot_serves_that_slot(t) {
        let start = t.now();
        add(&t, missed(all(9))).await;
        t.change("orders", "1", Action::Hold).await.unwrap();
        t.pass(15 * MINUTE).await;
        t.change("orders", "1", Action::Run).await.unwrap();
        assert_eq!(next_due(&t, start).await, 20 * MINUTE);
    }

    async fn a_repeat_that_would_never_run_is_refused(t) {
        let ended = every(HOUR).until(t.after(MINUTE));
        for job in [
            Job::new("orders", "x").repeat(ended.clone()),
            Job::new("orders", "x").repeat(ended.clone()).delay(MINUTE + MS),
            Job::new("orders", "x").repeat(ended.clone()).at(t.after(HOUR)),
            Job::new("orders", "x").repeat(Repeat::cron("0 9 * * *", None).unwrap().until(t.now())),
        ] {
            let refused = t.try_add(job).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("repeat")));
        }
        assert!(t.topic("orders").await.is_none());
        t.add(Job::new("orders", "x").repeat(ended).delay(MINUTE)).await;
    }

    async fn the_next_times_of_a_job_can_be_asked_for(t) {
        let start = t.now();
        let due = |ms: Duration| start.saturating_add_ms(ms.as_millis() as u64);
        let job = add(&t, every(HOUR).count(times(3))).await;
        assert_eq!(job.upcoming(start, 5), [due(HOUR), due(2 * HOUR), due(3 * HOUR)]);
        assert_eq!(job.upcoming(start, 1), [due(HOUR)]);
        t.pass(HOUR).await;
        let reserved = t.popped("orders").await.job;
        assert_eq!(reserved.upcoming(t.now(), 5), [due(2 * HOUR), due(3 * HOUR)]);
        let once = t.add(Job::new("other", "x").delay(MINUTE)).await;
        assert_eq!(once.upcoming(t.now(), 5), [due(HOUR + MINUTE)]);
    }

    async fn times_that_have_passed_are_not_told_nor_any_of_a_job_that_is_over(t) {
        let start = t.now();
        let due = |ms: Duration| start.saturating_add_ms(ms.as_millis() as u64);
        add(&t, every(HOUR).on_dead(OnDead::Stop)).await;
        t.change("orders", "1", Action::Hold).await.unwrap();
        t.pass(2 * HOUR + MINUTE).await;
        let held = t.get("orders", "1").await;
        assert_eq!(held.upcoming(t.now(), 3), [due(HOUR), due(3 * HOUR), due(4 * HOUR)]);
        t.change("orders", "1", Action::Unhold).await.unwrap();
        let ready = t.get("orders", "1").await;
        assert_eq!(ready.upcoming(t.now(), 2), [due(3 * HOUR), due(4 * HOUR)]);
        let delivery = t.popped("orders").await;
        t.fail(&delivery, "no").await;
        assert_eq!(t.get("orders", "1").await.upcoming(t.now(), 5), []);
    }

    async fn the_next_occurrence_goes_to_who_waits(t) {
        add(&t, every(MINUTE)).await;
        t.pass(2 * MINUTE).await;
        let delivery = t.popped("orders").await;
        let waiting = t.begin_one("orders", HOUR);
        t.finish(&delivery).await;
        assert_eq!(handed(&waiting.await), ["1"]);
    }
}
