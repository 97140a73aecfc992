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
use axum::http::{HeaderName, HeaderValue};
use bytes::Bytes;
use linger::history::Report;
use linger::job::Confirm;
use linger::queue::Delivery;
use linger::worker::{self, Outcome};

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
    headers: Vec<(HeaderName, String)>,
    content_type: String,
    body: Bytes,
}

/// How a kind of broker is spoken to.
trait Dialect: Send + Sync + 'static {
    /// A connection on which messages can be published.
    type Line: Send + Sync + 'static;

    /// Makes a connection, or says why there is none.
    fn dial(&self) -> impl Future<Output = Result<Self::Line, String>> + Send;

    /// Whether several messages are better published together.
    const GATHERS: bool;

    /// Publishes messages of one route, and waits for the broker's word on each, which is told at
    /// once.
    fn publish(
        &self,
        line: &Self::Line,
        messages: Vec<Message>,
        tell: &mut Tell<'_>,
    ) -> impl Future<Output = ()> + Send;
}

/// What the broker said of a message: more than that it has it, if it says more.
type Said = Result<Option<String>, Fault>;

/// Hears what became of a message, by its place among those that are published.
type Tell<'a> = dyn FnMut(usize, Said) + Send + 'a;

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

type Publishing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A broker of whatever kind.
trait Publish: Send + Sync {
    fn gathers(&self) -> bool;

    fn publish<'a>(&'a self, messages: Vec<Message>, tell: &'a mut Tell<'_>) -> Publishing<'a>;
}

impl<D: Dialect> Publish for Link<D> {
    fn gathers(&self) -> bool {
        D::GATHERS
    }

    fn publish<'a>(&'a self, messages: Vec<Message>, tell: &'a mut Tell<'_>) -> Publishing<'a> {
        Box::pin(Link::publish(self, messages, tell))
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

    /// Whether a job is better pushed together with others of its topic and target.
    pub(crate) fn gathers(&self, job: &Delivery) -> bool {
        self.0.get(name_of(job)).is_some_and(|named| named.broker.gathers())
    }

    /// Makes one attempt. Whoever asks for it says how long it may take.
    pub(crate) async fn push(&self, job: Delivery) -> Outcome {
        let mut outcome = None;
        self.push_all(vec![job], &mut |_, said| outcome = Some(said)).await;
        outcome.expect("a broker's word, or why there is none")
    }

    /// Makes one attempt at each of some jobs of one topic and target.
    pub(crate) async fn push_all(&self, jobs: Vec<Delivery>, tell: &mut worker::Tell<'_>) {
        let Some(name) = jobs.first().map(name_of) else { return };
        let Some(named) = self.0.get(name) else {
            return (0..jobs.len()).for_each(|at| tell(at, self.unknown(name)));
        };
        let route = named.route.fill(jobs[0].topic().as_str());
        let messages = jobs.iter().map(|job| Message::of(job, &route)).collect();
        let mut hear = |at: usize, said: Said| {
            let outcome = match said {
                Ok(said) => taken(&jobs[at], said),
                Err(Fault::Refused(why)) => Outcome::failed(why),
                Err(Fault::Down(why) | Fault::Broken(why)) => Outcome::down(why),
            };
            tell(at, outcome.in_words(|error| format!("sink `{name}`: {error}")));
        };
        named.broker.publish(messages, &mut hear).await;
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

/// What the sink is called that a job goes to.
fn name_of(job: &Delivery) -> &str {
    let target = job.target.as_ref().map(|target| target.as_str()).unwrap_or_default();
    target.strip_prefix("sink:").unwrap_or(target)
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
    fn of(job: &Delivery, route: &str) -> Message {
        let id = headers::id(job);
        // Left reserved, a job is brought again if nobody finishes it: a broker that knew it again
        // would drop it, and with it the lease by which it could be finished.
        let once = match job.confirm {
            Confirm::Delivery => id.clone(),
            Confirm::Finish => format!("{id}_{}", job.job.attempt),
        };
        Message {
            route: route.to_owned(),
            key: job.id().as_str().to_owned(),
            id,
            once,
            headers: headers_of(job),
            content_type: message::content_type(job).to_owned(),
            body: message::body(job),
        }
    }

    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Names and values, as a webhook has them but for what cannot be written as text.
fn headers_of(job: &Delivery) -> Vec<(HeaderName, String)> {
    let mut headers: Vec<(HeaderName, String)> = Vec::with_capacity(8);
    headers::about(job, |name, value| {
        if !job.headers.is_empty() {
            headers.retain(|(before, _)| *before != name);
            if HeaderValue::from_str(value).is_ok_and(|value| value.to_str().is_err()) {
                return;
            }
        }
        headers.push((name, value.to_owned()));
    });
    headers
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
