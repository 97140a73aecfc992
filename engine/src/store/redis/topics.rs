//! Topics and their settings, and the key-value side.

use super::core::{Core, arg};
use super::job::encode_settings;
use super::keys::Bucket;
use super::look::bounds;
use super::reply::{Reply, integer, strange};
use super::scripts;
use crate::error::Result;
use crate::job::{Destination, Ttr};
use crate::queue::{Expect, KvEntry, KvQuery, KvWrite, TopicChange};
use crate::record::no_topic;
use crate::time::duration_ms;
use crate::topic::{Partitions, Settings, Topic, room_ns};

/// How many jobs a script may remove at once, so that nobody waits long behind it.
const AT_ONCE: u32 = 500;

impl Core {
    pub(super) async fn configure(&self, topic: &Topic, change: TopicChange) -> Result<u64> {
        let kind: &[u8] = match &change {
            TopicChange::Set(_) => b"set",
            TopicChange::Pause(_) => b"pause",
            TopicChange::Resume => b"resume",
            TopicChange::Empty => b"empty",
            TopicChange::Forget => b"forget",
        };
        let mut args = vec![topic.as_str().into(), kind.into()];
        match &change {
            TopicChange::Set(settings) => args.extend(settings_args(topic, settings)),
            TopicChange::Pause(Some(length)) => args.push(arg(duration_ms(*length))),
            TopicChange::Pause(None) | TopicChange::Resume => args.push(Vec::new()),
            TopicChange::Empty | TopicChange::Forget => args.push(arg(AT_ONCE)),
        }
        self.read_spread().await?;
        let parts = self.known().spread.over(topic);
        if let TopicChange::Set(settings) = &change {
            let wanted = settings.partitions.map_or(1, Partitions::get);
            if wanted != parts {
                return self.spread_anew(topic, settings, wanted).await.map(|()| 0);
            }
        }
        let mut gone = 0;
        for bucket in self.buckets_of_topic(topic) {
            gone += self.configure_in(bucket, topic, &args).await?;
        }
        if change == TopicChange::Forget && parts > 1 {
            self.write_spread(topic, 1).await?;
        }
        self.known().stats.deleted += gone;
        Ok(gone)
    }

    /// How many jobs are gone by it.
    async fn configure_in(&self, bucket: Bucket, topic: &Topic, args: &[Vec<u8>]) -> Result<u64> {
        let mut gone = 0;
        loop {
            let answer = self.eval(&scripts::CONFIGURE, bucket, args.to_vec()).await?;
            match integer(answer)? {
                // It went with the last of its jobs.
                -1 if gone > 0 => return Ok(gone),
                -1 => return Err(no_topic(topic)),
                0 => return Ok(gone),
                some => gone += some as u64,
            }
        }
    }

    pub(super) async fn kv_write(&self, write: KvWrite) -> Result<u64> {
        let expect = match write.expect {
            Expect::Any => b"any".into(),
            Expect::Absent => b"absent".into(),
            Expect::Version(version) => arg(version),
        };
        let ttl = write.ttl.map_or_else(Vec::new, |ttl| arg(duration_ms(ttl)));
        let mut args = vec![b"write".into(), write.key.as_bytes().into(), expect, ttl];
        args.extend(write.value.as_ref().map(|value| value.to_vec()));
        let mut reply = self.ask_kv(args).await?;
        if reply.u64()? == 1 {
            return reply.u64();
        }
        let there = reply.moment()?;
        write.check_there(there)?;
        Err(strange())
    }

    pub(super) async fn kv_read(&self, query: &KvQuery) -> Result<Vec<KvEntry>> {
        let args = match query {
            KvQuery::Key(key) => vec![b"one".into(), key.as_bytes().into()],
            KvQuery::Prefix { prefix, after, limit } => {
                let [from, to] = bounds(prefix, after.as_deref());
                vec![b"page".into(), from, to, arg(limit)]
            }
        };
        let mut reply = self.ask_kv(args).await?;
        let mut entries = Vec::new();
        while !reply.is_empty() {
            let mut one = reply.list()?;
            let (key, version) = (one.text()?.into(), one.u64()?);
            entries.push(KvEntry { key, version, value: one.bytes()? });
        }
        Ok(entries)
    }

    async fn ask_kv(&self, args: Vec<Vec<u8>>) -> Result<Reply> {
        Reply::of(self.eval_at(&scripts::KV, self.keys.of_kv(), Vec::new(), args).await?)
    }
}

/// The settings, and what scripts need of them by name.
pub(super) fn settings_args(topic: &Topic, settings: &Settings) -> Vec<Vec<u8>> {
    let mut args = vec![encode_settings(settings)];
    let mut put = |name: &str, value: Option<Vec<u8>>| {
        if let Some(value) = value {
            args.extend([name.into(), value]);
        }
    };
    let to = settings.target.as_ref().map(|target| Destination::of(topic, target));
    put("to", to.map(|to| to.as_str().into()));
    put("ttr", settings.ttr.map(|ttr| arg(ttr.as_ms())));
    put("timeout", settings.timeout.map(|timeout: Ttr| arg(timeout.as_ms())));
    put("retain", settings.retain.map(|retain| arg(duration_ms(retain))));
    put("retain_dead", settings.retain_dead.map(|retain| arg(duration_ms(retain))));
    put("archive", settings.archive.as_ref().map(|_| b"1".into()));
    put("concurrency", settings.concurrency.map(arg));
    put("jobs_max", settings.jobs_max.map(arg));
    put("bytes_max", settings.bytes_max.map(arg));
    put("partitions", settings.partitions.map(|parts| arg(parts.get())));
    if let Some(rate) = settings.rate {
        let (gap, room) = (u128::from(rate.gap_ns()), room_ns(rate));
        put("gap_us", Some(arg(gap / 1000)));
        put("gap_ns", Some(arg(gap % 1000)));
        put("room_us", Some(arg(room / 1000)));
        put("room_ns", Some(arg(room % 1000)));
    }
    args
}
