//! A real RabbitMQ.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;

use super::process::{Process, program};
use super::rabbitmq_env::{self, Ports};
use super::{Broker, Got, certificate};
use crate::receiver::PATIENCE;
use crate::redis_servers::free_port;

/// A queue of a broker. Starting one takes seconds: most tests share it.
pub(crate) struct RabbitMq {
    port: u16,
    /// Where it speaks TLS, and its certificate.
    pub(crate) tls: (u16, PathBuf),
    pub(crate) queue: String,
    own: Option<Own>,
}

struct Own {
    process: Process,
    /// Where it speaks TLS, and its certificate.
    tls: (u16, PathBuf),
    _folder: TempDir,
}

/// Erlang's port mapper is started beside it, or it would start one that never ends.
const SCRIPT: &str = "epmd -address 127.0.0.1 -port $ERL_EPMD_PORT & after=$!; disown
    rabbitmq-server &";

impl Own {
    fn start() -> Option<Own> {
        let bin = program("rabbitmq-server")?.parent()?.to_owned();
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_owned();
        std::fs::write(home.join("plugins"), "[].").unwrap();
        let ((ca, key), tls_port) = (certificate(&home), free_port());
        let process = Process::start(SCRIPT, home.clone(), |port| {
            let conf = format!(
                "listeners.tcp.1 = 127.0.0.1:{port}\nlog.file = false\n\
                 listeners.ssl.1 = 127.0.0.1:{tls_port}\n\
                 ssl_options.certfile = {}\nssl_options.keyfile = {}\n",
                ca.display(),
                key.display()
            );
            std::fs::write(home.join("rabbitmq.conf"), conf).unwrap();
            let path = std::env::var("PATH").unwrap_or_default();
            let ports = Ports { broker: port, epmd: free_port(), between: free_port() };
            let mut env = rabbitmq_env::of(&home, ports);
            env.push(("PATH".into(), format!("{}:{path}", bin.display())));
            env
        });
        Some(Own { process, tls: (tls_port, ca), _folder: folder })
    }
}

impl RabbitMq {
    async fn at(port: u16, tls: (u16, PathBuf), own: Option<Own>) -> RabbitMq {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let queue = format!("jobs-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let broker = RabbitMq { port, tls, queue, own };
        broker.declare(&broker.queue, FieldTable::default()).await;
        broker
    }

    /// Declares a queue that lasts.
    pub(crate) async fn declare(&self, queue: &str, arguments: FieldTable) {
        let (_connection, channel) = self.channel().await;
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(queue.into(), options, arguments).await.unwrap();
    }

    /// A connection as soon as it takes any.
    async fn channel(&self) -> (Connection, Channel) {
        let connecting = async {
            loop {
                let url = format!("amqp://127.0.0.1:{}", self.port);
                if let Ok(connection) =
                    Connection::connect(&url, ConnectionProperties::default()).await
                {
                    return connection;
                }
            }
        };
        let connection = tokio::time::timeout(PATIENCE, connecting).await.expect("it answers");
        let channel = connection.create_channel().await.unwrap();
        (connection, channel)
    }
}

impl Broker for RabbitMq {
    fn settings(&self, port: u16) -> String {
        let queue = &self.queue;
        format!(
            "[sinks.events]\ntype = 'rabbitmq'\nurl = 'amqp://guest:guest@127.0.0.1:{port}'\n\
             routing_key = '{queue}'\n"
        )
    }

    fn is_ok(answer: &Value) -> bool {
        answer.is_null()
    }

    async fn start() -> Option<RabbitMq> {
        static SHARED: LazyLock<Mutex<Option<Own>>> = LazyLock::new(|| Mutex::new(Own::start()));
        let at = tokio::task::spawn_blocking(|| {
            SHARED.lock().unwrap().as_ref().map(|own| (own.process.port, own.tls.clone()))
        });
        let (port, tls) = at.await.unwrap()?;
        Some(RabbitMq::at(port, tls, None).await)
    }

    async fn start_own() -> Option<RabbitMq> {
        let own = tokio::task::spawn_blocking(Own::start).await.unwrap()?;
        Some(RabbitMq::at(own.process.port, own.tls.clone(), Some(own)).await)
    }

    fn port(&self) -> u16 {
        self.port
    }

    async fn consume(&self) -> mpsc::UnboundedReceiver<Got> {
        let (send, receive) = mpsc::unbounded_channel();
        let (connection, channel) = self.channel().await;
        let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
        let queue = self.queue.as_str().into();
        let consumer = channel.basic_consume(queue, "test".into(), options, FieldTable::default());
        let mut consumer = consumer.await.unwrap();
        tokio::spawn(async move {
            while let Some(Ok(message)) = consumer.next().await {
                let table = message.properties.headers().clone().unwrap_or_default();
                let text = |value: &AMQPValue| match value {
                    AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into(),
                    other => format!("{other:?}"),
                };
                let headers = table.inner().iter();
                let mut headers: std::collections::BTreeMap<String, String> =
                    headers.map(|(name, value)| (name.to_string(), text(value))).collect();
                let of = |property: &Option<lapin::types::ShortString>| {
                    property.as_ref().map(ToString::to_string).unwrap_or_default()
                };
                headers.insert("content-type".into(), of(message.properties.content_type()));
                headers.insert("message-id".into(), of(message.properties.message_id()));
                // Nobody may want to know any more.
                let _ = send.send(Got { headers, body: message.data.to_vec() });
            }
            drop((channel, connection));
        });
        receive
    }

    async fn stored(&self) -> Vec<String> {
        let (_connection, channel) = self.channel().await;
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let queue = self.queue.as_str().into();
        let queue = channel.queue_declare(queue, options, FieldTable::default()).await.unwrap();
        let (mut messages, mut ids) = (self.consume().await, Vec::new());
        for _ in 0..queue.message_count() {
            let next = tokio::time::timeout(PATIENCE, messages.recv()).await;
            ids.push(next.expect("it comes").expect("it listens").header("linger-job").to_owned());
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
