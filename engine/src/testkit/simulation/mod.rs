//! Crashes from a seed: is anything acknowledged lost, anything invented?
//!
//! Callers have several calls under way at once on an embedded store whose parts move one step at
//! a time, in random order, on a simulated disk and clock. Then the power is cut, the process is
//! killed, a sync or a write fails or the disk is full, often more than once, and while opening
//! too. What the store decided, in order, is noted as it is decided, in memory; what is found
//! after a crash must be what was decided up to some moment, with all that was acknowledged.

mod call;
mod check;
mod plan;
mod reference;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use self::world::World;
use super::Happened;

/// One run, and how to have it again.
#[derive(Clone, Copy, Debug)]
pub struct Simulation {
    /// What it is made from.
    pub seed: u64,
    /// The command that runs it again, given `LINGER_SEED`.
    pub command: &'static str,
}

impl Simulation {
    /// Runs it and counts what happened; panics with what differs and the last steps.
    pub fn run(self) -> Happened {
        let told = catch_unwind(AssertUnwindSafe(|| World::new(self.seed, false).run()));
        if let Ok(Ok(happened)) = told {
            return happened;
        }
        // The same again, telling what is done.
        let mut world = World::new(self.seed, true);
        let told = catch_unwind(AssertUnwindSafe(|| world.run()));
        let why = match told {
            Ok(Ok(_)) => "it went well the second time: it is not deterministic".into(),
            Ok(Err(why)) => why,
            Err(_) => "the store panicked, as printed above".into(),
        };
        let Simulation { seed, command } = self;
        let steps = world.told();
        panic!(
            "seed {seed}: {why}\n--- the last steps:\n{steps}--- again: LINGER_SEED={seed} {command}"
        );
    }
}
