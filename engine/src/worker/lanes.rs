//! What a runner that pushes knows of where its jobs go: how many are under way to each
//! destination, and which are not to be bothered for a while.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::destinations::{DestinationInfo, DestinationState, Past};
use crate::job::Destination;
use crate::queue::Room;
use crate::time::{MINUTE, SECOND, Time};
use crate::topic::Topic;

/// More destinations are not remembered when nothing is under way to them.
const REMEMBERED_MAX: usize = 10_000;

/// Into how many groups the jobs under way to a destination are split, where they are worked on
/// together, and how many are in one at most.
const GROUPS: usize = 2;
const TOGETHER_MAX: usize = 128;

/// How a runner that pushes goes about its destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most jobs under way to one destination. 32 unless set.
    pub per_destination: u32,
    /// So many failures in a row, for which the destination was at fault, close it. 8 unless set.
    pub failures: u32,
    /// How long it is closed before one job is tried. 1 s unless set; doubled each time that fails.
    pub pause: Duration,
    /// The longest it is closed. 1 min unless set.
    pub pause_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { per_destination: 32, failures: 8, pause: SECOND, pause_max: MINUTE }
    }
}

/// What an attempt says of where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It is there, whatever it thinks of the job.
    Up,
    /// It is at fault.
    Down,
    /// There is nobody to take the job.
    Nobody,
    /// Nothing: the attempt was cut off.
    None,
}

pub(super) struct Lanes {
    limits: Limits,
    /// How many jobs may be under way over all.
    slots: u32,
    lanes: HashMap<Destination, Lane>,
    /// Jobs under way by topic.
    topics: HashMap<Topic, u32>,
    /// What became of those that are no longer under way.
    pub(super) past: Past,
    /// Counts what may let a job through that had to wait, or stop one that had not.
    changes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    busy: u32,
    gate: Gate,
}

/// Whether jobs are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// They are, after so many failures in a row.
    Open { failures: u32 },
    /// Not until then. Then one is.
    Closed { until: Instant, pause: Duration },
    /// One was, and what becomes of it decides.
    Probed { pause: Duration },
}

const OPEN: Gate = Gate::Open { failures: 0 };

impl Lanes {
    pub(super) fn new(slots: usize) -> Lanes {
        Lanes {
            limits: Limits::default(),
            slots: slots as u32,
            lanes: HashMap::new(),
            topics: HashMap::new(),
            past: Past::default(),
            changes: 0,
        }
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.changes += 1;
    }

    /// A number that is another when what there is room for has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn set_slots(&mut self, slots: usize) {
        self.slots = u32::try_from(slots).unwrap_or(u32::MAX);
        self.changes += 1;
    }

    /// How many jobs for one destination are worked on together at most: while some are on their way,
    /// the next are taken.
    pub(super) fn together(&self) -> usize {
        (self.limits.per_destination as usize / GROUPS).clamp(1, TOGETHER_MAX)
    }

    /// What each of so many topics may have under way. One part is left over, so that the next
    /// topic to come need not wait for those that are at it.
    fn part(&self, topics: usize) -> u32 {
        (self.slots / (topics as u32 + 1)).max(1)
    }

    /// For how many jobs there is room now.
    pub(super) fn room(&self, now: Instant) -> Room {
        let at_it = self.topics.len();
        let part = self.part(at_it);
        let free = |lane: &Lane| lane.free(&self.limits, now);
        Room {
            each_destination: self.limits.per_destination,
            destinations: self.lanes.iter().map(|(to, lane)| (to.clone(), free(lane))).collect(),
            each_topic: self.part(at_it + 1),
            topics: self
                .topics
                .iter()
                .map(|(topic, busy)| (topic.clone(), part.saturating_sub(*busy)))
                .collect(),
        }
    }

    /// When a destination may be tried again, if one is closed.
    pub(super) fn next_probe(&self, now: Instant) -> Option<Instant> {
        let closed = self.lanes.values().filter_map(|lane| match lane.gate {
            Gate::Closed { until, .. } => Some(until),
            _ => None,
        });
        closed.filter(|until| *until > now).min()
    }

    /// A job is on its way.
    pub(super) fn begin(&mut self, topic: &Topic, destination: &Destination) {
        *self.topics.entry(topic.clone()).or_default() += 1;
        if self.lanes.len() >= REMEMBERED_MAX && !self.lanes.contains_key(destination) {
            self.lanes.retain(|_, lane| lane.busy > 0);
        }
        let lane = self.lanes.entry(destination.clone()).or_insert(Lane { busy: 0, gate: OPEN });
        lane.busy += 1;
        if let Gate::Closed { pause, .. } = lane.gate {
            lane.gate = Gate::Probed { pause };
        }
    }

    /// It has ended.
    pub(super) fn end(&mut self, topic: &Topic, to: &Destination, word: Word, now: Instant) {
        self.end_of(topic);
        let limits = self.limits;
        let Some(lane) = self.lanes.get_mut(to) else { return };
        let was_full = lane.free(&limits, now) == 0;
        lane.busy -= 1;
        let gate = lane.gate.after(word, &limits, now);
        let was_open = matches!(lane.gate, Gate::Open { .. });
        lane.gate = gate;
        if was_full || was_open != matches!(gate, Gate::Open { .. }) {
            self.changes += 1;
        }
        if *lane == (Lane { busy: 0, gate: OPEN }) {
            self.lanes.remove(to);
        }
    }

    fn end_of(&mut self, topic: &Topic) {
        let part = self.part(self.topics.len());
        if self.topics.values().any(|busy| *busy >= part) {
            self.changes += 1;
        }
        if let Some(busy) = self.topics.get_mut(topic) {
            *busy -= 1;
            if *busy == 0 {
                self.topics.remove(topic);
            }
        }
    }

    /// Lets jobs through to this destination, whatever was known of it.
    pub(super) fn reopen(&mut self, destination: &Destination) {
        if let Some(lane) = self.lanes.get_mut(destination) {
            lane.gate = OPEN;
            self.changes += 1;
        }
    }

    /// Where jobs are under way to, where none may go, and where some went lately; in no order,
    /// and perhaps twice.
    pub(super) fn destinations(&self) -> Vec<Destination> {
        self.lanes.keys().chain(self.past.destinations()).cloned().collect()
    }

    /// What is known of a destination at a moment, which is `wall` by the clock on the wall.
    pub(super) fn info(&self, of: Destination, now: Instant, wall: Time) -> DestinationInfo {
        let lane = self.lanes.get(&of).copied().unwrap_or(Lane { busy: 0, gate: OPEN });
        let ms = |duration: Duration| duration.as_millis() as u64;
        let state = match lane.gate {
            Gate::Open { .. } => DestinationState::Open,
            Gate::Probed { .. } => DestinationState::Probing,
            Gate::Closed { until, .. } => {
                let (left, over) = (until - now, now - until);
                let opens = wall.saturating_add_ms(ms(left)).saturating_sub_ms(ms(over));
                DestinationState::Closed { opens }
            }
        };
        let mut info = DestinationInfo {
            destination: of,
            state,
            under_way: lane.busy,
            deliveries: 0,
            failures: 0,
            latency: None,
            last_success: None,
            last_failure: None,
        };
        self.past.tell(&mut info);
        info
    }

    /// The destinations that are closed.
    pub(super) fn closed(&self) -> Vec<Destination> {
        let closed = |lane: &Lane| !matches!(lane.gate, Gate::Open { .. });
        self.lanes.iter().filter(|(_, lane)| closed(lane)).map(|(to, _)| to.clone()).collect()
    }
}

impl Lane {
    fn free(&self, limits: &Limits, now: Instant) -> u32 {
        match self.gate {
            Gate::Open { .. } => limits.per_destination.saturating_sub(self.busy),
            Gate::Closed { until, .. } if until <= now => 1,
            Gate::Closed { .. } | Gate::Probed { .. } => 0,
        }
    }
}

impl Gate {
    fn after(self, word: Word, limits: &Limits, now: Instant) -> Gate {
        let closed = |pause: Duration| Gate::Closed { until: now + pause, pause };
        match (word, self) {
            (Word::Up, _) => OPEN,
            (Word::Down, Gate::Open { failures }) if failures + 1 < limits.failures => {
                Gate::Open { failures: failures + 1 }
            }
            (Word::Down | Word::Nobody, Gate::Open { .. }) => closed(limits.pause),
            (Word::Down | Word::Nobody, Gate::Probed { pause }) => {
                closed((pause * 2).min(limits.pause_max))
            }
            // Those that were under way when it was closed tell nothing new.
            (Word::Down | Word::Nobody | Word::None, Gate::Closed { .. }) => self,
            (Word::None, Gate::Probed { pause }) => Gate::Closed { until: now, pause },
            (Word::None, Gate::Open { .. }) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        name.parse().unwrap()
    }

    fn destination(url: &str) -> Destination {
        Destination::of(&topic("any"), &url.parse().unwrap())
    }

    /// Lanes, and a clock that a test moves.
    struct Bench {
        lanes: Lanes,
        now: Instant,
    }

    impl Bench {
        fn new() -> Bench {
            Bench { lanes: Lanes::new(1000), now: tokio::time::Instant::now() }
        }

        fn begin(&mut self) {
            self.lanes.begin(&topic("t"), &destination("http://a"));
        }

        fn attempt(&mut self, word: Word) {
            self.begin();
            self.end(word);
        }

        fn end(&mut self, word: Word) {
            self.lanes.end(&topic("t"), &destination("http://a"), word, self.now);
        }

        fn room(&self) -> u32 {
            let room = self.lanes.room(self.now);
            let named = room.destinations.get(&destination("http://a"));
            named.copied().unwrap_or(room.each_destination)
        }

        fn closed_for(&self) -> Option<Duration> {
            self.lanes.next_probe(self.now).map(|at| at - self.now)
        }
    }

    #[test]
    fn a_destination_has_so_many_slots() {
        let mut bench = Bench::new();
        for left in (0..32).rev() {
            bench.begin();
            assert_eq!(bench.room(), left);
        }
        let full = bench.lanes.changes();
        bench.end(Word::Up);
        assert_eq!(bench.room(), 1);
        assert_ne!(bench.lanes.changes(), full, "whoever waits must know");
    }

    #[test]
    fn failures_in_a_row_close_it_and_a_success_between_starts_anew() {
        let mut bench = Bench::new();
        for _ in 0..7 {
            bench.attempt(Word::Down);
        }
        assert_eq!(bench.room(), 32);
        bench.attempt(Word::Up);
        for _ in 0..7 {
            bench.attempt(Word::Down);
        }
        assert_eq!(bench.closed_for(), None);
        bench.attempt(Word::Down);
        assert_eq!((bench.room(), bench.closed_for()), (0, Some(SECOND)));
    }

    #[test]
    fn a_closed_destination_is_probed_by_one_job_at_ever_longer_intervals() {
        let mut bench = Bench::new();
        (0..8).for_each(|_| bench.attempt(Word::Down));
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = Duration::from_secs(seconds);
            assert_eq!(bench.closed_for(), Some(pause));
            bench.now += pause;
            assert_eq!(bench.room(), 1);
            bench.begin();
            assert_eq!(bench.room(), 0, "the probe is one job");
            bench.end(Word::Down);
        }
        bench.now += MINUTE;
        bench.attempt(Word::Up);
        assert_eq!((bench.room(), bench.lanes.closed()), (32, vec![]));
    }

    #[test]
    fn those_under_way_when_it_was_closed_make_it_no_worse() {
        let mut bench = Bench::new();
        (0..20).for_each(|_| bench.begin());
        (0..20).for_each(|_| bench.end(Word::Down));
        assert_eq!(bench.closed_for(), Some(SECOND));
    }

    #[test]
    fn a_probe_that_is_cut_off_decides_nothing() {
        let mut bench = Bench::new();
        (0..8).for_each(|_| bench.attempt(Word::Down));
        bench.now += SECOND;
        bench.attempt(Word::None);
        assert_eq!(bench.room(), 1);
    }

    #[test]
    fn nobody_there_closes_it_at_once_until_it_is_reopened() {
        let mut bench = Bench::new();
        bench.attempt(Word::Nobody);
        assert_eq!((bench.room(), bench.closed_for()), (0, Some(SECOND)));
        bench.lanes.reopen(&destination("http://a"));
        assert_eq!(bench.room(), 32);
    }

    #[test]
    fn a_destination_says_whether_it_is_open_and_when_it_is_probed() {
        let mut bench = Bench::new();
        let wall = Time::from_ms(1_000_000).unwrap();
        let info = |bench: &Bench| bench.lanes.info(destination("http://a"), bench.now, wall);
        assert_eq!((info(&bench).state, info(&bench).under_way), (DestinationState::Open, 0));
        bench.begin();
        assert_eq!(info(&bench).under_way, 1);
        assert_eq!(bench.lanes.destinations(), [destination("http://a")]);
        bench.end(Word::Nobody);
        let closed = |ms| DestinationState::Closed { opens: Time::from_ms(ms).unwrap() };
        assert_eq!(info(&bench).state, closed(1_001_000));
        bench.now += 3 * SECOND;
        assert_eq!(info(&bench).state, closed(998_000), "nobody came to probe it");
        bench.begin();
        assert_eq!(info(&bench).state, DestinationState::Probing);
    }

    #[test]
    fn topics_share_the_slots_and_leave_a_part_for_the_next() {
        let mut lanes = Lanes::new(60);
        let room = |lanes: &Lanes, name: &str| {
            let room = lanes.room(tokio::time::Instant::now());
            room.topics.get(&topic(name)).copied().unwrap_or(room.each_topic)
        };
        assert_eq!(room(&lanes, "a"), 30);
        for n in 0..30 {
            lanes.begin(&topic("a"), &destination(&format!("http://{n}")));
        }
        assert_eq!((room(&lanes, "a"), room(&lanes, "b")), (0, 20));
        lanes.begin(&topic("b"), &destination("http://b"));
        assert_eq!((room(&lanes, "a"), room(&lanes, "b"), room(&lanes, "c")), (0, 19, 15));
        let before = lanes.changes();
        lanes.end(&topic("b"), &destination("http://b"), Word::Up, tokio::time::Instant::now());
        assert_ne!(lanes.changes(), before, "whoever waits must know");
        assert_eq!((room(&lanes, "a"), room(&lanes, "b")), (0, 20));
    }

    #[test]
    fn what_is_as_usual_is_not_remembered() {
        let mut bench = Bench::new();
        bench.attempt(Word::Up);
        assert!(bench.lanes.lanes.is_empty() && bench.lanes.topics.is_empty());
    }
}
