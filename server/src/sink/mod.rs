//! How work is pushed out.

mod address;
mod dial;
