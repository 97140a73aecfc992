//! Linger's server: the delay queue over HTTP, gRPC and the beanstalkd protocol, and its command
//! line.

mod addresses;
mod alarms;
mod archive;
mod auth;
mod author;
#[doc(hidden)]
pub mod bench_support;
pub mod cli;
mod common;
pub mod config;
mod eureka;
mod events;
mod front;
mod json;
mod listen;
pub mod proto;
mod push;
mod registry;
mod secrets;
pub mod serve;
mod silence;
mod sink;
mod store;
mod stream;
mod tls;
mod traces;

/// What the fuzzers call.
pub mod fuzzing {
    pub use crate::front::beanstalk::read_in_pieces;
}
