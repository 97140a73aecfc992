//! Topics: how they come and go, their settings and counts, and how they are listed.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::trial::{RELEASE, TOUCH, failed, handed, ids, key, topic};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::job::{Confirm, Envelope, Job, OnConflict, Patch, Ttr};
use crate::machine::{Reach, Stage};
use crate::queue::{
    Action, Ask, Bulk, Filter, Lane, PAGE_MAX, PausedFor, Queue, Source, Terms, TopicChange,
    Topics, Verdict,
};
use crate::retry::Retry;
use crate::time::{DAY, HOUR, MINUTE, SECOND};
use crate::topic::{Counts, Defaults, Headers, Partitions, Settings};

suite! {
    async fn a_topic_is_there_while_it_has_a_job_in_any_state(t) {
        t.add(job("1").delay(SECOND).retain(SECOND)).await;
        assert_eq!(names(&t, "").await, ["orders"]);
        t.pass(SECOND).await;
        let delivery = t.popped("orders").await;
        assert_eq!(names(&t, "").await, ["orders"]);
        t.finish(&delivery).await;
        assert_eq!(names(&t, "").await, ["orders"]);
        t.pass(SECOND).await;
        assert_eq!(names(&t, "").await, [""; 0]);
        assert_eq!(t.topic("orders").await, None);
    }

    async fn a_topic_is_gone_with_its_last_job(t) {
        t.add_many(["1", "2"].map(job)).await;
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        assert!(t.topic("orders").await.is_some());
        t.finish(&t.popped("orders").await).await;
        assert_eq!(t.topic("orders").await, None);
    }

    async fn a_topic_is_there_while_it_has_a_setting(t) {
        t.set("orders", paced("5")).await;
        assert_eq!(t.topic("orders").await.unwrap().settings, paced("5"));
        t.add(job("1")).await;
        t.finish(&t.popped("orders").await).await;
        assert!(t.topic("orders").await.is_some());
        t.set("orders", Settings::default()).await;
        assert_eq!(t.topic("orders").await, None);
    }

    async fn a_topic_is_there_while_it_is_paused(t) {
        pause(&t, None).await;
        assert_eq!(t.topic("orders").await.unwrap().paused, Some(PausedFor::Ever));
        t.configure("orders", TopicChange::Resume).await.unwrap();
        assert_eq!(t.topic("orders").await, None);
        pause(&t, Some(SECOND)).await;
        assert!(t.topic("orders").await.is_some());
        t.pass(SECOND).await;
        assert_eq!(t.topic("orders").await, None);
    }

    async fn a_topic_is_there_while_a_call_waits_for_it_by_name(t) {
        let both = Source::These(vec![topic("a"), topic("b")]);
        let waiting = t.begin(Ask { from: both, wait: MINUTE, ..Ask::one(topic("a")) });
        let any = t.begin(Ask { from: Source::Any, wait: MINUTE, ..Ask::one(topic("a")) });
        assert_eq!(names(&t, "").await, ["a", "b"]);
        assert_eq!(t.topic("a").await.unwrap().waiting, 1);
        drop((waiting, any));
        assert_eq!(names(&t, "").await, [""; 0]);
    }

    async fn waiting_calls_are_counted_until_they_are_answered(t) {
        let first = t.begin_one("orders", MINUTE);
        let push = Ask { lane: Lane::Push, wait: SECOND, ..Ask::one(topic("orders")) };
        let second = t.begin(push);
        assert_eq!(t.topic("orders").await.unwrap().waiting, 2);
        t.pass(SECOND).await;
        assert_eq!(second.await, []);
        assert_eq!(t.topic("orders").await.unwrap().waiting, 1);
        t.add(job("1")).await;
        assert_eq!(handed(&first.await), ["1"]);
        assert_eq!(t.topic("orders").await.unwrap().waiting, 0);
    }

    async fn looking_does_not_make_a_topic(t) {
        assert!(t.pop("orders").await.is_none());
        assert_eq!(t.topic("orders").await, None);
        assert_eq!(t.sweep("orders", Filter::default(), Bulk::Delete).await, 0);
        t.try_get("orders", "1").await.unwrap_err();
        assert_eq!(names(&t, "").await, [""; 0]);
    }

    async fn an_unknown_topic_cannot_be_resumed_emptied_or_forgotten(t) {
        for change in [TopicChange::Resume, TopicChange::Empty, TopicChange::Forget] {
            let refused = t.configure("orders", change).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound);
        }
        assert_eq!(t.topic("orders").await, None);
    }

    async fn settings_are_replaced_as_a_whole(t) {
        let full = Settings {
            ttr: Ttr::new(SECOND).ok(),
            retry: Some(Retry::none()),
            target: "http://a/b".parse().ok(),
            confirm: Some(Confirm::Finish),
            envelope: Some(Envelope::CloudEvents),
            timeout: Ttr::new(10 * SECOND).ok(),
            headers: Headers::new([("X-Shop", "1")]).unwrap(),
            archive: "files".parse().ok(),
            retain: Some(HOUR),
            retain_dead: Some(DAY),
            rate: "500/15m".parse().ok(),
            concurrency: NonZeroU32::new(3),
            partitions: Partitions::new(4).ok(),
            jobs_max: NonZeroU32::new(1000),
            bytes_max: NonZeroU64::new(1 << 40),
        };
        t.set("orders", full.clone()).await;
        assert_eq!(t.topic("orders").await.unwrap().settings, full);
        let one = Settings { retain: Some(SECOND), ..Settings::default() };
        t.set("orders", one.clone()).await;
        assert_eq!(t.topic("orders").await.unwrap().settings, one);
    }

    async fn settings_are_each_topics_own(t) {
        t.set("a", paced("1/m")).await;
        t.add_many(["1", "2"].map(|id| Job::new("b", "x").id(id))).await;
        assert_eq!(t.pop_up_to("b", 2).await.len(), 2);
        assert_eq!(t.topic("b").await.unwrap().settings, Settings::default());
    }

    async fn new_settings_leave_a_pause_as_it_is(t) {
        t.add(job("1")).await;
        pause(&t, None).await;
        t.set("orders", paced("5")).await;
        assert_eq!(t.topic("orders").await.unwrap().paused, Some(PausedFor::Ever));
        assert!(t.pop("orders").await.is_none());
    }

    async fn a_topics_ttr_and_retry_reach_jobs_that_wait(t) {
        t.add_many([job("1"), job("2").ttr(MINUTE).retry(Retry::no_limit())]).await;
        let (ttr, retry) = (Ttr::new(SECOND).ok(), Some(Retry::none()));
        t.set("orders", Settings { ttr, retry, ..bare() }).await;
        let jobs = t.pop_up_to("orders", 2).await;
        assert_eq!([jobs[0].ttr.as_duration(), jobs[1].ttr.as_duration()], [SECOND, MINUTE]);
        for delivery in &jobs {
            t.fail(delivery, "no").await;
        }
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Dead));
        assert_eq!(t.stage("orders", "2").await, Some(Stage::Retry));
    }

    async fn what_a_topic_does_not_say_the_stores_defaults_say(t) {
        let ttr = Ttr::new(5 * SECOND).unwrap();
        t.queue.set_defaults(Defaults { ttr, retry: Retry::none(), retain: Some(HOUR) });
        t.add_many(["1", "2"].map(job)).await;
        let jobs = t.pop_up_to("orders", 2).await;
        assert_eq!(jobs[0].ttr, ttr);
        t.fail(&jobs[0], "no").await;
        t.finish(&jobs[1]).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Dead));
        assert_eq!(t.stage("orders", "2").await, Some(Stage::Finished));
    }

    async fn a_topics_target_moves_its_jobs_to_the_push_lane(t) {
        t.add_many([job("plain"), job("own").target("http://own/x")]).await;
        let push = || Ask { lane: Lane::Push, max: 9, ..Ask::one(topic("orders")) };
        t.set("orders", Settings { target: "http://topic/x".parse().ok(), ..bare() }).await;
        assert!(t.pop("orders").await.is_none());
        let pushed = t.queue.pop(push()).await.unwrap();
        let target = |n: usize| pushed[n].target.as_ref().unwrap().as_str();
        assert_eq!(handed(&pushed), ["plain", "own"]);
        assert_eq!([target(0), target(1)], ["http://topic/x", "http://own/x"]);
        for delivery in &pushed {
            t.settle(delivery, RELEASE).await.unwrap();
        }
        t.set("orders", bare()).await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["plain"]);
        assert_eq!(handed(&t.queue.pop(push()).await.unwrap()), ["own"]);
    }

    async fn a_target_that_a_topic_loses_serves_those_who_wait_to_pop(t) {
        t.set("orders", Settings { target: "sink:events".parse().ok(), ..bare() }).await;
        t.add(job("1")).await;
        let waiting = t.begin_one("orders", MINUTE);
        t.set("orders", bare()).await;
        assert_eq!(handed(&waiting.await), ["1"]);
    }

    async fn empty_removes_jobs_in_every_state_and_keeps_settings_and_pause(t) {
        let settings = Settings { retain: Some(HOUR), ..bare() };
        t.set("orders", settings.clone()).await;
        t.add(Job::new("other", "x").id("1")).await;
        one_in_each_state(&t).await;
        pause(&t, None).await;
        assert_eq!(t.configure("orders", TopicChange::Empty).await.unwrap(), 7);
        let info = t.topic("orders").await.unwrap();
        assert_eq!((info.counts, info.settings), (Counts::default(), settings));
        assert_eq!(info.paused, Some(PausedFor::Ever));
        assert_eq!(t.counts("other").await.ready, 1);
        assert_eq!(t.configure("orders", TopicChange::Empty).await.unwrap(), 0);
    }

    async fn an_emptied_topic_without_settings_is_gone(t) {
        t.add(job("1")).await;
        assert_eq!(t.configure("orders", TopicChange::Empty).await.unwrap(), 1);
        assert_eq!(t.topic("orders").await, None);
    }

    async fn forget_removes_jobs_settings_and_pause(t) {
        t.set("orders", Settings { retain: Some(HOUR), ..paced("1/d") }).await;
        one_in_each_state(&t).await;
        pause(&t, None).await;
        assert_eq!(t.configure("orders", TopicChange::Forget).await.unwrap(), 7);
        assert_eq!(t.topic("orders").await, None);
        t.add_many(["1", "2"].map(job)).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 2);
    }

    async fn a_holder_of_a_removed_job_finds_nothing_to_settle(t) {
        for change in [TopicChange::Empty, TopicChange::Forget] {
            t.add(job("1").ttr(MINUTE)).await;
            let delivery = t.popped("orders").await;
            assert_eq!(t.configure("orders", change).await.unwrap(), 1);
            for verdict in [Verdict::Finish, failed("no"), RELEASE, TOUCH] {
                let refused = t.settle(&delivery, verdict).await.unwrap_err();
                assert_eq!(refused.code(), Code::NotFound);
            }
            t.pass(2 * MINUTE).await;
            assert!(t.pop("orders").await.is_none());
        }
    }

    async fn removed_jobs_do_not_come_back_when_they_would_have_been_due(t) {
        t.add_many([job("1").delay(SECOND), job("2").delay(HOUR)]).await;
        t.configure("orders", TopicChange::Empty).await.unwrap();
        t.pass(HOUR).await;
        assert!(t.pop("orders").await.is_none());
        assert_eq!(t.add(job("1")).await.attempt, 0);
        assert_eq!(t.counts("orders").await.total(), 1);
    }

    async fn those_who_wait_stay_waiting_when_a_topic_is_emptied_or_forgotten(t) {
        for change in [TopicChange::Empty, TopicChange::Forget] {
            let mut waiting = t.begin_one("orders", HOUR);
            t.add(job("1").delay(MINUTE)).await;
            t.configure("orders", change).await.unwrap();
            t.pass(MINUTE).await;
            assert!(t.answered(&mut waiting).await.is_none());
            t.add(job("2")).await;
            let delivery = waiting.await.pop().expect("a job came");
            t.finish(&delivery).await;
        }
    }

    async fn forgetting_a_paused_or_used_up_topic_frees_those_who_wait(t) {
        t.set("orders", paced("1/d")).await;
        pause(&t, None).await;
        let waiting = t.begin_one("orders", HOUR);
        t.configure("orders", TopicChange::Forget).await.unwrap();
        t.add(job("1")).await;
        assert_eq!(handed(&waiting.await), ["1"]);
    }

    async fn counts_are_exact_at_every_turn_of_a_story(t) {
        let counts = |delayed, ready, reserved, retry, dead, finished| Counts {
            delayed, ready, reserved, retry, dead, finished, ..Counts::default()
        };
        let retry = Retry::ladder(&[MINUTE]).unwrap();
        let told = |id: &str| job(id).delay(SECOND).retain(HOUR).retry(retry.clone());
        t.add_many(["1", "2", "3"].map(told)).await;
        assert_eq!(t.counts("orders").await, counts(3, 0, 0, 0, 0, 0));
        t.pass(SECOND).await;
        assert_eq!(t.counts("orders").await, counts(0, 3, 0, 0, 0, 0));
        let jobs = t.pop_up_to("orders", 2).await;
        assert_eq!(t.counts("orders").await, counts(0, 1, 2, 0, 0, 0));
        t.fail(&jobs[0], "no").await;
        t.finish(&jobs[1]).await;
        assert_eq!(t.counts("orders").await, counts(0, 1, 0, 1, 0, 1));
        t.change("orders", "3", Action::Delete(Reach::Any)).await.unwrap();
        t.pass(MINUTE).await;
        t.fail(&t.popped("orders").await, "no").await;
        assert_eq!(t.counts("orders").await, counts(0, 0, 0, 0, 1, 1));
        t.change("orders", "1", Action::Redrive).await.unwrap();
        t.pass(HOUR).await;
        assert_eq!(t.counts("orders").await, counts(0, 1, 0, 0, 0, 0));
    }

    async fn held_jobs_count_as_held_whatever_they_were_before(t) {
        t.add_many([job("1"), job("2"), job("3").delay(HOUR)]).await;
        t.fail(&t.popped("orders").await, "no").await;
        for id in ["1", "2", "3"] {
            t.change("orders", id, Action::Hold).await.unwrap();
        }
        t.pass(2 * HOUR).await;
        assert_eq!(t.counts("orders").await, Counts { held: 3, ..Counts::default() });
        t.sweep("orders", Filter::default(), Bulk::Unhold).await;
        assert_eq!(t.counts("orders").await, Counts { ready: 3, ..Counts::default() });
    }

    async fn urgent_are_the_ready_jobs_of_a_priority_under_1024(t) {
        let urgent = async || t.counts("orders").await.urgent;
        t.add_many([job("1").priority(1023), job("2").priority(1024), job("3").priority(0)]).await;
        t.add(job("4").priority(0).delay(SECOND)).await;
        assert_eq!(urgent().await, 2);
        t.pass(SECOND).await;
        assert_eq!(urgent().await, 3);
        t.popped("orders").await;
        assert_eq!(urgent().await, 2);
        let patch = Patch { priority: Some(5000), ..Patch::default() };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        assert_eq!(urgent().await, 1);
    }

    async fn jobs_ever_added_are_counted_while_the_topic_is_there(t) {
        let added = async || t.topic("orders").await.map(|info| info.added);
        t.add_many(["1", "2"].map(job)).await;
        t.add(job("1").on_conflict(OnConflict::Keep)).await;
        t.try_add(job("1")).await.unwrap_err();
        t.finish(&t.popped("orders").await).await;
        assert_eq!(added().await, Some(2));
        t.configure("orders", TopicChange::Forget).await.unwrap();
        t.add(job("1")).await;
        assert_eq!(added().await, Some(1));
    }

    async fn dead_jobs_are_kept_for_ever_unless_the_topic_says_otherwise(t) {
        dead(&t, "1").await;
        t.pass(3000 * DAY).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Dead));
    }

    async fn how_long_dead_jobs_are_kept_reaches_those_already_there(t) {
        dead(&t, "1").await;
        t.pass(MINUTE).await;
        dead(&t, "2").await;
        t.set("orders", Settings { retain_dead: Some(10 * MINUTE), ..bare() }).await;
        t.pass(9 * MINUTE - Duration::from_millis(1)).await;
        assert_eq!(ids(&t.in_stage("orders", Stage::Dead).await), ["1", "2"]);
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(ids(&t.in_stage("orders", Stage::Dead).await), ["2"]);
        t.set("orders", Settings { retain_dead: Some(SECOND), ..bare() }).await;
        assert_eq!(t.stage("orders", "2").await, None);
    }

    async fn dead_jobs_may_be_kept_longer_than_was_said_before(t) {
        t.set("orders", Settings { retain_dead: Some(SECOND), ..bare() }).await;
        dead(&t, "1").await;
        t.set("orders", Settings { retain_dead: Some(MINUTE), ..bare() }).await;
        t.pass(SECOND).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Dead));
        t.set("orders", bare()).await;
        t.pass(DAY).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Dead));
    }

    async fn a_redriven_job_does_not_lapse_with_the_dead(t) {
        t.set("orders", Settings { retain_dead: Some(MINUTE), ..bare() }).await;
        dead(&t, "1").await;
        t.change("orders", "1", Action::Redrive).await.unwrap();
        t.pass(HOUR).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
    }

    async fn finished_jobs_stay_visible_as_long_as_the_topic_or_they_say(t) {
        t.set("orders", Settings { retain: Some(MINUTE), ..bare() }).await;
        t.add_many([job("1"), job("2").retain(HOUR), job("3").retain(Duration::ZERO)]).await;
        for delivery in t.pop_up_to("orders", 3).await {
            t.finish(&delivery).await;
        }
        assert_eq!(ids(&t.in_stage("orders", Stage::Finished).await), ["1", "2"]);
        t.pass(MINUTE - Duration::from_millis(1)).await;
        assert_eq!(t.counts("orders").await.finished, 2);
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(ids(&t.in_stage("orders", Stage::Finished).await), ["2"]);
        t.pass(HOUR).await;
        assert_eq!(t.counts("orders").await.total(), 0);
    }

    async fn topics_are_listed_by_name(t) {
        for name in ["b", "支付宝", "a", "Z", "é", "a b", "aa", "🦀"] {
            t.add(Job::new(name, "x")).await;
        }
        assert_eq!(names(&t, "").await, ["Z", "a", "a b", "aa", "b", "é", "支付宝", "🦀"]);
    }

    async fn a_prefix_of_topics_is_text_and_no_pattern(t) {
        for name in ["pay*", "pay", "pay*1", "payment", "pa", "支付宝", "支付"] {
            t.add(Job::new(name, "x")).await;
        }
        assert_eq!(names(&t, "pay*").await, ["pay*", "pay*1"]);
        assert_eq!(names(&t, "pay").await, ["pay", "pay*", "pay*1", "payment"]);
        assert_eq!(names(&t, "支付").await, ["支付", "支付宝"]);
        assert_eq!(names(&t, "none").await, [""; 0]);
    }

    async fn a_list_of_topics_goes_on_after_the_name_given(t) {
        for name in ["p1", "p2", "p3", "q"] {
            t.add(Job::new(name, "x")).await;
        }
        for (after, limit, expected) in [
            ("p1", 1, &["p2"][..]),
            ("p1", 9, &["p2", "p3"]),
            ("p15", 9, &["p2", "p3"]),
            ("p3", 9, &[]),
            ("a", 9, &["p1", "p2", "p3"]),
            ("z", 9, &[]),
        ] {
            assert_eq!(names_after(&t, "p", Some(after), limit).await, expected, "after {after}");
        }
    }

    async fn a_page_of_no_or_too_many_topics_is_refused(t) {
        for limit in [0, PAGE_MAX + 1] {
            let page = Topics::Page { prefix: "".into(), after: None, limit };
            let refused = t.queue.topics(page).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("limit")));
        }
    }

    async fn a_thousand_topics_are_paged_completely(t) {
        let all: Vec<String> = (0..1000).map(|n| format!("topic {n:04}")).collect();
        t.add_many(all.iter().rev().map(|name| Job::new(name, "x"))).await;
        let mut seen: Vec<String> = Vec::new();
        loop {
            let next = names_after(&t, "topic", seen.last().map(String::as_str), 77).await;
            if next.is_empty() {
                break;
            }
            seen.extend(next);
            assert!(all.starts_with(&seen), "{seen:?}");
        }
        assert_eq!(seen.len(), all.len());
        assert_eq!(names(&t, "").await, all);
    }
}

fn job(id: &str) -> Job {
    Job::new("orders", "x").id(id)
}

fn bare() -> Settings {
    Settings::default()
}

fn paced(rate: &str) -> Settings {
    Settings { rate: Some(rate.parse().expect("a right rate")), ..Settings::default() }
}

async fn pause<S: Subject>(t: &Trial<S>, length: Option<Duration>) {
    t.configure("orders", TopicChange::Pause(length)).await.expect("any topic can be paused");
}

/// A dead job; no other is ready.
async fn dead<S: Subject>(t: &Trial<S>, id: &str) {
    t.add(job(id).retry(Retry::none())).await;
    t.fail(&t.popped("orders").await, "no").await;
}

/// Seven jobs, one in each state, in a topic that keeps what is finished.
async fn one_in_each_state<S: Subject>(t: &Trial<S>) {
    for n in 0..4 {
        t.add(job(&n.to_string())).await;
        let way = t.queue.reserve(&key("orders", &n.to_string()), Terms::default()).await.unwrap();
        match n {
            0 => assert!(t.finish(&way).await.changed),
            1 => assert!(t.fail(&way, "no").await.changed),
            2 => assert!(
                t.settle(&way, Verdict::Bury { error: None, priority: None })
                    .await
                    .unwrap()
                    .changed
            ),
            _ => {}
        }
    }
    t.add_many([job("ready"), job("delayed").delay(HOUR), job("held").held()]).await;
}

async fn names<S: Subject>(t: &Trial<S>, prefix: &str) -> Vec<String> {
    names_after(t, prefix, None, PAGE_MAX).await
}

async fn names_after<S: Subject>(
    t: &Trial<S>,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Vec<String> {
    let page = Topics::Page { prefix: prefix.into(), after: after.map(topic), limit };
    let infos = t.queue.topics(page).await.expect("a right question");
    infos.iter().map(|info| info.topic.to_string()).collect()
}
