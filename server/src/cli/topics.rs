//! `linger topics`.

use anyhow::Result;
use serde::Deserialize;

use super::client::Remote;
use super::json::Object;
use super::text::Table;
use super::{End, Reader, note, path};

/// List topics, with how many jobs each has in which state
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Topics {
    /// Only those whose name begins so
    prefix: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger topics
  linger topics shop. --json | jq -r '.topics[].topic'";

/// How many are asked for at once: the most that a server gives.
const PAGE: &str = "1000";

#[derive(Deserialize)]
struct Page {
    topics: Vec<Object>,
    cursor: Option<String>,
}

const HEADS: [&str; 10] = [
    "TOPIC", "PAUSED", "DELAYED", "READY", "RESERVED", "RETRY", "HELD", "DEAD", "FINISHED",
    "WAITING",
];

impl Topics {
    pub(super) fn run(self) -> Result<End> {
        let client = self.remote.client()?;
        let mut table = Table::new(&HEADS);
        let (mut end, mut cursor) = (End::No, None);
        loop {
            let parameters = [
                ("prefix", self.prefix.as_deref()),
                ("limit", Some(PAGE)),
                ("cursor", cursor.as_deref()),
            ];
            let answer = client.get(&path::with_query("/v1/topics", &parameters))?;
            let page: Page = answer.read()?;
            // The page after a last one that was full is empty.
            if page.topics.is_empty() && cursor.is_some() {
                break;
            }
            if !page.topics.is_empty() {
                end = End::Done;
            }
            let reader = answer.print(|| table.rows(page.topics.iter().map(row).collect()))?;
            cursor = page.cursor;
            if cursor.is_none() || reader == Reader::Gone {
                break;
            }
        }
        if end == End::No {
            note("no such topics");
        }
        Ok(end)
    }
}

fn row(topic: &Object) -> Vec<String> {
    let paused = match (topic.shown("paused").as_str(), topic.shown("paused_for")) {
        ("true", left) if left.is_empty() => "yes".to_owned(),
        ("true", left) => format!("for {left}"),
        _ => "no".to_owned(),
    };
    let counts = topic.object("counts");
    let states = ["delayed", "ready", "reserved", "retry", "held", "dead", "finished"];
    let mut row = vec![topic.shown("topic"), paused];
    row.extend(states.map(|state| counts.shown(state)));
    row.push(topic.shown("waiting"));
    row
}
