//! RabbitMQ: a queue where messages wait until their time is over, which leads to the queue of those
//! that are due.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use tokio_stream::StreamExt;

use super::peer::Class;
use super::works::{Client, Due};
use crate::Result;
use crate::beanstalk::client::body;
use crate::push::broker::until_ready;
use crate::work::now_ms;

pub(super) struct Rabbit {
    channel: Channel,
    class: Class,
    /// From when jobs are taken for the first time.
    consumer: Option<Consumer>,
    _connection: Connection,
}

const DUE: &str = "orders";
const WAITING: &str = "orders.wait";
/// Messages that a consumer has in hand or on the way.
const PREFETCH: u16 = 16;
/// Delivery modes of messages.
const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;
/// One who waits for a message waits for so long.
const WAIT: Duration = Duration::from_secs(1);
const DAY_MS: u64 = 86_400_000;

/// What the server is told: publishers are not to be held up by how much waits.
pub(super) const SETTINGS: &str =
    "vm_memory_high_watermark.relative = 0.9\ndisk_free_limit.absolute = 100MB\n";

/// What it is told, for the report.
pub(super) fn settings(class: Class) -> &'static str {
    match class {
        Class::Synced => {
            "quorum queues, TTL of messages, dead-letter-strategy=at-least-once, each publish \
             confirmed, prefetch 16, vm_memory_high_watermark 0.9"
        }
        Class::Relaxed => {
            "classic queues, transient messages, TTL of messages, each publish confirmed, \
             prefetch 16, vm_memory_high_watermark 0.9"
        }
    }
}

/// Waits until it answers, and makes the queues if they are not there.
pub(super) async fn ready(address: SocketAddr, class: Class) -> Result<()> {
    let url = url(address);
    let connect = || Connection::connect(&url, ConnectionProperties::default());
    let connection = until_ready(connect).await?;
    let channel = connection.create_channel().await?;
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut due = FieldTable::default();
    let kind = if class == Class::Synced { "quorum" } else { "classic" };
    due.insert("x-queue-type".into(), text(kind));
    let mut waiting = due.clone();
    waiting.insert("x-dead-letter-exchange".into(), text(""));
    waiting.insert("x-dead-letter-routing-key".into(), text(DUE));
    if class == Class::Synced {
        waiting.insert("x-dead-letter-strategy".into(), text("at-least-once"));
        waiting.insert("x-overflow".into(), text("reject-publish"));
    }
    let lasting = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(DUE.into(), lasting, due).await?;
    channel.queue_declare(WAITING.into(), lasting, waiting).await?;
    Ok(())
}

/// What one that listens says that it is, to anybody who greets it.
pub(super) fn version(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"AMQP\x00\x00\x09\x01")?;
    let mut said = [0; 1024];
    let read = stream.read(&mut said)?;
    // A field of its properties: the name, the type, four bytes of length, and the text.
    let (name, said) = (b"version", &said[..read]);
    let at = said.windows(name.len()).position(|window| window == name);
    let text = at.map(|at| &said[at + name.len() + 5..]).unwrap_or_default();
    let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(0);
    Ok(format!("RabbitMQ {}", String::from_utf8_lossy(&text[..end])))
}

fn url(address: SocketAddr) -> String {
    format!("amqp://guest:guest@{address}")
}

impl Client for Rabbit {
    type Server = (SocketAddr, Class);
    type Taken = u64;

    async fn open(&(address, class): &Self::Server) -> Result<Rabbit> {
        let connection =
            Connection::connect(&url(address), ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        Ok(Rabbit { channel, class, consumer: None, _connection: connection })
    }

    async fn add(&mut self, numbers: Range<u64>, due: Due) -> Vec<u64> {
        let mut confirms = Vec::with_capacity((numbers.end - numbers.start) as usize);
        for n in numbers.clone() {
            confirms.push(self.publish(n, due).await);
        }
        for confirm in confirms {
            let confirmed = confirm.await.expect("it answers");
            assert!(confirmed.is_ack(), "a message was refused: {confirmed:?}");
        }
        numbers.collect()
    }

    async fn take(&mut self) -> Option<(u64, u64)> {
        if self.consumer.is_none() {
            let options = BasicConsumeOptions::default();
            let consumer =
                self.channel.basic_consume(DUE.into(), "".into(), options, FieldTable::default());
            self.consumer = Some(consumer.await.expect("there is the queue"));
        }
        let consumer = self.consumer.as_mut().expect("it was made");
        let delivery = tokio::time::timeout(WAIT, consumer.next()).await.ok()?;
        let delivery = delivery.expect("the queue stays").expect("it hands out messages");
        let due_ns = std::str::from_utf8(&delivery.data)
            .ok()
            .and_then(|body| body.split('"').nth(3)?.parse().ok());
        Some((due_ns.expect("it is in the body"), delivery.delivery_tag))
    }

    async fn finish(&mut self, taken: u64) {
        self.channel.basic_ack(taken, BasicAckOptions::default()).await.expect("it is ours");
    }

    async fn cancel(&mut self, _: u64) {}

    fn no_cancel() -> Option<&'static str> {
        Some("a message cannot be taken out by an id")
    }
}

impl Rabbit {
    /// Answers what tells that it is confirmed.
    async fn publish(&self, number: u64, due: Due) -> lapin::PublisherConfirm {
        let at_ms = due.at_ms(number);
        let (queue, ttl_ms) = match due {
            Due::Now => (DUE, None),
            Due::InADay => (WAITING, Some(DAY_MS)),
            Due::From { .. } => (WAITING, Some(at_ms.saturating_sub(now_ms()))),
        };
        let mode = if self.class == Class::Synced { PERSISTENT } else { TRANSIENT };
        let mut properties = BasicProperties::default().with_delivery_mode(mode);
        if let Some(ttl_ms) = ttl_ms {
            properties = properties.with_expiration(ttl_ms.to_string().into());
        }
        let (options, body) = (BasicPublishOptions::default(), body(at_ms * 1_000_000));
        let sent = self.channel.basic_publish(
            "".into(),
            queue.into(),
            options,
            body.as_bytes(),
            properties,
        );
        sent.await.expect("it takes messages")
    }
}
