//! The durable store on this machine: one append-only log that also holds the bodies, an index in
//! memory, and checkpoints of the index.
//!
//! A caller encodes its job and puts a task into the [`inbox`]; the [`decider`] decides it, applies
//! it to its [`state`] and appends records to the [`log`]; the [`syncer`] writes and syncs them and
//! lets the answers go; the caller reads bodies back by itself ([`read`]).

mod batch;
mod call;
mod checkpoint;
mod codec;
mod compact;
mod decider;
pub mod files;
mod format;
mod handover;
mod inbox;
#[allow(dead_code, reason = "bulk loading and touched chunks are for quicker checkpoints")]
mod index;
mod keeper;
mod log;
#[cfg(any(test, feature = "testkit"))]
mod manual;
mod open;
mod payload;
mod place;
mod pop;
mod read;
mod scan;
mod space;
mod state;
mod sweep;
mod syncer;

pub use call::Embedded;
#[cfg(any(test, feature = "testkit"))]
pub use manual::Manual;
pub use open::Settings;
pub use syncer::Durability;
