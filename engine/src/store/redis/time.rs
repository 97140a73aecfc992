//! What the clock brings.

use super::core::{Core, arg};
use super::moves::Seen;
use super::reply::integer;
use super::scripts;
use crate::error::Result;
use crate::machine::Event;
use crate::record::Move;
use crate::time::{Tick, Time, Wake};

/// How many jobs a script may move at once, so that nobody waits long behind it.
const AT_ONCE: u32 = 200;

impl Core {
    /// Does what the clock has brought to all buckets, and serves those who wait.
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
            let next = self.promote(bucket).await?;
            wake.wall = next.wall.into_iter().chain(wake.wall).min();
            wake.tick = next.tick.into_iter().chain(wake.tick).min();
        }
        let kv_end = self.eval_at(&scripts::KV, self.keys.of_kv(), Vec::new(), [b"next".into()]);
        let kv_end = u64::try_from(integer(kv_end.await?)?).ok().map(Tick::from_us);
        wake.tick = kv_end.into_iter().chain(wake.tick).min();
        self.known().wake = wake;
        Ok(())
    }

    /// Takes back leases that ran out.
    async fn expire(&self, bucket: super::keys::Bucket) -> Result<()> {
        loop {
            let mut reply = self.ask(&scripts::EXPIRED, bucket, [arg(AT_ONCE)]).await?;
            let now = reply.now()?;
            if reply.is_empty() {
                return Ok(());
            }
            while !reply.is_empty() {
                let mut seen = Seen::read(&mut reply.list()?, now)?;
                // If it has changed meanwhile, someone else has seen to it.
                self.try_make(&mut seen, &Move::plain(Event::Expire), false).await?;
            }
        }
    }

    /// Makes ready what is due and lets go what is no longer kept; answers when there is more to do.
    async fn promote(&self, bucket: super::keys::Bucket) -> Result<Wake> {
        loop {
            let mut reply = self.ask(&scripts::TICK, bucket, [arg(AT_ONCE)]).await?;
            let now = reply.now()?;
            let more = reply.u64()? == 1;
            let wall = reply.moment()?.and_then(Time::from_ms);
            let tick = reply.moment()?.map(Tick::from_us);
            let mut dues = Vec::new();
            while !reply.is_empty() {
                dues.extend(Time::from_ms(reply.u64()?));
            }
            let stats = &mut self.known().stats;
            for due in dues {
                stats.due_to_ready.record(now.late_us(due));
            }
            if !more {
                return Ok(Wake { wall, tick });
            }
        }
    }

    /// When the clock brings the next thing, as far as is known.
    pub(super) fn next_wake(&self) -> Wake {
        let known = self.known();
        let waits = [known.waiters.next_end(), known.waiters.opens];
        let tick = waits.into_iter().flatten().chain(known.wake.tick).min();
        Wake { wall: known.wake.wall, tick }
    }
}
