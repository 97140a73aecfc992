//! `linger delete`.

use anyhow::Result;
use hyper::Method;

use super::client::Patience;
use super::one::{One, changed};
use super::{End, path};

/// Cancel a job, whatever its state
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Delete {
    #[command(flatten)]
    one: One,
    /// Only if the job is at this version still
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  linger delete orders 42
  linger delete orders 42 --if-version 3";

impl Delete {
    pub(super) fn run(self) -> Result<End> {
        let version = self.if_version.map(|version| version.to_string());
        let path = path::with_query(&self.one.path(), &[("if_version", version.as_deref())]);
        changed(&self.one.remote.client()?.call(Method::DELETE, &path, None, Patience::Usual)?)
    }
}
