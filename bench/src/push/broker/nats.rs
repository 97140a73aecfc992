//! NATS, with a stream of JetStream in files.

use std::path::Path;
use std::process::{Command, Stdio};

use async_nats::jetstream::stream::{Config, Stream};

use super::{Broker, PLACE};
use crate::Result;
use crate::server::Server;

pub(crate) struct Nats {
    server: Server,
    stream: Stream,
}

impl Broker for Nats {
    const NAME: &'static str = "NATS";
    const KIND: &'static str = "nats";
    const ROUTE: &'static str = "subject";
    const PROGRAM: &'static str = "nats-server";

    async fn start(program: &Path, folder: &Path) -> Result<Nats> {
        let server = Server::start_at(|port| {
            let mut command = Command::new(program);
            command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]).arg(folder);
            command.stderr(Stdio::null());
            command
        })?;
        let client = async_nats::connect(format!("nats://{}", server.address)).await?;
        let config =
            Config { name: PLACE.into(), subjects: vec![PLACE.into()], ..Default::default() };
        let context = async_nats::jetstream::new(client);
        let stream = super::until_ready(|| context.create_stream(config.clone())).await?;
        Ok(Nats { server, stream })
    }

    fn url(&self) -> String {
        format!("nats://{}", self.server.address)
    }

    fn server(&self) -> &Server {
        &self.server
    }

    async fn count(&mut self) -> Result<u64> {
        Ok(self.stream.get_info().await?.state.messages)
    }

    async fn empty(&mut self) -> Result<()> {
        self.stream.purge().await?;
        Ok(())
    }
}
