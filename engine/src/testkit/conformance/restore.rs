//! Jobs that go from one store to another, with all that is known of them.

use std::num::NonZeroU32;
use std::time::Duration;

use super::trial::{RELEASE, TOUCH, failed, key, topic};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::history::{ENTRIES_MAX, Report};
use crate::job::{Body, Confirm, Envelope, Job};
use crate::machine::{Owner, Stage};
use crate::queue::{Action, Ask, Filter, Query, Queue, Settle, Terms, UniqueIds, Verdict, Whole};
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::time::{HOUR, MINUTE, SECOND};
use crate::topic::Settings;

suite! {
    async fn a_job_of_each_state_is_in_the_other_store_as_it_was(t) {
        let other = t.another(|_| {}).await;
        t.one_in_each_stage("orders").await;
        let jobs = dump(&t, "orders").await;
        assert_eq!(jobs.len(), Stage::ALL.len());
        assert!(restored(&other, jobs.clone()).await.iter().all(|is_new| *is_new));
        assert_eq!(dump(&other, "orders").await, jobs);
        assert_eq!(other.counts("orders").await, t.counts("orders").await);
        assert_eq!(
            other.queue.dead_by_error(&topic("orders")).await.unwrap(),
            t.queue.dead_by_error(&topic("orders")).await.unwrap()
        );
    }

    async fn all_that_was_said_of_a_job_comes_along(t) {
        let retry = Retry::ladder(&[SECOND, MINUTE]).ok();
        let settings = Settings { retry, ..Settings::default() };
        t.set("orders", settings).await;
        let ladder = Retry::ladder(&[MINUTE, HOUR]).unwrap().from_due();
        let cron = Repeat::cron("0 9 * * *", Some("Asia/Shanghai")).unwrap();
        let job = Job::new("orders", Body::bytes(vec![0, 255, 10])).id("给 1").retry(ladder)
            .repeat(cron.count(NonZeroU32::new(5).unwrap())).target("https://example.org/a?b=c")
            .confirm(Confirm::Finish).envelope(Envelope::CloudEvents).content_type("image/png")
            .retain(HOUR).priority(7).ttr(20 * SECOND).delay(HOUR);
        let mut new = t.checked(job);
        new.by = "shop".parse().ok();
        new.spec.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().ok();
        t.queue.add_all(vec![new]).await.unwrap().remove(0).unwrap();
        t.add(Job::new("orders", "x".repeat(16 << 10)).id("2").held()).await;
        t.add(Job::new("orders", Body::json("{ \"a\":1 }").unwrap()).id("3").delay(MINUTE)).await;
        let jobs = dump(&t, "orders").await;
        let other = t.another(|_| {}).await;
        restored(&other, jobs.clone()).await;
        assert_eq!(dump(&other, "orders").await, jobs);
        for id in ["给 1", "2", "3"] {
            assert_eq!(info(&other, id).await, info(&t, id).await);
        }
    }

    async fn what_happened_comes_along_and_counts(t) {
        t.add(Job::new("orders", "x").id("1").retry(Retry::ladder(&[SECOND; 3]).unwrap())).await;
        t.fail(&t.popped("orders").await, "first").await;
        t.pass(SECOND).await;
        let report = Some(Report { status: Some(503), excerpt: Some("busy".into()) });
        let held = t.popped("orders").await;
        let told = Settle { report, by: "ops".parse().ok(), ..Settle::delivery(&held, failed("second")) };
        t.settle_by(told).await.unwrap();
        let jobs = dump(&t, "orders").await;
        assert_eq!((jobs[0].history.len(), jobs[0].last_error.as_deref()), (2, Some("second")));
        let other = t.another(|_| {}).await;
        restored(&other, jobs.clone()).await;
        assert_eq!(dump(&other, "orders").await, jobs);
        other.pass(2 * SECOND).await;
        let third = other.popped("orders").await;
        assert_eq!(third.job.attempt, 3);
        other.fail(&third, "third").await;
        other.pass(SECOND).await;
        other.fail(&other.popped("orders").await, "last").await;
        assert_eq!(other.stage("orders", "1").await, Some(Stage::Dead));
    }

    async fn an_error_that_the_history_has_forgotten_is_still_known(t) {
        t.add(Job::new("orders", "x").id("1").retry(Retry::none())).await;
        t.fail(&t.popped("orders").await, "long ago").await;
        t.change("orders", "1", Action::Redrive).await.unwrap();
        for _ in 0..ENTRIES_MAX {
            t.settle(&t.popped("orders").await, RELEASE).await.unwrap();
        }
        let jobs = dump(&t, "orders").await;
        assert!(jobs[0].history.iter().all(|entry| entry.error.is_none()));
        assert_eq!(jobs[0].last_error.as_deref(), Some("long ago"));
        let other = t.another(|_| {}).await;
        restored(&other, jobs.clone()).await;
        assert_eq!(dump(&other, "orders").await, jobs);
    }

    async fn a_job_that_is_there_is_left_as_it_is(t) {
        let other = t.another(|_| {}).await;
        for id in ["1", "2"] {
            t.add(Job::new("orders", "old").id(id).delay(HOUR)).await;
        }
        other.add(Job::new("orders", "new").id("2").delay(MINUTE)).await;
        let jobs = dump(&t, "orders").await;
        assert_eq!(restored(&other, jobs.clone()).await, [true, false]);
        assert_eq!(other.get("orders", "2").await.body.unwrap().as_str(), Some("new"));
        assert_eq!(restored(&other, jobs.clone()).await, [false, false]);
        // In one call, too.
        let third = t.another(|_| {}).await;
        let twice = [jobs.clone(), jobs].concat();
        assert_eq!(restored(&third, twice).await, [true, true, false, false]);
        assert_eq!(third.counts("orders").await.total(), 2);
    }

    async fn an_id_that_may_stand_in_one_topic_only_is_refused_in_another(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let other = t.another(|options| options.unique_ids = UniqueIds::Global).await;
        other.add(Job::new("mail", "x").id("1")).await;
        let answers = other.queue.restore(dump(&t, "orders").await).await.unwrap();
        assert_eq!(answers[0].as_ref().unwrap_err().code(), Code::AlreadyExists);
    }

    async fn an_id_that_stands_in_several_topics_is_found_in_all_of_them(t) {
        let other = t.another(|_| {}).await;
        for name in ["mail", "orders"] {
            t.add(Job::new(name, name).id("1").delay(HOUR)).await;
            restored(&other, dump(&t, name).await).await;
        }
        other.add(Job::new("third", "x").id("1").delay(HOUR)).await;
        assert_eq!(other.queue.find(&"1".parse().unwrap()).await.unwrap().len(), 3);
        for name in ["mail", "orders"] {
            assert_eq!(other.get(name, "1").await.body.unwrap().as_str(), Some(name));
        }
    }

    async fn numbers_are_new_and_none_is_used_twice(t) {
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        let other = t.another(|_| {}).await;
        let first = other.add(Job::new("mail", "x").id("1")).await.number;
        restored(&other, dump(&t, "orders").await).await;
        let restored = other.get("orders", "1").await.number;
        let last = other.add(Job::new("mail", "x").id("2")).await.number;
        assert!(first < restored && restored < last);
    }

    async fn a_due_time_that_has_passed_fires(t) {
        t.add(Job::new("orders", "x").id("1").delay(MINUTE)).await;
        t.add(Job::new("orders", "x").id("2").delay(HOUR)).await;
        let jobs = dump(&t, "orders").await;
        let other = t.another(|_| {}).await;
        other.pass(2 * MINUTE).await;
        let mut waiting = other.begin_one("orders", HOUR);
        restored(&other, jobs).await;
        let handed = other.answered(&mut waiting).await.unwrap();
        assert_eq!((handed.len(), handed[0].id().as_str()), (1, "1"));
        other.finish(&handed[0]).await;
        assert_eq!(other.stage("orders", "2").await, Some(Stage::Delayed));
        other.pass(HOUR).await;
        assert_eq!(other.popped("orders").await.id().as_str(), "2");
    }

    async fn a_lease_holds_in_the_other_store_until_its_end(t) {
        for id in ["1", "2"] {
            t.add(Job::new("orders", "x").id(id).ttr(MINUTE)).await;
        }
        let held = t.pop_up_to("orders", 2).await;
        t.pass(10 * SECOND).await;
        let jobs = dump(&t, "orders").await;
        let other = t.another(|_| {}).await;
        other.pass(10 * SECOND).await;
        restored(&other, jobs).await;
        assert!(other.pop("orders").await.is_none());
        let by = |id: &str, verdict| Settle {
            lease: held.iter().find(|one| one.id().as_str() == id).map(|one| one.lease),
            ..Settle::key(key("orders", id), verdict)
        };
        let wrong = Settle { lease: Some(held[1].lease), ..Settle::key(key("orders", "1"), Verdict::Finish) };
        assert_eq!(other.settle_by(wrong).await.unwrap_err().code(), Code::LeaseLost);
        assert!(other.settle_by(by("1", Verdict::Finish)).await.unwrap().changed);
        assert_eq!(other.stage("orders", "1").await, None);
        other.pass(50 * SECOND - Duration::from_millis(1)).await;
        assert_eq!(other.stage("orders", "2").await, Some(Stage::Reserved));
        other.pass(Duration::from_millis(1)).await;
        assert_eq!(other.stage("orders", "2").await, Some(Stage::Ready));
        assert_eq!(other.settle_by(by("2", TOUCH)).await.unwrap_err().code(), Code::LeaseLost);
        assert_eq!(other.popped("orders").await.job.attempt, 2);
    }

    async fn a_lease_that_is_tied_to_a_connection_is_free_of_it_elsewhere(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let terms = Terms { owner: Some(Owner(7)), ..Terms::default() };
        t.pop_by(Ask { terms, ..Ask::one(topic("orders")) }).await;
        let other = t.another(|_| {}).await;
        restored(&other, dump(&t, "orders").await).await;
        assert_eq!(other.queue.let_go(Owner(7), crate::queue::LetGo::Lost).await.unwrap(), 0);
        assert_eq!(other.stage("orders", "1").await, Some(Stage::Reserved));
    }

    async fn a_repeating_job_goes_on_where_it_was(t) {
        t.add(Job::new("orders", "x").id("1").repeat(Repeat::every(MINUTE).unwrap())).await;
        t.pass(MINUTE).await;
        t.finish(&t.popped("orders").await).await;
        let due = t.get("orders", "1").await.due;
        let jobs = dump(&t, "orders").await;
        let other = t.another(|_| {}).await;
        other.pass(MINUTE + SECOND).await;
        restored(&other, jobs).await;
        other.pass(MINUTE).await;
        let second = other.popped("orders").await;
        assert_eq!((second.job.due, second.job.occurrence), (due, 1));
        other.finish(&second).await;
        assert_eq!(other.get("orders", "1").await.due.ms_since(due), 60_000);
    }

    async fn what_is_kept_for_a_time_goes_when_that_is_over(t) {
        t.add(Job::new("orders", "x").id("1").retain(MINUTE)).await;
        let held = t.popped("orders").await;
        t.finish(&held).await;
        let other = t.another(|_| {}).await;
        restored(&other, dump(&t, "orders").await).await;
        let again = Settle { lease: Some(held.lease), ..Settle::key(key("orders", "1"), Verdict::Finish) };
        assert!(!other.settle_by(again).await.unwrap().changed);
        other.pass(MINUTE).await;
        assert_eq!(other.stage("orders", "1").await, None);
        assert!(other.topic("orders").await.is_none());
    }

    async fn a_pushed_job_waits_for_its_destination(t) {
        t.add(Job::new("orders", "x").id("1").target("https://example.org")).await;
        let other = t.another(|_| {}).await;
        restored(&other, dump(&t, "orders").await).await;
        assert!(other.pop("orders").await.is_none());
        let ask = Ask { lane: crate::queue::Lane::Push, ..Ask::one(topic("orders")) };
        assert_eq!(other.pop_by(ask).await.len(), 1);
    }

    async fn what_no_job_can_have_come_to_is_refused(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        t.popped("orders").await;
        let job = dump(&t, "orders").await.remove(0);
        let other = t.another(|_| {}).await;
        let mut never = job.clone();
        never.life.hand_outs = 0;
        let mut endless = job.clone();
        endless.reserved_until = None;
        let mut unborn = job.clone();
        unborn.life.version = 0;
        let answers = other.queue.restore(vec![never, endless, unborn, job]).await.unwrap();
        let fields: Vec<_> =
            answers.iter().map(|answer| answer.as_ref().map_err(|error| error.at_field())).collect();
        assert_eq!(fields, [Err(Some("hand_outs")), Err(Some("reserved_until")), Err(Some("version")), Ok(&true)]);
    }

    async fn all_pages_together_are_all_jobs(t) {
        let jobs = (0..25).map(|n| Job::new("orders", "x").id(n.to_string()).delay(n / 3 * SECOND));
        t.add_many(jobs).await;
        let all = dump_by(&t, Query { limit: 4, ..Query::all(topic("orders")) }).await;
        assert_eq!(all.len(), 25);
        let dead = Filter { stage: Some(Stage::Dead), ..Filter::default() };
        assert!(dump_by(&t, Query { filter: dead, ..Query::all(topic("orders")) }).await.is_empty());
    }
}

/// All jobs of a topic.
async fn dump<S: Subject>(t: &Trial<S>, name: &str) -> Vec<Whole> {
    dump_by(t, Query::all(topic(name))).await
}

async fn dump_by<S: Subject>(t: &Trial<S>, mut query: Query) -> Vec<Whole> {
    let mut all = Vec::new();
    loop {
        let page = t.queue.dump(query.clone()).await.expect("a right query");
        all.extend(page.jobs);
        match page.cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return all,
        }
    }
}

async fn restored<S: Subject>(t: &Trial<S>, jobs: Vec<Whole>) -> Vec<bool> {
    let answers = t.queue.restore(jobs).await.expect("the batch is taken");
    answers.into_iter().map(|answer| answer.expect("the job is taken")).collect()
}

/// The job as callers see it, but for its number.
async fn info<S: Subject>(t: &Trial<S>, id: &str) -> crate::queue::JobInfo {
    crate::queue::JobInfo { number: 0, ..t.get("orders", id).await }
}
