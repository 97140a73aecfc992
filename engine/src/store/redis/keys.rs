//! The name of every key. What stands under each is said in `lua/common.lua`, `lua/kv.lua`,
//! `lua/nodes.lua` and `lua/events.lua`.

use super::Settings;
use super::conn::Conn;
use super::reply::{integer, strange};
use crate::error::Result;
use crate::topic::Topic;

/// Names the keys of one store.
#[derive(Clone)]
pub(super) struct Keys {
    prefix: String,
    buckets: u16,
}

/// A bucket: topics whose keys lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Bucket(pub(super) u16);

impl Keys {
    /// Those of a store that is there, or is made by this.
    pub(super) async fn found(conn: &Conn, settings: &Settings) -> Result<Keys> {
        let keys = Keys::new(&settings.prefix, settings.buckets);
        let (key, buckets) = (keys.of_buckets(), settings.buckets.to_string());
        conn.command(key.as_bytes(), &[b"SET", key.as_bytes(), buckets.as_bytes(), b"NX"]).await?;
        let there = conn.command(key.as_bytes(), &[b"GET", key.as_bytes()]).await?;
        let buckets = u16::try_from(integer(there)?).ok().filter(|buckets| *buckets > 0);
        Ok(Keys { buckets: buckets.ok_or_else(strange)?, ..keys })
    }

    /// Those of a store, if it is there.
    pub(super) async fn there(conn: &Conn, prefix: &str) -> Result<Option<Keys>> {
        let key = Keys::new(prefix, 1).of_buckets();
        let there = conn.command(key.as_bytes(), &[b"GET", key.as_bytes()]).await?;
        if there == redis::Value::Nil {
            return Ok(None);
        }
        let buckets = u16::try_from(integer(there)?).ok().filter(|buckets| *buckets > 0);
        Ok(Some(Keys::new(prefix, buckets.ok_or_else(strange)?)))
    }

    pub(super) fn new(prefix: &str, buckets: u16) -> Keys {
        Keys { prefix: prefix.into(), buckets }
    }

    pub(super) fn count(&self) -> u16 {
        self.buckets
    }

    pub(super) fn buckets(&self) -> impl Iterator<Item = Bucket> + use<> {
        (0..self.buckets).map(Bucket)
    }

    /// Where a part of a topic lies. One that is not spread has only the first.
    pub(super) fn bucket_of_part(&self, topic: &Topic, part: u16) -> Bucket {
        let hash = crc32c::crc32c(topic.as_str().as_bytes()) % u32::from(self.buckets);
        Bucket(((hash + u32::from(part)) % u32::from(self.buckets)) as u16)
    }

    /// Where the job of this number lies: it is what is left when that is divided.
    pub(super) fn bucket_of_number(&self, number: u64) -> Bucket {
        Bucket((number % u64::from(self.buckets)) as u16)
    }

    /// What all keys of a bucket begin with. The braces keep them in one slot.
    pub(super) fn of_bucket(&self, bucket: Bucket) -> String {
        format!("{}:{{{}}}:", self.prefix, bucket.0)
    }

    /// The topics of a bucket that have something ready.
    pub(super) fn of_ready(&self, bucket: Bucket) -> String {
        format!("{}ready", self.of_bucket(bucket))
    }

    /// Where scripts tell what is ready in a bucket, that its next moment is sooner, and that buckets
    /// are free or somebody is new.
    pub(super) fn channels(&self) -> Vec<Vec<u8>> {
        let both = |bucket| {
            let base = self.of_bucket(bucket);
            [format!("{base}wake").into_bytes(), format!("{base}time").into_bytes()]
        };
        self.buckets().flat_map(both).chain([self.of_moves().into_bytes()]).collect()
    }

    /// The bucket that a channel is of, and whether it is about time.
    pub(super) fn bucket_of_channel(&self, channel: &[u8]) -> Option<(Bucket, bool)> {
        let rest = std::str::from_utf8(channel).ok()?.strip_prefix(&self.prefix)?;
        let (bucket, what) = rest.strip_prefix(":{")?.split_once("}:")?;
        Some((Bucket(bucket.parse().ok()?), what == "time"))
    }

    /// Where it is kept over how many parts each topic is spread that is.
    pub(super) fn of_spread(&self) -> String {
        format!("{}:{{meta}}:spread", self.prefix)
    }

    /// Where the number of buckets is kept.
    pub(super) fn of_buckets(&self) -> String {
        format!("{}:{{meta}}:buckets", self.prefix)
    }

    /// What the keys of the key-value side begin with.
    pub(super) fn of_kv(&self) -> String {
        format!("{}:{{kv}}:", self.prefix)
    }

    /// What the keys begin with that say who is there.
    pub(super) fn of_nodes(&self) -> String {
        format!("{}:{{nodes}}:", self.prefix)
    }

    /// What the keys of the event log begin with.
    pub(super) fn of_events(&self) -> String {
        format!("{}:{{events}}:", self.prefix)
    }

    /// Where it is told that buckets are free, or that somebody is new.
    pub(super) fn of_moves(&self) -> String {
        format!("{}moved", self.of_nodes())
    }
}
