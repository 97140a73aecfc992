//! A copy of all that is in the store, while it is used.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::core::Core;
use super::job::Kept;
use super::keys::Bucket;
use super::{Redis, scripts};
use crate::error::Result;
use crate::queue::{KvEntry, KvQuery, PAGE_MAX, TopicInfo, Topics, Whole};
use crate::time::Time;
use crate::topic::Settings;

/// All that is in the store, read bit by bit. A job that is there from beginning to end is in it once, as it
/// was at some moment between; one that is added or goes meanwhile may be in it, and no topic and id twice.
pub struct Backup {
    core: Arc<Core>,
    at: Time,
    jobs: u64,
    topics: Vec<TopicInfo>,
    keys: Vec<KvEntry>,
    /// Those that were not begun.
    buckets: VecDeque<Bucket>,
    walk: Option<Walk>,
    fetched: VecDeque<Whole>,
}

/// A bucket that is being read.
struct Walk {
    bucket: Bucket,
    cursor: Vec<u8>,
    /// How many jobs it had ever had when it was begun: later ones may be an id that was seen.
    through: Option<u64>,
    /// Numbers that were seen: a job may come by twice while Redis sorts its table anew.
    seen: HashSet<u64>,
}

impl Redis {
    /// Begins a copy of all that is there.
    pub async fn backup(&self) -> Result<Backup> {
        let core = self.core.clone();
        let keys = all_keys(&core).await?;
        let topics = all_topics(&core).await?;
        Ok(Backup {
            at: core.now().time(),
            jobs: topics.iter().map(|info| info.counts.total()).sum(),
            topics: topics.into_iter().filter(says_something).collect(),
            keys,
            buckets: core.keys.buckets().collect(),
            walk: None,
            fetched: VecDeque::new(),
            core,
        })
    }
}

impl Backup {
    /// When it was begun.
    pub fn at(&self) -> Time {
        self.at
    }

    /// How many jobs there were then.
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// The topics that had settings, or were paused.
    pub fn topics(&self) -> &[TopicInfo] {
        &self.topics
    }

    /// All of the key-value side.
    pub fn keys(&self) -> &[KvEntry] {
        &self.keys
    }

    /// The next job, in no order; none after the last.
    pub async fn next(&mut self) -> Result<Option<Whole>> {
        while self.fetched.is_empty() {
            let mut walk = match self.walk.take() {
                Some(walk) => walk,
                None => match self.buckets.pop_front() {
                    Some(bucket) => Walk::of(bucket),
                    None => return Ok(None),
                },
            };
            let is_over = walk.fetch(&self.core, &mut self.fetched).await?;
            self.walk = (!is_over).then_some(walk);
        }
        Ok(self.fetched.pop_front())
    }
}

impl Walk {
    fn of(bucket: Bucket) -> Walk {
        Walk { bucket, cursor: b"0".into(), through: None, seen: HashSet::new() }
    }

    /// Fetches some more; answers whether that was all.
    async fn fetch(&mut self, core: &Core, into: &mut VecDeque<Whole>) -> Result<bool> {
        let mut reply = core.ask(&scripts::SCAN, self.bucket, [self.cursor.clone()]).await?;
        let now = reply.now()?;
        self.cursor = reply.bytes()?.into();
        let through = *self.through.get_or_insert(reply.u64()?);
        while !reply.is_empty() {
            let (number, bytes) = (reply.number()?, reply.bytes()?);
            if number / u64::from(core.keys.count()) <= through && self.seen.insert(number) {
                into.push_back(Kept::decode(number, &bytes)?.record.whole(now));
            }
        }
        Ok(self.cursor == b"0")
    }
}

async fn all_topics(core: &Core) -> Result<Vec<TopicInfo>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = Topics::Page { prefix: "".into(), after, limit: PAGE_MAX };
        let page = core.topics(&page).await?;
        let is_last = page.len() < PAGE_MAX;
        after = page.last().map(|info| info.topic.clone());
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

async fn all_keys(core: &Core) -> Result<Vec<KvEntry>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = KvQuery::Prefix { prefix: "".into(), after, limit: PAGE_MAX };
        let page = core.kv_read(&page).await?;
        let is_last = page.len() < PAGE_MAX;
        after = page.last().map(|entry| entry.key.clone());
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

fn says_something(info: &TopicInfo) -> bool {
    info.paused.is_some() || info.settings != Settings::default()
}
