//! Those who wait on this instance, in the order they came.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::oneshot;

use super::keys::Bucket;
use crate::error::Result;
use crate::queue::{Ask, Delivery, Lane, Source};
use crate::time::{Tick, duration_ms};
use crate::topic::Topic;

/// Where something has come that those who wait may be given.
#[derive(Default)]
pub(super) struct News {
    topics: BTreeSet<(Lane, Topic)>,
    /// For those who ask for any topic.
    buckets: BTreeSet<(Lane, Bucket)>,
}

/// The calls that wait.
#[derive(Default)]
pub(super) struct Waiters {
    came: u64,
    calls: BTreeMap<u64, Call>,
    /// How many of them would pop of any topic.
    any: u64,
    /// How often each topic is named.
    named: BTreeMap<Topic, u64>,
    /// When the rate of a topic that someone waits for lets something out again.
    pub(super) opens: Option<Tick>,
    /// When somebody looks next whose wait is over.
    pub(super) watched: Option<Tick>,
}

pub(super) struct Call {
    pub(super) ask: Ask,
    pub(super) end: Tick,
    pub(super) answer: oneshot::Sender<Result<Vec<Delivery>>>,
}

impl News {
    /// Something of a topic, for those who pop or those who push.
    pub(super) fn of_topic(&mut self, topic: Topic, bucket: Bucket, lane: Lane) {
        self.topics.insert((lane, topic));
        self.buckets.insert((lane, bucket));
    }

    /// Something of no topic that anybody named.
    pub(super) fn of_bucket(&mut self, bucket: Bucket, lane: Lane) {
        self.buckets.insert((lane, bucket));
    }

    pub(super) fn buckets(&self, lane: Lane) -> impl Iterator<Item = Bucket> {
        self.buckets.iter().filter(move |(of, _)| *of == lane).map(|(_, bucket)| *bucket)
    }

    fn are_for(&self, ask: &Ask) -> bool {
        match &ask.from {
            Source::Any => self.buckets(ask.lane).next().is_some(),
            Source::These(named) => {
                let mut of_lane = self.topics.iter().filter(|(lane, _)| *lane == ask.lane);
                of_lane.any(|(_, topic)| named.contains(topic))
            }
        }
    }
}

impl Waiters {
    /// Puts a call at the end of the line.
    pub(super) fn join(
        &mut self,
        ask: Ask,
        now: Tick,
        answer: oneshot::Sender<Result<Vec<Delivery>>>,
    ) -> (u64, Tick) {
        self.came += 1;
        self.any += u64::from(pops_of_any(&ask));
        for topic in named(&ask) {
            *self.named.entry(topic.clone()).or_default() += 1;
        }
        let end = now.plus_ms(duration_ms(ask.wait));
        self.calls.insert(self.came, Call { ask, end, answer });
        (self.came, end)
    }

    /// Whether nobody would look by then whose wait is over; from here on somebody does.
    pub(super) fn is_sooner(&mut self, end: Tick) -> bool {
        let is_sooner = self.watched.is_none_or(|watched| end < watched);
        if is_sooner {
            self.watched = Some(end);
        }
        is_sooner
    }

    pub(super) fn leave(&mut self, came: u64) -> Option<Call> {
        let call = self.calls.remove(&came)?;
        self.any -= u64::from(pops_of_any(&call.ask));
        for topic in named(&call.ask) {
            if let Some(count) = self.named.get_mut(topic) {
                *count -= 1;
                if *count == 0 {
                    self.named.remove(topic);
                }
            }
        }
        Some(call)
    }

    /// Everyone in line for whom there are news; everyone, if none are given.
    pub(super) fn line(&self, news: Option<&News>) -> Vec<(u64, Ask)> {
        let wants = |call: &Call| news.is_none_or(|news| news.are_for(&call.ask));
        let line = self.calls.iter().filter(|(_, call)| wants(call));
        line.map(|(came, call)| (*came, call.ask.clone())).collect()
    }

    /// Whether somebody would pop of any topic.
    pub(super) fn pop_of_any(&self) -> bool {
        self.any > 0
    }

    /// Those whose wait is over.
    pub(super) fn over(&self, now: Tick) -> Vec<u64> {
        let over = self.calls.iter().filter(|(_, call)| call.end <= now);
        over.map(|(came, _)| *came).collect()
    }

    pub(super) fn next_end(&self) -> Option<Tick> {
        self.calls.values().map(|call| call.end).min()
    }

    /// How many wait to pop; those who push wait all the time.
    pub(super) fn popping(&self) -> u64 {
        self.calls.values().filter(|call| call.ask.lane == Lane::Pull).count() as u64
    }

    /// How often a topic is named.
    pub(super) fn naming(&self, topic: &Topic) -> u64 {
        self.named.get(topic).copied().unwrap_or_default()
    }

    /// Every topic that is named.
    pub(super) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.named.keys()
    }
}

fn pops_of_any(ask: &Ask) -> bool {
    ask.from == Source::Any && ask.lane == Lane::Pull
}

/// The topics that an ask names, each once.
pub(super) fn named(ask: &Ask) -> BTreeSet<&Topic> {
    match &ask.from {
        Source::These(topics) => topics.iter().collect(),
        Source::Any => BTreeSet::new(),
    }
}
