//! Servers on one Redis, called by many at once while they are killed, stopped and started again, and Redis
//! too: what was acknowledged holds.

mod applications;
mod chaos;
mod client;
mod failover;
mod fleet;
mod ledger;
mod rounds;
mod work;
