//! `linger update`.

use anyhow::Result;
use clap::ArgGroup;
use hyper::Method;

use super::End;
use super::body::{Take, with_body};
use super::client::Patience;
use super::json::Object;
use super::one::{One, changed};

/// Change a job
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("change").required(true).multiple(true)
    .args(["delay", "at", "body", "ttr", "priority", "to"]))]
pub(super) struct Update {
    #[command(flatten)]
    one: One,
    /// When it is due, from now
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    delay: Option<String>,
    /// When it is due: RFC 3339, or Unix time in 10, 13 or 16 digits
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Its body: JSON is sent as JSON, all else as text; `-` reads stdin
    #[arg(long, allow_negative_numbers = true)]
    body: Option<String>,
    /// Send the body as text even if it is JSON
    #[arg(long, requires = "body")]
    text: bool,
    /// How long an attempt may take
    #[arg(long, value_name = "DURATION")]
    ttr: Option<String>,
    /// Smaller is sooner among jobs that are due
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
    /// Where it is pushed when due
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Only if the job is at this version still
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  linger update orders 42 --delay 2h
  linger update orders 42 --body '{\"order\": 42, \"vip\": true}' --if-version 3";

impl Update {
    pub(super) fn run(self) -> Result<End> {
        let mut patch = Object::default()
            .with_some("delay", self.delay)
            .with_some("at", self.at)
            .with_some("ttr", self.ttr)
            .with_some("priority", self.priority)
            .with_some("target", self.to)
            .with_some("if_version", self.if_version);
        let client = self.one.remote.client()?;
        if let Some(body) = &self.body {
            patch = with_body(patch, body, Take::unless_text(self.text))?;
        }
        changed(&client.call(Method::PATCH, &self.one.path(), Some(&patch), Patience::Usual)?)
    }
}
