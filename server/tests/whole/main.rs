//! The shipped binary as a process: on a disk that fills up, killed and started with much to load,
//! told to stop and to read its settings again.

mod beanstalk;
mod disk;
mod full_disk;
mod served;
mod signals;
mod start_up;
