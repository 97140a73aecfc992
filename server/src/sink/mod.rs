//! How work is pushed out.

mod address;
mod dial;
mod headers;
pub(crate) mod webhook;
