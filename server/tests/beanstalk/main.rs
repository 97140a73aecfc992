//! The beanstalkd front: scripts that Linger and the real beanstalkd must answer alike, what only
//! Linger does, and clients that others wrote.

mod flow;
mod peers;
mod stop;
mod strangers;
mod transcript;
