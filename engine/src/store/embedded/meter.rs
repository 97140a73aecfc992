//! What the store measures about its disk.

use std::sync::atomic::{AtomicU64, Ordering};

use super::call::Embedded;
use crate::error::Result;
use crate::stats::{BOUNDS_US, Lateness, Sizes};

/// What the embedded store has measured since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// How long syncing the log took, each time.
    pub syncs: Lateness,
    /// How many records lay in each batch that was written.
    pub batches: Sizes,
    /// Bytes of records appended to the log.
    pub appended_bytes: u64,
    /// Bytes that the log's segments take on disk, those of survivors included.
    pub log_bytes: u64,
    /// Bytes in them that are still wanted.
    pub live_bytes: u64,
    /// Bytes that checkpoints take on disk.
    pub checkpoint_bytes: u64,
    /// Whether the disk is too full for new jobs.
    pub full: bool,
    /// Bytes that are free on the disk, once that was looked at: now and then.
    pub free_bytes: Option<u64>,
}

impl Embedded {
    /// What the store has measured about its disk.
    pub async fn measured(&self) -> Result<Measured> {
        let decider = self.shared.look(|state, _| state.measured()).await?;
        Ok(self.shared.meter.measured(decider))
    }
}

/// What is measured on threads other than the decider's.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    syncs: [AtomicU64; BOUNDS_US.len() + 1],
    sync_sum_us: AtomicU64,
    checkpoint_bytes: AtomicU64,
    /// And one: 0 is not looked at yet.
    free_bytes: AtomicU64,
}

impl Meter {
    /// The log was synced, which took so long.
    pub(crate) fn synced(&self, us: u64) {
        let class = BOUNDS_US.partition_point(|bound| *bound < us);
        self.syncs[class].fetch_add(1, Ordering::Relaxed);
        self.sync_sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Checkpoints take so many bytes by now.
    pub(crate) fn set_checkpoint_bytes(&self, bytes: u64) {
        self.checkpoint_bytes.store(bytes, Ordering::Relaxed);
    }

    /// So many bytes are free on the disk.
    pub(crate) fn set_free_bytes(&self, bytes: u64) {
        self.free_bytes.store(bytes.saturating_add(1), Ordering::Relaxed);
    }

    /// Adds what was measured elsewhere.
    pub(crate) fn measured(&self, decider: Measured) -> Measured {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = std::array::from_fn(|class| load(&self.syncs[class]));
        Measured {
            syncs: Lateness::of(counts, load(&self.sync_sum_us)),
            checkpoint_bytes: load(&self.checkpoint_bytes),
            free_bytes: load(&self.free_bytes).checked_sub(1),
            ..decider
        }
    }
}
