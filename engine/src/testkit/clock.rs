//! A clock that stands still until a test moves it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::time::{Bell, Clock, Now, Tick, Time, Wake};

/// A clock that stands still until it is moved: both readings, or the wall alone.
///
/// Whoever sleeps on it is woken when their time has come, and by every set of the wall clock: a
/// store that sets its alarm too late is late here too.
#[derive(Debug)]
pub struct SimClock {
    sim: Mutex<Sim>,
}

#[derive(Debug)]
struct Sim {
    now: Now,
    sleepers: Vec<(Arc<Bell>, Wake)>,
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
        let mut sim = self.lock();
        sim.now.wall_us += us;
        sim.now.tick = Tick::from_us(sim.now.tick.as_us() + us);
        let now = sim.now;
        sim.wake(|wake| wake.reached(now));
    }

    /// Sets the wall clock forwards or back, as an operator would; no time passes.
    pub fn jump_ms(&self, by_ms: i64) {
        let mut sim = self.lock();
        sim.now.wall_us = sim.now.wall_us.saturating_add_signed(by_ms * 1000);
        // A real clock has them look at least once a second.
        sim.wake(|_| true);
    }

    /// What the wall clock shows, to the millisecond.
    pub fn time(&self) -> Time {
        self.now().time()
    }

    fn lock(&self) -> MutexGuard<'_, Sim> {
        self.sim.lock().expect("nobody panics holding the clock")
    }
}

impl Sim {
    fn wake(&mut self, who: impl Fn(Wake) -> bool) {
        for (bell, _) in self.sleepers.extract_if(.., |(_, wake)| who(*wake)) {
            bell.ring();
        }
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
            sim.sleepers.retain(|(sleeper, _)| !Arc::ptr_eq(sleeper, bell));
            sim.sleepers.push((bell.clone(), wake));
        }
        bell.wait(None);
    }
}
