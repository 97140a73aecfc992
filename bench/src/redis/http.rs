//! Adds and hand-outs a second over HTTP, beside lmstfy, and BullMQ in a program of its own and behind HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use super::bullmq::Load;
use super::rates::WARM_UP;
use super::served::{Log, Redis};
use super::{BULLMQ_SERVED, Bench, LMSTFY, body, lmstfy};
use crate::Result;
use crate::client::{Connection, DUE, finish_of, pop_path};
use crate::load::{Driven, Limit, drive_with};
use crate::report::{Budget, Row, Unit, say};
use crate::server::Server;
use crate::spread::Spread;
use crate::work::id;

const CONNECTIONS: [usize; 2] = [64, 256];
const DAY_S: u64 = 86_400;
/// What is to be made of what a peer does behind HTTP.
const OF_PEER: f64 = 2.0;
/// Those that add jobs one by one which are to be there.
const FILLERS: usize = 64;

/// Whose calls a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speech {
    Linger,
    Lmstfy,
}

impl Bench {
    pub(super) fn rates_over_http(&mut self) -> Result<()> {
        for load in [Load::Add, Load::Work] {
            for connections in CONNECTIONS {
                let name = if load == Load::Add { "add" } else { "pop and finish" };
                let what = format!("{name} over HTTP, in memory, {connections} connections");
                if what.contains(&self.rates_with) {
                    say(0, &what);
                    self.rate_over_http(what, load, connections)?;
                }
            }
        }
        Ok(())
    }

    fn rate_over_http(&mut self, what: String, load: Load, connections: usize) -> Result<()> {
        let (mut ours, mut ours_us) = (Spread::default(), Spread::default());
        let mut theirs = self.bullmq.as_ref().map(|_| [Spread::default(), Spread::default()]);
        let mut lmstfys = self.lmstfy.as_ref().map(|_| Spread::default());
        let turns = self.effort.jobs_max / if load == Load::Add { 1 } else { 2 };
        let limit = Limit { turns, time: self.effort.rate };
        for _ in 0..self.effort.rounds {
            let redis = self.start(Log::None)?;
            let linger = self.linger_on(&redis, &[])?;
            let (driven, cpu) =
                self.round_over_http(&linger, Speech::Linger, load, connections, limit)?;
            ours_us.push(driven.us_of(cpu, 1));
            ours.push(driven.per_second(1));
            drop((linger, redis));
            if let (Some(bullmq), Some([alone, served])) = (&self.bullmq, &mut theirs) {
                let redis = self.start(Log::None)?;
                alone.push(bullmq.rate(&redis, load, connections, limit)?);
                drop(redis);
                let redis = self.start(Log::None)?;
                let node = bullmq.serve(&redis)?;
                let (driven, _) =
                    self.round_over_http(&node, Speech::Linger, load, connections, limit)?;
                served.push(driven.per_second(1));
            }
            if let (Some(lmstfy), Some(rates)) = (&self.lmstfy, &mut lmstfys) {
                let redis = self.start(Log::None)?;
                // It starts only on a Redis that has a log, which the others need not keep here.
                self.runtime.block_on(redis.set_log("yes"))?;
                let server = lmstfy.serve(&redis, &self.folder)?;
                self.runtime.block_on(redis.set_log("no"))?;
                let (driven, _) =
                    self.round_over_http(&server, Speech::Lmstfy, load, connections, limit)?;
                rates.push(driven.per_second(1));
            }
        }
        let cpu = format!("{what}: the server's CPU time for each");
        let (alone, served) = theirs.map(|[alone, served]| (alone, served)).unzip();
        let peers = vec![None, alone, served, lmstfys];
        let rate = Row::new(0, what, Unit::PerSecond, ours).beside_all(peers);
        let budgets = [BULLMQ_SERVED, LMSTFY].map(|peer| Budget::OfPeer(peer, OF_PEER));
        self.take_down(rate.budget(budgets));
        self.take_down(Row::new(0, cpu, Unit::Us, ours_us));
        Ok(())
    }

    /// What a server did, and its CPU time meanwhile.
    fn round_over_http(
        &self,
        server: &Server,
        speech: Speech,
        load: Load,
        connections: usize,
        limit: Limit,
    ) -> Result<(Driven, Duration)> {
        self.warm_up(server.address, speech, connections)?;
        if load == Load::Work {
            self.add_over_http(server.address, speech, limit.turns)?;
        }
        let before = server.cpu();
        let driven = self.over_http(server.address, speech, load, connections, limit)?;
        Ok((driven, server.cpu() - before))
    }

    /// Starts Linger on a Redis.
    pub(super) fn linger_on(&self, redis: &Redis, settings: &[&str]) -> Result<Server> {
        self.linger.start_on(&redis.url(), settings)
    }

    /// A server that has just started has connections and scripts to get first.
    fn warm_up(&self, to: SocketAddr, speech: Speech, connections: usize) -> Result<()> {
        self.add_over_http(to, speech, WARM_UP)?;
        let limit = Limit { turns: WARM_UP, time: Duration::MAX };
        self.over_http(to, speech, Load::Work, connections, limit)?;
        Ok(())
    }

    fn over_http(
        &self,
        to: SocketAddr,
        speech: Speech,
        load: Load,
        connections: usize,
        limit: Limit,
    ) -> Result<Driven> {
        let connections = self.connect(to, connections)?;
        Ok(match (load, speech) {
            (Load::Add, Speech::Lmstfy) => {
                drive_with(&self.runtime, connections, limit, |mut to, n| async move {
                    lmstfy::add(&mut to, n).await;
                    Some(to)
                })
            }
            (Load::Work, Speech::Lmstfy) => {
                drive_with(&self.runtime, connections, limit, |mut to, _| async move {
                    lmstfy::take(&mut to).await.then_some(to)
                })
            }
            (Load::Add, Speech::Linger) => {
                drive_with(&self.runtime, connections, limit, |mut to, n| async move {
                    to.post_ok("/v1/jobs", &job("orders", n, DAY_S)).await;
                    Some(to)
                })
            }
            (Load::Work, Speech::Linger) => {
                drive_with(&self.runtime, connections, limit, |mut to, _| async move {
                    let (path, lease) = finish_of(to.post_ok(&pop_path(), "{}").await)?;
                    to.post_ok(&path, &lease).await;
                    Some(to)
                })
            }
        })
    }

    fn add_over_http(&self, to: SocketAddr, speech: Speech, count: u64) -> Result<()> {
        if speech == Speech::Lmstfy {
            // It takes one a call.
            let (connections, limit) =
                (self.connect(to, FILLERS)?, Limit { turns: count, time: Duration::MAX });
            drive_with(&self.runtime, connections, limit, |mut to, n| async move {
                lmstfy::add_due(&mut to, n).await;
                Some(to)
            });
            return Ok(());
        }
        let mut connections = self.connect(to, 1)?;
        self.runtime.block_on(connections[0].add_all((0..count).map(|n| job(DUE, n, 0))));
        Ok(())
    }

    pub(super) fn connect(&self, to: SocketAddr, count: usize) -> Result<Vec<Connection>> {
        self.runtime.block_on(async {
            let mut connections = Vec::with_capacity(count);
            for _ in 0..count {
                connections.push(Connection::open(to).await?);
            }
            Ok(connections)
        })
    }
}

/// Job number `n`, as JSON.
fn job(topic: &str, n: u64, delay_s: u64) -> String {
    let (id, body) = (id(n), body(n));
    format!(r#"{{"topic":"{topic}","id":"{}","delay":{delay_s},"body":"{body}"}}"#, id.as_str())
}
