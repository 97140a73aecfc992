//! Handing out: pops, those who wait, and jobs asked for by name.

use std::task::Waker;

use super::All;
use super::jobs::Kept;
use crate::error::Result;
use crate::job::Destination;
use crate::machine::{Event, Hold, State};
use crate::queue::{Ask, Delivery, Key, Lane, Room, Source, Terms};
use crate::record::Move;
use crate::time::{Now, Tick, duration_ms};
use crate::topic::Topic;

/// A pop that found nothing yet.
pub(super) struct Waiter {
    number: u64,
    ask: Ask,
    until: Tick,
    waker: Option<Waker>,
}

impl Waiter {
    pub(super) fn pops(&self) -> bool {
        self.ask.lane == Lane::Pull
    }

    pub(super) fn names(&self, topic: &Topic) -> bool {
        matches!(&self.ask.from, Source::These(topics) if topics.contains(topic))
    }
}

/// What became of a pop.
pub(super) enum Popped {
    Now(Vec<Delivery>),
    /// It waits, under this number.
    Later(u64),
}

impl All {
    pub(super) fn pop(&mut self, ask: Ask, now: Now) -> Popped {
        let found = self.take(&ask, now);
        if !found.is_empty() || ask.wait.is_zero() {
            return Popped::Now(found);
        }
        self.waiters_seen += 1;
        let number = self.waiters_seen;
        let until = now.tick.plus_ms(duration_ms(ask.wait));
        if let Source::These(topics) = &ask.from {
            for topic in topics {
                self.place(topic);
            }
        }
        self.waiters.push(Waiter { number, ask, until, waker: None });
        Popped::Later(number)
    }

    /// Gives those who wait what is there, first come, first served.
    pub(super) fn serve(&mut self, now: Now) {
        for waiter in std::mem::take(&mut self.waiters) {
            let found = self.take(&waiter.ask, now);
            if found.is_empty() {
                self.waiters.push(waiter);
            } else {
                self.answer(waiter, found);
            }
        }
    }

    /// Tells those who have waited long enough that there is nothing.
    pub(super) fn send_away(&mut self, now: Now) {
        for waiter in std::mem::take(&mut self.waiters) {
            if waiter.until <= now.tick {
                self.answer(waiter, Vec::new());
            } else {
                self.waiters.push(waiter);
            }
        }
    }

    fn answer(&mut self, waiter: Waiter, found: Vec<Delivery>) {
        self.answers.insert(waiter.number, found);
        self.awake.extend(waiter.waker);
    }

    /// What was found for this waiter; else `waker` is told when something is.
    pub(super) fn collect(&mut self, waiter: u64, waker: &Waker) -> Option<Vec<Delivery>> {
        if let Some(waiting) = self.waiters.iter_mut().find(|one| one.number == waiter) {
            waiting.waker = Some(waker.clone());
        }
        self.answers.remove(&waiter)
    }

    /// Nobody waits there any more: what was found and not collected is as if never handed out.
    pub(super) fn hang_up(&mut self, waiter: u64, now: Now) {
        self.waiters.retain(|one| one.number != waiter);
        for delivery in self.answers.remove(&waiter).unwrap_or_default() {
            self.recall(&delivery, now);
        }
    }

    fn recall(&mut self, delivery: &Delivery, now: Now) {
        let made = Move::plain(Event::Recall(Some(delivery.lease)));
        // Its lease may have run out meanwhile, or the job may be gone: nothing to take back.
        let found = self.number(&delivery.key());
        if found.is_ok_and(|number| self.make(number, &made, now).is_ok()) {
            self.give_token_back(delivery.topic());
        }
    }

    pub(super) fn give_token_back(&mut self, topic: &Topic) {
        let place = self.place(topic);
        if let Some(rate) = place.settings.rate {
            place.bucket.give_back(rate);
        }
    }

    fn take(&mut self, ask: &Ask, now: Now) -> Vec<Delivery> {
        let mut found: Vec<Delivery> = Vec::new();
        while found.len() < ask.max as usize
            && let Some(number) = self.best(ask, &found, now)
        {
            found.push(self.hand_out_in_order(number, ask.terms, now));
        }
        found
    }

    /// The first in order among the jobs that may be handed out.
    fn best(&self, ask: &Ask, found: &[Delivery], now: Now) -> Option<u64> {
        let fits = |job: &&Kept| {
            let asked = match &ask.from {
                Source::These(topics) => topics.contains(job.topic()),
                Source::Any => true,
            };
            asked
                && job.state() == State::Ready
                && job.record.lane(&self.settings(job.topic())) == ask.lane
                && self.is_open(job.topic(), now)
                && ask.room.as_ref().is_none_or(|room| self.has_room(room, job, found))
        };
        let order = |job: &&Kept| {
            let life = &job.record.life;
            (life.priority, life.due, job.record.number)
        };
        self.jobs.iter().filter(fits).min_by_key(order).map(|job| job.record.number)
    }

    /// Whether those found so far leave room for this one.
    fn has_room(&self, room: &Room, job: &Kept, found: &[Delivery]) -> bool {
        let Some(to) = job.record.destination(&self.settings(job.topic())) else { return true };
        let goes_there = |one: &&Delivery| {
            one.target.as_ref().is_some_and(|target| Destination::of(one.topic(), target) == to)
        };
        let there = found.iter().filter(goes_there).count() as u32;
        let alike = found.iter().filter(|one| one.topic() == job.topic()).count() as u32;
        there < *room.destinations.get(&to).unwrap_or(&room.each_destination)
            && alike < *room.topics.get(job.topic()).unwrap_or(&room.each_topic)
    }

    fn is_open(&self, topic: &Topic, now: Now) -> bool {
        let place = &self.topics[topic];
        let held = |job: &&Kept| job.topic() == topic && matches!(job.state(), State::Reserved(_));
        let reserved = self.jobs.iter().filter(held).count();
        let token = place.settings.rate.is_none_or(|rate| place.bucket.next_at(rate) <= now.tick);
        let room = place.settings.concurrency.is_none_or(|max| reserved < max.get() as usize);
        !place.pause.holds(now.tick) && token && room
    }

    fn hand_out_in_order(&mut self, number: u64, terms: Terms, now: Now) -> Delivery {
        let topic = self.job(number).topic().clone();
        let place = self.place(&topic);
        if let Some(rate) = place.settings.rate {
            place.bucket.take(rate, now.tick);
        }
        self.hand_out(number, terms, Event::Reserve, now).expect("what is ready may be handed out")
    }

    pub(super) fn reserve(&mut self, key: &Key, terms: Terms, now: Now) -> Result<Delivery> {
        let number = self.number(key)?;
        self.hand_out(number, terms, Event::ReserveNamed, now)
    }

    fn hand_out(
        &mut self,
        number: u64,
        terms: Terms,
        event: impl Fn(Hold) -> Event,
        now: Now,
    ) -> Result<Delivery> {
        let job = self.job(number);
        let settings = self.settings(job.topic());
        let hold = job.record.hold(terms, self.in_force(&settings), now);
        let ready_since = (job.state() == State::Ready).then_some(job.ready_since);
        self.make(number, &Move::plain(event(hold)), now)?;
        if let Some(since) = ready_since {
            self.stats.ready_to_handed_out.record(now.tick.as_us() - since.as_us());
        }
        Ok(self.job(number).record.delivery(hold, &settings, now))
    }
}
