//! What proves a store: a simulated clock and disk, the conformance suite, and the model harness.
//!
//! [`conformance::cases`] asks whether it is a queue; [`Story::compare`] whether it answers random
//! calls as [`Naive`] does, which is plain enough to be right by reading it.

mod clock;
pub mod conformance;
mod disk;
mod model;
mod naive;
mod rng;
mod simulation;

pub use clock::{START_MS, SimClock};
pub use disk::SimDisk;
pub use model::{Happened, Story, Timer};
pub use naive::Naive;
pub use simulation::Simulation;
