//! Kafka: one process, broker and controller.

use std::path::Path;
use std::process::{Command, Stdio};

use rskafka::client::ClientBuilder;
use rskafka::client::partition::{OffsetAt, PartitionClient, UnknownTopicHandling};

use super::{Broker, PLACE};
use crate::Result;
use crate::server::{Server, free_port};

const PARTITIONS: i32 = 3;
const CREATE_MAX_MS: i32 = 10_000;

pub(crate) struct Kafka {
    server: Server,
    partitions: Vec<PartitionClient>,
    /// What was there when it was emptied: records cannot be taken away.
    before: u64,
}

impl Broker for Kafka {
    const NAME: &'static str = "Kafka";
    const KIND: &'static str = "kafka";
    const ROUTE: &'static str = "topic";
    const PROGRAM: &'static str = "kafka-run-class";

    fn version(program: &Path) -> String {
        let said = Command::new(program).args(["kafka.Kafka", "--version"]).output();
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        said.unwrap_or_default()
    }

    async fn start(program: &Path, folder: &Path) -> Result<Kafka> {
        let (port, controller) = (free_port()?, free_port()?);
        std::fs::write(folder.join("server.properties"), properties(port, controller))?;
        let run = |args: &[&str]| {
            let mut command = Command::new(program);
            command.args(args).current_dir(folder).stderr(Stdio::null());
            command
        };
        let format = ["kafka.tools.StorageTool", "format", "-c", "server.properties", "-t"];
        let formatted = run(&[&format[..], &["MkU3OEVBNTcwNTJENDM2Qg"]].concat()).output()?;
        if !formatted.status.success() {
            return Err("Kafka's folder could not be made ready".into());
        }
        let server = Server::start_on(port, run(&["kafka.Kafka", "server.properties"]))?;
        let client = ClientBuilder::new(vec![server.address.to_string()]).build().await?;
        let controller = client.controller_client()?;
        controller.create_topic(PLACE, PARTITIONS, 1, CREATE_MAX_MS).await?;
        let mut partitions = Vec::new();
        for number in 0..PARTITIONS {
            // Until it has somebody who leads it.
            let wait = UnknownTopicHandling::Retry;
            partitions.push(client.partition_client(PLACE, number, wait).await?);
        }
        Ok(Kafka { server, partitions, before: 0 })
    }

    fn url(&self) -> String {
        format!("kafka://{}", self.server.address)
    }

    fn server(&self) -> &Server {
        &self.server
    }

    async fn count(&mut self) -> Result<u64> {
        Ok(self.end().await? - self.before)
    }

    async fn empty(&mut self) -> Result<()> {
        self.before = self.end().await?;
        Ok(())
    }
}

impl Kafka {
    /// All records that there ever were.
    async fn end(&self) -> Result<u64> {
        let mut end = 0;
        for partition in &self.partitions {
            end += u64::try_from(partition.get_offset(OffsetAt::Latest).await?)?;
        }
        Ok(end)
    }
}

fn properties(port: u16, controller: u16) -> String {
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:{controller},PLAINTEXT://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs=data
offsets.topic.replication.factor=1
"
    )
}
