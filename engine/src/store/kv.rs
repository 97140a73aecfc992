//! The key-value side.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::queue::{KvEntry, KvQuery, KvWrite};
use crate::time::{Now, Tick, duration_ms};

#[derive(Default)]
pub(crate) struct Kv {
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
    pub(crate) fn write(&mut self, write: KvWrite, now: Now) -> Result<u64> {
        write.check_there(self.entries.get(&write.key).map(|entry| entry.version))?;
        self.remove(&write.key);
        self.version += 1;
        let Some(value) = write.value else { return Ok(self.version) };
        let end = write.ttl.map(|ttl| now.tick.plus_ms(duration_ms(ttl)));
        self.ends.extend(end.map(|end| (end, write.key.clone())));
        self.entries.insert(write.key, Entry { value, version: self.version, end });
        Ok(self.version)
    }

    pub(crate) fn read(&self, query: &KvQuery) -> Vec<KvEntry> {
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

    /// Puts back what was stored: its key, value, version and end. None removes the key.
    pub(crate) fn restore(
        &mut self,
        key: Arc<str>,
        value: Option<Bytes>,
        version: u64,
        end: Option<Tick>,
    ) {
        self.remove(&key);
        self.version = self.version.max(version);
        if let Some(value) = value {
            self.ends.extend(end.map(|end| (end, key.clone())));
            self.entries.insert(key, Entry { value, version, end });
        }
    }

    /// Goes on after this version.
    pub(crate) fn restore_version(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// The version of the last write.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Every entry after this key, with its end.
    pub(crate) fn after(
        &self,
        key: Option<&str>,
    ) -> impl Iterator<Item = (&Arc<str>, &Bytes, u64, Option<Tick>)> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries
            .range::<str, _>((from, Bound::Unbounded))
            .map(|(key, entry)| (key, &entry.value, entry.version, entry.end))
    }

    /// Drops what has come to its end.
    pub(crate) fn lapse(&mut self, now: Now) {
        while let Some((end, key)) = self.ends.first().cloned()
            && end <= now.tick
        {
            self.remove(&key);
        }
    }

    pub(crate) fn next_end(&self) -> Option<Tick> {
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
