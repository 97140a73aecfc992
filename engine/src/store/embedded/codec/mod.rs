//! What records hold, as bytes: `docs/format.md` says it to the byte.
//!
//! Every decoder is total. Whatever the bytes are, it answers a valid value or [`Malformed`]; it
//! never panics, and never takes more memory than the bytes it was given account for.

mod cold;
mod kv;
mod life;
mod note;
mod own;
mod part;
mod topic;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use cold::{Cold, encode_cold};
pub(crate) use kv::{StoredEnd, StoredKv};
pub(crate) use life::{Stored, decode_life, encode_life};
pub(crate) use note::{decode_note, encode_note};
pub(crate) use own::Own;
pub(crate) use topic::{StoredPause, StoredTopic};
pub(crate) use wire::{Malformed, Reader, Result, put_str, put_time, put_u64, put_varint, whole};
