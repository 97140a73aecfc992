//! `linger config`.

use std::fmt::Write;

use anyhow::Result;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client::{Answer, Client, Patience, Remote};
use super::json::Object;
use super::{End, load, note, output};
use crate::config::{ServeFlags, Setting};

/// Show the settings in force and where each came from, or change those that servers share
///
/// Without a verb of its own it takes the flags of `linger serve`, and shows what that would run by. The others
/// ask a running server for the settings that all who share its store have: they hold over the file of each
/// instance, and below its environment and flags.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Show {
    #[command(subcommand)]
    shared: Option<OfServers>,
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
  linger config --json | jq -r '.store.value'
  linger config set limits.body 2MiB       on every instance, at once; those marked (live) in linger.toml
  linger config unset limits.body
  linger config shared                     what is shared, and who runs by it";

#[derive(clap::Subcommand)]
enum OfServers {
    /// Show the settings that are shared, and which version each instance runs by
    ///
    /// Exit code 1: an instance has refused them, or has not taken them on yet.
    Shared {
        #[command(flatten)]
        remote: Remote,
    },
    /// Set one that is shared; the others stay
    Set {
        /// Its name, such as limits.body
        // Another name than that of the API key.
        #[arg(value_name = "KEY")]
        setting: String,
        /// Its value; a list or a table as JSON
        #[arg(allow_hyphen_values = true)]
        value: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// Share one no more: the file of each instance holds again
    Unset {
        /// Its name
        #[arg(value_name = "KEY")]
        setting: String,
        #[command(flatten)]
        remote: Remote,
    },
}

const PATH: &str = "/v1/config";

#[derive(Deserialize)]
struct Answered {
    version: u64,
    settings: Map<String, Value>,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    version: u64,
    refused: Option<String>,
}

impl Show {
    pub(super) fn run(self) -> Result<End> {
        if let Some(shared) = self.shared {
            return shared.run();
        }
        let settings = load(&self.flags)?.origins;
        output(if self.json { as_json(&settings)? } else { as_table(&settings) })?;
        Ok(End::Done)
    }
}

impl OfServers {
    fn run(self) -> Result<End> {
        match self {
            OfServers::Shared { remote } => {
                let answer = remote.client()?.get(PATH)?;
                let told: Answered = answer.read()?;
                answer.print(|| told.as_text())?;
                let all = told.nodes.iter().all(|node| node.version == told.version);
                Ok(if all { End::Done } else { End::No })
            }
            OfServers::Set { setting, value, remote } => {
                let value = match serde_json::from_str(&value) {
                    Ok(value @ (Value::Array(_) | Value::Object(_))) => value,
                    _ => Value::String(value),
                };
                let client = remote.client()?;
                change(&client, |settings| drop(settings.insert(setting, value)))
            }
            OfServers::Unset { setting, remote } => {
                let client = remote.client()?;
                let before: Answered = client.get(PATH)?.read()?;
                if !before.settings.contains_key(&setting) {
                    note(&format!("`{setting}` is not shared"));
                    return Ok(End::No);
                }
                change(&client, |settings| drop(settings.remove(&setting)))
            }
        }
    }
}

/// Changes what is shared, unless somebody else does at the same time.
fn change(client: &Client, change: impl FnOnce(&mut Map<String, Value>)) -> Result<End> {
    let Answered { version, mut settings, .. } = client.get(PATH)?.read()?;
    change(&mut settings);
    let wish = Object::default().with("settings", settings).with("if_version", version);
    let answer: Answer = client.call(Method::PUT, PATH, Some(&wish), Patience::Usual)?;
    let told: Answered = answer.read()?;
    answer.print(|| format!("stored as version {}\n", told.version))?;
    Ok(End::Done)
}

impl Answered {
    fn as_text(&self) -> String {
        let mut text = format!("version {}\n", self.version);
        for (key, value) in &self.settings {
            let _ = writeln!(text, "  {key} = {value}");
        }
        for Node { name, version, refused } in &self.nodes {
            let _ = match refused {
                None => writeln!(text, "{name} runs by version {version}"),
                Some(why) => writeln!(text, "{name} stays at version {version}: {why}"),
            };
        }
        text
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
