//! Who should see to which bucket: pure, so that all who look at the same come to the same.
//!
//! Shares follow weight, and what a bucket counts for follows its load. Whatever stands stays, unless
//! moving it is clearly better.

use std::collections::BTreeMap;

/// One who may hold buckets.
#[derive(Clone, Debug)]
pub(super) struct Timer<'a> {
    pub(super) group: &'a str,
    pub(super) weight: u32,
    /// How much load it is to have at most.
    pub(super) threshold: Option<u64>,
}

/// A bucket as it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Who holds it, by place among the timers.
    pub(super) holder: Option<usize>,
    pub(super) load: u64,
}

/// What a bucket counts for besides its load: it is looked at even if nothing is in it.
pub(super) const BASE: u64 = 1;

/// How many buckets at most change hands at once, of those that have a holder.
const MOVES_MAX: usize = 32;

/// By how much one must be off its share before anything moves: less than a bucket without load, and
/// this part of the load, which is never quite the same.
const SLACK_BASE: f64 = 0.75;
const SLACK_OF_LOAD: f64 = 0.25;

/// The holder that each bucket should have, by place among the timers: none if there are none.
pub(super) fn plan(timers: &[Timer<'_>], buckets: &[Bucket]) -> Vec<Option<usize>> {
    if timers.is_empty() {
        return vec![None; buckets.len()];
    }
    let mut scales = Scales::new(timers, buckets);
    scales.hand_out_free();
    scales.even_out();
    scales.holders
}

/// What each has and should have.
struct Scales<'a> {
    buckets: &'a [Bucket],
    holders: Vec<Option<usize>>,
    has: Vec<f64>,
    should: Vec<f64>,
    /// How much of what each has is load.
    load: Vec<f64>,
    /// How much of everything is load.
    load_share: f64,
}

impl<'a> Scales<'a> {
    fn new(timers: &[Timer<'_>], buckets: &'a [Bucket]) -> Scales<'a> {
        let total: f64 = buckets.iter().map(|bucket| bucket.counts()).sum();
        let load: f64 = buckets.iter().map(|bucket| bucket.load as f64).sum();
        let nothing = vec![0.0; timers.len()];
        let mut scales = Scales {
            buckets,
            holders: vec![None; buckets.len()],
            has: nothing.clone(),
            should: shares(timers, total),
            load: nothing,
            load_share: if total > 0.0 { load / total } else { 0.0 },
        };
        for (at, bucket) in buckets.iter().enumerate() {
            if let Some(holder) = bucket.holder.filter(|holder| *holder < timers.len()) {
                scales.put(at, holder);
            }
        }
        scales
    }

    fn put(&mut self, at: usize, holder: usize) {
        let bucket = self.buckets[at];
        if let Some(was) = self.holders[at].replace(holder) {
            self.has[was] -= bucket.counts();
            self.load[was] -= bucket.load as f64;
        }
        self.has[holder] += bucket.counts();
        self.load[holder] += bucket.load as f64;
    }

    /// What nobody holds goes to whoever lacks most, the heaviest first.
    fn hand_out_free(&mut self) {
        let mut free: Vec<usize> =
            (0..self.buckets.len()).filter(|at| self.holders[*at].is_none()).collect();
        free.sort_by_key(|at| (std::cmp::Reverse(self.buckets[*at].load), *at));
        for at in free {
            let most = |a: &usize, b: &usize| self.lacks(*a).total_cmp(&self.lacks(*b));
            // Of those that lack the same the first, whoever looks.
            let holder = (0..self.has.len()).rev().max_by(most).expect("there is a timer");
            self.put(at, holder);
        }
    }

    /// Moves buckets from those who have too much to those who have too little.
    fn even_out(&mut self) {
        for _ in 0..MOVES_MAX {
            let Some((at, to)) = self.best_move() else { return };
            self.put(at, to);
        }
    }

    /// From whoever has most too much to whoever lacks most, as far as there is a bucket that fits.
    fn best_move(&self) -> Option<(usize, usize)> {
        let mut order: Vec<usize> = (0..self.has.len()).collect();
        order.sort_by(|a, b| self.lacks(*a).total_cmp(&self.lacks(*b)).then(a.cmp(b)));
        for from in order.iter().copied() {
            for to in order.iter().rev().copied().filter(|to| *to != from) {
                let (over, lacks) = (-self.lacks(from), self.lacks(to));
                let is_clear = over > self.slack(from) || lacks > self.slack(to);
                if over + lacks <= 0.0 || !is_clear {
                    continue;
                }
                // With half of it at most nobody is further off than before, so that none comes back.
                if let Some(at) = self.heaviest(from, (over + lacks) / 2.0) {
                    return Some((at, to));
                }
            }
        }
        None
    }

    fn heaviest(&self, holder: usize, most: f64) -> Option<usize> {
        let fits = |at: &usize| {
            self.holders[*at] == Some(holder) && self.buckets[*at].counts() <= most + 1e-6
        };
        (0..self.buckets.len()).filter(fits).max_by_key(|at| (self.buckets[*at].load, *at))
    }

    fn lacks(&self, timer: usize) -> f64 {
        self.should[timer] - self.has[timer]
    }

    fn slack(&self, timer: usize) -> f64 {
        let load = self.load[timer].max(self.should[timer] * self.load_share);
        SLACK_BASE + SLACK_OF_LOAD * load
    }
}

impl Bucket {
    fn counts(self) -> f64 {
        (BASE + self.load) as f64
    }
}

/// How much of a total each should have: by weight, and no more than its threshold as long as others
/// can take the rest, those of its group first.
fn shares(timers: &[Timer<'_>], total: f64) -> Vec<f64> {
    let room: f64 = timers.iter().map(Timer::room).sum();
    // All are over: each is by as much.
    let stretch = if room < total { total / room.max(1.0) } else { 1.0 };
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, timer) in timers.iter().enumerate() {
        groups.entry(timer.group).or_default().push(at);
    }
    let takes = |at: &usize| Taker {
        weight: timers[*at].weight.max(1).into(),
        room: timers[*at].room() * stretch,
    };
    let of_groups: Vec<Taker> =
        groups.values().map(|all| all.iter().map(takes).fold(Taker::NOBODY, Taker::and)).collect();
    let mut shares = vec![0.0; timers.len()];
    for (members, amount) in groups.values().zip(share_out(total, &of_groups)) {
        let takers: Vec<Taker> = members.iter().map(takes).collect();
        for (at, share) in members.iter().zip(share_out(amount, &takers)) {
            shares[*at] = share;
        }
    }
    shares
}

impl Timer<'_> {
    fn room(&self) -> f64 {
        self.threshold.map_or(f64::INFINITY, |threshold| threshold.max(1) as f64)
    }
}

/// One who takes a share, or a group of them.
#[derive(Clone, Copy)]
struct Taker {
    weight: f64,
    room: f64,
}

impl Taker {
    const NOBODY: Taker = Taker { weight: 0.0, room: 0.0 };

    fn and(self, other: Taker) -> Taker {
        Taker { weight: self.weight + other.weight, room: self.room + other.room }
    }
}

/// An amount by weight; what one has no room for goes to the others.
fn share_out(amount: f64, takers: &[Taker]) -> Vec<f64> {
    let mut full = vec![false; takers.len()];
    loop {
        let (mut left, mut weight) = (amount, 0.0);
        for (taker, is_full) in takers.iter().zip(&full) {
            match is_full {
                true => left -= taker.room,
                false => weight += taker.weight,
            }
        }
        let share = |taker: &Taker| left * taker.weight / weight;
        let over: Vec<usize> = (0..takers.len())
            .filter(|at| !full[*at] && share(&takers[*at]) > takers[*at].room)
            .collect();
        // If all are full what is left is what rounding has left.
        if over.is_empty() || over.len() == full.iter().filter(|is_full| !**is_full).count() {
            let each = takers.iter().zip(&full);
            return each
                .map(|(one, is_full)| if *is_full { one.room } else { share(one) })
                .collect();
        }
        over.into_iter().for_each(|at| full[at] = true);
    }
}

#[cfg(test)]
mod tests;
