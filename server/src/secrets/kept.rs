//! Keys by their owners, in memory and as the store keeps them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use linger::error::{Error, Result};
use linger::job::Target;
use linger::time::Time;
use linger::topic::Topic;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use super::Secret;
use super::key::SigningKey;

/// How the keys of the store begin.
pub(crate) const PREFIX: &str = "secrets/";

/// The most keys that one owner may have, since all of them sign: the oldest goes.
const KEYS_MAX: usize = 10;

/// What keys are for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The jobs of a topic.
    Topic(Arc<str>),
    /// Jobs with targets that begin like this.
    Target(Arc<str>),
}

/// A key, and since and until when it is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) id: Arc<str>,
    pub(crate) key: SigningKey,
    pub(crate) created: Time,
    pub(crate) expires: Option<Time>,
}

/// The keys of one owner, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ring(Vec<Key>);

/// All owners' keys, with the versions at which the store has them.
#[derive(Clone, Default)]
pub(super) struct Kept(BTreeMap<Owner, Arc<(Ring, u64)>>);

impl Owner {
    /// A topic.
    pub(crate) fn topic(topic: &Topic) -> Owner {
        Owner::Topic(topic.as_str().into())
    }

    /// Targets that begin like this one: up to a `/` or `?`, so that `https://a.example` is no
    /// beginning of `https://a.example.org`.
    pub(crate) fn target(text: &str) -> Result<Owner> {
        let target: Target = text.parse()?;
        let plain = match Url::parse(target.as_str()) {
            Ok(url) if url.has_host() => {
                if !url.username().is_empty() || url.password().is_some() {
                    let why = "target has a user name or password; leave it out";
                    return Err(Error::invalid("target", why));
                }
                // As targets are written when they are called.
                url.as_str().into()
            }
            Ok(_) => target.as_str().into(),
            Err(why) => return Err(Error::invalid("target", format!("target is no URL: {why}"))),
        };
        Ok(Owner::Target(plain))
    }

    /// Under which key the store keeps it: an owner may be longer than a key.
    pub(super) fn key(&self) -> Arc<str> {
        let digest = Sha256::digest(self.to_string());
        digest.iter().fold(PREFIX.to_owned(), |key, byte| format!("{key}{byte:02x}")).into()
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Topic(topic) => write!(f, "topic `{topic}`"),
            Owner::Target(target) => write!(f, "target `{target}`"),
        }
    }
}

impl Key {
    pub(super) fn new(key: SigningKey, created: Time) -> Key {
        let mut id = [0; 8];
        aws_lc_rs::rand::fill(&mut id).expect("the system has randomness");
        let id = format!("sec_{:016x}", u64::from_be_bytes(id)).into();
        Key { id, key, created, expires: None }
    }

    fn signs(&self, now: Time) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl Ring {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// With a key more, before those that sign until `end` at the latest.
    pub(super) fn with(&self, added: Key, end: Time, now: Time) -> Ring {
        let ending = |key: &Key| Key {
            expires: Some(key.expires.map_or(end, |expires| expires.min(end))),
            ..key.clone()
        };
        let older = self.0.iter().filter(|key| key.key != added.key).map(ending);
        let older: Vec<Key> = older.filter(|key| key.signs(now)).take(KEYS_MAX - 1).collect();
        Ring(std::iter::once(added).chain(older).collect())
    }

    /// With a key less, and without those that have expired.
    pub(super) fn without(&self, id: &str, now: Time) -> Ring {
        Ring(self.0.iter().filter(|key| &*key.id != id && key.signs(now)).cloned().collect())
    }

    pub(super) fn encode(&self, owner: &Owner) -> Bytes {
        let (topic, target) = match owner {
            Owner::Topic(topic) => (Some(topic.to_string()), None),
            Owner::Target(target) => (None, Some(target.to_string())),
        };
        let keys = self.0.iter().map(|key| KeyShape {
            id: key.id.to_string(),
            secret: key.key.reveal(),
            created: key.created.as_ms(),
            expires: key.expires.map(Time::as_ms),
        });
        let shape = RingShape { topic, target, keys: keys.collect() };
        serde_json::to_vec(&shape).expect("text and numbers can be written").into()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<(Owner, Ring)> {
        let shape: RingShape = serde_json::from_slice(bytes).ok()?;
        let owner = match (shape.topic, shape.target) {
            (Some(topic), None) => Owner::Topic(topic.into()),
            (None, Some(target)) => Owner::Target(target.into()),
            _ => return None,
        };
        let keys = shape.keys.into_iter().map(|key| {
            Some(Key {
                id: key.id.into(),
                key: key.secret.parse().ok()?,
                created: Time::from_ms(key.created)?,
                expires: key.expires.and_then(Time::from_ms),
            })
        });
        Some((owner, Ring(keys.collect::<Option<_>>()?)))
    }

    fn keys(&self, now: Time) -> Option<Vec<SigningKey>> {
        let keys: Vec<SigningKey> =
            self.0.iter().filter(|key| key.signs(now)).map(|key| key.key.clone()).collect();
        (!keys.is_empty()).then_some(keys)
    }
}

/// An owner's keys as the store has them.
#[derive(Serialize, Deserialize)]
struct RingShape {
    topic: Option<String>,
    target: Option<String>,
    keys: Vec<KeyShape>,
}

#[derive(Serialize, Deserialize)]
struct KeyShape {
    id: String,
    secret: String,
    created: u64,
    expires: Option<u64>,
}

impl Kept {
    /// The keys of the longest beginning of a target that has any, else of the topic.
    pub(super) fn find(
        &self,
        topic: &Topic,
        targets: [&str; 2],
        now: Time,
    ) -> Option<Vec<SigningKey>> {
        if self.0.is_empty() {
            return None;
        }
        let of = |owner: Owner| self.0.get(&owner).and_then(|kept| kept.0.keys(now));
        let mut all = targets.into_iter().flat_map(beginnings);
        all.find_map(|beginning| of(Owner::Target(beginning.into())))
            .or_else(|| of(Owner::topic(topic)))
    }

    /// An owner's keys, and the version at which the store has them.
    pub(super) fn of(&self, owner: &Owner) -> (Ring, Option<u64>) {
        match self.0.get(owner) {
            Some(kept) => (kept.0.clone(), Some(kept.1)),
            None => (Ring::default(), None),
        }
    }

    pub(super) fn owners(&self) -> usize {
        self.0.len()
    }

    pub(super) fn list(&self, now: Time) -> Vec<Secret> {
        let each = self.0.iter().flat_map(|(owner, kept)| {
            let keys = kept.0.0.iter().filter(|key| key.signs(now));
            keys.map(|key| Secret { owner: owner.clone(), key: key.clone() })
        });
        each.collect()
    }

    /// With other keys of an owner.
    pub(super) fn changed(&self, owner: Owner, ring: Ring, version: u64) -> Kept {
        let mut changed = self.clone();
        changed.put(owner, ring, version);
        changed
    }

    pub(super) fn put(&mut self, owner: Owner, ring: Ring, version: u64) {
        match ring.len() {
            0 => self.0.remove(&owner),
            _ => self.0.insert(owner, Arc::new((ring, version))),
        };
    }
}

/// A target, then what it begins with: up to and with each `/`, or up to it or a `?`.
fn beginnings(target: &str) -> impl Iterator<Item = &str> {
    let inner = target.char_indices().rev().flat_map(|(at, c)| {
        let with = (c == '/').then_some(&target[..=at]);
        let without = matches!(c, '/' | '?').then_some(&target[..at]);
        [with, without].into_iter().flatten()
    });
    std::iter::once(target).chain(inner)
}

#[cfg(test)]
mod tests {
    use super::super::key::Kind;
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_ms(ms).unwrap()
    }

    fn topic(name: &str) -> Topic {
        name.parse().unwrap()
    }

    /// One key for each of these, and which is whose.
    fn kept(owners: &[Owner]) -> (Kept, Vec<SigningKey>) {
        let mut kept = Kept::default();
        let keys = owners.iter().map(|owner| {
            let key = SigningKey::generate(Kind::Hmac);
            kept.put(owner.clone(), Ring(vec![Key::new(key.clone(), at(0))]), 1);
            key
        });
        let keys = keys.collect();
        (kept, keys)
    }

    #[test]
    fn the_longest_beginning_of_a_target_has_the_say_then_the_topic() {
        let target = |text: &str| Owner::target(text).unwrap();
        let (kept, keys) = kept(&[
            Owner::topic(&topic("a")),
            target("https://shop.example"),
            target("https://shop.example/hooks/close"),
            target("https://Shop.Example:443/hooks/"),
            target("grpc://shop.example:9000"),
            target("worker:shop"),
        ]);
        for (topic_name, target, expected) in [
            ("a", "https://other.example/", Some(0)),
            ("b", "https://other.example/", None),
            ("a", "https://shop.example/", Some(1)),
            ("b", "https://shop.example/?a=/hooks/", Some(1)),
            ("b", "https://shop.example/hooks/close", Some(2)),
            ("b", "https://shop.example/hooks/close?x", Some(2)),
            ("b", "https://shop.example/hooks/close/now", Some(2)),
            ("b", "https://shop.example/hooks/closer", Some(3)),
            ("b", "https://shop.example/hooks", Some(1)),
            ("b", "https://shop.example.evil/hooks/close", None),
            ("b", "https://shop.example:444/hooks/close", None),
            ("b", "http://shop.example/hooks/close", None),
            ("b", "grpc://shop.example:9000/a/b", Some(4)),
            ("b", "grpc://shop.example:90001", None),
            ("b", "worker:shop", Some(5)),
            ("b", "worker:shopping", None),
        ] {
            let found = kept.find(&topic(topic_name), [target, ""], at(1));
            let expected = expected.map(|at: usize| vec![keys[at].clone()]);
            assert!(found == expected, "{topic_name} {target}");
        }
    }

    #[test]
    fn a_url_has_the_say_over_the_target_that_led_to_it() {
        let (kept, keys) =
            kept(&["worker:shop", "http://10.0.0.1:80"].map(|text| Owner::target(text).unwrap()));
        let find = |url| kept.find(&topic("a"), [url, "worker:shop"], at(1));
        assert_eq!(find("http://10.0.0.1/work"), Some(vec![keys[1].clone()]));
        assert_eq!(find("http://10.0.0.2/work"), Some(vec![keys[0].clone()]));
    }

    #[test]
    fn an_older_key_signs_until_its_time_is_over() {
        let new = |n: u64| Key::new(SigningKey::generate(Kind::Hmac), at(n));
        let (first, second, third) = (new(0), new(10), new(20));
        let ring = Ring::default().with(first.clone(), at(99), at(0));
        let ring = ring.with(second.clone(), at(50), at(10));
        // It keeps the end that it had, if that is sooner.
        let ring = ring.with(third.clone(), at(60), at(20));
        let ids = |now| ring.keys(at(now)).map(|keys| keys.len());
        assert_eq!((ids(20), ids(49), ids(50), ids(60)), (Some(3), Some(3), Some(2), Some(1)));
        assert_eq!(ring.keys(at(60)).unwrap(), std::slice::from_ref(&third.key));
        assert_eq!(ring.without(&third.id, at(50)).0.len(), 1);
        assert_eq!(ring.without(&third.id, at(60)), Ring::default());
        // With no time left the others are gone at once; the same key is not there twice.
        assert_eq!(ring.with(new(30), at(30), at(30)).0.len(), 1);
        let again = ring.with(Key::new(third.key.clone(), at(30)), at(60), at(30));
        assert_eq!(again.keys(at(30)).unwrap(), [third.key, second.key, first.key]);
    }

    #[test]
    fn an_owner_has_at_most_so_many_keys() {
        let mut ring = Ring::default();
        for n in 0..20 {
            ring = ring.with(Key::new(SigningKey::generate(Kind::Hmac), at(n)), Time::MAX, at(n));
        }
        assert_eq!((ring.0.len(), ring.0[0].created), (KEYS_MAX, at(19)));
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        for owner in [Owner::topic(&topic("支")), Owner::target("https://a/").unwrap()] {
            let old = Key::new(SigningKey::generate(Kind::Ed25519), at(5));
            let new = Key::new(SigningKey::generate(Kind::Hmac), at(6));
            let ring = Ring::default().with(old, at(0), at(0)).with(new, at(9), at(6));
            assert_eq!(Ring::decode(&ring.encode(&owner)), Some((owner, ring)));
        }
        for broken in ["", "{}", "[]", r#"{"topic":"a","keys":[{"id":"x"}]}"#] {
            assert_eq!(Ring::decode(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn what_is_no_target_says_so() {
        for wrong in ["", "shop", "https://a:b", "http://me@a/", "http://me:pw@a/"] {
            assert_eq!(Owner::target(wrong).unwrap_err().at_field(), Some("target"), "{wrong}");
        }
    }
}
