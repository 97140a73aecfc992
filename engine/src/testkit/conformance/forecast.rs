//! What falls due when.

use std::time::Duration;

use super::trial::{key, topic};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::job::{Job, OnConflict, Patch, When};
use crate::machine::{Reach, Stage};
use crate::queue::{Action, FORECAST_BUCKETS_MAX, Forecast, Queue, Terms, Verdict};
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::time::{DAY, HOUR, MINUTE, SECOND, Time, duration_ms};

suite! {
    async fn each_part_counts_from_its_start_to_before_its_end(t) {
        for ms in [1, 999, 1000, 1001, 1999, 2000, 2999, 3000] {
            t.add(delayed("orders", ms)).await;
        }
        assert_eq!(next(&t, 3 * SECOND, 3).await, [2, 3, 2]);
        let from = t.now().saturating_add_ms(1000);
        let shifted = Forecast { from, ..all(&t, 3 * SECOND, 2) };
        assert_eq!(t.queue.forecast(shifted).await.unwrap(), [3, 2]);
    }

    async fn every_job_is_in_exactly_one_part_when_a_span_does_not_divide(t) {
        t.add_many((1..=9).map(|ms| delayed("orders", ms))).await;
        let buckets = next(&t, Duration::from_millis(10), 3).await;
        assert_eq!(buckets.iter().sum::<u64>(), 9);
        assert!(buckets.iter().all(|part| (2..=4).contains(part)), "{buckets:?} are about equal");
    }

    async fn many_jobs_may_fall_into_few_parts(t) {
        t.add_many((1..=60).map(|n| delayed("orders", n * 100))).await;
        assert_eq!(next(&t, 6 * SECOND, 3).await, [19, 20, 20]);
        let from = t.now().saturating_add_ms(1000);
        let later = Forecast { from, ..all(&t, 5 * SECOND, 2) };
        assert_eq!(t.queue.forecast(later).await.unwrap(), [20, 20]);
    }

    async fn there_may_be_more_parts_than_milliseconds(t) {
        t.add_many([1, 1, 2].map(|ms| delayed("orders", ms))).await;
        let buckets = next(&t, Duration::from_millis(3), 1000).await;
        assert_eq!((buckets.len(), buckets.iter().sum::<u64>()), (1000, 3));
        assert_eq!(buckets.iter().max(), Some(&2));
    }

    async fn one_topic_is_asked_about_or_all(t) {
        t.add_many([delayed("a", 500), delayed("b", 500), delayed("b", 1500)]).await;
        let of = |name| Forecast { topic: Some(topic(name)), ..all(&t, 2 * SECOND, 2) };
        assert_eq!(t.queue.forecast(of("a")).await.unwrap(), [1, 0]);
        assert_eq!(t.queue.forecast(of("b")).await.unwrap(), [1, 1]);
        assert_eq!(t.queue.forecast(of("nobody")).await.unwrap(), [0, 0]);
        assert_eq!(t.queue.forecast(all(&t, 2 * SECOND, 2)).await.unwrap(), [2, 1]);
    }

    async fn a_forecast_of_an_unknown_topic_does_not_make_it(t) {
        let asked = Forecast { topic: Some(topic("nobody")), ..all(&t, SECOND, 1) };
        t.queue.forecast(asked).await.unwrap();
        assert_eq!(t.topic("nobody").await, None);
    }

    async fn held_jobs_are_not_counted_until_they_are_let_go(t) {
        t.add(delayed("orders", 500).id("1").held()).await;
        t.add(delayed("orders", 500).id("2")).await;
        assert_eq!(next(&t, SECOND, 1).await, [1]);
        t.change("orders", "2", Action::Hold).await.unwrap();
        assert_eq!(next(&t, SECOND, 1).await, [0]);
        t.change("orders", "1", Action::Unhold).await.unwrap();
        assert_eq!(next(&t, SECOND, 1).await, [1]);
    }

    async fn a_retry_is_counted_at_its_step(t) {
        let retry = Retry::ladder(&[90 * SECOND]).unwrap();
        t.add(Job::new("orders", "x").id("1").retry(retry)).await;
        assert_eq!(next(&t, 3 * MINUTE, 3).await, [0, 0, 0]);
        t.fail(&t.popped("orders").await, "no").await;
        assert_eq!(next(&t, 3 * MINUTE, 3).await, [0, 1, 0]);
    }

    async fn only_waiting_jobs_are_counted(t) {
        let stages = [
            ("finished", Stage::Finished), ("dead", Stage::Dead),
            ("reserved", Stage::Reserved), ("ready", Stage::Ready),
        ];
        for (id, _) in stages {
            t.add(Job::new("orders", "x").id(id).retain(HOUR).retry(Retry::none())).await;
        }
        let jobs = t.pop_up_to("orders", 3).await;
        t.finish(&jobs[0]).await;
        t.fail(&jobs[1], "no").await;
        for (id, stage) in stages {
            assert_eq!(t.stage("orders", id).await, Some(stage));
        }
        assert_eq!(t.queue.forecast(ever()).await.unwrap(), [0]);
    }

    async fn what_has_fallen_due_is_no_longer_counted(t) {
        t.add_many([500, 1500].map(|ms| delayed("orders", ms))).await;
        let span = all(&t, 2 * SECOND, 2);
        assert_eq!(t.queue.forecast(span.clone()).await.unwrap(), [1, 1]);
        t.pass(Duration::from_millis(499)).await;
        assert_eq!(t.queue.forecast(span.clone()).await.unwrap(), [1, 1]);
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(t.queue.forecast(span).await.unwrap(), [0, 1]);
    }

    async fn a_new_due_time_moves_a_job_to_another_part(t) {
        t.add(delayed("orders", 500).id("1")).await;
        update(&t, "1", When::In(2500 * MS)).await;
        assert_eq!(next(&t, 3 * SECOND, 3).await, [0, 0, 1]);
        update(&t, "1", When::At(t.now().saturating_add_ms(1000))).await;
        assert_eq!(next(&t, 3 * SECOND, 3).await, [0, 1, 0]);
        update(&t, "1", When::In(DAY)).await;
        assert_eq!(next(&t, 3 * SECOND, 3).await, [0, 0, 0]);
    }

    async fn a_ready_job_that_is_put_off_is_counted_again(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        update(&t, "1", When::In(500 * MS)).await;
        assert_eq!(next(&t, SECOND, 1).await, [1]);
    }

    async fn a_job_that_is_gone_is_no_longer_counted(t) {
        t.add_many(["1", "2", "3"].map(|id| delayed("orders", 500).id(id))).await;
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        assert_eq!(next(&t, SECOND, 1).await, [2]);
        t.change("orders", "2", Action::Run).await.unwrap();
        assert_eq!(next(&t, SECOND, 1).await, [1]);
        t.queue.reserve(&key("orders", "3"), Terms::default()).await.unwrap();
        assert_eq!(next(&t, SECOND, 1).await, [0]);
    }

    async fn a_job_in_the_place_of_another_is_counted_in_its_stead(t) {
        t.add(delayed("orders", 500).id("1")).await;
        t.add(delayed("orders", 1500).id("1").on_conflict(OnConflict::Replace)).await;
        assert_eq!(next(&t, 2 * SECOND, 2).await, [0, 1]);
    }

    async fn a_released_job_is_counted_when_it_is_to_wait(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let delivery = t.popped("orders").await;
        let later = Verdict::Release { delay: 1500 * MS, priority: None };
        t.settle(&delivery, later).await.unwrap();
        assert_eq!(next(&t, 2 * SECOND, 2).await, [0, 1]);
    }

    async fn a_repeating_job_is_counted_once_at_its_next_time(t) {
        t.add(Job::new("orders", "x").id("1").repeat(Repeat::every(MINUTE).unwrap())).await;
        assert_eq!(next(&t, 3 * MINUTE, 3).await, [0, 1, 0]);
        t.pass(MINUTE).await;
        t.finish(&t.popped("orders").await).await;
        assert_eq!(next(&t, 3 * MINUTE, 3).await, [0, 1, 0]);
    }

    async fn a_dead_job_is_counted_again_only_if_it_waits_again(t) {
        let retry = Retry::ladder(&[500 * MS]).unwrap().attempts(1);
        t.add(Job::new("orders", "x").id("1").retry(retry)).await;
        t.fail(&t.popped("orders").await, "no").await;
        assert_eq!(next(&t, SECOND, 1).await, [0]);
        t.change("orders", "1", Action::Redrive).await.unwrap();
        update(&t, "1", When::In(500 * MS)).await;
        assert_eq!(next(&t, SECOND, 1).await, [1]);
    }

    async fn a_span_without_length_is_refused(t) {
        let right = all(&t, SECOND, 1);
        for to in [right.from, right.from.saturating_sub_ms(1)] {
            let refused = t.queue.forecast(Forecast { to, ..right.clone() }).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("to")));
        }
    }

    async fn no_or_too_many_parts_are_refused(t) {
        for buckets in [0, FORECAST_BUCKETS_MAX + 1, u32::MAX] {
            let refused = t.queue.forecast(all(&t, SECOND, buckets)).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("buckets")));
        }
        assert_eq!(next(&t, SECOND, FORECAST_BUCKETS_MAX).await.len(), FORECAST_BUCKETS_MAX as usize);
    }

    async fn the_shortest_span_is_a_millisecond(t) {
        t.add_many([999, 1000, 1001].map(|ms| delayed("orders", ms))).await;
        let from = t.now().saturating_add_ms(1000);
        let to = t.now().saturating_add_ms(1001);
        let asked = Forecast { topic: None, from, to, buckets: 1 };
        assert_eq!(t.queue.forecast(asked).await.unwrap(), [1]);
    }

    async fn the_longest_span_is_all_of_time(t) {
        let last = Time::MAX.saturating_sub_ms(1);
        t.add(Job::new("orders", "x").at(last)).await;
        t.add_many([1000, 86_400_000, 31_536_000_000].map(|ms| delayed("orders", ms))).await;
        assert_eq!(t.queue.forecast(ever()).await.unwrap(), [4]);
        let halves = Forecast { from: t.now(), buckets: 2, ..ever() };
        assert_eq!(t.queue.forecast(halves).await.unwrap(), [3, 1]);
    }

    async fn many_jobs_are_counted_exactly_whatever_the_edges(t) {
        let ms: Vec<u64> = (0..3000_u64).map(|n| 1 + n * n * 7919 % 7_200_000).collect();
        for some in ms.chunks(500) {
            t.add_many(some.iter().map(|ms| delayed("orders", *ms))).await;
        }
        for (from, to, buckets) in [
            (0, 7_200_001, 1), (0, 7_200_001, 1000), (0, 3_600_000, 60), (1, 59_999, 7),
            (59_999, 60_001, 2), (60_000, 120_000, 1), (123_456, 6_543_210, 13), (0, 1, 1),
        ] {
            let at = |ms| t.now().saturating_add_ms(ms);
            let asked = Forecast { topic: None, from: at(from), to: at(to), buckets };
            let edge = |part: u32| asked.bucket_start(part).ms_since(t.now());
            let part_of = |part| edge(part)..edge(part + 1);
            let within = |part| ms.iter().filter(move |ms| part_of(part).contains(ms));
            let expected: Vec<u64> = (0..buckets).map(|part| within(part).count() as u64).collect();
            let one = Forecast { topic: Some(topic("orders")), ..asked.clone() };
            assert_eq!(t.queue.forecast(asked).await.unwrap(), expected, "{from}..{to}");
            assert_eq!(t.queue.forecast(one).await.unwrap(), expected, "{from}..{to} of one");
        }
    }
}

const MS: Duration = Duration::from_millis(1);

fn delayed(name: &str, ms: u64) -> Job {
    Job::new(name, "x").delay(Duration::from_millis(ms))
}

/// All topics, from now on for so long.
fn all<S: Subject>(t: &Trial<S>, span: Duration, buckets: u32) -> Forecast {
    let to = t.now().saturating_add_ms(duration_ms(span));
    Forecast { topic: None, from: t.now(), to, buckets }
}

/// All there is, whenever it is due.
fn ever() -> Forecast {
    Forecast { topic: None, from: Time::MIN, to: Time::MAX, buckets: 1 }
}

/// What falls due from now on for so long, where there is one topic: the same for it as for all.
async fn next<S: Subject>(t: &Trial<S>, span: Duration, buckets: u32) -> Vec<u64> {
    let of_all = all(t, span, buckets);
    let of_one = Forecast { topic: Some(topic("orders")), ..of_all.clone() };
    let buckets = t.queue.forecast(of_all).await.expect("a right question");
    assert_eq!(t.queue.forecast(of_one).await.expect("a right question"), buckets);
    buckets
}

async fn update<S: Subject>(t: &Trial<S>, id: &str, when: When) {
    let patch = Patch { when: Some(when), ..Patch::default() };
    t.change("orders", id, Action::Update(patch)).await.expect("it may be put off");
}
