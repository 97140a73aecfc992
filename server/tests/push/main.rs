//! Jobs that are pushed, by a real server to real receivers.

#[allow(dead_code)]
#[path = "../http/client.rs"]
mod client;
mod receiver;

mod archive;
mod secrets;
mod strangers;
mod webhook;
