//! For how many jobs a push has room, by where they go.

use std::collections::HashMap;

use crate::job::Destination;
use crate::topic::Topic;

/// For how many jobs there is room: by their destination, and by their topic.
///
/// A job that finds no room stays where it is, and holds up none behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// For each destination that is not named.
    pub each_destination: u32,
    /// For those that are.
    pub destinations: HashMap<Destination, u32>,
    /// For each topic that is not named.
    pub each_topic: u32,
    /// For those that are.
    pub topics: HashMap<Topic, u32>,
}

/// What of a room has been taken by the jobs handed out so far.
#[derive(Default)]
pub(crate) struct Taken {
    destinations: HashMap<Destination, u32>,
    topics: HashMap<Topic, u32>,
}

impl Room {
    /// Whether a job of this topic still fits.
    pub(crate) fn has_topic(&self, topic: &Topic, taken: &Taken) -> bool {
        let room = self.topics.get(topic).copied().unwrap_or(self.each_topic);
        room > taken.topics.get(topic).copied().unwrap_or(0)
    }

    /// Whether a job for this destination still fits.
    pub(crate) fn has_destination(&self, destination: &Destination, taken: &Taken) -> bool {
        let room = self.destinations.get(destination).copied().unwrap_or(self.each_destination);
        room > taken.destinations.get(destination).copied().unwrap_or(0)
    }
}

impl Taken {
    /// A job was handed out.
    pub(crate) fn take(&mut self, topic: &Topic, destination: Destination) {
        *self.topics.entry(topic.clone()).or_default() += 1;
        *self.destinations.entry(destination).or_default() += 1;
    }
}
