//! The tools of those who run a server: by the binary, on real servers and stores.

#[path = "../../../engine/tests/redis_servers/mod.rs"]
mod redis_servers;
#[path = "../moving/run.rs"]
mod run;
#[allow(dead_code, reason = "the tests of the whole call more of it")]
#[path = "../whole/served.rs"]
mod served;

mod backup;
mod bench;
mod doctor;
mod settings;
mod top;
