//! The durable store on this machine: one append-only log that also holds the bodies, an index in
//! memory, and checkpoints of the index.
//!
//! A caller encodes its job and puts a task into the `inbox`; the `decider` decides it, applies
//! it to its `state` and appends and writes records to the `log`; the `syncer` syncs them and
//! lets the answers go; the caller reads bodies back by itself (`read`).

mod backup;
mod batch;
mod call;
mod check;
mod checkpoint;
pub(crate) mod codec;
mod compact;
mod decider;
mod desk;
pub mod files;
mod format;
#[cfg(feature = "testkit")]
#[doc(hidden)]
pub mod fuzzing;
mod handover;
mod inbox;
#[allow(dead_code, reason = "bulk loading and touched chunks are for quicker checkpoints")]
mod index;
mod keeper;
mod log;
#[cfg(any(test, feature = "testkit"))]
mod manual;
mod meter;
#[cfg(feature = "bench")]
mod null;
mod open;
mod payload;
mod place;
mod pop;
mod progress;
mod read;
mod scan;
mod space;
mod state;
mod sweep;
mod syncer;
pub(crate) mod trace;

pub use backup::Backup;
pub use call::Embedded;
pub use check::{FINDINGS_MAX, Finding, Report, check, check_files};
pub use format::format;
#[cfg(any(test, feature = "testkit"))]
pub use manual::Manual;
#[cfg(any(test, feature = "testkit"))]
pub(crate) use manual::read_in_full;
pub use meter::Measured;
#[cfg(feature = "bench")]
pub use null::{Null, Safe, record_bytes};
pub use open::Settings;
pub use progress::Progress;
pub use syncer::Durability;
