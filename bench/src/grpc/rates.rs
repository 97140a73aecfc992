//! Adds and hand-outs a second.

use std::net::SocketAddr;

use linger::store::embedded::Durability;
use linger_server::proto::linger as pb;
use linger_server::proto::linger::queue_client::QueueClient;

use super::client::{Work, work};
use super::{Bench, name_of};
use crate::Result;
use crate::client::{Connection, finish_of, pop_path};
use crate::load::{Driven, Limit, drive_with};
use crate::report::{Budget, Row, Unit, say};
use crate::server::Server;
use crate::spread::Spread;
use crate::work::mix;

const CONNECTIONS: [usize; 3] = [16, 64, 256];
/// Streams, and the jobs that each may have in hand.
pub(super) const STREAMS: usize = 4;
const CREDIT: u32 = 64;
/// Connections that pop and finish by HTTP.
const HTTP: usize = 64;
const DAY_S: i64 = 86_400;
/// Columns of the peers.
const ECHO: usize = 0;
const BY_HTTP: usize = 1;

impl Bench {
    pub(super) fn rates(&mut self, server: &Server, durability: Durability) -> Result<()> {
        let (how, to) = (name_of(durability), server.address);
        // The first segments are made when a store is opened; that is not what is measured here.
        let topic = self.next_topic();
        self.add(to, &topic, 64)?;
        self.empty(to, &topic)?;
        self.add(self.echo.address, &topic, 64)?;
        for connections in CONNECTIONS {
            let what = format!("add, {how}, {connections} connections");
            if !what.contains(&self.rates_with) {
                continue;
            }
            say(self.size, &what);
            let (mut ours, mut echo) = (Spread::default(), Spread::default());
            let (mut ours_us, mut echo_us) = (Spread::default(), Spread::default());
            for _ in 0..self.effort.rounds {
                let (before, topic) = (server.cpu(), self.next_topic());
                let added = self.add(to, &topic, connections)?;
                ours_us.push(added.us_of(server.cpu() - before, 1));
                ours.push(added.per_second(1));
                self.empty(to, &topic)?;
                let before = self.echo.cpu();
                let echoed = self.add(self.echo.address, &topic, connections)?;
                echo_us.push(echoed.us_of(self.echo.cpu() - before, 1));
                echo.push(echoed.per_second(1));
            }
            let budget = (connections >= 64).then_some(Budget::OfPeer(ECHO, 0.65));
            let cpu = format!("{what}: the server's CPU time for each");
            let row = Row::new(self.size, what, Unit::PerSecond, ours);
            self.take_down(row.beside(Some(echo), None).budget(budget));
            let row = Row::new(self.size, cpu, Unit::Us, ours_us);
            self.take_down(row.beside(Some(echo_us), None));
        }
        let what = format!("pop and finish by stream, {how}, {STREAMS} streams of {CREDIT} jobs");
        if what.contains(&self.rates_with) {
            say(self.size, &what);
            let (mut ours, mut echo, mut http) =
                (Spread::default(), Spread::default(), Spread::default());
            let mut ours_us = Spread::default();
            for _ in 0..self.effort.rounds {
                let before = server.cpu();
                let (rate, finished) = self.by_stream(to)?;
                ours_us.push((server.cpu() - before).as_secs_f64() * 1e6 / finished as f64);
                ours.push(rate);
                echo.push(self.by_echo()?);
                http.push(self.by_http(to)?);
            }
            let cpu = format!("{what}: the server's CPU time for each, adds included");
            let row = Row::new(self.size, what, Unit::PerSecond, ours);
            let row = row.beside_all(vec![Some(echo), Some(http)]);
            self.take_down(row.budget([Budget::OfPeer(BY_HTTP, 3.0)]));
            self.take_down(Row::new(self.size, cpu, Unit::Us, ours_us));
        }
        Ok(())
    }

    /// Adds jobs that wait, one a call and one call at a time on each connection.
    fn add(&self, to: SocketAddr, topic: &str, connections: usize) -> Result<Driven> {
        let limit = Limit { turns: self.effort.jobs_max, time: self.effort.rate };
        let (body, topic) = (self.maker.body().to_owned(), topic.to_owned());
        let clients = self.connect(to, connections)?.into_iter().map(QueueClient::new).collect();
        Ok(drive_with(&self.runtime, clients, limit, move |mut client, turn| {
            let delay = DAY_S + (mix(turn) % 9) as i64 * DAY_S;
            let delay = prost_types::Duration { seconds: delay, nanos: 0 };
            let job = pb::NewJob {
                topic: topic.clone(),
                id: format!("order-{turn:08}"),
                body: body.clone().into(),
                body_form: pb::BodyForm::Json.into(),
                when: Some(pb::new_job::When::Delay(delay)),
                ..Default::default()
            };
            async move {
                let request = pb::AddRequest { job: Some(job), ..Default::default() };
                client.add(request).await.expect("it is added");
                Some(client)
            }
        }))
    }

    /// Jobs that are due, handed out and finished by streams: how many a second, and how many.
    fn by_stream(&mut self, to: SocketAddr) -> Result<(f64, u64)> {
        let (topic, count) = (self.next_topic(), self.effort.jobs_max);
        self.add_due(to, &topic, count, r#""delay":0"#)?;
        let channels = self.connect(to, STREAMS)?;
        let wanted = Work { topic: topic.clone(), credit: CREDIT, count, time: self.effort.rate };
        let (finished, took) = work(&self.runtime, channels, wanted);
        self.empty(to, &topic)?;
        Ok((finished as f64 / took.as_secs_f64(), finished))
    }

    fn by_echo(&mut self) -> Result<f64> {
        let channels = self.connect(self.echo.address, STREAMS)?;
        let (count, time) = (self.effort.jobs_max, self.effort.rate);
        let wanted = Work { topic: "due".to_owned(), credit: CREDIT, count, time };
        let (finished, took) = work(&self.runtime, channels, wanted);
        Ok(finished as f64 / took.as_secs_f64())
    }

    fn by_http(&mut self, to: SocketAddr) -> Result<f64> {
        let count = self.effort.jobs_max / 2;
        self.add_due(to, crate::client::DUE, count, r#""delay":0"#)?;
        let connections: Result<Vec<Connection>> = self.runtime.block_on(async {
            let mut connections = Vec::new();
            for _ in 0..HTTP {
                connections.push(Connection::open(to).await?);
            }
            Ok(connections)
        });
        let limit = Limit { turns: count, time: self.effort.rate };
        let driven =
            drive_with(&self.runtime, connections?, limit, |mut connection, _| async move {
                let answer = connection.post_ok(&pop_path(), "{}").await;
                let (path, lease) = finish_of(answer)?;
                connection.post_ok(&path, &lease).await;
                Some(connection)
            });
        self.empty(to, crate::client::DUE)?;
        Ok(driven.per_second(1))
    }
}
