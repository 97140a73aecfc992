//! The job that a verb is about, and what became of it.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;

use super::client::{Answer, Remote};
use super::json::Object;
use super::{End, path, text};

/// One job, and the server that has it.
#[derive(clap::Args)]
pub(super) struct One {
    /// The topic
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    topic: String,
    /// The job's id
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: String,
    #[command(flatten)]
    pub(super) remote: Remote,
}

impl One {
    /// The job's path.
    pub(super) fn path(&self) -> String {
        path::job(&self.topic, &self.id)
    }

    /// Has something done to the job, and tells what became of it.
    pub(super) fn act(&self, action: &str, fields: &Object) -> Result<End> {
        let client = self.remote.client()?;
        changed(&client.post(&format!("{}/{action}", self.path()), fields)?)
    }
}

/// Tells what became of a job.
pub(super) fn changed(answer: &Answer) -> Result<End> {
    let changed: Object = answer.read()?;
    answer.print(|| lines(&changed))?;
    Ok(End::Done)
}

/// A change as lines: whether there was one, and how the job is now if it is there still.
pub(super) fn lines(changed: &Object) -> String {
    let job = changed.object("job");
    let fields = changed.fields().filter(|(name, _)| *name != "job");
    text::lines_of(fields.chain(job.fields()))
}
