//! The orders in which a topic's jobs stand.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::job::PRIORITY_DEFAULT;
use crate::machine::{Life, Stage, State};
use crate::queue::Lane;
use crate::record::Record;
use crate::time::{Now, Tick, Time};
use crate::topic::{Bucket, Counts, Pause, Settings};

/// A job's place in an order: what it is sorted by, its number included.
pub(super) type Place = [u64; 3];

/// Whether a job is to stand in its orders.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    Yes,
    No,
}

/// A topic and its jobs' numbers, in every order that something asks for.
#[derive(Default)]
pub(super) struct Orders {
    pub(super) settings: Settings,
    pub(super) pause: Pause,
    pub(super) bucket: Bucket,
    /// Jobs ever added.
    pub(super) added: u64,
    /// What the bodies of its jobs take together.
    pub(super) bytes: u64,
    /// Waiting calls that name this topic, by lane.
    pub(super) waiters: [BTreeSet<u64>; 2],
    /// The heads by which this topic stands among those with ready jobs, by lane.
    pub(super) listed: [Option<Place>; 2],
    stages: [BTreeSet<Place>; Stage::ALL.len()],
    all: BTreeSet<Place>,
    ready_with_target: BTreeSet<Place>,
    ready_without: BTreeSet<Place>,
    waiting: Counted,
    errors: BTreeMap<Arc<str>, u64>,
    urgent: u64,
}

/// The number of the job at a place. It comes last of what is not padding.
pub(super) fn number_at(place: Place, stage: Option<Stage>) -> u64 {
    if stage == Some(Stage::Ready) { place[2] } else { place[1] }
}

/// Where a job stands among those of its stage.
pub(super) fn place(life: &Life, number: u64) -> Place {
    match life.state {
        State::Waiting { .. } => [life.due.as_ms(), number, 0],
        State::Ready => [life.priority.into(), life.due.as_ms(), number],
        State::Reserved(hold) => [hold.until.as_us(), number, 0],
        State::Dead { at } | State::Finished { at, .. } => [at.as_ms(), number, 0],
    }
}

impl Orders {
    /// Puts a job into all the orders it belongs to, or takes it out of the same.
    pub(super) fn stand(&mut self, job: &Record, stands: Stands) {
        let (life, number) = (&job.life, job.number);
        let place = place(life, number);
        let bytes = job.body.as_bytes().len() as u64;
        match stands {
            Stands::Yes => self.bytes += bytes,
            Stands::No => self.bytes -= bytes,
        }
        set(&mut self.stages[life.stage() as usize], place, stands);
        set(&mut self.all, [life.due.as_ms(), number, 0], stands);
        match life.state {
            State::Waiting { held: false, .. } => self.waiting.stand((life.due, number), stands),
            State::Ready => {
                let lane = match job.spec.target {
                    Some(_) => &mut self.ready_with_target,
                    None => &mut self.ready_without,
                };
                set(lane, place, stands);
                if life.priority < PRIORITY_DEFAULT {
                    add(&mut self.urgent, stands);
                }
            }
            State::Dead { .. } => self.stand_error(job, stands),
            _ => {}
        }
    }

    fn stand_error(&mut self, job: &Record, stands: Stands) {
        let Some(error) = job.notes.last_error() else { return };
        let count = self.errors.entry(error.clone()).or_default();
        add(count, stands);
        if *count == 0 {
            self.errors.remove(error);
        }
    }

    /// The first ready job of a lane.
    pub(super) fn head(&self, lane: Lane) -> Option<Place> {
        let own = self.ready_with_target.first().copied();
        let plain = self.ready_without.first().copied();
        match (lane, &self.settings.target) {
            (Lane::Pull, None) => plain,
            (Lane::Pull, Some(_)) => None,
            (Lane::Push, None) => own,
            (Lane::Push, Some(_)) => own.into_iter().chain(plain).min(),
        }
    }

    /// The places of one stage, or of all by due time.
    pub(super) fn order(&self, stage: Option<Stage>) -> &BTreeSet<Place> {
        stage.map_or(&self.all, |stage| &self.stages[stage as usize])
    }

    /// The numbers of all jobs.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.all.iter().map(|place| number_at(*place, None)).collect()
    }

    /// How many waiting jobs are due in this span.
    pub(super) fn due_within(&self, span: Range<Time>) -> u64 {
        self.waiting.count(span)
    }

    /// The last errors of the dead jobs, and how many have each.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.errors.iter().map(|(error, count)| (error, *count))
    }

    /// How many jobs are in each state.
    pub(super) fn counts(&self) -> Counts {
        let [delayed, retry, held, ready, reserved, dead, finished] =
            Stage::ALL.map(|stage| self.stages[stage as usize].len() as u64);
        Counts { delayed, retry, held, ready, reserved, dead, finished, urgent: self.urgent }
    }

    /// Whether a hand-out is allowed now: not paused, and within both limits.
    pub(super) fn may_hand_out(&self, now: Now) -> bool {
        let reserved = self.stages[Stage::Reserved as usize].len() as u64;
        !self.pause.holds(now.tick)
            && self.settings.concurrency.is_none_or(|limit| reserved < u64::from(limit.get()))
            && self.next_token().is_none_or(|at| at <= now.tick)
    }

    /// When the rate allows the next hand-out, if there is a rate.
    pub(super) fn next_token(&self) -> Option<Tick> {
        self.settings.rate.map(|rate| self.bucket.next_at(rate))
    }

    /// The numbers of the dead jobs.
    pub(super) fn dead(&self) -> Vec<u64> {
        let stage = Some(Stage::Dead);
        self.order(stage).iter().map(|place| number_at(*place, stage)).collect()
    }

    /// Whether nothing names this topic any more.
    pub(super) fn is_nothing(&self) -> bool {
        self.all.is_empty()
            && self.pause == Pause::No
            && self.waiters.iter().all(BTreeSet::is_empty)
            && self.settings == Settings::default()
    }
}

/// Jobs by due time, with counts by the minute so that long spans are counted quickly.
#[derive(Default)]
pub(super) struct Counted {
    exact: BTreeSet<(Time, u64)>,
    minutes: BTreeMap<u64, u64>,
}

const MINUTE_MS: u64 = 60_000;

impl Counted {
    pub(super) fn stand(&mut self, entry: (Time, u64), stands: Stands) {
        set(&mut self.exact, entry, stands);
        let minute = entry.0.as_ms() / MINUTE_MS;
        let count = self.minutes.entry(minute).or_default();
        add(count, stands);
        if *count == 0 {
            self.minutes.remove(&minute);
        }
    }

    pub(super) fn first(&self) -> Option<(Time, u64)> {
        self.exact.first().copied()
    }

    pub(super) fn count(&self, span: Range<Time>) -> u64 {
        let first_whole = span.start.as_ms().div_ceil(MINUTE_MS);
        let end_whole = span.end.as_ms() / MINUTE_MS;
        if first_whole >= end_whole {
            return self.count_exactly(span.start.as_ms()..span.end.as_ms());
        }
        self.count_exactly(span.start.as_ms()..first_whole * MINUTE_MS)
            + self.minutes.range(first_whole..end_whole).map(|(_, count)| count).sum::<u64>()
            + self.count_exactly(end_whole * MINUTE_MS..span.end.as_ms())
    }

    fn count_exactly(&self, span_ms: Range<u64>) -> u64 {
        let at = |ms| (Time::from_ms(ms).unwrap_or(Time::MAX), 0);
        self.exact.range(at(span_ms.start)..at(span_ms.end)).count() as u64
    }
}

/// Both directions in one place, so that what is put in is what is taken out.
pub(super) fn set<T: Ord>(order: &mut BTreeSet<T>, entry: T, stands: Stands) {
    let changed = match stands {
        Stands::Yes => order.insert(entry),
        Stands::No => order.remove(&entry),
    };
    debug_assert!(changed, "a job stands once in each of its orders");
}

fn add(count: &mut u64, stands: Stands) {
    match stands {
        Stands::Yes => *count += 1,
        Stands::No => *count -= 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_counted_exactly_whatever_their_edges() {
        let mut counted = Counted::default();
        let times: Vec<u64> = (0..500).map(|n| n * 1237 % 400_000).collect();
        for (number, ms) in times.iter().enumerate() {
            counted.stand((Time::from_ms(*ms).unwrap(), number as u64), Stands::Yes);
        }
        let edges = [0, 1, 59_999, 60_000, 60_001, 119_999, 120_000, 180_500, 240_000, 400_000];
        for from in edges {
            for to in edges.into_iter().filter(|to| *to >= from) {
                let expected = times.iter().filter(|ms| (from..to).contains(*ms)).count() as u64;
                let span = Time::from_ms(from).unwrap()..Time::from_ms(to).unwrap();
                assert_eq!(counted.count(span), expected, "{from}..{to}");
            }
        }
    }
}
