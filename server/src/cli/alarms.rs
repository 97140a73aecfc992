//! `linger alarms`.

use anyhow::Result;
use serde::Deserialize;

use super::client::Remote;
use super::json::Object;
use super::text::Table;
use super::{End, note};

/// List the alarms there are, and what is not well
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Alarms {
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger alarms
  linger alarms --json | jq -r '.alarms[] | select(.state == \"firing\") | .name'";

#[derive(Deserialize)]
struct All {
    alarms: Vec<Object>,
}

const HEADS: [&str; 9] =
    ["NAME", "KIND", "OF", "STATE", "VALUE", "THRESHOLD", "SINCE", "FOR", "TO"];

impl Alarms {
    pub(super) fn run(self) -> Result<End> {
        let answer = self.remote.client()?.get("/v1/alarms")?;
        let All { alarms } = answer.read()?;
        answer.print(|| Table::new(&HEADS).rows(alarms.iter().flat_map(rows).collect()))?;
        if alarms.is_empty() {
            note("no alarms; see [alarms] in linger.toml");
            return Ok(End::No);
        }
        Ok(End::Done)
    }
}

/// A row for each incident, and one for a rule that has none.
fn rows(alarm: &Object) -> Vec<Vec<String>> {
    let incidents: Vec<Object> =
        serde_json::from_str(&alarm.shown("incidents")).unwrap_or_default();
    let row = |of: &Object| {
        let mut row: Vec<String> = ["name", "kind"].map(|name| alarm.shown(name)).into();
        row.push(of.shown("topic") + &of.shown("destination"));
        row.extend(["state", "value"].map(|name| of.shown(name)));
        row.push(alarm.shown("threshold"));
        row.push(of.shown("since"));
        row.extend(["for", "to"].map(|name| alarm.shown(name)));
        row
    };
    match incidents.is_empty() {
        true => vec![row(alarm)],
        false => incidents.iter().map(row).collect(),
    }
}
