//! What the clock brings.

use super::{MOVE_BYTES, SLICE, State};
use crate::machine::{Event, State as At};
use crate::record::Move;
use crate::time::{Now, Wake};

impl State {
    /// Does what the clock has brought, in this order: leases that ran out, jobs that are due,
    /// pauses and keeping times that are over, those who wait, and those who waited long enough.
    /// Answers whether some of it is left for the next turn.
    pub(crate) fn tick(&mut self, now: Now) -> bool {
        self.starved = false;
        if let Some(step_ms) = self.watch.observe(now) {
            self.stats.clock_steps += 1;
            tracing::warn!(step_ms, "the wall clock was set");
        }
        let left = [
            self.adopt(now),
            self.expire(now),
            self.promote_due(now),
            self.open(now),
            self.lapse(now),
            self.free_some(),
        ];
        self.kv.lapse(now);
        self.serve(now);
        self.end_waits(now);
        self.serve(now);
        left.contains(&true)
    }

    /// Lets go of what connections of the process before held.
    fn adopt(&mut self, now: Now) -> bool {
        for _ in 0..SLICE {
            let Some(number) = self.orphans.front().copied() else { return false };
            if !self.log.has_room(MOVE_BYTES) {
                return false;
            }
            self.orphans.pop_front();
            if let Some(slot) = self.numbered(number)
                && matches!(self.life(slot).state, At::Reserved(_))
            {
                self.make(slot, &Move::unasked(Event::Lost), now).expect("it is reserved");
            }
        }
        !self.orphans.is_empty()
    }

    fn expire(&mut self, now: Now) -> bool {
        for _ in 0..SLICE {
            let Some((until, number)) = self.leases.first().copied() else { return false };
            if until > now.tick || !self.log.has_room(MOVE_BYTES) {
                return false;
            }
            match self.numbered(number) {
                Some(slot) => {
                    self.make(slot, &Move::unasked(Event::Expire), now)
                        .expect("a lease may run out");
                }
                None => {
                    self.leases.pop_first();
                }
            }
        }
        true
    }

    fn promote_due(&mut self, now: Now) -> bool {
        for _ in 0..SLICE {
            let Some((due, topic)) = self.due_heads.first().copied() else { return false };
            if due > now.time() {
                return false;
            }
            self.stats.due_to_ready.record(now.late_us(due));
            let orders = self.topics[topic as usize].as_ref().expect("the topic is there");
            let first = orders.first_due().expect("it is listed by that");
            self.promote(first.slot, now);
        }
        true
    }

    fn lapse(&mut self, now: Now) -> bool {
        for _ in 0..SLICE {
            let Some((at, number)) = self.lapses.first().copied() else { return false };
            if at > now.time() || !self.log.has_room(MOVE_BYTES) {
                return false;
            }
            match self.numbered(number) {
                Some(slot) => {
                    self.make(slot, &Move::plain(Event::Lapse), now).expect("what is over may go");
                }
                None => {
                    self.lapses.pop_first();
                }
            }
        }
        true
    }

    /// Whether something has to be done before anything else is done at this moment.
    pub(crate) fn is_behind(&self, now: Now) -> bool {
        self.wake().reached(now) || !self.orphans.is_empty()
    }

    /// When the clock will bring something next.
    pub(crate) fn wake(&self) -> Wake {
        let due = self.due_heads.first().map(|(due, _)| *due);
        let lapse = self.lapses.first().map(|(at, _)| *at);
        let lease = self.leases.first().map(|(until, _)| *until);
        let open = self.opens.first().map(|(at, _)| *at);
        let ticks = [lease, open, self.waiters.next_end(), self.kv.next_end()];
        Wake { wall: due.into_iter().chain(lapse).min(), tick: ticks.into_iter().flatten().min() }
    }
}
