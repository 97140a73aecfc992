//! Handing out jobs, and those who wait for them.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::error::{Code, Error, Result};
use crate::machine::{Event, Hold, Stage};
use crate::queue::{Ask, Delivery, Key, Lane, Source, Taken, Terms};
use crate::record::{Move, not_found};
use crate::time::{Now, Tick, duration_ms};
use crate::topic::Topic;

use super::Shared;
use super::orders::{Place, number_at};
use super::state::State;

/// The calls that wait, in the order they came.
#[derive(Default)]
pub(super) struct Waiters {
    came: u64,
    calls: HashMap<u64, Call>,
    ends: BTreeSet<(Tick, u64)>,
    /// How many of them wait to pop.
    popping: usize,
    /// Calls for any topic, by lane.
    any: [BTreeSet<u64>; 2],
}

struct Call {
    ask: Ask,
    end: Tick,
    answer: oneshot::Sender<Vec<Delivery>>,
}

/// A call's place in the line.
pub(super) struct Ticket {
    came: u64,
    answer: oneshot::Receiver<Vec<Delivery>>,
}

impl Waiters {
    /// How many wait to pop; those who push wait all the time.
    pub(super) fn popping(&self) -> usize {
        self.popping
    }

    pub(super) fn next_end(&self) -> Option<Tick> {
        self.ends.first().map(|(end, _)| *end)
    }
}

impl State {
    /// Hands out what the ask may have at this moment.
    pub(super) fn hand_out(&mut self, ask: &Ask, now: Now) -> Vec<Delivery> {
        let (mut handed, mut taken) = (Vec::new(), Taken::default());
        while handed.len() < ask.max as usize {
            let Some(number) = self.best(ask, &taken, now) else { break };
            self.take_room(ask, number, &mut taken);
            self.take_token(number, now);
            handed.push(self.lease(number, ask.terms, Event::Reserve, now).expect("it is ready"));
        }
        handed
    }

    /// Leases this very job, whatever its topic's limits.
    pub(super) fn reserve(&mut self, key: &Key, terms: Terms, now: Now) -> Result<Delivery> {
        let number = self.number_of(key).ok_or_else(|| not_found(key))?;
        self.lease(number, terms, Event::ReserveNamed, now)
    }

    fn lease(
        &mut self,
        number: u64,
        terms: Terms,
        how: fn(Hold) -> Event,
        now: Now,
    ) -> Result<Delivery> {
        let job = self.job(number);
        let hold = job.hold(terms, self.in_force(job), now);
        self.make(number, &Move::plain(how(hold)), now)?;
        let job = self.job(number);
        Ok(job.delivery(hold, &self.topics[&job.spec.topic].settings, now))
    }

    /// The best ready job over all the topics asked for that may hand one out.
    fn best(&self, ask: &Ask, taken: &Taken, now: Now) -> Option<u64> {
        let head = |topic: &Topic| self.open_head(topic, ask, taken, now);
        let best = match &ask.from {
            Source::These(topics) => topics.iter().filter_map(head).min(),
            Source::Any if ask.room.is_some() => {
                self.with_ready[ask.lane as usize].values().filter_map(head).min()
            }
            // The best first, so that only topics that may not hand out are passed over.
            Source::Any => self.with_ready[ask.lane as usize].values().find_map(head),
        };
        best.map(|place| number_at(place, Some(Stage::Ready)))
    }

    fn open_head(&self, topic: &Topic, ask: &Ask, taken: &Taken, now: Now) -> Option<Place> {
        let orders = self.topics.get(topic)?;
        self.head(topic, ask, taken).filter(|_| orders.may_hand_out(now))
    }

    /// The first ready job of a topic for which the ask has room.
    fn head(&self, topic: &Topic, ask: &Ask, taken: &Taken) -> Option<Place> {
        let orders = self.topics.get(topic)?;
        let Some(room) = &ask.room else { return orders.head(ask.lane) };
        let fits = |place: &&Place| {
            let job = self.job(number_at(**place, Some(Stage::Ready)));
            job.lane(&orders.settings) == ask.lane
                && job
                    .destination(&orders.settings)
                    .is_none_or(|destination| room.has_destination(&destination, taken))
        };
        if !room.has_topic(topic, taken) {
            return None;
        }
        orders.order(Some(Stage::Ready)).iter().find(fits).copied()
    }

    fn take_room(&self, ask: &Ask, number: u64, taken: &mut Taken) {
        let job = self.job(number);
        let destination = job.destination(&self.topics[&job.spec.topic].settings);
        if let (Some(_), Some(destination)) = (&ask.room, destination) {
            taken.take(&job.spec.topic, destination);
        }
    }

    fn take_token(&mut self, number: u64, now: Now) {
        let orders = self.orders_of(number);
        if let Some(rate) = orders.settings.rate {
            orders.bucket.take(rate, now.tick);
        }
    }

    /// Puts a call at the end of the line.
    pub(super) fn wait(&mut self, ask: Ask, now: Now) -> Ticket {
        let (sender, answer) = oneshot::channel();
        let came = self.waiters.came;
        self.waiters.came += 1;
        let end = now.tick.plus_ms(duration_ms(ask.wait));
        self.waiters.ends.insert((end, came));
        let lane = ask.lane as usize;
        // Looked at again by `serve`: a rate that is used up must wake this call later.
        match &ask.from {
            Source::Any => {
                self.waiters.any[lane].insert(came);
                self.dirty.extend(self.with_ready[lane].values().cloned());
            }
            Source::These(topics) => {
                for topic in topics {
                    self.topics.entry(topic.clone()).or_default().waiters[lane].insert(came);
                    self.dirty.insert(topic.clone());
                }
            }
        }
        self.waiters.popping += usize::from(ask.lane == Lane::Pull);
        self.waiters.calls.insert(came, Call { ask, end, answer: sender });
        Ticket { came, answer }
    }

    /// Looks at every topic that changed: serves those who wait for its jobs, first come, first
    /// served, and drops it if nothing names it any more.
    pub(super) fn serve(&mut self, now: Now) {
        while !self.dirty.is_empty() {
            let dirty = std::mem::take(&mut self.dirty);
            let mut line = BTreeSet::new();
            for topic in &dirty {
                line.extend(self.next_in_line(topic, Lane::Pull, now));
                line.extend(self.next_in_line(topic, Lane::Push, now));
            }
            self.serve_line(line, now);
            for topic in &dirty {
                self.drop_if_nothing(topic);
            }
        }
    }

    fn serve_line(&mut self, mut line: BTreeSet<(u64, Topic, Lane)>, now: Now) {
        while let Some(first) = line.pop_first() {
            let (came, topic, lane) = first.clone();
            // Another topic may have served this call meanwhile.
            if self.next_in_line(&topic, lane, now) == Some(first) {
                let ask = self.waiters.calls[&came].ask.clone();
                let jobs = self.hand_out(&ask, now);
                self.answer(came, jobs);
            }
            line.extend(self.next_in_line(&topic, lane, now));
        }
    }

    /// The first call that this topic could serve right now.
    fn next_in_line(&mut self, topic: &Topic, lane: Lane, now: Now) -> Option<(u64, Topic, Lane)> {
        let orders = self.topics.get(topic)?;
        orders.head(lane)?;
        let named = orders.waiters[lane as usize].iter();
        let any = self.waiters.any[lane as usize].iter();
        let fits = |came: &&u64| {
            self.head(topic, &self.waiters.calls[*came].ask, &Taken::default()).is_some()
        };
        let came = *named.filter(fits).take(1).chain(any.filter(fits).take(1)).min()?;
        if orders.may_hand_out(now) {
            return Some((came, topic.clone(), lane));
        }
        if let Some(opens) = orders.next_token().filter(|opens| *opens > now.tick) {
            self.opens.insert((opens, topic.clone()));
        }
        None
    }

    /// Answers the calls whose wait is over.
    pub(super) fn end_waits(&mut self, now: Now) {
        while let Some((end, came)) = self.waiters.ends.first().copied()
            && end <= now.tick
        {
            self.answer(came, Vec::new());
        }
    }

    fn answer(&mut self, came: u64, jobs: Vec<Delivery>) {
        let call = self.leave_line(came).expect("the call waits");
        // Whoever hangs up leaves the line first, so the receiver is there.
        let _ = call.answer.send(jobs);
    }

    fn leave_line(&mut self, came: u64) -> Option<Call> {
        let call = self.waiters.calls.remove(&came)?;
        self.waiters.popping -= usize::from(call.ask.lane == Lane::Pull);
        self.waiters.ends.remove(&(call.end, came));
        let lane = call.ask.lane as usize;
        match &call.ask.from {
            Source::Any => {
                self.waiters.any[lane].remove(&came);
            }
            Source::These(topics) => {
                for topic in topics {
                    if let Some(orders) = self.topics.get_mut(topic) {
                        orders.waiters[lane].remove(&came);
                    }
                    self.dirty.insert(topic.clone());
                }
            }
        }
        Some(call)
    }

    /// A caller is gone: it waits no more, and what it was given but never saw is ready again.
    fn hang_up(&mut self, ticket: &mut Ticket, now: Now) {
        if self.leave_line(ticket.came).is_some() {
            return;
        }
        for delivery in ticket.answer.try_recv().unwrap_or_default() {
            let number = delivery.job.number;
            let recall = Move::plain(Event::Recall(Some(delivery.lease)));
            // Refused if the job is gone or the lease ran out: then there is nothing to undo.
            if self.exists(number) && self.make(number, &recall, now).is_ok() {
                self.give_token_back(number);
            }
        }
    }

    /// As if it had not been handed out.
    pub(super) fn give_token_back(&mut self, number: u64) {
        let orders = self.orders_of(number);
        if let Some(rate) = orders.settings.rate {
            orders.bucket.give_back(rate);
        }
    }
}

/// A call that waits. Dropped, it leaves the line and leases nothing.
pub(super) struct Waiting<'a> {
    shared: &'a Shared,
    ticket: Ticket,
    answered: bool,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(shared: &'a Shared, ticket: Ticket) -> Waiting<'a> {
        Waiting { shared, ticket, answered: false }
    }
}

impl Future for Waiting<'_> {
    type Output = Result<Vec<Delivery>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.ticket.answer).poll(context).map(|answer| {
            self.answered = true;
            answer.map_err(|_| Error::new(Code::Unavailable, "the store is stopping"))
        })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // A store that broke down has nothing left to take back.
        if !self.answered && !self.shared.state.is_poisoned() {
            let ticket = &mut self.ticket;
            self.shared.with(|state, now| state.hang_up(ticket, now));
        }
    }
}
