//! Looking at jobs: lists, their order, their filters and their pages; errors counted.

use std::collections::BTreeSet;
use std::time::Duration;

use super::trial::{ids, topic};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::job::{Job, OnConflict, Patch, Ttr, When};
use crate::machine::{Reach, Stage};
use crate::queue::{
    Action, Bodies, Bulk, Cursor, Delivery, ERRORS_MAX, Filter, JobInfo, PAGE_MAX, Page, Query,
    Queue, SCAN_MAX, Verdict,
};
use crate::retry::Retry;
use crate::time::{HOUR, MINUTE, SECOND};
use crate::topic::Settings;

suite! {
    async fn delayed_jobs_stand_by_due_and_then_by_number(t) {
        for (id, secs) in [("d", 3), ("b", 2), ("a", 1), ("c", 2)] {
            t.add(Job::new("orders", "x").id(id).delay(secs * SECOND)).await;
        }
        assert_eq!(ids(&t.in_stage("orders", Stage::Delayed).await), ["a", "b", "c", "d"]);
    }

    async fn retries_stand_by_due_and_then_by_number(t) {
        t.add_many(["c", "a", "b"].map(job)).await;
        for (delivery, secs) in t.pop_up_to("orders", 3).await.iter().zip([9, 3, 3]) {
            let retry_in = Some(secs * SECOND);
            t.settle(delivery, Verdict::Fail { error: "no".into(), retry_in }).await.unwrap();
        }
        assert_eq!(ids(&t.in_stage("orders", Stage::Retry).await), ["a", "b", "c"]);
    }

    async fn held_jobs_stand_by_due_and_then_by_number(t) {
        for (id, secs) in [("c", 9), ("a", 1), ("b", 1)] {
            t.add(job(id).delay(secs * SECOND).held()).await;
        }
        t.pass(5 * SECOND).await;
        assert_eq!(ids(&t.in_stage("orders", Stage::Held).await), ["a", "b", "c"]);
    }

    async fn ready_jobs_stand_by_priority_then_due_then_number(t) {
        for (id, priority, secs) in
            [("e", 7, 2), ("c", 5, 2), ("b", 5, 1), ("d", 5, 2), ("a", 0, 2), ("f", u32::MAX, 1)]
        {
            t.add(job(id).priority(priority).delay(secs * SECOND)).await;
        }
        t.pass(2 * SECOND).await;
        let listed = t.in_stage("orders", Stage::Ready).await;
        assert_eq!(ids(&listed), ["a", "b", "c", "d", "e", "f"]);
        let popped = t.pop_up_to("orders", 6).await;
        let numbers = |jobs: Vec<&JobInfo>| jobs.iter().map(|job| job.number).collect::<Vec<_>>();
        let handed_out = numbers(popped.iter().map(|delivery| &delivery.job).collect());
        assert_eq!(handed_out, numbers(listed.iter().collect()));
    }

    async fn reserved_jobs_stand_by_the_end_of_their_leases(t) {
        for (id, secs) in [("c", 30), ("a", 10), ("b", 20)] {
            t.add(job(id).ttr(secs * SECOND)).await;
        }
        let jobs = t.pop_up_to("orders", 3).await;
        assert_eq!(ids(&t.in_stage("orders", Stage::Reserved).await), ["a", "b", "c"]);
        let ttr = Some(Ttr::new(MINUTE).unwrap());
        t.settle(&jobs[1], Verdict::Touch { ttr }).await.unwrap();
        assert_eq!(ids(&t.in_stage("orders", Stage::Reserved).await), ["b", "c", "a"]);
    }

    async fn dead_jobs_stand_by_when_they_died(t) {
        t.add_many(["a", "b", "c"].map(job)).await;
        let jobs = t.pop_up_to("orders", 3).await;
        for n in [1, 2, 0] {
            bury(&t, &jobs[n], "no").await;
            t.pass(SECOND).await;
        }
        assert_eq!(ids(&t.in_stage("orders", Stage::Dead).await), ["b", "c", "a"]);
    }

    async fn finished_jobs_stand_by_when_they_finished(t) {
        t.add_many(["a", "b", "c"].map(|id| job(id).retain(HOUR))).await;
        let jobs = t.pop_up_to("orders", 3).await;
        for n in [2, 0, 1] {
            t.finish(&jobs[n]).await;
            t.pass(SECOND).await;
        }
        assert_eq!(ids(&t.in_stage("orders", Stage::Finished).await), ["c", "a", "b"]);
    }

    async fn jobs_of_all_states_stand_by_due_and_then_by_number(t) {
        let seen = one_in_each_state(&t).await;
        let all = t.browse(Query::all(topic("orders"))).await;
        let places: Vec<_> = all.iter().map(|job| (job.due, job.number)).collect();
        assert!(places.is_sorted(), "{places:?}");
        let stages: BTreeSet<Stage> = all.iter().map(|job| job.stage).collect();
        assert_eq!((all.len(), stages.len()), (seen.len(), Stage::ALL.len()));
    }

    async fn each_state_lists_its_own_jobs_and_no_others(t) {
        for (stage, id) in one_in_each_state(&t).await {
            let listed = t.in_stage("orders", stage).await;
            assert_eq!((ids(&listed), listed[0].stage), (vec![id], stage));
        }
    }

    async fn a_list_shows_what_the_clock_has_brought(t) {
        t.add(job("1").delay(SECOND)).await;
        t.add(Job::new("other", "x").id("2").ttr(SECOND)).await;
        t.popped("other").await;
        t.clock.advance(SECOND);
        assert_eq!(ids(&t.in_stage("orders", Stage::Ready).await), ["1"]);
        assert_eq!(ids(&t.in_stage("other", Stage::Reserved).await), [""; 0]);
        assert_eq!(ids(&t.in_stage("other", Stage::Ready).await), ["2"]);
    }

    async fn a_list_has_no_jobs_of_other_topics(t) {
        t.add(job("1")).await;
        t.add(Job::new("orders2", "x").id("2")).await;
        t.add(Job::new("order", "x").id("3")).await;
        assert_eq!(ids(&t.browse(Query::all(topic("orders"))).await), ["1"]);
    }

    async fn an_unknown_topic_has_an_empty_list_and_comes_not_to_be(t) {
        let page = t.queue.browse(Query::all(topic("nobody"))).await.unwrap();
        assert_eq!(page, Page::default());
        assert_eq!(t.queue.dead_by_error(&topic("nobody")).await.unwrap(), []);
        assert_eq!(t.topic("nobody").await, None);
    }

    async fn due_after_is_inclusive_and_due_before_is_not(t) {
        for ms in 1..=5 {
            t.add(job(&ms.to_string()).delay(Duration::from_millis(ms))).await;
        }
        let at = |ms| Some(t.now().saturating_add_ms(ms));
        for (due_after, due_before, expected) in [
            (at(2), None, &["2", "3", "4", "5"][..]),
            (None, at(4), &["1", "2", "3"]),
            (at(2), at(4), &["2", "3"]),
            (at(3), at(3), &[]),
            (at(4), at(2), &[]),
            (at(6), None, &[]),
        ] {
            for stage in [None, Some(Stage::Delayed)] {
                let filter = Filter { stage, due_after, due_before, ..Filter::default() };
                assert_eq!(ids(&fitting(&t, filter).await), expected, "{due_after:?} {stage:?}");
            }
        }
    }

    async fn due_bounds_hold_in_states_that_stand_in_another_order(t) {
        for (id, secs) in [("1", 1), ("2", 2), ("3", 3)] {
            t.add(job(id).delay(secs * SECOND).retain(HOUR).priority(9 - secs)).await;
        }
        let at = |secs: u64| Some(t.now().saturating_add_ms(secs * 1000));
        let second = Filter { due_after: at(2), due_before: at(3), ..Filter::default() };
        t.pass(3 * SECOND).await;
        let in_stage = |stage| fitting(&t, Filter { stage: Some(stage), ..second.clone() });
        assert_eq!(ids(&in_stage(Stage::Ready).await), ["2"]);
        let jobs = t.pop_up_to("orders", 3).await;
        assert_eq!(ids(&in_stage(Stage::Reserved).await), ["2"]);
        for delivery in &jobs {
            t.finish(delivery).await;
        }
        assert_eq!(ids(&in_stage(Stage::Finished).await), ["2"]);
    }

    async fn an_id_prefix_is_text_and_no_pattern(t) {
        t.add_many(["a", "ab", "a*", "a*c", "A", "b", "支付1", "支"].map(job)).await;
        for (prefix, expected) in [
            ("a", &["a", "ab", "a*", "a*c"][..]),
            ("a*", &["a*", "a*c"]),
            ("支付", &["支付1"]),
            ("支", &["支付1", "支"]),
            ("c", &[]),
            ("", &["a", "ab", "a*", "a*c", "A", "b", "支付1", "支"]),
        ] {
            let filter = Filter { id_prefix: Some(prefix.into()), ..Filter::default() };
            assert_eq!(ids(&fitting(&t, filter).await), expected, "{prefix}");
        }
    }

    async fn an_error_fits_whole_and_in_any_state(t) {
        t.add_many(["1", "2", "3", "4"].map(job)).await;
        let jobs = t.pop_up_to("orders", 3).await;
        bury(&t, &jobs[0], "timeout").await;
        bury(&t, &jobs[1], "timeout after 3 s").await;
        t.fail(&jobs[2], "timeout").await;
        let error = |stage| Filter { stage, error: Some("timeout".into()), ..Filter::default() };
        assert_eq!(ids(&fitting(&t, error(None)).await), ["1", "3"]);
        assert_eq!(ids(&fitting(&t, error(Some(Stage::Dead))).await), ["1"]);
    }

    async fn all_that_a_filter_says_must_fit(t) {
        for (id, secs) in [("a1", 1), ("a2", 2), ("b2", 2), ("a3", 3)] {
            t.add(job(id).delay(secs * SECOND)).await;
        }
        t.add(job("a2 held").delay(2 * SECOND).held()).await;
        let at = |secs: u64| Some(t.now().saturating_add_ms(secs * 1000));
        let filter = Filter {
            stage: Some(Stage::Delayed),
            due_after: at(2),
            due_before: at(3),
            id_prefix: Some("a".into()),
            error: None,
        };
        assert_eq!(ids(&fitting(&t, filter.clone()).await), ["a2"]);
        assert_eq!(fitting(&t, Filter { error: Some("no".into()), ..filter }).await, []);
    }

    async fn bodies_come_along_only_when_asked_for(t) {
        t.add(Job::new("orders", "hello").id("1")).await;
        let query = Query::all(topic("orders"));
        assert_eq!(t.browse(query.clone()).await[0].body, None);
        let with = t.browse(Query { bodies: Bodies::With, ..query }).await;
        assert_eq!(with[0].body.as_ref().unwrap().as_str(), Some("hello"));
    }

    async fn a_list_carries_no_history_and_else_what_get_shows(t) {
        t.add(job("1").priority(7)).await;
        t.fail(&t.popped("orders").await, "no").await;
        let listed = t.browse(Query { bodies: Bodies::With, ..Query::all(topic("orders")) }).await;
        let whole = t.get("orders", "1").await;
        assert!(!whole.history.is_empty());
        assert_eq!(listed, [JobInfo { history: Vec::new(), ..whole }]);
    }

    async fn a_page_of_no_or_too_many_jobs_is_refused(t) {
        t.add(job("1")).await;
        for limit in [0, PAGE_MAX + 1, usize::MAX] {
            let query = Query { limit, ..Query::all(topic("orders")) };
            let refused = t.queue.browse(query).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("limit")));
        }
        for limit in [1, PAGE_MAX] {
            let query = Query { limit, ..Query::all(topic("orders")) };
            assert_eq!(t.queue.browse(query).await.unwrap().jobs.len(), 1);
        }
    }

    async fn pages_are_complete_and_without_repeats_whatever_their_size(t) {
        let all = some_in_each_state(&t).await;
        for stage in [None].into_iter().chain(Stage::ALL.map(Some)) {
            let of_stage = |job: &&JobInfo| stage.is_none_or(|stage| stage == job.stage);
            let expected: BTreeSet<u64> = all.iter().filter(of_stage).map(|j| j.number).collect();
            assert!(expected.len() >= 3, "{stage:?} has some");
            for limit in [1, 2, 3, 5, 100] {
                let filter = Filter { stage, ..Filter::default() };
                let paged = t.browse(Query { limit, filter, ..Query::all(topic("orders")) }).await;
                let numbers: BTreeSet<u64> = paged.iter().map(|job| job.number).collect();
                assert_eq!((paged.len(), numbers), (expected.len(), expected.clone()), "{stage:?}");
            }
        }
    }

    async fn jobs_that_share_a_due_time_are_paged_one_by_one(t) {
        t.add_many((0..7).map(|n| job(&n.to_string()).delay(SECOND))).await;
        let paged = t.browse(Query { limit: 2, ..Query::all(topic("orders")) }).await;
        assert_eq!(ids(&paged), ["0", "1", "2", "3", "4", "5", "6"]);
    }

    async fn filters_hold_on_every_page(t) {
        for n in 0..20_u32 {
            let id = format!("{}{n}", if n % 3 == 0 { "a" } else { "b" });
            t.add(job(&id).delay(n * SECOND + SECOND)).await;
        }
        let at = |secs: u64| Some(t.now().saturating_add_ms(secs * 1000));
        let filter = Filter {
            due_after: at(4),
            due_before: at(17),
            id_prefix: Some("a".into()),
            ..Filter::default()
        };
        for limit in 1..=6 {
            let query = Query { filter: filter.clone(), limit, ..Query::all(topic("orders")) };
            assert_eq!(ids(&t.browse(query).await), ["a3", "a6", "a9", "a12", "a15"]);
        }
    }

    async fn the_last_page_has_no_cursor(t) {
        t.add_many((0..4).map(|n| job(&n.to_string()))).await;
        let first = page(&t, 2, None).await;
        let second = page(&t, 2, first.cursor).await;
        assert_eq!((ids(&second.jobs), second.cursor), (vec!["2", "3"], None));
        assert_eq!(page(&t, 4, None).await.cursor, None);
    }

    async fn a_cursor_outlives_the_job_it_was_made_at(t) {
        five(&t).await;
        let first = page(&t, 2, None).await;
        for id in ["1", "2"] {
            t.change("orders", id, Action::Delete(Reach::Any)).await.unwrap();
        }
        assert_eq!(ids(&page(&t, 2, first.cursor).await.jobs), ["3", "4"]);
    }

    async fn a_cursor_outlives_all_jobs(t) {
        five(&t).await;
        let first = page(&t, 2, None).await;
        t.sweep("orders", Filter::default(), Bulk::Delete).await;
        assert_eq!(page(&t, 2, first.cursor).await, Page::default());
    }

    async fn a_cursor_goes_on_among_jobs_that_came_later(t) {
        five(&t).await;
        let first = page(&t, 2, None).await;
        t.add(job("before").delay(SECOND / 2)).await;
        t.add(job("after").delay(SECOND * 7 / 2)).await;
        t.add(job("last").delay(MINUTE)).await;
        let rest = page(&t, 100, first.cursor).await;
        assert_eq!(ids(&rest.jobs), ["3", "after", "4", "5", "last"]);
    }

    async fn a_cursor_goes_on_while_jobs_become_due_and_finish(t) {
        five(&t).await;
        let first = page(&t, 2, None).await;
        t.pass(3 * SECOND).await;
        for delivery in t.pop_up_to("orders", 2).await {
            t.finish(&delivery).await;
        }
        assert_eq!(ids(&page(&t, 100, first.cursor).await.jobs), ["3", "4", "5"]);
    }

    async fn a_cursor_goes_on_while_ready_jobs_are_popped(t) {
        t.add_many((0..5).map(|n| job(&n.to_string()))).await;
        let filter = Filter { stage: Some(Stage::Ready), ..Filter::default() };
        let query = Query { filter, limit: 2, ..Query::all(topic("orders")) };
        let first = t.queue.browse(query.clone()).await.unwrap();
        t.pop_up_to("orders", 3).await;
        t.add(job("5")).await;
        let rest = t.browse(Query { cursor: first.cursor, ..query }).await;
        assert_eq!(ids(&rest), ["3", "4", "5"]);
    }

    async fn a_job_put_off_behind_the_cursor_is_seen_there(t) {
        five(&t).await;
        let first = page(&t, 2, None).await;
        let patch = Patch { when: Some(When::In(MINUTE)), ..Patch::default() };
        t.change("orders", "1", Action::Update(patch)).await.unwrap();
        assert_eq!(ids(&page(&t, 100, first.cursor).await.jobs), ["3", "4", "5", "1"]);
    }

    async fn what_is_no_cursor_is_refused(t) {
        t.add(job("1")).await;
        for text in ["", " ", "nonsense!", "支", "\0", "🦀-🦀-🦀", &"z".repeat(5000)] {
            let query = Query { cursor: Some(Cursor(text.into())), ..Query::all(topic("orders")) };
            let refused = t.queue.browse(query).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("cursor")));
        }
    }

    async fn a_rare_job_among_very_many_is_found_by_paging_on(t) {
        for chunk in 0..=SCAN_MAX / 1000 {
            t.add_many((0..1000).map(|n| job(&format!("common {chunk} {n}")))).await;
        }
        t.add(job("rare")).await;
        let filter = Filter { id_prefix: Some("rare".into()), ..Filter::default() };
        assert_eq!(ids(&fitting(&t, filter).await), ["rare"]);
    }

    async fn looking_changes_nothing(t) {
        t.add(job("1")).await;
        let before = t.get("orders", "1").await;
        t.in_stage("orders", Stage::Ready).await;
        t.queue.dead_by_error(&topic("orders")).await.unwrap();
        assert_eq!(t.get("orders", "1").await, before);
        assert_eq!((t.popped("orders").await.job.attempt, before.attempt), (1, 0));
    }

    async fn the_first_of_a_state_can_be_peeked_at(t) {
        for (stage, id) in one_in_each_state(&t).await {
            t.add(job(&format!("later {id}")).priority(u32::MAX).delay(HOUR).held()).await;
            let filter = Filter { stage: Some(stage), ..Filter::default() };
            let peek = Query { filter, limit: 1, ..Query::all(topic("orders")) };
            assert_eq!(ids(&t.queue.browse(peek).await.unwrap().jobs), [id]);
        }
    }

    async fn dead_jobs_are_counted_by_error_the_most_frequent_first(t) {
        for (n, error) in ["once", "often", "twice", "often", "twice", "often"].iter().enumerate() {
            dead(&t, &n.to_string(), error).await;
        }
        let expected = [("often".into(), 3), ("twice".into(), 2), ("once".into(), 1)];
        assert_eq!(t.queue.dead_by_error(&topic("orders")).await.unwrap(), expected);
    }

    async fn errors_of_jobs_that_are_not_dead_are_not_counted(t) {
        t.add_many(["1", "finished later"].map(|id| job(id).retain(HOUR))).await;
        for delivery in t.pop_up_to("orders", 2).await {
            t.fail(&delivery, "not dead yet").await;
        }
        t.settle_id("orders", "finished later", Verdict::Finish).await.unwrap();
        t.add(Job::new("other", "x").id("2")).await;
        bury(&t, &t.popped("other").await, "elsewhere").await;
        assert_eq!(t.queue.dead_by_error(&topic("orders")).await.unwrap(), []);
    }

    async fn a_dead_job_counts_under_its_last_error(t) {
        let retry = Retry::ladder(&[SECOND]).unwrap();
        t.add(job("1").retry(retry)).await;
        t.fail(&t.popped("orders").await, "first").await;
        t.pass(SECOND).await;
        t.fail(&t.popped("orders").await, "last").await;
        let counted = t.queue.dead_by_error(&topic("orders")).await.unwrap();
        assert_eq!(counted, [("last".into(), 1)]);
    }

    async fn errors_that_nobody_gave_are_counted_too(t) {
        for (id, ttr) in [("1", SECOND), ("2", MINUTE)] {
            t.add(job(id).ttr(ttr).retry(Retry::none())).await;
        }
        let jobs = t.pop_up_to("orders", 2).await;
        t.pass(SECOND).await;
        t.settle(&jobs[1], Verdict::Again { retry_in: None }).await.unwrap();
        let counted = t.queue.dead_by_error(&topic("orders")).await.unwrap();
        let errors: BTreeSet<&str> = counted.iter().map(|(error, _)| &**error).collect();
        assert_eq!(errors, BTreeSet::from(["ttr ran out", "gave_up"]));
    }

    async fn a_job_that_leaves_the_dead_shelf_is_no_longer_counted(t) {
        t.set("orders", Settings { retain_dead: Some(HOUR), ..Settings::default() }).await;
        for id in ["redriven", "deleted", "replaced", "stays"] {
            dead(&t, id, "no").await;
        }
        let count = async || t.queue.dead_by_error(&topic("orders")).await.unwrap();
        assert_eq!(count().await, [("no".into(), 4)]);
        t.change("orders", "redriven", Action::Redrive).await.unwrap();
        assert_eq!(count().await, [("no".into(), 3)]);
        t.change("orders", "deleted", Action::Delete(Reach::Any)).await.unwrap();
        t.add(job("replaced").on_conflict(OnConflict::Replace)).await;
        assert_eq!(count().await, [("no".into(), 1)]);
        t.pass(HOUR).await;
        assert_eq!(count().await, []);
    }

    async fn only_the_most_frequent_errors_are_told(t) {
        for n in 0..=ERRORS_MAX {
            dead(&t, &format!("{n} a"), &format!("error {n}")).await;
            if n != 50 {
                dead(&t, &format!("{n} b"), &format!("error {n}")).await;
            }
        }
        let counted = t.queue.dead_by_error(&topic("orders")).await.unwrap();
        assert_eq!(counted.len(), ERRORS_MAX);
        assert!(counted.iter().all(|(error, count)| *count == 2 && &**error != "error 50"));
    }

    async fn an_error_that_was_counted_finds_its_jobs(t) {
        let long = "é".repeat(5000);
        dead(&t, "1", &long).await;
        dead(&t, "2", &long).await;
        dead(&t, "3", "short").await;
        let counted = t.queue.dead_by_error(&topic("orders")).await.unwrap();
        let filter = Filter { error: Some(counted[0].0.clone()), ..Filter::default() };
        assert_eq!((counted[0].1, ids(&fitting(&t, filter).await)), (2, vec!["1", "2"]));
    }
}

fn job(id: &str) -> Job {
    Job::new("orders", "x").id(id)
}

/// Five jobs, due one second after the other, named by their second.
async fn five<S: Subject>(t: &Trial<S>) {
    t.add_many((1..=5_u32).map(|n| job(&n.to_string()).delay(n * SECOND))).await;
}

async fn page<S: Subject>(t: &Trial<S>, limit: usize, cursor: Option<Cursor>) -> Page {
    let query = Query { limit, cursor, ..Query::all(topic("orders")) };
    t.queue.browse(query).await.expect("a right query")
}

async fn fitting<S: Subject>(t: &Trial<S>, filter: Filter) -> Vec<JobInfo> {
    t.browse(Query { filter, ..Query::all(topic("orders")) }).await
}

async fn bury<S: Subject>(t: &Trial<S>, delivery: &Delivery, error: &str) {
    let verdict = Verdict::Bury { error: Some(error.into()), priority: None };
    t.settle(delivery, verdict).await.expect("the lease holds");
}

/// A job that died of this error; no other is ready.
async fn dead<S: Subject>(t: &Trial<S>, id: &str, error: &str) {
    t.add(job(id)).await;
    bury(t, &t.popped("orders").await, error).await;
}

/// One job in each state, named after it.
async fn one_in_each_state<S: Subject>(t: &Trial<S>) -> Vec<(Stage, &'static str)> {
    in_each_state(t, "").await;
    vec![
        (Stage::Delayed, "delayed"),
        (Stage::Retry, "retry"),
        (Stage::Held, "held"),
        (Stage::Ready, "ready"),
        (Stage::Reserved, "reserved"),
        (Stage::Dead, "dead"),
        (Stage::Finished, "finished"),
    ]
}

/// Five jobs in each state, moments apart.
async fn some_in_each_state<S: Subject>(t: &Trial<S>) -> Vec<JobInfo> {
    for n in 0..5 {
        in_each_state(t, &format!(" {n}")).await;
        t.pass(Duration::from_millis(n % 2)).await;
    }
    t.browse(Query { limit: PAGE_MAX, ..Query::all(topic("orders")) }).await
}

async fn in_each_state<S: Subject>(t: &Trial<S>, mark: &str) {
    let named = |name: &str| job(&format!("{name}{mark}"));
    // The ready ones of before are passed over: they have the last priority.
    let first = |name: &str| named(name).priority(0).retain(HOUR).ttr(HOUR);
    t.add_many(["finished", "dead", "reserved", "retry"].map(first)).await;
    let jobs = t.pop_up_to("orders", 4).await;
    t.finish(&jobs[0]).await;
    bury(t, &jobs[1], "no").await;
    let retry_in = Some(20 * MINUTE);
    t.settle(&jobs[3], Verdict::Fail { error: "no".into(), retry_in }).await.expect("it holds");
    t.add(named("ready")).await;
    t.add(named("delayed").delay(10 * MINUTE)).await;
    t.add(named("held").delay(15 * MINUTE).held()).await;
}
