//! Handing out jobs, and those who wait for them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::orders::ReadyKey;
use super::{MOVE_BYTES, Snapshot, State};
use crate::error::Result;
use crate::job::Destination;
use crate::machine::{Event, Hold};
use crate::queue::{Ask, Key, Lane, Source, Taken, Terms};
use crate::record::{Move, not_found};
use crate::store::embedded::inbox::{self, Inbox, Task};
use crate::store::embedded::log::Rests;
use crate::time::{Now, Tick};
use crate::topic::Settings;

/// No more hand-outs are taken back in one task: they fit into the smallest segment.
const RECALLED_AT_ONCE: usize = 100;

/// The calls that wait, in the order they came.
#[derive(Default)]
pub(super) struct Waiters {
    came: u64,
    calls: HashMap<u64, Call>,
    /// The calls by what their callers know them by.
    tickets: HashMap<u64, u64>,
    ends: BTreeSet<(Tick, u64)>,
    /// How many of them wait to pop.
    popping: usize,
    /// Calls for any topic, by lane.
    any: [BTreeSet<u64>; 2],
}

/// A pop, with what its caller knows it by and until when it waits.
pub(crate) struct Call {
    pub(crate) ask: Ask,
    pub(crate) ticket: u64,
    pub(crate) end: Tick,
    pub(crate) answer: Answer,
}

/// How a pop is answered.
pub(crate) type Answer = oneshot::Sender<(Vec<Handed>, Now)>;

/// A job that was handed out.
pub(crate) struct Handed {
    pub(crate) job: Snapshot,
    pub(crate) hold: Hold,
    pub(crate) settings: Arc<Settings>,
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
    /// Hands out what the ask may have at this moment, or puts it at the end of the line, from
    /// where it can be taken by its ticket.
    pub(crate) fn pop(&mut self, call: Call, now: Now) {
        let jobs = self.hand_out(&call.ask, now);
        // One whose wait ends at this very moment has been served if anything was there.
        if !jobs.is_empty() || call.end <= now.tick {
            self.answer_pop(call.answer, jobs, now);
        } else {
            self.wait(call);
        }
    }

    fn hand_out(&mut self, ask: &Ask, now: Now) -> Vec<Handed> {
        let (mut handed, mut taken) = (Vec::new(), Taken::default());
        while handed.len() < ask.max as usize && self.log.has_room(MOVE_BYTES) {
            let Some(slot) = self.best(ask, &taken, now) else { break };
            self.take_room(ask, slot, &mut taken);
            self.take_token(slot, now);
            handed.push(self.lease_out(slot, ask.terms, Event::Reserve, now).expect("it is ready"));
        }
        handed
    }

    /// Leases this very job, whatever its topic's limits.
    pub(crate) fn reserve(&mut self, key: &Key, terms: Terms, now: Now) -> Result<Handed> {
        let slot = self.slot_of(key).ok_or_else(|| not_found(key))?;
        self.lease_out(slot, terms, Event::ReserveNamed, now)
    }

    fn lease_out(
        &mut self,
        slot: u32,
        terms: Terms,
        how: fn(Hold) -> Event,
        now: Now,
    ) -> Result<Handed> {
        let hold = self.hold(slot, terms, now);
        self.make(slot, &Move::plain(how(hold)), now)?;
        Ok(Handed { job: self.snapshot(slot), hold, settings: self.settings_of(slot) })
    }

    /// Answers a pop. It rests on what its jobs already had; its own records need only be written.
    fn answer_pop(&mut self, answer: Answer, jobs: Vec<Handed>, now: Now) {
        let rests = match jobs.iter().any(|one| self.is_fresh(one.job.number)) {
            _ if jobs.is_empty() => Rests::All,
            true => Rests::Added,
            false => Rests::Written,
        };
        let inbox = self.inbox.clone();
        let release = move || {
            if let Err((unseen, _)) = answer.send((jobs, now)) {
                recall(&inbox, &unseen);
            }
        };
        self.log.answer(Box::new(release), rests);
    }

    /// The best ready job over all the topics asked for that may hand one out.
    fn best(&self, ask: &Ask, taken: &Taken, now: Now) -> Option<u32> {
        let head = |topic: &u32| {
            let orders = self.topics[*topic as usize].as_ref()?;
            orders.head_for(ask, taken).filter(|_| orders.may_hand_out(now))
        };
        let best = match &ask.from {
            Source::These(topics) => topics
                .iter()
                .filter_map(|topic| self.names.get(topic))
                .filter_map(head)
                .min_by_key(|key| key.place()),
            Source::Any if ask.room.is_some() => self.best_with_room(ask.lane, head),
            // The best first, so that only topics that may not hand out are passed over.
            Source::Any => self.with_ready[ask.lane as usize].values().find_map(head),
        };
        best.map(|key| key.slot)
    }

    /// The best over all topics, where the first job of a topic may find no room: then the next
    /// that does may come after the first of other topics.
    fn best_with_room(
        &self,
        lane: Lane,
        head: impl Fn(&u32) -> Option<ReadyKey>,
    ) -> Option<ReadyKey> {
        let mut best: Option<ReadyKey> = None;
        for (first, topic) in &self.with_ready[lane as usize] {
            if best.is_some_and(|best| best.place() < *first) {
                break;
            }
            best = best.into_iter().chain(head(topic)).min_by_key(ReadyKey::place);
        }
        best
    }

    fn take_room(&self, ask: &Ask, slot: u32, taken: &mut Taken) {
        if ask.room.is_none() {
            return;
        }
        let orders = self.orders_of(slot);
        let own = self.own(slot).and_then(|own| own.target.as_ref());
        if let Some(target) = own.or(orders.settings.target.as_ref()) {
            taken.take(&orders.name, Destination::of(&orders.name, target));
        }
    }

    fn take_token(&mut self, slot: u32, now: Now) {
        let orders = self.orders_mut(slot);
        if let Some(rate) = orders.settings.rate {
            orders.bucket.take(rate, now.tick);
        }
    }

    /// Puts a call at the end of the line.
    fn wait(&mut self, call: Call) {
        let came = self.waiters.came;
        self.waiters.came += 1;
        self.waiters.ends.insert((call.end, came));
        let lane = call.ask.lane as usize;
        // Looked at again by `serve`: a rate that is used up must wake this call later.
        match &call.ask.from {
            Source::Any => {
                self.waiters.any[lane].insert(came);
                self.dirty.extend(self.with_ready[lane].values());
            }
            Source::These(topics) => {
                for name in topics {
                    let topic = self.topic_for(name);
                    self.orders(topic).waiters[lane].insert(came);
                    self.dirty.insert(topic);
                }
            }
        }
        self.waiters.tickets.insert(call.ticket, came);
        self.waiters.popping += usize::from(call.ask.lane == Lane::Pull);
        self.waiters.calls.insert(came, call);
    }

    /// Looks at every topic that changed: serves those who wait for its jobs, first come, first
    /// served, and drops it if nothing names it any more.
    pub(crate) fn serve(&mut self, now: Now) {
        while !self.dirty.is_empty() {
            let dirty = std::mem::take(&mut self.dirty);
            let mut line = BTreeSet::new();
            for topic in &dirty {
                line.extend(self.next_in_line(*topic, Lane::Pull, now));
                line.extend(self.next_in_line(*topic, Lane::Push, now));
            }
            self.serve_line(line, now);
            if self.starved {
                return self.dirty.extend(dirty);
            }
            for topic in &dirty {
                self.drop_if_nothing(*topic);
            }
        }
    }

    fn serve_line(&mut self, mut line: BTreeSet<(u64, u32, Lane)>, now: Now) {
        while let Some(first) = line.pop_first() {
            let (came, topic, lane) = first;
            // Another topic may have served this call meanwhile.
            if self.next_in_line(topic, lane, now) == Some(first) {
                let ask = self.waiters.calls[&came].ask.clone();
                let jobs = self.hand_out(&ask, now);
                if jobs.is_empty() {
                    // There is no room in the log: the keeper's next segment brings it back.
                    self.starved = true;
                    return;
                }
                self.answer_waiter(came, jobs, now);
            }
            line.extend(self.next_in_line(topic, lane, now));
        }
    }

    /// The first call that this topic could serve right now.
    fn next_in_line(&mut self, topic: u32, lane: Lane, now: Now) -> Option<(u64, u32, Lane)> {
        let orders = self.topics[topic as usize].as_ref()?;
        orders.head(lane)?;
        let named = orders.waiters[lane as usize].iter();
        let any = self.waiters.any[lane as usize].iter();
        let fits = |came: &&u64| {
            orders.head_for(&self.waiters.calls[*came].ask, &Taken::default()).is_some()
        };
        let came = *named.filter(fits).take(1).chain(any.filter(fits).take(1)).min()?;
        if orders.may_hand_out(now) {
            return Some((came, topic, lane));
        }
        if let Some(opens) = orders.next_token().filter(|opens| *opens > now.tick) {
            self.opens.insert((opens, topic));
        }
        None
    }

    /// Answers the calls whose wait is over.
    pub(super) fn end_waits(&mut self, now: Now) {
        while let Some((end, came)) = self.waiters.ends.first().copied()
            && end <= now.tick
        {
            self.answer_waiter(came, Vec::new(), now);
        }
    }

    fn answer_waiter(&mut self, came: u64, jobs: Vec<Handed>, now: Now) {
        let call = self.leave_line(came).expect("the call waits");
        self.answer_pop(call.answer, jobs, now);
    }

    fn leave_line(&mut self, came: u64) -> Option<Call> {
        let call = self.waiters.calls.remove(&came)?;
        self.waiters.popping -= usize::from(call.ask.lane == Lane::Pull);
        self.waiters.tickets.remove(&call.ticket);
        self.waiters.ends.remove(&(call.end, came));
        let lane = call.ask.lane as usize;
        match &call.ask.from {
            Source::Any => {
                self.waiters.any[lane].remove(&came);
            }
            Source::These(topics) => {
                for name in topics {
                    if let Some(topic) = self.names.get(name).copied() {
                        self.orders(topic).waiters[lane].remove(&came);
                        self.dirty.insert(topic);
                    }
                }
            }
        }
        Some(call)
    }

    /// A caller who waited is gone.
    pub(crate) fn hang_up(&mut self, ticket: u64) {
        if let Some(came) = self.waiters.tickets.get(&ticket).copied() {
            self.leave_line(came);
        }
    }

    /// The store has stopped: nobody who waits will be served.
    pub(crate) fn hang_up_all(&mut self) {
        let waiting: Vec<u64> = self.waiters.calls.keys().copied().collect();
        for came in waiting {
            self.leave_line(came);
        }
    }

    /// Makes jobs ready again that were handed to someone who never saw them.
    fn recall(&mut self, unseen: &[(u64, crate::dice::Lease)], now: Now) {
        for (number, lease) in unseen {
            let Some(slot) = self.numbered(*number) else { continue };
            // Refused if the lease ran out: then there is nothing to undo.
            if self.make(slot, &Move::plain(Event::Recall(Some(*lease))), now).is_ok() {
                self.give_token_back(slot);
            }
        }
    }

    /// As if it had not been handed out.
    pub(super) fn give_token_back(&mut self, slot: u32) {
        let orders = self.orders_mut(slot);
        if let Some(rate) = orders.settings.rate {
            orders.bucket.give_back(rate);
        }
    }
}

/// Takes back what was handed to someone who never saw it.
pub(crate) fn recall(inbox: &Inbox, unseen: &[Handed]) {
    if unseen.is_empty() {
        return;
    }
    let jobs: Vec<_> = unseen.iter().map(|one| (one.job.number, one.hold.lease)).collect();
    // A task that no segment can hold would wait for room for ever, and everyone behind it.
    for some in jobs.chunks(RECALLED_AT_ONCE) {
        let some = some.to_vec();
        let bytes = some.len() * MOVE_BYTES;
        let task = Task::new(bytes, move |state, now| state.recall(&some, now));
        // A store that stops releases its leases in its own way.
        let _ = inbox.push(inbox::Lane::Own, task);
    }
}
