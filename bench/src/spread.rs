//! Several rounds of one figure.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Rounds of one figure: the middle one stands for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    pub(crate) fn one(value: f64) -> Spread {
        Spread(vec![value])
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    pub(crate) fn middle(&self) -> f64 {
        match self.0.len() {
            0 => f64::NAN,
            len if len.is_multiple_of(2) => (self.0[len / 2 - 1] + self.0[len / 2]) / 2.0,
            len => self.0[len / 2],
        }
    }

    /// The lowest and the highest, if there were several.
    pub(crate) fn ends(&self) -> Option<(f64, f64)> {
        match self.0.as_slice() {
            [low, .., high] => Some((*low, *high)),
            _ => None,
        }
    }
}

/// The percentiles that tell of stalls, in milliseconds, round by round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    pub(crate) p50: Spread,
    pub(crate) p99: Spread,
    pub(crate) p999: Spread,
    pub(crate) max: Spread,
}

impl Tail {
    /// Takes in one round, in nanoseconds.
    pub(crate) fn push(&mut self, round_ns: &Histogram<u64>) {
        let ms = |quantile: f64| round_ns.value_at_quantile(quantile) as f64 / 1e6;
        self.p50.push(ms(0.5));
        self.p99.push(ms(0.99));
        self.p999.push(ms(0.999));
        self.max.push(round_ns.max() as f64 / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_round_stands_for_all() {
        let mut spread = Spread::default();
        [5.0, 1.0, 9.0].into_iter().for_each(|value| spread.push(value));
        assert_eq!((spread.middle(), spread.ends()), (5.0, Some((1.0, 9.0))));
        spread.push(6.0);
        assert_eq!(spread.middle(), 5.5);
    }
}
