//! The buckets that this instance holds, and what it does for each.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use super::Fleet;
use crate::time::{SECOND, Tick, duration_ms};

/// What this instance holds.
pub(in crate::store::redis) struct Share {
    holding: Mutex<Holding>,
    /// Rung when that has changed.
    pub(in crate::store::redis) bell: Notify,
}

struct Holding {
    /// Until when, by this instance's own clock.
    until: Tick,
    buckets: Vec<Option<Load>>,
    /// Until when it still sees to buckets that were its own, for who has them now may not know it yet:
    /// two at one bucket are wasteful, never wrong.
    parting: Vec<Tick>,
    /// Whether anybody at all holds buckets.
    has_timer: bool,
}

/// What is done for a bucket.
#[derive(Clone, Copy)]
struct Load {
    /// Jobs made ready since it was last smoothed.
    moved: u64,
    /// Jobs a second.
    smoothed: f64,
    /// What the others were told.
    told: u64,
}

impl Share {
    pub(super) fn new(buckets: u16) -> Share {
        let parting = vec![Tick::default(); buckets.into()];
        let buckets = vec![None; buckets.into()];
        let holding = Holding { until: Tick::default(), buckets, parting, has_timer: true };
        Share { holding: Mutex::new(holding), bell: Notify::new() }
    }

    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().expect("nobody panics holding it")
    }

    /// Whether it sees to each bucket at this moment.
    pub(in crate::store::redis) fn held(&self, now: Tick) -> Vec<bool> {
        let holding = self.holding();
        // Leases that ran out may be another's.
        let in_time = now < holding.until;
        let each = holding.buckets.iter().zip(&holding.parting);
        each.map(|(load, parting)| in_time && (load.is_some() || now < *parting)).collect()
    }

    /// Counts jobs that were made ready in a bucket.
    pub(in crate::store::redis) fn count(&self, bucket: usize, moved: u64) {
        if let Some(load) = &mut self.holding().buckets[bucket] {
            load.moved += moved;
        }
    }

    /// Whether anybody sees to buckets, as far as was last heard.
    pub(in crate::store::redis) fn has_timer(&self) -> bool {
        self.holding().has_timer
    }

    /// Takes on what it holds by what was heard, for a lease from when that was asked.
    pub(super) fn set(&self, fleet: &Fleet, this: &str, asked: Tick, lease: Duration) {
        let holding = &mut *self.holding();
        let mut changed = holding.until <= asked;
        let each = holding.buckets.iter_mut().zip(&mut holding.parting);
        for ((load, parting), bucket) in each.zip(&fleet.buckets) {
            match bucket.holder.as_deref() == Some(this) {
                false => {
                    // Nobody has taken it so far, or somebody has just been given it.
                    let is_free = bucket.holder.is_none() && asked < *parting;
                    if load.take().is_some() || is_free {
                        *parting = asked.plus_ms(duration_ms(lease));
                    }
                }
                true if load.is_none() => {
                    let (smoothed, told) = (bucket.load as f64, bucket.load);
                    *load = Some(Load { moved: 0, smoothed, told });
                    changed = true;
                }
                true => {}
            }
        }
        holding.until = asked.plus_ms(duration_ms(lease));
        holding.has_timer = fleet.has_timer();
        if changed {
            self.bell.notify_one();
        }
    }

    /// It holds nothing any more.
    pub(in crate::store::redis) fn clear(&self) {
        let holding = &mut *self.holding();
        holding.buckets.fill(None);
        holding.parting.fill(Tick::default());
    }

    /// Smooths what was counted in this time, over `window`; answers loads that are clearly not what the
    /// others know.
    pub(super) fn loads(&self, time: Duration, window: Duration) -> Vec<(usize, u64)> {
        let mut news = Vec::new();
        for (at, load) in self.holding().buckets.iter_mut().enumerate() {
            if let Some(load) = load {
                load.smooth(time, window);
                news.extend(load.news().map(|told| (at, told)));
            }
        }
        news
    }
}

impl Load {
    fn smooth(&mut self, time: Duration, window: Duration) {
        let seconds = time.max(SECOND / 1000).as_secs_f64();
        let rate = std::mem::take(&mut self.moved) as f64 / seconds;
        let part = 1.0 - (-seconds / window.as_secs_f64()).exp();
        self.smoothed += (rate - self.smoothed) * part;
    }

    /// What the others are to be told: no news if it is about the same, so that their plans stay.
    fn news(&mut self) -> Option<u64> {
        let is = self.smoothed.round() as u64;
        let is_same = is.abs_diff(self.told) <= (self.told / 5).max(1);
        if is == self.told || (is_same && is > 0) {
            return None;
        }
        self.told = is;
        Some(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::BucketInfo;

    fn fleet(holders: [Option<&str>; 2]) -> Fleet {
        let bucket = |(number, holder): (u16, Option<&str>)| BucketInfo {
            number,
            holder: holder.map(Into::into),
            fence: 1,
            load: 0,
        };
        Fleet { nodes: Vec::new(), buckets: (0..).zip(holders).map(bucket).collect() }
    }

    #[test]
    fn what_it_gave_up_it_sees_to_until_another_has_had_time_to_begin() {
        let share = Share::new(2);
        let at = |seconds: u64| Tick::from_us(seconds * 1_000_000);
        let see = |seconds, holders| share.set(&fleet(holders), "a", at(seconds), 3 * SECOND);
        see(10, [Some("a"), Some("a")]);
        assert_eq!(share.held(at(11)), [true, true]);
        see(12, [Some("a"), None]);
        see(14, [Some("a"), None]);
        assert_eq!(share.held(at(15)), [true, true]);
        see(16, [Some("a"), Some("b")]);
        assert_eq!(share.held(at(16)), [true, true]);
        assert_eq!(share.held(at(17)), [true, false]);
        see(18, [Some("a"), None]);
        assert_eq!(share.held(at(18)), [true, false]);
    }

    fn told(load: &mut Load, jobs: u64, seconds: u64) -> Vec<u64> {
        let second = |_| {
            load.moved += jobs;
            load.smooth(SECOND, 10 * SECOND);
            load.news()
        };
        (0..seconds).filter_map(second).collect()
    }

    #[test]
    fn a_load_is_told_when_it_has_changed_and_not_while_it_is_about_the_same() {
        let mut load = Load { moved: 0, smoothed: 0.0, told: 0 };
        let rising = told(&mut load, 100, 60);
        assert!(rising.is_sorted() && rising.len() < 15, "{rising:?}");
        assert!((80..=100).contains(rising.last().unwrap()), "{rising:?}");
        assert!(told(&mut load, 95, 60).is_empty());
        assert_eq!(told(&mut load, 0, 100).last(), Some(&0));
    }
}
