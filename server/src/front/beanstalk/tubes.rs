//! What is known of tubes besides their jobs: who uses and watches them, and what was asked of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard};

use linger::topic::Topic;

/// The tubes that somebody uses or watches, and some that were of late.
#[derive(Debug, Default)]
pub(crate) struct Tubes {
    known: Mutex<HashMap<Topic, Tube>>,
}

/// One tube.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tube {
    /// Connections that put into it.
    pub(crate) using: u32,
    /// Connections that reserve from it.
    pub(crate) watching: u32,
    /// Jobs that were put into it.
    pub(crate) puts: u64,
    /// Jobs of it that their holders deleted.
    pub(crate) deletes: u64,
    /// How often it was paused.
    pub(crate) pauses: u64,
    /// For how long it was paused last.
    pub(crate) pause_s: u32,
}

impl Tube {
    fn is_referenced(self) -> bool {
        self.using > 0 || self.watching > 0
    }
}

/// So many are remembered though nobody uses or watches them.
const REMEMBERED_MAX: usize = 10_000;

impl Tubes {
    pub(crate) fn used(&self, tube: &Topic) {
        self.change(tube, |tube| tube.using += 1);
    }

    pub(crate) fn unused(&self, tube: &Topic) {
        self.leave(tube, |tube| tube.using -= 1);
    }

    pub(crate) fn watched(&self, tube: &Topic) {
        self.change(tube, |tube| tube.watching += 1);
    }

    pub(crate) fn unwatched(&self, tube: &Topic) {
        self.leave(tube, |tube| tube.watching -= 1);
    }

    pub(crate) fn put(&self, tube: &Topic, jobs: u64) {
        self.change(tube, |tube| tube.puts += jobs);
    }

    pub(crate) fn deleted<'a>(&self, tubes: impl Iterator<Item = &'a Topic>) {
        let mut known = self.known();
        for tube in tubes {
            // Someone who holds a job of it watches it, as a rule.
            if let Some(tube) = known.get_mut(tube) {
                tube.deletes += 1;
            }
        }
    }

    pub(crate) fn paused(&self, tube: &Topic, pause_s: u32) {
        self.change(tube, |tube| {
            tube.pauses += 1;
            tube.pause_s = pause_s;
        });
    }

    /// What is known of a tube.
    pub(crate) fn get(&self, tube: &Topic) -> Tube {
        self.known().get(tube).copied().unwrap_or_default()
    }

    /// Whether a tube is there for the reason that someone uses or watches it.
    pub(crate) fn is_referenced(&self, tube: &Topic) -> bool {
        self.get(tube).is_referenced()
    }

    /// Those that are there for this reason.
    pub(crate) fn referenced(&self) -> Vec<Topic> {
        let known = self.known();
        known
            .iter()
            .filter(|(_, tube)| tube.is_referenced())
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn change(&self, tube: &Topic, change: impl FnOnce(&mut Tube)) {
        change(self.known().entry(tube.clone()).or_default());
    }

    fn leave(&self, tube: &Topic, leave: impl FnOnce(&mut Tube)) {
        let mut known = self.known();
        let crowded = known.len() > REMEMBERED_MAX;
        if let Entry::Occupied(mut tube) = known.entry(tube.clone()) {
            leave(tube.get_mut());
            let unheard = Tube { using: 0, watching: 0, ..*tube.get() } == Tube::default();
            if !tube.get().is_referenced() && (crowded || unheard) {
                tube.remove();
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Topic, Tube>> {
        self.known.lock().expect("nobody panics holding it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tube_is_there_while_it_is_used_or_watched() {
        let (tubes, tube) = (Tubes::default(), "t".parse::<Topic>().unwrap());
        assert!(!tubes.is_referenced(&tube));
        tubes.used(&tube);
        tubes.watched(&tube);
        tubes.unused(&tube);
        assert!(tubes.is_referenced(&tube));
        assert_eq!(tubes.referenced(), std::slice::from_ref(&tube));
        tubes.unwatched(&tube);
        assert!(!tubes.is_referenced(&tube) && tubes.known().is_empty());
    }

    #[test]
    fn what_was_asked_of_a_tube_is_remembered_within_a_bound() {
        let tubes = Tubes::default();
        for n in 0..REMEMBERED_MAX + 10 {
            let tube: Topic = n.to_string().parse().unwrap();
            tubes.watched(&tube);
            tubes.deleted([&tube].into_iter());
            tubes.unwatched(&tube);
        }
        assert_eq!(tubes.known().len(), REMEMBERED_MAX);
        assert_eq!(tubes.get(&"5".parse().unwrap()).deletes, 1);
    }
}
