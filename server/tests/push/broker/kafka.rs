//! A real Kafka: one process, broker and controller.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use rskafka::client::partition::{OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::process::{Process, program};
use super::proxy::Proxy;
use super::{Broker, Got, certificate};
use crate::receiver::PATIENCE;
use crate::redis_servers::free_port;

const PARTITIONS: i32 = 3;
/// How many proxies can stand before one.
const WAYS: usize = 16;

/// A topic of a broker. Starting one takes seconds: most tests share it.
pub(crate) struct Kafka {
    port: u16,
    /// Where it speaks TLS and wants a password, and its certificate.
    pub(crate) secure: (u16, PathBuf),
    pub(crate) topic: String,
    ways: Vec<Way>,
    own: Option<Own>,
}

/// A port on which it listens, and the port of a proxy, at which it says that it does.
#[derive(Clone)]
struct Way {
    broker: u16,
    proxy: u16,
}

struct Own {
    process: Process,
    secure: (u16, PathBuf),
    ways: Vec<Way>,
    _folder: TempDir,
}

const SCRIPT: &str = "[ -d data ] || kafka-run-class kafka.tools.StorageTool format \
    -t MkU3OEVBNTcwNTJENDM2Qg -c server.properties \
    -S SCRAM-SHA-256=[name=app,password=geheim] -S SCRAM-SHA-512=[name=app,password=geheim]
    kafka-run-class kafka.Kafka server.properties &";

impl Own {
    fn start() -> Option<Own> {
        let bin = program("kafka-run-class")?.parent()?.to_owned();
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_owned();
        let ((ca, key), secure) = (certificate(&home), free_port());
        let ways: Vec<Way> =
            (0..WAYS).map(|_| Way { broker: free_port(), proxy: free_port() }).collect();
        let process = Process::start(SCRIPT, home.clone(), |port| {
            let pem = [&key, &ca].map(|file| std::fs::read_to_string(file).unwrap()).concat();
            std::fs::write(home.join("both.pem"), pem).unwrap();
            std::fs::write(home.join("server.properties"), properties(port, secure, &ways))
                .unwrap();
            let path = std::env::var("PATH").unwrap_or_default();
            vec![("PATH".into(), format!("{}:{path}", bin.display()))]
        });
        Some(Own { process, secure: (secure, ca), ways, _folder: folder })
    }
}

fn properties(port: u16, secure: u16, ways: &[Way]) -> String {
    let controller = free_port();
    let (mut listeners, mut said, mut protocols) = (String::new(), String::new(), String::new());
    for (number, way) in ways.iter().enumerate() {
        listeners += &format!(",WAY{number}://127.0.0.1:{}", way.broker);
        said += &format!(",WAY{number}://127.0.0.1:{}", way.proxy);
        protocols += &format!(",WAY{number}:PLAINTEXT");
    }
    let max = Kafka::RECORD_BYTES_MAX;
    let module = "org.apache.kafka.common.security";
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=DIRECT
listeners=CONTROLLER://127.0.0.1:{controller},DIRECT://127.0.0.1:{port},SECURE://127.0.0.1:{secure}{listeners}
advertised.listeners=DIRECT://127.0.0.1:{port},SECURE://localhost:{secure}{said}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,DIRECT:PLAINTEXT,SECURE:SASL_SSL{protocols}
ssl.keystore.type=PEM
ssl.keystore.location=both.pem
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.secure.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_app=\"geheim\";
listener.name.secure.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;
log.dirs=data
num.network.threads=1
message.max.bytes={max}
auto.create.topics.enable=true
offsets.topic.replication.factor=1
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"
    )
}

impl Kafka {
    /// What a record may have, with all that is around it.
    pub(crate) const RECORD_BYTES_MAX: usize = 100_000;

    async fn at(port: u16, secure: (u16, PathBuf), ways: Vec<Way>, own: Option<Own>) -> Kafka {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let topic = format!("jobs-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let kafka = Kafka { port, secure, topic, ways, own };
        let making = async {
            let controller = kafka.client().await.controller_client().unwrap();
            controller.create_topic(&kafka.topic, PARTITIONS, 1, 10_000).await.unwrap();
            // Until each has somebody who leads it.
            kafka.partitions().await;
        };
        tokio::time::timeout(PATIENCE, making).await.expect("it answers");
        kafka
    }

    async fn client(&self) -> Client {
        let client = ClientBuilder::new(vec![format!("127.0.0.1:{}", self.port)]).build();
        tokio::time::timeout(PATIENCE, client).await.expect("it answers").unwrap()
    }

    async fn partitions(&self) -> Vec<PartitionClient> {
        let client = self.client().await;
        let mut partitions = Vec::new();
        for number in 0..PARTITIONS {
            let topic = self.topic.as_str();
            let one = client.partition_client(topic, number, UnknownTopicHandling::Retry).await;
            partitions.push(one.unwrap());
        }
        partitions
    }

    /// Has Kafka's own producer send records with these keys.
    pub(crate) async fn produce_by_java(&self, keys: Vec<String>) {
        let mut java = tokio::process::Command::new(program("kafka-run-class").unwrap())
            .args(["org.apache.kafka.tools.ConsoleProducer", "--topic", &self.topic])
            .args(["--bootstrap-server", &format!("127.0.0.1:{}", self.port)])
            .args(["--property", "parse.key=true", "--property", "key.separator=:"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines: String = keys.iter().map(|key| format!("{key}:x\n")).collect();
        let mut stdin = java.stdin.take().unwrap();
        stdin.write_all(lines.as_bytes()).await.unwrap();
        drop(stdin);
        assert!(java.wait().await.unwrap().success());
    }
}

fn got(record: Record, partition: i32) -> Got {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let headers = record.headers.into_iter();
    let mut headers: BTreeMap<String, String> =
        headers.map(|(name, value)| (name, text(value))).collect();
    headers.insert("record-key".into(), text(record.key.unwrap_or_default()));
    headers.insert("partition".into(), partition.to_string());
    Got { headers, body: record.value.unwrap_or_default() }
}

impl Broker for Kafka {
    fn settings(&self, port: u16) -> String {
        let topic = &self.topic;
        format!(
            "[sinks.events]\ntype = 'kafka'\nurl = 'kafka://127.0.0.1:{port}'\ntopic = '{topic}'\n"
        )
    }

    fn is_ok(answer: &Value) -> bool {
        let answer = answer["excerpt"].as_str().unwrap_or_default();
        answer.starts_with("partition ") && answer.ends_with(", offset 0")
    }

    async fn start() -> Option<Kafka> {
        static SHARED: LazyLock<Mutex<Option<Own>>> = LazyLock::new(|| Mutex::new(Own::start()));
        let at = tokio::task::spawn_blocking(|| {
            let shared = SHARED.lock().unwrap();
            shared.as_ref().map(|own| (own.process.port, own.secure.clone(), own.ways.clone()))
        });
        let (port, secure, ways) = at.await.unwrap()?;
        Some(Kafka::at(port, secure, ways, None).await)
    }

    async fn start_own() -> Option<Kafka> {
        let own = tokio::task::spawn_blocking(Own::start).await.unwrap()?;
        Some(Kafka::at(own.process.port, own.secure.clone(), vec![], Some(own)).await)
    }

    fn port(&self) -> u16 {
        self.port
    }

    /// It tells clients where they shall connect: each proxy has a listener that names it.
    async fn proxy(&self) -> Proxy {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let way = &self.ways[NEXT.fetch_add(1, Ordering::Relaxed)];
        Proxy::between(way.proxy, way.broker).await
    }

    async fn consume(&self) -> mpsc::UnboundedReceiver<Got> {
        let (send, receive) = mpsc::unbounded_channel();
        for partition in self.partitions().await {
            let send = send.clone();
            tokio::spawn(async move {
                let mut offset = 0;
                // Until nobody wants to know any more.
                while !send.is_closed() {
                    let fetched = partition.fetch_records(offset, 1..10_000_000, 100).await;
                    for record in fetched.expect("it is there").0 {
                        offset = record.offset + 1;
                        let _ = send.send(got(record.record, partition.partition()));
                    }
                }
            });
        }
        receive
    }

    async fn stored(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for partition in self.partitions().await {
            let end = partition.get_offset(OffsetAt::Latest).await.unwrap();
            let mut offset = 0;
            while offset < end {
                let fetched = partition.fetch_records(offset, 1..10_000_000, 1000).await.unwrap();
                for record in fetched.0 {
                    offset = record.offset + 1;
                    ids.push(got(record.record, 0).header("linger-job").to_owned());
                }
            }
        }
        ids
    }

    fn end(&mut self) {
        self.own.as_mut().expect("nobody shares it").process.end("KILL");
    }

    fn start_again(&mut self) {
        self.own.as_mut().expect("nobody shares it").process.start_again();
    }
}
