//! RabbitMQ, with a queue that lasts.

#[path = "../../../../server/tests/push/broker/rabbitmq_env.rs"]
mod env;

use std::path::Path;
use std::process::{Command, Stdio};

use lapin::options::{QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};

use super::{Broker, PLACE};
use crate::server::{Server, free_port};
use crate::{Result, tools};
use env::Ports;

pub(crate) struct RabbitMq {
    server: Server,
    channel: Channel,
    _connection: Connection,
    /// Erlang's port mapper: it would start one that never ends.
    _epmd: Server,
}

impl Broker for RabbitMq {
    const NAME: &'static str = "RabbitMQ";
    const KIND: &'static str = "rabbitmq";
    const ROUTE: &'static str = "routing_key";
    const PROGRAM: &'static str = "rabbitmq-server";

    /// It tells nobody who does not log in.
    fn version(_: &Path) -> String {
        "installed".into()
    }

    async fn start(program: &Path, folder: &Path) -> Result<RabbitMq> {
        let Served { server, epmd } = serve(program, folder, free_port()?, "")?;
        let url = url(&server);
        let connect = || Connection::connect(&url, ConnectionProperties::default());
        let connection = super::until_ready(connect).await?;
        let channel = connection.create_channel().await?;
        let broker = RabbitMq { server, channel, _connection: connection, _epmd: epmd };
        broker.declare(QueueDeclareOptions { durable: true, ..Default::default() }).await?;
        Ok(broker)
    }

    fn url(&self) -> String {
        url(&self.server)
    }

    fn server(&self) -> &Server {
        &self.server
    }

    async fn count(&mut self) -> Result<u64> {
        self.declare(QueueDeclareOptions { passive: true, ..Default::default() }).await
    }

    async fn empty(&mut self) -> Result<()> {
        self.channel.queue_purge(PLACE.into(), QueuePurgeOptions::default()).await?;
        Ok(())
    }
}

impl RabbitMq {
    /// Declares the queue; answers what is in it.
    async fn declare(&self, options: QueueDeclareOptions) -> Result<u64> {
        let queue = self.channel.queue_declare(PLACE.into(), options, FieldTable::default());
        Ok(queue.await?.message_count().into())
    }
}

/// A RabbitMQ that listens, though it may not answer yet.
pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) epmd: Server,
}

/// Starts one in a folder, at a port, with some settings of its own. Its data is found again at the same
/// port only.
pub(crate) fn serve(program: &Path, folder: &Path, port: u16, settings: &str) -> Result<Served> {
    let epmd = tools::find("epmd").ok_or("RabbitMQ needs epmd, which was not found")?;
    let epmd = Server::start_at(|port| {
        let mut command = Command::new(epmd);
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
        // It does not like to be asked whether it listens.
        command.stderr(Stdio::null());
        command
    })?;
    let ports = Ports { broker: port, epmd: epmd.address.port(), between: free_port()? };
    std::fs::write(folder.join("plugins"), "[].")?;
    let conf = format!("listeners.tcp.1 = 127.0.0.1:{port}\nlog.file = false\n{settings}");
    std::fs::write(folder.join("rabbitmq.conf"), conf)?;
    let mut command = Command::new(program);
    // It has scripts around it, which would outlive it or be outlived.
    command.env("RUNNING_UNDER_SYSTEMD", "1").envs(env::of(folder, ports));
    command.stderr(Stdio::null());
    Ok(Served { server: Server::start_on(port, command)?, epmd })
}

fn url(server: &Server) -> String {
    format!("amqp://guest:guest@{}", server.address)
}
