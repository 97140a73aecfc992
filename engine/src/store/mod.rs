//! The stores: everything that stands behind [`crate::queue::Queue`].

pub mod embedded;
mod kv;
pub(crate) mod leaving;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::sync::Arc;

use crate::dice::Dice;
use crate::queue::UniqueIds;
use crate::time::{Clock, SystemClock};
use crate::topic::Defaults;

/// What every store is opened with.
#[derive(Clone)]
pub struct Options {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where chance comes from.
    pub dice: Dice,
    /// What holds for jobs whose topic does not say.
    pub defaults: Defaults,
    /// Whether the same id may stand in several topics.
    pub unique_ids: UniqueIds,
    /// Whether [`Queue::moved`](crate::queue::Queue::moved) is asked: else nothing is kept for it.
    pub tells_moves: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: Arc::new(SystemClock::new()),
            dice: Dice::secret(),
            defaults: Defaults::default(),
            unique_ids: UniqueIds::default(),
            tells_moves: false,
        }
    }
}
