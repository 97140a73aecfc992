//! The key-value side.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Code, Error, Result};
use crate::queue::{Expect, KvEntry, KvQuery, KvWrite};
use crate::time::{Now, Tick, duration_ms};

/// Keys and values.
#[derive(Default)]
pub(super) struct Shelf {
    items: BTreeMap<Arc<str>, Item>,
    writes: u64,
}

struct Item {
    value: Bytes,
    version: u64,
    until: Option<Tick>,
}

impl Shelf {
    pub(super) fn forget_old(&mut self, now: Now) {
        self.items.retain(|_, item| item.until.is_none_or(|until| now.tick < until));
    }

    pub(super) fn write(&mut self, write: KvWrite, now: Now) -> Result<u64> {
        let there = self.items.get(&write.key).map(|item| item.version);
        let refused = match (write.expect, there) {
            (Expect::Absent, Some(_)) => Some(Code::AlreadyExists),
            (Expect::Version(wanted), _) if there != Some(wanted) => Some(Code::VersionMismatch),
            (_, None) if write.value.is_none() => Some(Code::NotFound),
            _ => None,
        };
        if let Some(code) = refused {
            return Err(Error::new(code, "the key is not as the write expects").field("key"));
        }
        self.writes += 1;
        match write.value {
            None => drop(self.items.remove(&write.key)),
            Some(value) => {
                let until = write.ttl.map(|ttl| now.tick.plus_ms(duration_ms(ttl)));
                self.items.insert(write.key, Item { value, version: self.writes, until });
            }
        }
        Ok(self.writes)
    }

    pub(super) fn read(&self, query: &KvQuery) -> Vec<KvEntry> {
        let fits = |key: &str| match query {
            KvQuery::Key(one) => key == &**one,
            KvQuery::Prefix { prefix, after, .. } => {
                key.starts_with(&**prefix) && after.as_ref().is_none_or(|after| key > &**after)
            }
        };
        let limit = match query {
            KvQuery::Key(_) => 1,
            KvQuery::Prefix { limit, .. } => *limit,
        };
        let found = self.items.iter().filter(|(key, _)| fits(key)).take(limit);
        let entry = |(key, item): (&Arc<str>, &Item)| KvEntry {
            key: key.clone(),
            value: item.value.clone(),
            version: item.version,
        };
        found.map(entry).collect()
    }
}
