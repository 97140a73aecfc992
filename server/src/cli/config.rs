//! `linger config`.

use std::fmt::Write;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{End, load, output};
use crate::config::{ServeFlags, Setting};

/// Show the settings in force and where each came from
///
/// Takes the flags of `linger serve`, and shows what that would run by.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// As JSON: {"listen": {"value": "127.0.0.1:7300", "from": "default"}, …}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: ServeFlags,
}

const EXAMPLES: &str = "\
Examples:
  linger config
  linger config --config /etc/linger.toml --set limits.body=2MiB
  linger config --json | jq -r '.store.value'";

impl Show {
    pub(super) fn run(self) -> Result<End> {
        let settings = load(&self.flags)?.origins;
        output(if self.json { as_json(&settings)? } else { as_table(&settings) })?;
        Ok(End::Done)
    }
}

fn as_table(settings: &[Setting]) -> String {
    let head = ["SETTING", "VALUE", "FROM"].map(str::to_owned);
    let rows = settings.iter().map(|setting| {
        [setting.key.to_owned(), setting.value.to_string(), setting.origin.to_string()]
    });
    let rows: Vec<[String; 3]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let (keys, values) = (width(0).unwrap_or(0), width(1).unwrap_or(0));
    rows.iter().fold(String::new(), |mut table, [key, value, from]| {
        let _ = writeln!(table, "{key:keys$}  {value:values$}  {from}");
        table
    })
}

fn as_json(settings: &[Setting]) -> Result<String> {
    let mut object = Map::new();
    for Setting { key, value, origin, .. } in settings {
        let value: Value = serde_json::to_value(value)?;
        object.insert((*key).to_owned(), json!({ "value": value, "from": origin.to_string() }));
    }
    Ok(format!("{:#}\n", Value::Object(object)))
}
