//! What Redis needs to keep a job that waits.

use super::Bench;
use super::moves::{Due, Moves, Ours, Raw};
use super::served::{Log, Redis};
use crate::Result;
use crate::report::{Row, Unit, say};
use crate::spread::Spread;

impl Bench {
    pub(super) fn keep(&mut self, size: u64) -> Result<()> {
        let what = "memory a job, in Redis";
        say(size, what);
        let redis = self.start(Log::None)?;
        let store = self.runtime.block_on(Ours::open(&redis))?;
        let ours = self.bytes_a_job(&redis, &store, size)?;
        drop(store);
        let redis = self.start(Log::None)?;
        let scripts = self.runtime.block_on(Raw::open(&redis))?;
        let raw = self.bytes_a_job(&redis, &scripts, size)?;
        let row = Row::new(size, what, Unit::Bytes, Spread::one(ours));
        self.take_down(row.beside(Some(Spread::one(raw)), None));
        Ok(())
    }

    fn bytes_a_job(&self, redis: &Redis, to: &impl Moves, size: u64) -> Result<f64> {
        let used = || self.runtime.block_on(redis.used_memory());
        let before = used()?;
        self.add_all(to, 0, size, Due::InADay);
        Ok(used()?.saturating_sub(before) as f64 / size as f64)
    }
}
