//! `linger doctor`.

mod folder;
mod machine;
mod redis;

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use super::{End, load, output, sentence};
use crate::config::{Config, Place, ServeFlags};
use linger::store::embedded::Durability;

/// Look whether a server would run well here, and say what to do
///
/// Looks at the settings, the clock, the limits of this machine, the ports, the certificates, and the store: the disk of a
/// folder, or the settings of Redis. Takes the flags of `linger serve`; changes nothing, and may be run
/// beside a server. What a folder holds is verified by `linger check`.
///
/// Exit code 0: all is well; 1: there are warnings; 2: there are problems.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Doctor {
    /// As JSON: {"findings": [{"about": "clock", "level": "well", "says": "…"}, …], …}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: ServeFlags,
}

const EXAMPLES: &str = "\
Examples:
  linger doctor
  linger doctor --config /etc/linger.toml --store /var/lib/linger
  linger doctor --store redis://127.0.0.1 --json | jq '.findings[] | select(.level != \"well\")'

Run it as the user that the server runs as.";

/// How it stands with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Well,
    /// It works, and may go wrong.
    Warning,
    /// It does not work, or loses jobs.
    Problem,
}

/// Something that was looked at.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    about: &'static str,
    level: Level,
    says: String,
    /// What to do.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// All that was found.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn well(&mut self, about: &'static str, says: impl Into<String>) {
        self.0.push(Finding { about, level: Level::Well, says: says.into(), remedy: None });
    }

    fn warning(&mut self, about: &'static str, says: impl Into<String>, remedy: impl Into<String>) {
        let (says, remedy) = (says.into(), Some(remedy.into()));
        self.0.push(Finding { about, level: Level::Warning, says, remedy });
    }

    fn problem(&mut self, about: &'static str, says: impl Into<String>, remedy: impl Into<String>) {
        let (says, remedy) = (says.into(), Some(remedy.into()));
        self.0.push(Finding { about, level: Level::Problem, says, remedy });
    }

    fn worst(&self) -> Level {
        self.0.iter().map(|finding| finding.level).max().unwrap_or(Level::Well)
    }

    fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|finding| finding.level == level).count()
    }
}

impl Doctor {
    pub(super) fn run(self) -> Result<End> {
        let mut findings = Findings::default();
        let config = settings(&self.flags, &mut findings);
        machine::clock(&mut findings);
        if let Some(config) = &config {
            machine::files(config, &mut findings);
            machine::ports(config, &mut findings);
            machine::certificates(config, &mut findings);
            match &config.store {
                Place::Folder(path) => folder::look(path, config, &mut findings),
                Place::Redis(url) => redis::look(&url.address, config, &mut findings),
            }
        }
        output(if self.json { as_json(&findings) } else { as_text(&findings) })?;
        Ok(match findings.worst() {
            Level::Well => End::Done,
            Level::Warning => End::No,
            Level::Problem => End::Failed,
        })
    }
}

/// The settings, if there are any to go by.
fn settings(flags: &ServeFlags, findings: &mut Findings) -> Option<Config> {
    let about = "settings";
    let config = match load(flags) {
        Ok(loaded) => loaded.config,
        Err(why) => {
            let remedy = "put it right; `linger config` shows each setting and where it came from";
            findings.problem(about, sentence(&why), remedy);
            return None;
        }
    };
    let mut is_well = true;
    if config.insecure && !config.listen.ip().to_canonical().is_loopback() {
        is_well = false;
        let says = format!("`{}` can be reached by others, who may do anything", config.listen);
        findings.warning(about, says, "see to it that the network keeps strangers out");
    }
    if matches!(config.store, Place::Folder(_)) && config.durability == Durability::Relaxed {
        is_well = false;
        let says = "durability is `relaxed`: a power cut may lose the last 100 ms";
        findings.warning(about, says, "set `durability = \"sync\"` if no job may be lost");
    }
    if is_well {
        findings.well(about, "they can be read, and fit together");
    }
    Some(config)
}

fn as_text(findings: &Findings) -> String {
    let width = findings.0.iter().map(|finding| finding.about.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { about, level, says, remedy } in &findings.0 {
        let level = match level {
            Level::Well => "well   ",
            Level::Warning => "warning",
            Level::Problem => "PROBLEM",
        };
        let _ = writeln!(text, "{level}  {about:width$}  {}", super::text::plain(says));
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "         {:width$}  → {remedy}", "");
        }
    }
    let (warnings, problems) = (findings.count(Level::Warning), findings.count(Level::Problem));
    let _ = match (warnings, problems) {
        (0, 0) => writeln!(text, "all is well"),
        _ => writeln!(text, "problems: {problems}, warnings: {warnings}"),
    };
    text
}

fn as_json(findings: &Findings) -> String {
    let told = json!({
        "level": findings.worst(),
        "warnings": findings.count(Level::Warning),
        "problems": findings.count(Level::Problem),
        "findings": findings.0,
    });
    format!("{told}\n")
}
