//! Linger: a delay queue. Hand it a job with a due time; it keeps the job safe and hands it over
//! when it is due, at least once, until someone says it is finished.
//!
//! Start with [`Linger`] and [`Job`]. Around them: [`queue::Queue`] is the seam every store
//! stands behind, [`machine::step`] is one job's whole life as a pure function.

pub mod dice;
pub mod error;
pub mod history;
pub mod job;
mod linger;
pub mod machine;
mod name;
pub mod queue;
pub mod record;
pub mod retry;
pub mod schedule;
pub mod stats;
pub mod store;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod time;
pub mod topic;
pub mod worker;

pub use error::{Error, Result};
pub use job::Job;
pub use linger::Linger;
pub use queue::Delivery;
pub use worker::Outcome;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
