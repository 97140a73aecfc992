//! Registered workers: a job for `worker:` or `worker:APP` goes to a live instance, and to the next
//! one within the same attempt if that is down.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use linger::error::Result;
use linger::queue::{Delivery, Queue};
use linger::time::{SECOND, format_duration};
use linger::worker::{Outcome, Worker};
use tokio::time::{Instant, timeout};

use crate::registry::{AppName, Ended, Instance, Registry};
use crate::store::Store;

/// How many instances one attempt may try.
const TRIES_MAX: usize = 3;
/// Less than this is too little for an instance to answer in.
const SHARE_MIN: Duration = SECOND;

/// How an instance is called: one attempt, by whatever its url speaks.
pub(crate) trait Call: Send + Sync + 'static {
    /// Calls what is at this url with a job. It may take so long.
    fn call(
        &self,
        url: &str,
        job: &Delivery,
        within: Duration,
    ) -> impl Future<Output = Outcome> + Send;
}

/// Has jobs done by the workers of a registry.
pub(crate) struct Workers<C, S = Store> {
    registry: Arc<Registry<S>>,
    call: C,
}

impl<C: Call, S: Queue> Workers<C, S> {
    /// Has jobs done by these workers, called so.
    pub(crate) fn new(registry: Arc<Registry<S>>, call: C) -> Workers<C, S> {
        Workers { registry, call }
    }

    /// Tries one instance after the other until one is not down.
    async fn try_all(&self, instances: &[Instance], job: &Delivery) -> Outcome {
        let end = Instant::now() + job.within;
        let mut last = Outcome::not_now();
        for (tried, instance) in instances.iter().enumerate() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() && tried > 0 {
                break;
            }
            last = self.try_one(instance, job, share(left, instances.len() - tried)).await;
            if !last.is_down() {
                break;
            }
        }
        last
    }

    async fn try_one(&self, instance: &Instance, job: &Delivery, within: Duration) -> Outcome {
        let calling = self.registry.calling(&instance.id);
        let called = timeout(within, self.call.call(instance.url.as_str(), job, within)).await;
        let outcome = called.unwrap_or_else(|_| {
            Outcome::down(format!("took longer than {}", format_duration(within)))
        });
        calling.ended(match outcome.is_down() {
            true => Ended::Down(outcome.error().cloned().unwrap_or_else(|| "down".into())),
            false => Ended::Answered,
        });
        let (id, url) = (&instance.id, instance.url.without_query());
        outcome.in_words(|error| format!("worker `{id}` at {url}: {error}"))
    }
}

impl<C: Call, S: Queue> Worker for Workers<C, S> {
    async fn work(&self, job: Delivery) -> Outcome {
        let app = match app_of(&job) {
            Ok(app) => app,
            // Nobody can be registered by such a name, however long it waits.
            Err(why) => return Outcome::dead(why),
        };
        let instances = self.registry.instances(app.as_ref(), job.topic(), TRIES_MAX);
        self.try_all(&instances, &job).await
    }
}

/// The application that a job is for; none is any.
fn app_of(job: &Delivery) -> Result<Option<AppName>> {
    let target = job.target.as_ref().map(|target| target.as_str()).unwrap_or_default();
    match target.strip_prefix("worker:") {
        None | Some("") => Ok(None),
        Some(app) => app.parse().map(Some),
    }
}

/// What the next of `to_try` instances may take of the time that is left: as much as each of the
/// others, but a second if there is one.
fn share(left: Duration, to_try: usize) -> Duration {
    (left / to_try as u32).max(SHARE_MIN).min(left)
}
