//! How work is pushed out.

mod address;
mod dial;
pub(crate) mod grpc;
mod headers;
pub(crate) mod webhook;
