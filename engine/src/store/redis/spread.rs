//! Topics that are spread: their jobs lie in several buckets, by their ids.
//!
//! Over how many is said in one place for all instances, who read it in every poll. What an instance believes
//! goes with every add, and a bucket that knows better refuses it: so no two jobs of a topic have the same
//! id. A topic is spread anew only while it has no jobs. First all its buckets are told, which refuse adds
//! from then on, and then the one place.

use std::collections::HashMap;
use std::time::Duration;

use super::core::{Core, Known, all, arg};
use super::keys::{Bucket, Keys};
use super::reply::{Reply, integer, strange};
use super::scripts;
use crate::error::{Code, Error, Result};
use crate::job::Id;
use crate::queue::Topics;
use crate::topic::{Settings, Topic};

/// How often an add is tried while a topic is being spread anew, and after how long.
pub(super) const TRIES_MAX: usize = 50;
pub(super) const TRY_AFTER: Duration = Duration::from_millis(20);

/// Over how many parts topics are spread: those that are not are not in it.
#[derive(Default)]
pub(super) struct Spread(HashMap<Topic, u16>);

impl Spread {
    /// Over how many parts a topic is spread.
    pub(super) fn over(&self, topic: &Topic) -> u16 {
        self.0.get(topic).copied().unwrap_or(1)
    }

    /// How many more there are of topics if each part is counted.
    pub(super) fn extra(&self, keys: &Keys) -> u64 {
        self.0.values().map(|parts| u64::from(*parts.min(&keys.count()) - 1)).sum()
    }

    /// Where the jobs of a topic lie.
    pub(super) fn buckets_of(&self, keys: &Keys, topic: &Topic) -> Vec<Bucket> {
        buckets_of(keys, topic, self.over(topic))
    }

    /// Where a job lies.
    pub(super) fn bucket_of(&self, keys: &Keys, topic: &Topic, id: &Id) -> Bucket {
        let parts = self.over(topic).min(keys.count());
        let part = match parts {
            1 => 0,
            parts => crc32c::crc32c(id.as_str().as_bytes()) % u32::from(parts),
        };
        keys.bucket_of_part(topic, part as u16)
    }
}

fn buckets_of(keys: &Keys, topic: &Topic, parts: u16) -> Vec<Bucket> {
    (0..parts.min(keys.count())).map(|part| keys.bucket_of_part(topic, part)).collect()
}

impl Known {
    /// The topics that somebody waits for and that lie in a bucket.
    pub(super) fn topics_in(&self, keys: &Keys, bucket: Bucket) -> impl Iterator<Item = &Topic> {
        let topics = self.waiters.topics();
        topics.filter(move |topic| self.spread.buckets_of(keys, topic).contains(&bucket))
    }

    /// As [`Known::topics_in`], one a line.
    pub(super) fn waited_for_in(&self, keys: &Keys, bucket: Bucket) -> Vec<u8> {
        let here = self.topics_in(keys, bucket);
        here.map(Topic::as_str).collect::<Vec<_>>().join("\n").into_bytes()
    }
}

impl Core {
    /// Where the jobs of a topic lie.
    pub(super) fn buckets_of_topic(&self, topic: &Topic) -> Vec<Bucket> {
        self.known().spread.buckets_of(&self.keys, topic)
    }

    /// Where a job lies, and over how many parts its topic is spread.
    pub(super) fn place_of(&self, topic: &Topic, id: &Id) -> (Bucket, u16) {
        let spread = &self.known().spread;
        (spread.bucket_of(&self.keys, topic, id), spread.over(topic))
    }

    /// Reads how topics are spread.
    pub(super) async fn read_spread(&self) -> Result<()> {
        let key = self.keys.of_spread();
        let found = self.conn.command(key.as_bytes(), &[b"HGETALL", key.as_bytes()]).await?;
        let (mut pairs, mut spread) = (Reply::of(found)?, HashMap::new());
        while !pairs.is_empty() {
            let (topic, parts) = (pairs.text()?.parse()?, pairs.u64()?);
            spread.insert(topic, u16::try_from(parts).map_err(|_| strange())?.max(1));
        }
        self.known().spread = Spread(spread);
        Ok(())
    }

    /// Spreads a topic without jobs over so many parts, which have these settings from then on.
    pub(super) async fn spread_anew(
        &self,
        topic: &Topic,
        settings: &Settings,
        parts: u16,
    ) -> Result<()> {
        let was = self.known().spread.over(topic);
        let old = self.topics(&Topics::One(topic.clone())).await?.pop();
        let old = old.map(|info| info.settings).unwrap_or_default();
        let (then, now) =
            (buckets_of(&self.keys, topic, was), buckets_of(&self.keys, topic, parts));
        let (mut told, none) = (Vec::new(), Settings::default());
        for bucket in buckets_of(&self.keys, topic, was.max(parts)) {
            let settings = if now.contains(&bucket) { settings } else { &none };
            told.push(bucket);
            let answer = self.tell(bucket, topic, b"spread", settings).await;
            if answer.as_ref().is_ok_and(|done| *done) {
                continue;
            }
            // All shall be as it was.
            let back = told.iter().map(|bucket| {
                let settings = if then.contains(bucket) { &old } else { &none };
                self.tell(*bucket, topic, b"set", settings)
            });
            all(back).await?;
            answer?;
            let message = format!("`{topic}` has jobs: it can be spread anew only without any");
            return Err(Error::new(Code::WrongState, message).field("partitions"));
        }
        self.write_spread(topic, parts).await
    }

    /// Tells all instances over how many parts a topic is spread.
    pub(super) async fn write_spread(&self, topic: &Topic, parts: u16) -> Result<()> {
        let (key, parts) = (self.keys.of_spread(), arg(parts));
        let (key, name) = (key.as_bytes(), topic.as_str().as_bytes());
        let write: &[&[u8]] =
            if *parts == *b"1" { &[b"HDEL", key, name] } else { &[b"HSET", key, name, &parts] };
        self.conn.command(key, write).await?;
        self.read_spread().await
    }

    /// Gives a bucket's part of a topic settings; whether it took them.
    async fn tell(
        &self,
        bucket: Bucket,
        topic: &Topic,
        how: &[u8],
        settings: &Settings,
    ) -> Result<bool> {
        let mut args = vec![topic.as_str().into(), how.into()];
        args.extend(super::topics::settings_args(topic, settings));
        Ok(integer(self.eval(&scripts::CONFIGURE, bucket, args).await?)? >= 0)
    }
}
