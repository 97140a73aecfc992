//! Jobs that are published to brokers, a second.

use std::path::Path;
use std::time::{Duration, Instant};

use linger::store::embedded::Durability;
use serde_json::json;

use super::broker::{self, Broker, Kafka, Nats, RabbitMq, Redis};
use super::rates::{JOBS, OF_BARE_MIN};
use super::{ASK_EVERY, Bench, CONNECTIONS, name_of, settings};
use crate::Result;
use crate::report::{Budget, Row, Unit, say};
use crate::server::{Ports, Programs, Server};
use crate::spread::Spread;

/// A broker has all of a round within this time.
const ROUND_MAX: Duration = Duration::from_secs(120);

/// How jobs are published.
#[derive(Clone, Copy)]
struct How {
    durability: Durability,
    /// Messages that wait for the broker's word.
    at_once: usize,
}

/// What one round came to.
struct Round {
    per_second: f64,
    cpu_us: f64,
    broker_cpu_us: f64,
}

/// Several of them.
#[derive(Default)]
struct Rounds {
    per_second: Spread,
    cpu_us: Spread,
    broker_cpu_us: Spread,
}

impl Rounds {
    fn push(&mut self, round: Round) {
        self.per_second.push(round.per_second);
        self.cpu_us.push(round.cpu_us);
        self.broker_cpu_us.push(round.broker_cpu_us);
    }
}

impl How {
    const ALL: [How; 4] = [
        How { durability: Durability::Sync, at_once: CONNECTIONS[0] },
        How { durability: Durability::Sync, at_once: CONNECTIONS[1] },
        How { durability: Durability::Relaxed, at_once: CONNECTIONS[0] },
        How { durability: Durability::Relaxed, at_once: CONNECTIONS[1] },
    ];

    fn text<B: Broker>(self) -> String {
        format!("sink {}, {}, {} at once", B::NAME, name_of(self.durability), self.at_once)
    }
}

impl Bench {
    pub(super) fn sinks(
        &mut self,
        programs: &Programs,
        brokers: &broker::Programs,
        store: &Path,
    ) -> Result<()> {
        self.sink::<RabbitMq>(programs, brokers, store)?;
        self.sink::<Kafka>(programs, brokers, store)?;
        self.sink::<Nats>(programs, brokers, store)?;
        self.sink::<Redis>(programs, brokers, store)
    }

    /// All that is wanted of a kind of broker, which runs no longer than that takes.
    fn sink<B: Broker>(
        &mut self,
        programs: &Programs,
        brokers: &broker::Programs,
        store: &Path,
    ) -> Result<()> {
        let wanted = How::ALL.into_iter().filter(|how| how.text::<B>().contains(&self.rates_with));
        let wanted: Vec<How> = wanted.collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let Some(program) = brokers.find::<B>() else {
            say(self.size, &format!("sink {}: skipped, no {} was found", B::NAME, B::PROGRAM));
            return Ok(());
        };
        say(self.size, &format!("starting {}", B::NAME));
        let folder = tempfile::tempdir_in(&self.beside)?;
        let mut broker = self.runtime.block_on(B::start(&program, folder.path()))?;
        let bare = broker::bare(programs, &broker)?;
        for how in wanted {
            let [per_destination, concurrency] = settings(how.at_once);
            let settings = [&*per_destination, &*concurrency, &*broker::setting(&broker)];
            let server = programs.linger_with(store, how.durability, Ports::Http, &settings)?;
            self.sink_rate(&mut broker, &server, &bare, how)?;
        }
        Ok(())
    }

    fn sink_rate<B: Broker>(
        &mut self,
        broker: &mut B,
        server: &Server,
        bare: &Server,
        how: How,
    ) -> Result<()> {
        let what = how.text::<B>();
        say(self.size, &what);
        let count = JOBS.min(self.effort.jobs_max);
        // The first segments are made when a store is opened, and connections with the first jobs; a broker
        // on a virtual machine compiles what it runs in its first seconds. That is not what is measured.
        self.published(broker, server, count)?;
        self.published_bare(broker, bare, count, how.at_once)?;
        let (mut ours, mut theirs) = (Rounds::default(), Rounds::default());
        for _ in 0..self.effort.rounds {
            ours.push(self.published(broker, server, count)?);
            theirs.push(self.published_bare(broker, bare, count, how.at_once)?);
        }
        let row = |what: String, unit, ours, theirs| {
            Row::new(self.size, what, unit, ours).beside(Some(theirs), None)
        };
        let rows = [
            row(what.clone(), Unit::PerSecond, ours.per_second, theirs.per_second)
                .budget([Budget::OfPeer(0, OF_BARE_MIN)]),
            row(format!("{what}: CPU time for each"), Unit::Us, ours.cpu_us, theirs.cpu_us),
            row(
                format!("{what}: the broker's CPU time for each"),
                Unit::Us,
                ours.broker_cpu_us,
                theirs.broker_cpu_us,
            ),
        ];
        rows.into_iter().for_each(|row| self.take_down(row));
        Ok(())
    }

    /// Jobs that are all due and held back, from when they are let go.
    fn published<B: Broker>(
        &mut self,
        broker: &mut B,
        server: &Server,
        count: u64,
    ) -> Result<Round> {
        let to = server.address;
        let topic = self.hold(to, "sink:events", count)?;
        let begin = || self.post(to, &format!("{topic}/resume"), "{}");
        let round = self.brought(broker, server, count, begin)?;
        self.finished(to, &topic)?;
        Ok(round)
    }

    /// The same messages, by the bare client.
    fn published_bare<B: Broker>(
        &self,
        broker: &mut B,
        bare: &Server,
        count: u64,
        at_once: usize,
    ) -> Result<Round> {
        let wanted = json!({"count": count, "at_once": at_once, "body": self.maker.body()});
        let begin = || self.post(bare.address, "/", &wanted.to_string());
        self.brought(broker, bare, count, begin)
    }

    /// From when somebody begins until the broker has all.
    fn brought<B: Broker>(
        &self,
        broker: &mut B,
        of: &Server,
        count: u64,
        begin: impl FnOnce() -> Result<()>,
    ) -> Result<Round> {
        self.runtime.block_on(broker.empty())?;
        // What the adds left to do is done by then, and is not counted.
        std::thread::sleep(self.effort.rate / 4);
        let (cpu, broker_cpu, began) = (of.cpu(), broker.server().cpu(), Instant::now());
        begin()?;
        let took = self.runtime.block_on(until_there(broker, count, began))?;
        // The last are confirmed and finished after they came.
        std::thread::sleep(self.effort.rate / 8);
        if self.runtime.block_on(broker.count())? != count {
            return Err(format!("{} has some jobs twice", B::NAME).into());
        }
        let each_us = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        Ok(Round {
            per_second: count as f64 / took.as_secs_f64(),
            cpu_us: each_us(of.cpu() - cpu),
            broker_cpu_us: each_us(broker.server().cpu() - broker_cpu),
        })
    }
}

/// Waits until a broker has so many messages; answers how long that took since then.
async fn until_there<B: Broker>(broker: &mut B, count: u64, since: Instant) -> Result<Duration> {
    loop {
        let there = broker.count().await?;
        let took = since.elapsed();
        if there >= count {
            return Ok(took);
        }
        if took > ROUND_MAX {
            return Err(format!("{} has {there} of {count} jobs", B::NAME).into());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
