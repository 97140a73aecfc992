//! Real brokers as peers: a job is brought when a consumer of the broker has it.

mod kafka;
mod nats;
pub(crate) mod process;
mod proxy;
mod rabbitmq;
mod rabbitmq_env;
mod redis;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::sync::mpsc;

use crate::client::Caller;
use crate::peer::{Answer, Brought, Peer};
use crate::receiver::PATIENCE;
use proxy::{Held, Proxy};

pub(crate) use kafka::Kafka;
pub(crate) use nats::Nats;
pub(crate) use rabbitmq::RabbitMq;
pub(crate) use redis::Redis;

/// A kind of broker, with a place in it for the jobs of one test.
pub(crate) trait Broker: Sized {
    /// The section `[sinks.events]` for it, with its heading, if it listens at this port.
    fn settings(&self, port: u16) -> String;

    /// What the history says of a job that it took.
    fn is_ok(answer: &Value) -> bool;

    /// None if there is no such program here.
    async fn start() -> Option<Self>;

    /// One that nobody shares.
    async fn start_own() -> Option<Self> {
        Self::start().await
    }

    fn port(&self) -> u16;

    /// Stands before it.
    async fn proxy(&self) -> Proxy {
        Proxy::between(0, self.port()).await
    }

    /// What is published there from now on, in the topic `order.close`.
    async fn consume(&self) -> mpsc::UnboundedReceiver<Got>;

    /// The ids of all jobs that it has, each as often as it has it. Nobody consumes them.
    async fn stored(&self) -> Vec<String>;

    /// Ends it and has it start again, with what it had confirmed.
    fn end(&mut self);
    fn start_again(&mut self);
}

/// A message that a consumer has.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// A target `sink:events`.
pub(crate) struct Sink<B> {
    messages: mpsc::UnboundedReceiver<Got>,
    proxy: Proxy,
    pub(crate) broker: B,
}

impl<B: Broker> Peer for Sink<B> {
    fn is_ok(answer: &Value) -> bool {
        B::is_ok(answer)
    }
    // No broker says so: the connection is cut.
    const TRANSIENT: &str = "the connection";
    const PERMANENT: &str = "the connection";
    const CAN_REFUSE_FOR_GOOD: bool = false;

    async fn start() -> Option<Sink<B>> {
        let broker = B::start().await?;
        let messages = broker.consume().await;
        Some(Sink { messages, proxy: broker.proxy().await, broker })
    }

    fn settings(&self) -> String {
        self.broker.settings(self.proxy.port)
    }

    async fn target(&self, _: &Caller) -> String {
        "sink:events".into()
    }

    async fn next(&mut self) -> Brought {
        let next = async { (self.messages.recv().await, self.proxy.held().await) };
        let next = tokio::time::timeout(PATIENCE, next).await;
        let (got, held) = next.expect("a message comes");
        let got = got.expect("it listens");
        let header = |name| got.header(name).to_owned();
        Brought {
            webhook_id: header("webhook-id"),
            attempt: header("linger-attempt"),
            lease: header("linger-lease"),
            answer: Box::new(|answer| answer_broker(held, answer)),
        }
    }

    fn break_next(&self) {
        self.proxy.break_next();
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

fn answer_broker(held: Held, answer: Answer) {
    match answer {
        Answer::Ok => held.let_through(),
        Answer::Transient | Answer::Permanent => drop(held),
    }
}

/// Files in a folder: a certificate for `localhost`, signed by itself, and its key.
fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (ca, key) = (folder.join("ca.pem"), folder.join("key.pem"));
    std::fs::write(&ca, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (ca, key)
}
