//! How work comes in and is asked for. Each front only translates.

pub(crate) mod beanstalk;
pub(crate) mod http;
