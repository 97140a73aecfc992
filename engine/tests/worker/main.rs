//! Workers and their runner, over a store in memory whose clock the tests move.

mod bench;
mod ending;
mod leases;
mod outcomes;
mod push;
mod slots;
mod spy;
mod together;
