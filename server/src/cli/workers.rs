//! `linger workers`.

use anyhow::Result;
use serde::Deserialize;

use super::client::Remote;
use super::json::Object;
use super::text::Table;
use super::{End, Reader, note, path};

/// List the workers that are registered, and how they do
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Workers {
    /// Only those of this application
    app: Option<String>,
    /// Only those that serve this topic
    #[arg(long)]
    topic: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger workers
  linger workers shop --topic order.close
  linger workers --json | jq -r '.workers[] | select(.failures > 0) | .url'";

/// How many are asked for at once: the most that a server gives.
const PAGE: &str = "1000";

#[derive(Deserialize)]
struct Page {
    workers: Vec<Object>,
    cursor: Option<String>,
}

const HEADS: [&str; 9] =
    ["ID", "APP", "STATE", "URL", "TOPICS", "EXPIRES", "DELIVERIES", "FAILURES", "LAST ERROR"];

impl Workers {
    pub(super) fn run(self) -> Result<End> {
        let client = self.remote.client()?;
        let mut table = Table::new(&HEADS);
        let (mut end, mut cursor) = (End::No, None);
        loop {
            let parameters = [
                ("app", self.app.as_deref()),
                ("topic", self.topic.as_deref()),
                ("limit", Some(PAGE)),
                ("cursor", cursor.as_deref()),
            ];
            let answer = client.get(&path::with_query("/v1/workers", &parameters))?;
            let page: Page = answer.read()?;
            // The page after a last one that was full is empty.
            if page.workers.is_empty() && cursor.is_some() {
                break;
            }
            if !page.workers.is_empty() {
                end = End::Done;
            }
            let reader = answer.print(|| table.rows(page.workers.iter().map(row).collect()))?;
            cursor = page.cursor;
            if cursor.is_none() || reader == Reader::Gone {
                break;
            }
        }
        if end == End::No {
            note("no such workers");
        }
        Ok(end)
    }
}

fn row(worker: &Object) -> Vec<String> {
    let topics: Vec<String> = serde_json::from_str(&worker.shown("topics")).unwrap_or_default();
    let mut row: Vec<_> = ["id", "app", "state", "url"].map(|name| worker.shown(name)).into();
    row.push(topics.join(", "));
    let rest = ["expires", "deliveries", "failures", "last_error"];
    row.extend(rest.map(|name| worker.shown(name)));
    row
}
