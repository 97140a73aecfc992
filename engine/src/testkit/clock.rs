//! A clock that stands still until a test moves it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::time::{Bell, Clock, Now, Tick, Time, Wake};

/// A clock that stands still until it is moved: both readings, or the wall alone.
///
/// Whoever sleeps on it is woken by every move.
#[derive(Debug)]
pub struct SimClock {
    sim: Mutex<Sim>,
}

#[derive(Debug)]
struct Sim {
    now: Now,
    sleepers: Vec<Arc<Bell>>,
}

/// Where a simulated clock starts: 2026-11-02T00:00:00Z, a Monday.
pub const START_MS: u64 = 1_793_577_600_000;

impl SimClock {
    /// A clock that shows [`START_MS`].
    pub fn new() -> Arc<SimClock> {
        let now = Now { wall_us: START_MS * 1000, tick: Tick::default() };
        Arc::new(SimClock { sim: Mutex::new(Sim { now, sleepers: Vec::new() }) })
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let us = by.as_micros() as u64;
        self.set(|now| Now {
            wall_us: now.wall_us + us,
            tick: Tick::from_us(now.tick.as_us() + us),
        });
    }

    /// Sets the wall clock forwards or back, as an operator would; no time passes.
    pub fn jump_ms(&self, by_ms: i64) {
        self.set(|now| Now { wall_us: now.wall_us.saturating_add_signed(by_ms * 1000), ..now });
    }

    /// What the wall clock shows, to the millisecond.
    pub fn time(&self) -> Time {
        self.now().time()
    }

    fn set(&self, change: impl FnOnce(Now) -> Now) {
        let mut sim = self.lock();
        sim.now = change(sim.now);
        for bell in sim.sleepers.drain(..) {
            bell.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sim> {
        self.sim.lock().expect("nobody panics holding the clock")
    }
}

impl Clock for SimClock {
    fn now(&self) -> Now {
        self.lock().now
    }

    fn park(&self, bell: &Arc<Bell>, wake: Wake) {
        {
            let mut sim = self.lock();
            if wake.reached(sim.now) {
                return;
            }
            if !sim.sleepers.iter().any(|sleeper| Arc::ptr_eq(sleeper, bell)) {
                sim.sleepers.push(bell.clone());
            }
        }
        bell.wait(None);
    }
}
