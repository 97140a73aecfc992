//! How long recent attempts took, counted in a few fixed classes.

use std::time::Duration;

/// What took less, in powers of two of a microsecond, is in the first class.
const LEAST_BITS: u32 = 6;
/// Each doubling is cut into 4 classes, so that a figure is at most an eighth off.
const PART_BITS: u32 = 2;
/// What took 2^28 µs, four and a half minutes, or more is in the last class.
const MOST_BITS: u32 = 28;
const CLASSES: usize = 1 + (((MOST_BITS - LEAST_BITS) as usize) << PART_BITS);
/// At so many all counts are halved, so that what is long ago weighs ever less.
const FULL: u32 = 1024;

/// A histogram that forgets.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    counts: [u16; CLASSES],
    total: u32,
}

impl Latencies {
    pub(super) fn new() -> Latencies {
        Latencies { counts: [0; CLASSES], total: 0 }
    }

    /// Counts one that took so long.
    pub(super) fn record(&mut self, us: u64) {
        self.counts[class(us)] += 1;
        self.total += 1;
        if self.total == FULL {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().map(|count| u32::from(*count)).sum();
        }
    }

    /// What this share of them took at most; none if there were none.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = ((share * f64::from(self.total)).ceil() as u32).max(1);
        let mut below = 0;
        for (class, count) in self.counts.iter().enumerate() {
            let count = u32::from(*count);
            if below + count >= rank {
                // As if those of a class were spread evenly over it.
                let (from, to) = bounds(class);
                let part = (f64::from(rank - below) - 0.5) / f64::from(count);
                return Some(Duration::from_micros(from + ((to - from) as f64 * part) as u64));
            }
            below += count;
        }
        None
    }
}

fn class(us: u64) -> usize {
    if us < 1 << LEAST_BITS {
        return 0;
    }
    let bits = us.ilog2();
    let part = (us >> (bits - PART_BITS)) as usize & ((1 << PART_BITS) - 1);
    let class = 1 + (((bits - LEAST_BITS) as usize) << PART_BITS) + part;
    class.min(CLASSES - 1)
}

/// From where to where a class goes, in microseconds.
fn bounds(class: usize) -> (u64, u64) {
    let Some(above) = class.checked_sub(1) else { return (0, 1 << LEAST_BITS) };
    let part = (above & ((1 << PART_BITS) - 1)) as u64;
    let step = 1 << ((above >> PART_BITS) as u32 + LEAST_BITS - PART_BITS);
    let from = ((1 << PART_BITS) + part) * step;
    (from, from + step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_begins_where_the_one_before_ends() {
        for at in 0..CLASSES {
            let (from, to) = bounds(at);
            assert_eq!((class(from), class(to - 1)), (at, at));
            assert_eq!(class(to), (at + 1).min(CLASSES - 1));
        }
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn a_quantile_is_near_what_was_recorded() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.quantile(0.5), None);
        (1..=1000).for_each(|ms| latencies.record(ms * 1000));
        for (share, ms) in [(0.5, 500.0), (0.99, 990.0)] {
            let told = latencies.quantile(share).unwrap().as_secs_f64() * 1e3;
            assert!((told - ms).abs() < ms / 8.0, "{share}: {told}");
        }
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let mut latencies = Latencies::new();
        (0..1000).for_each(|_| latencies.record(1_000_000));
        (0..u64::from(u32::from(u16::MAX)) * 2).for_each(|_| latencies.record(1000));
        let told = latencies.quantile(0.99).unwrap();
        assert!(told < Duration::from_micros(1300), "{told:?}");
        assert!(latencies.total < FULL);
    }
}
