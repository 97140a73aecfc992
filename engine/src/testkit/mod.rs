//! What proves a store: a simulated clock, the conformance suite, and the model harness.

mod clock;
pub mod conformance;

pub use clock::{START_MS, SimClock};
