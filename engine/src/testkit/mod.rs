//! What proves a store: a simulated clock, the conformance suite, and the model harness.

mod clock;
pub mod conformance;
mod model;
mod naive;

pub use clock::{START_MS, SimClock};
pub use model::{Happened, Story, Timer};
pub use naive::Naive;
