//! Brokers: a job for `sink:NAME` is published, and is done with only when the broker says that it
//! has it.

#[cfg(feature = "kafka")]
mod kafka;
mod link;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod redis;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
use axum::http::HeaderMap;
use bytes::Bytes;
use linger::history::Report;
use linger::job::Confirm;
use linger::queue::Delivery;
use linger::worker::Outcome;

use super::{headers, message};
use crate::config::{Broker, Sink, Sinks, Template};
use link::Link;

/// The brokers of the settings, by their names.
pub(crate) struct Brokers(HashMap<String, Named>);

struct Named {
    route: Template,
    broker: Box<dyn Publish>,
}

/// A job as it is published.
#[cfg_attr(not(all(feature = "kafka", feature = "nats", feature = "rabbitmq")), allow(dead_code))]
struct Message {
    /// Where in the broker it goes: the routing key, stream, subject or topic.
    route: String,
    /// What the job is called: those of one key stay in order, where there is such a thing.
    key: String,
    /// The same for every attempt at an occurrence, so that a consumer knows it again.
    id: String,
    /// By what a broker itself may know it again, and drop it.
    once: String,
    headers: HeaderMap,
    content_type: String,
    body: Bytes,
}

/// How a kind of broker is spoken to.
trait Dialect: Send + Sync + 'static {
    /// A connection on which messages can be published.
    type Line: Send + Sync + 'static;

    /// Makes a connection, or says why there is none.
    fn dial(&self) -> impl Future<Output = Result<Self::Line, String>> + Send;

    /// Publishes a message, and waits for the broker's word; answers what that was, if it says more
    /// than that it has the message.
    fn publish(
        &self,
        line: &Self::Line,
        message: Message,
    ) -> impl Future<Output = Result<Option<String>, Fault>> + Send;
}

/// Why a message was not confirmed.
#[derive(Clone, Debug)]
enum Fault {
    /// The broker does not take this one; others it may.
    Refused(String),
    /// The broker takes none at present.
    Down(String),
    /// The connection is of no use any more.
    Broken(String),
}

type Publishing<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, Fault>> + Send + 'a>>;

/// A broker of whatever kind.
trait Publish: Send + Sync {
    fn publish(&self, message: Message) -> Publishing<'_>;
}

impl<D: Dialect> Publish for Link<D> {
    fn publish(&self, message: Message) -> Publishing<'_> {
        Box::pin(Link::publish(self, message))
    }
}

impl Brokers {
    /// Looks at the settings; connections are made when they are needed.
    pub(crate) fn new(sinks: &Sinks) -> anyhow::Result<Brokers> {
        // There may be two providers, of which a client that is not told takes none and panics. If
        // there is one already it is somebody's choice.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let named = sinks.iter().map(|(name, sink)| {
            let broker = of(sink).with_context(|| format!("sink `{name}` cannot be used"))?;
            Ok((name.to_owned(), Named { route: sink.route.clone(), broker }))
        });
        Ok(Brokers(named.collect::<anyhow::Result<_>>()?))
    }

    /// Makes one attempt. Whoever asks for it says how long it may take.
    pub(crate) async fn push(&self, job: Delivery) -> Outcome {
        let target = job.target.as_ref().map(|target| target.as_str()).unwrap_or_default();
        let name = target.strip_prefix("sink:").unwrap_or(target);
        let Some(named) = self.0.get(name) else { return self.unknown(name) };
        let published = named.broker.publish(Message::of(&job, &named.route)).await;
        let outcome = match published {
            Ok(said) => taken(&job, said),
            Err(Fault::Refused(why)) => Outcome::failed(why),
            Err(Fault::Down(why) | Fault::Broken(why)) => Outcome::down(why),
        };
        outcome.in_words(|error| format!("sink `{name}`: {error}"))
    }

    /// Down and not dead: a restart with other settings may bring it.
    fn unknown(&self, name: &str) -> Outcome {
        let mut known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        known.sort_unstable();
        let known = match known.is_empty() {
            true => "there are none".to_owned(),
            false => format!("there are {}", known.join(", ")),
        };
        Outcome::down(format!("no sink `{name}` is in the settings; {known}"))
    }
}

fn of(sink: &Sink) -> anyhow::Result<Box<dyn Publish>> {
    Ok(match &sink.broker {
        #[cfg(feature = "rabbitmq")]
        Broker::RabbitMq { exchange } => {
            Box::new(Link::new(rabbitmq::RabbitMq::new(sink, exchange)?))
        }
        Broker::Redis { length } => Box::new(Link::new(redis::Redis::new(sink, *length)?)),
        #[cfg(feature = "nats")]
        Broker::Nats => Box::new(Link::new(nats::Nats::new(sink)?)),
        #[cfg(feature = "kafka")]
        Broker::Kafka { sasl } => Box::new(Link::new(kafka::Kafka::new(sink, *sasl)?)),
        #[allow(unreachable_patterns, reason = "with every feature there are no others")]
        other => anyhow::bail!("this program was built without {other:?}"),
    })
}

impl Message {
    fn of(job: &Delivery, route: &Template) -> Message {
        let id = headers::id(job);
        // Left reserved, a job is brought again if nobody finishes it: a broker that knew it again
        // would drop it, and with it the lease by which it could be finished.
        let once = match job.confirm {
            Confirm::Delivery => id.clone(),
            Confirm::Finish => format!("{id}_{}", job.job.attempt),
        };
        Message {
            route: route.fill(job.topic().as_str()),
            key: job.id().as_str().to_owned(),
            id,
            once,
            headers: headers::about(job),
            content_type: message::content_type(job).to_owned(),
            body: message::body(job),
        }
    }

    /// Names and values, what cannot be written as text left out.
    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.headers.iter();
        headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }
}

fn taken(job: &Delivery, said: Option<String>) -> Outcome {
    let outcome = match job.confirm {
        Confirm::Delivery => Outcome::done(),
        Confirm::Finish => Outcome::leave(),
    };
    match said {
        Some(said) => outcome.report(Report { status: None, excerpt: Some(Arc::from(said)) }),
        None => outcome,
    }
}
