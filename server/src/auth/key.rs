//! A key: what is told once, and what is kept of it.

use std::fmt;
use std::sync::{Arc, Mutex};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use linger::error::{Code, Error, Result};
use linger::time::{Tick, Time, format_duration};
use linger::topic::{Bucket, Rate};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{Scopes, Topics};

/// How the keys that are made begin, so that they are known where they turn up.
const BEGIN: &str = "lk_";
const ID_BEGIN: &str = "key_";
const ID_DIGITS: usize = 16;

/// What a key is known by, which is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyId(pub(super) u64);

impl KeyId {
    /// An id as it is written, if it is one.
    pub(crate) fn parse(text: &str) -> Option<KeyId> {
        text.strip_prefix(ID_BEGIN).and_then(KeyId::of_digits)
    }

    fn of_digits(digits: &str) -> Option<KeyId> {
        let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (digits.len() == ID_DIGITS && digits.bytes().all(plain))
            .then(|| u64::from_str_radix(digits, 16).ok().map(KeyId))
            .flatten()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ID_BEGIN}{:016x}", self.0)
    }
}

/// What is kept of a secret: it cannot be had back from it.
///
/// One round of a plain hash, since what is hashed was made by chance and cannot be guessed.
#[derive(Clone, Copy)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(secret: &str) -> Digest {
        Digest(Sha256::digest(secret).into())
    }

    /// Whether it is of this secret, in a time that tells nothing of either.
    pub(super) fn is_of(&self, secret: &str) -> bool {
        verify_slices_are_equal(&self.0, &Digest::of(secret).0).is_ok()
    }
}

/// A key, without its secret.
#[derive(Clone)]
pub(crate) struct Key {
    /// None for the one by the settings.
    pub(crate) id: Option<KeyId>,
    pub(crate) name: Arc<str>,
    pub(crate) scopes: Scopes,
    pub(crate) topics: Topics,
    pub(crate) created: Time,
    pub(crate) expires: Option<Time>,
    /// Requests that it may make, if it has a limit of its own.
    pub(crate) rate: Option<Rate>,
    pub(super) digest: Digest,
}

/// A key to be made.
pub(crate) struct New {
    pub(crate) name: Arc<str>,
    pub(crate) scopes: Scopes,
    pub(crate) topics: Topics,
    pub(crate) expires: Option<Time>,
    pub(crate) rate: Option<Rate>,
}

impl Key {
    /// Makes a key, and what is shown of it this once.
    pub(super) fn make(new: New, created: Time) -> (Key, String) {
        let (mut id, mut secret) = ([0; 8], [0; 32]);
        aws_lc_rs::rand::fill(&mut id).expect("the system has randomness");
        aws_lc_rs::rand::fill(&mut secret).expect("the system has randomness");
        let id = u64::from_be_bytes(id);
        let text = format!("{BEGIN}{id:016x}_{}", BASE64.encode(secret));
        let New { name, scopes, topics, expires, rate } = new;
        let (id, digest) = (Some(KeyId(id)), Digest::of(&text));
        (Key { id, name, scopes, topics, created, expires, rate, digest }, text)
    }

    /// Which key a text says that it is.
    pub(super) fn id_in(text: &str) -> Option<KeyId> {
        KeyId::of_digits(text.strip_prefix(BEGIN)?.get(..ID_DIGITS)?)
    }

    /// What people call it.
    pub(crate) fn label(&self) -> String {
        match self.id {
            Some(id) => format!("{} ({id})", self.name),
            None => self.name.to_string(),
        }
    }

    /// Whether it is over.
    pub(crate) fn has_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    pub(super) fn encode(&self) -> Bytes {
        let shape = Shape {
            name: self.name.to_string(),
            scopes: self.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
            topics: self.topics.patterns().into_iter().map(str::to_owned).collect(),
            created: self.created.as_ms(),
            expires: self.expires.map(Time::as_ms),
            rate: self.rate.map(written),
            sha256: BASE64.encode(self.digest.0),
        };
        serde_json::to_vec(&shape).expect("text and numbers can be written").into()
    }

    pub(super) fn decode(id: KeyId, bytes: &[u8]) -> Option<Key> {
        let shape: Shape = serde_json::from_slice(bytes).ok()?;
        let scopes: Result<Scopes> = shape.scopes.iter().map(|text| text.parse()).collect();
        Some(Key {
            id: Some(id),
            name: shape.name.into(),
            scopes: scopes.ok()?,
            topics: Topics::new(&shape.topics).ok()?,
            created: Time::from_ms(shape.created)?,
            expires: match shape.expires {
                Some(ms) => Some(Time::from_ms(ms)?),
                None => None,
            },
            rate: shape.rate.map(|text| text.parse()).transpose().ok()?,
            digest: Digest(BASE64.decode(shape.sha256).ok()?.try_into().ok()?),
        })
    }
}

/// A rate as it is read.
pub(crate) fn written(rate: Rate) -> String {
    format!("{}/{}", rate.count(), format_duration(rate.per()))
}

/// A key as the store has it.
#[derive(Serialize, Deserialize)]
struct Shape {
    name: String,
    scopes: Vec<String>,
    topics: Vec<String>,
    created: u64,
    expires: Option<u64>,
    rate: Option<String>,
    sha256: String,
}

/// A key that is in use.
pub(crate) struct Live {
    pub(crate) key: Key,
    /// Ends what goes on by it when it is revoked.
    pub(super) revoked: CancellationToken,
    bucket: Mutex<(Bucket, Option<Rate>)>,
}

impl Live {
    pub(super) fn new(key: Key) -> Live {
        Live { key, revoked: CancellationToken::new(), bucket: Mutex::default() }
    }

    /// Takes a token for a request, or refuses it for there being too many.
    pub(super) fn count(&self, rate: Rate, now: Tick) -> Result<()> {
        let mut held = self.bucket.lock().expect("nobody panics holding it");
        let (bucket, before) = &mut *held;
        if *before != Some(rate) {
            bucket.refit(rate, now);
            *before = Some(rate);
        }
        if bucket.next_at(rate) > now {
            let (name, rate) = (&self.key.name, written(rate));
            let message = format!("key `{name}` is at its limit of {rate}; try again soon");
            return Err(Error::new(Code::RateLimited, message));
        }
        bucket.take(rate, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scope;
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_ms(ms).unwrap()
    }

    fn make(name: &str) -> (Key, String) {
        let new = New {
            name: name.into(),
            scopes: [Scope::Add, Scope::Read].into_iter().collect(),
            topics: Topics::new(&["order.*".into(), "支".into()]).unwrap(),
            expires: Some(at(9)),
            rate: Some("10/m".parse().unwrap()),
        };
        Key::make(new, at(5))
    }

    #[test]
    fn a_key_is_known_by_its_text_and_by_nothing_else() {
        let (key, text) = make("a");
        assert_eq!(Key::id_in(&text), key.id);
        assert!(key.digest.is_of(&text));
        let (other, other_text) = make("a");
        assert_ne!(other.id, key.id);
        assert!(!key.digest.is_of(&other_text));
        assert!(!key.digest.is_of(&text[..text.len() - 1]) && !key.digest.is_of(""));
        let id = key.id.unwrap().to_string();
        assert_eq!(KeyId::parse(&id), key.id);
        for wrong in ["", "key_", "key_1", "lk_", "key_000000000000000G", "key_00000000000000é"] {
            assert_eq!((KeyId::parse(wrong), Key::id_in(wrong)), (None, None), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_its_secret_is_not() {
        let (key, text) = make("über");
        let bytes = key.encode();
        let secret = text.rsplit_once('_').unwrap().1;
        assert!(!String::from_utf8(bytes.to_vec()).unwrap().contains(secret));
        let read = Key::decode(key.id.unwrap(), &bytes).unwrap();
        assert_eq!(
            (&read.name, read.scopes, &read.topics, read.created, read.expires, read.rate),
            (&key.name, key.scopes, &key.topics, key.created, key.expires, key.rate)
        );
        assert!(read.digest.is_of(&text));
        for broken in ["", "{}", "[]"] {
            assert!(Key::decode(KeyId(1), broken.as_bytes()).is_none(), "{broken}");
        }
    }

    #[test]
    fn a_key_is_over_when_its_time_is() {
        let (key, _) = make("a");
        assert!(!key.has_expired(at(8)) && key.has_expired(at(9)));
        assert!(!Key { expires: None, ..key }.has_expired(Time::MAX));
    }

    #[test]
    fn a_rate_holds_and_lets_go_again() {
        let (live, rate) = (Live::new(make("a").0), "2".parse().unwrap());
        let second = Tick::from_us(1_000_000);
        assert!(live.count(rate, second).is_ok() && live.count(rate, second).is_ok());
        assert_eq!(live.count(rate, second).unwrap_err().code(), Code::RateLimited);
        assert!(live.count(rate, Tick::from_us(1_500_000)).is_ok());
        // At another rate it is empty at worst, and fills up anew.
        assert!(live.count("1000".parse().unwrap(), Tick::from_us(1_502_000)).is_ok());
    }
}
