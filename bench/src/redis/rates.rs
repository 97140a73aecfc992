//! Adds and hand-outs a second, with the store in this process.

use std::time::Duration;

use super::moves::{Due, Moves, Ours, Raw};
use super::served::{Log, Redis};
use super::{Bench, RAW};
use crate::child::MANY;
use crate::load::{Driven, Limit, drive};
use crate::report::{Budget, Row, Unit, say};
use crate::spread::Spread;
use crate::{Result, process};

const CALLERS: [usize; 2] = [64, 256];
/// Callers that add many jobs a call, and how many.
const BATCH_CALLERS: usize = 64;
const BATCH: u64 = 100;
/// What is to be left of what bare scripts do.
const OF_RAW: f64 = 0.7;
/// Jobs added and taken before anything counts, and the number of the first.
pub(super) const WARM_UP: u64 = MANY;
const WARM_UP_FROM: u64 = 90_000_000;

/// What is done again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Adds jobs that are due in a day, so many a call.
    Add { batch: u64 },
    /// Pops a job that is due, then finishes it.
    Take,
}

/// A rate, and what each cost Redis and this process.
#[derive(Default)]
struct Figure {
    rate: Spread,
    redis_us: Spread,
    caller_us: Spread,
}

impl Bench {
    pub(super) fn rates(&mut self) -> Result<()> {
        for log in [Log::None, Log::Synced] {
            for work in [Work::Add { batch: 1 }, Work::Take] {
                for callers in CALLERS {
                    self.rate(log, work, callers)?;
                }
            }
            if log == Log::None {
                self.rate(log, Work::Add { batch: BATCH }, BATCH_CALLERS)?;
            }
        }
        Ok(())
    }

    fn rate(&mut self, log: Log, work: Work, callers: usize) -> Result<()> {
        let what = work.text(log, callers);
        if !what.contains(&self.rates_with) {
            return Ok(());
        }
        say(0, &what);
        let (mut ours, mut raw) = (Figure::default(), Figure::default());
        let mut pings = Spread::default();
        for _ in 0..self.effort.rounds {
            let redis = self.start(log)?;
            let store = self.runtime.block_on(Ours::open(&redis))?;
            ours.push(self.once(&redis, &store, work, callers));
            drop(store);
            let redis = self.start(log)?;
            let scripts = self.runtime.block_on(Raw::open(&redis))?;
            raw.push(self.once(&redis, &scripts, work, callers));
            pings.push(self.pings(&scripts, work, callers));
        }
        for (name, unit, ours, raw) in [
            ("", Unit::PerSecond, ours.rate, raw.rate),
            (": Redis's CPU time for each", Unit::Us, ours.redis_us, raw.redis_us),
            (": the callers' CPU time for each", Unit::Us, ours.caller_us, raw.caller_us),
        ] {
            let is_rate = unit == Unit::PerSecond;
            let row = Row::new(0, format!("{what}{name}"), unit, ours)
                .beside(Some(raw), is_rate.then(|| pings.clone()));
            self.take_down(row.budget(work.budget(log).filter(|_| is_rate)));
        }
        Ok(())
    }

    /// So many a second, and what each cost Redis and this process, in microseconds.
    fn once(&self, redis: &Redis, to: &impl Moves, work: Work, callers: usize) -> [f64; 3] {
        self.add_all(to, WARM_UP_FROM, WARM_UP, Due::Now);
        self.take(to, callers, Limit { turns: WARM_UP, time: Duration::MAX });
        if work == Work::Take {
            self.add_all(to, 0, self.jobs_due(), Due::Now);
        }
        let (redis_before, before) = (redis.cpu(), process::cpu());
        let driven = match work {
            Work::Add { batch } => self.add(to, callers, batch),
            Work::Take => {
                self.take(to, callers, Limit { turns: self.jobs_due(), time: self.effort.rate })
            }
        };
        let batch = work.batch();
        [
            driven.per_second(batch),
            driven.us_of(redis.cpu() - redis_before, batch),
            driven.us_of(process::cpu() - before, batch),
        ]
    }

    fn add(&self, to: &impl Moves, callers: usize, batch: u64) -> Driven {
        let limit = Limit { turns: self.effort.jobs_max / batch, time: self.effort.rate };
        let to = to.clone();
        drive(&self.runtime, callers, limit, move |turn| {
            let to = to.clone();
            async move {
                to.add(turn * batch..(turn + 1) * batch, Due::InADay).await;
                true
            }
        })
    }

    fn take(&self, to: &impl Moves, callers: usize, limit: Limit) -> Driven {
        let to = to.clone();
        drive(&self.runtime, callers, limit, move |_| {
            let to = to.clone();
            async move { to.take().await }
        })
    }

    /// The same callers, who want nothing but an answer: as many as a move has calls.
    fn pings(&self, scripts: &Raw, work: Work, callers: usize) -> f64 {
        let limit = Limit { turns: self.effort.jobs_max, time: self.effort.rate / 2 };
        let (conn, batch) = (scripts.conn.clone(), work.batch());
        let driven = drive(&self.runtime, callers, limit, move |_| {
            let mut conn = conn.clone();
            async move {
                let mut pings = ::redis::pipe();
                (0..batch).for_each(|_| _ = pings.cmd("PING"));
                pings.query_async::<()>(&mut conn).await.expect("Redis answers");
                true
            }
        });
        let calls = if work == Work::Take { 2.0 } else { 1.0 };
        driven.per_second(batch) / calls
    }

    /// Adds so many jobs, many at once, since it is not the rate that matters.
    pub(super) fn add_all(&self, to: &impl Moves, from: u64, count: u64, due: Due) {
        self.runtime.block_on(async {
            for first in (from..from + count).step_by(MANY as usize) {
                to.add(first..(first + MANY).min(from + count), due).await;
            }
        });
    }

    fn jobs_due(&self) -> u64 {
        self.effort.jobs_max / 2
    }
}

impl Figure {
    fn push(&mut self, [rate, redis_us, caller_us]: [f64; 3]) {
        self.rate.push(rate);
        self.redis_us.push(redis_us);
        self.caller_us.push(caller_us);
    }
}

impl Work {
    /// Jobs a turn.
    fn batch(self) -> u64 {
        match self {
            Work::Add { batch } => batch,
            Work::Take => 1,
        }
    }

    fn text(self, log: Log, callers: usize) -> String {
        let callers = format!("{}, {callers} callers", log.name());
        match self {
            Work::Add { batch: 1 } => format!("add, {callers}"),
            Work::Add { batch } => format!("add, {callers} in {batch}s"),
            Work::Take => format!("pop and finish, {callers}"),
        }
    }

    fn budget(self, log: Log) -> Option<Budget> {
        (log == Log::None && self.batch() == 1).then_some(Budget::OfPeer(RAW, OF_RAW))
    }
}
