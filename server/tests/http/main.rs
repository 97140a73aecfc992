//! The HTTP front, over real sockets, on a real store.

mod client;

mod bad_input;
mod command;
mod dashboard;
mod guards;
mod jobs;
mod keys;
mod limits;
mod old;
mod openapi;
mod ouqiang;
mod secrets;
mod stats;
mod tasks;
mod topics;
mod work;
mod workers;
