//! How long a synced add takes while checkpoints are made and space is won back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linger::queue::Queue;
use linger::store::embedded::{Durability, Settings};

use super::Bench;
use crate::bare::Bare;
use crate::child::delete;
use crate::load::{Limit, drive};
use crate::report::{Budget, Row, Unit, say, tail_rows};
use crate::spread::{Spread, Tail};
use crate::work::{Takes, mix};
use crate::{Result, disk};

const CALLERS: usize = 64;
/// Jobs that are deleted at once, here and there, so that segments become sparse.
const CHURN: u64 = 100;

impl Bench {
    pub(super) fn stalls(&mut self, size: u64) -> Result<()> {
        say(size, "synced adds while checkpoints and compaction run");
        let settings = Settings { checkpoint_records: 50_000, ..self.settings(Durability::Sync) };
        let store = self.open_with(settings)?;
        // The first segments are made when a store is opened; that is not what is measured here.
        self.runtime.block_on(store.take(vec![self.maker.waiting(self.next)]));
        self.next += 1;
        let before = disk::taken(&self.store)?;
        let churning = Arc::new(AtomicBool::new(true));
        let churn = {
            let (store, maker, churning) = (store.clone(), self.maker.clone(), churning.clone());
            self.runtime.spawn(async move {
                let mut from = 0;
                while churning.load(Ordering::Relaxed) {
                    let gone = (from..from + CHURN).filter(|n| mix(*n) % 10 < 6);
                    let gone = gone.map(|n| delete(&maker, n % size)).collect();
                    store.change(gone).await.expect("the store deletes");
                    from += CHURN;
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
            })
        };
        let from = self.numbers(100_000_000);
        let (to, maker) = (store.clone(), self.maker.clone());
        let limit = Limit { turns: u64::MAX, time: self.effort.stalls };
        let driven = drive(&self.runtime, CALLERS, limit, move |turn| {
            let (to, job) = (to.clone(), maker.waiting(from + turn));
            async move {
                to.take(vec![job]).await;
                true
            }
        });
        churning.store(false, Ordering::Relaxed);
        self.runtime.block_on(churn)?;
        let after = disk::taken(&self.store)?;
        drop(store);
        let (mut tail, mut beside) = (Tail::default(), Tail::default());
        tail.push(&driven.turn_ns);
        let bytes = CALLERS * self.record_bytes;
        let mut bare = Bare::create(&self.beside)?;
        beside.push(&bare.write_beside(&self.beside, bytes, self.effort.stalls / 4)?);
        let what = format!("synced add under checkpoints and compaction, {CALLERS} callers");
        let [p50, p99, p999, max] = tail_rows(size, &what, &tail, Some(&beside));
        let bound = (10.0 * tail.p50.middle()).min(3.0 * beside.p999.middle());
        let p999 = p999.budget(Some(Budget::AtMost(bound)));
        let max = max.budget(Some(Budget::AtMost(100.0)));
        [p50, p99, p999, max].into_iter().for_each(|row| self.take_down(row));
        let made = after.checkpoint.saturating_sub(before.checkpoint);
        let what = "checkpoints made meanwhile";
        self.take_down(Row::new(size, what, Unit::Count, Spread::one(made as f64)));
        Ok(())
    }
}
