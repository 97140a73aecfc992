//! `linger get`.

use anyhow::Result;

use super::json::Object;
use super::one::One;
use super::{End, text};

/// Show a job
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Get {
    #[command(flatten)]
    one: One,
}

const EXAMPLES: &str = "\
Examples:
  linger get orders 42
  linger get orders 42 --json | jq .body";

impl Get {
    pub(super) fn run(self) -> Result<End> {
        let answer = self.one.remote.client()?.get(&self.one.path())?;
        let job: Object = answer.read()?;
        answer.print(|| text::lines(&job))?;
        Ok(End::Done)
    }
}
