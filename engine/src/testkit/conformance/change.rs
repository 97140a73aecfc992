//! Changing jobs by hand: update, run, redrive, hold, cancel, one by one or many at once.

use std::sync::Arc;
use std::time::Duration;

use super::trial::{RELEASE, TOUCH, failed, handed, ids, key, topic};
use super::{Subject, Trial, suite};
use crate::error::{Code, Result};
use crate::history::What;
use crate::job::{Body, DELAY_MAX, Edit, Job, Patch, Target, Ttr, When};
use crate::machine::{Reach, Stage};
use crate::queue::{
    Action, Ask, Bulk, Change, Changed, Delivery, Filter, Key, Lane, Mode, Query, Queue, Sweep,
    Verdict,
};
use crate::retry::Retry;
use crate::time::{HOUR, MINUTE, SECOND, Time};
use crate::topic::Settings;

const MS: Duration = Duration::from_millis(1);
const DELETE: Action = Action::Delete(Reach::Any);

/// What a call was answered: whether it changed anything, or why not.
type Said = Result<bool, Code>;

const DONE: Said = Ok(true);
const SAME: Said = Ok(false);
const WRONG: Said = Err(Code::WrongState);
const STALE: Said = Err(Code::VersionMismatch);
const ABSENT: Said = Err(Code::NotFound);

fn said(answer: Result<Changed>) -> Said {
    answer.map(|done| done.changed).map_err(|refused| refused.code())
}

fn due_in(delay: Duration) -> Action {
    Action::Update(Patch { when: Some(When::In(delay)), ..Patch::default() })
}

fn body(text: &str) -> Action {
    Action::Update(Patch { body: Some(text.into()), ..Patch::default() })
}

fn ttr(length: Duration) -> Ttr {
    Ttr::new(length).expect("a case gives right times to run")
}

fn url() -> Target {
    "http://shop/hook".parse().expect("a case gives right targets")
}

/// One update of each part but the due time.
fn parts() -> [Action; 5] {
    [
        Patch { body: Some("y".into()), ..Patch::default() },
        Patch { priority: Some(7), ..Patch::default() },
        Patch { ttr: Edit::Set(ttr(SECOND)), ..Patch::default() },
        Patch { retry: Edit::Set(Retry::none()), ..Patch::default() },
        Patch { target: Edit::Set(url()), ..Patch::default() },
    ]
    .map(Action::Update)
}

/// Every action there is, the update once with and once without a due time.
fn every_action() -> [Action; 8] {
    let by_hand = [Action::Hold, Action::Unhold, Action::Run, Action::Redrive];
    let [hold, unhold, run, redrive] = by_hand;
    let careful = Action::Delete(Reach::Unreserved);
    [body("y"), due_in(MINUTE), hold, unhold, run, redrive, DELETE, careful]
}

/// What an action is answered in each state. Whoever is not answered as done finds the job as it
/// was.
async fn in_every_state<S: Subject>(t: &Trial<S>, action: Action) -> [Said; 7] {
    let topic = format!("{action:?}").replace(|c: char| !c.is_alphanumeric(), "");
    let topic = &topic[..topic.len().min(200)];
    let mut answers = [ABSENT; 7];
    for (stage, answer) in Stage::ALL.into_iter().zip(&mut answers) {
        t.bring(topic, stage).await;
        let before = t.get(topic, stage.as_str()).await;
        *answer = said(t.change(topic, stage.as_str(), action.clone()).await);
        if *answer != DONE {
            assert_eq!(t.get(topic, stage.as_str()).await, before, "{action:?} in {stage}");
        }
    }
    answers
}

/// All jobs of `orders`, for real.
fn sweep(bulk: Bulk) -> Sweep {
    let (topic, filter) = (topic("orders"), Filter::default());
    Sweep { topic, filter, bulk, limit: None, mode: Mode::Apply, by: None }
}

/// One job to be pushed, if one is ready.
async fn pushed<S: Subject>(t: &Trial<S>, name: &str) -> Option<Delivery> {
    t.queue.pop(Ask { lane: Lane::Push, ..Ask::one(topic(name)) }).await.unwrap().pop()
}

suite! {
    async fn every_part_can_be_changed_until_the_job_is_dead_or_finished(t) {
        for part in parts() {
            let answers = in_every_state(&t, part.clone()).await;
            assert_eq!(answers, [DONE, DONE, DONE, DONE, DONE, WRONG, WRONG], "{part:?}");
        }
    }

    async fn a_new_due_time_is_for_jobs_that_wait_or_are_ready(t) {
        let at = Action::Update(Patch { when: Some(When::At(t.after(HOUR))), ..Patch::default() });
        for update in [due_in(MINUTE), due_in(Duration::ZERO), at] {
            let answers = in_every_state(&t, update).await;
            assert_eq!(answers, [DONE, DONE, DONE, DONE, WRONG, WRONG, WRONG]);
        }
    }

    async fn run_is_for_jobs_that_wait_or_are_dead(t) {
        let answers = in_every_state(&t, Action::Run).await;
        assert_eq!(answers, [DONE, DONE, DONE, SAME, WRONG, DONE, WRONG]);
    }

    async fn redrive_is_for_dead_jobs(t) {
        let answers = in_every_state(&t, Action::Redrive).await;
        assert_eq!(answers, [WRONG, WRONG, WRONG, WRONG, WRONG, DONE, WRONG]);
    }

    async fn hold_is_for_jobs_that_wait_or_are_ready(t) {
        let answers = in_every_state(&t, Action::Hold).await;
        assert_eq!(answers, [DONE, DONE, SAME, DONE, WRONG, WRONG, WRONG]);
    }

    async fn unhold_changes_only_held_jobs(t) {
        let answers = in_every_state(&t, Action::Unhold).await;
        assert_eq!(answers, [SAME, SAME, DONE, SAME, WRONG, WRONG, WRONG]);
    }

    async fn delete_takes_a_job_in_any_state(t) {
        assert_eq!(in_every_state(&t, DELETE).await, [DONE; 7]);
    }

    async fn a_careful_delete_spares_what_somebody_holds(t) {
        let answers = in_every_state(&t, Action::Delete(Reach::Unreserved)).await;
        assert_eq!(answers, [DONE, DONE, DONE, DONE, WRONG, DONE, DONE]);
    }

    async fn a_job_that_is_not_there_cannot_be_changed(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        for action in every_action() {
            for key in [key("orders", "2"), key("elsewhere", "1"), Key::Number(0)] {
                let change = Change { if_version: Some(1), ..Change::new(key, action.clone()) };
                assert_eq!(said(t.change_by(change).await), ABSENT, "{action:?}");
            }
        }
        assert!(t.topic("elsewhere").await.is_none());
    }

    async fn a_new_due_time_leaves_the_job_in_the_kind_of_waiting_it_is_in(t) {
        for (stage, after) in [
            (Stage::Delayed, Stage::Delayed),
            (Stage::Retry, Stage::Retry),
            (Stage::Held, Stage::Held),
            (Stage::Ready, Stage::Delayed),
        ] {
            t.bring("orders", stage).await;
            let changed = t.change("orders", stage.as_str(), due_in(MINUTE)).await.unwrap();
            let job = changed.job.unwrap();
            assert_eq!((job.stage, job.due), (after, t.after(MINUTE)), "{stage}");
        }
        t.pass(MINUTE - MS).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(MS).await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["delayed", "retry", "ready"]);
    }

    async fn a_due_time_that_is_past_makes_the_job_ready_for_who_waits(t) {
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        let waiting = t.begin_one("orders", MINUTE);
        let past = t.now().saturating_sub_ms(5);
        let update = Patch { when: Some(When::At(past)), ..Patch::default() };
        t.change("orders", "1", Action::Update(update)).await.unwrap();
        assert_eq!(waiting.await[0].job.due, past);
    }

    async fn parts_that_are_not_named_stay_as_they_were(t) {
        let job = Job::new("orders", "x").id("1").delay(HOUR).ttr(SECOND).priority(7);
        t.add(job.retry(Retry::none()).target("http://a")).await;
        let before = t.get("orders", "1").await;
        t.change("orders", "1", body("y")).await.unwrap();
        let after = t.get("orders", "1").await;
        assert_eq!((after.spec, after.due, after.priority), (before.spec, before.due, 7));
        assert_eq!(after.body, Some(Body::text("y")));
    }

    async fn a_waiting_job_is_handed_out_with_its_new_parts(t) {
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        for part in parts() {
            t.change("orders", "1", part).await.unwrap();
        }
        t.change("orders", "1", due_in(Duration::ZERO)).await.unwrap();
        assert!(t.pop("orders").await.is_none());
        let delivery = pushed(&t, "orders").await.unwrap();
        assert_eq!((delivery.body().as_str(), delivery.job.priority), (Some("y"), 7));
        assert_eq!((delivery.ttr, delivery.target.as_ref()), (ttr(SECOND), Some(&url())));
        assert_eq!(t.fail(&delivery, "no").await.job.unwrap().stage, Stage::Dead);
    }

    async fn a_new_priority_moves_a_ready_job_at_once(t) {
        for id in ["1", "2", "3"] {
            t.add(Job::new("orders", "x").id(id)).await;
        }
        for (id, priority) in [("1", 2000), ("3", 1)] {
            let patch = Patch { priority: Some(priority), ..Patch::default() };
            t.change("orders", id, Action::Update(patch)).await.unwrap();
        }
        assert_eq!(t.counts("orders").await.urgent, 1);
        assert_eq!(handed(&t.pop_up_to("orders", 3).await), ["3", "2", "1"]);
    }

    async fn a_new_target_moves_a_ready_job_at_once(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let mut pushes = t.begin(Ask {
            lane: Lane::Push,
            wait: MINUTE,
            ..Ask::one(topic("orders"))
        });
        assert!(t.answered(&mut pushes).await.is_none());
        let patch = Patch { target: Edit::Set(url()), ..Patch::default() };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        assert_eq!(pushes.await[0].target, Some(url()));
    }

    async fn a_change_while_reserved_reaches_the_next_attempt_and_no_earlier(t) {
        t.add(Job::new("orders", "x").id("1").ttr(MINUTE)).await;
        let first = t.popped("orders").await;
        for part in parts() {
            t.change("orders", "1", part).await.unwrap();
        }
        let touched = t.settle(&first, TOUCH).await.unwrap().job.unwrap();
        assert_eq!(touched.reserved_until, Some(t.after(MINUTE)));
        t.settle(&first, RELEASE).await.unwrap();
        let next = pushed(&t, "orders").await.unwrap();
        assert_eq!((next.body().as_str(), next.ttr), (Some("y"), ttr(SECOND)));
        assert_eq!((next.target, next.job.priority), (Some(url()), 7));
    }

    async fn a_new_ladder_given_while_reserved_decides_when_the_next_attempt_is(t) {
        t.add(Job::new("orders", "x").id("1").retry(Retry::none())).await;
        let delivery = t.popped("orders").await;
        let ladder = Retry::ladder(&[MINUTE]).unwrap();
        let patch = Patch { retry: Edit::Set(ladder), ..Patch::default() };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        let job = t.fail(&delivery, "no").await.job.unwrap();
        assert_eq!((job.stage, job.due), (Stage::Retry, t.after(MINUTE)));
    }

    async fn a_new_due_time_while_reserved_changes_nothing_not_even_the_other_parts(t) {
        let holder = t.bring("orders", Stage::Reserved).await;
        let before = t.get("orders", "reserved").await;
        let patch = Patch {
            when: Some(When::In(MINUTE)),
            body: Some("y".into()),
            priority: Some(7),
            ttr: Edit::Set(ttr(SECOND)),
            retry: Edit::Set(Retry::none()),
            target: Edit::Set(url()),
        };
        let refused = t.change("orders", "reserved", Action::Update(patch)).await;
        assert_eq!(said(refused), WRONG);
        assert_eq!(t.get("orders", "reserved").await, before);
        assert!(t.finish(&holder).await.changed);
    }

    async fn what_is_cleared_is_the_topics_again(t) {
        t.set("orders", Settings {
            ttr: Some(ttr(SECOND)),
            retry: Some(Retry::none()),
            target: Some(url()),
            ..Settings::default()
        }).await;
        let job = Job::new("orders", "x").id("1").ttr(HOUR).target("http://own");
        t.add(job.retry(Retry::no_limit())).await;
        let patch = Patch {
            ttr: Edit::Clear,
            retry: Edit::Clear,
            target: Edit::Clear,
            ..Patch::default()
        };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        let delivery = pushed(&t, "orders").await.unwrap();
        assert_eq!((delivery.ttr, delivery.target.as_ref()), (ttr(SECOND), Some(&url())));
        assert_eq!(t.fail(&delivery, "no").await.job.unwrap().stage, Stage::Dead);
    }

    async fn a_cleared_target_lets_a_job_be_popped(t) {
        t.add(Job::new("orders", "x").id("1").target("http://own")).await;
        assert!(t.pop("orders").await.is_none());
        let patch = Patch { target: Edit::Clear, ..Patch::default() };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        assert_eq!(t.popped("orders").await.target, None);
    }

    async fn a_delay_too_long_is_invalid_before_anything_else_is_looked_at(t) {
        t.bring("orders", Stage::Reserved).await;
        for id in ["nobody", "reserved"] {
            let change = Change::new(key("orders", id), due_in(DELAY_MAX + MS));
            let change = Change { if_version: Some(0), ..change };
            let refused = t.change_by(change).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("delay")));
        }
    }

    async fn a_due_time_may_be_the_last_there_is(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let patch = Patch { when: Some(When::At(Time::MAX)), ..Patch::default() };
        let job = t.change("orders", "1", Action::Update(patch)).await.unwrap().job.unwrap();
        assert_eq!((job.stage, job.due), (Stage::Delayed, Time::MAX));
    }

    async fn a_change_that_names_a_version_is_made_only_to_that_version(t) {
        for action in every_action() {
            let stage = if action == Action::Redrive { Stage::Dead } else { Stage::Held };
            t.bring("orders", stage).await;
            let job = t.get("orders", stage.as_str()).await;
            let at = |version| Change {
                if_version: Some(version),
                ..Change::new(Key::Number(job.number), action.clone())
            };
            assert_eq!(said(t.change_by(at(job.version + 1)).await), STALE, "{action:?}");
            assert_eq!(said(t.change_by(at(job.version - 1)).await), STALE, "{action:?}");
            assert_eq!(t.get("orders", stage.as_str()).await, job, "{action:?}");
            let expected = if action == Action::Hold { SAME } else { DONE };
            assert_eq!(said(t.change_by(at(job.version)).await), expected, "{action:?}");
            t.change("orders", stage.as_str(), DELETE).await.ok();
        }
    }

    async fn a_wrong_version_is_said_before_a_wrong_state(t) {
        t.bring("orders", Stage::Reserved).await;
        let version = t.get("orders", "reserved").await.version;
        for (seen, expected) in [(version + 1, STALE), (version, WRONG)] {
            let change = Change::new(key("orders", "reserved"), Action::Hold);
            let change = Change { if_version: Some(seen), ..change };
            assert_eq!(said(t.change_by(change).await), expected);
        }
    }

    async fn a_batch_is_changed_item_by_item_in_order(t) {
        let version = t.add(Job::new("orders", "x").id("1").delay(HOUR)).await.version;
        let change = |action| Change {
            if_version: Some(version),
            ..Change::new(key("orders", "1"), action)
        };
        let answers = t.queue.change(vec![
            change(Action::Hold),
            change(Action::Run),
            Change::new(key("orders", "1"), DELETE),
            change(DELETE),
        ]).await.unwrap();
        let answers: Vec<Said> = answers.into_iter().map(said).collect();
        assert_eq!(answers, [DONE, STALE, DONE, ABSENT]);
    }

    async fn each_change_adds_one_to_the_version(t) {
        let mut version = t.add(Job::new("orders", "x").id("1").delay(HOUR)).await.version;
        for action in [body("y"), due_in(MINUTE), Action::Hold, Action::Unhold, Action::Run] {
            version += 1;
            let job = t.change("orders", "1", action.clone()).await.unwrap().job.unwrap();
            assert_eq!(job.version, version, "{action:?}");
        }
        for verdict in [TOUCH, RELEASE, failed("no")] {
            if t.stage("orders", "1").await != Some(Stage::Reserved) {
                version += 1;
                assert_eq!(t.popped("orders").await.job.version, version);
            }
            version += 1;
            let job = t.settle_id("orders", "1", verdict.clone()).await.unwrap().job.unwrap();
            assert_eq!(job.version, version, "{verdict:?}");
        }
    }

    async fn becoming_due_and_what_changes_nothing_leave_the_version(t) {
        let version = t.add(Job::new("orders", "x").id("1").delay(MINUTE)).await.version;
        t.change("orders", "1", Action::Unhold).await.unwrap();
        t.change("orders", "1", Action::Redrive).await.unwrap_err();
        t.settle_id("orders", "1", failed("no")).await.unwrap_err();
        t.pass(MINUTE).await;
        t.change("orders", "1", Action::Run).await.unwrap();
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.version), (Stage::Ready, version));
        assert_eq!(job.history.len(), 1);
    }

    async fn run_makes_a_job_ready_and_due_now(t) {
        let waiting = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        t.pass(SECOND).await;
        let job = t.change("orders", "1", Action::Run).await.unwrap().job.unwrap();
        assert_eq!((job.stage, job.due), (Stage::Ready, t.now()));
        assert_eq!(t.get("orders", "1").await.tally.kicks, 1);
        assert_eq!(handed(&waiting.await), ["1"]);
        let history = t.get("orders", "1").await.history;
        assert_eq!(history.last().unwrap().what, What::Run);
    }

    async fn run_keeps_the_attempts_of_a_job_in_retry(t) {
        t.bring("orders", Stage::Retry).await;
        t.pass(MINUTE).await;
        let job = t.change("orders", "retry", Action::Run).await.unwrap().job.unwrap();
        assert_eq!((job.stage, job.due, job.attempt), (Stage::Ready, t.now(), 1));
    }

    async fn run_takes_a_held_job_as_it_is(t) {
        t.add(Job::new("orders", "x").id("early").delay(HOUR).held()).await;
        t.add(Job::new("orders", "x").id("late").held()).await;
        t.pass(MINUTE).await;
        for id in ["early", "late"] {
            t.change("orders", id, Action::Run).await.unwrap();
            assert_eq!(t.popped("orders").await.job.due, t.now(), "{id}");
        }
    }

    async fn a_held_job_is_not_handed_out_until_it_is_let_go(t) {
        t.add(Job::new("orders", "x").id("delayed").delay(MINUTE)).await;
        t.add(Job::new("orders", "x").id("ready")).await;
        for id in ["delayed", "ready"] {
            let job = t.change("orders", id, Action::Hold).await.unwrap().job.unwrap();
            assert_eq!(job.stage, Stage::Held);
        }
        t.pass(HOUR).await;
        assert!(t.pop("orders").await.is_none());
        let due = t.get("orders", "delayed").await.due;
        let job = t.change("orders", "delayed", Action::Unhold).await.unwrap().job.unwrap();
        assert_eq!((job.stage, job.due), (Stage::Ready, due));
        t.change("orders", "ready", Action::Unhold).await.unwrap();
        assert_eq!(handed(&t.pop_up_to("orders", 2).await), ["ready", "delayed"]);
    }

    async fn a_job_let_go_before_its_time_waits_for_it(t) {
        for (id, stage) in [("delayed", Stage::Delayed), ("retry", Stage::Retry)] {
            t.bring("orders", stage).await;
            let due = t.get("orders", id).await.due;
            t.change("orders", id, Action::Hold).await.unwrap();
            let job = t.change("orders", id, Action::Unhold).await.unwrap().job.unwrap();
            assert_eq!((job.stage, job.due), (stage, due));
        }
        assert!(t.pop("orders").await.is_none());
        t.pass(HOUR).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 2);
    }

    async fn a_job_let_go_when_its_time_has_passed_goes_to_who_waits(t) {
        t.add(Job::new("orders", "x").id("1").held()).await;
        let mut waiting = t.begin_one("orders", MINUTE);
        assert!(t.answered(&mut waiting).await.is_none());
        t.change("orders", "1", Action::Unhold).await.unwrap();
        assert_eq!(handed(&waiting.await), ["1"]);
    }

    async fn a_cancelled_job_is_never_handed_out(t) {
        t.add(Job::new("orders", "x").id("delayed").delay(MINUTE)).await;
        t.add(Job::new("orders", "x").id("held").held()).await;
        t.bring("orders", Stage::Retry).await;
        t.add(Job::new("orders", "x").id("ready")).await;
        for id in ["delayed", "held", "retry", "ready"] {
            assert_eq!(t.change("orders", id, DELETE).await.unwrap().job, None);
            assert_eq!(t.stage("orders", id).await, None);
        }
        let waiting = t.begin_one("orders", 2 * HOUR);
        t.pass(2 * HOUR).await;
        assert!(waiting.await.is_empty());
        assert_eq!(t.queue.stats().await.unwrap().deleted, 4);
    }

    async fn the_holder_of_a_cancelled_job_is_told_that_it_is_not_found(t) {
        let holder = t.bring("orders", Stage::Reserved).await;
        t.change("orders", "reserved", DELETE).await.unwrap();
        for verdict in [Verdict::Finish, failed("no"), RELEASE, TOUCH] {
            assert_eq!(said(t.settle(&holder, verdict).await), ABSENT);
        }
        t.pass(HOUR).await;
        assert!(t.pop("orders").await.is_none());
        assert!(t.topic("orders").await.is_none());
    }

    async fn the_holder_of_a_cancelled_job_cannot_settle_one_added_in_its_place(t) {
        let holder = t.bring("orders", Stage::Reserved).await;
        t.change("orders", "reserved", DELETE).await.unwrap();
        let second = t.add(Job::new("orders", "y").id("reserved")).await;
        assert_ne!(second.number, holder.job.number);
        assert_eq!(said(t.settle(&holder, Verdict::Finish).await), ABSENT);
        let delivery = t.popped("orders").await;
        assert_eq!(delivery.body().as_str(), Some("y"));
        assert!(t.finish(&delivery).await.changed);
    }

    async fn the_history_says_what_was_changed_when_and_by_whom(t) {
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        let by = Some("alice".parse().unwrap());
        for (action, what) in [
            (body("y"), What::Updated),
            (Action::Hold, What::Held),
            (Action::Unhold, What::Unheld),
            (Action::Run, What::Run),
        ] {
            t.pass(SECOND).await;
            let change = Change::new(key("orders", "1"), action);
            t.change_by(Change { by: by.clone(), ..change }).await.unwrap();
            let entry = t.get("orders", "1").await.history.pop().unwrap();
            assert_eq!((entry.what, entry.at, &entry.by), (what, t.now(), &by));
        }
        assert_eq!(t.get("orders", "1").await.history.len(), 5);
    }

    async fn a_sweep_does_to_each_state_what_the_single_call_does(t) {
        for (bulk, counted, stages) in [
            (Bulk::Finish, 5, "finished finished finished finished finished dead finished"),
            (Bulk::Delete, 7, "gone gone gone gone gone gone gone"),
            (Bulk::Run, 4, "ready ready ready ready reserved ready finished"),
            (Bulk::Hold, 3, "held held held held reserved dead finished"),
            (Bulk::Unhold, 1, "delayed retry ready ready reserved dead finished"),
            (Bulk::Redrive, 1, "delayed retry held ready reserved ready finished"),
        ] {
            let name = &format!("{bulk:?}");
            for stage in Stage::ALL {
                t.bring(name, stage).await;
            }
            let before = t.browse(Query::all(topic(name))).await;
            let dry = t.sweep_as(name, Filter::default(), bulk, Mode::DryRun).await;
            assert_eq!(dry, counted, "dry {bulk:?}");
            assert_eq!(t.browse(Query::all(topic(name))).await, before, "dry {bulk:?}");
            assert_eq!(t.sweep(name, Filter::default(), bulk).await, counted, "{bulk:?}");
            for (id, expected) in Stage::ALL.into_iter().zip(stages.split(' ')) {
                let stage = t.stage(name, id.as_str()).await;
                assert_eq!(stage.map_or("gone", Stage::as_str), expected, "{bulk:?} of {id}");
            }
        }
    }

    async fn a_sweep_takes_the_jobs_that_fit_its_filter(t) {
        for (id, delay) in [("a1", 10), ("a2", 20), ("b1", 20), ("b2", 30)] {
            t.add(Job::new("orders", "x").id(id).delay(delay * SECOND)).await;
        }
        t.change("orders", "a1", Action::Hold).await.unwrap();
        let none = Filter::default;
        let (at, prefix) = (Some(t.after(20 * SECOND)), Some(Arc::from("a")));
        for (filter, expected) in [
            (none(), 4),
            (Filter { stage: Some(Stage::Held), ..none() }, 1),
            (Filter { stage: Some(Stage::Dead), ..none() }, 0),
            (Filter { due_after: at, ..none() }, 3),
            (Filter { due_before: at, ..none() }, 1),
            (Filter { id_prefix: prefix.clone(), ..none() }, 2),
            (Filter { due_after: at, id_prefix: prefix.clone(), ..none() }, 1),
            (Filter { due_after: at, due_before: Some(t.after(30 * SECOND)), ..none() }, 2),
            (Filter { stage: Some(Stage::Held), due_after: at, ..none() }, 0),
        ] {
            let counted = t.sweep_as("orders", filter.clone(), Bulk::Delete, Mode::DryRun).await;
            assert_eq!(counted, expected, "{filter:?}");
        }
        let filter = Filter { due_after: at, id_prefix: prefix, ..none() };
        t.sweep("orders", filter, Bulk::Delete).await;
        assert_eq!(ids(&t.browse(Query::all(topic("orders"))).await), ["a1", "b1", "b2"]);
    }

    async fn a_span_of_due_times_has_the_same_edges_in_every_order(t) {
        // Ready jobs stand by priority, so a span is no stretch of their order.
        for (id, priority, delay) in [("1", 3, 1), ("2", 1, 2), ("3", 2, 3)] {
            let job = Job::new("orders", "x").id(id).priority(priority);
            t.add(job.delay(delay * SECOND)).await;
        }
        let (due_after, due_before) = (Some(t.after(2 * SECOND)), Some(t.after(3 * SECOND)));
        t.pass(MINUTE).await;
        let stage = Some(Stage::Ready);
        let filter = Filter { stage, due_after, due_before, ..Filter::default() };
        assert_eq!(t.sweep("orders", filter, Bulk::Delete).await, 1);
        assert_eq!(ids(&t.browse(Query::all(topic("orders"))).await), ["1", "3"]);
    }

    async fn a_sweep_by_error_takes_exactly_that_error(t) {
        for (id, error) in [("1", "timeout"), ("2", "timeout after 3 s"), ("3", "timeout")] {
            t.add(Job::new("orders", "x").id(id).retry(Retry::none())).await;
            let delivery = t.popped("orders").await;
            t.fail(&delivery, error).await;
        }
        let filter = Filter { error: Some("timeout".into()), ..Filter::default() };
        assert_eq!(t.sweep("orders", filter, Bulk::Redrive).await, 2);
        assert_eq!(ids(&t.in_stage("orders", Stage::Ready).await), ["1", "3"]);
        assert_eq!(ids(&t.in_stage("orders", Stage::Dead).await), ["2"]);
    }

    async fn a_sweep_with_a_limit_takes_the_first_in_browse_order(t) {
        for (id, priority, delay) in [("1", 9, 0), ("2", 5, 0), ("3", 7, 0), ("4", 1, 60)] {
            let job = Job::new("orders", "x").id(id).priority(priority);
            t.add(job.delay(delay * SECOND)).await;
        }
        let filter = Filter { stage: Some(Stage::Ready), ..Filter::default() };
        for (mode, expected) in [(Mode::DryRun, 4), (Mode::Apply, 2)] {
            let filter = filter.clone();
            let sweep = Sweep { filter, limit: Some(2), mode, ..sweep(Bulk::Delete) };
            assert_eq!(t.queue.sweep(sweep).await.unwrap(), 2);
            assert_eq!(t.counts("orders").await.total(), expected);
        }
        assert_eq!(ids(&t.browse(Query::all(topic("orders"))).await), ["1", "4"]);
    }

    async fn a_limit_counts_what_was_done_not_what_was_passed_over(t) {
        for stage in [Stage::Reserved, Stage::Ready, Stage::Delayed] {
            t.bring("orders", stage).await;
        }
        let sweep = Sweep { limit: Some(1), ..sweep(Bulk::Run) };
        assert_eq!(t.queue.sweep(sweep).await.unwrap(), 1);
        assert_eq!(t.stage("orders", "delayed").await, Some(Stage::Ready));
    }

    async fn a_sweep_may_take_thousands(t) {
        let new = |n: u32| t.checked(Job::new("orders", "x").id(n.to_string()).delay(HOUR));
        t.queue.add_all((0..2500).map(new).collect()).await.unwrap();
        assert_eq!(t.sweep("orders", Filter::default(), Bulk::Run).await, 2500);
        assert_eq!(t.counts("orders").await.ready, 2500);
        assert_eq!(t.sweep("orders", Filter::default(), Bulk::Delete).await, 2500);
        assert!(t.topic("orders").await.is_none());
    }

    async fn a_sweep_leaves_other_topics_alone(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        assert_eq!(t.sweep("elsewhere", Filter::default(), Bulk::Delete).await, 0);
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
        assert!(t.topic("elsewhere").await.is_none());
    }

    async fn a_sweep_says_in_the_history_who_did_it(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let by = Some("alice".parse().unwrap());
        let sweep = Sweep { by: by.clone(), ..sweep(Bulk::Hold) };
        t.queue.sweep(sweep).await.unwrap();
        let entry = t.get("orders", "1").await.history.pop().unwrap();
        assert_eq!((entry.what, entry.by), (What::Held, by));
    }

    async fn swept_jobs_go_to_who_waits(t) {
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        let waiting = t.begin_one("orders", MINUTE);
        t.sweep("orders", Filter::default(), Bulk::Run).await;
        assert_eq!(handed(&waiting.await), ["1"]);
    }

    async fn the_holder_of_a_swept_job_is_told(t) {
        for (bulk, told) in [(Bulk::Finish, SAME), (Bulk::Delete, ABSENT)] {
            let name = &format!("{bulk:?}");
            let holder = t.bring(name, Stage::Reserved).await;
            t.sweep(name, Filter::default(), bulk).await;
            assert_eq!(said(t.settle(&holder, Verdict::Finish).await), told, "{bulk:?}");
        }
    }
}
