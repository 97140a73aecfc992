//! How work is pushed out.

mod address;
mod dial;
mod grpc;
mod headers;
mod webhook;

use std::sync::Arc;

use linger::queue::Delivery;
use linger::worker::{Outcome, Worker};

use crate::config::Webhooks;
use crate::secrets::Secrets;
use grpc::Grpc;
use webhook::Webhook;

/// Pushes jobs to wherever their targets say.
pub(crate) struct Sinks {
    webhook: Webhook,
    grpc: Grpc,
}

impl Sinks {
    pub(crate) fn new(config: &Webhooks, secrets: Arc<Secrets>) -> anyhow::Result<Sinks> {
        let webhook = Webhook::new(config, secrets.clone())?;
        Ok(Sinks { webhook, grpc: Grpc::new(config, secrets) })
    }

    /// Takes on other settings.
    pub(crate) fn set_config(&self, config: &Webhooks) {
        self.webhook.set_config(config);
        self.grpc.set_config(config);
    }

    /// Makes one attempt.
    pub(crate) async fn push(&self, job: Delivery) -> Outcome {
        let target = job.target.as_ref().map_or("", |target| target.as_str());
        match target.split_once(':') {
            Some(("http" | "https", _)) => self.webhook.work(job).await,
            Some(("grpc", _)) => self.grpc.work(job).await,
            _ => Outcome::failed(format!("nothing pushes to `{target}` yet")),
        }
    }
}
