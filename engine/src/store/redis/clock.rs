//! Redis's clock, as well as an instance knows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::time::{Bell, Clock, Now, SystemClock, Wake};

/// This machine's clock, set by Redis's.
///
/// Only for sleeping, for calendars and for telling people: whatever decides is decided by scripts,
/// which ask Redis itself.
#[derive(Default)]
pub(super) struct RedisClock {
    own: SystemClock,
    /// How far Redis's wall clock is ahead of ours.
    ahead_us: AtomicI64,
}

impl RedisClock {
    /// Notes what Redis's clock showed a moment ago.
    pub(super) fn set_by(&self, redis: Now) {
        let ahead = i128::from(redis.wall_us) - i128::from(self.own.now().wall_us);
        self.ahead_us.store(i64::try_from(ahead).unwrap_or_default(), Ordering::Relaxed);
    }
}

impl Clock for RedisClock {
    fn now(&self) -> Now {
        let own = self.own.now();
        let ahead_us = self.ahead_us.load(Ordering::Relaxed);
        Now { wall_us: own.wall_us.saturating_add_signed(ahead_us), ..own }
    }

    fn park(&self, bell: &Arc<Bell>, wake: Wake) {
        self.own.park(bell, wake);
    }
}
