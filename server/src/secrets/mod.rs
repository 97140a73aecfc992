//! The keys that sign what is pushed.

mod key;

pub use key::SigningKey;
