//! How work comes in and is asked for. Each front only translates.

pub(crate) mod app;
pub(crate) mod beanstalk;
mod grpc;
mod handed_out;
pub(crate) mod http;
mod limit;
mod names;
mod origin;
pub(crate) mod port;
mod task;
mod unnamed;

use std::sync::atomic::{AtomicU64, Ordering};

use linger::machine::Owner;

/// A caller's word, short enough for a message.
pub(crate) fn short(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(60)];
    cut.chars().flat_map(|c| if c.is_control() { vec!['?'] } else { vec![c] }).collect()
}

/// The owner of the leases of a connection or a stream, which no other has had.
fn next_owner() -> Owner {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Owner(NEXT.fetch_add(1, Ordering::Relaxed))
}
