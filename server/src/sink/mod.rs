//! How work is pushed out: each sink is a worker.

pub(crate) mod workers;
