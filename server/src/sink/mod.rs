//! How work is pushed out: each sink is a worker.

mod address;
mod broker;
mod dial;
mod grpc;
mod headers;
mod message;
mod webhook;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use linger::queue::Delivery;
use linger::worker::{Outcome, Tell, Worker};

use crate::config::{Config, Webhooks};
use crate::registry::Registry;
use crate::secrets::Secrets;
use broker::Brokers;
use grpc::Grpc;
use webhook::Webhook;
pub(crate) use webhook::{HttpClient, http_client};
use workers::{Call, Workers};

/// Those that call by a URL, and the brokers.
pub(crate) struct Sinks {
    webhook: Webhook,
    grpc: Grpc,
    brokers: Brokers,
}

/// Pushes jobs to wherever their targets say.
pub(crate) struct Target {
    sinks: Arc<Sinks>,
    workers: Workers<Arc<Sinks>>,
}

impl Sinks {
    pub(crate) fn new(config: &Config, secrets: Arc<Secrets>) -> anyhow::Result<Sinks> {
        let webhook = Webhook::new(&config.webhooks, secrets.clone())?;
        let grpc = Grpc::new(&config.webhooks, secrets);
        Ok(Sinks { webhook, grpc, brokers: Brokers::new(&config.sinks)? })
    }

    /// Takes on other settings.
    pub(crate) fn set_config(&self, config: &Webhooks) {
        self.webhook.set_config(config);
        self.grpc.set_config(config);
    }
}

impl Call for Arc<Sinks> {
    async fn call(&self, url: &str, job: &Delivery, within: Duration) -> Outcome {
        match url.split_once(':') {
            Some(("http" | "https", _)) => self.webhook.post(url, job).await,
            // Apart, so that those who post need not carry what this takes.
            Some(("grpc", _)) => Box::pin(self.grpc.call(url, job, within)).await,
            _ => Outcome::failed(format_args!("nothing pushes to `{url}`")),
        }
    }
}

impl Target {
    pub(crate) fn new(sinks: Arc<Sinks>, registry: Arc<Registry>) -> Target {
        Target { workers: Workers::new(registry, sinks.clone()), sinks }
    }
}

impl Worker for Target {
    async fn work(&self, job: Delivery) -> Outcome {
        let target = job.target.clone();
        match target.as_ref().map_or("", |target| target.as_str()) {
            to if to.starts_with("worker:") => Box::pin(self.workers.work(job)).await,
            to if to.starts_with("sink:") => Box::pin(self.sinks.brokers.push(job)).await,
            to => self.sinks.call(to, &job, job.within).await,
        }
    }

    fn gathers(&self, job: &Delivery) -> bool {
        let to = job.target.as_ref().map_or("", |target| target.as_str());
        to.starts_with("sink:") && self.sinks.brokers.gathers(job)
    }

    async fn work_all(&self, jobs: Vec<Delivery>, tell: &mut Tell<'_>) {
        self.sinks.brokers.push_all(jobs, tell).await;
    }
}
