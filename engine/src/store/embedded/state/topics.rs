//! Topics: how they come, change and go.

use std::sync::Arc;

use super::State;
use super::orders::Orders;
use crate::error::Result;
use crate::queue::{TopicChange, TopicInfo, Topics};
use crate::record::no_topic;
use crate::stats::Stats;
use crate::store::embedded::batch::Tag;
use crate::store::embedded::call::CONFIGURE_BYTES;
use crate::store::embedded::codec::{StoredPause, StoredTopic};
use crate::store::embedded::meter::Measured;
use crate::store::embedded::payload::{NamedTopic, encode_emptied};
use crate::time::{Now, duration_ms};
use crate::topic::{Counts, Pause, Settings, Topic};

impl State {
    pub(crate) fn configure(
        &mut self,
        topic: &Topic,
        change: TopicChange,
        now: Now,
    ) -> Result<u64> {
        if !change.makes_topic() && !self.names.contains_key(topic) {
            return Err(no_topic(topic));
        }
        let at = self.topic_for(topic);
        // Emptied and set are one step: their records lie in one batch.
        self.log.begin_step(CONFIGURE_BYTES);
        let gone = match change {
            TopicChange::Set(settings) => self.set(at, *settings, now),
            TopicChange::Pause(length) => {
                let pause = length.map_or(Pause::Indefinitely, |length| {
                    Pause::Until(now.tick.plus_ms(duration_ms(length)))
                });
                self.pause(at, pause)
            }
            TopicChange::Resume => self.pause(at, Pause::No),
            TopicChange::Empty => self.empty(at),
            TopicChange::Forget => {
                let gone = self.empty(at);
                self.pause(at, Pause::No);
                self.set(at, Settings::default(), now);
                gone
            }
        };
        self.log_topic(at, now);
        self.look_again(at);
        Ok(gone)
    }

    pub(super) fn pause(&mut self, topic: u32, pause: Pause) -> u64 {
        let before = std::mem::replace(&mut self.orders(topic).pause, pause);
        if let Pause::Until(end) = before {
            self.opens.remove(&(end, topic));
        }
        if let Pause::Until(end) = pause {
            self.opens.insert((end, topic));
        }
        0
    }

    pub(super) fn set(&mut self, topic: u32, settings: Settings, now: Now) -> u64 {
        // How long dead jobs are kept is part of where they stand.
        let slots = self.orders(topic).dead();
        for slot in &slots {
            self.stand_down(*slot);
        }
        let orders = self.orders(topic);
        if let Some(rate) = settings.rate {
            orders.bucket.refit(rate, now.tick);
        }
        orders.settings = Arc::new(settings);
        for slot in &slots {
            self.stand_up(*slot, now.tick);
        }
        0
    }

    fn empty(&mut self, topic: u32) -> u64 {
        let mut payload = Vec::new();
        let name = self.orders(topic).name.clone();
        encode_emptied(&name, &mut payload);
        self.log.put(Tag::Emptied, self.next_number - 1, &payload);
        #[cfg(any(test, feature = "testkit"))]
        self.trace.step(self.log.last_batch(), || crate::store::embedded::trace::What::Emptied {
            topic: name,
            through: self.next_number - 1,
        });
        let count = self.empty_now(topic);
        self.stats.deleted += count;
        count
    }

    fn log_topic(&mut self, topic: u32, now: Now) {
        let mut payload = Vec::new();
        stored_topic(self.orders(topic), now).encode(&mut payload);
        self.log.put(Tag::Topic, 0, &payload);
        #[cfg(any(test, feature = "testkit"))]
        {
            let batch = self.log.last_batch();
            let orders = self.topics[topic as usize].as_ref().expect("the topic is there");
            self.trace.step(batch, || crate::store::embedded::trace::What::Topic {
                name: orders.name.clone(),
                added: orders.added,
                settings: orders.settings.clone(),
                pause: orders.pause,
            });
        }
    }

    /// The topic of this name, made if there is none.
    pub(super) fn topic_for(&mut self, name: &Topic) -> u32 {
        if let Some(topic) = self.names.get(name) {
            return *topic;
        }
        let topic = self.free_topics.pop().unwrap_or(self.topics.len() as u32);
        let orders = Some(Orders::new(name.clone()));
        match self.topics.get_mut(topic as usize) {
            Some(free) => *free = orders,
            None => self.topics.push(orders),
        }
        self.names.insert(name.clone(), topic);
        self.sorted.insert(name.clone(), topic);
        topic
    }

    /// Drops a topic that nothing names any more. Its jobs may still have to be freed.
    pub(super) fn drop_if_nothing(&mut self, topic: u32) {
        let Some(orders) = &mut self.topics[topic as usize] else { return };
        if !orders.is_nothing() {
            return;
        }
        if orders.named {
            orders.named = false;
            let name = orders.name.clone();
            self.names.remove(&name);
            self.sorted.remove(&name);
        }
        if self.orders(topic).unfreed == 0 {
            self.topics[topic as usize] = None;
            self.free_topics.push(topic);
        }
    }

    /// Ends pauses, and looks at topics whose rate has a token again.
    pub(super) fn open(&mut self, now: Now) -> bool {
        while let Some((at, topic)) = self.opens.first().copied()
            && at <= now.tick
        {
            self.opens.pop_first();
            if let Some(orders) = &mut self.topics[topic as usize] {
                if !orders.pause.holds(now.tick) {
                    orders.pause = Pause::No;
                }
                self.dirty.insert(topic);
            }
        }
        false
    }

    pub(crate) fn topics(&self, which: &Topics, now: Now) -> Vec<TopicInfo> {
        let shown = |topic: &u32| {
            let orders = self.topics[*topic as usize].as_ref().expect("a named topic is there");
            orders.info(now)
        };
        match which {
            Topics::One(topic) => self.names.get(topic).into_iter().map(shown).collect(),
            Topics::Page { prefix, after, limit } => {
                let from = match after {
                    Some(after) if after.as_str() >= &**prefix => {
                        std::ops::Bound::Excluded(after.as_str())
                    }
                    _ => std::ops::Bound::Included(&**prefix),
                };
                self.sorted
                    .range::<str, _>((from, std::ops::Bound::Unbounded))
                    .take_while(|(topic, _)| topic.as_str().starts_with(&**prefix))
                    .take(*limit)
                    .map(|(_, topic)| shown(topic))
                    .collect()
            }
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut counts = Counts::default();
        for topic in self.names.values() {
            counts += self.topics[*topic as usize].as_ref().expect("it is named").counts();
        }
        let (topics, waiting) = (self.names.len() as u64, self.waiters.popping() as u64);
        Stats { counts, topics, waiting, ..self.stats.clone() }
    }

    /// What was measured by the decider.
    pub(crate) fn measured(&self) -> Measured {
        let usage = self.segments.usage();
        let (batches, appended_bytes) = self.log.measured();
        Measured {
            batches,
            appended_bytes,
            log_bytes: usage.len() as u64 * self.log.segment_bytes(),
            live_bytes: usage.iter().map(|usage| usage.live_bytes).sum(),
            full: self.space.check_growth().is_err(),
            ..Measured::default()
        }
    }

    pub(super) fn orders(&mut self, topic: u32) -> &mut Orders {
        self.topics[topic as usize].as_mut().expect("the topic is there")
    }
}

pub(super) fn stored_topic(orders: &Orders, now: Now) -> NamedTopic {
    let pause = StoredPause::of(orders.pause, now);
    let stored = StoredTopic { settings: Settings::clone(&orders.settings), pause };
    NamedTopic { name: orders.name.clone(), added: orders.added, stored }
}
