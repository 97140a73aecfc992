//! Taking in jobs of another store.

use super::{Entry, Prepared, State};
use crate::error::Result;
use crate::history::Entry as Noted;
use crate::machine::Life;
use crate::queue::Whole;
use crate::record::restored_life;
use crate::store::embedded::batch::{Decided, HEAD_BYTES, Tag};
use crate::store::embedded::call::{CHANGE_BYTES, log_bytes_of};
use crate::store::embedded::codec::{encode_life, encode_note};
use crate::time::{Now, Time};

/// A job of another store, as its caller has made it ready.
pub(crate) struct Returning {
    pub(crate) new: Prepared,
    whole: Whole,
    notes: Vec<Noted>,
}

impl Returning {
    pub(crate) fn new(new: Prepared, whole: Whole) -> Returning {
        Returning { new, notes: whole.notes(), whole }
    }

    /// The most that it may append to the log.
    pub(crate) fn log_bytes(&self) -> usize {
        log_bytes_of(self.new.payload.len()) + CHANGE_BYTES + notes_bytes(&self.notes)
    }
}

/// The most that notes may append to the log.
fn notes_bytes(notes: &[Noted]) -> usize {
    let texts = |note: &Noted| {
        let answer = note.report.as_ref().and_then(|report| report.excerpt.as_ref());
        note.error.as_ref().map_or(0, |text| text.len()) + answer.map_or(0, |text| text.len())
    };
    notes.iter().map(|note| CHANGE_BYTES + texts(note)).sum()
}

impl State {
    /// Takes in a job as it was elsewhere, unless one of its topic and id is there.
    ///
    /// Its records lie in one batch: what was given, then where it stands, then what happened to it.
    pub(crate) fn restore(&mut self, job: &Returning, payload: &[u8], now: Now) -> Result<bool> {
        let new = &job.new;
        let topic = self.names.get(&new.topic).copied();
        if self.conflicting(topic, new)?.is_some() {
            return Ok(false);
        }
        self.space.check_growth()?;
        self.log.begin_step(job.log_bytes());
        let topic = topic.unwrap_or_else(|| self.topic_for(&new.topic));
        let number = self.next_number;
        let mut entry = Entry::new(number, new.hash, topic, self.log_born(job, payload, topic));
        entry.set_body_bytes(new.body_bytes);
        let life = restored_life(&job.whole, now);
        self.log_life(number, &life, now);
        let slot = self.enter(entry, life, new.own.clone(), now);
        self.log_notes(slot, &job.notes);
        let error = job.notes.iter().rev().find_map(|note| note.error.clone());
        if error.is_some() {
            // Dead jobs are counted by it.
            self.stand_down(slot);
            self.more_mut(slot).last_error = error;
            self.stand_up(slot, now.tick);
        }
        self.promote(slot, now);
        Ok(true)
    }

    /// Writes down what was given, and answers where.
    fn log_born(
        &mut self,
        job: &Returning,
        payload: &[u8],
        topic: u32,
    ) -> crate::store::embedded::place::Place {
        let (number, whole) = (self.next_number, &job.whole);
        self.next_number += 1;
        self.stats.added += 1;
        let orders = self.topics[topic as usize].as_mut().expect("it was made");
        orders.added += 1;
        let at = |time: Time| time.as_ms();
        let decided = Decided {
            created_ms: at(whole.created),
            base_ms: at(whole.life.base),
            added: orders.added,
        };
        let cold = self.put_cold(number, decided, payload, job.new.check);
        self.fresh.add(number, self.log.last_batch(), |batch| self.log.is_settled(batch));
        #[cfg(any(test, feature = "testkit"))]
        self.trace.step(self.log.last_batch(), || crate::store::embedded::trace::What::Added {
            number,
            life: Life::new(whole.life.base, job.new.priority, job.new.held),
            decided,
            cold: payload.to_vec().into(),
        });
        cold
    }

    fn log_life(&mut self, number: u64, life: &Life, now: Now) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        encode_life(life, now, &mut scratch);
        self.log.put(Tag::Hot, number, &scratch);
        self.scratch = scratch;
        #[cfg(any(test, feature = "testkit"))]
        self.trace.step(self.log.last_batch(), || crate::store::embedded::trace::What::Moved {
            number,
            life: life.clone(),
            hand_out: false,
            cold: None,
            note: None,
        });
    }

    fn log_notes(&mut self, slot: u32, notes: &[Noted]) {
        let number = self.arena[slot].number;
        let mut scratch = std::mem::take(&mut self.scratch);
        for note in notes {
            scratch.clear();
            encode_note(note, &mut scratch);
            debug_assert!(scratch.len() + HEAD_BYTES <= notes_bytes(std::slice::from_ref(note)));
            let place = self.log.put(Tag::Note, number, &scratch);
            self.know_begun();
            self.note(slot, place);
            #[cfg(any(test, feature = "testkit"))]
            let life = self.life(slot);
            #[cfg(any(test, feature = "testkit"))]
            self.trace.step(self.log.last_batch(), || crate::store::embedded::trace::What::Moved {
                number,
                life,
                hand_out: false,
                cold: None,
                note: Some(note.clone()),
            });
        }
        self.scratch = scratch;
    }
}
