//! Linger: a delay queue.

pub mod error;
pub mod time;
