//! The index, copied into checkpoints chunk by chunk, and taken up from them again.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use super::topics::stored_topic;
use super::{Beyond, Entry, More, State};
use crate::machine::{Life, State as At};
use crate::store::embedded::checkpoint::{Block, Manifest};
use crate::store::embedded::codec::{
    Malformed, Own, Reader, Result, Stored, StoredEnd, StoredKv, decode_life, encode_life, put_str,
    put_time, put_u64, put_varint, whole,
};
use crate::store::embedded::payload::{NamedTopic, place, put_place};
use crate::time::Now;
use crate::topic::Topic;

/// The most topics or keys in one block.
const SLICE: usize = 256;

/// What to copy next.
#[derive(Clone, Debug)]
pub(crate) enum Cursor {
    Jobs(usize),
    Topics(Option<Topic>),
    Kv(Option<Arc<str>>),
    End,
}

/// What a turn has copied.
pub(crate) struct Copied {
    pub(crate) block: Option<(Block, Vec<u8>)>,
    pub(crate) next: Cursor,
}

/// Whether the chunk of jobs to be copied lies in an earlier checkpoint as it was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    Known,
    Unknown,
}

impl State {
    /// Begins a checkpoint: what is decided from here on is in the log after this.
    pub(crate) fn begin_checkpoint(&mut self) -> Manifest {
        let (first_batch, position) = self.log.cut();
        Manifest { first_batch, position, last_batch: 0, next_number: 0, kv_version: 0, blocks: 0 }
    }

    /// What was known when the last chunk was copied.
    pub(crate) fn end_checkpoint(&self, begun: Manifest) -> Manifest {
        Manifest {
            last_batch: self.log.last_batch(),
            next_number: self.next_number,
            kv_version: self.kv.version(),
            ..begun
        }
    }

    /// Copies the next chunk; one that has not changed is only named.
    pub(crate) fn copy_chunk(&mut self, cursor: Cursor, earlier: Earlier, now: Now) -> Copied {
        match cursor {
            Cursor::Jobs(chunk) if chunk < self.arena.chunks() => {
                let next = Cursor::Jobs(chunk + 1);
                if earlier == Earlier::Known && self.is_as_copied(chunk) {
                    return Copied { block: Some((Block::Same, Vec::new())), next };
                }
                self.arena.clear_touched(chunk);
                Copied { block: Some((Block::Jobs, self.copy_jobs(chunk, now))), next }
            }
            Cursor::Jobs(_) => Copied { block: None, next: Cursor::Topics(None) },
            Cursor::Topics(after) => self.copy_topics(after, now),
            Cursor::Kv(after) => self.copy_kv(after, now),
            Cursor::End => Copied { block: None, next: Cursor::End },
        }
    }

    /// Whether a chunk is as it was when it was last copied. A job that was emptied away touches
    /// its chunk only when it is freed, so until then any chunk may have changed.
    fn is_as_copied(&self, chunk: usize) -> bool {
        !self.arena.is_touched(chunk) && self.garbage.is_empty()
    }

    fn copy_jobs(&self, chunk: usize, now: Now) -> Vec<u8> {
        let mut topics: HashMap<u32, u64> = HashMap::new();
        let (mut names, mut jobs, mut count) = (Vec::new(), Vec::new(), 0);
        for (slot, entry) in self.arena.chunk(chunk).filter(|(slot, _)| self.is_there(*slot)) {
            let next = topics.len() as u64;
            let topic = *topics.entry(entry.topic).or_insert_with(|| {
                put_str(&mut names, self.orders_of(slot).name.as_str());
                next
            });
            self.put_job(slot, entry, topic, now, &mut jobs);
            count += 1;
        }
        let mut out = Vec::with_capacity(names.len() + jobs.len() + 20);
        put_varint(&mut out, topics.len() as u64);
        out.extend_from_slice(&names);
        put_varint(&mut out, count);
        out.extend_from_slice(&jobs);
        out
    }

    fn put_job(&self, slot: u32, entry: &Entry, topic: u64, now: Now, out: &mut Vec<u8>) {
        put_varint(out, entry.number);
        put_u64(out, entry.id[0]);
        put_u64(out, entry.id[1]);
        put_varint(out, topic);
        put_place(out, entry.cold);
        let sized = if entry.beside() > 0 { SIZED } else { 0 };
        let put_flags = |out: &mut Vec<u8>, flags: u8| {
            out.push(flags | sized);
            if sized != 0 {
                put_varint(out, entry.beside());
            }
        };
        if entry.beyond() == Beyond::Nothing {
            let held = matches!(entry.plain_life().state, At::Waiting { held: true, .. });
            put_flags(out, if held { HELD } else { 0 });
            put_time(out, entry.due());
            put_varint(out, entry.priority.into());
            return;
        }
        let settings;
        let More { life, own, last_error, notes } = match entry.beyond() {
            Beyond::More(at) => self.mores.get(at),
            Beyond::Own(at) => {
                settings = More::new(entry.plain_life(), Some(self.owns.get(at).clone()));
                &settings
            }
            Beyond::Nothing => unreachable!("it was written above"),
        };
        let own_flag = if own.is_some() { OWN } else { 0 };
        put_flags(out, MORE | own_flag | if last_error.is_some() { ERROR } else { 0 });
        encode_life(life, now, out);
        if let Some(own) = own {
            own.encode(out);
        }
        if let Some(error) = last_error {
            put_str(out, error);
        }
        put_varint(out, notes.len() as u64);
        for note in notes {
            put_place(out, *note);
        }
        debug_assert!(self.arena.get(slot).is_some());
    }

    fn copy_topics(&self, after: Option<Topic>, now: Now) -> Copied {
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut out = Vec::new();
        let mut last = None;
        for (name, topic) in self.sorted.range::<Topic, _>((from, Bound::Unbounded)).take(SLICE) {
            let orders = self.topics[*topic as usize].as_ref().expect("a named topic is there");
            stored_topic(orders, now).encode(&mut out);
            last = Some(name.clone());
        }
        match last {
            None => Copied { block: None, next: Cursor::Kv(None) },
            last => Copied { block: Some((Block::Topics, out)), next: Cursor::Topics(last) },
        }
    }

    fn copy_kv(&self, after: Option<Arc<str>>, now: Now) -> Copied {
        let mut out = Vec::new();
        let mut last = None;
        for (key, value, version, end) in self.kv.after(after.as_deref()).take(SLICE / 16) {
            let end = end
                .map(|end| StoredEnd { at: now.time_at(end), ttl_ms: end.ms_since(now.tick) + 1 });
            StoredKv { key, value: Some(value), version, end }.encode(&mut out);
            last = Some(key.clone());
        }
        match last {
            None => Copied { block: None, next: Cursor::End },
            last => Copied { block: Some((Block::Kv, out)), next: Cursor::Kv(last) },
        }
    }

    /// Takes up a block of a checkpoint.
    pub(crate) fn load_block(&mut self, block: Block, payload: &[u8], now: Now) -> Result<()> {
        let mut reader = Reader::new(payload);
        match block {
            Block::Jobs => whole(payload, |reader| self.load_jobs(reader, now))?,
            Block::Topics => {
                while !reader.rest().is_empty() {
                    let topic = NamedTopic::decode(&mut reader)?;
                    self.restore_topic(topic, now);
                }
            }
            Block::Kv => {
                while !reader.rest().is_empty() {
                    let stored = StoredKv::decode(&mut reader)?;
                    self.restore_kv(stored, now);
                }
            }
            Block::Same | Block::End => {}
        }
        Ok(())
    }

    /// No chunk is known to be as it was in an earlier checkpoint.
    pub(crate) fn touch_all(&mut self) {
        self.arena.touch_all();
    }

    fn load_jobs(&mut self, reader: &mut Reader<'_>, now: Now) -> Result<()> {
        let mut topics = Vec::new();
        for _ in 0..reader.varint()? {
            let name: Topic =
                reader.str()?.parse().map_err(|_| Malformed("a topic's name is out of range"))?;
            topics.push(self.topic_for(&name));
        }
        for _ in 0..reader.varint()? {
            self.load_job(reader, &topics, now)?;
        }
        Ok(())
    }

    fn load_job(&mut self, reader: &mut Reader<'_>, topics: &[u32], now: Now) -> Result<()> {
        let number = reader.varint()?;
        let id = [reader.u64()?, reader.u64()?];
        let topic = topics.get(reader.varint()? as usize);
        let topic = *topic.ok_or(Malformed("a job's topic is not in its chunk"))?;
        let cold = place(reader)?;
        let flags = reader.u8()?;
        let mut entry = Entry::new(number, id, topic, cold);
        if flags & SIZED != 0 {
            entry.set_beside(reader.varint()?);
        }
        if flags & MORE == 0 {
            let due = reader.time()?;
            let life = Life::new(due, reader.varint_u32()?, flags & HELD != 0);
            self.keep(entry, life, None);
            return Ok(());
        }
        let Stored { life, local } = decode_life(reader, now)?;
        let life = if local { super::replay::orphaned(life) } else { life };
        let own = reader.option(flags & OWN != 0, Own::decode)?.map(Arc::new);
        let error: Option<Arc<str>> =
            reader.option(flags & ERROR != 0, Reader::str)?.map(Arc::from);
        let slot = self.keep(entry, life, own);
        if error.is_some() {
            self.more_mut(slot).last_error = error;
        }
        for _ in 0..reader.varint()? {
            let note = place(reader)?;
            self.note(slot, note);
        }
        Ok(())
    }

    /// Takes up the end of a checkpoint: all its jobs are there, and can be found from here on.
    pub(crate) fn load_end(&mut self, manifest: &Manifest) {
        self.index_all();
        self.next_number = self.next_number.max(manifest.next_number);
        self.kv.restore_version(manifest.kv_version);
    }
}

const HELD: u8 = 1;
const MORE: u8 = 2;
const OWN: u8 = 4;
const ERROR: u8 = 8;
/// How much of it is not the body is written down: a version before this one has not done so.
const SIZED: u8 = 16;
