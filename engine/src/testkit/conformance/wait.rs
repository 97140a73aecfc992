//! Pops that wait: what wakes them, whose turn it is, and hanging up.

use std::num::NonZeroU32;
use std::time::Duration;

use super::trial::{RELEASE, WaitingPop, handed, key, over, ttr};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::job::{Edit, Job, Patch, When};
use crate::machine::{Owner, Reach, Stage, Tally};
use crate::queue::{
    Action, Ask, Bulk, Filter, Lane, LetGo, Queue, Source, Terms, TopicChange, Verdict,
};
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::time::{DAY, HOUR, MINUTE, SECOND};
use crate::topic::Settings;

suite! {
    async fn a_waiting_pop_is_given_a_job_as_soon_as_it_is_added(t) {
        let mut pop = t.begin_one("orders", MINUTE);
        assert!(t.answered(&mut pop).await.is_none());
        t.add(Job::new("orders", "x").id("1")).await;
        let got = pop.await;
        assert_eq!((handed(&got), got[0].job.attempt), (vec!["1"], 1));
        assert!(t.finish(&got[0]).await.changed);
    }

    async fn a_pop_that_finds_a_job_does_not_wait(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let got = t.pop_by(Ask { wait: MINUTE, max: 9, ..over(&["orders"]) }).await;
        assert_eq!(handed(&got), ["1"]);
        assert_eq!(t.queue.stats().await.unwrap().waiting, 0);
    }

    async fn a_waiting_pop_is_given_a_job_when_it_falls_due_and_not_before(t) {
        t.add(Job::new("orders", "x").id("1").delay(SECOND)).await;
        let mut pop = t.begin_one("orders", MINUTE);
        t.pass(Duration::from_micros(999_999)).await;
        assert!(t.answered(&mut pop).await.is_none());
        t.pass(Duration::from_micros(1)).await;
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_waiting_pop_is_given_a_job_when_the_clock_is_set_past_its_due_time(t) {
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        let pop = t.begin_one("orders", MINUTE);
        t.jump_ms(3_600_000).await;
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_waiting_pop_is_given_a_job_whose_lease_ran_out(t) {
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        t.popped("orders").await;
        let pop = t.begin_one("orders", MINUTE);
        t.pass(SECOND).await;
        assert_eq!(pop.await[0].job.attempt, 2);
    }

    async fn a_waiting_pop_is_given_a_job_that_failed_when_its_step_is_over(t) {
        t.add(Job::new("orders", "x").id("1").retry(Retry::ladder(&[3 * SECOND]).unwrap())).await;
        t.fail(&t.popped("orders").await, "no").await;
        let mut pop = t.begin_one("orders", MINUTE);
        t.pass(2 * SECOND).await;
        assert!(t.answered(&mut pop).await.is_none());
        t.pass(SECOND).await;
        assert_eq!(pop.await[0].job.attempt, 2);
    }

    async fn a_waiting_pop_is_given_a_job_that_is_released(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let got = t.popped("orders").await;
        let pop = t.begin_one("orders", MINUTE);
        t.settle(&got, RELEASE).await.unwrap();
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_waiting_pop_is_given_a_job_whose_owner_is_lost(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let terms = Terms { owner: Some(Owner(7)), ttr: None, grace: None };
        assert_eq!(handed(&t.pop_by(Ask { terms, ..over(&["orders"]) }).await), ["1"]);
        let pop = t.begin_one("orders", MINUTE);
        assert_eq!(t.queue.let_go(Owner(7), LetGo::Lost).await.unwrap(), 1);
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_waiting_pop_is_given_a_job_that_is_brought_forward_by_hand(t) {
        t.one_in_each_stage("orders").await;
        t.popped("orders").await;
        let sooner = Patch { when: Some(When::In(Duration::ZERO)), ..Patch::default() };
        for (id, action) in [
            ("delayed", Action::Update(sooner)),
            ("retry", Action::Run),
            ("held", Action::Unhold),
            ("dead", Action::Redrive),
        ] {
            let pop = t.begin_one("orders", MINUTE);
            t.change("orders", id, action).await.unwrap();
            assert_eq!(handed(&pop.await), [id]);
        }
    }

    async fn a_waiting_pop_is_given_a_job_that_a_sweep_makes_ready(t) {
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        let pop = t.begin_one("orders", MINUTE);
        assert_eq!(t.sweep("orders", Filter::default(), Bulk::Run).await, 1);
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_waiting_pop_outlasts_a_pause(t) {
        t.configure("orders", TopicChange::Pause(None)).await.unwrap();
        t.add(Job::new("orders", "x").id("1")).await;
        let mut pop = t.begin_one("orders", MINUTE);
        assert!(t.answered(&mut pop).await.is_none());
        t.configure("orders", TopicChange::Resume).await.unwrap();
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_waiting_pop_is_given_a_job_when_a_pause_ends_by_itself(t) {
        t.configure("orders", TopicChange::Pause(Some(10 * SECOND))).await.unwrap();
        let mut pop = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1")).await;
        t.jump_ms(3_600_000).await;
        t.pass(10 * SECOND - Duration::from_micros(1)).await;
        assert!(t.answered(&mut pop).await.is_none());
        t.pass(Duration::from_micros(1)).await;
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_waiting_pop_is_given_a_job_when_the_rate_allows(t) {
        t.set("orders", rate("2/m")).await;
        for id in ["1", "2"] {
            t.add(Job::new("orders", "x").id(id)).await;
        }
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["1"]);
        let mut pop = t.begin_one("orders", HOUR);
        t.jump_ms(3_600_000).await;
        t.pass(30 * SECOND - Duration::from_micros(1)).await;
        assert!(t.answered(&mut pop).await.is_none());
        t.pass(Duration::from_micros(1)).await;
        assert_eq!(handed(&pop.await), ["2"]);
    }

    async fn a_waiting_pop_is_given_a_job_when_another_ends(t) {
        t.set("orders", concurrency(1)).await;
        for id in ["1", "2", "3", "4", "5"] {
            t.add(Job::new("orders", "x").id(id)).await;
        }
        let mut held = t.popped("orders").await;
        for verdict in [
            Verdict::Finish,
            Verdict::Fail { error: "no".into(), retry_in: Some(HOUR) },
            Verdict::Bury { error: None, priority: None },
            Verdict::Release { delay: HOUR, priority: None },
        ] {
            let mut pop = t.begin_one("orders", MINUTE);
            assert!(t.answered(&mut pop).await.is_none());
            t.settle(&held, verdict).await.unwrap();
            held = pop.await.remove(0);
        }
        assert_eq!(held.id().as_str(), "5");
    }

    async fn a_waiting_pop_is_given_a_job_when_a_held_up_one_is_deleted(t) {
        t.set("orders", concurrency(1)).await;
        t.add(Job::new("orders", "x").id("1")).await;
        t.add(Job::new("orders", "x").id("2")).await;
        t.popped("orders").await;
        let pop = t.begin_one("orders", MINUTE);
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        assert_eq!(handed(&pop.await), ["2"]);
    }

    async fn a_waiting_pop_is_given_a_job_when_the_limits_are_raised(t) {
        for (low, high) in [(concurrency(1), concurrency(2)), (rate("1/d"), Settings::default())] {
            t.set("orders", low).await;
            t.add(Job::new("orders", "x").id("1")).await;
            t.add(Job::new("orders", "x").id("2")).await;
            let first = t.popped("orders").await;
            let mut pop = t.begin_one("orders", MINUTE);
            assert!(t.answered(&mut pop).await.is_none());
            t.set("orders", high).await;
            let second = pop.await;
            assert_eq!(handed(&second), ["2"]);
            t.finish(&first).await;
            t.finish(&second[0]).await;
        }
    }

    async fn a_waiting_pop_is_given_a_job_that_changes_its_lane(t) {
        let worker = "worker:".parse().unwrap();
        let pushed = Settings { target: Some(worker), ..Settings::default() };
        t.set("orders", pushed.clone()).await;
        t.add(Job::new("orders", "x").id("1")).await;
        let mut pull = t.begin_one("orders", MINUTE);
        assert!(t.answered(&mut pull).await.is_none());
        t.set("orders", Settings::default()).await;
        let got = pull.await;
        let mut push = t.begin(Ask { lane: Lane::Push, wait: MINUTE, ..over(&["orders"]) });
        t.settle(&got[0], RELEASE).await.unwrap();
        assert!(t.answered(&mut push).await.is_none());
        t.set("orders", pushed).await;
        assert_eq!(handed(&push.await), ["1"]);
    }

    async fn a_waiting_pop_is_given_a_job_that_loses_its_own_target(t) {
        t.add(Job::new("orders", "x").id("1").target("worker:")).await;
        let mut pop = t.begin_one("orders", MINUTE);
        assert!(t.answered(&mut pop).await.is_none());
        let clear = Patch { target: Edit::Clear, ..Patch::default() };
        t.change("orders", "1", Action::Update(clear)).await.unwrap();
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_wait_that_is_over_is_answered_empty(t) {
        let mut pop = t.begin_one("orders", 5 * SECOND);
        t.pass(5 * SECOND - Duration::from_micros(1)).await;
        assert!(t.answered(&mut pop).await.is_none());
        t.pass(Duration::from_micros(1)).await;
        assert!(pop.await.is_empty());
        t.add(Job::new("orders", "x").id("1")).await;
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Ready));
    }

    async fn a_wait_is_not_cut_short_when_the_clock_is_set(t) {
        let mut pop = t.begin_one("orders", 5 * SECOND);
        t.jump_ms(86_400_000).await;
        assert!(t.answered(&mut pop).await.is_none());
        t.jump_ms(-2 * 86_400_000).await;
        t.pass(5 * SECOND).await;
        assert!(pop.await.is_empty());
    }

    async fn a_wait_over_a_closed_topic_ends_like_any_other(t) {
        t.set("orders", rate("1/d")).await;
        t.add(Job::new("orders", "x").id("1")).await;
        t.add(Job::new("orders", "x").id("2")).await;
        t.popped("orders").await;
        let pop = t.begin_one("orders", 5 * SECOND);
        t.pass(5 * SECOND).await;
        assert!(pop.await.is_empty());
    }

    async fn a_job_that_falls_due_as_the_wait_ends_is_still_given(t) {
        t.add(Job::new("orders", "x").id("1").delay(SECOND)).await;
        let pop = t.begin_one("orders", SECOND);
        t.pass(SECOND).await;
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_lease_begins_when_the_job_is_given_not_when_the_wait_began(t) {
        let terms = Terms { ttr: Some(ttr(10 * SECOND)), owner: None, grace: None };
        let pop = t.begin(Ask { wait: MINUTE, terms, ..over(&["orders"]) });
        t.pass(30 * SECOND).await;
        t.add(Job::new("orders", "x").id("1")).await;
        let got = pop.await;
        assert_eq!(got[0].until, t.now().saturating_add_ms(10_000));
        t.pass(9 * SECOND).await;
        assert!(t.finish(&got[0]).await.changed);
    }

    async fn a_wait_may_be_as_long_as_anyone_likes(t) {
        let pop = t.begin_one("orders", Duration::MAX);
        t.pass(3650 * DAY).await;
        t.add(Job::new("orders", "x").id("1")).await;
        assert_eq!(handed(&pop.await), ["1"]);
    }

    async fn a_waiting_pop_outlasts_its_topic(t) {
        t.add(Job::new("orders", "x").id("1").held()).await;
        let mut pop = t.begin_one("orders", MINUTE);
        t.configure("orders", TopicChange::Forget).await.unwrap();
        assert!(t.answered(&mut pop).await.is_none());
        t.add(Job::new("orders", "x").id("2")).await;
        assert_eq!(handed(&pop.await), ["2"]);
    }

    async fn first_come_is_first_served(t) {
        let pops = [1, 2, 3].map(|_| t.begin_one("orders", MINUTE));
        for (id, pop) in ["1", "2", "3"].into_iter().zip(pops) {
            t.add(Job::new("orders", "x").id(id)).await;
            assert_eq!(handed(&pop.await), [id]);
        }
    }

    async fn first_come_is_first_served_when_many_fall_due_at_once(t) {
        for (id, priority) in [("third", 3), ("first", 1), ("second", 2)] {
            t.add(Job::new("orders", "x").id(id).priority(priority).delay(SECOND)).await;
        }
        let pops = [1, 2, 3].map(|_| t.begin_one("orders", MINUTE));
        t.pass(SECOND).await;
        for (pop, id) in pops.into_iter().zip(["first", "second", "third"]) {
            assert_eq!(handed(&pop.await), [id]);
        }
    }

    async fn first_come_is_first_served_over_several_topics(t) {
        let wait = |names: &[&str]| t.begin(Ask { wait: MINUTE, ..over(names) });
        let (one, two, mut three) = (wait(&["a"]), wait(&["b", "a"]), wait(&["b"]));
        t.add(Job::new("a", "x").id("1")).await;
        assert_eq!(handed(&one.await), ["1"]);
        t.add(Job::new("b", "x").id("2")).await;
        assert_eq!(handed(&two.await), ["2"]);
        assert!(t.answered(&mut three).await.is_none());
        t.add(Job::new("b", "x").id("3")).await;
        assert_eq!(handed(&three.await), ["3"]);
    }

    async fn whoever_came_first_has_the_best_of_what_falls_due_together(t) {
        for (topic, priority) in [("a", 2), ("b", 1), ("c", 3)] {
            t.add(Job::new(topic, "x").id(topic).priority(priority).delay(SECOND)).await;
        }
        let wait = |names: &[&str]| t.begin(Ask { wait: MINUTE, ..over(names) });
        let (one, two, three) = (wait(&["a", "b"]), wait(&["c", "b", "a"]), wait(&["c", "a"]));
        t.pass(SECOND).await;
        assert_eq!(handed(&one.await), ["b"]);
        assert_eq!(handed(&two.await), ["a"]);
        assert_eq!(handed(&three.await), ["c"]);
    }

    async fn a_later_waiter_on_more_topics_overtakes_nobody(t) {
        for (line, jobs) in [
            ([["a", "a"], ["a", "a"], ["a", "b"]], [("a", 1), ("a", 2), ("b", 9)]),
            ([["c", "c"], ["d", "d"], ["c", "d"]], [("c", 5), ("d", 1), ("c", 9)]),
        ] {
            for (topic, priority) in jobs {
                let id = priority.to_string();
                t.add(Job::new(topic, "x").id(id).priority(priority).delay(SECOND)).await;
            }
            let pops = line.map(|names| t.begin(Ask { wait: MINUTE, ..over(&names) }));
            t.pass(SECOND).await;
            for (pop, (_, priority)) in pops.into_iter().zip(jobs) {
                assert_eq!(handed(&pop.await), [priority.to_string()]);
            }
        }
    }

    async fn a_later_caller_does_not_overtake_one_who_waits(t) {
        let first = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1")).await;
        assert!(t.pop("orders").await.is_none());
        assert_eq!(handed(&first.await), ["1"]);
    }

    async fn a_waiter_that_cannot_be_served_holds_up_nobody(t) {
        t.configure("paused", TopicChange::Pause(None)).await.unwrap();
        let mut first = t.begin(Ask { wait: MINUTE, ..over(&["paused"]) });
        let mut push = t.begin(Ask { wait: MINUTE, lane: Lane::Push, ..over(&["open"]) });
        let second = t.begin(Ask { wait: MINUTE, ..over(&["paused", "open"]) });
        t.add(Job::new("paused", "x").id("1")).await;
        t.add(Job::new("open", "x").id("2")).await;
        assert_eq!(handed(&second.await), ["2"]);
        assert!(t.answered(&mut first).await.is_none());
        assert!(t.answered(&mut push).await.is_none());
    }

    async fn a_waiter_on_several_topics_is_served_once(t) {
        for topic in ["a", "b", "c"] {
            t.add(Job::new(topic, "x").id(topic).delay(SECOND)).await;
        }
        let pop = t.begin(Ask { wait: MINUTE, ..over(&["a", "b", "c"]) });
        t.pass(SECOND).await;
        assert_eq!(handed(&pop.await), ["a"]);
        t.add(Job::new("c", "x").id("later")).await;
        let counts = t.queue.stats().await.unwrap().counts;
        assert_eq!((counts.reserved, counts.ready), (1, 3));
    }

    async fn a_waiter_for_many_takes_what_is_there(t) {
        t.configure("orders", TopicChange::Pause(None)).await.unwrap();
        for id in ["1", "2", "3"] {
            t.add(Job::new("orders", "x").id(id)).await;
        }
        let [two, nine] = [2, 9].map(|max| t.begin(Ask { max, wait: MINUTE, ..over(&["orders"]) }));
        t.configure("orders", TopicChange::Resume).await.unwrap();
        assert_eq!(handed(&two.await), ["1", "2"]);
        assert_eq!(handed(&nine.await), ["3"]);
    }

    async fn a_waiter_on_any_topic_sees_topics_to_come(t) {
        let mut push =
            t.begin(Ask { from: Source::Any, lane: Lane::Push, wait: MINUTE, ..over(&[]) });
        let pull = t.begin(Ask { from: Source::Any, wait: MINUTE, ..over(&[]) });
        t.add(Job::new("new", "x").id("1")).await;
        assert_eq!(handed(&pull.await), ["1"]);
        assert!(t.answered(&mut push).await.is_none());
        t.add(Job::new("newer", "x").id("2").target("worker:")).await;
        assert_eq!(handed(&push.await), ["2"]);
    }

    async fn a_waiter_on_any_topic_is_given_a_job_when_the_rate_allows(t) {
        t.set("orders", rate("2/m")).await;
        t.add(Job::new("orders", "x").id("1")).await;
        t.add(Job::new("orders", "x").id("2")).await;
        t.popped("orders").await;
        let pop = t.begin(Ask { from: Source::Any, wait: HOUR, ..over(&[]) });
        t.pass(30 * SECOND).await;
        assert_eq!(handed(&pop.await), ["2"]);
    }

    async fn waiters_on_any_and_on_one_topic_stand_in_one_line(t) {
        let any = || t.begin(Ask { from: Source::Any, wait: MINUTE, ..over(&[]) });
        let line = [any(), t.begin_one("orders", MINUTE), any(), t.begin_one("orders", MINUTE)];
        for (id, pop) in ["1", "2", "3", "4"].into_iter().zip(line) {
            t.add(Job::new("orders", "x").id(id)).await;
            assert_eq!(handed(&pop.await), [id]);
        }
    }

    async fn those_who_wait_are_counted(t) {
        let both = t.begin(Ask { wait: MINUTE, ..over(&["a", "b", "a"]) });
        let one = t.begin_one("a", MINUTE);
        let any = t.begin(Ask { from: Source::Any, wait: MINUTE, ..over(&[]) });
        assert_eq!(waiting(&t).await, (3, Some(2), Some(1)));
        t.add(Job::new("a", "x").id("1")).await;
        assert_eq!(handed(&both.await), ["1"]);
        assert_eq!(waiting(&t).await, (2, Some(1), None));
        drop((one, any));
        assert_eq!(waiting(&t).await, (0, Some(0), None));
    }

    async fn a_wait_that_is_over_is_not_counted(t) {
        let pop = t.begin(Ask { wait: SECOND, ..over(&["a", "b"]) });
        t.pass(SECOND).await;
        assert_eq!(waiting(&t).await, (0, None, None));
        assert!(pop.await.is_empty());
    }

    async fn hanging_up_leaves_the_line(t) {
        let first = t.begin_one("orders", MINUTE);
        let second = t.begin_one("orders", MINUTE);
        drop(first);
        t.add(Job::new("orders", "x").id("1")).await;
        assert_eq!(handed(&second.await), ["1"]);
    }

    async fn whoever_hung_up_before_is_given_nothing(t) {
        let asks = [over(&["orders", "other"]), Ask { from: Source::Any, ..over(&[]) }];
        drop(asks.map(|ask| t.begin(Ask { wait: MINUTE, ..ask })));
        let job = t.add(Job::new("orders", "x").id("1")).await;
        assert_eq!((job.stage, job.attempt), (Stage::Ready, 0));
        assert_eq!(t.queue.stats().await.unwrap().handed_out, 0);
    }

    async fn a_job_given_to_one_who_hung_up_is_as_if_it_had_not_been(t) {
        let pop = t.begin_one("orders", MINUTE);
        let added = t.add(Job::new("orders", "x").id("1").retry(Retry::none())).await;
        given_then_dropped(&t, pop, "1").await;
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.attempt, job.tally), (Stage::Ready, 0, Tally::default()));
        assert_eq!((job.due, job.reserved_until, job.history.len()), (added.due, None, 1));
        let refused = t.settle_id("orders", "1", Verdict::Finish).await.unwrap_err();
        assert_eq!(refused.code(), Code::WrongState);
        assert_eq!(t.popped("orders").await.job.attempt, 1);
    }

    async fn an_occurrence_given_to_one_who_hung_up_was_never_handed_out(t) {
        t.add(Job::new("orders", "x").id("1").repeat(Repeat::every(HOUR).unwrap())).await;
        t.pass(HOUR).await;
        let first = t.popped("orders").await;
        t.finish(&first).await;
        let pop = t.begin_one("orders", DAY);
        t.pass(HOUR).await;
        given_then_dropped(&t, pop, "1").await;
        let refused = t.settle_id("orders", "1", Verdict::Finish).await.unwrap_err();
        assert_eq!(refused.code(), Code::WrongState);
    }

    async fn a_job_taken_back_from_one_who_hung_up_never_times_out(t) {
        let pop = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1").ttr(SECOND).retry(Retry::none())).await;
        given_then_dropped(&t, pop, "1").await;
        t.pass(HOUR).await;
        let job = t.get("orders", "1").await;
        assert_eq!((job.stage, job.tally.timeouts), (Stage::Ready, 0));
    }

    async fn a_job_taken_back_keeps_its_earlier_attempts(t) {
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        t.popped("orders").await;
        let pop = t.begin_one("orders", MINUTE);
        t.pass(SECOND).await;
        given_then_dropped(&t, pop, "1").await;
        let job = t.get("orders", "1").await;
        assert_eq!((job.attempt, job.tally.reserves, job.tally.timeouts), (1, 1, 1));
        assert!(t.settle_id("orders", "1", Verdict::Finish).await.unwrap().changed);
    }

    async fn a_job_taken_back_stands_where_it_stood(t) {
        let pop = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1")).await;
        t.pass(SECOND).await;
        t.add(Job::new("orders", "x").id("2")).await;
        given_then_dropped(&t, pop, "1").await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["1", "2"]);
    }

    async fn a_job_taken_back_goes_to_the_next_who_waits(t) {
        let first = t.begin_one("orders", MINUTE);
        let mut second = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1")).await;
        assert!(t.answered(&mut second).await.is_none());
        drop(first);
        let got = second.await;
        assert_eq!((handed(&got), got[0].job.attempt), (vec!["1"], 1));
        assert!(t.finish(&got[0]).await.changed);
    }

    async fn all_jobs_given_to_one_who_hung_up_are_taken_back(t) {
        for id in ["1", "2", "3"] {
            t.add(Job::new("orders", "x").id(id).delay(SECOND)).await;
        }
        let pop = t.begin(Ask { max: 9, wait: MINUTE, ..over(&["orders"]) });
        t.pass(SECOND).await;
        given_then_dropped(&t, pop, "3").await;
        assert_eq!(handed(&t.pop_up_to("orders", 9).await), ["1", "2", "3"]);
    }

    async fn hanging_up_gives_the_rate_its_token_back(t) {
        t.set("orders", rate("1/d")).await;
        let pop = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1")).await;
        given_then_dropped(&t, pop, "1").await;
        assert_eq!(t.popped("orders").await.id().as_str(), "1");
        t.add(Job::new("orders", "x").id("2")).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(DAY).await;
        assert_eq!(t.pop_up_to("orders", 9).await.len(), 1);
    }

    async fn hanging_up_makes_room_for_the_next(t) {
        t.set("orders", concurrency(1)).await;
        let pop = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1")).await;
        given_then_dropped(&t, pop, "1").await;
        let urgent = Job::new("orders", "x").id("2").priority(0);
        t.add(urgent).await;
        assert_eq!(t.popped("orders").await.id().as_str(), "2");
    }

    async fn hanging_up_takes_back_no_job_that_is_someone_elses_by_now(t) {
        let pop = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1").ttr(SECOND)).await;
        t.pass(SECOND).await;
        let other = t.popped("orders").await;
        drop(pop);
        assert_eq!(t.stage("orders", "1").await, Some(Stage::Reserved));
        assert!(t.finish(&other).await.changed);
    }

    async fn hanging_up_brings_back_no_job_that_was_deleted(t) {
        let pop = t.begin_one("orders", MINUTE);
        t.add(Job::new("orders", "x").id("1")).await;
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        drop(pop);
        assert_eq!(t.queue.get(&key("orders", "1")).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(t.topic("orders").await, None);
    }
}

/// Hangs up on a pop that the store has given this job of `orders` to, and that never saw it.
async fn given_then_dropped<S: Subject>(t: &Trial<S>, pop: WaitingPop, id: &str) {
    assert_eq!(t.stage("orders", id).await, Some(Stage::Reserved));
    t.pass(Duration::from_millis(1)).await;
    drop(pop);
}

/// How many wait: in all, for topic `a` and for topic `b`, if they are there.
async fn waiting<S: Subject>(t: &Trial<S>) -> (u64, Option<u64>, Option<u64>) {
    let all = t.queue.stats().await.expect("stats are always there").waiting;
    let [a, b] = [t.topic("a").await, t.topic("b").await];
    (all, a.map(|info| info.waiting), b.map(|info| info.waiting))
}

fn rate(text: &str) -> Settings {
    Settings {
        rate: Some(text.parse().expect("a case writes rates rightly")),
        ..Settings::default()
    }
}

fn concurrency(limit: u32) -> Settings {
    Settings { concurrency: NonZeroU32::new(limit), ..Settings::default() }
}
