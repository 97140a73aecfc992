//! Leases: one holder at a time, how a lease ends, and asking for one very job.

use std::num::NonZeroU32;
use std::time::Duration;

use super::trial::{RELEASE, TOUCH, failed, handed, key, over, ttr};
use super::{Subject, Trial, suite};
use crate::dice::Lease;
use crate::error::Code;
use crate::history::What;
use crate::job::{Edit, Job, OnConflict, Patch, Ttr};
use crate::machine::{Owner, Reach, Stage, TTR_RAN_OUT};
use crate::queue::{
    Action, Ask, Changed, Delivery, Key, LetGo, Queue, Settle, Terms, TopicChange, Verdict,
};
use crate::retry::Retry;
use crate::time::{DAY, HOUR, MINUTE, SECOND};
use crate::topic::Settings;

suite! {
    async fn while_a_lease_runs_nobody_else_gets_the_job(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let held = t.popped("orders").await;
        let mut pop = t.begin_one("orders", HOUR);
        for _ in 0..3 {
            t.pass(15 * SECOND).await;
            assert!(t.pop("orders").await.is_none());
            assert_eq!(t.reserve("orders", "1").await.unwrap_err().code(), Code::WrongState);
            assert!(t.answered(&mut pop).await.is_none());
        }
        assert!(t.finish(&held).await.changed);
    }

    async fn a_lease_runs_out_after_its_ttr_and_not_before(t) {
        for length in [Duration::from_millis(1), MINUTE, Ttr::MAX] {
            let job = Job::new("orders", "x").id("1").ttr(length);
            t.add(job.on_conflict(OnConflict::Replace)).await;
            let held = t.popped("orders").await;
            t.pass(length - Duration::from_micros(1)).await;
            assert_eq!(t.stage("orders", "1").await, Some(Stage::Reserved));
            t.pass(Duration::from_micros(1)).await;
            assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
            assert_eq!(held.until, t.now());
        }
    }

    async fn a_holder_may_finish_until_the_very_end(t) {
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        let held = t.popped("orders").await;
        t.pass(SECOND - Duration::from_micros(1)).await;
        assert!(t.finish(&held).await.changed);
    }

    async fn leases_run_out_each_at_its_own_time(t) {
        for (id, secs) in [("3s", 3), ("1s", 1), ("2s", 2)] {
            t.add(Job::new("orders", "x").id(id).ttr(secs * SECOND)).await;
        }
        assert_eq!(t.pop_up_to("orders", 3).await.len(), 3);
        for id in ["1s", "2s", "3s"] {
            t.pass(SECOND).await;
            let terms = Terms { ttr: Some(ttr(HOUR)), owner: None, grace: None };
            assert_eq!(handed(&t.pop_by(Ask { terms, max: 9, ..over(&["orders"]) }).await), [id]);
        }
    }

    async fn a_lease_that_ran_out_uses_an_attempt_and_leaves_the_due_time(t) {
        let added = t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        t.pass(SECOND).await;
        t.popped("orders").await;
        t.pass(SECOND).await;
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.due, job.reserved_until), (Stage::Ready, added.due, None));
        assert_eq!((job.attempt, job.tally.timeouts), (1, 1));
        assert_eq!(job.history.last().map(|entry| entry.what), Some(What::TimedOut));
        assert_eq!(t.queue.stats().await.unwrap().timed_out, 1);
        assert_eq!(t.popped("orders").await.job.attempt, 2);
    }

    async fn a_job_whose_lease_ran_out_goes_back_to_its_place(t) {
        for id in ["1", "2", "3"] {
            t.add(Job::new("orders", "x").id(id).ttr(10 * SECOND)).await;
            t.pass(SECOND).await;
        }
        t.pop_up_to("orders", 2).await;
        t.pass(10 * SECOND).await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["1", "2", "3"]);
    }

    async fn the_last_lease_that_runs_out_kills_the_job(t) {
        let twice = Retry::default().attempts(2);
        t.add(Job::new("orders", "x").id("1").ttr(SECOND).retry(twice)).await;
        for stage in [Stage::Ready, Stage::Dead] {
            t.popped("orders").await;
            t.pass(SECOND).await;
            assert_eq!(t.stage("orders", "1").await, Some(stage));
        }
        let job = t.get("orders", "1").await;
        assert_eq!((job.attempt, job.tally.timeouts, job.tally.deaths), (2, 2, 1));
        assert_eq!(job.last_error.as_deref(), Some(TTR_RAN_OUT));
        assert!(t.pop("orders").await.is_none());
    }

    async fn the_attempts_are_looked_up_when_a_lease_runs_out(t) {
        t.add(Job::new("orders", "x").id("own").ttr(SECOND).retry(Retry::no_limit())).await;
        t.add(Job::new("orders", "x").id("topics").ttr(SECOND)).await;
        t.pop_up_to("orders", 2).await;
        t.set("orders", Settings { retry: Some(Retry::none()), ..Settings::default() }).await;
        t.pass(SECOND).await;
        assert_eq!(t.stage("orders", "own").await, Some(Stage::Ready));
        assert_eq!(t.stage("orders", "topics").await, Some(Stage::Dead));
    }

    async fn a_job_has_sixteen_attempts_unless_told_otherwise(t) {
        t.add(Job::new("orders", "x").id("16").ttr(SECOND)).await;
        t.add(Job::new("orders", "x").id("no end").ttr(SECOND).retry(Retry::no_limit())).await;
        for _ in 0..16 {
            assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["16", "no end"]);
            t.pass(SECOND).await;
        }
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["no end"]);
        assert_eq!(t.stage("orders", "16").await, Some(Stage::Dead));
    }

    async fn a_lease_that_ran_out_is_lost_though_nobody_took_the_job(t) {
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        let late = t.popped("orders").await;
        t.pass(SECOND).await;
        is_lost(&t, &late).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
    }

    async fn a_lease_that_ran_out_is_lost_when_another_holds_the_job(t) {
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        let late = t.popped("orders").await;
        t.pass(SECOND).await;
        let holder = t.popped("orders").await;
        assert_ne!(late.lease, holder.lease);
        is_lost(&t, &late).await;
        assert!(t.finish(&holder).await.changed);
    }

    async fn a_lease_is_lost_once_it_was_given_up(t) {
        for verdict in [
            RELEASE,
            failed("no"),
            Verdict::Again { retry_in: None },
            Verdict::Release { delay: SECOND, priority: None },
            Verdict::Bury { error: None, priority: None },
        ] {
            let job = Job::new("orders", "x").id("1").on_conflict(OnConflict::Replace);
            t.add(job).await;
            let held = t.popped("orders").await;
            t.settle(&held, verdict).await.unwrap();
            is_lost(&t, &held).await;
        }
    }

    async fn a_lease_is_lost_when_its_job_is_handed_out_anew(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let first = t.popped("orders").await;
        t.settle(&first, RELEASE).await.unwrap();
        let second = t.popped("orders").await;
        assert_ne!(first.lease, second.lease);
        is_lost(&t, &first).await;
        assert!(t.finish(&second).await.changed);
    }

    async fn a_lease_is_lost_when_its_id_is_added_again(t) {
        for how in [OnConflict::Replace, OnConflict::Reject] {
            let job = Job::new("orders", "x").id("1").on_conflict(how);
            t.add(job.clone()).await;
            let held = t.popped("orders").await;
            if how == OnConflict::Reject {
                t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
            }
            t.add(job).await;
            is_lost(&t, &held).await;
            let new = t.popped("orders").await;
            is_lost(&t, &held).await;
            assert!(t.finish(&new).await.changed);
        }
    }

    async fn a_lease_of_a_job_that_is_gone_finds_nothing(t) {
        t.add(Job::new("orders", "x").id("finished")).await;
        t.add(Job::new("orders", "x").id("deleted")).await;
        t.add(Job::new("orders", "x").id("emptied")).await;
        let held = t.pop_up_to("orders", 3).await;
        t.finish(&held[0]).await;
        t.change("orders", "deleted", Action::Delete(Reach::Any)).await.unwrap();
        t.configure("orders", TopicChange::Empty).await.unwrap();
        for gone in &held {
            for verdict in verdicts() {
                let by_number = t.settle(gone, verdict.clone()).await.unwrap_err();
                assert_eq!(by_number.code(), Code::NotFound);
                assert_eq!(by_name(&t, gone, gone.lease, verdict).await, Err(Code::NotFound));
            }
        }
    }

    async fn the_lease_of_a_finished_job_can_only_finish_it_again(t) {
        t.add(Job::new("orders", "x").id("1").retain(HOUR)).await;
        let held = t.popped("orders").await;
        t.finish(&held).await;
        let before = t.get("orders", "1").await;
        for verdict in verdicts() {
            let answer = by_name(&t, &held, held.lease, verdict.clone()).await;
            match verdict {
                Verdict::Finish => assert!(!answer.unwrap().changed),
                _ => assert_eq!(answer, Err(Code::LeaseLost), "{verdict:?}"),
            }
        }
        let other = by_name(&t, &held, forged(&held), Verdict::Finish).await;
        assert_eq!(other, Err(Code::LeaseLost));
        assert_eq!(t.get("orders", "1").await, before);
    }

    async fn nobody_settles_a_job_with_anothers_lease(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        t.add(Job::new("orders", "x").id("2")).await;
        let held = t.pop_up_to("orders", 2).await;
        for lease in [held[1].lease, forged(&held[0])] {
            is_lost(&t, &Delivery { lease, ..held[0].clone() }).await;
        }
        for delivery in &held {
            assert!(t.finish(delivery).await.changed);
        }
    }

    async fn a_touch_gives_the_same_length_again_from_now(t) {
        t.add(Job::new("orders", "x").id("1").ttr(10 * SECOND)).await;
        let held = t.popped("orders").await;
        for _ in 0..3 {
            t.pass(6 * SECOND).await;
            let job = t.settle(&held, TOUCH).await.unwrap().job.unwrap();
            assert_eq!(job.reserved_until, Some(t.now().saturating_add_ms(10_000)));
        }
        t.pass(10 * SECOND - Duration::from_micros(1)).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Reserved));
        t.pass(Duration::from_micros(1)).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
    }

    async fn a_touch_gives_as_long_as_the_pop_asked_for(t) {
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        let terms = Terms { ttr: Some(ttr(10 * SECOND)), owner: None, grace: None };
        let held = t.pop_by(Ask { terms, ..over(&["orders"]) }).await.remove(0);
        t.set("orders", Settings { ttr: Some(ttr(2 * SECOND)), ..Settings::default() }).await;
        let job = t.settle(&held, TOUCH).await.unwrap().job.unwrap();
        assert_eq!(job.reserved_until, Some(t.now().saturating_add_ms(10_000)));
    }

    async fn a_touch_may_bring_a_length_of_its_own(t) {
        t.add(Job::new("orders", "x").id("1").ttr(10 * SECOND)).await;
        let held = t.popped("orders").await;
        for length in [HOUR, SECOND] {
            let touch = Verdict::Touch { ttr: Some(ttr(length)) };
            let job = t.settle(&held, touch).await.unwrap().job.unwrap();
            let until = t.now().saturating_add_ms(length.as_millis() as u64);
            assert_eq!(job.reserved_until, Some(until));
        }
        // Its own length was for once: the next plain touch is as long as the lease was given for.
        let job = t.settle(&held, TOUCH).await.unwrap().job.unwrap();
        assert_eq!(job.reserved_until, Some(t.now().saturating_add_ms(10_000)));
        t.pass(10 * SECOND).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
    }

    async fn a_touch_is_no_attempt_and_keeps_the_lease(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let held = t.popped("orders").await;
        t.settle(&held, TOUCH).await.unwrap();
        t.settle_id("orders", "1", TOUCH).await.unwrap();
        let job = t.get("orders", "1").await;
        assert_eq!((job.attempt, job.tally.reserves, job.history.len()), (1, 1, 1));
        assert!(t.finish(&held).await.changed);
    }

    async fn a_lost_owner_uses_up_the_attempts_of_its_jobs(t) {
        let (a, b) = (Owner(1), Owner(2));
        for id in ["1", "2", "3", "4"] {
            t.add(Job::new("orders", "x").id(id)).await;
        }
        let lost = [owned(&t, a).await, owned(&t, a).await];
        let others = [owned(&t, b).await, t.popped("orders").await];
        assert_eq!(t.queue.let_go(a, LetGo::Lost).await.unwrap(), 2);
        for delivery in &lost {
            let job = t.get("orders", delivery.id().as_str()).await;
            assert_eq!((job.stage, job.attempt, job.due), (Stage::Ready, 1, delivery.job.due));
            assert_eq!((job.tally.timeouts, job.tally.releases), (0, 0));
            is_lost(&t, delivery).await;
        }
        for delivery in &others {
            assert!(t.finish(delivery).await.changed);
        }
    }

    async fn an_owner_that_leaves_in_good_order_gives_the_attempts_back(t) {
        for id in ["1", "2", "3"] {
            t.add(Job::new("orders", "x").id(id).retry(Retry::none())).await;
        }
        let released = [owned(&t, Owner(1)).await, owned(&t, Owner(1)).await];
        let other = owned(&t, Owner(2)).await;
        assert_eq!(t.queue.let_go(Owner(1), LetGo::Released).await.unwrap(), 2);
        for delivery in &released {
            let job = t.get("orders", delivery.id().as_str()).await;
            assert_eq!((job.stage, job.attempt, job.due), (Stage::Ready, 0, delivery.job.due));
            assert_eq!(job.tally.releases, 1);
            is_lost(&t, delivery).await;
        }
        assert!(t.finish(&other).await.changed);
    }

    async fn the_last_attempt_lost_with_its_owner_kills_the_job(t) {
        t.add(Job::new("orders", "x").id("1").retry(Retry::none())).await;
        owned(&t, Owner(1)).await;
        assert_eq!(t.queue.let_go(Owner(1), LetGo::Lost).await.unwrap(), 1);
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.tally.timeouts, job.tally.deaths), (Stage::Dead, 0, 1));
        assert!(job.last_error.is_some());
    }

    async fn an_owner_lets_go_only_of_what_it_still_holds(t) {
        for id in ["released", "finished", "timed out", "deleted"] {
            t.add(Job::new("orders", "x").id(id).ttr(HOUR).retain(HOUR)).await;
        }
        let terms = Terms { owner: Some(Owner(1)), ttr: None, grace: None };
        let held = t.pop_by(Ask { terms, max: 4, ..over(&["orders"]) }).await;
        t.settle(&held[0], RELEASE).await.unwrap();
        t.finish(&held[1]).await;
        t.settle(&held[2], Verdict::Touch { ttr: Some(ttr(SECOND)) }).await.unwrap();
        t.change("orders", "deleted", Action::Delete(Reach::Any)).await.unwrap();
        t.pass(SECOND).await;
        let anew = t.pop_up_to("orders", 9).await;
        assert_eq!(handed(&anew), ["released", "timed out"]);
        for how in [LetGo::Lost, LetGo::Released] {
            assert_eq!(t.queue.let_go(Owner(1), how).await.unwrap(), 0);
        }
        assert_eq!(t.counts("orders").await.reserved, 2);
    }

    async fn every_way_to_a_lease_ties_it_to_its_owner(t) {
        let terms = Terms { owner: Some(Owner(1)), ttr: None, grace: None };
        let pop = t.begin(Ask { terms, wait: MINUTE, ..over(&["orders"]) });
        t.add(Job::new("orders", "x").id("waited for")).await;
        let waited = pop.await;
        t.add(Job::new("orders", "x").id("by name").delay(HOUR)).await;
        t.queue.reserve(&key("orders", "by name"), terms).await.unwrap();
        t.settle(&waited[0], TOUCH).await.unwrap();
        assert_eq!(t.queue.let_go(Owner(1), LetGo::Released).await.unwrap(), 2);
        assert_eq!(t.counts("orders").await.ready, 2);
    }

    async fn a_job_is_reserved_by_name_in_the_states_that_allow_it(t) {
        t.one_in_each_stage("orders").await;
        t.pass(SECOND).await;
        for stage in Stage::ALL {
            let before = t.get("orders", stage.as_str()).await;
            let answer = t.reserve("orders", stage.as_str()).await;
            match stage {
                Stage::Held | Stage::Reserved | Stage::Finished => {
                    assert_eq!(answer.unwrap_err().code(), Code::WrongState, "{stage}");
                    assert_eq!(t.get("orders", stage.as_str()).await, before);
                }
                _ => {
                    let got = answer.unwrap();
                    assert_eq!(got.id().as_str(), stage.as_str());
                    assert_eq!(got.job.stage, Stage::Reserved);
                    assert_eq!(got.body().as_str(), Some("old"));
                    assert_eq!(got.until, t.now().saturating_add_ms(60_000));
                    assert!(t.finish(&got).await.changed);
                }
            }
        }
        assert_eq!(t.reserve("orders", "absent").await.unwrap_err().code(), Code::NotFound);
    }

    async fn a_job_reserved_before_its_time_is_due_from_then_on(t) {
        t.one_in_each_stage("orders").await;
        let added = t.now();
        t.pass(SECOND).await;
        let now = t.now();
        for (id, attempt, due) in
            [("delayed", 1, now), ("retry", 2, now), ("ready", 1, added), ("dead", 1, now)]
        {
            let got = t.reserve("orders", id).await.unwrap();
            assert_eq!((got.job.attempt, got.job.due), (attempt, due), "{id}");
            t.settle(&got, RELEASE).await.unwrap();
            let job = t.get("orders", id).await;
            assert_eq!((job.stage, job.attempt, job.due), (Stage::Ready, attempt - 1, due), "{id}");
        }
    }

    async fn a_reserved_job_does_not_fall_due_meanwhile(t) {
        t.add(Job::new("orders", "x").id("1").delay(SECOND)).await;
        let held = t.reserve("orders", "1").await.unwrap();
        t.pass(30 * SECOND).await;
        assert!(t.pop("orders").await.is_none());
        assert!(t.finish(&held).await.changed);
    }

    async fn reserve_by_name_asks_no_pause_and_no_limit(t) {
        for id in ["1", "2", "3"] {
            t.add(Job::new("orders", "x").id(id)).await;
        }
        let (rate, concurrency) = (Some("1/d".parse().unwrap()), NonZeroU32::new(1));
        t.set("orders", Settings { rate, concurrency, ..Settings::default() }).await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["1"]);
        t.configure("orders", TopicChange::Pause(None)).await.unwrap();
        assert_eq!(t.reserve("orders", "3").await.unwrap().id().as_str(), "3");
        assert_eq!(t.counts("orders").await.reserved, 2);
    }

    async fn reserve_by_name_takes_a_number_and_terms(t) {
        let job = t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        let terms = Terms { ttr: Some(ttr(5 * SECOND)), owner: None, grace: None };
        let got = t.queue.reserve(&Key::Number(job.number), terms).await.unwrap();
        assert_eq!((got.ttr, got.until), (ttr(5 * SECOND), t.now().saturating_add_ms(5000)));
        let gone = t.queue.reserve(&Key::Number(job.number + 1), terms).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound);
    }

    async fn a_jump_of_the_clock_expires_no_lease_and_lengthens_none(t) {
        for (id, jump_ms) in [("forwards", 86_400_000), ("back", -86_400_000)] {
            t.add(Job::new("orders", "x").id(id).at(t.now()).ttr(10 * SECOND)).await;
            let held = t.popped("orders").await;
            t.jump_ms(jump_ms).await;
            t.pass(9 * SECOND).await;
            assert_eq!(t.stage("orders", id).await, Some(Stage::Reserved), "{id}");
            t.settle(&held, TOUCH).await.unwrap();
            t.pass(9 * SECOND).await;
            assert_eq!(t.stage("orders", id).await, Some(Stage::Reserved), "{id}");
            t.pass(SECOND).await;
            assert_eq!(t.stage("orders", id).await, Some(Stage::Ready), "{id}");
            t.change("orders", id, Action::Delete(Reach::Any)).await.unwrap();
        }
    }

    async fn a_lease_outlives_a_change_of_its_job_and_topic(t) {
        t.add(Job::new("orders", "x").id("1").ttr(7 * DAY)).await;
        let held = t.popped("orders").await;
        t.configure("orders", TopicChange::Pause(None)).await.unwrap();
        let target = Some("worker:".parse().unwrap());
        t.set("orders", Settings { target, ttr: Some(ttr(SECOND)), ..Settings::default() }).await;
        let patch = Patch { ttr: Edit::Set(ttr(SECOND)), priority: Some(1), ..Patch::default() };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        t.pass(6 * DAY).await;
        assert!(t.finish(&held).await.changed);
    }
}

/// Every verdict there is.
fn verdicts() -> [Verdict; 6] {
    let bury = Verdict::Bury { error: None, priority: Some(1) };
    [Verdict::Finish, failed("late"), Verdict::Again { retry_in: None }, RELEASE, TOUCH, bury]
}

/// Settles the job of this topic and id, whichever it is by now, with this lease.
async fn by_name<S: Subject>(
    t: &Trial<S>,
    delivery: &Delivery,
    lease: Lease,
    verdict: Verdict,
) -> Result<Changed, Code> {
    let key = Key::Named(delivery.topic().clone(), delivery.id().clone());
    let settle = Settle { lease: Some(lease), ..Settle::key(key, verdict) };
    t.settle_by(settle).await.map_err(|refused| refused.code())
}

/// A lease that was lost is refused whatever it says, and nothing changes.
async fn is_lost<S: Subject>(t: &Trial<S>, lost: &Delivery) {
    let (topic, id) = (lost.topic().as_str(), lost.id().as_str());
    let before = t.get(topic, id).await;
    for verdict in verdicts() {
        let answer = by_name(t, lost, lost.lease, verdict.clone()).await;
        assert_eq!(answer, Err(Code::LeaseLost), "{verdict:?}");
    }
    assert_eq!(t.get(topic, id).await, before);
}

/// A lease that nobody was given.
fn forged(delivery: &Delivery) -> Lease {
    Lease::from_u64(delivery.lease.as_u64() ^ 1)
}

/// Pops one job of `orders` for this owner.
async fn owned<S: Subject>(t: &Trial<S>, owner: Owner) -> Delivery {
    let terms = Terms { owner: Some(owner), ttr: None, grace: None };
    t.pop_by(Ask { terms, ..over(&["orders"]) }).await.remove(0)
}
