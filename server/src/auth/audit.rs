//! Who has changed what: a line in the log for each change of those that administrators make, and
//! the latest of them in the store.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use linger::error::Result;
use linger::queue::{Expect, KvQuery, KvWrite, PAGE_MAX, Queue};
use linger::time::{DAY, Time};
use serde::{Deserialize, Serialize};

use super::Caller;

/// How the entries of the store begin.
pub(crate) const PREFIX: &str = "audit/";
/// So many are kept, and some more until the oldest are thrown away.
pub(crate) const ENTRIES_MAX: usize = 1000;
/// After so many the oldest are thrown away.
const TRIM_EVERY: u64 = 50;
/// How long one is kept.
const KEPT_FOR: Duration = Duration::from_secs(365 * DAY.as_secs());

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// In milliseconds since 1970.
    pub(crate) at: u64,
    /// The id and the name of the key by which it was made; none where keys are not asked for.
    pub(crate) key: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) address: IpAddr,
    /// What was called.
    pub(crate) call: String,
    /// What it was about, if the call does not say.
    pub(crate) about: Option<String>,
}

/// What a change was about: goes along with an answer whose call does not say.
#[derive(Clone, Debug)]
pub(crate) struct About(pub(crate) String);

/// Counts changes.
#[derive(Default)]
pub(crate) struct Audit {
    written: AtomicU64,
}

impl Entry {
    pub(crate) fn new(caller: &Caller, call: String, about: Option<String>, at: Time) -> Entry {
        let key = caller.key();
        Entry {
            at: at.as_ms(),
            key: key.and_then(|key| key.id).map(|id| id.to_string()),
            name: key.map(|key| key.name.to_string()),
            address: caller.address(),
            call,
            about,
        }
    }

    /// Tells the log.
    pub(crate) fn tell(&self) {
        let (address, call) = (self.address, &self.call);
        let key = self.key.as_deref().or(self.name.as_deref()).unwrap_or("no key");
        let name = self.name.as_deref().unwrap_or_default();
        let about = self.about.as_deref().unwrap_or_default();
        tracing::info!(target: "audit", audit = call, about, key, name, %address, "changed");
    }
}

impl Audit {
    /// Keeps a change among the latest.
    pub(crate) async fn keep(&self, store: &impl Queue, entry: &Entry) -> Result<()> {
        let mut chance = [0; 4];
        aws_lc_rs::rand::fill(&mut chance).expect("the system has randomness");
        let chance = u32::from_be_bytes(chance);
        let key = format!("{PREFIX}{:015}-{chance:08x}", entry.at).into();
        let value = serde_json::to_vec(entry).expect("text and numbers can be written");
        let (value, ttl) = (Some(value.into()), Some(KEPT_FOR));
        store.kv_write(KvWrite { key, value, expect: Expect::Any, ttl }).await?;
        if self.written.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIM_EVERY) {
            trim(store).await?;
        }
        Ok(())
    }
}

/// Throws the oldest away.
async fn trim(store: &impl Queue) -> Result<()> {
    let keys = all(store, |key, _| Some(key)).await?;
    for key in keys.iter().take(keys.len().saturating_sub(ENTRIES_MAX)) {
        let write = KvWrite { key: key.clone(), value: None, expect: Expect::Any, ttl: None };
        // Another may have done it.
        let _ = store.kv_write(write).await;
    }
    Ok(())
}

/// The latest changes, newest first, each with what it is found by.
pub(crate) async fn list(store: &impl Queue) -> Result<Vec<(Arc<str>, Entry)>> {
    let read = |key: Arc<str>, value: &[u8]| {
        let entry = serde_json::from_slice(value).ok()?;
        Some((key[PREFIX.len()..].into(), entry))
    };
    let mut entries = all(store, read).await?;
    entries.reverse();
    entries.truncate(ENTRIES_MAX);
    Ok(entries)
}

async fn all<T>(store: &impl Queue, read: impl Fn(Arc<str>, &[u8]) -> Option<T>) -> Result<Vec<T>> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let prefix = PREFIX.into();
        let page = store.kv_read(KvQuery::Prefix { prefix, after, limit: PAGE_MAX }).await?;
        let (count, last) = (page.len(), page.last().map(|entry| entry.key.clone()));
        found.extend(page.into_iter().filter_map(|entry| read(entry.key, &entry.value)));
        if count < PAGE_MAX {
            return Ok(found);
        }
        after = last;
    }
}

#[cfg(test)]
mod tests {
    use linger::Linger;

    use super::*;

    #[tokio::test]
    async fn the_latest_are_kept_newest_first() {
        let linger = Linger::memory();
        let (store, audit) = (&**linger.store(), Audit::default());
        let caller = Caller::anyone("10.0.0.1".parse().unwrap());
        let extra = TRIM_EVERY as usize * 2;
        for n in 0..ENTRIES_MAX + extra {
            let at = Time::from_ms(n as u64).unwrap();
            let entry = Entry::new(&caller, format!("call {n}"), None, at);
            audit.keep(store, &entry).await.unwrap();
        }
        let entries = list(store).await.unwrap();
        assert_eq!(entries.len(), ENTRIES_MAX);
        assert_eq!(entries[0].1.call, format!("call {}", ENTRIES_MAX + extra - 1));
        assert_eq!(entries[0].1.key, None);
        assert_eq!(entries[ENTRIES_MAX - 1].1.call, format!("call {extra}"));
        let stored = all(store, |key, _| Some(key)).await.unwrap();
        assert!(stored.len() <= ENTRIES_MAX + TRIM_EVERY as usize, "{}", stored.len());
    }
}
