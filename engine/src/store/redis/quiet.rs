//! Where there was nothing when this instance last looked, and of which it has heard nothing since.
//!
//! Whoever may wait need not look there: if something comes, those in line are told of it.

use std::collections::{HashMap, HashSet};

use super::keys::Bucket;
use crate::queue::Lane;
use crate::topic::Topic;

/// What is looked at, and heard of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// What of a topic lies in a bucket.
    Topic(Bucket, Topic),
    /// All topics of it.
    Bucket(Bucket),
}

/// How much was heard when a look began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since(u64);

#[derive(Default)]
pub(super) struct Quiet {
    heard: u64,
    /// How much was heard when all was last forgotten.
    forgotten: u64,
    /// When each was last heard of.
    last: HashMap<(Place, Lane), u64>,
    nothing: HashSet<(Place, Lane)>,
}

impl Quiet {
    /// To be asked before a look.
    pub(super) fn since(&self) -> Since {
        Since(self.heard)
    }

    /// Something came there.
    pub(super) fn heard_of(&mut self, topic: &Topic, bucket: Bucket, lane: Lane) {
        self.heard += 1;
        for place in [Place::Topic(bucket, topic.clone()), Place::Bucket(bucket)] {
            let of_lane = (place, lane);
            self.nothing.remove(&of_lane);
            self.last.insert(of_lane, self.heard);
        }
    }

    /// Messages may have been lost: everything is to be looked at anew.
    pub(super) fn forget(&mut self) {
        self.heard += 1;
        self.forgotten = self.heard;
        self.last.clear();
        self.nothing.clear();
    }

    /// A look that began then found nothing there.
    pub(super) fn found_nothing(&mut self, place: Place, lane: Lane, since: Since) {
        let of_lane = (place, lane);
        let last = self.last.get(&of_lane).copied().unwrap_or(self.forgotten);
        if last <= since.0 {
            self.nothing.insert(of_lane);
        }
    }

    pub(super) fn is_quiet(&self, place: Place, lane: Lane) -> bool {
        self.nothing.contains(&(place, lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        name.parse().expect("a topic")
    }

    #[test]
    fn what_is_heard_of_during_a_look_is_not_quiet_after_it() {
        let mut quiet = Quiet::default();
        let place = Place::Topic(Bucket(1), topic("mail"));
        let before = quiet.since();
        quiet.heard_of(&topic("mail"), Bucket(1), Lane::Pull);
        quiet.found_nothing(place.clone(), Lane::Pull, before);
        assert!(!quiet.is_quiet(place.clone(), Lane::Pull));

        let after = quiet.since();
        quiet.heard_of(&topic("other"), Bucket(1), Lane::Pull);
        quiet.found_nothing(place.clone(), Lane::Pull, after);
        assert!(quiet.is_quiet(place.clone(), Lane::Pull));
        assert!(!quiet.is_quiet(place.clone(), Lane::Push));
        quiet.heard_of(&topic("mail"), Bucket(1), Lane::Push);
        assert!(quiet.is_quiet(place.clone(), Lane::Pull), "that is for others");
        quiet.heard_of(&topic("mail"), Bucket(1), Lane::Pull);
        assert!(!quiet.is_quiet(place, Lane::Pull));
    }

    #[test]
    fn a_look_that_began_before_all_was_forgotten_says_nothing() {
        let mut quiet = Quiet::default();
        let place = Place::Bucket(Bucket(7));
        let before = quiet.since();
        quiet.forget();
        quiet.found_nothing(place.clone(), Lane::Pull, before);
        assert!(!quiet.is_quiet(place.clone(), Lane::Pull));
        let after = quiet.since();
        quiet.found_nothing(place.clone(), Lane::Pull, after);
        assert!(quiet.is_quiet(place.clone(), Lane::Pull));
        quiet.forget();
        assert!(!quiet.is_quiet(place, Lane::Pull));
    }
}
