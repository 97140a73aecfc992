//! The store that many instances share, on Redis or Valkey.

mod address;

pub use address::Address;
