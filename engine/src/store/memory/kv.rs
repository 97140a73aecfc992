//! The key-value side.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::queue::{KvEntry, KvQuery, KvWrite};
use crate::time::{Now, Tick, duration_ms};

#[derive(Default)]
pub(super) struct Kv {
    entries: BTreeMap<Arc<str>, Entry>,
    ends: BTreeSet<(Tick, Arc<str>)>,
    version: u64,
}

struct Entry {
    value: Bytes,
    version: u64,
    end: Option<Tick>,
}

impl Kv {
    pub(super) fn write(&mut self, write: KvWrite, now: Now) -> Result<u64> {
        write.check_there(self.entries.get(&write.key).map(|entry| entry.version))?;
        self.remove(&write.key);
        self.version += 1;
        let Some(value) = write.value else { return Ok(self.version) };
        let end = write.ttl.map(|ttl| now.tick.plus_ms(duration_ms(ttl)));
        self.ends.extend(end.map(|end| (end, write.key.clone())));
        self.entries.insert(write.key, Entry { value, version: self.version, end });
        Ok(self.version)
    }

    pub(super) fn read(&self, query: &KvQuery) -> Vec<KvEntry> {
        let (from, prefix, limit) = match query {
            KvQuery::Key(key) => {
                return self.entries.get_key_value(key).into_iter().map(shown).collect();
            }
            KvQuery::Prefix { prefix, after, limit } => match after {
                Some(after) if after >= prefix => (Bound::Excluded(after.clone()), prefix, limit),
                _ => (Bound::Included(prefix.clone()), prefix, limit),
            },
        };
        self.entries
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(&**prefix))
            .take(*limit)
            .map(shown)
            .collect()
    }

    /// Drops what has come to its end.
    pub(super) fn lapse(&mut self, now: Now) {
        while let Some((end, key)) = self.ends.first().cloned()
            && end <= now.tick
        {
            self.remove(&key);
        }
    }

    pub(super) fn next_end(&self) -> Option<Tick> {
        self.ends.first().map(|(end, _)| *end)
    }

    fn remove(&mut self, key: &Arc<str>) {
        if let Some(Entry { end: Some(end), .. }) = self.entries.remove(key) {
            self.ends.remove(&(end, key.clone()));
        }
    }
}

fn shown((key, entry): (&Arc<str>, &Entry)) -> KvEntry {
    KvEntry { key: key.clone(), value: entry.value.clone(), version: entry.version }
}
