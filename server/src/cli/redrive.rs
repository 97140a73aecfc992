//! `linger redrive`.

use anyhow::{Context, Result};
use clap::builder::NonEmptyStringValueParser;
use serde::Deserialize;

use super::client::{Answer, Refused, Remote};
use super::json::Object;
use super::{End, note, one, path};

/// Give dead jobs all their attempts anew
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Redrive {
    /// The topic
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    topic: String,
    /// One job [default: all that are dead]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger redrive orders
  linger redrive orders 42";

#[derive(Deserialize)]
struct Count {
    count: u64,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Object>,
}

#[derive(Deserialize)]
struct Outcome {
    error: Option<Refused>,
}

impl Redrive {
    pub(super) fn run(self) -> Result<End> {
        let path = format!("{}/redrive", path::topic(&self.topic));
        let named = self.id.as_ref().map(|id| [Object::default().with("id", id)]);
        let fields = Object::default().with_some("jobs", named);
        let answer = self.remote.client()?.post(&path, &fields)?;
        if self.id.is_some() { tell_one(&answer) } else { tell_all(&answer) }
    }
}

fn tell_all(answer: &Answer) -> Result<End> {
    let Count { count } = answer.read()?;
    answer.print(|| format!("count  {count}\n"))?;
    if count == 0 {
        note("no job is dead");
        return Ok(End::No);
    }
    Ok(End::Done)
}

fn tell_one(answer: &Answer) -> Result<End> {
    let Results { results } = answer.read()?;
    let result = results.first().context("the server has told nothing of this job")?;
    let outcome: Outcome = serde_json::from_str(&serde_json::to_string(result)?)?;
    if let Some(refused) = outcome.error {
        answer.print(String::new)?;
        return Err(refused.into());
    }
    answer.print(|| one::lines(result))?;
    Ok(End::Done)
}
