//! Brokers of our own, each with a place for jobs in it.

mod kafka;
mod nats;
pub(crate) mod rabbitmq;
mod redis;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::server::Server;
use crate::{Result, tools};

pub(super) use kafka::Kafka;
pub(super) use nats::Nats;
pub(super) use rabbitmq::RabbitMq;
pub(super) use redis::Redis;

/// Where jobs go, in whatever it is that a broker keeps them in.
const PLACE: &str = "jobs";
/// A broker that listens answers within this time.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A broker that runs; it ends with this.
pub(super) trait Broker: Sized {
    /// What it is called.
    const NAME: &'static str;
    /// What settings call it, and its setting that says where jobs go.
    const KIND: &'static str;
    const ROUTE: &'static str;
    const PROGRAM: &'static str;

    /// What it says that it is.
    fn version(program: &Path) -> String {
        tools::version(program)
    }

    /// Starts one in a folder of its own, with an empty place for jobs.
    fn start(program: &Path, folder: &Path) -> impl Future<Output = Result<Self>>;

    fn url(&self) -> String;

    fn server(&self) -> &Server;

    /// How many messages it has taken since it was started, or since it was emptied.
    fn count(&mut self) -> impl Future<Output = Result<u64>>;

    /// Takes away what it has, if that can be done.
    fn empty(&mut self) -> impl Future<Output = Result<()>>;
}

/// The programs, as far as they are there.
pub(super) struct Programs {
    /// Given on the command line.
    redis: Option<PathBuf>,
}

impl Programs {
    pub(super) fn of(args: &Args) -> Programs {
        Programs { redis: args.redis.clone() }
    }

    pub(super) fn find<B: Broker>(&self) -> Option<PathBuf> {
        let given = self.redis.clone().filter(|_| B::KIND == Redis::KIND);
        given.or_else(|| tools::find(B::PROGRAM))
    }

    /// What they are, for the report.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            self.fact::<RabbitMq>(),
            self.fact::<Kafka>(),
            self.fact::<Nats>(),
            self.fact::<Redis>(),
        ]
    }

    fn fact<B: Broker>(&self) -> (&'static str, String) {
        let found = self.find::<B>();
        let missing = || format!("not found: nothing is measured with {}", B::PROGRAM);
        (B::KIND, found.map_or_else(missing, |program| B::version(&program)))
    }
}

/// The setting of the sink `events`, which leads there.
pub(super) fn setting<B: Broker>(broker: &B) -> String {
    let (kind, url, route) = (B::KIND, broker.url(), B::ROUTE);
    format!("sinks={{events={{type='{kind}',url='{url}',{route}='{PLACE}'}}}}")
}

/// Starts the bare client of a broker.
pub(super) fn bare<B: Broker>(programs: &crate::server::Programs, broker: &B) -> Result<Server> {
    programs.bare_publish(&[B::KIND, &broker.url(), PLACE])
}

/// Asks again and again until there is an answer: one that listens may not be ready yet.
pub(crate) async fn until_ready<T, E, F>(mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = std::result::Result<T, E>>,
    E: std::error::Error + Send + Sync + 'static,
{
    let start = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(why) if start.elapsed() > ANSWER_MAX => return Err(why.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
