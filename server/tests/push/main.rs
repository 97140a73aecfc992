//! Jobs that are pushed, by a real server to real receivers.

#[allow(dead_code, reason = "the tests of HTTP call more of it")]
#[path = "../http/client.rs"]
mod client;
mod job;
mod peer;
mod receiver;
mod shipped;

mod archive;
mod contract;
mod isolation;
mod ladder;
mod secrets;
mod strangers;
mod webhook;
mod workers;
