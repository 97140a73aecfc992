//! The key-value side.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{KV_KEY_BYTES_MAX, KV_VALUE_BYTES_MAX, check_limit};
use crate::error::{Code, Error, Result};

/// A write to the key-value side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvWrite {
    /// The key, 1 to [`KV_KEY_BYTES_MAX`] bytes.
    pub key: Arc<str>,
    /// The value, at most [`KV_VALUE_BYTES_MAX`] bytes; none removes the key.
    pub value: Option<Bytes>,
    /// What must be there for the write to happen.
    pub expect: Expect,
    /// Gone by itself after this long.
    pub ttl: Option<Duration>,
}

impl KvWrite {
    /// Refuses a key or value over its limit.
    pub fn check(&self) -> Result<()> {
        check_sizes(&self.key, self.value.as_deref())
    }

    /// Refuses a write that does not find what it expects, where the key is at version `there`.
    pub fn check_there(&self, there: Option<u64>) -> Result<()> {
        let key = &self.key;
        let (code, message) = match (self.expect, there) {
            (Expect::Absent, Some(version)) => {
                (Code::AlreadyExists, format!("key `{key}` is there already, at version {version}"))
            }
            (Expect::Version(seen), Some(version)) if seen != version => (
                Code::VersionMismatch,
                format!("key `{key}` is at version {version}, not {seen}; read it again"),
            ),
            (Expect::Version(seen), None) => (
                Code::VersionMismatch,
                format!("there is no key `{key}`, so none at version {seen}; read it again"),
            ),
            (_, None) if self.value.is_none() => {
                (Code::NotFound, format!("there is no key `{key}`"))
            }
            _ => return Ok(()),
        };
        Err(Error::new(code, message).field("key"))
    }
}

/// Refuses a key or value over its limit.
pub(crate) fn check_sizes(key: &str, value: Option<&[u8]>) -> Result<()> {
    if key.is_empty() || key.len() > KV_KEY_BYTES_MAX {
        let len = key.len();
        return Err(Error::invalid(
            "key",
            format!("key is {len} bytes; give 1 to {KV_KEY_BYTES_MAX}"),
        ));
    }
    match value {
        Some(value) if value.len() > KV_VALUE_BYTES_MAX => {
            let message =
                format!("value is {} bytes, over the limit of {KV_VALUE_BYTES_MAX}", value.len());
            Err(Error::new(Code::TooLarge, message).field("value"))
        }
        _ => Ok(()),
    }
}

/// What a write to the key-value side expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Anything.
    #[default]
    Any,
    /// Nothing there.
    Absent,
    /// This version there.
    Version(u64),
}

/// What to read from the key-value side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvQuery {
    /// One key.
    Key(Arc<str>),
    /// Keys that begin like this and come after that one, at most so many.
    Prefix {
        /// The keys' beginning.
        prefix: Arc<str>,
        /// The last key of the page before.
        after: Option<Arc<str>>,
        /// At most so many, 1 to [`super::PAGE_MAX`].
        limit: usize,
    },
}

impl KvQuery {
    /// Refuses a page of no or too many keys.
    pub fn check(&self) -> Result<()> {
        match self {
            KvQuery::Key(_) => Ok(()),
            KvQuery::Prefix { limit, .. } => check_limit(*limit),
        }
    }
}

/// One key of the key-value side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEntry {
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: Bytes,
    /// Counts the writes to the store's key-value side, so it is never used again for a key.
    pub version: u64,
}
