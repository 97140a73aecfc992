//! Clients that mean harm, against the shipped binary: its memory stays within bounds, and others are
//! served meanwhile. With `LINGER_TEST_LONG=1` in the sizes that docs/guarantees.md tells of.

mod beanstalk;
mod http1;
mod http2;
#[path = "../whole/served.rs"]
#[allow(dead_code, reason = "the tests of the whole call more of it")]
mod served;
mod siege;
