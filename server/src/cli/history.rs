//! `linger history`.

use anyhow::Result;
use serde::Deserialize;

use super::json::Object;
use super::one::One;
use super::text::Table;
use super::{End, note};

/// Show what happened to a job
#[derive(clap::Args)]
#[command(after_help = "Example:\n  linger history orders 42")]
pub(super) struct History {
    #[command(flatten)]
    one: One,
}

#[derive(Deserialize)]
struct Entries {
    history: Vec<Object>,
}

impl History {
    pub(super) fn run(self) -> Result<End> {
        let answer = self.one.remote.client()?.get(&format!("{}/history", self.one.path()))?;
        let Entries { history } = answer.read()?;
        answer.print(|| {
            let columns = ["at", "what", "attempt", "took", "by", "answer", "error"];
            let row = |entry: &Object| columns.map(|name| entry.shown(name)).to_vec();
            Table::new(&["AT", "WHAT", "ATTEMPT", "TOOK", "BY", "ANSWER", "ERROR"])
                .rows(history.iter().map(row).collect())
        })?;
        if history.is_empty() {
            note("nothing is known of its past");
            return Ok(End::No);
        }
        Ok(End::Done)
    }
}
