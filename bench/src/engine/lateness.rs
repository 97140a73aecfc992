//! How late jobs are handed out that fall due at a steady pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use linger::queue::{Ask, Queue, Settle, Source, Verdict};
use linger::store::embedded::{Durability, Embedded};

use super::Bench;
use crate::Result;
use crate::bare::{Bare, Sync};
use crate::child::MANY;
use crate::load::histogram;
use crate::report::{lateness_rows, say};
use crate::spread::Tail;
use crate::work::{Takes, now_ms, since_1970};

const CONSUMERS: usize = 16;
/// From when the first is added to when it is due, so that all are there before.
const AHEAD_MS: u64 = 1000;

impl Bench {
    pub(super) fn lateness(&mut self, size: u64) -> Result<()> {
        let store = self.open(Durability::Sync)?;
        let mut bare = Bare::create(&self.beside)?;
        for rate in [2000, 20_000] {
            say(size, &format!("lateness at {rate} due/s"));
            let (mut tail, mut beside) = (Tail::default(), Tail::default());
            for _ in 0..self.effort.rounds {
                tail.push(&self.late(&store, rate)?);
                beside.push(&bare.write(4096, Sync::Each, self.effort.rate / 4)?);
            }
            let what = format!("lateness at {rate} due/s, {CONSUMERS} consumers");
            let rows = lateness_rows(size, &what, rate, &tail, &beside);
            rows.into_iter().for_each(|row| self.take_down(row));
        }
        Ok(())
    }

    fn late(&mut self, store: &Arc<Embedded>, rate: u64) -> Result<Histogram<u64>> {
        let count = (rate as f64 * self.effort.lateness.as_secs_f64()) as u64;
        let from = self.numbers(count);
        // Adding takes a while too.
        let start = now_ms() + AHEAD_MS + count / 50;
        let due_ms = |n: u64| start + (n * 1000).div_ceil(rate);
        for begin in (0..count).step_by(MANY as usize) {
            let slice = begin..count.min(begin + MANY);
            let jobs = slice.map(|n| self.maker.due(from + n, due_ms(n))).collect();
            self.runtime.block_on(store.take(jobs));
        }
        if now_ms() > start {
            return Err("adding took too long for lateness to mean anything".into());
        }
        let left = Arc::new(AtomicU64::new(count));
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|_| self.runtime.spawn(consume(store.clone(), self.ask(), left.clone())))
            .collect();
        let mut late_ns = histogram();
        self.runtime.block_on(async {
            for consumer in consumers {
                late_ns.add(consumer.await.expect("it does not panic")).expect("all are alike");
            }
        });
        Ok(late_ns)
    }

    fn ask(&self) -> Ask {
        let wait = Duration::from_millis(500);
        Ask {
            wait,
            from: Source::These(vec![self.maker.due.clone()]),
            ..Ask::one(self.maker.due.clone())
        }
    }
}

async fn consume(store: Arc<Embedded>, ask: Ask, left: Arc<AtomicU64>) -> Histogram<u64> {
    let mut late_ns = histogram();
    while left.load(Ordering::Relaxed) > 0 {
        for delivery in store.pop(ask.clone()).await.expect("the store pops") {
            let due = Duration::from_millis(delivery.job.due.as_ms());
            late_ns.saturating_record(since_1970().saturating_sub(due).as_nanos() as u64);
            left.fetch_sub(1, Ordering::Relaxed);
            let done = Settle::delivery(&delivery, Verdict::Finish);
            let settled = store.settle(vec![done]).await.expect("the store settles");
            assert!(settled[0].is_ok(), "not finished: {:?}", settled[0]);
        }
    }
    late_ns
}
