//! Taking up what the log says. Every record tells what became, so that one replayed twice, or
//! over a checkpoint that already knows more, does no harm.

use std::sync::Arc;

use bytes::Bytes;

use super::{Beyond, Entry, State};
use crate::machine::{Life, Owner, State as At};
use crate::store::embedded::batch::{Decided, Found, Tag};
use crate::store::embedded::codec::{
    Cold, Malformed, Stored, StoredKv, decode_life, decode_note, whole,
};
use crate::store::embedded::payload::{NamedTopic, decode_emptied, decode_moved};
use crate::store::embedded::place::Place;
use crate::time::{Now, Tick, Time};
use crate::topic::Topic;

/// The owner of leases whose connections ended with the process that wrote them down.
const FORMER: Owner = Owner(u64::MAX);

type Applied = Result<(), Malformed>;

impl State {
    /// Takes up one record of the log.
    pub(crate) fn replay(&mut self, found: &Found<'_>, place: Place, now: Now) -> Applied {
        match found.tag {
            Tag::Cold => self.replay_cold(found.number, found.payload, place, now),
            Tag::Hot => self.replay_hot(found.number, found.payload, now),
            Tag::Note => self.replay_note(found.number, found.payload, place),
            Tag::Gone => {
                if let Some(slot) = self.numbered(found.number) {
                    self.remove(slot);
                }
                Ok(())
            }
            Tag::Emptied => self.replay_emptied(found.number, found.payload),
            Tag::Topic => self.replay_topic(found.payload, now),
            Tag::Kv => self.replay_kv(found.payload, now),
            Tag::Moved => {
                let (old, new) = decode_moved(found.payload)?;
                self.moved(found.number, old, new);
                Ok(())
            }
        }
    }

    fn replay_cold(&mut self, number: u64, payload: &[u8], place: Place, now: Now) -> Applied {
        let (decided, rest) =
            Decided::split(payload).ok_or(Malformed("a cold record is too short"))?;
        let peek = Cold::peek(rest)?;
        let name: Topic =
            peek.topic.parse().map_err(|_| Malformed("a topic's name is out of range"))?;
        let id = peek.id.parse().map_err(|_| Malformed("an id is out of range"))?;
        let base = Time::from_ms(decided.base_ms).ok_or(Malformed("a time is out of range"))?;
        let own = peek.own.map(Arc::new);
        self.next_number = self.next_number.max(number + 1);
        if decided.added == 0
            && let Some(slot) = self.numbered(number)
        {
            // An update: what moves is told by the hot record that follows.
            self.stand_down(slot);
            self.give_body(slot, place, peek.body_bytes);
            self.set_own(slot, own);
            self.stand_up(slot, now.tick);
            return Ok(());
        }
        if let Some(slot) = self.numbered(number) {
            self.remove(slot);
        }
        let topic = self.topic_for(&name);
        if decided.added > 0 {
            self.orders(topic).added = decided.added;
        }
        let mut entry = Entry::new(number, self.hasher.hash(&id), topic, place);
        entry.set_body_bytes(peek.body_bytes);
        self.enter(entry, Life::new(base, peek.priority, peek.held), own, now);
        Ok(())
    }

    fn replay_hot(&mut self, number: u64, payload: &[u8], now: Now) -> Applied {
        let Stored { life, local } = whole(payload, |reader| decode_life(reader, now))?;
        if let Some(slot) = self.numbered(number) {
            self.stand_down(slot);
            self.set_life(slot, if local { orphaned(life) } else { life });
            self.stand_up(slot, now.tick);
        }
        Ok(())
    }

    fn replay_note(&mut self, number: u64, payload: &[u8], place: Place) -> Applied {
        let entry = whole(payload, decode_note)?;
        let Some(slot) = self.numbered(number) else { return Ok(()) };
        if let Some(error) = entry.error {
            self.change_error(slot, error);
        }
        if !self.notes(&self.arena[slot]).contains(&place) {
            self.note(slot, place);
        }
        Ok(())
    }

    /// Gives a job another last error, which dead ones are counted by.
    pub(super) fn change_error(&mut self, slot: u32, error: Arc<str>) {
        self.stand_down(slot);
        self.more_mut(slot).last_error = Some(error);
        self.stand_up(slot, Tick::default());
    }

    fn replay_emptied(&mut self, through: u64, payload: &[u8]) -> Applied {
        let name = decode_emptied(payload)?;
        let Some(topic) = self.names.get(&name).copied() else { return Ok(()) };
        let orders = self.topics[topic as usize].as_ref().expect("a named topic is there");
        let gone: Vec<u32> = orders
            .walk(&self.arena, None, [0; 3])
            .map(|(_, slot)| slot)
            .filter(|slot| self.arena[*slot].number <= through)
            .collect();
        for slot in gone {
            self.remove(slot);
        }
        Ok(())
    }

    fn replay_topic(&mut self, payload: &[u8], now: Now) -> Applied {
        self.restore_topic(whole(payload, NamedTopic::decode)?, now);
        Ok(())
    }

    pub(super) fn restore_topic(&mut self, topic: NamedTopic, now: Now) {
        let at = self.topic_for(&topic.name);
        self.orders(at).added = topic.added;
        self.pause(at, topic.stored.pause.resume(now));
        self.set(at, topic.stored.settings, now);
        self.look_again(at);
    }

    fn replay_kv(&mut self, payload: &[u8], now: Now) -> Applied {
        self.restore_kv(whole(payload, StoredKv::decode)?, now);
        Ok(())
    }

    pub(super) fn restore_kv(&mut self, stored: StoredKv<'_>, now: Now) {
        let end = stored.end.map(|end| end.tick(now));
        let value = stored.value.map(Bytes::copy_from_slice);
        self.kv.restore(stored.key.into(), value, stored.version, end);
    }

    /// Notes that a record lies elsewhere now; answers whether anything lay at the old place. One of
    /// another length is another record.
    pub(crate) fn moved(&mut self, number: u64, old: Place, new: Place) -> bool {
        if old.len != new.len {
            return false;
        }
        let Some(slot) = self.numbered(number) else { return false };
        if self.arena[slot].cold == old {
            self.point_to(slot, new);
            return true;
        }
        let Beyond::More(more) = self.arena[slot].beyond() else { return false };
        let notes = &mut self.mores.get_mut(more).notes;
        let Some(note) = notes.iter_mut().find(|note| **note == old) else { return false };
        *note = new;
        self.arena.touch(slot);
        self.segments.died(old);
        self.segments.born(new);
        true
    }

    /// Whether a job's record lies at this place.
    pub(crate) fn lies_at(&self, number: u64, place: Place) -> bool {
        self.numbered(number).is_some_and(|slot| {
            let entry = &self.arena[slot];
            entry.cold == place || self.notes(entry).contains(&place)
        })
    }

    /// Has a job lie elsewhere, with a body of so many bytes.
    pub(super) fn give_body(&mut self, slot: u32, place: Place, bytes: usize) {
        let was = self.arena[slot].body_bytes();
        self.point_to(slot, place);
        self.arena[slot].set_body_bytes(bytes);
        let orders = self.orders_mut(slot);
        orders.bytes = orders.bytes - was + bytes as u64;
    }

    fn point_to(&mut self, slot: u32, place: Place) {
        let old = std::mem::replace(&mut self.arena[slot].cold, place);
        self.segments.died(old);
        self.segments.born(place);
    }

    /// After the last record: lets go of what connections of the process before held, and drops
    /// the topics that nothing names any more.
    pub(crate) fn replayed(&mut self, now: Now) {
        let former = self.owned.range((FORMER, 0)..=(FORMER, u64::MAX));
        self.orphans = former.map(|(_, number)| *number).collect();
        self.serve(now);
    }
}

/// A lease that was tied to a connection of another process.
pub(super) fn orphaned(mut life: Life) -> Life {
    if let At::Reserved(hold) = &mut life.state {
        hold.owner = Some(FORMER);
    }
    life
}
