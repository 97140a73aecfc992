//! Chance that repeats.

/// A small generator (splitmix64): the same seed, the same values, for ever.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        // Mixed, or each seed's values would be those of the seed before it, one later.
        Rng(mix(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// 0 to `n` - 1.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True in so many of a hundred.
    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Something, in so many of a hundred.
    pub(super) fn maybe<T>(
        &mut self,
        percent: usize,
        make: impl FnOnce(&mut Rng) -> T,
    ) -> Option<T> {
        self.percent(percent).then(|| make(self))
    }
}

fn mix(value: u64) -> u64 {
    let mixed = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_seeds_share_no_values() {
        let values = |seed| {
            let mut rng = Rng::new(seed);
            (0..100).map(|_| rng.next()).collect::<Vec<_>>()
        };
        let all: std::collections::BTreeSet<_> = (0..100).flat_map(values).collect();
        assert_eq!(all.len(), 100 * 100);
    }
}
