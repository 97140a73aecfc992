//! Linger: a delay queue. Hand it a job with a due time; it keeps the job safe and hands it over
//! when it is due, at least once, until someone says it is finished.
//!
//! ```
//! use linger::time::MINUTE;
//! use linger::{Job, Linger, Outcome, Result};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! let queue = Linger::memory();
//! queue.add(Job::new("order.close", "").id("1001").delay(30 * MINUTE)).await?;
//!
//! // Not due yet; made so by hand, it is handed out.
//! assert!(queue.pop("order.close").await?.is_none());
//! queue.run("order.close", "1001").await?;
//! let job = queue.pop("order.close").await?.expect("it is ready now");
//! queue.settle(&job, Outcome::done()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Start with [`Linger`] and [`Job`]. What a job may bring along: [`retry::Retry`],
//! [`schedule::Repeat`]. Who does the work: [`worker::Worker`], which answers an [`Outcome`].
//!
//! Inside: [`queue::Queue`] is the seam that every store stands behind, [`machine::step`] is one
//! job's whole life as a pure function, and feature `testkit` brings what proves a store.

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench_support {
    //! What `linger-bench` needs of the inside. No part of the interface.
    pub use crate::store::embedded::{Null, Safe, record_bytes};
}
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
pub use linger::{Builder, Linger};
pub use queue::Delivery;
pub use worker::Outcome;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
