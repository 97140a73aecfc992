//! Attempts: how they are counted, how long a job waits between them, and how it ends.

use std::collections::HashSet;
use std::time::Duration;

use super::trial::{RELEASE, failed, key};
use super::{Subject, Trial, suite};
use crate::history::{ENTRIES_MAX, Report, What};
use crate::job::{Job, Patch, When};
use crate::machine::{CONNECTION_LOST, GAVE_UP, Owner, Stage, TTR_RAN_OUT, Tally};
use crate::queue::{
    Action, Ask, Change, Delivery, JobInfo, LetGo, Queue, Settle, Standing, Terms, Verdict,
};
use crate::retry::Retry;
use crate::time::{HOUR, MINUTE, SECOND, Time};
use crate::topic::{Defaults, Settings};

const MS: Duration = Duration::from_millis(1);
const AGAIN: Verdict = Verdict::Again { retry_in: None };
const OWNER: Owner = Owner(7);

fn ladder(steps: &[Duration]) -> Retry {
    Retry::ladder(steps).expect("a case writes ladders rightly")
}

/// Adds job `1` to `orders` with this retry.
async fn add<S: Subject>(t: &Trial<S>, retry: Retry) -> JobInfo {
    t.add(Job::new("orders", "x").id("1").ttr(SECOND).retry(retry)).await
}

/// Pops the job and fails it.
async fn pop_and_fail<S: Subject>(t: &Trial<S>) -> Standing {
    let delivery = t.popped("orders").await;
    t.fail(&delivery, "no").await.job.expect("it is kept")
}

/// Fails the job over and over, and answers how long it waited each time, until it is dead.
async fn waits<S: Subject>(t: &Trial<S>) -> Vec<Duration> {
    let mut waits = Vec::new();
    while waits.len() < 50 {
        let job = pop_and_fail(t).await;
        if job.stage == Stage::Dead {
            return waits;
        }
        assert_eq!(job.stage, Stage::Retry);
        let wait = Duration::from_millis(job.due.ms_since(t.now()));
        t.pass(wait - MS).await;
        assert!(t.pop("orders").await.is_none(), "it was handed out early");
        t.pass(MS).await;
        waits.push(wait);
    }
    panic!("it never dies: {waits:?}")
}

/// A job of `orders`, popped on a connection.
async fn popped_on_a_connection<S: Subject>(t: &Trial<S>) -> Delivery {
    let terms = Terms { ttr: None, owner: Some(OWNER), grace: None };
    let ask = Ask { terms, ..Ask::one("orders".parse().expect("a topic")) };
    t.queue.pop(ask).await.expect("a right ask").remove(0)
}

suite! {
    async fn attempts_are_counted_as_they_are_handed_out(t) {
        assert_eq!(add(&t, Retry::no_limit()).await.attempt, 0);
        assert_eq!(t.popped("orders").await.job.attempt, 1);
        t.pass(SECOND).await;
        assert_eq!(t.get("orders", "1").await.attempt, 1);
        let second = t.popped("orders").await;
        assert_eq!(second.job.attempt, 2);
        t.settle(&second, Verdict::Fail { error: "no".into(), retry_in: Some(MS) }).await.unwrap();
        t.pass(MS).await;
        assert_eq!(t.popped("orders").await.job.attempt, 3);
    }

    async fn a_ladder_is_walked_step_by_step_to_the_dead_shelf(t) {
        add(&t, "15s 3m 10m 30m 30m 1h 2h 6h 15h".parse().unwrap()).await;
        let expected = [15, 180, 600, 1800, 1800, 3600, 7200, 21_600, 54_000];
        assert_eq!(waits(&t).await, expected.map(Duration::from_secs));
        let dead = t.get("orders", "1").await;
        assert_eq!((dead.stage, dead.attempt), (Stage::Dead, 10));
        assert_eq!(dead.last_error.as_deref(), Some("no"));
        t.pass(24 * HOUR).await;
        assert!(t.pop("orders").await.is_none());
    }

    async fn a_step_counts_from_the_failure(t) {
        add(&t, ladder(&[MINUTE])).await;
        t.pass(HOUR).await;
        let delivery = t.popped("orders").await;
        t.pass(SECOND / 2).await;
        let job = t.fail(&delivery, "no").await.job.unwrap();
        assert_eq!(job.due, t.after(MINUTE));
    }

    async fn a_ladder_from_due_counts_from_the_first_due_time(t) {
        let due = add(&t, ladder(&[MINUTE, HOUR, 2 * HOUR]).from_due()).await.due;
        for step in [MINUTE, HOUR, 2 * HOUR] {
            t.pass(SECOND).await;
            assert_eq!(pop_and_fail(&t).await.due.ms_since(due), step.as_millis() as u64);
            t.pass(3 * HOUR).await;
        }
        assert_eq!(pop_and_fail(&t).await.stage, Stage::Dead);
    }

    async fn an_offset_from_due_that_has_passed_makes_the_job_ready_at_once(t) {
        let due = add(&t, ladder(&[MINUTE]).from_due()).await.due;
        t.pass(HOUR).await;
        let job = pop_and_fail(&t).await;
        assert_eq!((job.stage, job.due), (Stage::Ready, due.saturating_add_ms(60_000)));
    }

    async fn a_ladder_from_due_counts_from_a_new_due_time_if_there_was_no_attempt_yet(t) {
        let job = Job::new("orders", "x").id("1").delay(MINUTE);
        t.add(job.retry(ladder(&[HOUR]).from_due())).await;
        let patch = Patch { when: Some(When::In(SECOND)), ..Patch::default() };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        t.pass(SECOND).await;
        let due = t.now();
        t.pass(SECOND).await;
        assert_eq!(pop_and_fail(&t).await.due.ms_since(due), 3_600_000);
    }

    async fn run_of_a_job_in_retry_does_not_move_where_its_ladder_counts_from(t) {
        let due = add(&t, ladder(&[HOUR, 2 * HOUR]).from_due()).await.due;
        pop_and_fail(&t).await;
        t.pass(MINUTE).await;
        t.change("orders", "1", Action::Run).await.unwrap();
        assert_eq!(pop_and_fail(&t).await.due.ms_since(due), 2 * 3_600_000);
    }

    async fn attempts_beyond_the_ladder_repeat_its_last_step(t) {
        add(&t, ladder(&[SECOND, MINUTE]).attempts(5)).await;
        assert_eq!(waits(&t).await, [SECOND, MINUTE, MINUTE, MINUTE]);
    }

    async fn attempts_beyond_a_ladder_from_due_wait_its_last_step(t) {
        add(&t, ladder(&[SECOND, MINUTE]).from_due().attempts(4)).await;
        let expected = [SECOND, MINUTE - SECOND, MINUTE];
        assert_eq!(waits(&t).await, expected);
    }

    async fn fewer_attempts_than_steps_cut_the_ladder_short(t) {
        add(&t, ladder(&[SECOND, MINUTE, HOUR]).attempts(2)).await;
        assert_eq!(waits(&t).await, [SECOND]);
    }

    async fn without_retry_the_first_failure_is_the_last(t) {
        add(&t, Retry::none()).await;
        let dead = pop_and_fail(&t).await;
        assert_eq!((dead.stage, dead.attempt), (Stage::Dead, 1));
        assert_eq!(t.get("orders", "1").await.tally.deaths, 1);
    }

    async fn without_a_limit_a_job_never_dies(t) {
        add(&t, ladder(&[SECOND]).attempts(0)).await;
        for attempt in 1..=100 {
            let job = pop_and_fail(&t).await;
            assert_eq!((job.stage, job.attempt), (Stage::Retry, attempt));
            t.pass(SECOND).await;
        }
    }

    async fn by_default_there_are_16_attempts_a_second_to_an_hour_apart_give_or_take_a_fifth(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let waits = waits(&t).await;
        assert_eq!(waits.len(), 15);
        for (n, wait) in waits.into_iter().enumerate() {
            let middle = (SECOND * (1 << n)).min(HOUR);
            assert!(wait >= middle * 8 / 10 && wait <= middle * 12 / 10, "wait {n} is {wait:?}");
        }
    }

    async fn jobs_that_fail_together_do_not_all_come_back_together(t) {
        let retry = Retry::backoff(HOUR, HOUR, 0.5).unwrap();
        for n in 0..20 {
            t.add(Job::new("orders", "x").id(n.to_string()).retry(retry.clone())).await;
        }
        let mut due = HashSet::new();
        for delivery in t.pop_up_to("orders", 20).await {
            due.insert(t.fail(&delivery, "no").await.job.unwrap().due);
        }
        assert!(due.len() > 10, "{due:?}");
        assert!(due.iter().all(|due| *due >= t.after(HOUR / 2) && *due <= t.after(3 * HOUR / 2)));
    }

    async fn retry_in_replaces_one_step_and_no_more(t) {
        add(&t, ladder(&[MINUTE, HOUR, 2 * HOUR])).await;
        for (retry_in, wait) in [(Some(SECOND), SECOND), (None, HOUR), (Some(MINUTE), MINUTE)] {
            let delivery = t.popped("orders").await;
            let fail = Verdict::Fail { error: "no".into(), retry_in };
            let job = t.settle(&delivery, fail).await.unwrap().job.unwrap();
            assert_eq!((job.stage, job.due), (Stage::Retry, t.after(wait)));
            t.pass(wait).await;
        }
    }

    async fn retry_in_gives_no_attempt_beyond_the_last(t) {
        for (verdict, error) in [
            (Verdict::Fail { error: "no".into(), retry_in: Some(SECOND) }, "no"),
            (Verdict::Again { retry_in: Some(SECOND) }, GAVE_UP),
        ] {
            add(&t, Retry::none()).await;
            let delivery = t.popped("orders").await;
            t.settle(&delivery, verdict).await.unwrap();
            let job = t.get("orders", "1").await;
            assert_eq!((job.stage, job.last_error.as_deref()), (Stage::Dead, Some(error)));
            t.change("orders", "1", Action::Delete(Default::default())).await.unwrap();
        }
    }

    async fn retry_in_no_time_makes_the_job_ready_at_once(t) {
        add(&t, ladder(&[MINUTE])).await;
        let delivery = t.popped("orders").await;
        let fail = Verdict::Fail { error: "no".into(), retry_in: Some(Duration::ZERO) };
        t.settle(&delivery, fail).await.unwrap();
        assert_eq!(t.popped("orders").await.job.attempt, 2);
    }

    async fn a_wait_past_the_end_of_time_is_no_accident(t) {
        add(&t, Retry::no_limit()).await;
        for verdict in [
            Verdict::Fail { error: "no".into(), retry_in: Some(Duration::MAX) },
            Verdict::Again { retry_in: Some(Duration::MAX) },
            Verdict::Release { delay: Duration::MAX, priority: None },
        ] {
            let delivery = t.popped("orders").await;
            let job = t.settle(&delivery, verdict).await.unwrap().job.unwrap();
            assert_eq!(job.due, Time::MAX);
            t.change("orders", "1", Action::Run).await.unwrap();
        }
    }

    async fn again_waits_the_next_step_and_is_no_failure(t) {
        add(&t, ladder(&[SECOND, MINUTE])).await;
        for (retry_in, wait) in [(None, SECOND), (Some(HOUR), HOUR)] {
            let delivery = t.popped("orders").await;
            let again = Verdict::Again { retry_in };
            let job = t.settle(&delivery, again).await.unwrap().job.unwrap();
            assert_eq!((job.stage, job.due), (Stage::Retry, t.after(wait)));
            t.pass(wait).await;
        }
        let JobInfo { history, last_error, .. } = t.get("orders", "1").await;
        assert_eq!(last_error, None);
        assert_eq!(history.last().unwrap().what, What::Again);
        let stats = t.queue.stats().await.unwrap();
        assert_eq!((stats.again, stats.failed, stats.died), (2, 0, 0));
    }

    async fn failures_and_again_walk_the_same_ladder(t) {
        add(&t, ladder(&[SECOND, MINUTE, HOUR])).await;
        for (verdict, wait) in [(AGAIN, SECOND), (failed("no"), MINUTE), (AGAIN, HOUR)] {
            let delivery = t.popped("orders").await;
            let job = t.settle(&delivery, verdict).await.unwrap().job.unwrap();
            assert_eq!(job.due, t.after(wait));
            t.pass(wait).await;
        }
    }

    async fn again_at_the_end_of_the_ladder_gives_up(t) {
        add(&t, ladder(&[SECOND])).await;
        pop_and_fail(&t).await;
        t.pass(SECOND).await;
        let delivery = t.popped("orders").await;
        t.settle(&delivery, AGAIN).await.unwrap();
        let mut job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.last_error.as_deref()), (Stage::Dead, Some(GAVE_UP)));
        let entry = job.history.pop().unwrap();
        assert_eq!((entry.what, entry.error.as_deref()), (What::Died, Some(GAVE_UP)));
        let errors = t.queue.dead_by_error(&"orders".parse().unwrap()).await.unwrap();
        assert_eq!(errors, [(GAVE_UP.into(), 1)]);
    }

    async fn a_lease_that_runs_out_uses_an_attempt_and_the_job_is_ready_at_once(t) {
        let due = add(&t, ladder(&[HOUR])).await.due;
        t.popped("orders").await;
        t.pass(SECOND - MS).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Reserved));
        t.pass(MS).await;
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.attempt, job.due), (Stage::Ready, 1, due));
        assert_eq!(job.last_error.as_deref(), Some(TTR_RAN_OUT));
        let entry = job.history.last().unwrap();
        assert_eq!((entry.what, entry.attempt, entry.took_ms), (What::TimedOut, 1, Some(1000)));
        assert_eq!((job.tally.timeouts, t.queue.stats().await.unwrap().timed_out), (1, 1));
    }

    async fn when_the_last_lease_runs_out_the_job_is_dead(t) {
        add(&t, ladder(&[HOUR])).await;
        for _ in 0..2 {
            t.popped("orders").await;
            t.pass(SECOND).await;
        }
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.attempt), (Stage::Dead, 2));
        assert_eq!(job.last_error.as_deref(), Some(TTR_RAN_OUT));
        assert_eq!((job.tally.timeouts, job.tally.deaths), (2, 1));
    }

    async fn a_lease_that_ran_out_has_used_a_step_of_the_ladder(t) {
        add(&t, ladder(&[MINUTE, HOUR])).await;
        t.popped("orders").await;
        t.pass(SECOND).await;
        assert_eq!(pop_and_fail(&t).await.due, t.after(HOUR));
    }

    async fn a_lost_connection_uses_an_attempt_and_the_job_is_ready_at_once(t) {
        let due = add(&t, ladder(&[HOUR])).await.due;
        popped_on_a_connection(&t).await;
        assert_eq!(t.queue.let_go(OWNER, LetGo::Lost).await.unwrap(), 1);
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.attempt, job.due), (Stage::Ready, 1, due));
        assert_eq!(job.history.last().unwrap().what, What::Lost);
        popped_on_a_connection(&t).await;
        t.queue.let_go(OWNER, LetGo::Lost).await.unwrap();
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.attempt), (Stage::Dead, 2));
        assert_eq!(job.last_error.as_deref(), Some(CONNECTION_LOST));
    }

    async fn a_release_uses_no_attempt_however_often(t) {
        add(&t, Retry::none()).await;
        for _ in 0..5 {
            let delivery = t.popped("orders").await;
            assert_eq!(delivery.job.attempt, 1);
            t.settle(&delivery, RELEASE).await.unwrap();
            popped_on_a_connection(&t).await;
            assert_eq!(t.queue.let_go(OWNER, LetGo::Released).await.unwrap(), 1);
        }
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.attempt, job.tally.releases), (Stage::Ready, 0, 10));
        assert_eq!((job.tally.reserves, job.last_error), (10, None));
    }

    async fn a_redriven_job_starts_its_attempts_anew_and_keeps_error_and_history(t) {
        for action in [Action::Redrive, Action::Run] {
            add(&t, ladder(&[MINUTE])).await;
            assert_eq!(waits(&t).await, [MINUTE]);
            t.pass(HOUR).await;
            let before = t.get("orders", "1").await;
            let job = t.change("orders", "1", action).await.unwrap().job.unwrap();
            assert_eq!((job.stage, job.attempt, job.due), (Stage::Ready, 0, t.now()));
            let mut after = t.get("orders", "1").await;
            assert_eq!(after.last_error, before.last_error);
            assert_eq!(after.history.pop().unwrap().what, What::Redriven);
            assert_eq!(after.history, before.history);
            assert_eq!(waits(&t).await, [MINUTE]);
            t.change("orders", "1", Action::Delete(Default::default())).await.unwrap();
        }
    }

    async fn a_redriven_job_counts_a_ladder_from_due_from_its_redrive(t) {
        add(&t, ladder(&[MINUTE]).from_due()).await;
        assert_eq!(waits(&t).await, [MINUTE]);
        t.pass(HOUR).await;
        t.change("orders", "1", Action::Redrive).await.unwrap();
        assert_eq!(waits(&t).await, [MINUTE]);
    }

    async fn a_redriven_job_goes_to_who_waits(t) {
        t.bring("orders", Stage::Dead).await;
        let waiting = t.begin_one("orders", MINUTE);
        t.change("orders", "dead", Action::Redrive).await.unwrap();
        assert_eq!(waiting.await[0].job.attempt, 1);
    }

    async fn the_ladder_is_the_jobs_own_else_the_topics_else_the_stores(t) {
        t.queue.set_defaults(Defaults { retry: ladder(&[3 * MINUTE]), ..Defaults::default() });
        let settings = Settings { retry: Some(ladder(&[2 * MINUTE])), ..Settings::default() };
        t.set("says", settings).await;
        t.add(Job::new("says", "x").id("1").retry(ladder(&[MINUTE]))).await;
        t.add(Job::new("says", "x").id("2")).await;
        t.add(Job::new("silent", "x").id("3")).await;
        for (topic, wait) in [("says", 1), ("says", 2), ("silent", 3)] {
            let delivery = t.popped(topic).await;
            let job = t.fail(&delivery, "no").await.job.unwrap();
            assert_eq!(job.due, t.after(wait * MINUTE));
        }
    }

    async fn a_changed_default_reaches_jobs_that_are_there_already(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        t.queue.set_defaults(Defaults { retry: ladder(&[HOUR; 3]), ..Defaults::default() });
        assert_eq!(t.fail(&delivery, "no").await.job.unwrap().due, t.after(HOUR));
        t.pass(HOUR).await;
        let settings = |retry| Settings { retry: Some(retry), ..Settings::default() };
        t.set("orders", settings(ladder(&[MINUTE, 2 * MINUTE, HOUR]))).await;
        assert_eq!(pop_and_fail(&t).await.due, t.after(2 * MINUTE));
        t.set("orders", settings(Retry::none())).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Retry));
        t.pass(2 * MINUTE).await;
        assert_eq!(pop_and_fail(&t).await.stage, Stage::Dead);
    }

    async fn a_dead_job_keeps_the_last_error(t) {
        add(&t, ladder(&[SECOND, SECOND])).await;
        for error in ["first", "second", "last"] {
            let delivery = t.popped("orders").await;
            t.fail(&delivery, error).await;
            assert_eq!(t.get("orders", "1").await.last_error.as_deref(), Some(error));
            t.pass(SECOND).await;
        }
        let dead = t.get("orders", "1").await;
        assert_eq!((dead.stage, dead.last_error.as_deref()), (Stage::Dead, Some("last")));
        let errors = dead.history.iter().filter_map(|entry| entry.error.as_deref());
        assert_eq!(errors.collect::<Vec<_>>(), ["first", "second", "last"]);
    }

    async fn the_history_tells_each_attempt_and_how_it_ended(t) {
        let mut job = t.checked(Job::new("orders", "x").id("1").retry(ladder(&[SECOND])));
        job.by = Some("alice".parse().unwrap());
        t.queue.add_all(vec![job]).await.unwrap().remove(0).unwrap();
        let started = t.now();
        for (status, took) in [(500, SECOND), (503, 2 * SECOND)] {
            let delivery = t.popped("orders").await;
            t.pass(took).await;
            let report = Some(Report { status: Some(status), excerpt: None });
            let by = Some("node-1".parse().unwrap());
            let settle = Settle::delivery(&delivery, failed("no"));
            t.settle_by(Settle { report, by, ..settle }).await.unwrap();
            t.pass(SECOND).await;
        }
        let history = t.get("orders", "1").await.history;
        let told = history.iter().map(|entry| {
            let status = entry.report.as_ref().and_then(|report| report.status);
            let by = entry.by.as_ref().map(|by| by.as_str());
            (entry.what, entry.at.ms_since(started), entry.attempt, entry.took_ms, status, by)
        });
        assert_eq!(told.collect::<Vec<_>>(), [
            (What::Added, 0, 0, None, None, Some("alice")),
            (What::Failed, 1000, 1, Some(1000), Some(500), Some("node-1")),
            (What::Died, 4000, 2, Some(2000), Some(503), Some("node-1")),
        ]);
    }

    async fn the_history_is_bounded_and_keeps_the_newest(t) {
        add(&t, ladder(&[SECOND]).attempts(0)).await;
        for n in 0..2 * ENTRIES_MAX {
            let delivery = t.popped("orders").await;
            t.fail(&delivery, &n.to_string()).await;
            t.pass(SECOND).await;
        }
        let history = t.get("orders", "1").await.history;
        let errors: Vec<&str> = history.iter().filter_map(|entry| entry.error.as_deref()).collect();
        let newest: Vec<String> = (ENTRIES_MAX..2 * ENTRIES_MAX).map(|n| n.to_string()).collect();
        assert_eq!(errors, newest);
    }

    async fn tallies_count_what_happened_over_the_whole_life(t) {
        add(&t, Retry::none()).await;
        let first = t.popped("orders").await;
        t.settle(&first, RELEASE).await.unwrap();
        t.popped("orders").await;
        t.pass(SECOND).await;
        t.change("orders", "1", Action::Redrive).await.unwrap();
        let third = t.popped("orders").await;
        t.settle(&third, Verdict::Bury { error: None, priority: None }).await.unwrap();
        t.change_by(Change::new(key("orders", "1"), Action::Run)).await.unwrap();
        let tally = t.get("orders", "1").await.tally;
        let expected =
            Tally { reserves: 3, timeouts: 1, releases: 1, buries: 1, kicks: 2, deaths: 2 };
        assert_eq!(tally, expected);
    }

    async fn the_store_counts_how_attempts_end(t) {
        let before = t.queue.stats().await.unwrap();
        assert_eq!((before.handed_out, before.failed, before.died), (0, 0, 0));
        add(&t, ladder(&[SECOND, SECOND])).await;
        pop_and_fail(&t).await;
        t.pass(SECOND).await;
        t.popped("orders").await;
        t.pass(SECOND).await;
        pop_and_fail(&t).await;
        t.add(Job::new("orders", "x").id("2").retain(HOUR)).await;
        let delivery = t.popped("orders").await;
        t.finish(&delivery).await;
        t.finish(&delivery).await;
        let stats = t.queue.stats().await.unwrap();
        assert_eq!((stats.added, stats.handed_out, stats.finished), (2, 4, 1));
        assert_eq!((stats.failed, stats.timed_out, stats.died), (2, 1, 1));
    }
}
