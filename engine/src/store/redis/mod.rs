//! The store that many instances share, on Redis or Valkey.

mod address;
mod conn;

pub use address::Address;
