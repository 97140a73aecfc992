//! Whole stories: what people use a delay queue for, and the promises, told with many jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::trial::{RELEASE, TOUCH, failed, handed, ids, key, topic};
use super::{Subject, Trial, suite};
use crate::error::{Code, Error};
use crate::job::{DELAY_MAX, Job, OnConflict, Patch, When};
use crate::machine::{Owner, Reach, Stage};
use crate::queue::{
    Action, Ask, Bodies, Bulk, Delivery, Filter, JobInfo, LetGo, POP_MAX, Query, Queue, Settle,
    Source, Terms, TopicChange, TopicInfo, Topics, Verdict,
};
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::time::{HOUR, MINUTE, SECOND};
use crate::topic::{Counts, Settings};

suite! {
    /// The flow that Youzan described: four calls, and the pool is as empty as before.
    async fn add_pop_finish_delete(t) {
        t.add(Job::new("order", "close 1001").id("1001").delay(30 * MINUTE).ttr(MINUTE)).await;
        t.add(Job::new("order", "close 1002").id("1002").delay(30 * MINUTE).ttr(MINUTE)).await;
        assert!(t.pop("order").await.is_none());
        t.pass(30 * MINUTE).await;
        let delivery = t.popped("order").await;
        assert_eq!(delivery.body().as_str(), Some("close 1001"));
        t.finish(&delivery).await;
        t.change("order", "1002", Action::Delete(Reach::Any)).await.unwrap();
        assert!(t.pop("order").await.is_none());
        assert_eq!(t.stats().await.counts, Counts::default());
    }

    async fn orders_are_closed_unless_they_are_paid(t) {
        t.add_many((0..100).map(|n| Job::new("close", "x").id(n.to_string()).delay(30 * MINUTE)))
            .await;
        t.pass(29 * MINUTE).await;
        for paid in (0..100).filter(|n| n % 3 == 0) {
            let paid = paid.to_string();
            t.change("close", &paid, Action::Delete(Reach::Any)).await.unwrap();
        }
        assert!(t.pop("close").await.is_none());
        t.pass(MINUTE).await;
        let closed = t.pop_up_to("close", 100).await;
        let unpaid: Vec<String> = (0..100).filter(|n| n % 3 != 0).map(|n| n.to_string()).collect();
        assert_eq!(handed(&closed), unpaid);
    }

    async fn an_order_that_gets_more_time_is_closed_later(t) {
        t.add(Job::new("close", "x").id("1001").delay(30 * MINUTE)).await;
        t.pass(29 * MINUTE).await;
        let patch = Patch { when: Some(When::In(10 * MINUTE)), ..Patch::default() };
        t.change("close", "1001", Action::Update(patch)).await.unwrap();
        t.pass(10 * MINUTE - Duration::from_millis(1)).await;
        assert!(t.pop("close").await.is_none());
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(t.popped("close").await.job.attempt, 1);
    }

    async fn a_payment_notice_climbs_its_ladder_until_it_is_heard(t) {
        let steps: Retry = LADDER.parse().unwrap();
        t.add(Job::new("notify", "paid").id("1").retry(steps)).await;
        for (n, wait) in (1..).zip([15 * SECOND, 3 * MINUTE, 10 * MINUTE]) {
            let delivery = t.popped("notify").await;
            assert_eq!(delivery.job.attempt, n);
            t.fail(&delivery, "HTTP 502").await;
            t.pass(wait - Duration::from_millis(1)).await;
            assert!(t.pop("notify").await.is_none());
            t.pass(Duration::from_millis(1)).await;
        }
        t.finish(&t.popped("notify").await).await;
        assert_eq!(t.stage("notify", "1").await, None);
    }

    async fn a_notice_that_nobody_hears_ends_on_the_dead_shelf_and_can_be_redriven(t) {
        let steps: Retry = LADDER.parse().unwrap();
        t.add(Job::new("notify", "paid").id("1").retry(steps.clone())).await;
        for _ in 0..steps.attempts_max() {
            t.fail(&t.popped("notify").await, "HTTP 502").await;
            t.pass(15 * HOUR).await;
        }
        assert!(t.pop("notify").await.is_none());
        let dead = t.get("notify", "1").await;
        assert_eq!((dead.stage, dead.attempt), (Stage::Dead, 10));
        assert_eq!(dead.last_error.as_deref(), Some("HTTP 502"));
        t.sweep("notify", Filter::default(), Bulk::Redrive).await;
        let again = t.popped("notify").await;
        assert_eq!((again.job.attempt, again.body().as_str()), (1, Some("paid")));
        t.finish(&again).await;
        assert_eq!(t.stats().await.counts, Counts::default());
    }

    async fn a_poison_job_does_not_hold_up_the_healthy(t) {
        let retry = Retry::ladder(&[SECOND]).unwrap().attempts(3);
        t.add(Job::new("work", "x").id("poison").priority(0).retry(retry)).await;
        t.add_many((0..20).map(|n| Job::new("work", "x").id(n.to_string()))).await;
        let mut done = Vec::new();
        while t.counts("work").await.total() > 1 {
            for delivery in t.pop_up_to("work", 3).await {
                if delivery.id().as_str() == "poison" {
                    t.fail(&delivery, "boom").await;
                    continue;
                }
                t.finish(&delivery).await;
                done.push(delivery.id().to_string());
            }
            t.pass(SECOND).await;
        }
        assert_eq!(done, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
        let poison = t.get("work", "poison").await;
        assert_eq!((poison.stage, poison.attempt), (Stage::Dead, 3));
    }

    async fn two_consumers_compete_and_each_job_is_finished_once(t) {
        t.add_many((0..200).map(|n| Job::new("work", "x").id(n.to_string()))).await;
        let (mut one, mut two) = tokio::join!(consume(&t, 1), consume(&t, 3));
        assert!(!one.is_empty() && !two.is_empty(), "both had their share");
        one.append(&mut two);
        let each: BTreeSet<u64> = one.iter().copied().collect();
        assert_eq!((one.len(), each.len()), (200, 200));
        assert_eq!(t.stats().await.finished, 200);
    }

    async fn the_jobs_of_a_consumer_that_crashed_go_to_another(t) {
        t.add_many((0..10).map(|n| Job::new("work", "x").id(n.to_string()))).await;
        let by = |owner| Ask {
            max: 6,
            terms: Terms { owner: Some(Owner(owner)), ..Terms::default() },
            ..Ask::one(topic("work"))
        };
        let lost = t.queue.pop(by(1)).await.unwrap();
        let kept = t.queue.pop(by(2)).await.unwrap();
        let waiting = t.begin(Ask { wait: MINUTE, ..by(3) });
        assert_eq!(t.queue.let_go(Owner(1), LetGo::Lost).await.unwrap(), 6);
        let taken = waiting.await;
        assert_eq!(handed(&taken), handed(&lost));
        for delivery in &lost {
            let late = t.settle(delivery, Verdict::Finish).await.unwrap_err();
            assert_eq!(late.code(), Code::LeaseLost);
        }
        for delivery in taken.iter().chain(&kept) {
            t.finish(delivery).await;
        }
        assert_eq!(t.stats().await.counts, Counts::default());
    }

    async fn a_topic_paused_in_a_storm_loses_nothing(t) {
        let mut finished = BTreeSet::new();
        for round in 0..10_u32 {
            t.add_many((0..30).map(|n| {
                let id = format!("{round}-{n}");
                Job::new("storm", "x").id(id).delay(n % 5 * SECOND).priority(n % 3).ttr(HOUR)
            })).await;
            match round {
                3 => drop(t.configure("storm", TopicChange::Pause(None)).await.unwrap()),
                7 => drop(t.configure("storm", TopicChange::Resume).await.unwrap()),
                _ => {}
            }
            let jobs = t.pop_up_to("storm", 25).await;
            assert_eq!(jobs.is_empty(), (3..7).contains(&round), "round {round}");
            for delivery in &jobs {
                t.finish(delivery).await;
                assert!(finished.insert(delivery.job.number));
            }
            t.pass(SECOND).await;
        }
        t.pass(MINUTE).await;
        for delivery in t.pop_up_to("storm", POP_MAX).await {
            assert!(finished.insert(delivery.job.number));
            t.finish(&delivery).await;
        }
        assert_eq!((finished.len(), t.counts("storm").await.total()), (300, 0));
    }

    async fn a_job_replaced_while_it_runs_is_not_ended_by_its_old_holder(t) {
        t.add(Job::new("close", "old").id("1001")).await;
        let old = t.popped("close").await;
        let new = Job::new("close", "new").id("1001").on_conflict(OnConflict::Replace);
        t.add(new.delay(MINUTE)).await;
        for verdict in [Verdict::Finish, failed("no"), RELEASE, TOUCH] {
            assert_eq!(t.settle(&old, verdict.clone()).await.unwrap_err().code(), Code::NotFound);
            let named = Settle { key: key("close", "1001"), ..Settle::delivery(&old, verdict) };
            assert_eq!(t.settle_by(named).await.unwrap_err().code(), Code::LeaseLost);
        }
        t.pass(MINUTE).await;
        let delivery = t.popped("close").await;
        assert_eq!((delivery.body().as_str(), delivery.job.attempt), (Some("new"), 1));
    }

    async fn a_nightly_report_runs_every_night_though_one_night_fails(t) {
        let nightly = Repeat::cron("0 3 * * *", None).unwrap();
        t.add(Job::new("report", "x").id("nightly").repeat(nightly).retry(Retry::none())).await;
        let mut nights = Vec::new();
        for night in 0..5 {
            t.pass(24 * HOUR).await;
            let delivery = t.popped("report").await;
            nights.push(delivery.job.due.as_ms() % 86_400_000 / 3_600_000);
            match night {
                2 => assert!(t.fail(&delivery, "disk full").await.changed),
                _ => assert!(t.finish(&delivery).await.changed),
            }
            assert!(t.pop("report").await.is_none());
        }
        assert_eq!(nights, [3; 5]);
        assert_eq!(t.get("report", "nightly").await.last_error.as_deref(), Some("disk full"));
    }

    /// Promise 1, as far as a running store shows it: what was acknowledged is there.
    async fn what_was_acknowledged_is_there(t) {
        let mut kept: BTreeMap<String, String> = BTreeMap::new();
        for n in 0..300_u32 {
            let (id, body) = (n.to_string(), format!("body {n}"));
            let job = Job::new("orders", body.clone()).id(&id);
            t.add(if n % 4 == 0 { job.delay(HOUR) } else { job }).await;
            kept.insert(id, body);
        }
        for id in (0..300).step_by(5).map(|n| n.to_string()) {
            let body = format!("changed {id}");
            let patch = Patch { body: Some(body.clone().into()), ..Patch::default() };
            t.change("orders", &id, Action::Update(patch)).await.unwrap();
            kept.insert(id, body);
        }
        for delivery in t.pop_up_to("orders", 100).await {
            t.finish(&delivery).await;
            kept.remove(delivery.id().as_str()).expect("it was added and not yet finished");
        }
        for id in (0..300).step_by(7).map(|n| n.to_string()) {
            if kept.remove(&id).is_some() {
                t.change("orders", &id, Action::Delete(Reach::Any)).await.unwrap();
            }
        }
        let query = Query { bodies: Bodies::With, limit: 37, ..Query::all(topic("orders")) };
        let mut shown = BTreeMap::new();
        for job in t.browse(query).await {
            let body = job.body.as_ref().and_then(|body| body.as_str()).expect("a text");
            shown.insert(job.spec.id.to_string(), body.to_owned());
        }
        assert_eq!(shown, kept);
    }

    /// Promise 2: at least once.
    async fn every_job_is_handed_out_until_it_is_finished_dead_or_deleted(t) {
        let retry = Retry::ladder(&[SECOND]).unwrap().attempts(4);
        let job = |n: u32| Job::new("work", "x").id(n.to_string()).ttr(5 * SECOND);
        t.add_many((0..120).map(|n| job(n).retry(retry.clone()))).await;
        let mut left: BTreeSet<String> = (0..120).map(|n| n.to_string()).collect();
        for round in 0..60 {
            for (n, delivery) in t.pop_up_to("work", 50).await.iter().enumerate() {
                let id = delivery.id().as_str();
                assert!(left.contains(id), "{id} was over");
                match (n + round) % 7 {
                    0 => assert!(t.finish(delivery).await.changed),
                    1 => assert!(t.change("work", id, Action::Delete(Reach::Any)).await.unwrap().changed),
                    2 | 3 => assert!(t.fail(delivery, "no").await.changed),
                    4 => assert!(t.settle(delivery, RELEASE).await.unwrap().changed),
                    // Nobody says anything: the lease runs out.
                    _ => continue,
                }
                if (n + round) % 7 <= 1 {
                    left.remove(id);
                }
            }
            t.pass(SECOND).await;
        }
        let dead = t.in_stage("work", Stage::Dead).await;
        assert!(dead.iter().all(|job| job.attempt == 4), "only used up jobs are dead");
        assert_eq!(left, ids(&dead).into_iter().map(String::from).collect(), "all came to an end");
        assert_eq!(t.counts("work").await.total(), dead.len() as u64);
    }

    /// Promise 3: never early.
    async fn no_job_is_handed_out_before_its_due_time(t) {
        let start = t.now();
        let due = |n: u64| start.saturating_add_ms(n * n * 37 % 5000);
        t.add_many((0..200).map(|n| Job::new("work", "x").id(n.to_string()).at(due(n)))).await;
        let mut handed_out = 0;
        for step_ms in (1..).map(|n| n * 13 % 97).take(110) {
            t.pass(Duration::from_millis(step_ms)).await;
            for delivery in t.pop_up_to("work", POP_MAX).await {
                let n = delivery.id().as_str().parse().expect("a number");
                assert!(due(n) <= t.now(), "{n} is early");
                handed_out += 1;
            }
            let overdue = Filter { due_before: Some(t.now()), ..delayed() };
            assert_eq!(fitting(&t, "work", overdue).await, []);
        }
        t.pass(5 * SECOND).await;
        assert_eq!(handed_out + t.pop_up_to("work", POP_MAX).await.len(), 200);
    }

    async fn a_wall_clock_set_back_hands_out_nothing_early(t) {
        t.add(Job::new("work", "x").id("1").delay(MINUTE)).await;
        t.jump_ms(-3_600_000).await;
        t.pass(30 * MINUTE).await;
        assert!(t.pop("work").await.is_none());
        t.pass(31 * MINUTE).await;
        assert!(t.pop("work").await.is_some());
    }

    /// Promise 4: a cancel is a cancel.
    async fn a_cancelled_job_is_never_handed_out_again(t) {
        t.add_many((0..100_u32).map(|n| {
            let job = Job::new("work", "x").id(n.to_string()).ttr(MINUTE).retry(Retry::no_limit());
            if n % 4 == 0 { job.delay(SECOND) } else { job }
        })).await;
        let running = t.pop_up_to("work", 50).await;
        for delivery in running.iter().step_by(3) {
            t.fail(delivery, "no").await;
        }
        for n in 0..100 {
            t.change("work", &n.to_string(), Action::Delete(Reach::Any)).await.unwrap();
        }
        for delivery in &running {
            let late = t.settle(delivery, Verdict::Finish).await.unwrap_err();
            assert_eq!(late.code(), Code::NotFound);
        }
        let mut waiting = t.begin_one("work", 2 * HOUR);
        t.pass(HOUR).await;
        assert!(t.answered(&mut waiting).await.is_none());
    }

    /// Promise 5: one holder at a time.
    async fn while_a_lease_runs_nobody_else_gets_the_job(t) {
        t.add_many((0..60_u64).map(|n| {
            Job::new("work", "x").id(n.to_string()).ttr(Duration::from_millis(700 + n * 10))
                .retry(Retry::no_limit())
        })).await;
        let mut held: BTreeMap<u64, Delivery> = BTreeMap::new();
        for round in 0..40_u64 {
            for delivery in t.pop_up_to("work", 15).await {
                if let Some(before) = held.remove(&delivery.job.number) {
                    assert!(before.until <= t.now(), "{} had a holder", delivery.id());
                    for verdict in [Verdict::Finish, failed("no"), RELEASE, TOUCH] {
                        let late = t.settle(&before, verdict).await.unwrap_err();
                        assert_eq!(late.code(), Code::LeaseLost);
                    }
                }
                let kept = t.get("work", delivery.id().as_str()).await;
                assert_eq!((kept.stage, kept.attempt), (Stage::Reserved, delivery.job.attempt));
                held.insert(delivery.job.number, delivery);
            }
            t.pass(Duration::from_millis(round * 31 % 200)).await;
        }
        assert!(t.stats().await.timed_out > 60, "leases ran out and jobs changed hands");
    }

    /// Promise 8: bad input gets a clear answer, and changes nothing.
    async fn bad_input_is_told_by_its_field_and_changes_nothing(t) {
        t.add_many([Job::new("orders", "x").id("1").delay(HOUR), Job::new("orders", "y").id("2")])
            .await;
        let before = everything(&t).await;
        let told = |told: Error| (told.code(), told.at_field());
        let invalid = |field| (Code::Invalid, Some(field));
        let job = Job::new("orders", "z").id("3").delay(DELAY_MAX + SECOND);
        assert_eq!(told(t.try_add(job).await.unwrap_err()), invalid("delay"));
        let over = Repeat::every(HOUR).unwrap().until(t.now());
        let job = Job::new("orders", "z").id("3").repeat(over);
        assert_eq!(told(t.try_add(job).await.unwrap_err()), invalid("repeat"));
        let when = Some(When::In(DELAY_MAX + SECOND));
        let patch = Patch { when, body: Some("new".into()), ..Patch::default() };
        let refused = t.change("orders", "1", Action::Update(patch)).await;
        assert_eq!(told(refused.unwrap_err()), invalid("delay"));
        for (ask, field) in [
            (Ask { max: 0, ..Ask::one(topic("orders")) }, "max"),
            (Ask { max: POP_MAX + 1, ..Ask::one(topic("orders")) }, "max"),
            (Ask { from: Source::These(vec![]), ..Ask::one(topic("orders")) }, "topics"),
        ] {
            assert_eq!(told(t.queue.pop(ask).await.unwrap_err()), invalid(field));
        }
        assert_eq!(everything(&t).await, before);
    }

    async fn one_bad_job_of_a_batch_does_not_harm_the_others(t) {
        let batch = [
            Job::new("orders", "x").id("1"),
            Job::new("orders", "x").id("2").delay(DELAY_MAX + SECOND),
            Job::new("orders", "x").id("1"),
            Job::new("orders", "x").id("3"),
        ];
        let batch = batch.map(|job| t.checked(job)).to_vec();
        let answers = t.queue.add_all(batch).await.unwrap();
        let codes = answers.iter().map(|answer| answer.as_ref().err().map(Error::code));
        let expected = [None, Some(Code::Invalid), Some(Code::AlreadyExists), None];
        assert_eq!(codes.collect::<Vec<_>>(), expected);
        assert_eq!(ids(&fitting(&t, "orders", Filter::default()).await), ["1", "3"]);
    }

    async fn a_crowd_of_waiting_consumers_shares_a_burst(t) {
        let waiting: Vec<_> = (0..50).map(|_| t.begin_one("burst", HOUR)).collect();
        t.add_many((0..50).map(|n| Job::new("burst", "x").id(n.to_string()).delay(SECOND))).await;
        t.pass(SECOND).await;
        for (n, pop) in waiting.into_iter().enumerate() {
            assert_eq!(handed(&pop.await), [n.to_string()]);
        }
        assert_eq!(t.counts("burst").await.reserved, 50);
    }

    async fn topics_with_limits_work_off_a_backlog_in_their_time(t) {
        let limits = Settings { rate: "10".parse().ok(), ..Settings::default() };
        t.set("slow", limits).await;
        t.add_many((0..100).map(|n| Job::new("slow", "x").id(n.to_string()))).await;
        let mut secs = 0;
        while t.counts("slow").await.total() > 0 {
            for delivery in t.pop_up_to("slow", 100).await {
                t.finish(&delivery).await;
            }
            t.pass(SECOND).await;
            secs += 1;
        }
        assert_eq!(secs, 10);
    }
}

const LADDER: &str = "15s 3m 10m 30m 30m 1h 2h 6h 15h";

fn delayed() -> Filter {
    Filter { stage: Some(Stage::Delayed), ..Filter::default() }
}

async fn fitting<S: Subject>(t: &Trial<S>, name: &str, filter: Filter) -> Vec<JobInfo> {
    t.browse(Query { filter, ..Query::all(topic(name)) }).await
}

/// Works off a topic, so many jobs at a time, and tells their numbers.
async fn consume<S: Subject>(t: &Trial<S>, max: u32) -> Vec<u64> {
    let mut done = Vec::new();
    loop {
        let jobs = t.pop_up_to("work", max).await;
        if jobs.is_empty() {
            return done;
        }
        for delivery in &jobs {
            // Lets the other one in between.
            tokio::task::yield_now().await;
            t.finish(delivery).await;
            done.push(delivery.job.number);
        }
    }
}

/// All jobs with their histories, and all topics.
async fn everything<S: Subject>(t: &Trial<S>) -> (Vec<JobInfo>, Vec<TopicInfo>) {
    let page = Topics::Page { prefix: "".into(), after: None, limit: 100 };
    let topics = t.queue.topics(page).await.expect("a right question");
    let mut jobs = Vec::new();
    for info in &topics {
        for job in t.browse(Query::all(info.topic.clone())).await {
            jobs.push(t.get(info.topic.as_str(), job.spec.id.as_str()).await);
        }
    }
    (jobs, topics)
}
