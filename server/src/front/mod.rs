//! How work comes in and is asked for. Each front only translates.

pub(crate) mod app;
pub(crate) mod beanstalk;
mod grpc;
mod handed_out;
pub(crate) mod http;
mod limit;
mod names;
mod oldest;
mod origin;
pub(crate) mod port;
mod task;
mod unnamed;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use linger::machine::Owner;

/// A caller's word, short enough for a message.
pub(crate) fn short(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(60)];
    cut.chars().flat_map(|c| if c.is_control() { vec!['?'] } else { vec![c] }).collect()
}

/// The owner of the leases of a connection or a stream, which no other has had, be it of another
/// server on the same store: each begins somewhere else.
fn next_owner() -> Owner {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(somewhere()));
    Owner(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A number by chance, so far from the end that it can be counted on from.
pub(crate) fn somewhere() -> u64 {
    let chance = RandomState::new().hash_one(std::process::id());
    (chance >> 1).max(1)
}
