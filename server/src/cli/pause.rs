//! `linger pause` and `linger resume`.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;

use super::client::Remote;
use super::json::Object;
use super::{End, path, text};

/// Stop handing out a topic's jobs
///
/// Jobs are still taken, and those handed out may be finished.
#[derive(clap::Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(super) struct Pause {
    #[command(flatten)]
    topic: Topic,
    /// How long [default: until `linger resume`]
    #[arg(long = "for", value_name = "DURATION")]
    length: Option<String>,
}

/// Hand out a topic's jobs again
#[derive(clap::Args)]
#[command(after_help = "Example:\n  linger resume orders")]
pub(super) struct Resume {
    #[command(flatten)]
    topic: Topic,
}

const PAUSE_EXAMPLES: &str = "\
Examples:
  linger pause orders
  linger pause orders --for 10m";

#[derive(clap::Args)]
struct Topic {
    /// The topic
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    topic: String,
    #[command(flatten)]
    remote: Remote,
}

impl Pause {
    pub(super) fn run(self) -> Result<End> {
        self.topic.act("pause", &Object::default().with_some("for", self.length))
    }
}

impl Resume {
    pub(super) fn run(self) -> Result<End> {
        self.topic.act("resume", &Object::default())
    }
}

impl Topic {
    fn act(&self, action: &str, fields: &Object) -> Result<End> {
        let path = format!("{}/{action}", path::topic(&self.topic));
        let answer = self.remote.client()?.post(&path, fields)?;
        let topic: Object = answer.read()?;
        let told = ["topic", "paused", "paused_for"];
        answer.print(|| text::lines_of(topic.fields().filter(|(name, _)| told.contains(name))))?;
        Ok(End::Done)
    }
}
