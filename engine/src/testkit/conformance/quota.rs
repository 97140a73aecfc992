//! What a topic may have at most: jobs, and bytes of their bodies.

use std::num::{NonZeroU32, NonZeroU64};

use super::trial::{handed, topic};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::job::{Confirm, Envelope, Job, OnConflict, Patch};
use crate::machine::Reach;
use crate::queue::{Action, Bodies, How, Query, Queue, TopicChange};
use crate::retry::Retry;
use crate::schedule::{Misfire, Repeat};
use crate::time::{DAY, HOUR, MINUTE, SECOND};
use crate::topic::Settings;

suite! {
    async fn a_full_topic_refuses_one_job_more_and_says_so(t) {
        t.set("orders", no_more_than(2)).await;
        t.add_many(["1", "2"].map(job)).await;
        let refused = t.try_add(job("3")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Overloaded);
        let told = "topic `orders` has 2 jobs, which is its limit jobs_max; try again when some are gone";
        assert_eq!(refused.message(), told);
        assert_eq!(t.stage("orders", "3").await, None);
        // Others are not held up.
        t.add(Job::new("other", "x").id("3")).await;
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        t.add(job("3")).await;
        t.try_add(job("4")).await.unwrap_err();
    }

    async fn a_topic_is_full_by_jobs_in_whatever_state(t) {
        t.one_in_each_stage("orders").await;
        let jobs = t.counts("orders").await.total() as u32;
        t.set("orders", no_more_than(jobs)).await;
        t.try_add(job("more")).await.unwrap_err();
        t.set("orders", no_more_than(jobs + 1)).await;
        t.add(job("more")).await;
        t.try_add(job("and more")).await.unwrap_err();
        t.set("orders", Settings::default()).await;
        t.add(job("and more")).await;
    }

    async fn a_finished_job_makes_room_when_it_goes(t) {
        let keeps = Settings { retain: Some(MINUTE), ..no_more_than(1) };
        t.set("orders", keeps).await;
        t.add(job("1")).await;
        let delivery = t.popped("orders").await;
        t.finish(&delivery).await;
        t.try_add(job("2")).await.unwrap_err();
        t.pass(MINUTE).await;
        t.add(job("2")).await;
    }

    async fn a_batch_is_taken_as_far_as_there_is_room(t) {
        t.set("orders", no_more_than(2)).await;
        let now = t.queue.clock().now().time();
        let batch = ["1", "2", "3"].map(job).into_iter().chain([Job::new("other", "x").id("4")]);
        let batch = batch.map(|job| job.check(now).unwrap()).collect();
        let codes: Vec<_> = t
            .queue
            .add_all(batch)
            .await
            .unwrap()
            .into_iter()
            .map(|added| added.err().map(|refused| refused.code()))
            .collect();
        assert_eq!(codes, [None, None, Some(Code::Overloaded), None]);
        assert_eq!(t.counts("orders").await.total(), 2);
    }

    async fn what_brings_no_job_more_is_done_in_a_full_topic(t) {
        t.set("orders", no_more_than(1)).await;
        t.add(job("1")).await;
        let replaced = t.try_add(job("1").on_conflict(OnConflict::Replace)).await.unwrap();
        assert_eq!(replaced.how, How::Replaced);
        let kept = t.try_add(job("1").on_conflict(OnConflict::Keep)).await.unwrap();
        assert_eq!(kept.how, How::Kept);
        let taken = t.try_add(job("1")).await.unwrap_err();
        assert_eq!(taken.code(), Code::AlreadyExists);
        // Fuller than it may be, which is only said of what is to come.
        t.set("orders", Settings::default()).await;
        t.add(job("2")).await;
        t.set("orders", no_more_than(1)).await;
        let replaced = t.try_add(job("2").on_conflict(OnConflict::Replace)).await.unwrap();
        assert_eq!(replaced.how, How::Replaced);
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["1", "2"]);
    }

    async fn a_topic_takes_no_more_bytes_of_bodies_than_it_may_and_says_so(t) {
        t.set("orders", no_heavier_than(10)).await;
        t.add_many([heavy("1", 4), heavy("2", 5)]).await;
        let refused = t.try_add(heavy("3", 2)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Overloaded);
        let told = "topic `orders` would have more than 10 bytes of bodies, which is its limit \
                    bytes_max; try again when some jobs are gone";
        assert_eq!(refused.message(), told);
        assert_eq!(t.stage("orders", "3").await, None);
        assert_eq!(bytes(&t).await, Some(9));
        t.add(heavy("3", 1)).await;
        // What weighs nothing, and others, are not held up.
        t.add(heavy("4", 0)).await;
        t.add(Job::new("other", "xx").id("5")).await;
        t.try_add(heavy("5", 1)).await.unwrap_err();
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        assert_eq!(bytes(&t).await, Some(6));
        t.add(heavy("5", 4)).await;
        t.try_add(heavy("6", 1)).await.unwrap_err();
        assert_eq!(t.topic("other").await.unwrap().bytes, None);
    }

    async fn a_batch_is_taken_as_far_as_its_bodies_find_room(t) {
        t.set("orders", no_heavier_than(5)).await;
        let batch = [heavy("1", 3), heavy("2", 3), heavy("3", 2), heavy("4", 1)];
        let batch = batch.map(|job| t.checked(job)).into();
        let added = t.queue.add_all(batch).await.unwrap();
        let codes: Vec<_> =
            added.into_iter().map(|added| added.err().map(|refused| refused.code())).collect();
        assert_eq!(codes, [None, Some(Code::Overloaded), None, Some(Code::Overloaded)]);
        assert_eq!(bytes(&t).await, Some(5));
    }

    async fn a_body_in_place_of_another_counts_by_how_much_it_is_larger(t) {
        t.set("orders", no_heavier_than(10)).await;
        t.add_many([heavy("1", 4), heavy("2", 4)]).await;
        let replace = |bytes| heavy("1", bytes).on_conflict(OnConflict::Replace);
        assert_eq!(t.try_add(replace(7)).await.unwrap_err().code(), Code::Overloaded);
        let body_of = async |id| t.get("orders", id).await.body.unwrap().as_bytes().len();
        assert_eq!(body_of("1").await, 4);
        assert_eq!(t.try_add(replace(6)).await.unwrap().how, How::Replaced);
        assert_eq!(bytes(&t).await, Some(10));
        let kept = t.try_add(heavy("1", 99).on_conflict(OnConflict::Keep)).await.unwrap();
        assert_eq!(kept.how, How::Kept);
        assert_eq!(t.try_add(heavy("1", 99)).await.unwrap_err().code(), Code::AlreadyExists);
        // Heavier than it may be, which is only said of what is to come.
        t.set("orders", no_heavier_than(1)).await;
        assert_eq!(t.try_add(replace(6)).await.unwrap().how, How::Replaced);
        assert_eq!(t.try_add(replace(5)).await.unwrap().how, How::Replaced);
        assert_eq!(bytes(&t).await, Some(9));
    }

    async fn an_update_counts_by_how_much_it_is_larger(t) {
        t.set("orders", no_heavier_than(10)).await;
        t.add_many([heavy("1", 4), heavy("2", 4)]).await;
        let refused = t.change("orders", "1", body(7)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Overloaded);
        let job = t.get("orders", "1").await;
        assert_eq!((job.body.unwrap().as_bytes().len(), job.version), (4, 1));
        t.change("orders", "1", body(6)).await.unwrap();
        assert_eq!(bytes(&t).await, Some(10));
        // One that leaves the body alone is done, and so is one that makes it smaller.
        let sooner = Patch { priority: Some(1), ..Patch::default() };
        t.change("orders", "1", Action::Update(sooner)).await.unwrap();
        t.change("orders", "1", body(1)).await.unwrap();
        assert_eq!(bytes(&t).await, Some(5));
        t.add(heavy("3", 5)).await;
        t.try_add(heavy("4", 1)).await.unwrap_err();
    }

    async fn bodies_weigh_in_whatever_state_until_their_jobs_are_gone(t) {
        t.one_in_each_stage("orders").await;
        // Some of what is there was there before it was counted.
        t.set("orders", no_heavier_than(1000)).await;
        let mut all = 0;
        let query = Query { bodies: Bodies::With, ..Query::all(topic("orders")) };
        for job in t.browse(query).await {
            all += job.body.unwrap().as_bytes().len() as u64;
        }
        assert_eq!(bytes(&t).await, Some(all));
        t.configure("orders", TopicChange::Empty).await.unwrap();
        assert_eq!(bytes(&t).await, Some(0));
        let keeps = Settings { retain: Some(MINUTE), ..no_heavier_than(3) };
        t.set("orders", keeps).await;
        t.add(heavy("1", 3)).await;
        let delivery = t.popped("orders").await;
        t.finish(&delivery).await;
        t.try_add(heavy("2", 1)).await.unwrap_err();
        t.pass(MINUTE).await;
        t.add(heavy("2", 3)).await;
        let delivery = t.popped("orders").await;
        t.set("orders", no_heavier_than(3)).await;
        t.finish(&delivery).await;
        assert_eq!(bytes(&t).await, Some(0));
        t.set("orders", Settings::default()).await;
        assert_eq!(t.topic("orders").await.map(|topic| topic.bytes), None);
    }

    async fn only_the_body_weighs_whatever_else_a_job_says(t) {
        t.set("orders", no_heavier_than(1000)).await;
        let zone = Some("Europe/Berlin");
        let cron = || Repeat::cron("0 9 * * mon-fri", zone).unwrap();
        let ladder = Retry::ladder(&[SECOND, 200 * SECOND, HOUR]).unwrap();
        let all = NonZeroU32::new(300).unwrap();
        let jobs = [
            heavy("plain", 1),
            heavy("long", 200),
            heavy("ttr", 2).ttr(HOUR).priority(70_000),
            heavy("backoff", 4).retry(Retry::backoff(SECOND, DAY, 0.25).unwrap()),
            heavy("ladder", 8).retry(ladder.clone()),
            heavy("from due", 16).retry(ladder.clone().from_due()),
            heavy("every", 32).repeat(Repeat::every(HOUR).unwrap().count(all)),
            heavy("cron", 64).repeat(cron().until(t.after(400 * DAY))),
            heavy("missed", 128).repeat(cron().misfire(Misfire::All(all)).unwrap()),
            heavy("much", 256)
                .delay(HOUR)
                .content_type("text/plain; charset=utf-8")
                .ttr(SECOND)
                .retry(ladder)
                .repeat(cron())
                .target("https://shop.example/hooks")
                .confirm(Confirm::Finish)
                .envelope(Envelope::CloudEvents)
                .retain(DAY + SECOND / 3),
        ];
        let mut jobs = jobs.map(|job| t.checked(job));
        let traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        for job in &mut jobs[7..] {
            job.by = Some("ann".parse().unwrap());
            job.spec.traceparent = Some(traced.parse().unwrap());
        }
        for added in t.queue.add_all(jobs.into()).await.unwrap() {
            added.unwrap();
        }
        assert_eq!(bytes(&t).await, Some(711));
        t.change("orders", "much", body(0)).await.unwrap();
        assert_eq!(bytes(&t).await, Some(455));
    }

    async fn what_is_taken_in_from_elsewhere_is_not_held_up_and_weighs(t) {
        t.add_many([heavy("1", 4), heavy("2", 5)]).await;
        let other = t.another(|_| {}).await;
        other.set("orders", no_heavier_than(5)).await;
        let page = t.queue.dump(Query::all(topic("orders"))).await.unwrap();
        for taken in other.queue.restore(page.jobs).await.unwrap() {
            assert!(taken.unwrap());
        }
        assert_eq!(bytes(&other).await, Some(9));
        other.try_add(heavy("3", 1)).await.unwrap_err();
    }
}

fn job(id: &str) -> Job {
    Job::new("orders", "x").id(id)
}

fn no_more_than(jobs: u32) -> Settings {
    Settings { jobs_max: NonZeroU32::new(jobs), ..Settings::default() }
}

fn heavy(id: &str, bytes: usize) -> Job {
    Job::new("orders", "x".repeat(bytes)).id(id)
}

fn no_heavier_than(bytes: u64) -> Settings {
    Settings { bytes_max: NonZeroU64::new(bytes), ..Settings::default() }
}

fn body(bytes: usize) -> Action {
    Action::Update(Patch { body: Some("x".repeat(bytes).into()), ..Patch::default() })
}

async fn bytes<S: Subject>(t: &Trial<S>) -> Option<u64> {
    t.topic("orders").await.expect("it is there").bytes
}
