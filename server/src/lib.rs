//! Linger's server: the delay queue over HTTP, and its command line.

pub mod cli;
pub mod config;
mod front;
mod listen;
pub mod serve;
mod silence;
