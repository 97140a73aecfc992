//! Redis, with a log that is synced every second.

use std::path::Path;
use std::process::Command;

use ::redis::Client;
use ::redis::aio::MultiplexedConnection;

use super::{Broker, PLACE};
use crate::Result;
use crate::server::Server;

pub(crate) struct Redis {
    server: Server,
    connection: MultiplexedConnection,
}

impl Redis {
    async fn ask<T: ::redis::FromRedisValue>(&mut self, command: &str) -> Result<T> {
        Ok(::redis::cmd(command).arg(PLACE).query_async(&mut self.connection).await?)
    }
}

impl Broker for Redis {
    const NAME: &'static str = "Redis";
    const KIND: &'static str = "redis";
    const ROUTE: &'static str = "stream";
    const PROGRAM: &'static str = "redis-server";

    async fn start(program: &Path, folder: &Path) -> Result<Redis> {
        let server = Server::start_at(|port| {
            let mut command = Command::new(program);
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
            command.arg("--dir").arg(folder).args(["--appendonly", "yes", "--save", ""]);
            // Not in the midst of a round.
            command.args(["--auto-aof-rewrite-percentage", "0"]);
            command
        })?;
        let client = Client::open(format!("redis://{}", server.address))?;
        let connection = client.get_multiplexed_async_connection().await?;
        Ok(Redis { server, connection })
    }

    fn url(&self) -> String {
        format!("redis://{}", self.server.address)
    }

    fn server(&self) -> &Server {
        &self.server
    }

    async fn count(&mut self) -> Result<u64> {
        self.ask("XLEN").await
    }

    async fn empty(&mut self) -> Result<()> {
        self.ask("DEL").await
    }
}
