//! The parts of the index in memory: entries by slot, slots by hash, and orders of them.
//!
//! None of them stops for long, however large it is: nothing is ever copied or rehashed whole.

mod arena;
#[cfg(test)]
mod rng;
mod table;
mod tree;

pub(super) use self::{
    arena::{Arena, CHUNK},
    table::Table,
    tree::Tree,
};
