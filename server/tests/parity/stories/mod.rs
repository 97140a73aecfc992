//! The stories. One that a front end cannot tell ends at the first thing it has no words for.

pub(crate) mod hand;
pub(crate) mod input;
pub(crate) mod topic;
pub(crate) mod work;
