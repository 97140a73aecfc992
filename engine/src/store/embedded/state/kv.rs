//! The key-value side, as it is logged.

use super::State;
use crate::error::Result;
use crate::queue::KvWrite;
use crate::store::embedded::batch::Tag;
use crate::store::embedded::codec::{StoredEnd, StoredKv};
use crate::time::{Now, duration_ms};

impl State {
    pub(crate) fn kv_write(&mut self, write: KvWrite, now: Now) -> Result<u64> {
        if write.value.is_some() {
            self.space.check_growth()?;
        }
        let (key, value, ttl) = (write.key.clone(), write.value.clone(), write.ttl);
        let version = self.kv.write(write, now)?;
        let end = ttl
            .map(duration_ms)
            .map(|ttl_ms| StoredEnd { at: now.time_at(now.tick.plus_ms(ttl_ms)), ttl_ms });
        let mut payload = Vec::new();
        StoredKv { key: &key, value: value.as_deref(), version, end }.encode(&mut payload);
        self.log.put(Tag::Kv, 0, &payload);
        #[cfg(any(test, feature = "testkit"))]
        self.trace.step(self.log.last_batch(), || crate::store::embedded::trace::What::Kv {
            key,
            value,
            version,
            end: ttl.map(|ttl| now.tick.plus_ms(duration_ms(ttl))),
        });
        Ok(version)
    }
}
