//! The works, done from here by connections of whatever protocol.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::ask::{Ask, BATCH, Late, Told, Work};
use crate::Result;
use crate::child::MANY;
use crate::load::{Limit, drive_with, histogram};
use crate::work::{now_ms, since_1970};

/// When a job is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    Now,
    InADay,
    /// So many a second from then on, by their numbers; all at once if that is 0.
    From {
        start_ms: u64,
        pace: u64,
        first: u64,
    },
}

/// One connection. It panics if anything goes wrong, for then nothing measured is worth anything.
pub(super) trait Client: Sized + Send + 'static {
    /// What is called.
    type Server: Clone + Send + Sync + 'static;
    /// What finishes a job that was taken.
    type Taken: Send;
    /// Due times that are this coarse are met by adding jobs at their pace.
    const WHOLE_SECONDS: bool = false;

    fn open(server: &Self::Server) -> impl Future<Output = Result<Self>> + Send;

    /// Adds the jobs of these numbers by one call; answers what they are called there.
    fn add(&mut self, numbers: Range<u64>, due: Due) -> impl Future<Output = Vec<u64>> + Send;

    /// Takes a job, or waits for one for a second or less; answers when it was due, too, in nanoseconds since
    /// 1970.
    fn take(&mut self) -> impl Future<Output = Option<(u64, Self::Taken)>> + Send;

    fn finish(&mut self, taken: Self::Taken) -> impl Future<Output = ()> + Send;

    /// Takes away a job that waits, by what it is called.
    fn cancel(&mut self, name: u64) -> impl Future<Output = ()> + Send;

    /// Why that cannot be.
    fn no_cancel() -> Option<&'static str> {
        None
    }

    /// Stops jobs from being handed out, or has them handed out again; only with whole seconds.
    fn hold(&mut self, _held: bool) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Who does the works.
pub(super) struct Works<C: Client> {
    runtime: Runtime,
    server: C::Server,
}

/// The number of the next job, whoever it is for: servers come back with what they had.
static NEXT: AtomicU64 = AtomicU64::new(0);

const DAY_MS: u64 = 86_400_000;
/// Jobs that are to be there before anything is measured are added for so long.
const PREPARE_MAX: Duration = Duration::from_secs(4);
/// Jobs above those that are counted, so that the last of them are not fought for.
const SPARE: u64 = 2000;
/// Connections that fill, and those that warm up.
const FEW: usize = 4;
/// From when the first is added to when it is due, so that all are there before.
const AHEAD_MS: u64 = 1000;
/// Within this time consumers have asked, in all likelihood.
const ASKED: Duration = Duration::from_millis(50);

impl Due {
    /// In milliseconds since 1970.
    pub(super) fn at_ms(self, number: u64) -> u64 {
        match self {
            Due::Now => now_ms(),
            Due::InADay => now_ms() + DAY_MS,
            Due::From { start_ms, pace: 0, .. } => start_ms,
            Due::From { start_ms, pace, first } => {
                start_ms + ((number - first) * 1000).div_ceil(pace)
            }
        }
    }

    /// When the first is due.
    fn start_ms(self) -> u64 {
        if let Due::From { start_ms, .. } = self { start_ms } else { now_ms() }
    }
}

impl<C: Client> Works<C> {
    pub(super) fn new(runtime: Runtime, server: C::Server) -> Works<C> {
        Works { runtime, server }
    }

    pub(super) fn run(&self, ask: Ask) -> Result<Told> {
        match ask.work {
            Work::Add => self.add(ask, 1),
            Work::Batch => self.add(ask, BATCH),
            Work::Consume => self.consume(ask),
            Work::Round => self.round(ask),
            Work::Cancel => match C::no_cancel() {
                Some(why) => Ok(Told::Not(why.into())),
                None => self.cancel(ask),
            },
            Work::Fill => self.fill(ask.limit.turns),
            Work::Lateness(pace) => self.lateness(ask, pace),
            Work::Burst => self.burst(ask),
        }
    }

    fn connect(&self, count: usize) -> Result<Vec<C>> {
        self.runtime.block_on(async {
            let mut clients = Vec::with_capacity(count);
            for _ in 0..count {
                clients.push(C::open(&self.server).await?);
            }
            Ok(clients)
        })
    }

    /// Whatever is made when the first jobs come is not what is measured.
    fn warm_up(&self, ask: Ask) -> Result<()> {
        let limit = Limit { turns: SPARE, time: ask.limit.time / 4 };
        let (clients, first) = (self.connect(ask.at_once.min(FEW))?, numbers(SPARE));
        drive_with(&self.runtime, clients, limit, move |mut client, turn| async move {
            client.add(first + turn..first + turn + 1, Due::InADay).await;
            Some(client)
        });
        Ok(())
    }

    fn add(&self, ask: Ask, batch: u64) -> Result<Told> {
        self.warm_up(ask)?;
        let clients = self.connect(ask.at_once)?;
        let first = numbers(ask.limit.turns);
        let limit = Limit { turns: ask.limit.turns / batch, ..ask.limit };
        let driven = drive_with(&self.runtime, clients, limit, move |mut client, turn| {
            let from = first + turn * batch;
            async move {
                client.add(from..from + batch, Due::InADay).await;
                Some(client)
            }
        });
        Ok(Told::PerSecond(driven.per_second(batch)))
    }

    fn consume(&self, ask: Ask) -> Result<Told> {
        let there = self.prepare(ask.limit.turns + SPARE, Due::Now)?.len() as u64;
        let clients = self.connect(ask.at_once)?;
        let limit = Limit { turns: there.saturating_sub(SPARE).max(1), ..ask.limit };
        let driven = drive_with(&self.runtime, clients, limit, |mut client, _| async move {
            let (_, taken) = client.take().await?;
            client.finish(taken).await;
            Some(client)
        });
        Ok(Told::PerSecond(driven.per_second(1)))
    }

    /// Adds so many jobs, or as many as time allows; answers what they are called.
    fn prepare(&self, count: u64, due: Due) -> Result<Vec<u64>> {
        let mut clients = self.connect(1)?;
        let (first, start) = (numbers(count), Instant::now());
        self.runtime.block_on(async {
            let mut names = Vec::with_capacity(count as usize);
            for from in (first..first + count).step_by(MANY as usize) {
                let to = (from + MANY).min(first + count);
                names.extend(clients[0].add(from..to, due).await);
                if start.elapsed() > PREPARE_MAX {
                    break;
                }
            }
            Ok(names)
        })
    }

    fn round(&self, ask: Ask) -> Result<Told> {
        self.warm_up(ask)?;
        let (adders, workers) = (self.connect(ask.at_once)?, self.connect(ask.at_once)?);
        let (first, count) = (numbers(ask.limit.turns), ask.limit.turns);
        let (next, finished) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let start = Instant::now();
        let adders = adders.into_iter().map(|mut client| {
            let next = next.clone();
            self.runtime.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    client.add(first + number..first + number + 1, Due::Now).await;
                }
            })
        });
        let workers = workers.into_iter().map(|mut client| {
            let finished = finished.clone();
            self.runtime.spawn(async move {
                while finished.load(Ordering::Relaxed) < count {
                    let Some((_, taken)) = client.take().await else { continue };
                    client.finish(taken).await;
                    finished.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let all: Vec<JoinHandle<()>> = adders.chain(workers).collect();
        self.runtime.block_on(async {
            while start.elapsed() < ask.limit.time && finished.load(Ordering::Relaxed) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let (took, finished) = (start.elapsed(), finished.load(Ordering::Relaxed));
        self.end(all)?;
        Ok(Told::PerSecond(finished as f64 / took.as_secs_f64()))
    }

    /// Ends tasks in the midst of what they do; the server is not used any further.
    fn end(&self, all: Vec<JoinHandle<()>>) -> Result<()> {
        self.runtime.block_on(async {
            for one in all {
                one.abort();
                if let Err(wrong) = one.await
                    && wrong.is_panic()
                {
                    return Err(wrong.into());
                }
            }
            Ok(())
        })
    }

    fn cancel(&self, ask: Ask) -> Result<Told> {
        let names: Arc<[u64]> = self.prepare(ask.limit.turns, Due::InADay)?.into();
        let clients = self.connect(ask.at_once)?;
        let limit = Limit { turns: names.len() as u64, ..ask.limit };
        let driven = drive_with(&self.runtime, clients, limit, move |mut client, turn| {
            let name = names[turn as usize];
            async move {
                client.cancel(name).await;
                Some(client)
            }
        });
        Ok(Told::PerSecond(driven.per_second(1)))
    }

    fn fill(&self, count: u64) -> Result<Told> {
        let (clients, first) = (self.connect(FEW)?, numbers(count));
        let limit = Limit { turns: count.div_ceil(MANY), time: Duration::MAX };
        let driven =
            drive_with(&self.runtime, clients, limit, move |mut client, turn| async move {
                let from = first + turn * MANY;
                client.add(from..(from + MANY).min(first + count), Due::InADay).await;
                Some(client)
            });
        Ok(Told::PerSecond(count as f64 / driven.took.as_secs_f64()))
    }

    fn lateness(&self, ask: Ask, pace: u64) -> Result<Told> {
        let count = ask.limit.turns;
        let first = numbers(count);
        // Those that are added at their pace are all there a second before the first is due.
        let spread_ms = 1000 * count.div_ceil(pace);
        let lead_ms = if C::WHOLE_SECONDS { spread_ms } else { count / 20 } + AHEAD_MS;
        let due = Due::From { start_ms: now_ms() + lead_ms, pace, first };
        let mut clients = self.connect(1)?;
        if C::WHOLE_SECONDS {
            let behind = self.runtime.block_on(paced(&mut clients[0], first, count, due, lead_ms));
            if behind > Duration::from_millis(AHEAD_MS) {
                return Ok(Told::Not(format!("does not take {pace} jobs a second")));
            }
        } else {
            self.add_all(&mut clients[0], first, count, due);
        }
        if now_ms() > due.start_ms() {
            return Ok(Told::Not(format!("{count} jobs were not added in time")));
        }
        let told = self.taken(ask, due, None)?;
        Ok(told.map_or_else(Told::Not, |(late, _)| Told::Late(late)))
    }

    fn burst(&self, ask: Ask) -> Result<Told> {
        let count = ask.limit.turns;
        let first = numbers(count);
        let mut control = self.connect(1)?.remove(0);
        let held = C::WHOLE_SECONDS.then_some(());
        let due = Due::From { start_ms: now_ms() + AHEAD_MS + count / 15, pace: 0, first };
        if held.is_some() {
            self.runtime.block_on(control.hold(true));
            self.add_all(&mut control, first, count, Due::Now);
        } else {
            self.add_all(&mut control, first, count, due);
            if now_ms() > due.start_ms() {
                return Ok(Told::Not(format!("{count} jobs were not added in time")));
            }
        }
        let told = self.taken(ask, due, held.map(|()| control))?;
        Ok(told.map_or_else(Told::Not, |(_, last_ms)| Told::LastMs(last_ms)))
    }

    fn add_all(&self, client: &mut C, first: u64, count: u64, due: Due) {
        self.runtime.block_on(async {
            for from in (first..first + count).step_by(MANY as usize) {
                client.add(from..(from + MANY).min(first + count), due).await;
            }
        });
    }

    /// Has consumers take and finish all: how late they were, and when the last was gone after the
    /// first was due, or after they were let go, if they are held. Or how many were not.
    fn taken(
        &self,
        ask: Ask,
        due: Due,
        held: Option<C>,
    ) -> Result<std::result::Result<(Late, f64), String>> {
        let Limit { turns: count, time } = ask.limit;
        let tally = Arc::new(Mutex::new(Tally { late_ns: histogram(), early: 0, last: None }));
        let consumers: Vec<_> = self
            .connect(ask.at_once)?
            .into_iter()
            .map(|client| self.runtime.spawn(consumer(client, tally.clone())))
            .collect();
        let seen = || tally.lock().map_or(0, |tally| tally.late_ns.len());
        let start = self.runtime.block_on(async {
            let start = match held {
                Some(mut control) => {
                    tokio::time::sleep(ASKED).await;
                    let start = since_1970();
                    control.hold(false).await;
                    start
                }
                None => Duration::from_millis(due.start_ms()),
            };
            while seen() < count && since_1970() < start + time {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            start
        });
        self.end(consumers)?;
        let tally = tally.lock().map_err(|_| "a consumer has failed")?;
        if tally.late_ns.len() < count {
            let of = tally.late_ns.len();
            return Ok(Err(format!("only {of} of {count} within {} s", time.as_secs())));
        }
        let last = tally.last.unwrap_or_default().saturating_sub(start);
        Ok(Ok((tally.late(), last.as_secs_f64() * 1e3)))
    }
}

/// Numbers for so many jobs: the first of them.
fn numbers(count: u64) -> u64 {
    NEXT.fetch_add(count, Ordering::Relaxed)
}

/// What all consumers have seen.
struct Tally {
    late_ns: Histogram<u64>,
    early: u64,
    /// When the last was gone.
    last: Option<Duration>,
}

impl Tally {
    fn late(&self) -> Late {
        let ms = |quantile| self.late_ns.value_at_quantile(quantile) as f64 / 1e6;
        Late {
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            max_ms: self.late_ns.max() as f64 / 1e6,
            early: self.early as f64,
        }
    }
}

/// Adds each job a whole number of seconds before it is due; answers how much it was behind in the
/// end.
async fn paced<C: Client>(
    client: &mut C,
    first: u64,
    count: u64,
    due: Due,
    lead_ms: u64,
) -> Duration {
    let (mut added, mut behind_ms) = (0, 0);
    while added < count {
        let time_ms = now_ms();
        let ready = (added..count).take_while(|n| due.at_ms(first + n) - lead_ms <= time_ms);
        match ready.count() as u64 {
            0 => tokio::time::sleep(Duration::from_millis(1)).await,
            some => {
                behind_ms = time_ms.saturating_sub(due.at_ms(first + added) - lead_ms);
                client.add(first + added..first + added + some.min(MANY), due).await;
                added += some.min(MANY);
            }
        }
    }
    Duration::from_millis(behind_ms)
}

/// Takes, finishes and takes again until it is ended.
async fn consumer<C: Client>(mut client: C, tally: Arc<Mutex<Tally>>) {
    loop {
        let Some((due_ns, taken)) = client.take().await else { continue };
        let now_ns = since_1970().as_nanos() as u64;
        client.finish(taken).await;
        let mut tally = tally.lock().expect("nobody panics with it");
        tally.late_ns.saturating_record(now_ns.saturating_sub(due_ns));
        tally.early += u64::from(now_ns < due_ns);
        tally.last = Some(since_1970());
    }
}
