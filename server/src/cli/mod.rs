//! The command line: one file a verb, or a family of small ones.
//!
//! All verbs but serve, config, export, import, check, doctor, completions and man call a server over
//! its HTTP API.
//! Data goes to stdout, all else to stderr. Exit codes: 0 done, 1 not found or empty, 2 wrong use
//! or failure.

mod add;
mod alarms;
mod backup;
mod bench;
mod body;
mod check;
mod client;
mod completions;
mod config;
mod delete;
mod doctor;
mod export;
mod get;
mod health;
mod history;
mod hold;
mod import;
mod jobs;
mod json;
mod keys;
mod log;
mod man;
mod nodes;
mod one;
mod path;
mod pause;
mod pop;
mod progress;
mod redrive;
mod serve;
mod settle;
mod store;
mod text;
mod top;
mod topics;
mod update;
mod workers;

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::config::{Config, Loaded, ServeFlags};

/// A delay queue: hand it a job with a due time; it keeps the job safe and hands it over when it
/// is due.
#[derive(Parser)]
#[command(name = "linger", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  linger serve                     with nothing set: on 127.0.0.1:7300, jobs in ./linger-data
  linger add hello --delay 5s hi   a job that is due in five seconds
  linger pop hello --wait 10s      take it, and then: linger finish hello ID
  linger jobs hello                what is there, and when it is due
  linger top                       watch topics, rates, lateness, what falls due
  linger config                    what is in force, and where it came from
  linger check ./linger-data       whether a store is in good order
  linger doctor                    whether a server would run well here
  linger backup linger.backup      all of a running server's store, for linger import
  linger export --out jobs.jsonl   every job of a store, for linger import elsewhere

Exit codes: 0 done, 1 not found or empty, 2 wrong use or failure.";

#[derive(Subcommand)]
enum Verb {
    Serve(serve::Serve),
    Add(add::Add),
    Pop(pop::Pop),
    Finish(settle::Finish),
    Fail(settle::Fail),
    Release(settle::Release),
    Touch(settle::Touch),
    Get(get::Get),
    Update(update::Update),
    Delete(delete::Delete),
    Run(hold::Run),
    Hold(hold::Hold),
    Unhold(hold::Unhold),
    History(history::History),
    Jobs(jobs::Jobs),
    Topics(topics::Topics),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Redrive(redrive::Redrive),
    Workers(workers::Workers),
    Nodes(nodes::Nodes),
    Buckets(nodes::Buckets),
    Alarms(alarms::Alarms),
    Health(health::Health),
    Log(log::Log),
    Keys(keys::Keys),
    Config(config::Show),
    Top(top::Top),
    Bench(bench::Bench),
    Backup(backup::Backup),
    Export(export::Export),
    Import(import::Import),
    Check(check::Check),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
    Man(man::ManPages),
}

/// How a verb ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// As asked.
    Done,
    /// There is no such thing, there is nothing, or (of a check) it is not in good order.
    No,
    /// What was looked at does not work, and that was said.
    Failed,
}

/// Not found, or empty.
const NO: u8 = 1;
/// Wrong use, or a failure.
const FAILED: u8 = 2;

/// Runs the verb that the arguments name.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(asked) => {
            // Nobody is left to tell if this cannot be written.
            let _ = asked.print();
            return if asked.use_stderr() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS };
        }
    };
    match cli.verb.run() {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::No) => ExitCode::from(NO),
        Ok(End::Failed) => ExitCode::from(FAILED),
        Err(error) => {
            note(&sentence(&error));
            let refused = error.downcast_ref::<client::Refused>();
            ExitCode::from(if refused.is_some_and(|it| it.is_not_found()) { NO } else { FAILED })
        }
    }
}

impl Verb {
    fn run(self) -> Result<End> {
        match self {
            Verb::Serve(verb) => verb.run(),
            Verb::Add(verb) => verb.run(),
            Verb::Pop(verb) => verb.run(),
            Verb::Finish(verb) => verb.run(),
            Verb::Fail(verb) => verb.run(),
            Verb::Release(verb) => verb.run(),
            Verb::Touch(verb) => verb.run(),
            Verb::Get(verb) => verb.run(),
            Verb::Update(verb) => verb.run(),
            Verb::Delete(verb) => verb.run(),
            Verb::Run(verb) => verb.run(),
            Verb::Hold(verb) => verb.run(),
            Verb::Unhold(verb) => verb.run(),
            Verb::History(verb) => verb.run(),
            Verb::Jobs(verb) => verb.run(),
            Verb::Topics(verb) => verb.run(),
            Verb::Pause(verb) => verb.run(),
            Verb::Resume(verb) => verb.run(),
            Verb::Redrive(verb) => verb.run(),
            Verb::Workers(verb) => verb.run(),
            Verb::Nodes(verb) => verb.run(),
            Verb::Buckets(verb) => verb.run(),
            Verb::Alarms(verb) => verb.run(),
            Verb::Health(verb) => verb.run(),
            Verb::Log(verb) => verb.run(),
            Verb::Keys(verb) => verb.run(),
            Verb::Config(verb) => verb.run(),
            Verb::Top(verb) => verb.run(),
            Verb::Bench(verb) => verb.run(),
            Verb::Backup(verb) => verb.run(),
            Verb::Export(verb) => verb.run(),
            Verb::Import(verb) => verb.run(),
            Verb::Check(verb) => verb.run(),
            Verb::Doctor(verb) => verb.run(),
            Verb::Completions(verb) => verb.run(),
            Verb::Man(verb) => verb.run(),
        }
    }
}

/// An error and its causes, but for those that it has told already.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| {
        let cause = cause.to_string();
        match told.as_str() {
            "" => cause,
            _ if told.ends_with(&cause) => told,
            _ => format!("{told}: {cause}"),
        }
    })
}

/// The settings that `linger serve` with these flags would run by, in this folder.
fn load(flags: &ServeFlags) -> Result<Loaded> {
    Config::load(flags, environment()?, Path::new(""))
}

/// The variables that are ours. `std::env::vars` would stop at any other that is not UTF-8.
fn environment() -> Result<Vec<(String, String)>> {
    let names =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = names.filter(|(name, _)| name.starts_with("LINGER_"));
    ours.map(|(name, value)| {
        let value = value.into_string().ok().with_context(|| format!("{name} is not UTF-8"))?;
        Ok((name, value))
    })
    .collect()
}

/// Says something on stderr. If nobody listens there, nobody is left to tell.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "linger: {text}");
}

/// Whoever reads stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    There,
    Gone,
}

/// Writes data to stdout. A reader that has seen enough, such as `head`, is no failure.
fn output(data: impl AsRef<[u8]>) -> Result<Reader> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(data.as_ref()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(error).context("cannot write to stdout"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = anyhow::anyhow!("no space");
        let error = cause.context("writing failed: no space").context("cannot add");
        assert_eq!(sentence(&error), "cannot add: writing failed: no space");
        let error = anyhow::anyhow!("no space").context("cannot add");
        assert_eq!(sentence(&error), "cannot add: no space");
    }

    #[test]
    fn every_verb_has_examples() {
        for verb in Cli::command().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("  linger {}", verb.get_name())), "{}", verb.get_name());
        }
    }
}
