//! Adds, hand-outs and deletes a second.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linger::store::embedded::Durability;

use super::{Bench, TOPICS, id, topic, waiting};
use crate::Result;
use crate::client::{DUE, finish_of, pop_path};
use crate::load::{Driven, Limit, drive_with};
use crate::report::{Budget, Row, Unit, say};
use crate::server::Server;
use crate::spread::Spread;

/// Connections that add in hundreds, pop and finish, or delete.
const OTHERS: usize = 64;
const BATCH: u64 = 100;

impl Bench {
    pub(super) fn rates(
        &mut self,
        size: u64,
        server: &Server,
        durability: Durability,
    ) -> Result<()> {
        let how = if durability == Durability::Sync { "synced" } else { "relaxed" };
        let to = server.address;
        self.warm_up(to)?;
        let mut one_by_one = None;
        for connections in [16, 64, 256] {
            let what = format!("add, {how}, {connections} connections");
            if !what.contains(&self.rates_with) {
                continue;
            }
            say(size, &what);
            let (mut ours, mut echo) = (Spread::default(), Spread::default());
            let (mut ours_us, mut echo_us) = (Spread::default(), Spread::default());
            for _ in 0..self.effort.rounds {
                let (before, round) = (server.cpu(), self.next_round());
                let added = self.add(to, round, connections, 1)?;
                ours_us.push(added.us_of(server.cpu() - before, 1));
                ours.push(added.per_second(1));
                self.empty(to, round)?;
                let before = self.echo.cpu();
                let echoed = self.echoes(connections)?;
                echo_us.push(echoed.us_of(self.echo.cpu() - before, 1));
                echo.push(echoed.per_second(1));
            }
            if connections == OTHERS {
                one_by_one = Some(ours.clone());
            }
            let budget = match (durability, connections) {
                (_, 16) => None,
                (Durability::Sync, 64) => Some(Budget::OfPeer(0, 0.65)),
                (Durability::Sync, _) => Some(Budget::OfPeer(0, 0.75)),
                (Durability::Relaxed, _) => Some(Budget::OfPeer(0, 0.85)),
            };
            let cpu = format!("{what}: the server's CPU time for each");
            self.take_down(rate(size, what, ours).beside(Some(echo), None).budget(budget));
            self.take_down(Row::new(size, cpu, Unit::Us, ours_us).beside(Some(echo_us), None));
        }
        let what = format!("add, {how}, {OTHERS} connections in {BATCH}s");
        if what.contains(&self.rates_with) {
            say(size, &what);
            let mut ours = Spread::default();
            for _ in 0..self.effort.rounds {
                ours.push(self.add_and_empty(to, OTHERS, BATCH)?);
            }
            let against = one_by_one.map(|one| ours.middle() / one.middle());
            self.take_down(rate(size, what, ours));
            if let Some(times) = against {
                let what = format!("in {BATCH}s against one by one, {how}");
                let row = Row::new(size, what, Unit::Times, Spread::one(times));
                let budget = (durability == Durability::Sync).then_some(Budget::AtLeast(6.0));
                self.take_down(row.budget(budget));
            }
        }
        let what = format!("pop and finish, {how}, {OTHERS} connections");
        if what.contains(&self.rates_with) {
            say(size, &what);
            let (mut ours, mut echo) = (Spread::default(), Spread::default());
            for _ in 0..self.effort.rounds {
                ours.push(self.pop_and_finish(to)?);
                // Two requests a job.
                echo.push(self.echoes(OTHERS)?.per_second(1) / 2.0);
            }
            let budget = (durability == Durability::Sync).then_some(Budget::OfPeer(0, 0.65));
            self.take_down(rate(size, what, ours).beside(Some(echo), None).budget(budget));
        }
        let what = format!("delete by id, {how}, {OTHERS} connections");
        if what.contains(&self.rates_with) {
            say(size, &what);
            let (mut ours, mut echo) = (Spread::default(), Spread::default());
            for _ in 0..self.effort.rounds {
                ours.push(self.delete_by_id(to)?);
                echo.push(self.echoes(OTHERS)?.per_second(1));
            }
            self.take_down(rate(size, what, ours).beside(Some(echo), None));
        }
        Ok(())
    }

    /// The first segments are made when a store is opened; that is not what is measured here.
    fn warm_up(&mut self, to: SocketAddr) -> Result<()> {
        self.add_and_empty(to, OTHERS, 1)?;
        self.echoes(OTHERS)?;
        Ok(())
    }

    fn limit(&self, per_turn: u64) -> Limit {
        Limit { turns: self.effort.jobs_max / per_turn, time: self.effort.rate }
    }

    /// Adds jobs that wait, and takes them away again; answers how many a second were added.
    fn add_and_empty(&mut self, to: SocketAddr, connections: usize, batch: u64) -> Result<f64> {
        let round = self.next_round();
        let driven = self.add(to, round, connections, batch)?;
        self.empty(to, round)?;
        Ok(driven.per_second(batch))
    }

    fn add(&self, to: SocketAddr, round: u64, connections: usize, batch: u64) -> Result<Driven> {
        let body: Arc<str> = self.maker.body().into();
        let limit = self.limit(batch);
        let connections = self.connect(to, connections)?;
        Ok(drive_with(&self.runtime, connections, limit, move |mut connection, turn| {
            let body = body.clone();
            async move {
                if batch == 1 {
                    connection.post_ok("/v1/jobs", &waiting(&body, round, turn)).await;
                } else {
                    let from = turn * batch;
                    let jobs: Vec<String> =
                        (from..from + batch).map(|n| waiting(&body, round, n)).collect();
                    let answer =
                        connection.post_ok("/v1/jobs", &format!("[{}]", jobs.join(","))).await;
                    assert!(!answer.contains(r#""error""#), "{answer}");
                }
                Some(connection)
            }
        }))
    }

    fn echoes(&self, connections: usize) -> Result<Driven> {
        let body: Arc<str> = self.maker.body().into();
        let connections = self.connect(self.echo.address, connections)?;
        Ok(drive_with(&self.runtime, connections, self.limit(1), move |mut to, turn| {
            let body = body.clone();
            async move {
                to.post_ok("/v1/jobs", &waiting(&body, 0, turn)).await;
                Some(to)
            }
        }))
    }

    /// Empties a round's topics, and lets the server put away what that leaves to do.
    fn empty(&self, to: SocketAddr, round: u64) -> Result<()> {
        let mut connections = self.connect(to, 1)?;
        let connection = &mut connections[0];
        self.runtime.block_on(async {
            for n in 0..TOPICS {
                let path = format!("/v1/topics/{}/empty", topic(round, n));
                // In a short round there may be none that was added to.
                let status = connection.post(&path, "{}").await.status;
                assert!(status < 300 || status == 404, "{path}: {status}");
            }
        });
        std::thread::sleep(self.effort.rate / 4);
        Ok(())
    }

    fn pop_and_finish(&mut self, to: SocketAddr) -> Result<f64> {
        let count = self.effort.jobs_max / 2;
        self.add_due(to, count, |n| (id(n), r#""delay":0"#.into()))?;
        let limit = Limit { turns: count, time: self.effort.rate };
        let rate = self.pop_all(to, limit)?.per_second(1);
        self.pop_all(to, Limit { turns: count, time: Duration::MAX })?;
        Ok(rate)
    }

    /// Adds jobs that are due at set times: each has an id and a due time, as a JSON field.
    pub(super) fn add_due(
        &self,
        to: SocketAddr,
        count: u64,
        job: impl Fn(u64) -> (String, String),
    ) -> Result<()> {
        let (mut connections, body) = (self.connect(to, 1)?, self.maker.body());
        let job = |n| {
            let (id, due) = job(n);
            format!(r#"{{"topic":"{DUE}","id":"{id}",{due},"body":{body}}}"#)
        };
        self.runtime.block_on(connections[0].add_all((0..count).map(job)));
        Ok(())
    }

    fn pop_all(&self, to: SocketAddr, limit: Limit) -> Result<Driven> {
        let connections = self.connect(to, OTHERS)?;
        Ok(drive_with(&self.runtime, connections, limit, |mut connection, _| async move {
            let answer = connection.post_ok(&pop_path(), "{}").await;
            let (path, lease) = finish_of(answer)?;
            connection.post_ok(&path, &lease).await;
            Some(connection)
        }))
    }

    fn delete_by_id(&mut self, to: SocketAddr) -> Result<f64> {
        let round = self.next_round();
        let added = self.add(to, round, OTHERS, BATCH)?.turns * BATCH;
        let limit = Limit { turns: added, time: self.effort.rate };
        let connections = self.connect(to, OTHERS)?;
        let driven =
            drive_with(&self.runtime, connections, limit, move |mut connection, n| async move {
                let path = format!("/v1/topics/{}/jobs/{}", topic(round, n), id(n));
                let answer = connection.call("DELETE", &path, "").await.expect("it answers");
                assert_eq!(answer.status, 200, "{}", answer.body);
                Some(connection)
            });
        self.empty(to, round)?;
        Ok(driven.per_second(1))
    }
}

fn rate(size: u64, what: String, ours: Spread) -> Row {
    Row::new(size, what, Unit::PerSecond, ours)
}
