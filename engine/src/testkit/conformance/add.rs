//! Adding jobs, and finding them again.

use std::time::Duration;

use super::suite;
use super::trial::{handed, ids, key, topic, ttr};
use crate::error::Code;
use crate::history::What;
use crate::job::{Body, Confirm, DELAY_MAX, Id, Job, NewJob, OnConflict, PRIORITY_DEFAULT, When};
use crate::machine::{Reach, Stage, Tally};
use crate::queue::{Action, How, Key, Query, Queue, Settle, UniqueIds, Verdict};
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::time::{DAY, HOUR, MINUTE, SECOND, Time};

suite! {
    async fn a_job_without_delay_is_ready_at_once(t) {
        let job = t.add(Job::new("orders", "x").id("1")).await;
        assert_eq!(job.stage, Stage::Ready);
        assert_eq!(job.due, t.now());
    }

    async fn a_job_with_a_delay_waits_for_its_due_time(t) {
        let job = t.add(Job::new("orders", "x").id("1").delay(30 * MINUTE)).await;
        assert_eq!(job.stage, Stage::Delayed);
        assert_eq!(job.due.ms_since(t.now()), 30 * 60 * 1000);
        t.pass(30 * MINUTE - Duration::from_millis(1)).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(t.popped("orders").await.id().as_str(), "1");
    }

    async fn a_job_is_due_at_the_moment_it_names(t) {
        let at = t.now().saturating_add_ms(1500);
        assert_eq!(t.add(Job::new("orders", "x").id("1").at(at)).await.due, at);
        t.pass(Duration::from_millis(1499)).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Delayed));
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
    }

    async fn a_moment_in_the_past_is_due_at_once_and_stays_its_due_time(t) {
        let past = t.now().saturating_sub_ms(5000);
        t.add(Job::new("orders", "x").id("now")).await;
        let late = t.add(Job::new("orders", "x").id("late").at(past)).await;
        assert_eq!((late.stage, late.due), (Stage::Ready, past));
        t.add(Job::new("orders", "x").id("first").at(Time::MIN)).await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["first", "late", "now"]);
    }

    async fn a_job_may_wait_until_the_end_of_time(t) {
        t.add(Job::new("orders", "x").id("end").at(Time::MAX)).await;
        t.add(Job::new("orders", "x").id("long").delay(DELAY_MAX)).await;
        t.pass(365 * DAY).await;
        assert_eq!(t.counts("orders").await.delayed, 2);
        assert_eq!(t.get("orders", "end").await.due, Time::MAX);
    }

    async fn a_delay_is_rounded_up_to_the_millisecond(t) {
        t.pass(Duration::from_micros(400)).await;
        let job = t.add(Job::new("orders", "x").id("1").delay(Duration::from_micros(2100))).await;
        // 2.1 ms are 3 whole ones, counted from the first whole one after now.
        assert_eq!(job.due.ms_since(t.now()), 4);
        t.pass(Duration::from_micros(3599)).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(Duration::from_micros(1)).await;
        assert!(t.pop("orders").await.is_some());
    }

    async fn the_shortest_delay_is_still_a_wait(t) {
        let job = |id| Job::new("orders", "x").id(id);
        t.add(job("delay").delay(Duration::from_nanos(1))).await;
        t.add(job("at").at(t.now().saturating_add_ms(1))).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["delay", "at"]);
    }

    async fn a_job_without_delay_is_ready_between_two_milliseconds(t) {
        t.pass(Duration::from_micros(999)).await;
        for job in [Job::new("orders", "x"), Job::new("orders", "x").delay(Duration::ZERO)] {
            assert_eq!(t.add(job).await.stage, Stage::Ready);
        }
    }

    async fn a_held_job_stays_where_it_is_past_its_due_time(t) {
        let job = t.add(Job::new("orders", "x").id("1").delay(SECOND).held()).await;
        assert_eq!(job.stage, Stage::Held);
        t.pass(HOUR).await;
        assert!(t.pop("orders").await.is_none());
        assert_eq!(t.get("orders", "1").await.due, job.due);
        t.change("orders", "1", Action::Unhold).await.unwrap();
        assert_eq!(t.popped("orders").await.id().as_str(), "1");
    }

    async fn a_new_job_has_no_past(t) {
        let job = t.add(Job::new("orders", "x").id("1").delay(SECOND)).await;
        assert_eq!((job.attempt, job.occurrence, job.tally), (0, 0, Tally::default()));
        assert_eq!((job.created, job.last_error.as_deref()), (t.now(), None));
        assert_eq!((job.reserved_until, job.priority), (None, PRIORITY_DEFAULT));
        let history = t.get("orders", "1").await.history;
        assert_eq!(history.iter().map(|entry| entry.what).collect::<Vec<_>>(), [What::Added]);
    }

    async fn all_that_a_caller_says_comes_back(t) {
        let new = full_job(&t.checked(Job::new("orders", "x").id("1")), t.now());
        let spec = new.spec.clone();
        t.queue.add_all(vec![new.clone()]).await.unwrap().pop().unwrap().unwrap();
        let job = t.get("orders", "1").await;
        assert_eq!((&job.spec, job.priority), (&spec, 7));
        assert_eq!(job.history[0].by, new.by);
        assert_eq!(t.queue.find(&spec.id).await.unwrap()[0].spec, spec);
        assert_eq!(t.reserve("orders", "1").await.unwrap().job.spec, spec);
    }

    async fn a_body_comes_back_byte_for_byte_in_its_form(t) {
        let bodies = [
            Body::json("{ \"a\" : 1.000, \"a\":2 }\n").unwrap(),
            Body::json("null").unwrap(),
            Body::text("héllo\r\n\0"),
            Body::text("{\"a\":1}"),
            Body::text(""),
            Body::bytes(vec![0xff, 0x00, 0xfe, b'\n']),
            Body::bytes("plain"),
            Body::bytes(Vec::new()),
        ];
        for body in bodies {
            let job = t.add(Job::new("orders", body.clone())).await;
            let got = t.queue.get(&Key::Number(job.number)).await.unwrap();
            assert_eq!(got.body, Some(body.clone()));
            assert_eq!(t.queue.find(&job.spec.id).await.unwrap()[0].body, Some(body.clone()));
            assert_eq!(*t.popped("orders").await.body(), body);
        }
    }

    async fn a_body_of_a_mebibyte_comes_back_whole(t) {
        let bytes: Vec<u8> = (0..Body::BYTES_MAX_DEFAULT).map(|n| (n * 31 % 251) as u8).collect();
        t.add(Job::new("orders", bytes.clone()).id("1")).await;
        t.add(Job::new("orders", "small").id("2")).await;
        assert!(t.get("orders", "1").await.body.unwrap().as_bytes() == &bytes);
        assert!(t.popped("orders").await.body().as_bytes() == &bytes);
        assert_eq!(t.popped("orders").await.body().as_str(), Some("small"));
    }

    async fn a_job_without_an_id_gets_one_of_its_own(t) {
        let first = t.add(Job::new("orders", "x")).await;
        let second = t.add(Job::new("orders", "x")).await;
        assert_ne!(first.spec.id, second.spec.id);
        let made = uuid::Uuid::parse_str(first.spec.id.as_str()).unwrap();
        assert_eq!(made.get_version_num(), 7);
        assert_eq!(t.get("orders", first.spec.id.as_str()).await.number, first.number);
    }

    async fn ids_are_told_apart_as_they_are_written(t) {
        let long = "x".repeat(Id::BYTES_MAX);
        let names =
            ["1", "01", "A", "a", " a", "a ", "a/b?c=%20#d", "*", "支付宝", "é", "e\u{301}", &long];
        for name in names {
            t.add(Job::new("orders", name).id(name)).await;
        }
        for name in names {
            let job = t.get("orders", name).await;
            assert_eq!((job.spec.id.as_str(), job.body.unwrap().as_str()), (name, Some(name)));
        }
    }

    async fn the_same_id_in_two_topics_is_two_jobs(t) {
        let (a, b) = (Job::new("a", "x").id("1"), Job::new("b", "y").id("1"));
        assert_ne!(t.add(a).await.number, t.add(b).await.number);
        t.finish(&t.popped("a").await).await;
        assert_eq!(t.stage("a", "1").await, None);
        assert_eq!(t.get("b", "1").await.body.unwrap().as_str(), Some("y"));
    }

    async fn topic_and_id_are_never_run_together(t) {
        let pairs =
            [("a", "b:c"), ("a:b", "c"), ("a", "b/c"), ("a/b", "c"), ("ab", "c"), ("a", "bc")];
        for (topic, id) in pairs {
            t.add(Job::new(topic, format!("{topic} {id}")).id(id)).await;
        }
        for (topic, id) in pairs {
            let body = t.get(topic, id).await.body.unwrap();
            assert_eq!(body.as_str(), Some(format!("{topic} {id}").as_str()));
        }
    }

    async fn an_id_is_found_in_every_topic_by_number(t) {
        for topic in ["c", "a", "b"] {
            t.add(Job::new(topic, topic).id("1").delay(SECOND)).await;
            t.add(Job::new(topic, topic).id("other")).await;
        }
        t.change("a", "1", Action::Delete(Reach::Any)).await.unwrap();
        t.add(Job::new("a", "anew").id("1").held()).await;
        let found = t.queue.find(&"1".parse().unwrap()).await.unwrap();
        let told: Vec<_> = found
            .iter()
            .map(|job| (job.spec.topic.as_str(), job.body.as_ref().unwrap().as_str().unwrap()))
            .collect();
        assert_eq!(told, [("c", "c"), ("b", "b"), ("a", "anew")]);
    }

    async fn an_id_that_nobody_has_is_found_nowhere(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        t.finish(&t.popped("orders").await).await;
        for id in ["1", "2"] {
            assert!(t.queue.find(&id.parse().unwrap()).await.unwrap().is_empty());
            assert_eq!(t.try_get("orders", id).await.unwrap_err().code(), Code::NotFound);
            assert_eq!(t.try_get("elsewhere", id).await.unwrap_err().code(), Code::NotFound);
        }
    }

    async fn a_number_names_the_same_job_as_its_id(t) {
        let number = t.add(Job::new("orders", "x").id("1")).await.number;
        let by_number = t.queue.get(&Key::Number(number)).await.unwrap();
        assert_eq!(by_number, t.get("orders", "1").await);
        let gone = t.queue.get(&Key::Number(number + 1)).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound);
    }

    async fn a_number_is_never_used_again(t) {
        let mut last = 0;
        for _ in 0..3 {
            let job = t.add(Job::new("orders", "x").id("1")).await;
            assert!(job.number > last);
            last = job.number;
            t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
            let refused = t.queue.get(&Key::Number(last)).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound);
        }
        t.add(Job::new("orders", "x").id("1")).await;
        assert_eq!(t.queue.get(&Key::Number(last)).await.unwrap_err().code(), Code::NotFound);
    }

    async fn a_taken_id_is_refused_whatever_state_its_job_is_in(t) {
        t.one_in_each_stage("orders").await;
        for id in Stage::ALL.map(Stage::as_str) {
            let before = t.get("orders", id).await;
            let refused = t.try_add(Job::new("orders", "new").id(id)).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::AlreadyExists, Some("id")));
            assert_eq!(t.get("orders", id).await, before);
        }
    }

    async fn keep_answers_the_job_as_it_is_whatever_its_state(t) {
        t.one_in_each_stage("orders").await;
        for id in Stage::ALL.map(Stage::as_str) {
            let before = t.get("orders", id).await;
            let keep = Job::new("orders", "new").id(id).priority(1).on_conflict(OnConflict::Keep);
            let kept = t.try_add(keep).await.unwrap();
            assert_eq!((kept.how, kept.job.number), (How::Kept, before.number));
            assert_eq!((kept.job.stage, kept.job.version), (before.stage, before.version));
            assert_eq!(t.get("orders", id).await, before);
        }
    }

    async fn replace_puts_a_new_job_in_its_place_whatever_its_state(t) {
        t.one_in_each_stage("orders").await;
        t.pass(SECOND).await;
        for id in Stage::ALL.map(Stage::as_str) {
            let old = t.get("orders", id).await.number;
            let replace = Job::new("orders", "new").id(id).on_conflict(OnConflict::Replace);
            let added = t.try_add(replace.delay(MINUTE)).await.unwrap();
            assert!(added.how == How::Replaced && added.job.number > old, "{id}");
            let job = t.get("orders", id).await;
            assert_eq!((job.number, job.stage), (added.job.number, Stage::Delayed), "{id}");
            assert_eq!((job.created, job.attempt, job.tally), (t.now(), 0, Tally::default()));
            assert_eq!((job.last_error, job.history.len()), (None, 1), "{id}");
            assert_eq!(job.body.unwrap().as_str(), Some("new"));
            assert_eq!(t.queue.get(&Key::Number(old)).await.unwrap_err().code(), Code::NotFound);
        }
        let counts = t.counts("orders").await;
        assert_eq!((counts.delayed, counts.total()), (7, 7));
    }

    async fn keep_and_replace_add_a_job_that_is_not_there(t) {
        for (id, how) in [("1", OnConflict::Keep), ("2", OnConflict::Replace)] {
            let added = t.try_add(Job::new("orders", "x").id(id).on_conflict(how)).await.unwrap();
            assert_eq!((added.how, added.job.spec.id.as_str()), (How::New, id));
        }
    }

    async fn a_replaced_job_never_comes_back(t) {
        let job = |due| Job::new("orders", "x").id("1").delay(due).on_conflict(OnConflict::Replace);
        for due in [SECOND, Duration::ZERO, HOUR] {
            t.add(job(due)).await;
        }
        t.pass(MINUTE).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(HOUR).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 1);
    }

    async fn an_old_lease_does_nothing_to_the_job_that_replaced_it(t) {
        let job = Job::new("orders", "x").id("1").on_conflict(OnConflict::Replace);
        t.add(job.clone()).await;
        let old = t.popped("orders").await;
        t.add(job).await;
        let new = t.popped("orders").await;
        assert_ne!(old.lease, new.lease);
        let late = Settle {
            lease: Some(old.lease),
            ..Settle::key(key("orders", "1"), Verdict::Finish)
        };
        assert_eq!(t.settle_by(late).await.unwrap_err().code(), Code::LeaseLost);
        assert_eq!(t.settle(&old, Verdict::Finish).await.unwrap_err().code(), Code::NotFound);
        t.pass(MINUTE - SECOND).await;
        assert!(t.finish(&new).await.changed);
    }

    async fn a_batch_is_answered_item_by_item_in_order(t) {
        let batch = [
            Job::new("orders", "a").id("1"),
            Job::new("orders", "b").id("1"),
            Job::new("orders", "c").id("2").delay(DELAY_MAX + SECOND),
            Job::new("other", "d").id("3"),
            Job::new("orders", "e").id("1").on_conflict(OnConflict::Replace),
            Job::new("orders", "f").id("1").on_conflict(OnConflict::Keep),
        ];
        let answers = t.queue.add_all(batch.map(|job| t.checked(job)).into()).await.unwrap();
        let told: Vec<_> = answers
            .iter()
            .map(|answer| answer.as_ref().map(|added| added.how).map_err(|refused| refused.code()))
            .collect();
        assert_eq!(told, [
            Ok(How::New),
            Err(Code::AlreadyExists),
            Err(Code::Invalid),
            Ok(How::New),
            Ok(How::Replaced),
            Ok(How::Kept),
        ]);
        assert_eq!(ids(&t.browse(Query::all(topic("orders"))).await), ["1"]);
        assert_eq!(t.get("orders", "1").await.body.unwrap().as_str(), Some("e"));
    }

    async fn the_numbers_of_a_batch_rise_in_its_order(t) {
        let batch = ["b", "c", "a"].map(|id| t.checked(Job::new("orders", id).id(id)));
        let answers = t.queue.add_all(batch.into()).await.unwrap();
        let numbers: Vec<u64> =
            answers.into_iter().map(|added| added.unwrap().job.number).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["b", "c", "a"]);
        assert!(t.queue.add_all(Vec::new()).await.unwrap().is_empty());
    }

    async fn a_delay_over_its_limit_is_refused_and_nothing_is_stored(t) {
        let far = Job::new("orders", "x").id("1").delay(DELAY_MAX + Duration::from_millis(1));
        let refused = t.try_add(far).await.unwrap_err();
        assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("delay")));
        assert_eq!((t.stage("orders", "1").await, t.topic("orders").await), (None, None));
    }

    async fn a_repeat_that_could_never_run_is_refused_and_nothing_is_stored(t) {
        let over = |repeat: Repeat| repeat.until(t.now().saturating_add_ms(500));
        for repeat in [Repeat::every(SECOND).unwrap(), Repeat::cron("0 9 * * *", None).unwrap()] {
            let never = Job::new("orders", "x").id("1").repeat(over(repeat));
            let refused = t.try_add(never).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("repeat")));
            assert_eq!((t.stage("orders", "1").await, t.topic("orders").await), (None, None));
        }
    }

    async fn a_refused_replacement_leaves_the_old_job_alone(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let held = t.popped("orders").await;
        let before = t.get("orders", "1").await;
        let bad = Job::new("orders", "y").id("1").delay(DELAY_MAX + SECOND);
        let refused = t.try_add(bad.on_conflict(OnConflict::Replace)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Invalid);
        assert_eq!(t.get("orders", "1").await, before);
        assert!(t.finish(&held).await.changed);
    }

    async fn a_global_id_is_refused_in_a_second_topic(t) {
        let t = t.another(|options| options.unique_ids = UniqueIds::Global).await;
        t.add(Job::new("a", "x").id("1").delay(SECOND)).await;
        for how in [OnConflict::Reject, OnConflict::Keep, OnConflict::Replace] {
            let second = Job::new("b", "y").id("1").on_conflict(how);
            let refused = t.try_add(second).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::AlreadyExists, Some("id")));
        }
        assert_eq!((t.stage("b", "1").await, t.topic("b").await), (None, None));
        assert_eq!(t.get("a", "1").await.body.unwrap().as_str(), Some("x"));
    }

    async fn a_global_id_is_free_again_when_its_job_is_gone(t) {
        let t = t.another(|options| options.unique_ids = UniqueIds::Global).await;
        t.add(Job::new("a", "x").id("1")).await;
        let again = Job::new("a", "y").id("1").on_conflict(OnConflict::Replace);
        assert_eq!(t.try_add(again).await.unwrap().how, How::Replaced);
        t.finish(&t.popped("a").await).await;
        assert_eq!(t.try_add(Job::new("b", "z").id("1")).await.unwrap().how, How::New);
    }
}

/// The job with every part that a caller may give.
fn full_job(job: &NewJob, now: Time) -> NewJob {
    let mut full = NewJob {
        when: Some(When::In(HOUR)),
        priority: 7,
        by: Some("shop".parse().expect("a right name")),
        ..job.clone()
    };
    let ladder = Retry::ladder(&[15 * SECOND, 3 * MINUTE]).expect("a right ladder");
    let repeat = Repeat::cron("0 9 * * 1-5", Some("Asia/Shanghai")).expect("a right expression");
    let spec = &mut full.spec;
    spec.content_type = Some("application/xml; charset=utf-8".parse().unwrap());
    spec.ttr = Some(ttr(Duration::from_millis(1234)));
    spec.retry = Some(ladder.from_due().attempts(9));
    spec.repeat = Some(repeat.until(now.saturating_add_ms(DELAY_MAX.as_millis() as u64)));
    spec.target = Some("https://shop.example/hooks?a=b".parse().expect("a right target"));
    spec.confirm = Some(Confirm::Finish);
    spec.retain = Some(36 * HOUR);
    spec.traceparent =
        Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap());
    full
}
