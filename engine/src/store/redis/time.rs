//! What the clock brings.

use super::core::{Core, arg};
use super::keys::Bucket;
use super::moves::Seen;
use super::reply::{Reply, integer, strange};
use super::scripts;
use crate::error::Result;
use crate::machine::Event;
use crate::record::Move;
use crate::time::{Now, Tick, Time, Wake};

/// How many jobs a script may move at once, so that nobody waits long behind it.
const AT_ONCE: u32 = 200;

/// What came of a look at a bucket.
pub(super) struct Looked {
    /// When there is more to do.
    pub(super) wake: Wake,
    /// What the clock showed.
    pub(super) now: Now,
    /// How many jobs were made ready.
    pub(super) moved: u64,
}

impl Core {
    /// Does what the clock has brought to all buckets.
    pub(super) async fn tick(&self) -> Result<()> {
        let now = self.now();
        {
            let known = &mut *self.known();
            if let Some(step_ms) = known.watch.observe(now) {
                known.stats.clock_steps += 1;
                tracing::warn!(step_ms, "the wall clock was set");
            }
        }
        for bucket in self.keys.buckets() {
            self.expire(bucket).await?;
        }
        let mut wake = Wake::default();
        for bucket in self.keys.buckets() {
            let next = self.promote(bucket).await?.wake;
            wake.wall = next.wall.into_iter().chain(wake.wall).min();
            wake.tick = next.tick.into_iter().chain(wake.tick).min();
        }
        let kv_end = self.eval_at(&scripts::KV, self.keys.of_kv(), Vec::new(), [b"next".into()]);
        let kv_end = u64::try_from(integer(kv_end.await?)?).ok().map(Tick::from_us);
        wake.tick = kv_end.into_iter().chain(wake.tick).min();
        self.known().wake = wake;
        Ok(())
    }

    /// Takes back leases that ran out, and answers how many.
    pub(super) async fn expire(&self, bucket: Bucket) -> Result<u64> {
        let mut moved = 0;
        loop {
            let mut reply = self.ask(&scripts::EXPIRED, bucket, [arg(AT_ONCE)]).await?;
            let now = reply.now()?;
            self.count_strays(bucket, reply.u64()?);
            if reply.is_empty() {
                return Ok(moved);
            }
            while !reply.is_empty() {
                moved += 1;
                let mut seen = Seen::read(&mut reply.list()?, now)?;
                // If it has changed meanwhile, someone else has seen to it.
                self.try_make(&mut seen, &Move::unasked(Event::Expire), false).await?;
            }
        }
    }

    /// Makes ready what is due and lets go what is no longer kept; answers when there is more to do.
    async fn promote(&self, bucket: Bucket) -> Result<Looked> {
        let mut moved = 0;
        loop {
            let mut reply = self.ask(&scripts::TICK, bucket, [arg(AT_ONCE)]).await?;
            let now = reply.now()?;
            let more = reply.u64()? == 1;
            let wall = reply.moment()?.and_then(Time::from_ms);
            let tick = reply.moment()?.map(Tick::from_us);
            moved += self.count_due(&mut reply.list()?, now)?;
            self.count_strays(bucket, reply.u64()?);
            if !more {
                return Ok(Looked { wake: Wake { wall, tick }, now, moved });
            }
        }
    }

    /// Counts how late jobs were that are ready now, by when they were due; answers how many.
    pub(super) fn count_due(&self, dues: &mut Reply, now: Now) -> Result<u64> {
        let mut count = 0;
        while !dues.is_empty() {
            count += 1;
            let due = Time::from_ms(dues.u64()?).ok_or_else(strange)?;
            self.known().stats.due_to_ready.record(now.late_us(due));
        }
        Ok(count)
    }

    /// Counts entries that were dropped since their jobs are gone, and says so.
    pub(super) fn count_strays(&self, bucket: Bucket, strays: u64) {
        if strays > 0 {
            self.known().stats.stray_entries += strays;
            let bucket = bucket.0;
            tracing::warn!(bucket, strays, "entries without jobs were dropped; check the store");
        }
    }

    /// Does what the clock has brought to a bucket.
    pub(super) async fn see_to(&self, bucket: Bucket) -> Result<Looked> {
        let first = self.promote(bucket).await?;
        if first.wake.tick.is_none_or(|tick| tick > first.now.tick) {
            return Ok(first);
        }
        let expired = self.expire(bucket).await?;
        let last = self.promote(bucket).await?;
        Ok(Looked { moved: first.moved + expired + last.moved, ..last })
    }

    /// When the clock brings the next thing, as far as is known.
    pub(super) fn next_wake(&self) -> Wake {
        let known = self.known();
        let waits = [known.waiters.next_end(), known.waiters.opens];
        let tick = waits.into_iter().flatten().chain(known.wake.tick).min();
        Wake { wall: known.wake.wall, tick }
    }
}
