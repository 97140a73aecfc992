//! `linger jobs`.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use serde::Deserialize;

use super::client::Remote;
use super::json::Object;
use super::text::Table;
use super::{End, Reader, note, path};

/// How many there are if nobody says, as the server has it.
const LIMIT_DEFAULT: u32 = 100;

/// List a topic's jobs, the first due first
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Jobs {
    /// The topic
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    topic: String,
    /// Only those in this state
    #[arg(long, value_parser = STATES)]
    state: Option<String>,
    /// Only those whose id begins so
    #[arg(long, value_name = "PREFIX")]
    id_prefix: Option<String>,
    /// Only those due before this moment
    #[arg(long, value_name = "TIME")]
    due_before: Option<String>,
    /// Only those due at this moment or after
    #[arg(long, value_name = "TIME")]
    due_after: Option<String>,
    /// Show bodies too
    #[arg(long)]
    body: bool,
    /// How many on a page, 1 to 1000 [default: 100]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Go on where a page ended
    #[arg(long)]
    cursor: Option<String>,
    /// All pages; with --json, each is a document of its own
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    remote: Remote,
}

const STATES: [&str; 7] = ["delayed", "ready", "reserved", "retry", "held", "dead", "finished"];

const EXAMPLES: &str = "\
Examples:
  linger jobs orders --state dead
  linger jobs orders --due-before 2026-12-01T00:00:00Z --limit 20
  linger jobs orders --all --json | jq -r '.jobs[].id'";

/// Some jobs, and where there are more.
#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) jobs: Vec<Object>,
    cursor: Option<String>,
}

impl Jobs {
    pub(super) fn run(mut self) -> Result<End> {
        let client = self.remote.client()?;
        let mut table = Table::new(self.heads());
        let mut end = End::No;
        let mut left = self.limit.unwrap_or(LIMIT_DEFAULT);
        loop {
            let answer = client.get(&self.path())?;
            let page: Page = answer.read()?;
            if !page.jobs.is_empty() {
                end = End::Done;
            }
            left = left.saturating_sub(page.jobs.len() as u32);
            let reader =
                answer.print(|| table.rows(page.jobs.iter().map(|job| self.row(job)).collect()))?;
            match page.cursor {
                Some(_) if reader == Reader::Gone => break,
                Some(cursor) if self.all => self.cursor = Some(cursor),
                // Cut short: more were passed over than one call looks at, or bodies are large.
                Some(cursor) if left > 0 => {
                    (self.cursor, self.limit) = (Some(cursor), Some(left));
                }
                Some(cursor) => {
                    note(&format!("there are more: --cursor {cursor}, or --all"));
                    break;
                }
                None => break,
            }
        }
        if end == End::No {
            note("no such jobs");
        }
        Ok(end)
    }

    fn path(&self) -> String {
        let limit = self.limit.map(|limit| limit.to_string());
        let parameters = [
            ("state", self.state.as_deref()),
            ("id_prefix", self.id_prefix.as_deref()),
            ("due_before", self.due_before.as_deref()),
            ("due_after", self.due_after.as_deref()),
            ("body", self.body.then_some("true")),
            ("limit", limit.as_deref()),
            ("cursor", self.cursor.as_deref()),
        ];
        path::with_query(&format!("{}/jobs", path::topic(&self.topic)), &parameters)
    }

    fn heads(&self) -> &'static [&'static str] {
        match self.body {
            true => &["ID", "STATE", "DUE", "ATTEMPT", "PRIORITY", "ERROR", "BODY"],
            false => &["ID", "STATE", "DUE", "ATTEMPT", "PRIORITY", "ERROR"],
        }
    }

    fn row(&self, job: &Object) -> Vec<String> {
        let columns = ["id", "state", "due", "attempt", "priority", "last_error"];
        let mut row = columns.map(|name| job.shown(name)).to_vec();
        if self.body {
            // One of the two is there.
            row.push(job.shown("body") + &job.shown("body_base64"));
        }
        row
    }
}
