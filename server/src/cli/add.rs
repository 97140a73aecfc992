//! `linger add`.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;

use super::body::{Take, with_body};
use super::client::Remote;
use super::json::Object;
use super::{End, text};

/// Add a job
///
/// It is due at once, unless told otherwise.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Add {
    /// The topic
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    topic: String,
    /// The body: JSON is sent as JSON, all else as text; `-` reads stdin [default: empty]
    #[arg(allow_negative_numbers = true)]
    body: Option<String>,
    /// Send the body as text even if it is JSON
    #[arg(long, requires = "body")]
    text: bool,
    /// What it is called in its topic [default: the server makes an id]
    #[arg(long)]
    id: Option<String>,
    /// When it is due, from now: 500ms, 15s, 2h30m, 7d; a bare number is seconds
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    delay: Option<String>,
    /// When it is due: RFC 3339, or Unix time in 10, 13 or 16 digits
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// How long an attempt may take [default: the topic's]
    #[arg(long, value_name = "DURATION")]
    ttr: Option<String>,
    /// Where it is pushed when due [default: the topic's, or it waits to be popped]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Smaller is sooner among jobs that are due [default: 1024]
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
    /// What to do if the topic has a job of this id [default: reject]
    #[arg(long, value_name = "HOW", value_parser = ["reject", "keep", "replace"])]
    on_conflict: Option<String>,
    /// Set it aside until `linger unhold`
    #[arg(long)]
    held: bool,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = r#"Examples:
  linger add orders --id 42 --delay 30m '{"order": 42}'
  linger add mails --at 2026-12-01T09:00:00+08:00 'good morning'
  linger add files --ttr 10m - < report.pdf"#;

impl Add {
    pub(super) fn run(self) -> Result<End> {
        let mut job = Object::default()
            .with("topic", &self.topic)
            .with_some("id", self.id)
            .with_some("delay", self.delay)
            .with_some("at", self.at)
            .with_some("ttr", self.ttr)
            .with_some("target", self.to)
            .with_some("priority", self.priority)
            .with_some("on_conflict", self.on_conflict)
            .with_some("held", self.held.then_some(true));
        let client = self.remote.client()?;
        if let Some(body) = &self.body {
            job = with_body(job, body, Take::unless_text(self.text))?;
        }
        let answer = client.post("/v1/jobs", &job)?;
        let added: Object = answer.read()?;
        let told = ["topic", "id", "state", "due"];
        answer.print(|| text::lines_of(added.fields().filter(|(name, _)| told.contains(name))))?;
        Ok(End::Done)
    }
}
