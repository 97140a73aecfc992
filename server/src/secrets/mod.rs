//! The keys that sign what is pushed: kept in the store, those in use in memory.
//!
//! A key is for a topic, or for targets that begin alike. Several of one owner sign side by side
//! while they are exchanged.

mod kept;
mod key;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use linger::error::{Code, Error, Result};
use linger::queue::{Delivery, Expect, KvQuery, KvWrite, PAGE_MAX, Queue};
use linger::time::{Time, duration_ms};
use linger::topic::Topic;
use tokio::sync::Mutex;

pub(crate) use kept::{Key, Owner, PREFIX};
pub use key::SigningKey;
pub(crate) use key::{Kind, signatures};

use kept::{Kept, Ring};

/// The most owners of keys.
const OWNERS_MAX: usize = 10_000;
/// How often a change is tried anew that someone else's came in between.
const TRIES_MAX: usize = 5;

/// Every key there is.
pub(crate) struct Secrets {
    kept: ArcSwap<Kept>,
    /// Those by the settings, for whatever has none of its own.
    usual: ArcSwap<Vec<SigningKey>>,
    /// Held while keys change.
    changing: Mutex<()>,
}

/// A key and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) owner: Owner,
    pub(crate) key: Key,
}

/// A key to be added.
pub(crate) struct New {
    pub(crate) owner: Owner,
    pub(crate) key: SigningKey,
    /// How long the owner's older keys sign as well.
    pub(crate) keep_old: Duration,
}

impl Secrets {
    /// Only those by the settings, until the rest is loaded.
    pub(crate) fn new(usual: Vec<SigningKey>) -> Secrets {
        Secrets {
            kept: ArcSwap::default(),
            usual: ArcSwap::from_pointee(usual),
            changing: Mutex::default(),
        }
    }

    /// Takes on others by the settings.
    pub(crate) fn set_usual(&self, keys: Vec<SigningKey>) {
        self.usual.store(Arc::new(keys));
    }

    /// Reads those that a store has.
    pub(crate) async fn load(&self, store: &impl Queue) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.reload(store).await
    }

    /// Those that sign what is pushed to `url`: of the longest beginning of it that has any, else
    /// of the job's target, such as `worker:shop`, else of the topic, else of the settings.
    pub(crate) fn keys(&self, job: &Delivery, url: &str, now: Time) -> Arc<Vec<SigningKey>> {
        let target = job.target.as_ref().map_or("", |target| target.as_str());
        self.keys_of(job.topic(), [url, target], now)
    }

    fn keys_of(&self, topic: &Topic, targets: [&str; 2], now: Time) -> Arc<Vec<SigningKey>> {
        match self.kept.load().find(topic, targets, now) {
            Some(keys) => Arc::new(keys),
            None => self.usual.load_full(),
        }
    }

    /// Every key that signs, by owner, newest first.
    pub(crate) fn list(&self, now: Time) -> Vec<Secret> {
        self.kept.load().list(now)
    }

    /// Adds a key; the owner's older ones end after a while.
    pub(crate) async fn add(&self, store: &impl Queue, new: New) -> Result<Secret> {
        let now = store.clock().now().time();
        let added = Key::new(new.key, now);
        let end = now.saturating_add_ms(duration_ms(new.keep_old));
        self.change(store, |kept| {
            let (ring, version) = kept.of(&new.owner);
            if version.is_none() && kept.owners() >= OWNERS_MAX {
                let message =
                    format!("{OWNERS_MAX} owners have secrets, the most there may be; delete some");
                return Err(Error::new(Code::TooLarge, message));
            }
            Ok((new.owner.clone(), ring.with(added.clone(), end, now), version))
        })
        .await?;
        Ok(Secret { owner: new.owner, key: added })
    }

    /// Removes a key: nothing is signed by it from here on.
    pub(crate) async fn delete(&self, store: &impl Queue, id: &str) -> Result<Secret> {
        let now = store.clock().now().time();
        let find = |kept: &Kept| {
            let found = kept.list(now).into_iter().find(|secret| &*secret.key.id == id);
            found.ok_or_else(|| Error::new(Code::NotFound, format!("there is no secret `{id}`")))
        };
        let found = find(&self.kept.load())?;
        self.change(store, |kept| {
            let owner = find(kept)?.owner;
            let (ring, version) = kept.of(&owner);
            Ok((owner, ring.without(id, now), version))
        })
        .await?;
        Ok(found)
    }

    /// Writes what `decide` makes of the keys there are. An owner's keys are one entry of the
    /// store, so that they change at once or not at all.
    async fn change(
        &self,
        store: &impl Queue,
        decide: impl Fn(&Kept) -> Result<(Owner, Ring, Option<u64>)>,
    ) -> Result<()> {
        let _changing = self.changing.lock().await;
        for _ in 0..TRIES_MAX {
            let (owner, ring, version) = decide(&self.kept.load())?;
            let write = KvWrite {
                key: owner.key(),
                value: (ring.len() > 0).then(|| ring.encode(&owner)),
                expect: version.map_or(Expect::Absent, Expect::Version),
                ttl: None,
            };
            match store.kv_write(write).await {
                Ok(version) => {
                    let kept = self.kept.load().changed(owner, ring, version);
                    self.kept.store(Arc::new(kept));
                    return Ok(());
                }
                // Another instance was faster: again, on what it has left.
                Err(why) if matches!(why.code(), Code::VersionMismatch | Code::AlreadyExists) => {
                    self.reload(store).await?;
                }
                Err(why) => return Err(why),
            }
        }
        let message = "the secrets were changed by others all the time; try again";
        Err(Error::new(Code::Overloaded, message))
    }

    async fn reload(&self, store: &impl Queue) -> Result<()> {
        let mut kept = Kept::default();
        let mut after = None;
        loop {
            let prefix = kept::PREFIX.into();
            let page = store.kv_read(KvQuery::Prefix { prefix, after, limit: PAGE_MAX }).await?;
            let (read, last) = (page.len(), page.last().map(|entry| entry.key.clone()));
            for entry in page {
                match Ring::decode(&entry.value) {
                    Some((owner, ring)) => kept.put(owner, ring, entry.version),
                    None => tracing::error!(key = %entry.key, "a stored secret cannot be read"),
                }
            }
            if read < PAGE_MAX {
                self.kept.store(Arc::new(kept));
                return Ok(());
            }
            after = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use linger::Linger;
    use linger::time::{HOUR, MINUTE};

    use super::*;

    fn new(owner: &str) -> New {
        let owner = Owner::topic(&owner.parse().unwrap());
        New { owner, key: SigningKey::generate(Kind::Hmac), keep_old: HOUR }
    }

    fn keys(secrets: &Secrets, topic: &str, now: Time) -> Vec<SigningKey> {
        let topic = topic.parse().unwrap();
        secrets.keys_of(&topic, ["https://shop.example/", ""], now).to_vec()
    }

    #[tokio::test]
    async fn what_was_added_is_there_when_the_store_is_opened_again() {
        let linger = Linger::memory();
        let store = &**linger.store();
        let usual = vec![SigningKey::generate(Kind::Ed25519)];
        let secrets = Secrets::new(usual.clone());
        let now = store.clock().now().time();
        assert_eq!(keys(&secrets, "a", now), usual);
        let old = secrets.add(store, new("a")).await.unwrap().key;
        let newer = secrets.add(store, new("a")).await.unwrap().key;
        assert_eq!(keys(&secrets, "a", now), [newer.key.clone(), old.key.clone()]);
        assert_eq!(keys(&secrets, "b", now), usual);

        let again = Secrets::new(usual.clone());
        again.load(store).await.unwrap();
        assert_eq!(again.list(now), secrets.list(now));
        assert_eq!(keys(&again, "a", now), [newer.key.clone(), old.key.clone()]);
        let later = now.saturating_add_ms(duration_ms(HOUR + MINUTE));
        assert_eq!(keys(&again, "a", later), std::slice::from_ref(&newer.key));
        assert_eq!(again.list(later).len(), 1);

        again.delete(store, &newer.id).await.unwrap();
        assert_eq!(keys(&again, "a", now), [old.key]);
        let refused = again.delete(store, &newer.id).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
    }

    #[tokio::test]
    async fn instances_that_share_a_store_undo_nothing_of_each_other() {
        let linger = Linger::memory();
        let store = &**linger.store();
        let (one, other) = (Secrets::new(vec![]), Secrets::new(vec![]));
        let first = one.add(store, new("a")).await.unwrap();
        let second = other.add(store, new("a")).await.unwrap();
        let third = one.add(store, new("a")).await.unwrap();
        let ids = |secrets: &[Secret]| -> Vec<Arc<str>> {
            secrets.iter().map(|secret| secret.key.id.clone()).collect()
        };
        let expected = ids(&[third, second.clone(), first]);
        assert_eq!(ids(&one.list(Time::MIN)), expected);
        other.delete(store, &second.key.id).await.unwrap();
        one.load(store).await.unwrap();
        assert_eq!(ids(&one.list(Time::MIN)), [expected[0].clone(), expected[2].clone()]);
    }

    #[tokio::test]
    async fn the_last_secret_of_an_owner_leaves_nothing_behind() {
        let linger = Linger::memory();
        let store = &**linger.store();
        let secrets = Secrets::new(vec![]);
        let only = secrets.add(store, new("a")).await.unwrap();
        let all = || KvQuery::Prefix { prefix: "".into(), after: None, limit: 9 };
        assert_eq!(store.kv_read(all()).await.unwrap().len(), 1);
        secrets.delete(store, &only.key.id).await.unwrap();
        assert_eq!(store.kv_read(all()).await.unwrap(), []);
        assert_eq!(keys(&secrets, "a", Time::MIN), []);
    }
}
