//! The shipped binary on Redis: several servers that share a store.

mod fleet;
#[allow(dead_code, reason = "the tests of pushes call more of it")]
#[path = "../push/receiver.rs"]
mod receiver;
#[path = "../../../engine/tests/redis_servers/mod.rs"]
mod redis_servers;
#[allow(dead_code, reason = "the tests of the whole call more of it")]
#[path = "../whole/served.rs"]
mod served;

mod alarms;
mod beanstalk;
mod keys;
mod nodes;
mod proof;
mod push;
mod rolling;
mod start;
mod watched;
mod ways;
mod work;
