//! When something that is watched is told, and when its end is: pure.

use std::time::Duration;

use linger::time::{Now, Tick, Time, duration_ms};

/// What one look at something after the other has shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// Since when it is bad without a break.
    bad_since: Option<Now>,
    /// Since when it is well without a break, seen from here.
    well_since: Option<Tick>,
}

/// How long something must be bad before it is told, and well before its end is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) holds: Duration,
    pub(super) quiet: Duration,
}

/// What is to be done after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// It is an incident, which began then.
    Begin {
        since: Time,
    },
    /// The incident goes on, and those who share the store should know.
    Renew,
    /// The incident is over.
    End,
}

impl Watch {
    /// Decides by one more look. `seen`: when anyone last saw the incident that is under way, if
    /// one is.
    ///
    /// That it is well is only ever this server's own word: another may see what this one cannot.
    /// So an incident ends when nobody has seen it for a while, and this server has looked for as
    /// long, which it has not when it has just started.
    pub(super) fn look(
        &mut self,
        is_bad: bool,
        seen: Option<Time>,
        patience: Patience,
        now: Now,
    ) -> Step {
        let quiet_ms = duration_ms(patience.quiet);
        if !is_bad {
            self.bad_since = None;
            let well_ms = now.tick.ms_since(*self.well_since.get_or_insert(now.tick));
            return match seen {
                Some(seen) if well_ms >= quiet_ms && now.time().ms_since(seen) >= quiet_ms => {
                    Step::End
                }
                _ => Step::Nothing,
            };
        }
        self.well_since = None;
        let since = *self.bad_since.get_or_insert(now);
        match seen {
            // Often enough for others, and no more: each is a write.
            Some(seen) if now.time().ms_since(seen) >= quiet_ms / 4 => Step::Renew,
            Some(_) => Step::Nothing,
            None if now.tick.ms_since(since.tick) >= duration_ms(patience.holds) => {
                Step::Begin { since: since.time() }
            }
            None => Step::Nothing,
        }
    }

    /// It could not be looked, so that nothing is known to be well.
    pub(super) fn missed(&mut self) {
        self.well_since = None;
    }

    /// Since when it is bad, if it is.
    pub(super) fn bad_since(&self) -> Option<Time> {
        self.bad_since.map(Now::time)
    }
}

/// What is known of a dead shelf: it is bad when it grows, not when it is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shelf {
    /// How many lay there before it began to grow.
    base: u64,
    /// How many lay there when it was last looked.
    last: u64,
    grown: Option<Tick>,
}

impl Shelf {
    /// A shelf that is looked at for the first time.
    pub(super) fn new(count: u64) -> Shelf {
        Shelf { base: count, last: count, grown: None }
    }

    /// By how much it has grown, without a break of `quiet`; none if it has not since the last look.
    pub(super) fn look(&mut self, count: u64, quiet: Duration, now: Tick) -> Option<u64> {
        if self.grown.is_some_and(|grown| now.ms_since(grown) >= duration_ms(quiet)) {
            *self = Shelf::new(self.last);
        }
        let grew = count > self.last;
        self.last = count;
        self.base = self.base.min(count);
        if !grew {
            return None;
        }
        self.grown = Some(now);
        Some(count - self.base)
    }
}

#[cfg(test)]
mod tests {
    use linger::time::{MINUTE, SECOND};

    use super::*;

    const PATIENCE: Patience = Patience { holds: MINUTE, quiet: Duration::from_secs(120) };

    /// Someone who looks, and what is stored of an incident.
    struct Bench {
        watch: Watch,
        seen: Option<Time>,
        now: Now,
    }

    impl Bench {
        fn new() -> Bench {
            let now = Now { wall_us: 1_790_000_000_000_000, tick: Tick::from_us(0) };
            Bench { watch: Watch::default(), seen: None, now }
        }

        fn pass(&mut self, seconds: u64) {
            self.now.wall_us += seconds * 1_000_000;
            self.now.tick = self.now.tick.plus_ms(seconds * 1000);
        }

        /// Looks, and does what is to be done.
        fn look(&mut self, is_bad: bool) -> Step {
            let step = self.watch.look(is_bad, self.seen, PATIENCE, self.now);
            match step {
                Step::Begin { .. } | Step::Renew => self.seen = Some(self.now.time()),
                Step::End => self.seen = None,
                Step::Nothing => {}
            }
            step
        }

        /// Looks every five seconds for a while, and answers what began and ended.
        fn looks(&mut self, seconds: u64, is_bad: impl Fn(u64) -> bool) -> Vec<Step> {
            let mut steps = Vec::new();
            for n in 0..seconds / 5 {
                self.pass(5);
                steps.push(self.look(is_bad(n)));
            }
            steps.retain(|step| !matches!(step, Step::Nothing | Step::Renew));
            steps
        }
    }

    #[test]
    fn it_is_told_once_and_not_before_it_has_held() {
        let mut bench = Bench::new();
        let since = bench.now.time();
        assert_eq!(bench.look(true), Step::Nothing);
        assert_eq!(bench.looks(55, |_| true), []);
        assert_eq!(bench.looks(3600, |_| true), [Step::Begin { since }]);
        assert_eq!(bench.looks(115, |_| false), []);
        assert_eq!(bench.looks(3600, |_| false), [Step::End]);
    }

    #[test]
    fn a_break_starts_the_wait_anew() {
        let mut bench = Bench::new();
        assert_eq!(bench.looks(3600, |n| n % 12 != 0), []);
    }

    #[test]
    fn at_the_border_nothing_flaps() {
        let mut bench = Bench::new();
        assert_eq!(bench.looks(120, |_| true).len(), 1);
        // Well for up to a minute and fifty, again and again.
        assert_eq!(bench.looks(3600, |n| n % 23 == 0), []);
        assert_eq!(bench.looks(300, |_| false), [Step::End]);
    }

    #[test]
    fn an_incident_outlives_a_restart_and_a_long_stop() {
        let mut bench = Bench::new();
        bench.looks(120, |_| true);
        for stopped in [1, 3600] {
            bench.watch = Watch::default();
            bench.pass(stopped);
            // What is wrong shows again only some time after the start.
            assert_eq!(bench.looks(60, |_| false), []);
            assert_eq!(bench.looks(600, |_| true), []);
        }
        bench.watch = Watch::default();
        bench.pass(3600);
        assert_eq!(bench.looks(600, |_| false), [Step::End]);
    }

    #[test]
    fn a_time_without_looks_is_not_one_of_being_well() {
        let mut bench = Bench::new();
        bench.looks(120, |_| true);
        bench.looks(60, |_| false);
        bench.watch.missed();
        bench.pass(3600);
        assert_eq!(bench.look(false), Step::Nothing);
        assert_eq!(bench.looks(600, |_| false), [Step::End]);
    }

    #[test]
    fn what_another_sees_does_not_end_here() {
        let mut bench = Bench::new();
        bench.looks(120, |_| true);
        for _ in 0..100 {
            assert_eq!(bench.looks(30, |_| false), []);
            // Another has written that it sees it.
            bench.seen = Some(bench.now.time());
        }
        assert_eq!(bench.looks(300, |_| false), [Step::End]);
    }

    #[test]
    fn one_who_sees_it_says_so_before_others_would_end_it() {
        let mut bench = Bench::new();
        bench.looks(120, |_| true);
        for _ in 0..1000 {
            bench.pass(5);
            bench.look(true);
            let age_ms = bench.now.time().ms_since(bench.seen.unwrap());
            assert!(age_ms < duration_ms(PATIENCE.quiet) / 2, "{age_ms}");
        }
    }

    #[test]
    fn a_shelf_is_bad_when_it_grows() {
        let mut shelf = Shelf::new(10);
        let mut tick = Tick::from_us(0);
        let mut look = |count, seconds: u64| {
            tick = tick.plus_ms(seconds * 1000);
            shelf.look(count, 60 * SECOND, tick)
        };
        assert_eq!(look(10, 5), None);
        assert_eq!(look(12, 5), Some(2));
        assert_eq!(look(12, 5), None);
        assert_eq!(look(15, 40), Some(5), "it goes on growing");
        assert_eq!(look(16, 60), Some(1), "and begins anew after a rest");
        assert_eq!(look(3, 5), None, "some were redriven");
        assert_eq!(look(4, 5), Some(1));
    }
}
