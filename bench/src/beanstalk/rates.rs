//! Puts, and reserves with deletes, a second.

use linger::store::embedded::Durability;

use super::client::{Due, Target};
use super::{Bench, name_of, port_of};
use crate::Result;
use crate::load::{Driven, Limit, drive_with};
use crate::report::{Budget, Row, Unit, say};
use crate::server::Server;
use crate::spread::Spread;

const CONNECTIONS: [usize; 3] = [1, 16, 64];
/// Jobs that are put by one write, where that is more than one.
const BATCH: u64 = 100;
/// Batches are put so fast that a round would be over at once: so many times as many jobs.
const BATCH_TIMES: u64 = 4;

/// What is done again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Puts jobs, so many at once.
    Put { batch: u64 },
    /// Reserves a job that is due, then deletes it.
    Take,
}

/// A rate, and what it costs the server.
#[derive(Clone, Default)]
struct Figure {
    rate: Spread,
    cpu_us: Spread,
}

impl Bench {
    pub(super) fn rates(&mut self, linger: &Server, durability: Durability) -> Result<()> {
        self.warm_up(linger)?;
        for work in [Work::Put { batch: 1 }, Work::Put { batch: BATCH }, Work::Take] {
            for connections in CONNECTIONS {
                let what = work.text(durability, connections);
                if !what.contains(&self.rates_with) {
                    continue;
                }
                say(self.size, &what);
                let (ours, peers) = self.in_turn(linger, durability, work, connections)?;
                let (rates, costs) = peers
                    .into_iter()
                    .map(|peer| peer.map(|peer| (peer.rate, peer.cpu_us)).unzip())
                    .unzip();
                let cpu = format!("{what}: the server's CPU time for each");
                let rate = Row::new(self.size, what, Unit::PerSecond, ours.rate).beside_all(rates);
                self.take_down(rate.budget(work.budgets(durability, connections)));
                self.take_down(Row::new(self.size, cpu, Unit::Us, ours.cpu_us).beside_all(costs));
            }
        }
        Ok(())
    }

    /// The first segments are made when a store is opened; that is not what is measured here.
    fn warm_up(&mut self, linger: &Server) -> Result<()> {
        let tube = self.next_tube();
        self.once(port_of(linger)?, linger, &tube, Work::Put { batch: 1 }, 64);
        self.empty(linger, &tube)
    }

    /// Linger and its peers, round by round.
    fn in_turn(
        &mut self,
        linger: &Server,
        durability: Durability,
        work: Work,
        connections: usize,
    ) -> Result<(Figure, [Option<Figure>; 3])> {
        let peers = self.programs.peers(durability);
        let mut ours = Figure::default();
        let mut theirs = peers.each_ref().map(|peer| peer.as_ref().map(|_| Figure::default()));
        for _ in 0..self.effort.rounds {
            let (tube, port) = (self.next_tube(), port_of(linger)?);
            if work == Work::Take {
                self.put_due(port, &tube, self.jobs_due());
            }
            ours.push(self.once(port, linger, &tube, work, connections));
            self.empty(linger, &tube)?;
            for (peer, figure) in peers.iter().flatten().zip(theirs.iter_mut().flatten()) {
                let running = match work {
                    Work::Put { .. } => peer.start(&self.folder)?,
                    Work::Take => peer.start_with(&self.folder, |target| {
                        self.put_due(target, &tube, self.jobs_due());
                        Ok(())
                    })?,
                };
                let server = running.server();
                figure.push(self.once(running.target, server, &tube, work, connections));
            }
        }
        Ok((ours, theirs))
    }

    /// So many a second, and what each cost the server.
    fn once(
        &self,
        target: Target,
        server: &Server,
        tube: &str,
        work: Work,
        connections: usize,
    ) -> (f64, f64) {
        let batch = if let Work::Put { batch } = work { batch } else { 1 };
        let before = server.cpu();
        let driven = match work {
            Work::Put { batch } => self.put(target, tube, batch, connections),
            Work::Take => self.take(target, tube, connections),
        };
        (driven.per_second(batch), driven.us_of(server.cpu() - before, batch))
    }

    fn put(&self, target: Target, tube: &str, batch: u64, connections: usize) -> Driven {
        let times = if batch == 1 { 1 } else { BATCH_TIMES };
        let turns = times * self.effort.jobs_max / batch;
        let limit = Limit { turns, time: self.effort.rate };
        let clients = self.connect(target, tube, connections);
        drive_with(&self.runtime, clients, limit, move |mut client, turn| async move {
            client.put(turn * batch, batch, Due::InDays).await;
            Some(client)
        })
    }

    fn take(&self, target: Target, tube: &str, connections: usize) -> Driven {
        let limit = Limit { turns: self.jobs_due(), time: self.effort.rate };
        let clients = self.connect(target, tube, connections);
        drive_with(&self.runtime, clients, limit, |mut client, _| async move {
            let taken = client.take(0).await?;
            client.finish(taken).await;
            Some(client)
        })
    }

    fn jobs_due(&self) -> u64 {
        self.effort.jobs_max / 2
    }

    /// Puts jobs that are due, as fast as it goes.
    pub(super) fn put_due(&self, target: Target, tube: &str, count: u64) {
        let mut clients = self.connect(target, tube, 1);
        self.runtime.block_on(async {
            for first in (0..count).step_by(BATCH as usize) {
                clients[0].put(first, BATCH.min(count - first), Due::Now).await;
            }
        });
    }
}

impl Figure {
    fn push(&mut self, (rate, cpu_us): (f64, f64)) {
        self.rate.push(rate);
        self.cpu_us.push(cpu_us);
    }
}

impl Work {
    fn text(self, durability: Durability, connections: usize) -> String {
        let how = name_of(durability);
        let plural = if connections == 1 { "" } else { "s" };
        let connections = format!("{how}, {connections} connection{plural}");
        match self {
            Work::Put { batch: 1 } => format!("put, {connections}"),
            Work::Put { batch } => format!("put, {connections}, {batch} at once"),
            Work::Take => format!("reserve and delete, {connections}"),
        }
    }

    /// Those of the project, by the peers' columns.
    fn budgets(self, durability: Durability, connections: usize) -> Vec<Budget> {
        let (beanstalkd, at_50_ms, redis) = (0, 1, 2);
        match (self, durability, connections) {
            (Work::Put { batch: 1 }, Durability::Sync, 64) => {
                vec![Budget::OfPeer(beanstalkd, 5.0), Budget::OfPeer(redis, 1.0)]
            }
            (Work::Put { batch: 1 }, Durability::Relaxed, 64) => {
                vec![Budget::OfPeer(beanstalkd, 0.75), Budget::OfPeer(at_50_ms, 1.0)]
            }
            (Work::Put { .. }, Durability::Relaxed, 64) => vec![Budget::OfPeer(beanstalkd, 3.0)],
            (Work::Take, Durability::Sync, 64) => vec![Budget::OfPeer(redis, 1.0)],
            _ => Vec::new(),
        }
    }
}
