//! Popping what is ready: in which order, on what terms, through which lane.

use std::num::NonZeroU32;
use std::time::Duration;

use super::trial::{RELEASE, handed, over, topic, ttr};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::job::{Body, Confirm, Edit, Job, OnConflict, Patch, Target};
use crate::machine::Stage;
use crate::queue::{Action, Ask, Delivery, Lane, POP_MAX, Queue, Source, Terms, TopicChange};
use crate::time::{HOUR, MINUTE, SECOND};
use crate::topic::{Defaults, Settings};

suite! {
    async fn ready_jobs_come_by_priority_then_due_then_number(t) {
        let job = |id: &str, priority, ago_ms| {
            Job::new("orders", "x").id(id).priority(priority).at(t.now().saturating_sub_ms(ago_ms))
        };
        for (id, priority, ago_ms) in [
            ("5 late", 5, 1000),
            ("5 early", 5, 2000),
            ("5 late, second", 5, 1000),
            ("last", u32::MAX, 9000),
            ("4", 4, 0),
            ("5 late, third", 5, 1000),
            ("0", 0, 0),
        ] {
            t.add(job(id, priority, ago_ms)).await;
        }
        let order = ["0", "4", "5 early", "5 late", "5 late, second", "5 late, third", "last"];
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), order);
    }

    async fn jobs_that_fall_due_together_come_by_their_due_times(t) {
        for (id, ms) in [("3", 300), ("1", 100), ("2", 200)] {
            t.add(Job::new("orders", "x").id(id).delay(Duration::from_millis(ms))).await;
        }
        t.pass(SECOND).await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["1", "2", "3"]);
    }

    async fn over_several_topics_comes_the_best_priority_then_the_oldest(t) {
        for (topic, id, priority, ago_ms) in [
            ("a", "a5", 5, 3000),
            ("b", "b5 older", 5, 4000),
            ("a", "a9", 9, 9000),
            ("b", "b1", 1, 0),
            ("c", "c5 as old", 5, 3000),
            ("d", "not asked for", 0, 9000),
        ] {
            let due = t.now().saturating_sub_ms(ago_ms);
            t.add(Job::new(topic, "x").id(id).priority(priority).at(due)).await;
        }
        let got = t.pop_by(Ask { max: 9, ..over(&["c", "a", "nowhere", "b"]) }).await;
        assert_eq!(handed(&got), ["b1", "b5 older", "a5", "c5 as old", "a9"]);
        assert_eq!(t.counts("d").await.ready, 1);
    }

    async fn a_topic_that_hands_out_nothing_does_not_hide_the_others(t) {
        t.add(Job::new("paused", "x").id("1").priority(0)).await;
        t.add(Job::new("slow", "x").id("2").priority(0)).await;
        t.add(Job::new("open", "x").id("3")).await;
        t.configure("paused", TopicChange::Pause(None)).await.unwrap();
        let concurrency = NonZeroU32::new(1);
        t.set("slow", Settings { concurrency, ..Settings::default() }).await;
        t.add(Job::new("slow", "x").id("4").priority(0)).await;
        let got = t.pop_by(Ask { max: 9, ..over(&["paused", "slow", "open"]) }).await;
        assert_eq!(handed(&got), ["2", "3"]);
    }

    async fn only_ready_jobs_are_popped(t) {
        t.one_in_each_stage("orders").await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["ready"]);
        assert!(t.pop("orders").await.is_none());
    }

    async fn a_pop_takes_at_most_max(t) {
        for id in ["1", "2", "3", "4", "5"] {
            t.add(Job::new("orders", "x").id(id)).await;
        }
        assert_eq!(handed(&t.pop_up_to("orders", 2).await), ["1", "2"]);
        assert_eq!(t.counts("orders").await.reserved, 2);
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["3", "4", "5"]);
    }

    async fn a_pop_may_take_a_thousand_jobs_and_no_more(t) {
        let jobs = (0..=POP_MAX).map(|n| t.checked(Job::new("orders", "x").id(n.to_string())));
        t.queue.add_all(jobs.collect()).await.unwrap();
        for max in [0, POP_MAX + 1, u32::MAX] {
            let refused = t.queue.pop(Ask { max, ..over(&["orders"]) }).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("max")));
        }
        assert_eq!(t.pop_up_to("orders", POP_MAX).await.len(), POP_MAX as usize);
        assert_eq!(t.counts("orders").await.ready, 1);
    }

    async fn a_pop_of_no_topics_is_refused(t) {
        for wait in [Duration::ZERO, SECOND] {
            let refused = t.queue.pop(Ask { wait, ..over(&[]) }).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("topics")));
        }
    }

    async fn a_topic_named_twice_is_one_topic(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let got = t.pop_by(Ask { max: 9, ..over(&["orders", "orders"]) }).await;
        assert_eq!(handed(&got), ["1"]);
    }

    async fn a_pop_that_does_not_wait_leaves_no_topic_behind(t) {
        assert!(t.pop("orders").await.is_none());
        assert_eq!(t.topic("orders").await, None);
    }

    async fn a_delivery_tells_all_about_the_job_and_its_lease(t) {
        let body = Body::json("{\"order\": 1}").unwrap();
        let added = t.add(Job::new("orders", body.clone()).id("1").ttr(5 * SECOND)).await;
        t.pass(SECOND).await;
        let got = t.popped("orders").await;
        assert_eq!((got.topic().as_str(), got.id().as_str(), got.body()), ("orders", "1", &body));
        assert_eq!((got.job.number, &got.job.spec), (added.number, &added.spec));
        assert_eq!((got.job.stage, got.job.attempt), (Stage::Reserved, 1));
        assert_eq!((got.job.due, got.job.created), (added.due, added.created));
        assert_eq!((got.ttr, got.until), (ttr(5 * SECOND), t.now().saturating_add_ms(5000)));
        assert_eq!((got.job.reserved_until, got.job.history.len()), (Some(got.until), 0));
        assert_eq!((got.target, got.confirm), (None, Confirm::Delivery));
    }

    async fn each_hand_out_that_counts_is_an_attempt(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let first = t.popped("orders").await;
        t.settle(&first, RELEASE).await.unwrap();
        let second = t.popped("orders").await;
        assert_eq!((first.job.attempt, second.job.attempt), (1, 1));
        t.fail(&second, "no").await;
        t.pass(MINUTE).await;
        let third = t.popped("orders").await;
        assert_eq!((third.job.attempt, third.job.tally.reserves), (2, 3));
    }

    async fn a_released_job_goes_back_to_its_place(t) {
        for id in ["1", "2", "3"] {
            t.add(Job::new("orders", "x").id(id)).await;
            t.pass(SECOND).await;
        }
        let got = t.pop_up_to("orders", 2).await;
        t.settle(&got[1], RELEASE).await.unwrap();
        assert_eq!(t.get("orders", "2").await.due, got[1].job.due);
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["2", "3"]);
    }

    async fn the_ttr_is_the_asks_else_the_jobs_else_the_topics_else_the_default(t) {
        let job = || Job::new("orders", "x").on_conflict(OnConflict::Replace);
        let asked = Terms { ttr: Some(ttr(SECOND)), owner: None, grace: None };
        let own = job().id("own").ttr(2 * SECOND);
        assert_eq!(ttr_of(&t, job(), Terms::default()).await, MINUTE);
        t.queue.set_defaults(Defaults { ttr: ttr(4 * SECOND), ..Defaults::default() });
        assert_eq!(ttr_of(&t, job(), Terms::default()).await, 4 * SECOND);
        t.set("orders", Settings { ttr: Some(ttr(3 * SECOND)), ..Settings::default() }).await;
        assert_eq!(ttr_of(&t, job(), Terms::default()).await, 3 * SECOND);
        assert_eq!(ttr_of(&t, own.clone(), Terms::default()).await, 2 * SECOND);
        assert_eq!(ttr_of(&t, own, asked).await, SECOND);
    }

    async fn the_ttr_is_looked_up_at_hand_out(t) {
        t.add(Job::new("orders", "x").id("ready")).await;
        t.add(Job::new("orders", "x").id("delayed").delay(SECOND)).await;
        t.set("orders", Settings { ttr: Some(ttr(3 * SECOND)), ..Settings::default() }).await;
        t.pass(SECOND).await;
        let got = t.pop_up_to("orders", 2).await;
        assert_eq!(got.iter().map(|got| got.ttr).collect::<Vec<_>>(), [ttr(3 * SECOND); 2]);
        t.set("orders", Settings::default()).await;
        t.pass(3 * SECOND - Duration::from_millis(1)).await;
        assert_eq!(t.counts("orders").await.reserved, 2);
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(t.popped("orders").await.ttr, ttr(MINUTE));
    }

    async fn the_ttr_of_an_ask_is_for_that_lease_only(t) {
        t.add(Job::new("orders", "x").id("1").ttr(2 * SECOND)).await;
        let terms = Terms { ttr: Some(ttr(HOUR)), owner: None, grace: None };
        let got = t.pop_by(Ask { terms, ..over(&["orders"]) }).await.remove(0);
        assert_eq!(got.until, t.now().saturating_add_ms(3_600_000));
        t.settle(&got, RELEASE).await.unwrap();
        assert_eq!(t.popped("orders").await.ttr, ttr(2 * SECOND));
    }

    async fn a_job_with_a_target_is_pushed_and_never_popped(t) {
        t.add(Job::new("orders", "x").id("push").target("http://shop.example/")).await;
        t.add(Job::new("orders", "x").id("pull")).await;
        assert_eq!(handed(&lane(&t, Lane::Pull).await), ["pull"]);
        let pushed = lane(&t, Lane::Push).await;
        assert_eq!(handed(&pushed), ["push"]);
        assert_eq!(pushed[0].target, Some(target("http://shop.example/")));
    }

    async fn the_lanes_of_one_topic_do_not_hold_each_other_up(t) {
        t.add(Job::new("orders", "x").id("push 1").target("worker:").priority(0)).await;
        t.add(Job::new("orders", "x").id("pull 1").priority(1)).await;
        t.add(Job::new("orders", "x").id("push 2").target("worker:").priority(2)).await;
        t.add(Job::new("orders", "x").id("pull 2").priority(3)).await;
        assert_eq!(handed(&lane(&t, Lane::Pull).await), ["pull 1", "pull 2"]);
        assert_eq!(handed(&lane(&t, Lane::Push).await), ["push 1", "push 2"]);
    }

    async fn a_topics_target_reaches_the_jobs_that_wait_and_are_ready(t) {
        t.add(Job::new("orders", "x").id("ready")).await;
        t.add(Job::new("orders", "x").id("delayed").delay(SECOND)).await;
        t.set("orders", pushed_to("sink:events")).await;
        t.pass(SECOND).await;
        assert!(lane(&t, Lane::Pull).await.is_empty());
        let pushed = lane(&t, Lane::Push).await;
        assert_eq!(handed(&pushed), ["ready", "delayed"]);
        assert!(pushed.iter().all(|got| got.target == Some(target("sink:events"))));
    }

    async fn without_its_topics_target_a_job_is_popped_again(t) {
        t.set("orders", pushed_to("sink:events")).await;
        t.add(Job::new("orders", "x").id("own").target("worker:shop")).await;
        t.add(Job::new("orders", "x").id("topics")).await;
        t.set("orders", Settings::default()).await;
        assert_eq!(handed(&lane(&t, Lane::Pull).await), ["topics"]);
        assert_eq!(handed(&lane(&t, Lane::Push).await), ["own"]);
    }

    async fn pushed_jobs_come_in_one_order_whosever_their_target_is(t) {
        t.set("orders", pushed_to("sink:events")).await;
        for (id, own) in [("1", true), ("2", false), ("3", true), ("4", false)] {
            let job = Job::new("orders", "x").id(id);
            t.add(if own { job.target("worker:shop") } else { job }).await;
        }
        let pushed = lane(&t, Lane::Push).await;
        assert_eq!(handed(&pushed), ["1", "2", "3", "4"]);
        let targets = pushed.iter().flat_map(|got| &got.target).map(Target::as_str);
        assert_eq!(targets.collect::<Vec<_>>(), ["worker:shop", "sink:events", "worker:shop", "sink:events"]);
    }

    async fn an_update_of_its_target_moves_a_ready_job_to_the_other_lane(t) {
        t.add(Job::new("orders", "x").id("1").target("worker:")).await;
        let clear = Patch { target: Edit::Clear, ..Patch::default() };
        t.change("orders", "1", Action::Update(clear)).await.unwrap();
        assert!(lane(&t, Lane::Push).await.is_empty());
        let got = t.popped("orders").await;
        assert_eq!(got.target, None);
        t.settle(&got, RELEASE).await.unwrap();
        let set = Patch { target: Edit::Set(target("worker:")), ..Patch::default() };
        t.change("orders", "1", Action::Update(set)).await.unwrap();
        assert!(lane(&t, Lane::Pull).await.is_empty());
        assert_eq!(handed(&lane(&t, Lane::Push).await), ["1"]);
    }

    async fn the_confirmation_is_the_jobs_else_the_topics(t) {
        let settings = Settings { confirm: Some(Confirm::Finish), ..pushed_to("worker:") };
        t.set("orders", settings).await;
        t.add(Job::new("orders", "x").id("topics")).await;
        let mut own = t.checked(Job::new("orders", "x").id("own"));
        own.spec.confirm = Some(Confirm::Delivery);
        t.queue.add_all(vec![own]).await.unwrap();
        let confirms: Vec<_> = lane(&t, Lane::Push).await.iter().map(|got| got.confirm).collect();
        assert_eq!(confirms, [Confirm::Finish, Confirm::Delivery]);
    }

    async fn a_pop_of_any_topic_takes_the_best_of_all(t) {
        for (topic, priority) in [("a", 3), ("b", 1), ("c", 2)] {
            t.add(Job::new(topic, "x").id(topic).priority(priority)).await;
        }
        t.add(Job::new("d", "x").id("pushed").priority(0).target("worker:")).await;
        let any = |lane| Ask { from: Source::Any, max: 9, lane, ..over(&[]) };
        assert_eq!(handed(&t.pop_by(any(Lane::Pull)).await), ["b", "c", "a"]);
        assert_eq!(handed(&t.pop_by(any(Lane::Push)).await), ["pushed"]);
    }

    async fn a_pop_of_any_topic_follows_a_topics_target(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let any = |lane| Ask { from: Source::Any, lane, ..over(&[]) };
        t.set("orders", pushed_to("worker:")).await;
        assert!(t.pop_by(any(Lane::Pull)).await.is_empty());
        let pushed = t.pop_by(any(Lane::Push)).await;
        assert_eq!(handed(&pushed), ["1"]);
        t.settle(&pushed[0], RELEASE).await.unwrap();
        t.set("orders", Settings::default()).await;
        assert!(t.pop_by(any(Lane::Push)).await.is_empty());
        assert_eq!(handed(&t.pop_by(any(Lane::Pull)).await), ["1"]);
    }

    async fn a_pop_of_any_topic_passes_over_those_that_hand_out_nothing(t) {
        t.add(Job::new("paused", "x").id("1").priority(0)).await;
        t.add(Job::new("open", "x").id("2")).await;
        t.configure("paused", TopicChange::Pause(None)).await.unwrap();
        let got = t.pop_by(Ask { from: Source::Any, max: 9, ..over(&[]) }).await;
        assert_eq!(handed(&got), ["2"]);
    }

    async fn a_ready_job_is_handed_out_though_the_clock_went_back(t) {
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        t.pass(HOUR).await;
        t.jump_ms(-3_000_000).await;
        let got = t.popped("orders").await;
        t.settle(&got, RELEASE).await.unwrap();
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
    }
}

/// How long a job would be leased for on these terms.
async fn ttr_of<S: Subject>(t: &Trial<S>, job: Job, terms: Terms) -> Duration {
    t.add(job).await;
    let got = t.pop_by(Ask { terms, ..over(&["orders"]) }).await.remove(0);
    assert_eq!(got.until.ms_since(t.now()), got.ttr.as_ms());
    got.ttr.as_duration()
}

/// All jobs of `orders` that this lane has ready.
async fn lane<S: Subject>(t: &Trial<S>, lane: Lane) -> Vec<Delivery> {
    t.pop_by(Ask { lane, max: 9, ..Ask::one(topic("orders")) }).await
}

fn target(url: &str) -> Target {
    url.parse().expect("a case writes targets rightly")
}

fn pushed_to(url: &str) -> Settings {
    Settings { target: Some(target(url)), ..Settings::default() }
}
