//! What a store counts about itself.

use std::num::NonZeroU32;

use super::trial::{RELEASE, key, topic};
use super::{Subject, Trial, suite};
use crate::job::{Job, OnConflict};
use crate::machine::{Owner, Reach, Stage};
use crate::queue::{
    Action, Ask, Bulk, Filter, LetGo, Mode, Queue, Source, Terms, TopicChange, Verdict,
};
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::stats::{BOUNDS_US, Stats};
use crate::time::{HOUR, MINUTE, SECOND};
use crate::topic::{Counts, Settings};

suite! {
    async fn an_empty_store_has_counted_nothing(t) {
        assert_eq!(t.stats().await, Stats::default());
    }

    async fn every_new_job_is_counted_and_nothing_else_is(t) {
        t.add_many([job("1"), job("2")]).await;
        t.add(job("1").on_conflict(OnConflict::Keep)).await;
        t.try_add(job("1")).await.unwrap_err();
        assert_eq!(t.stats().await.added, 2);
        t.add(job("1").on_conflict(OnConflict::Replace)).await;
        assert_eq!(t.stats().await.added, 3);
    }

    async fn every_hand_out_is_counted_however_it_came_about(t) {
        let waiting = t.begin_one("orders", MINUTE);
        t.add_many(["1", "2", "3", "4"].map(job)).await;
        assert_eq!(waiting.await.len(), 1);
        assert_eq!(t.pop_up_to("orders", 2).await.len(), 2);
        t.queue.reserve(&key("orders", "4"), Terms::default()).await.unwrap();
        assert_eq!((t.pop("orders").await, t.stats().await.handed_out), (None, 4));
    }

    async fn a_job_that_is_handed_out_again_is_counted_again(t) {
        t.add(job("1")).await;
        for _ in 0..3 {
            t.settle(&t.popped("orders").await, RELEASE).await.unwrap();
        }
        assert_eq!((t.stats().await.handed_out, t.stats().await.added), (3, 1));
    }

    async fn a_finish_is_counted_once(t) {
        t.add_many(["1", "2", "3"].map(|id| job(id).retain(HOUR))).await;
        let jobs = t.pop_up_to("orders", 3).await;
        for _ in 0..2 {
            t.finish(&jobs[0]).await;
            t.settle_id("orders", "2", Verdict::Finish).await.unwrap();
            t.sweep("orders", Filter::default(), Bulk::Finish).await;
        }
        t.settle(&jobs[1], RELEASE).await.unwrap_err();
        assert_eq!(t.stats().await.finished, 3);
    }

    async fn attempts_are_counted_when_a_job_ends(t) {
        t.add_many([job("1"), job("2")]).await;
        t.finish(&t.popped("orders").await).await;
        for _ in 0..2 {
            let again = Verdict::Fail { error: "no".into(), retry_in: Some(SECOND) };
            t.settle(&t.popped("orders").await, again).await.unwrap();
            t.pass(SECOND).await;
        }
        assert_eq!(t.stats().await.attempts.sum(), 1, "one has ended");
        let bury = Verdict::Bury { error: None, priority: None };
        t.settle(&t.popped("orders").await, bury).await.unwrap();
        let attempts = t.stats().await.attempts;
        assert_eq!((attempts.counts()[..3].to_vec(), attempts.sum()), (vec![1, 0, 1], 4));
    }

    async fn a_refused_verdict_is_not_counted(t) {
        t.add(job("1")).await;
        let old = t.popped("orders").await;
        t.settle(&old, RELEASE).await.unwrap();
        for verdict in [
            Verdict::Finish,
            Verdict::Fail { error: "no".into(), retry_in: None },
            Verdict::Again { retry_in: None },
        ] {
            t.settle(&old, verdict).await.unwrap_err();
        }
        let stats = t.stats().await;
        assert_eq!((stats.finished, stats.failed, stats.again), (0, 0, 0));
    }

    async fn failures_and_not_yet_are_counted_apart(t) {
        t.add_many(["1", "2", "3"].map(job)).await;
        let jobs = t.pop_up_to("orders", 3).await;
        t.fail(&jobs[0], "no").await;
        t.settle(&jobs[1], Verdict::Again { retry_in: None }).await.unwrap();
        t.settle(&jobs[2], Verdict::Again { retry_in: None }).await.unwrap();
        let stats = t.stats().await;
        assert_eq!((stats.failed, stats.again, stats.died), (1, 2, 0));
    }

    async fn a_lease_that_ran_out_is_counted_whether_or_not_the_job_died_of_it(t) {
        t.add(job("1").ttr(SECOND)).await;
        t.add(job("2").ttr(SECOND).retry(Retry::none())).await;
        t.pop_up_to("orders", 2).await;
        t.pass(SECOND).await;
        t.pass(SECOND).await;
        let stats = t.stats().await;
        assert_eq!((stats.timed_out, stats.died, stats.failed), (2, 1, 0));
    }

    async fn every_way_to_die_is_counted(t) {
        let once = |id: &str| job(id).retry(Retry::none()).ttr(MINUTE);
        t.add_many(["1", "2", "3"].map(once)).await;
        let jobs = t.pop_up_to("orders", 3).await;
        t.fail(&jobs[0], "no").await;
        t.settle(&jobs[1], Verdict::Again { retry_in: None }).await.unwrap();
        t.settle(&jobs[2], Verdict::Bury { error: None, priority: None }).await.unwrap();
        t.add_many(["4", "5"].map(once)).await;
        let terms = Terms { owner: Some(Owner(7)), ..Terms::default() };
        t.queue.reserve(&key("orders", "4"), terms).await.unwrap();
        t.queue.let_go(Owner(7), LetGo::Lost).await.unwrap();
        t.popped("orders").await;
        t.pass(MINUTE).await;
        assert_eq!((t.stats().await.died, t.counts("orders").await.dead), (5, 5));
    }

    async fn an_occurrence_that_dies_is_counted_though_its_job_goes_on(t) {
        let repeat = Repeat::every(MINUTE).unwrap().count(NonZeroU32::new(9).unwrap());
        t.add(job("1").repeat(repeat).retry(Retry::none())).await;
        for _ in 0..2 {
            t.pass(MINUTE).await;
            t.fail(&t.popped("orders").await, "no").await;
        }
        assert_eq!(t.stats().await.died, 2);
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Delayed));
    }

    async fn every_cancel_is_counted(t) {
        t.add_many(["1", "2", "3", "4"].map(job)).await;
        t.popped("orders").await;
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap_err();
        let two = || Filter { id_prefix: Some("2".into()), ..Filter::default() };
        t.sweep_as("orders", two(), Bulk::Delete, Mode::DryRun).await;
        assert_eq!(t.stats().await.deleted, 1);
        t.sweep("orders", two(), Bulk::Delete).await;
        t.configure("orders", TopicChange::Empty).await.unwrap();
        assert_eq!(t.stats().await.deleted, 4);
        t.add(job("5")).await;
        t.configure("orders", TopicChange::Forget).await.unwrap();
        assert_eq!(t.stats().await.deleted, 5);
    }

    async fn what_is_no_longer_kept_was_not_cancelled(t) {
        t.set("orders", Settings { retain_dead: Some(SECOND), ..Settings::default() }).await;
        t.add_many([job("1").retain(SECOND), job("2").retry(Retry::none())]).await;
        let jobs = t.pop_up_to("orders", 2).await;
        t.finish(&jobs[0]).await;
        t.fail(&jobs[1], "no").await;
        t.pass(SECOND).await;
        let stats = t.stats().await;
        assert_eq!((stats.deleted, stats.counts), (0, Counts::default()));
    }

    async fn jobs_are_counted_by_state_over_all_topics(t) {
        for name in ["a", "b", "c"] {
            one_in_each_state(&t, name).await;
        }
        t.add(Job::new("a", "x").delay(HOUR)).await;
        let mut sum = Counts::default();
        for name in ["a", "b", "c"] {
            sum += t.counts(name).await;
        }
        let each = Counts {
            delayed: 4, retry: 3, held: 3, ready: 3, urgent: 3, reserved: 3, dead: 3, finished: 3,
        };
        assert_eq!((t.stats().await.counts, sum), (each, each));
    }

    async fn the_counters_never_fall_when_jobs_are_gone(t) {
        one_in_each_state(&t, "a").await;
        let before = t.stats().await;
        t.configure("a", TopicChange::Forget).await.unwrap();
        let after = t.stats().await;
        let counted = |stats: &Stats| {
            (stats.added, stats.handed_out, stats.finished, stats.failed, stats.died)
        };
        assert_eq!(counted(&after), counted(&before));
        assert_eq!((after.counts.total(), after.topics), (0, 0));
    }

    async fn topics_are_counted_while_they_are_there(t) {
        t.add(Job::new("a", "x").id("1")).await;
        t.set("b", Settings { rate: "5".parse().ok(), ..Settings::default() }).await;
        let waiting = t.begin_one("c", MINUTE);
        assert_eq!(t.stats().await.topics, 3);
        t.finish(&t.popped("a").await).await;
        drop(waiting);
        assert_eq!(t.stats().await.topics, 1);
    }

    async fn waiting_calls_are_counted_once_however_many_topics_they_name(t) {
        let from = |from| Ask { from, wait: MINUTE, ..Ask::one(topic("a")) };
        let two = t.begin(from(Source::These(vec![topic("a"), topic("b")])));
        let any = t.begin(from(Source::Any));
        let over = t.begin_one("a", SECOND);
        assert_eq!(t.stats().await.waiting, 3);
        t.pass(SECOND).await;
        assert_eq!((over.await.len(), t.stats().await.waiting), (0, 2));
        t.add(Job::new("b", "x")).await;
        assert_eq!((two.await.len(), t.stats().await.waiting), (1, 1));
        drop(any);
        assert_eq!(t.stats().await.waiting, 0);
    }

    async fn steps_of_the_wall_clock_are_counted_and_passing_time_is_not(t) {
        t.settled().await;
        t.pass(HOUR).await;
        assert_eq!(t.stats().await.clock_steps, 0);
        t.jump_ms(60_000).await;
        t.pass(MINUTE).await;
        assert_eq!(t.stats().await.clock_steps, 1);
        t.jump_ms(-60_000).await;
        assert_eq!(t.stats().await.clock_steps, 2);
    }

    async fn being_late_is_measured_from_due_to_ready(t) {
        t.add(job("1").delay(SECOND)).await;
        t.add(job("2").delay(5 * SECOND)).await;
        t.pass(5 * SECOND).await;
        let late = t.stats().await.due_to_ready;
        assert_eq!((late.total(), late.sum_us()), (2, 4_000_000));
        assert_eq!((late.counts()[0], late.counts()[class(4_000_000)]), (1, 1));
    }

    async fn the_consumers_part_is_measured_from_ready_to_handed_out(t) {
        t.add(job("1")).await;
        t.add(job("2").delay(SECOND)).await;
        t.pass(SECOND).await;
        t.pass(2 * SECOND).await;
        assert_eq!(t.stats().await.ready_to_handed_out.total(), 0);
        t.pop_up_to("orders", 2).await;
        let late = t.stats().await.ready_to_handed_out;
        assert_eq!((late.total(), late.sum_us()), (2, 5_000_000));
        assert_eq!(late.counts()[class(2_000_000)], 2);
    }

    async fn a_job_that_is_ready_again_is_late_from_then_on(t) {
        t.add(job("1")).await;
        let delivery = t.popped("orders").await;
        t.pass(10 * SECOND).await;
        t.settle(&delivery, RELEASE).await.unwrap();
        t.pass(SECOND).await;
        t.popped("orders").await;
        let late = t.stats().await.ready_to_handed_out;
        assert_eq!((late.total(), late.sum_us()), (2, 1_000_000));
    }
}

fn job(id: &str) -> Job {
    Job::new("orders", "x").id(id)
}

/// The class of the histogram that so much falls into.
fn class(late_us: u64) -> usize {
    BOUNDS_US.iter().position(|bound| late_us <= *bound).expect("it is under an hour")
}

/// One job of a topic in each state; the ready one is urgent.
async fn one_in_each_state<S: Subject>(t: &Trial<S>, name: &str) {
    let job = || Job::new(name, "x");
    t.add_many((0..4).map(|_| job().retain(HOUR))).await;
    let jobs = t.pop_up_to(name, 4).await;
    t.finish(&jobs[0]).await;
    t.fail(&jobs[1], "no").await;
    t.settle(&jobs[2], Verdict::Bury { error: None, priority: None }).await.expect("it holds");
    t.add_many([job().priority(1), job().delay(HOUR), job().held()]).await;
}
