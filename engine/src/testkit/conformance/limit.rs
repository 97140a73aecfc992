//! What keeps a topic from handing out: pauses, its rate and its concurrency limit.

use std::num::NonZeroU32;
use std::time::Duration;

use super::trial::{RELEASE, TOUCH, handed, key, topic};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::job::{Job, OnConflict};
use crate::machine::{Owner, Reach};
use crate::queue::{Action, Ask, LetGo, PausedFor, Queue, Source, Terms, TopicChange, Verdict};
use crate::time::{DAY, HOUR, MINUTE, SECOND};
use crate::topic::{Counts, Settings};

suite! {
    async fn a_paused_topic_takes_jobs_and_hands_none_out(t) {
        pause(&t, None).await;
        t.add(job("1")).await;
        t.add(job("2").delay(SECOND)).await;
        t.pass(SECOND).await;
        assert!(t.pop("orders").await.is_none());
        assert_eq!(t.counts("orders").await, Counts { ready: 2, ..Counts::default() });
        t.configure("orders", TopicChange::Resume).await.unwrap();
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["1", "2"]);
    }

    async fn a_pause_is_for_one_topic(t) {
        pause(&t, None).await;
        t.add(job("1").priority(0)).await;
        t.add(Job::new("other", "x").id("2")).await;
        let any = Ask { from: Source::Any, max: 9, ..Ask::one(topic("orders")) };
        assert_eq!(handed(&t.queue.pop(any).await.unwrap()), ["2"]);
    }

    async fn a_pause_for_a_while_ends_by_itself(t) {
        t.add(job("1")).await;
        pause(&t, Some(10 * SECOND)).await;
        let mut waiting = t.begin_one("orders", MINUTE);
        t.pass(Duration::from_millis(9_999)).await;
        assert!(t.answered(&mut waiting).await.is_none());
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(handed(&waiting.await), ["1"]);
        assert_eq!(t.topic("orders").await.unwrap().paused, None);
    }

    async fn a_pause_says_how_long_it_lasts_yet(t) {
        pause(&t, Some(10 * SECOND)).await;
        t.pass(Duration::from_micros(3_000_500)).await;
        let left = t.topic("orders").await.unwrap().paused;
        assert_eq!(left, Some(PausedFor::Only(7 * SECOND)));
    }

    async fn the_last_pause_counts(t) {
        t.add(job("1")).await;
        for (first, second) in [(Some(SECOND), None), (Some(SECOND), Some(MINUTE))] {
            pause(&t, first).await;
            pause(&t, second).await;
            t.pass(SECOND).await;
            assert!(t.pop("orders").await.is_none(), "{first:?} then {second:?}");
        }
        pause(&t, Some(SECOND)).await;
        t.pass(SECOND).await;
        assert!(t.pop("orders").await.is_some());
    }

    async fn a_pause_of_nothing_ends_a_pause(t) {
        t.add(job("1")).await;
        pause(&t, None).await;
        let waiting = t.begin_one("orders", MINUTE);
        pause(&t, Some(Duration::ZERO)).await;
        assert_eq!(t.topic("orders").await.unwrap().paused, None);
        assert_eq!(handed(&waiting.await), ["1"]);
    }

    async fn a_pause_may_be_longer_than_all_time(t) {
        t.add(job("1")).await;
        pause(&t, Some(Duration::MAX)).await;
        t.pass(1000 * DAY).await;
        assert!(t.pop("orders").await.is_none());
        assert!(t.topic("orders").await.unwrap().paused.is_some());
    }

    async fn a_pause_runs_on_though_the_wall_clock_is_set(t) {
        t.add(job("1")).await;
        pause(&t, Some(MINUTE)).await;
        t.jump_ms(3_600_000).await;
        assert!(t.pop("orders").await.is_none());
        t.jump_ms(-7_200_000).await;
        t.pass(MINUTE).await;
        assert!(t.pop("orders").await.is_some());
    }

    async fn waiting_pops_stay_waiting_through_a_pause_in_their_order(t) {
        let mut first = t.begin_one("orders", HOUR);
        pause(&t, None).await;
        let second = t.begin_one("orders", HOUR);
        t.add_many(["1", "2"].map(job)).await;
        assert!(t.answered(&mut first).await.is_none());
        t.configure("orders", TopicChange::Resume).await.unwrap();
        assert_eq!((handed(&first.await), handed(&second.await)), (vec!["1"], vec!["2"]));
    }

    async fn a_wait_ends_though_its_topic_is_paused(t) {
        t.add(job("1")).await;
        pause(&t, None).await;
        let waiting = t.begin_one("orders", SECOND);
        t.pass(SECOND).await;
        assert_eq!(waiting.await, []);
    }

    async fn leases_of_a_paused_topic_run_on_and_may_be_settled(t) {
        t.add_many(["1", "2", "3", "4"].map(|id| job(id).ttr(MINUTE))).await;
        let jobs = t.pop_up_to("orders", 4).await;
        pause(&t, None).await;
        t.finish(&jobs[0]).await;
        t.settle(&jobs[1], RELEASE).await.unwrap();
        t.settle(&jobs[2], TOUCH).await.unwrap();
        t.fail(&jobs[2], "no").await;
        t.pass(MINUTE).await;
        let late = t.settle(&jobs[3], Verdict::Finish).await.unwrap_err();
        assert_eq!(late.code(), Code::LeaseLost);
        assert!(t.pop("orders").await.is_none());
    }

    async fn a_rate_hands_out_a_seconds_worth_and_then_its_pace(t) {
        t.set("orders", paced("100")).await;
        t.add_many((0..300).map(|n| job(&n.to_string()))).await;
        assert_eq!(t.pop_up_to("orders", 300).await.len(), 100);
        for (ms, expected) in [(9, 0), (1, 1), (25, 2), (5, 1), (40, 4), (5000, 100)] {
            t.pass(Duration::from_millis(ms)).await;
            assert_eq!(t.pop_up_to("orders", 300).await.len(), expected, "after {ms} ms");
        }
    }

    async fn a_rate_by_the_minute_hands_out_one_by_one(t) {
        t.set("orders", paced("10/m")).await;
        t.add_many((0..20).map(|n| job(&n.to_string()))).await;
        assert_eq!(t.pop_up_to("orders", 20).await.len(), 1);
        t.pass(Duration::from_millis(5_999)).await;
        assert_eq!(t.pop_up_to("orders", 20).await.len(), 0);
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(t.pop_up_to("orders", 20).await.len(), 1);
        t.pass(10 * MINUTE).await;
        assert_eq!(t.pop_up_to("orders", 20).await.len(), 1);
    }

    async fn a_rate_holds_for_waiting_pops_in_their_order(t) {
        t.set("orders", paced("10/m")).await;
        let mut waiting: Vec<_> = (0..3).map(|_| t.begin_one("orders", HOUR)).collect();
        t.add_many(["1", "2", "3"].map(job)).await;
        let (mut third, mut second) = (waiting.remove(2), waiting.remove(1));
        assert_eq!(handed(&waiting.remove(0).await), ["1"]);
        t.pass(Duration::from_millis(5_999)).await;
        assert!(t.answered(&mut second).await.is_none());
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(handed(&second.await), ["2"]);
        assert!(t.answered(&mut third).await.is_none());
        t.pass(6 * SECOND).await;
        assert_eq!(handed(&third.await), ["3"]);
    }

    async fn a_rate_wakes_a_pop_that_began_when_it_was_used_up(t) {
        t.set("orders", paced("1/m")).await;
        t.add_many(["1", "2"].map(job)).await;
        t.popped("orders").await;
        for from in [Source::Any, Source::These(vec![topic("orders")])] {
            let waiting = t.begin(Ask { from, wait: HOUR, ..Ask::one(topic("orders")) });
            t.pass(MINUTE).await;
            let delivery = waiting.await.pop().expect("a minute is over");
            t.settle(&delivery, RELEASE).await.unwrap();
        }
    }

    async fn a_rate_never_refuses_an_add(t) {
        t.set("orders", paced("1/d")).await;
        t.add_many((0..50).map(|n| job(&n.to_string()))).await;
        assert_eq!(t.pop_up_to("orders", 50).await.len(), 1);
        t.add(job("one more")).await;
        assert_eq!(t.counts("orders").await.ready, 50);
    }

    async fn a_rate_runs_on_though_the_wall_clock_is_set(t) {
        t.set("orders", paced("1/m")).await;
        t.add_many(["1", "2"].map(job)).await;
        t.popped("orders").await;
        t.jump_ms(3_600_000).await;
        assert!(t.pop("orders").await.is_none());
        t.jump_ms(-7_200_000).await;
        t.pass(MINUTE).await;
        assert!(t.pop("orders").await.is_some());
    }

    async fn a_caller_who_hung_up_uses_none_of_the_rate(t) {
        t.set("orders", paced("1/h")).await;
        let waiting = t.begin_one("orders", MINUTE);
        t.add(job("1")).await;
        drop(waiting);
        assert_eq!(t.popped("orders").await.job.attempt, 1);
    }

    async fn a_faster_rate_holds_at_once(t) {
        t.set("orders", paced("1/d")).await;
        t.add_many((0..9).map(|n| job(&n.to_string()))).await;
        t.popped("orders").await;
        let waiting = t.begin_one("orders", HOUR);
        t.set("orders", paced("2")).await;
        t.pass(SECOND / 2).await;
        assert_eq!(waiting.await.len(), 1);
        t.pass(SECOND).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 2);
        t.set("orders", Settings::default()).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 5);
    }

    async fn the_same_rate_set_again_gives_nothing_extra(t) {
        t.set("orders", paced("5/m")).await;
        t.add_many(["1", "2"].map(job)).await;
        t.popped("orders").await;
        for _ in 0..3 {
            t.set("orders", paced("5/m")).await;
            assert!(t.pop("orders").await.is_none());
        }
    }

    async fn a_used_up_topic_does_not_hold_up_others(t) {
        t.set("orders", paced("1/h")).await;
        t.add_many(["1", "2"].map(|id| job(id).priority(0))).await;
        t.add(Job::new("other", "x").id("3")).await;
        let any = Ask { from: Source::Any, max: 9, ..Ask::one(topic("orders")) };
        assert_eq!(handed(&t.queue.pop(any).await.unwrap()), ["1", "3"]);
    }

    async fn a_concurrency_limit_counts_reserved_jobs(t) {
        t.set("orders", at_once(2)).await;
        t.add_many((0..9).map(|n| job(&n.to_string()))).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 2);
        assert!(t.pop("orders").await.is_none());
        assert_eq!(t.counts("orders").await.reserved, 2);
    }

    async fn whatever_ends_a_lease_frees_a_place_under_the_limit(t) {
        let by = |owner| Terms { owner: Some(Owner(owner)), ..Terms::default() };
        t.set("orders", at_once(1)).await;
        t.add_many((0..8).map(|n| job(&n.to_string()).ttr(MINUTE))).await;
        for way in 0..7 {
            let delivery = t.queue.pop(Ask { terms: by(7), ..Ask::one(topic("orders")) });
            let delivery = delivery.await.unwrap().pop().expect("a place is free");
            assert!(t.pop("orders").await.is_none());
            let id = delivery.id().as_str();
            match way {
                0 => assert!(t.finish(&delivery).await.changed),
                1 => assert!(t.fail(&delivery, "no").await.changed),
                2 => assert!(t.change("orders", id, Action::Delete(Reach::Any)).await.unwrap().changed),
                3 => t.pass(MINUTE).await,
                4 => drop(t.queue.let_go(Owner(7), LetGo::Lost).await.unwrap()),
                5 => assert!(t.settle(&delivery, RELEASE).await.unwrap().changed),
                _ => drop(t.add(job(id).on_conflict(OnConflict::Replace)).await),
            }
        }
        assert!(t.pop("orders").await.is_some());
    }

    async fn a_place_that_is_freed_goes_to_who_waits_first(t) {
        t.set("orders", at_once(1)).await;
        t.add_many(["1", "2", "3"].map(job)).await;
        let delivery = t.popped("orders").await;
        let mut first = t.begin_one("orders", HOUR);
        let mut second = t.begin_one("orders", HOUR);
        assert!(t.answered(&mut first).await.is_none());
        t.finish(&delivery).await;
        assert_eq!(handed(&first.await), ["2"]);
        assert!(t.answered(&mut second).await.is_none());
    }

    async fn a_higher_limit_serves_those_who_wait(t) {
        t.set("orders", at_once(1)).await;
        t.add_many(["1", "2", "3"].map(job)).await;
        t.popped("orders").await;
        let waiting = t.begin_one("orders", HOUR);
        t.set("orders", at_once(2)).await;
        assert_eq!(handed(&waiting.await), ["2"]);
        assert!(t.pop("orders").await.is_none());
    }

    async fn a_limit_below_what_is_reserved_waits_for_leases_to_end(t) {
        t.add_many((0..6).map(|n| job(&n.to_string()))).await;
        let jobs = t.pop_up_to("orders", 3).await;
        t.set("orders", at_once(2)).await;
        t.finish(&jobs[0]).await;
        assert!(t.pop("orders").await.is_none());
        t.finish(&jobs[1]).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 1);
    }

    async fn both_limits_hold_together(t) {
        let both = Settings { concurrency: NonZeroU32::new(2), ..paced("3") };
        t.set("orders", both).await;
        t.add_many((0..9).map(|n| job(&n.to_string()))).await;
        let first = t.pop_up_to("orders", 9).await;
        assert_eq!(first.len(), 2);
        for delivery in &first {
            t.finish(delivery).await;
        }
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 1);
        t.pass(SECOND).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 1);
        pause(&t, None).await;
        t.pass(MINUTE).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 0);
    }

    async fn asking_for_a_very_job_passes_by_pause_and_limits(t) {
        t.set("orders", Settings { concurrency: NonZeroU32::new(1), ..paced("1/d") }).await;
        t.add_many(["1", "2"].map(job)).await;
        t.popped("orders").await;
        pause(&t, None).await;
        let named = t.queue.reserve(&key("orders", "2"), Terms::default()).await.unwrap();
        assert_eq!(named.id().as_str(), "2");
        assert_eq!(t.counts("orders").await.reserved, 2);
    }
}

fn job(id: &str) -> Job {
    Job::new("orders", "x").id(id)
}

fn paced(rate: &str) -> Settings {
    Settings { rate: Some(rate.parse().expect("a right rate")), ..Settings::default() }
}

fn at_once(limit: u32) -> Settings {
    Settings { concurrency: NonZeroU32::new(limit), ..Settings::default() }
}

async fn pause<S: Subject>(t: &Trial<S>, length: Option<Duration>) {
    t.configure("orders", TopicChange::Pause(length)).await.expect("any topic can be paused");
}
