//! The gRPC front, called over a real port.

mod client;
mod consume;
mod jobs;
mod keys;
mod port;
mod strangers;
mod tasks;
mod topics;
mod work;
