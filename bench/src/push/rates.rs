//! Webhooks a second.

use std::time::Duration;

use linger::store::embedded::Durability;
use serde_json::json;

use super::{Bench, name_of};
use crate::Result;
use crate::report::{Budget, Row, Unit, say};
use crate::server::Server;
use crate::spread::Spread;
use crate::work::since_1970;

/// Jobs of a round.
pub(super) const JOBS: u64 = 20_000;
/// The part of what a bare loop does that is to be pushed.
pub(super) const OF_BARE_MIN: f64 = 0.6;

/// What one round came to.
struct Round {
    per_second: f64,
    cpu_us: f64,
    /// Connections that were made in it.
    connections: f64,
}

/// Several of them.
#[derive(Default)]
struct Rounds {
    per_second: Spread,
    cpu_us: Spread,
    connections: Spread,
}

impl Rounds {
    fn push(&mut self, round: Round) {
        self.per_second.push(round.per_second);
        self.cpu_us.push(round.cpu_us);
        self.connections.push(round.connections);
    }
}

impl Bench {
    pub(super) fn rates(
        &mut self,
        server: &Server,
        durability: Durability,
        connections: usize,
    ) -> Result<()> {
        let how = name_of(durability);
        let what = format!("webhooks, {how}, {connections} connections");
        if !what.contains(&self.rates_with) {
            return Ok(());
        }
        say(self.size, &what);
        let count = JOBS.min(self.effort.jobs_max);
        // The first segments are made when a store is opened; that is not what is measured here.
        self.pushed(server, count / 10)?;
        self.posted(count / 10, connections)?;
        let (mut ours, mut bare) = (Rounds::default(), Rounds::default());
        for _ in 0..self.effort.rounds {
            ours.push(self.pushed(server, count)?);
            bare.push(self.posted(count, connections)?);
        }
        let row = |what: String, unit, ours, bare| {
            Row::new(self.size, what, unit, ours).beside(Some(bare), None)
        };
        let rows = [
            row(what.clone(), Unit::PerSecond, ours.per_second, bare.per_second)
                .budget([Budget::OfPeer(0, OF_BARE_MIN)]),
            row(format!("{what}: CPU time for each"), Unit::Us, ours.cpu_us, bare.cpu_us),
            row(
                format!("{what}: connections made for {count}"),
                Unit::Count,
                ours.connections,
                bare.connections,
            ),
        ];
        rows.into_iter().for_each(|row| self.take_down(row));
        Ok(())
    }

    /// Jobs that are all due and held back, from when they are let go.
    fn pushed(&mut self, server: &Server, count: u64) -> Result<Round> {
        let to = server.address;
        let topic = self.hold(to, &self.target(), count)?;
        let begin = || self.post(to, &format!("{topic}/resume"), "{}");
        let round = self.round(server, count, begin)?;
        self.finished(to, &topic)?;
        Ok(round)
    }

    /// The same posts, by the bare loop.
    fn posted(&self, count: u64, connections: usize) -> Result<Round> {
        let wanted = json!({"to": self.target(), "count": count, "connections": connections,
            "body": self.maker.body()});
        self.round(&self.bare, count, || self.post(self.bare.address, "/", &wanted.to_string()))
    }

    fn round(&self, of: &Server, count: u64, begin: impl FnOnce() -> Result<()>) -> Result<Round> {
        // What the adds left to do is done by then, and is not counted.
        std::thread::sleep(self.effort.rate / 4);
        let (cpu, began) = (of.cpu(), since_1970());
        begin()?;
        let seen = self.seen(count)?;
        let took = Duration::from_micros(seen.last_us).saturating_sub(began);
        // The last are finished after they came.
        std::thread::sleep(self.effort.rate / 8);
        Ok(Round {
            per_second: count as f64 / took.as_secs_f64(),
            cpu_us: (of.cpu() - cpu).as_secs_f64() * 1e6 / count as f64,
            connections: seen.connections as f64,
        })
    }
}
