//! What proves a store: a simulated clock, the conformance suite, and the model harness.
//!
//! [`conformance::cases`] asks whether it is a queue; [`Story::compare`] whether it answers random
//! calls as [`Naive`] does, which is plain enough to be right by reading it.

mod clock;
pub mod conformance;
mod model;
mod naive;

pub use clock::{START_MS, SimClock};
pub use model::{Happened, Story, Timer};
pub use naive::Naive;
