//! `linger keys`.

use anyhow::Result;
use hyper::Method;
use serde::Deserialize;

use super::client::{Patience, Remote};
use super::json::Object;
use super::text::{Table, lines, plain};
use super::{End, Reader, note, path};

/// Make, list and revoke the API keys by which callers are let in
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Keys {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  linger keys add root --scope admin                 the first: keys are asked for from here on
  linger keys add shop --scope add --scope read --topic 'order.*' --expires-in 90d
  linger keys list
  linger keys revoke key_05f1c2d3e4a5b697";

#[derive(clap::Subcommand)]
enum Verb {
    Add(Add),
    List(List),
    Revoke(Revoke),
}

/// Make a key, and print it: it is shown this once
#[derive(clap::Args)]
struct Add {
    /// What people call it
    name: String,
    /// What it may do (repeatable, or with commas): add, consume, read, metrics, admin
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
    scopes: Vec<String>,
    /// A topic that it is for, or 'order.*' for all that begin so (repeatable) [default: all]
    #[arg(long = "topic", value_name = "PATTERN")]
    topics: Vec<String>,
    /// How long it holds, such as 90d [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    expires_in: Option<String>,
    /// The most requests it may make: 100 (a second) or 600/m
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// List the keys there are
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
struct List {
    #[command(flatten)]
    remote: Remote,
}

/// Revoke a key: nobody is let in by it any more
#[derive(clap::Args)]
struct Revoke {
    /// Its id
    id: String,
    #[command(flatten)]
    remote: Remote,
}

const PATH: &str = "/v1/keys";
const HEADS: [&str; 7] = ["ID", "NAME", "SCOPES", "TOPICS", "CREATED", "EXPIRES", "RATE"];

impl Keys {
    pub(super) fn run(self) -> Result<End> {
        match self.verb {
            Verb::Add(verb) => verb.run(),
            Verb::List(verb) => verb.run(),
            Verb::Revoke(verb) => verb.run(),
        }
    }
}

impl Add {
    fn run(self) -> Result<End> {
        let Add { name, scopes, topics, expires_in, rate, remote } = self;
        let new = Object::default()
            .with("name", name)
            .with("scopes", scopes)
            .with_some("topics", (!topics.is_empty()).then_some(topics))
            .with_some("expires_in", expires_in)
            .with_some("rate", rate);
        let answer = remote.client()?.post(PATH, &new)?;
        let made: Object = answer.read()?;
        answer.print(|| format!("{}\n", plain(&made.shown("key"))))?;
        let (name, id) = (plain(&made.shown("name")), plain(&made.shown("id")));
        note(&format!("this is key `{name}` ({id}), shown this once"));
        Ok(End::Done)
    }
}

/// How many are asked for at once: the most that a server gives.
const PAGE: &str = "1000";

#[derive(Deserialize)]
struct Page {
    keys: Vec<Object>,
    cursor: Option<String>,
}

impl List {
    fn run(self) -> Result<End> {
        let client = self.remote.client()?;
        let mut table = Table::new(&HEADS);
        let (mut end, mut cursor) = (End::No, None);
        loop {
            let parameters = [("limit", Some(PAGE)), ("cursor", cursor.as_deref())];
            let answer = client.get(&path::with_query(PATH, &parameters))?;
            let page: Page = answer.read()?;
            if !page.keys.is_empty() {
                end = End::Done;
            }
            let reader = answer.print(|| table.rows(page.keys.iter().map(row).collect()))?;
            cursor = page.cursor;
            if cursor.is_none() || reader == Reader::Gone {
                break;
            }
        }
        if end == End::No {
            note("no keys are stored");
        }
        Ok(end)
    }
}

impl Revoke {
    fn run(self) -> Result<End> {
        let client = self.remote.client()?;
        let path = path::below(PATH, &self.id);
        let answer = client.call(Method::DELETE, &path, None, Patience::Usual)?;
        let gone: Object = answer.read()?;
        answer.print(|| lines(&gone))?;
        Ok(End::Done)
    }
}

fn row(key: &Object) -> Vec<String> {
    let words = |name: &str| {
        let words: Vec<String> = serde_json::from_str(&key.shown(name)).unwrap_or_default();
        words.join(",")
    };
    let mut row = vec![key.shown("id"), key.shown("name"), words("scopes"), words("topics")];
    row.extend(["created", "expires", "rate"].map(|name| key.shown(name)));
    row
}
