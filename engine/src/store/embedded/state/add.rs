//! Adding jobs.

use std::ops::Range;
use std::sync::Arc;

use super::{Entry, IdHash, Snapshot, State};
use crate::error::Result;
use crate::job::{Id, OnConflict, When};
use crate::machine::Life;
use crate::queue::{How, UniqueIds};
use crate::record::{already_exists, first_due};
use crate::store::embedded::batch::{DECIDED_BYTES, Decided, HEAD_BYTES};
use crate::store::embedded::codec::Own;
use crate::time::{Now, Time};
use crate::topic::Topic;

/// With fewer jobs than these it does not pay to look ahead.
const LOOK_AHEAD_MIN: usize = 1 << 16;

/// A job to add, as its caller has made it ready.
pub(crate) struct Prepared {
    pub(crate) topic: Topic,
    pub(crate) id: Id,
    pub(crate) hash: IdHash,
    /// Where among the batch's payloads its own is.
    pub(crate) payload: Range<usize>,
    pub(crate) check: u32,
    pub(crate) body_bytes: usize,
    pub(crate) when: Option<When>,
    pub(crate) priority: u32,
    pub(crate) held: bool,
    pub(crate) own: Option<Arc<Own>>,
    pub(crate) on_conflict: OnConflict,
}

/// What became of a job that was to be added.
pub(crate) enum Decision {
    /// With its life, if that is more than to wait until it is due.
    Added {
        how: How,
        number: u64,
        due: Time,
        life: Option<Box<Life>>,
    },
    Kept(Box<Snapshot>),
}

impl State {
    /// Brings the places where the jobs' ids belong into the processor's cache. One after the other
    /// each would be waited for; here they come together.
    pub(crate) fn look_ahead(&self, jobs: &[Result<Prepared>]) {
        // What is small is there anyway.
        if jobs.len() == 1 || self.ids.len() < LOOK_AHEAD_MIN {
            return;
        }
        let hashes = jobs.iter().flatten().map(|job| job.hash[0]);
        std::hint::black_box(hashes.filter(|hash| self.ids.has_any(*hash)).count());
    }

    pub(crate) fn add(&mut self, new: &Prepared, payload: &[u8], now: Now) -> Result<Decision> {
        let repeat = new.own.as_ref().and_then(|own| own.repeat.as_ref());
        let due = first_due(new.when, repeat, now)?;
        let topic = self.names.get(&new.topic).copied();
        let taken = self.conflicting(topic, new)?;
        match (taken, new.on_conflict) {
            (Some(_), OnConflict::Reject) => return Err(already_exists(&new.topic, &new.id)),
            (Some(slot), OnConflict::Keep) => {
                return Ok(Decision::Kept(self.snapshot(slot).into()));
            }
            (_, OnConflict::Replace) | (None, _) => {}
        }
        if let Some(orders) = topic.and_then(|at| self.topics[at as usize].as_ref()) {
            let was = match taken {
                Some(slot) => self.arena[slot].body_bytes(),
                None => {
                    orders.settings.check_room(&new.topic, || orders.counts().total())?;
                    0
                }
            };
            let is = new.body_bytes as u64;
            orders.settings.check_bytes(&new.topic, orders.bytes, was, is)?;
        }
        self.space.check_growth()?;
        let how = if taken.is_some() { How::Replaced } else { How::New };
        // Both in one batch: replaced is one step.
        self.log.begin_step(HEAD_BYTES * 2 + DECIDED_BYTES + payload.len());
        if let Some(slot) = taken {
            self.log_gone(slot);
            self.remove(slot);
        }
        let topic = topic.unwrap_or_else(|| self.topic_for(&new.topic));
        let slot = self.insert(new, payload, topic, due, now);
        let life = (due <= now.time()).then(|| self.life(slot).into());
        Ok(Decision::Added { how, number: self.arena[slot].number, due, life })
    }

    /// The job that has this topic and id, or a refusal if the id may not be in a second topic.
    pub(super) fn conflicting(&self, topic: Option<u32>, new: &Prepared) -> Result<Option<u32>> {
        let same = topic.and_then(|topic| self.named(topic, new.hash));
        if self.unique_ids == UniqueIds::Global && same.is_none() {
            let others = self.by_id(new.hash);
            if let Some(other) = others.into_iter().min_by_key(|slot| self.arena[*slot].number) {
                return Err(already_exists(&self.orders_of(other).name, &new.id));
            }
        }
        Ok(same)
    }

    fn insert(&mut self, new: &Prepared, payload: &[u8], topic: u32, due: Time, now: Now) -> u32 {
        let number = self.next_number;
        self.stats.added += 1;
        let orders = self.topics[topic as usize].as_mut().expect("it was made");
        orders.added += 1;
        let decided =
            Decided { created_ms: now.time().as_ms(), base_ms: due.as_ms(), added: orders.added };
        let cold = self.put_cold(number, decided, payload, new.check);
        self.fresh.add(number, self.log.last_batch(), |batch| self.log.is_settled(batch));
        self.next_number += 1;
        let life = Life::new(due, new.priority, new.held);
        #[cfg(any(test, feature = "testkit"))]
        self.trace.step(self.log.last_batch(), || crate::store::embedded::trace::What::Added {
            number,
            life: life.clone(),
            decided,
            cold: payload.to_vec().into(),
        });
        let own = new.own.clone();
        let mut entry = Entry::new(number, new.hash, topic, cold);
        entry.set_body_bytes(new.body_bytes);
        let slot = self.enter(entry, life, own, now);
        // Few are due at once, and to ask costs as much as all of the above.
        if due <= now.time() {
            self.promote(slot, now);
        }
        slot
    }
}
