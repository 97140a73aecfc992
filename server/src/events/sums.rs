//! What happened how often, by hour, topic and kind.

use std::collections::BTreeMap;

use super::event::{Event, Kind, Line, Of};

/// So many topics of an hour are told apart; those beyond are one, which has no name.
const TOPICS_MAX: usize = 10_000;

/// The sums of one hour, by topic.
pub(crate) type Hour = BTreeMap<String, Kinds>;
/// The sums of one topic, by kind.
pub(crate) type Kinds = BTreeMap<Kind, Tally>;

/// How often, and how it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    /// With an error.
    pub(crate) errors: u64,
    /// With a latency, and the sum of these.
    pub(crate) timed: u64,
    pub(crate) latency_ms: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.count = self.count.saturating_add(other.count);
        self.errors = self.errors.saturating_add(other.errors);
        self.timed = self.timed.saturating_add(other.timed);
        self.latency_ms = self.latency_ms.saturating_add(other.latency_ms);
    }

    fn one(count: Option<u64>, has_error: bool, latency_ms: Option<u64>) -> Tally {
        Tally {
            count: count.unwrap_or(1),
            errors: has_error.into(),
            timed: latency_ms.is_some().into(),
            latency_ms: latency_ms.unwrap_or(0),
        }
    }

    pub(super) fn parts(self) -> [(&'static str, u64); 4] {
        [("n", self.count), ("e", self.errors), ("t", self.timed), ("m", self.latency_ms)]
    }

    fn part_mut(&mut self, name: &str) -> Option<&mut u64> {
        match name {
            "n" => Some(&mut self.count),
            "e" => Some(&mut self.errors),
            "t" => Some(&mut self.timed),
            "m" => Some(&mut self.latency_ms),
            _ => None,
        }
    }
}

/// Counts an event.
pub(super) fn count_event(hour: &mut Hour, event: &Event) {
    let topic = match &event.of {
        Of::Job(topic, _) | Of::Topic(topic) => topic.as_str(),
        Of::Number(_) | Of::Nothing => "",
    };
    let tally =
        Tally::one(gap_count(event.kind, event.count), event.error.is_some(), event.latency_ms);
    add(hour, topic, event.kind, tally);
}

/// Counts an event that was read back.
pub(super) fn count_line(hour: &mut Hour, line: &Line<'_>) {
    let Some(kind) = Kind::of(&line.kind) else { return };
    let tally = Tally::one(gap_count(kind, line.count), line.error.is_some(), line.latency_ms);
    add(hour, line.topic.as_deref().unwrap_or_default(), kind, tally);
}

/// A gap counts for all that is missing; emptying a topic is one thing that happened.
fn gap_count(kind: Kind, count: Option<u64>) -> Option<u64> {
    count.filter(|_| kind == Kind::Gap)
}

/// Adds to a sum.
pub(super) fn add(hour: &mut Hour, topic: &str, kind: Kind, tally: Tally) {
    if let Some(kinds) = hour.get_mut(topic) {
        return kinds.entry(kind).or_default().add(tally);
    }
    let topic = if hour.len() < TOPICS_MAX { topic } else { "" };
    hour.entry(topic.to_owned()).or_default().entry(kind).or_default().add(tally);
}

/// Adds a part of a sum, as it is kept: a kind, and which part.
pub(super) fn add_part(hour: &mut Hour, topic: &str, what: &str, by: u64) {
    let Some((kind, part)) = what.split_once(' ') else { return };
    let Some(kind) = Kind::of(kind) else { return };
    let mut tally = Tally::default();
    if let Some(sum) = tally.part_mut(part) {
        *sum = by;
        // Whoever wrote it has seen to how many topics there are.
        hour.entry(topic.to_owned()).or_default().entry(kind).or_default().add(tally);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_beyond_the_limit_are_one_without_a_name() {
        let mut hour = Hour::new();
        let one = Tally { count: 1, ..Tally::default() };
        for topic in 0..TOPICS_MAX + 2 {
            add(&mut hour, &topic.to_string(), Kind::Added, one);
        }
        add(&mut hour, "0", Kind::Added, one);
        assert_eq!(hour.len(), TOPICS_MAX + 1);
        assert_eq!(hour[""][&Kind::Added].count, 2);
        assert_eq!(hour["0"][&Kind::Added].count, 2);
    }
}
