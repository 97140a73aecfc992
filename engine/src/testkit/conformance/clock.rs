//! Time: never early, and what a wall clock that is set does and does not change.

use std::time::Duration;

use bytes::Bytes;

use super::trial::{RELEASE, TOUCH, handed, topic};
use super::{Subject, Trial, suite};
use crate::history::What;
use crate::job::{Job, Patch, When};
use crate::machine::Stage;
use crate::queue::{Action, Ask, Expect, KvQuery, KvWrite, PausedFor, Queue, TopicChange, Verdict};
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::stats::{BOUNDS_US, Lateness};
use crate::time::{HOUR, MINUTE, SECOND};
use crate::topic::Settings;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);
const HOUR_MS: i64 = 3_600_000;

/// An hour forwards, and an hour back.
const BOTH_WAYS_MS: [i64; 2] = [HOUR_MS, -HOUR_MS];

/// The classes of a histogram that have something in them, and how much.
fn classes(lateness: &Lateness) -> Vec<(usize, u64)> {
    let counts = lateness.counts().iter().copied().enumerate();
    counts.filter(|(_, count)| *count > 0).collect()
}

/// The class of a histogram that so much falls into.
fn class(late: Duration) -> usize {
    BOUNDS_US.iter().take_while(|bound| u128::from(**bound) < late.as_micros()).count()
}

async fn is_ready<S: Subject>(t: &Trial<S>, id: &str) -> bool {
    t.stage("orders", id).await == Some(Stage::Ready)
}

suite! {
    async fn a_job_is_ready_at_its_millisecond_and_not_a_moment_before(t) {
        let by_delay = t.add(Job::new("orders", "x").id("delay").delay(MINUTE)).await;
        let by_at = t.add(Job::new("orders", "x").id("at").at(t.after(MINUTE))).await;
        assert_eq!(by_delay.due, by_at.due);
        let mut waiting = t.begin(Ask { max: 2, wait: HOUR, ..Ask::one(topic("orders")) });
        t.pass(MINUTE - US).await;
        assert!(t.answered(&mut waiting).await.is_none());
        t.clock.advance(US);
        assert_eq!(handed(&waiting.await), ["delay", "at"]);
    }

    async fn a_delay_between_milliseconds_is_rounded_up(t) {
        t.pass(300 * US).await;
        // From 0.3 ms on: over at 1.3 ms, so due at 2.
        t.add(Job::new("orders", "x").id("1").delay(MS)).await;
        t.pass(1699 * US).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(US).await;
        assert_eq!(t.popped("orders").await.id().as_str(), "1");
    }

    async fn a_delay_under_a_millisecond_is_a_delay(t) {
        let job = t.add(Job::new("orders", "x").id("1").delay(US)).await;
        assert_eq!((job.stage, job.due), (Stage::Delayed, t.after(MS)));
        t.pass(MS).await;
        assert!(is_ready(&t, "1").await);
    }

    async fn every_wait_is_rounded_up_not_only_the_first(t) {
        t.pass(300 * US).await;
        let patch = Patch { when: Some(When::In(MS)), ..Patch::default() };
        t.add(Job::new("orders", "x").id("updated").held()).await;
        t.change("orders", "updated", Action::Update(patch)).await.unwrap();
        t.change("orders", "updated", Action::Unhold).await.unwrap();
        t.add(Job::new("orders", "x").id("repeats").repeat(Repeat::every(MS).unwrap())).await;
        for (id, verdict) in [
            ("failed", Verdict::Fail { error: "no".into(), retry_in: None }),
            ("asked", Verdict::Fail { error: "no".into(), retry_in: Some(MS) }),
            ("released", Verdict::Release { delay: MS, priority: None }),
        ] {
            t.add(Job::new("orders", "x").id(id).retry(Retry::ladder(&[MS]).unwrap())).await;
            let delivery = t.popped("orders").await;
            t.settle(&delivery, verdict).await.unwrap();
        }
        t.pass(1699 * US).await;
        assert_eq!(t.counts("orders").await.ready, 0);
        t.pass(US).await;
        assert_eq!(t.counts("orders").await.ready, 5);
    }

    async fn a_job_without_delay_is_ready_between_milliseconds_too(t) {
        t.pass(300 * US).await;
        t.add(Job::new("orders", "x").id("1")).await;
        assert_eq!(t.popped("orders").await.job.due, t.now());
    }

    async fn a_job_due_in_the_past_is_ready_at_once_with_that_due_time(t) {
        let past = t.now().saturating_sub_ms(60_000);
        let job = t.add(Job::new("orders", "x").id("1").at(past)).await;
        assert_eq!((job.stage, job.due), (Stage::Ready, past));
    }

    async fn a_jump_forwards_makes_jobs_due_at_once(t) {
        t.add(Job::new("orders", "x").id("1").delay(HOUR)).await;
        let waiting = t.begin_one("orders", MINUTE);
        t.jump_ms(HOUR_MS).await;
        assert_eq!(handed(&waiting.await), ["1"]);
    }

    async fn a_jump_back_makes_jobs_wait_until_the_wall_shows_their_time(t) {
        t.add(Job::new("orders", "x").id("1").delay(MINUTE)).await;
        t.jump_ms(-HOUR_MS).await;
        t.pass(HOUR + MINUTE - MS).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(MS).await;
        assert_eq!(t.popped("orders").await.id().as_str(), "1");
    }

    async fn a_ready_job_stays_ready_when_the_clock_goes_back(t) {
        t.add(Job::new("orders", "x").id("1").delay(MINUTE)).await;
        t.pass(MINUTE).await;
        t.jump_ms(-HOUR_MS).await;
        assert!(is_ready(&t, "1").await);
        assert_eq!(t.counts("orders").await.ready, 1);
        assert_eq!(t.popped("orders").await.id().as_str(), "1");
    }

    async fn a_job_given_back_after_the_clock_went_back_is_ready(t) {
        for id in ["released", "expired"] {
            t.add(Job::new("orders", "x").id(id).ttr(SECOND)).await;
        }
        let held = t.pop_up_to("orders", 2).await;
        t.jump_ms(-HOUR_MS).await;
        t.settle(&held[0], RELEASE).await.unwrap();
        t.pass(SECOND).await;
        assert_eq!(t.pop_up_to("orders", 2).await.len(), 2);
    }

    async fn a_job_added_after_the_clock_went_back_is_not_early(t) {
        t.add(Job::new("orders", "x").id("before").delay(MINUTE)).await;
        t.jump_ms(-HOUR_MS).await;
        t.add(Job::new("orders", "x").id("after").delay(MINUTE)).await;
        t.pass(MINUTE - MS).await;
        assert!(t.pop("orders").await.is_none());
        t.pass(MS).await;
        assert_eq!(handed(&t.pop_up_to("orders", 2).await), ["after"]);
    }

    async fn a_lease_runs_its_length_however_the_clock_is_set(t) {
        for by_ms in BOTH_WAYS_MS {
            t.add(Job::new("orders", "x").id("1").ttr(MINUTE)).await;
            let delivery = t.popped("orders").await;
            t.jump_ms(by_ms).await;
            assert_eq!(t.get("orders", "1").await.reserved_until, Some(t.after(MINUTE)));
            t.pass(MINUTE - US).await;
            assert!(t.pop("orders").await.is_none());
            t.settle(&delivery, TOUCH).await.unwrap();
            t.jump_ms(by_ms).await;
            t.pass(MINUTE).await;
            assert!(is_ready(&t, "1").await, "{by_ms}");
            let took = t.get("orders", "1").await.history.pop().unwrap();
            assert_eq!((took.what, took.took_ms), (What::TimedOut, Some(119_999)));
            let delivery = t.popped("orders").await;
            t.finish(&delivery).await;
        }
    }

    async fn a_wait_lasts_its_length_however_the_clock_is_set(t) {
        for by_ms in BOTH_WAYS_MS {
            let mut waiting = t.begin_one("orders", MINUTE);
            t.jump_ms(by_ms).await;
            t.pass(MINUTE - US).await;
            assert!(t.answered(&mut waiting).await.is_none());
            t.clock.advance(US);
            assert!(waiting.await.is_empty());
        }
    }

    async fn a_pause_lasts_its_length_however_the_clock_is_set(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        for by_ms in BOTH_WAYS_MS {
            t.configure("orders", TopicChange::Pause(Some(MINUTE))).await.unwrap();
            t.jump_ms(by_ms).await;
            t.pass(MINUTE - MS).await;
            let paused = t.topic("orders").await.unwrap().paused;
            assert_eq!(paused, Some(PausedFor::Only(MS)));
            assert!(t.pop("orders").await.is_none());
            t.pass(MS).await;
            let delivery = t.popped("orders").await;
            t.settle(&delivery, RELEASE).await.unwrap();
        }
    }

    async fn a_rate_allows_the_same_however_the_clock_is_set(t) {
        let rate = Some("1/m".parse().unwrap());
        t.set("orders", Settings { rate, ..Settings::default() }).await;
        for id in ["1", "2", "3"] {
            t.add(Job::new("orders", "x").id(id)).await;
        }
        t.popped("orders").await;
        for by_ms in BOTH_WAYS_MS {
            t.jump_ms(by_ms).await;
            t.pass(MINUTE - MS).await;
            assert!(t.pop("orders").await.is_none(), "{by_ms}");
            t.pass(MS).await;
            t.popped("orders").await;
        }
    }

    async fn a_key_lives_its_ttl_however_the_clock_is_set(t) {
        for by_ms in BOTH_WAYS_MS {
            let (value, ttl) = (Some(Bytes::from_static(b"v")), Some(MINUTE));
            let write = KvWrite { key: "k".into(), value, expect: Expect::Absent, ttl };
            t.queue.kv_write(write).await.unwrap();
            t.jump_ms(by_ms).await;
            t.pass(MINUTE - MS).await;
            assert_eq!(t.queue.kv_read(KvQuery::Key("k".into())).await.unwrap().len(), 1);
            t.pass(MS).await;
            assert_eq!(t.queue.kv_read(KvQuery::Key("k".into())).await.unwrap().len(), 0);
        }
    }

    async fn how_long_jobs_are_kept_goes_by_the_wall(t) {
        let settings = Settings { retain_dead: Some(HOUR), ..Settings::default() };
        t.set("orders", settings).await;
        for back_first in [false, true] {
            t.bring("orders", Stage::Dead).await;
            t.bring("orders", Stage::Finished).await;
            if back_first {
                t.jump_ms(-HOUR_MS).await;
                t.pass(HOUR).await;
            }
            t.jump_ms(HOUR_MS - 1).await;
            assert_eq!(t.counts("orders").await.total(), 2);
            t.jump_ms(1).await;
            assert_eq!(t.counts("orders").await.total(), 0);
        }
    }

    async fn a_repeat_follows_the_wall(t) {
        let repeat = Repeat::every(HOUR).unwrap();
        let first = t.add(Job::new("orders", "x").id("1").repeat(repeat)).await.due;
        t.jump_ms(HOUR_MS).await;
        let delivery = t.popped("orders").await;
        t.jump_ms(-HOUR_MS / 2).await;
        let next = t.finish(&delivery).await.job.unwrap();
        assert_eq!((next.stage, next.due.ms_since(first)), (Stage::Delayed, 3_600_000));
    }

    async fn every_step_of_the_wall_clock_is_counted_and_passing_time_is_not(t) {
        t.settled().await;
        t.pass(HOUR).await;
        assert_eq!(t.queue.stats().await.unwrap().clock_steps, 0);
        for (n, by_ms) in (1..).zip(BOTH_WAYS_MS) {
            t.jump_ms(by_ms).await;
            t.pass(HOUR).await;
            assert_eq!(t.queue.stats().await.unwrap().clock_steps, n);
        }
    }

    async fn lateness_is_told_apart_from_due_to_ready_and_from_ready_to_handed_out(t) {
        t.add(Job::new("orders", "x").id("1").delay(MINUTE)).await;
        t.pass(MINUTE + 3 * SECOND).await;
        t.pass(20 * SECOND).await;
        t.popped("orders").await;
        let stats = t.queue.stats().await.unwrap();
        assert_eq!(classes(&stats.due_to_ready), [(class(3 * SECOND), 1)]);
        assert_eq!(stats.due_to_ready.sum_us(), 3_000_000);
        assert_eq!(classes(&stats.ready_to_handed_out), [(class(20 * SECOND), 1)]);
        assert_eq!(stats.ready_to_handed_out.sum_us(), 20_000_000);
    }

    async fn lateness_is_measured_for_every_job_and_every_time(t) {
        let retry = Retry::ladder(&[MINUTE]).unwrap();
        for id in ["1", "2"] {
            t.add(Job::new("orders", "x").id(id).delay(MINUTE).retry(retry.clone())).await;
        }
        t.pass(MINUTE).await;
        for delivery in t.pop_up_to("orders", 2).await {
            t.fail(&delivery, "no").await;
        }
        t.pass(MINUTE + SECOND).await;
        assert_eq!(t.pop_up_to("orders", 2).await.len(), 2);
        let stats = t.queue.stats().await.unwrap();
        assert_eq!((stats.due_to_ready.total(), stats.due_to_ready.sum_us()), (4, 2_000_000));
        assert_eq!(stats.ready_to_handed_out.total(), 4);
        assert_eq!(stats.ready_to_handed_out.sum_us(), 0);
    }

    async fn a_consumers_lateness_starts_when_the_job_is_ready_again(t) {
        t.add(Job::new("orders", "x").id("1").ttr(MINUTE)).await;
        t.popped("orders").await;
        t.pass(MINUTE).await;
        t.jump_ms(HOUR_MS).await;
        t.pass(SECOND).await;
        t.popped("orders").await;
        let lateness = t.queue.stats().await.unwrap().ready_to_handed_out;
        assert_eq!((lateness.total(), lateness.sum_us()), (2, 1_000_000));
    }
}
