//! Ports that are served by TLS, called by clients that mind whom they talk to.

mod authority;
mod beanstalk;
mod files;
mod http;
#[path = "../whole/served.rs"]
#[allow(dead_code, reason = "the tests of the whole call more of it")]
mod served;
mod server;
mod strangers;
