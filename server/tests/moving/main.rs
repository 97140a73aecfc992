//! Moving jobs between stores and from other queues, and checking a store on Redis: by the binary, on
//! real servers.

mod check;
mod others;
#[path = "../../../engine/tests/redis_servers/mod.rs"]
mod redis_servers;
mod round;
mod run;
