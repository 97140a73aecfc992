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

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use linger::machine::Owner;
use linger::topic::{Headers, Settings};

use crate::auth::{Caller, Scope};

/// A caller's word, short enough for a message.
pub(crate) fn short(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(60)];
    cut.chars().flat_map(|c| if c.is_control() { vec!['?'] } else { vec![c] }).collect()
}

/// Settings as a caller may see them: headers may hold what lets one in elsewhere, so that their
/// values are for those alone who may set them.
fn shown_to<'a>(caller: &Caller, settings: &'a Settings) -> Cow<'a, Settings> {
    if settings.headers.is_empty() || caller.has(Scope::Admin) {
        return Cow::Borrowed(settings);
    }
    let masked = settings.headers.iter().map(|(name, _)| (name, MASKED.to_owned()));
    let headers = Headers::new(masked).expect("the names were right");
    Cow::Owned(Settings { headers, ..settings.clone() })
}

/// What stands for a value that is not shown.
const MASKED: &str = "(set)";

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
