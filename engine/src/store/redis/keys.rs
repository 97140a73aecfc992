//! The name of every key. What stands under each is said in `lua/common.lua` and `lua/kv.lua`.

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
    pub(super) fn new(prefix: &str, buckets: u16) -> Keys {
        Keys { prefix: prefix.into(), buckets }
    }

    pub(super) fn count(&self) -> u16 {
        self.buckets
    }

    pub(super) fn buckets(&self) -> impl Iterator<Item = Bucket> + use<> {
        (0..self.buckets).map(Bucket)
    }

    /// Where a topic lies: wholly.
    pub(super) fn bucket_of(&self, topic: &Topic) -> Bucket {
        let hash = crc32c::crc32c(topic.as_str().as_bytes());
        Bucket((hash % u32::from(self.buckets)) as u16)
    }

    /// Where the job of this number lies: it is what is left when that is divided.
    pub(super) fn bucket_of_number(&self, number: u64) -> Bucket {
        Bucket((number % u64::from(self.buckets)) as u16)
    }

    /// What all keys of a bucket begin with. The braces keep them in one slot.
    pub(super) fn of_bucket(&self, bucket: Bucket) -> String {
        format!("{}:{{{}}}:", self.prefix, bucket.0)
    }

    /// What the keys of the key-value side begin with.
    pub(super) fn of_kv(&self) -> String {
        format!("{}:{{kv}}:", self.prefix)
    }
}
