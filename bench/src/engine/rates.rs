//! Adds, hand-outs and deletes a second.

use std::sync::Arc;

use linger::bench_support::{Null, Safe};
use linger::queue::{Ask, Queue, Settle, Verdict};
use linger::store::Options;
use linger::store::embedded::{Durability, Embedded};

use super::Bench;
use crate::Result;
use crate::bare::{Bare, Sync, per_second};
use crate::child::{MANY, delete};
use crate::load::{Driven, Limit, drive};
use crate::report::{Budget, Row, Unit, say};
use crate::spread::Spread;
use crate::work::{Takes, now_ms};

/// So many callers, each with so many jobs a call.
#[derive(Clone, Copy)]
struct Shape {
    callers: usize,
    batch: u64,
}

const SHAPES: [Shape; 4] = [
    Shape { callers: 1, batch: 1 },
    Shape { callers: 16, batch: 1 },
    Shape { callers: 256, batch: 1 },
    Shape { callers: 16, batch: 100 },
];

/// Callers that pop and finish, or delete.
const OTHERS: usize = 64;
/// About what a move of a job takes in the log.
const MOVE_BYTES: usize = 60;

/// One figure, beside those it is compared with.
#[derive(Default)]
struct Beside {
    engine: Spread,
    null: Spread,
    bare: Spread,
}

impl Beside {
    fn row(self, size: u64, what: String, budget: Option<Budget>) -> Row {
        Row::new(size, what, Unit::PerSecond, self.engine)
            .beside(Some(self.null), Some(self.bare))
            .budget(budget)
    }
}

impl Bench {
    pub(super) fn rates(&mut self, size: u64) -> Result<()> {
        for durability in [Durability::Sync, Durability::Relaxed] {
            let store = self.open(durability)?;
            let at = self.beside.join(format!("null-{durability:?}"));
            let null = Arc::new(Null::open(&at, Options::default(), self.settings(durability))?);
            let mut bare = Bare::create(&self.beside)?;
            let how = if durability == Durability::Sync { "synced" } else { "relaxed" };
            let sync = if durability == Durability::Sync { Sync::Each } else { Sync::Never };
            self.warm_up(&store, &null);
            for shape in SHAPES {
                let what = shape.text(how);
                if !what.contains(&self.rates_with) {
                    continue;
                }
                say(size, &what);
                let budget = shape.budget(durability);
                let row = self.adds(shape, &store, &null, &mut bare, sync)?;
                self.take_down(row.row(size, what, budget));
            }
            for (what, measure) in [
                ("pop and finish", Bench::pop_and_finish as fn(&mut Bench, &_, &_, &mut _, _) -> _),
                ("delete by id", Bench::deletes),
            ] {
                let what = format!("{what}, {how}, {OTHERS} callers");
                if !what.contains(&self.rates_with) {
                    continue;
                }
                say(size, &what);
                let row: Result<Beside> = measure(self, &store, &null, &mut bare, sync);
                self.take_down(row?.row(size, what, None));
            }
        }
        Ok(())
    }

    /// The first segments are made when a store is opened; that is not what is measured here.
    fn warm_up(&mut self, store: &Arc<Embedded>, null: &Arc<Null>) {
        self.add(SHAPES[3], null);
        let (driven, from) = self.add(SHAPES[3], store);
        self.delete_all(store, from, driven.turns * SHAPES[3].batch);
        std::thread::sleep(self.effort.rate);
    }

    fn limit(&self, per_turn: u64) -> Limit {
        Limit { turns: self.effort.jobs_max / per_turn, time: self.effort.rate }
    }

    fn adds(
        &mut self,
        shape: Shape,
        store: &Arc<Embedded>,
        null: &Arc<Null>,
        bare: &mut Bare,
        sync: Sync,
    ) -> Result<Beside> {
        let mut beside = Beside::default();
        let records = shape.callers as u64 * shape.batch;
        for _ in 0..self.effort.rounds {
            let (driven, from) = self.add(shape, store);
            beside.engine.push(driven.per_second(shape.batch));
            self.delete_all(store, from, driven.turns * shape.batch);
            let (driven, _) = self.add(shape, null);
            beside.null.push(driven.per_second(shape.batch));
            let bytes = records as usize * self.record_bytes;
            beside.bare.push(per_second(&bare.write(bytes, sync, self.effort.rate / 4)?, records));
        }
        Ok(beside)
    }

    /// Adds jobs that wait; answers the number of the first.
    fn add(&mut self, shape: Shape, to: &Arc<impl Takes>) -> (Driven, u64) {
        let limit = self.limit(shape.batch);
        let from = self.numbers(self.effort.jobs_max);
        let (to, maker) = (to.clone(), self.maker.clone());
        let driven = drive(&self.runtime, shape.callers, limit, move |turn| {
            let (to, maker) = (to.clone(), maker.clone());
            async move {
                let first = from + turn * shape.batch;
                to.take((first..first + shape.batch).map(|n| maker.waiting(n)).collect()).await;
                true
            }
        });
        (driven, from)
    }

    /// Deletes jobs so that the store has its size again; the time does not matter.
    fn delete_all(&self, store: &Arc<Embedded>, from: u64, count: u64) {
        let (store, maker) = (store.clone(), self.maker.clone());
        let limit = Limit { turns: count.div_ceil(MANY), time: std::time::Duration::MAX };
        drive(&self.runtime, 4, limit, move |turn| {
            let first = from + turn * MANY;
            let gone = first..(first + MANY).min(from + count);
            let (store, maker) = (store.clone(), maker.clone());
            async move {
                let gone = gone.map(|n| delete(&maker, n)).collect();
                store.change(gone).await.expect("the store deletes");
                true
            }
        });
    }

    fn pop_and_finish(
        &mut self,
        store: &Arc<Embedded>,
        null: &Arc<Null>,
        bare: &mut Bare,
        sync: Sync,
    ) -> Result<Beside> {
        let mut beside = Beside::default();
        let count = self.effort.jobs_max / 2;
        for _ in 0..self.effort.rounds {
            self.add_due(store, count)?;
            let driven = self.pop_all(store, Limit { turns: count, time: self.effort.rate });
            beside.engine.push(driven.per_second(1));
            self.pop_all(store, Limit { turns: count, time: std::time::Duration::MAX });
            let to = null.clone();
            let limit = Limit { turns: count, time: self.effort.rate };
            let driven = drive(&self.runtime, OTHERS, limit, move |_| {
                let to = to.clone();
                async move {
                    to.append(vec![0; MOVE_BYTES], Safe::Written).await.expect("it appends");
                    to.append(Vec::new(), Safe::Durable).await.expect("it appends");
                    true
                }
            });
            beside.null.push(driven.per_second(1));
            let each = bare.write(OTHERS * MOVE_BYTES, sync, self.effort.rate / 4)?;
            beside.bare.push(per_second(&each, OTHERS as u64));
        }
        Ok(beside)
    }

    /// Adds jobs that are due at once.
    fn add_due(&mut self, store: &Arc<Embedded>, count: u64) -> Result<()> {
        let from = self.numbers(count);
        for begin in (0..count).step_by(MANY as usize) {
            let due = from + begin..from + count.min(begin + MANY);
            let jobs = due.map(|n| self.maker.due(n, now_ms())).collect();
            self.runtime.block_on(store.take(jobs));
        }
        Ok(())
    }

    fn pop_all(&self, store: &Arc<Embedded>, limit: Limit) -> Driven {
        let (store, topic) = (store.clone(), self.maker.due.clone());
        drive(&self.runtime, OTHERS, limit, move |_| {
            let (store, ask) = (store.clone(), Ask::one(topic.clone()));
            async move {
                let popped = store.pop(ask).await.expect("the store pops");
                let Some(delivery) = popped.first() else { return false };
                let done = Settle::delivery(delivery, Verdict::Finish);
                let settled = store.settle(vec![done]).await.expect("the store settles");
                assert!(settled[0].is_ok(), "not finished: {:?}", settled[0]);
                true
            }
        })
    }

    fn deletes(
        &mut self,
        store: &Arc<Embedded>,
        null: &Arc<Null>,
        bare: &mut Bare,
        sync: Sync,
    ) -> Result<Beside> {
        let mut beside = Beside::default();
        for _ in 0..self.effort.rounds {
            let (added, from) = self.add(SHAPES[3], store);
            let count = added.turns * SHAPES[3].batch;
            let limit = Limit { turns: count, time: self.effort.rate };
            let (to, maker) = (store.clone(), self.maker.clone());
            let driven = drive(&self.runtime, OTHERS, limit, move |turn| {
                let (to, gone) = (to.clone(), delete(&maker, from + turn));
                async move {
                    let deleted = to.change(vec![gone]).await.expect("the store deletes");
                    assert!(deleted[0].is_ok(), "not deleted: {:?}", deleted[0]);
                    true
                }
            });
            beside.engine.push(driven.per_second(1));
            self.delete_all(store, from + driven.turns, count - driven.turns);
            let to = null.clone();
            let driven = drive(&self.runtime, OTHERS, limit, move |_| {
                let to = to.clone();
                async move {
                    to.append(Vec::new(), Safe::Durable).await.expect("it appends");
                    true
                }
            });
            beside.null.push(driven.per_second(1));
            let each = bare.write(OTHERS * 16, sync, self.effort.rate / 4)?;
            beside.bare.push(per_second(&each, OTHERS as u64));
        }
        Ok(beside)
    }
}

impl Shape {
    fn text(self, how: &str) -> String {
        let Shape { callers, batch } = self;
        let callers = if callers == 1 { "1 caller".into() } else { format!("{callers} callers") };
        let batch = if batch == 1 { String::new() } else { format!(" in {batch}s") };
        format!("add, {how}, {callers}{batch}")
    }

    fn budget(self, durability: Durability) -> Option<Budget> {
        match (durability, self.callers, self.batch) {
            (Durability::Sync, 256, 1) => Some(Budget::OfPeer(0, 0.6)),
            (Durability::Relaxed, _, 100) => Some(Budget::OfPeer(0, 0.4)),
            _ => None,
        }
    }
}
