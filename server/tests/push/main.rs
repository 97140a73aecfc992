//! Jobs that are pushed, by a real server to real receivers.

mod broker;
#[allow(dead_code, reason = "the tests of HTTP call more of it")]
#[path = "../http/client.rs"]
mod client;
#[path = "../whole/disk.rs"]
mod disk;
mod job;
mod peer;
mod receiver;
#[path = "../../../engine/tests/redis_servers/mod.rs"]
mod redis_servers;
mod shipped;

mod alarms;
mod archive;
mod brokers;
mod contract;
mod destinations;
mod eureka;
mod isolation;
mod ladder;
mod secrets;
mod strangers;
mod traces;
mod webhook;
mod workers;
