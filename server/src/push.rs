//! The push lane: one runner that hands what is due to the sinks.

use std::sync::Arc;
use std::time::Duration;

use linger::queue::Lane;
use linger::worker::{Limits, Runner};
use tokio::task::JoinHandle;

use crate::config::Push;
use crate::registry::Registry;
use crate::sink::{Sinks, Target};
use crate::store::Store;

/// Pushes what is due, until it is stopped.
pub(crate) struct Pushing {
    runner: Arc<Runner<Store>>,
    /// Has jobs pushed to workers that have come.
    welcoming: JoinHandle<()>,
}

impl Pushing {
    /// Begins to push what is in the store.
    pub(crate) fn start(
        store: Arc<Store>,
        registry: Arc<Registry>,
        sinks: Arc<Sinks>,
        config: &Push,
    ) -> anyhow::Result<Pushing> {
        let runner = Arc::new(Runner::new(store, Lane::Push));
        set_limits(&runner, config);
        let mut came = registry.changes();
        let worker = Target::new(sinks, registry);
        // The runner's own bound is the one that holds.
        runner.worker_for_all(worker).concurrency(usize::MAX).start()?;
        let welcoming = tokio::spawn({
            let runner = Arc::downgrade(&runner);
            async move {
                loop {
                    let destinations = came.next().await;
                    let Some(runner) = runner.upgrade() else { return };
                    destinations.iter().for_each(|destination| runner.reopen(destination));
                }
            }
        });
        Ok(Pushing { runner, welcoming })
    }

    /// What it has done.
    pub(crate) fn runner(&self) -> &Arc<Runner<Store>> {
        &self.runner
    }

    /// Takes on other settings.
    pub(crate) fn set_config(&self, config: &Push) {
        set_limits(&self.runner, config);
    }

    /// Pushes nothing more, and waits for what is under way; after `within` that is given back.
    pub(crate) async fn stop(&self, within: Duration) {
        self.welcoming.abort();
        self.runner.drain(within).await;
    }
}

fn set_limits(runner: &Runner<Store>, config: &Push) {
    let limits = Limits {
        per_destination: config.per_destination as u32,
        failures: config.failures as u32,
        pause: config.pause,
        pause_max: config.pause_max,
    };
    // Settings are within their bounds.
    let _ = runner.set_limits(limits);
    let _ = runner.concurrency(config.concurrency);
}
