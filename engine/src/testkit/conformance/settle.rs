//! Ending attempts: who may, in which state, and what becomes of the job.

use std::time::Duration;

use super::trial::{RELEASE, TOUCH, failed, handed, key};
use super::{Subject, Trial, suite};
use crate::dice::Lease;
use crate::error::{Code, Result};
use crate::history::{ERROR_BYTES_MAX, EXCERPT_BYTES_MAX, Report, What};
use crate::job::{Job, Ttr};
use crate::machine::{BURIED, Stage};
use crate::queue::{Ask, Changed, Key, Queue, Settle, Terms, Verdict};
use crate::time::{HOUR, MINUTE, SECOND};
use crate::topic::{Defaults, Settings};

const MS: Duration = Duration::from_millis(1);
const AGAIN: Verdict = Verdict::Again { retry_in: None };
const BURY: Verdict = Verdict::Bury { error: None, priority: None };

/// What a call was answered: whether it changed anything, or why not.
type Said = Result<bool, Code>;

const DONE: Said = Ok(true);
const SAME: Said = Ok(false);
const LOST: Said = Err(Code::LeaseLost);
const WRONG: Said = Err(Code::WrongState);
const ABSENT: Said = Err(Code::NotFound);

fn said(answer: Result<Changed>) -> Said {
    answer.map(|done| done.changed).map_err(|refused| refused.code())
}

/// Every verdict but finish.
fn others() -> [Verdict; 5] {
    [failed("no"), AGAIN, RELEASE, TOUCH, BURY]
}

/// How a settle proves itself.
#[derive(Clone, Copy, Debug)]
enum Proof {
    /// By the lease the job was handed out with.
    Lease,
    /// By a lease that nobody was given.
    MadeUp,
    /// By the id alone.
    Id,
}

/// What a verdict is answered in each state. Whoever is refused finds the job as it was.
async fn in_every_state<S: Subject>(
    t: &Trial<S>,
    verdict: Verdict,
    proof: Proof,
) -> [(Stage, Said); 7] {
    let topic = format!("{verdict:?}-{proof:?}").replace(|c: char| !c.is_alphanumeric(), "-");
    let mut answers = Stage::ALL.map(|stage| (stage, ABSENT));
    for (stage, answer) in &mut answers {
        let delivery = t.bring(&topic, *stage).await;
        let before = t.get(&topic, stage.as_str()).await;
        let mut settle = Settle::delivery(&delivery, verdict.clone());
        match proof {
            Proof::Lease => {}
            Proof::MadeUp => settle.lease = Some(Lease::from_u64(!delivery.lease.as_u64())),
            Proof::Id => settle.lease = None,
        }
        *answer = said(t.settle_by(settle).await);
        if *answer != DONE {
            assert_eq!(t.get(&topic, stage.as_str()).await, before, "{proof:?} in {stage}");
        }
    }
    answers
}

fn everywhere_but_reserved(answer: Said) -> [(Stage, Said); 7] {
    Stage::ALL.map(|stage| (stage, if stage == Stage::Reserved { DONE } else { answer }))
}

suite! {
    async fn with_a_lease_only_its_holder_finishes(t) {
        assert_eq!(in_every_state(&t, Verdict::Finish, Proof::Lease).await, [
            (Stage::Delayed, LOST),
            (Stage::Retry, LOST),
            (Stage::Held, LOST),
            (Stage::Ready, LOST),
            (Stage::Reserved, DONE),
            (Stage::Dead, LOST),
            (Stage::Finished, SAME),
        ]);
    }

    async fn by_id_alone_any_job_that_was_handed_out_is_finished(t) {
        assert_eq!(in_every_state(&t, Verdict::Finish, Proof::Id).await, [
            (Stage::Delayed, DONE),
            (Stage::Retry, DONE),
            (Stage::Held, DONE),
            (Stage::Ready, DONE),
            (Stage::Reserved, DONE),
            (Stage::Dead, WRONG),
            (Stage::Finished, SAME),
        ]);
    }

    async fn by_id_alone_a_job_that_was_never_handed_out_is_not_finished(t) {
        t.add(Job::new("orders", "x").id("delayed").delay(HOUR)).await;
        t.add(Job::new("orders", "x").id("held").held()).await;
        t.add(Job::new("orders", "x").id("ready")).await;
        for id in ["delayed", "held", "ready"] {
            let before = t.get("orders", id).await;
            assert_eq!(said(t.settle_id("orders", id, Verdict::Finish).await), WRONG, "{id}");
            assert_eq!(t.get("orders", id).await, before);
        }
    }

    async fn with_a_lease_only_its_holder_fails_releases_touches_or_buries(t) {
        for verdict in others() {
            let answers = in_every_state(&t, verdict.clone(), Proof::Lease).await;
            assert_eq!(answers, everywhere_but_reserved(LOST), "{verdict:?}");
        }
    }

    async fn by_id_alone_only_a_reserved_job_is_failed_released_touched_or_buried(t) {
        for verdict in others() {
            let answers = in_every_state(&t, verdict.clone(), Proof::Id).await;
            assert_eq!(answers, everywhere_but_reserved(WRONG), "{verdict:?}");
        }
    }

    async fn a_lease_that_is_not_the_jobs_settles_nothing_in_any_state(t) {
        for verdict in others().into_iter().chain([Verdict::Finish]) {
            let answers = in_every_state(&t, verdict.clone(), Proof::MadeUp).await;
            assert_eq!(answers, Stage::ALL.map(|stage| (stage, LOST)), "{verdict:?}");
        }
    }

    async fn a_job_that_is_not_there_cannot_be_settled(t) {
        let lease = t.bring("orders", Stage::Reserved).await.lease;
        for verdict in others().into_iter().chain([Verdict::Finish]) {
            for key in [key("orders", "nobody"), key("elsewhere", "reserved"), Key::Number(0)] {
                let by_id = Settle::key(key, verdict.clone());
                let by_lease = Settle { lease: Some(lease), ..by_id.clone() };
                assert_eq!(said(t.settle_by(by_id).await), ABSENT, "{verdict:?}");
                assert_eq!(said(t.settle_by(by_lease).await), ABSENT, "{verdict:?}");
            }
        }
    }

    async fn a_lease_that_ran_out_settles_nothing_even_if_nobody_took_the_job(t) {
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        let late = t.popped("orders").await;
        t.pass(SECOND).await;
        let before = t.get("orders", "1").await;
        assert_eq!(before.stage, Stage::Ready);
        for verdict in others().into_iter().chain([Verdict::Finish]) {
            assert_eq!(said(t.settle(&late, verdict.clone()).await), LOST, "{verdict:?}");
        }
        assert_eq!(t.get("orders", "1").await, before);
    }

    async fn a_late_holder_cannot_settle_what_another_holds(t) {
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        let late = t.popped("orders").await;
        t.pass(SECOND).await;
        let holder = t.popped("orders").await;
        for verdict in others().into_iter().chain([Verdict::Finish]) {
            assert_eq!(said(t.settle(&late, verdict.clone()).await), LOST, "{verdict:?}");
        }
        t.finish(&holder).await;
        assert_eq!(t.stage("orders", "1").await, None);
    }

    async fn a_lease_is_over_once_it_was_used(t) {
        for verdict in [failed("no"), AGAIN, RELEASE, BURY] {
            let delivery = t.bring(&format!("{verdict:?}")[..4], Stage::Reserved).await;
            t.settle(&delivery, verdict.clone()).await.unwrap();
            assert_eq!(said(t.settle(&delivery, Verdict::Finish).await), LOST, "{verdict:?}");
        }
    }

    async fn the_lease_holds_up_to_its_last_moment(t) {
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        let delivery = t.popped("orders").await;
        t.pass(SECOND - Duration::from_micros(1)).await;
        assert!(t.finish(&delivery).await.changed);
    }

    async fn the_name_settles_as_well_as_the_number(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let lease = Some(t.popped("orders").await.lease);
        let finish = Settle::key(key("orders", "1"), Verdict::Finish);
        let done = t.settle_by(Settle { lease, ..finish }).await.unwrap();
        assert_eq!((done.changed, done.job), (true, None));
    }

    async fn a_finished_job_is_gone_unless_it_is_retained(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        assert_eq!(t.finish(&delivery).await.job, None);
        assert_eq!(t.stage("orders", "1").await, None);
        assert_eq!(t.counts("orders").await.total(), 0);
        t.add(Job::new("orders", "x").id("1")).await;
    }

    async fn a_finished_job_is_kept_for_its_retain_and_then_gone(t) {
        t.add(Job::new("orders", "x").id("1").retain(MINUTE)).await;
        let delivery = t.popped("orders").await;
        let done = t.finish(&delivery).await.job.unwrap();
        assert_eq!((done.stage, done.attempt), (Stage::Finished, 1));
        assert_eq!(t.counts("orders").await.finished, 1);
        assert!(t.pop("orders").await.is_none());
        t.pass(MINUTE - MS).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Finished));
        t.pass(MS).await;
        assert_eq!(t.stage("orders", "1").await, None);
        assert_eq!(t.counts("orders").await.total(), 0);
    }

    async fn how_long_it_is_retained_is_said_by_the_job_else_the_topic_else_the_store(t) {
        let defaults = Defaults { retain: Some(3 * MINUTE), ..Defaults::default() };
        t.queue.set_defaults(defaults);
        let settings = Settings { retain: Some(2 * MINUTE), ..Settings::default() };
        t.set("says", settings).await;
        t.add(Job::new("says", "x").id("1").retain(MINUTE)).await;
        t.add(Job::new("says", "x").id("2")).await;
        t.add(Job::new("silent", "x").id("3")).await;
        t.add(Job::new("silent", "x").id("none").retain(Duration::ZERO)).await;
        for delivery in [t.pop_up_to("says", 2).await, t.pop_up_to("silent", 2).await].concat() {
            t.finish(&delivery).await;
        }
        assert_eq!(t.stage("silent", "none").await, None);
        for (topic, id) in [("says", "1"), ("says", "2"), ("silent", "3")] {
            t.pass(MINUTE - MS).await;
            assert_eq!(t.stage(topic, id).await, Some(Stage::Finished), "{id}");
            t.pass(MS).await;
            assert_eq!(t.stage(topic, id).await, None, "{id}");
        }
    }

    async fn the_same_lease_finishes_twice_only_while_the_job_is_retained(t) {
        t.add(Job::new("orders", "x").id("kept").retain(MINUTE)).await;
        t.add(Job::new("orders", "x").id("gone")).await;
        let [kept, gone] = &t.pop_up_to("orders", 2).await[..] else { panic!("two are ready") };
        t.finish(kept).await;
        t.finish(gone).await;
        assert_eq!(said(t.settle(kept, Verdict::Finish).await), SAME);
        assert_eq!(said(t.settle(gone, Verdict::Finish).await), ABSENT);
        t.pass(MINUTE).await;
        assert_eq!(said(t.settle(kept, Verdict::Finish).await), ABSENT);
    }

    async fn a_finish_by_id_does_not_make_the_holders_finish_fail_while_retained(t) {
        let holder = t.bring("orders", Stage::Reserved).await;
        t.settle_id("orders", "reserved", Verdict::Finish).await.unwrap();
        assert_eq!(said(t.settle(&holder, Verdict::Finish).await), SAME);
    }

    async fn a_finish_says_in_the_history_how_long_it_took(t) {
        t.add(Job::new("orders", "x").id("1").retain(HOUR)).await;
        let delivery = t.popped("orders").await;
        t.pass(2 * SECOND).await;
        t.finish(&delivery).await;
        let entry = t.get("orders", "1").await.history.pop().unwrap();
        assert_eq!((entry.what, entry.took_ms), (What::Finished, Some(2000)));
        assert_eq!((entry.at, entry.attempt, entry.error), (t.now(), 1, None));
    }

    async fn a_batch_is_settled_item_by_item_in_order(t) {
        for id in ["1", "2", "3"] {
            t.add(Job::new("orders", "x").id(id)).await;
        }
        let [one, two, three] = &t.pop_up_to("orders", 3).await[..] else { panic!("three") };
        let answers = t.queue.settle(vec![
            Settle::delivery(one, Verdict::Finish),
            Settle::delivery(one, Verdict::Finish),
            Settle::delivery(two, RELEASE),
            Settle::key(key("orders", "2"), BURY),
            Settle::key(key("orders", "nobody"), Verdict::Finish),
            Settle::delivery(three, BURY),
        ]);
        let answers: Vec<Said> = answers.await.unwrap().into_iter().map(said).collect();
        assert_eq!(answers, [DONE, ABSENT, DONE, WRONG, ABSENT, DONE]);
        assert_eq!(t.stage("orders", "2").await, Some(Stage::Ready));
        assert_eq!(t.stage("orders", "3").await, Some(Stage::Dead));
    }

    async fn the_answer_says_where_the_job_stands(t) {
        t.add(Job::new("orders", "x").id("1").priority(3)).await;
        let delivery = t.popped("orders").await;
        for verdict in [TOUCH, failed("no")] {
            t.pass(SECOND).await;
            let told = t.settle(&delivery, verdict).await.unwrap().job.unwrap();
            let job = t.get("orders", "1").await;
            assert_eq!((told.number, told.stage, told.due), (job.number, job.stage, job.due));
            assert_eq!((told.attempt, told.occurrence), (job.attempt, job.occurrence));
            assert_eq!((told.version, told.priority), (job.version, job.priority));
            assert_eq!(told.reserved_until, job.reserved_until);
        }
    }

    async fn a_release_gives_the_attempt_back_and_keeps_the_due_time(t) {
        let added = t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        t.pass(SECOND).await;
        let job = t.settle(&delivery, RELEASE).await.unwrap().job.unwrap();
        assert_eq!((job.stage, job.attempt, job.due), (Stage::Ready, 0, added.due));
        let mut job = t.get("orders", "1").await;
        assert_eq!((job.tally.releases, job.last_error), (1, None));
        let entry = job.history.pop().unwrap();
        assert_eq!((entry.what, entry.attempt), (What::Released, 1));
        assert_eq!(t.popped("orders").await.job.attempt, 1);
    }

    async fn a_release_with_a_delay_waits_for_it(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        let release = Verdict::Release { delay: MINUTE, priority: None };
        let job = t.settle(&delivery, release).await.unwrap().job.unwrap();
        assert_eq!((job.stage, job.due, job.attempt), (Stage::Delayed, t.after(MINUTE), 0));
        t.pass(MINUTE - MS).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(MS).await;
        assert_eq!(t.popped("orders").await.job.attempt, 1);
    }

    async fn a_release_may_bring_a_new_priority(t) {
        t.add(Job::new("orders", "x").id("first")).await;
        t.add(Job::new("orders", "x").id("second")).await;
        let delivery = t.popped("orders").await;
        let release = Verdict::Release { delay: Duration::ZERO, priority: Some(2000) };
        let job = t.settle(&delivery, release).await.unwrap().job.unwrap();
        assert_eq!(job.priority, 2000);
        assert_eq!(handed(&t.pop_up_to("orders", 2).await), ["second", "first"]);
    }

    async fn a_released_job_goes_to_who_waits(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        let waiting = t.begin_one("orders", MINUTE);
        t.settle(&delivery, RELEASE).await.unwrap();
        assert_eq!(handed(&waiting.await), ["1"]);
    }

    async fn a_touch_gives_the_leases_own_length_again_from_now(t) {
        t.add(Job::new("orders", "x").id("1").ttr(MINUTE)).await;
        let terms = Terms { ttr: Some(Ttr::new(10 * SECOND).unwrap()), owner: None, grace: None };
        let ask = Ask { terms, ..Ask::one("orders".parse().unwrap()) };
        let delivery = t.queue.pop(ask).await.unwrap().remove(0);
        t.pass(6 * SECOND).await;
        let touched = t.settle(&delivery, TOUCH).await.unwrap().job.unwrap();
        assert_eq!(touched.reserved_until, Some(t.after(10 * SECOND)));
        t.pass(10 * SECOND - MS).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Reserved));
        t.pass(MS).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
    }

    async fn a_touch_with_a_length_of_its_own_has_it_for_once(t) {
        t.add(Job::new("orders", "x").id("1").ttr(10 * SECOND)).await;
        let delivery = t.popped("orders").await;
        let own = |length| Ttr::new(length).ok();
        for (ttr, expected) in
            [(own(MINUTE), MINUTE), (own(SECOND), SECOND), (None, 10 * SECOND)]
        {
            let job = t.settle(&delivery, Verdict::Touch { ttr }).await.unwrap().job.unwrap();
            assert_eq!(job.reserved_until, Some(t.after(expected)));
        }
        t.pass(10 * SECOND).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
    }

    async fn a_touch_uses_no_attempt_and_keeps_the_lease(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        t.settle(&delivery, TOUCH).await.unwrap();
        assert_eq!(t.get("orders", "1").await.attempt, 1);
        assert!(t.finish(&delivery).await.changed);
    }

    async fn a_buried_job_is_dead_at_once_with_its_error_and_priority(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        let bury = Verdict::Bury { error: Some("no such order".into()), priority: Some(7) };
        let job = t.settle(&delivery, bury).await.unwrap().job.unwrap();
        assert_eq!((job.stage, job.priority, job.attempt), (Stage::Dead, 7, 1));
        let job = t.get("orders", "1").await;
        assert_eq!(job.last_error.as_deref(), Some("no such order"));
        assert_eq!((job.tally.buries, job.tally.deaths), (1, 1));
        assert_eq!(job.history.last().unwrap().what, What::Died);
        assert!(t.pop("orders").await.is_none());
    }

    async fn a_job_buried_without_a_word_has_an_error_all_the_same(t) {
        t.add(Job::new("orders", "x").id("1").priority(7)).await;
        let delivery = t.popped("orders").await;
        t.settle(&delivery, BURY).await.unwrap();
        let job = t.get("orders", "1").await;
        assert_eq!((job.last_error.as_deref(), job.priority), (Some(BURIED), 7));
    }

    async fn the_answer_of_the_receiver_and_the_caller_are_kept_in_the_history(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        let report = Some(Report { status: Some(503), excerpt: Some("come back later".into()) });
        let by = Some("node-1".parse().unwrap());
        let settle = Settle::delivery(&delivery, failed("status 503"));
        t.settle_by(Settle { report: report.clone(), by: by.clone(), ..settle }).await.unwrap();
        let entry = t.get("orders", "1").await.history.pop().unwrap();
        assert_eq!((entry.what, entry.report, entry.by), (What::Failed, report, by));
    }

    async fn long_errors_and_answers_are_cut(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        let long = "é".repeat(2000);
        let report = Some(Report { status: None, excerpt: Some(long.as_str().into()) });
        let settle = Settle::delivery(&delivery, failed(&long));
        t.settle_by(Settle { report, ..settle }).await.unwrap();
        let mut job = t.get("orders", "1").await;
        let entry = job.history.pop().unwrap();
        let excerpt = entry.report.unwrap().excerpt.unwrap();
        let error = job.last_error.unwrap();
        for (kept, bytes_max) in [(error, ERROR_BYTES_MAX), (excerpt, EXCERPT_BYTES_MAX)] {
            assert!(long.starts_with(&*kept) && kept.len() == bytes_max);
        }
    }
}
