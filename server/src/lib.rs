//! Linger's server: the delay queue over HTTP, gRPC and the beanstalkd protocol, and its command
//! line.

pub mod cli;
pub mod config;
mod front;
mod listen;
pub mod proto;
mod registry;
pub mod serve;
// Until the push lane hires it.
mod silence;
#[allow(dead_code)]
mod sink;

/// What the fuzzers call.
pub mod fuzzing {
    pub use crate::front::beanstalk::read_in_pieces;
}
