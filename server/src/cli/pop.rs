//! `linger pop`.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use hyper::Method;

use super::client::{Patience, Remote};
use super::jobs::Page;
use super::json::Object;
use super::{End, note, text};

/// Take jobs that are due, for as long as their ttr
///
/// Exit code 1: there was none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Pop {
    /// The topics; of several, the best priority comes first, then the oldest
    #[arg(required = true, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    topics: Vec<String>,
    /// How long to wait for the first [default: not at all]
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
    /// How many at most [default: 1]
    #[arg(long, value_name = "N")]
    max: Option<u32>,
    /// How long this attempt may take [default: the job's]
    #[arg(long, value_name = "DURATION")]
    ttr: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger pop orders --wait 30s
  linger pop orders mails --max 10 --ttr 5m --json | jq -c '.jobs[]'";

impl Pop {
    pub(super) fn run(self) -> Result<End> {
        let patience = if self.wait.is_some() { Patience::Server } else { Patience::Usual };
        let ask = Object::default()
            .with("topics", &self.topics)
            .with_some("wait", self.wait)
            .with_some("max", self.max)
            .with_some("ttr", self.ttr);
        let client = self.remote.client()?;
        let answer = client.call(Method::POST, "/v1/pop", Some(&ask), patience)?;
        let popped: Page = answer.read()?;
        answer.print(|| {
            let jobs: Vec<String> = popped.jobs.iter().map(text::lines).collect();
            jobs.join("\n")
        })?;
        if popped.jobs.is_empty() {
            note("no job is ready");
            return Ok(End::No);
        }
        Ok(End::Done)
    }
}
