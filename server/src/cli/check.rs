//! `linger check`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, bail};
use linger::store::embedded::{self, Report};

use super::{End, load, output};
use crate::config::{Place, ServeFlags};

/// Verify a store that no server has open, and change nothing
///
/// Reads every record that a job needs. Exit code 0: in good order; 1: damaged; 2: not checked.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Check {
    /// The store's folder [default: the setting `store`]
    folder: Option<PathBuf>,
    /// Take the setting from this file [env: LINGER_CONFIG] [default: ./linger.toml if it is there]
    #[arg(long, value_name = "FILE", conflicts_with = "folder")]
    config: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  linger check
  linger check /var/lib/linger && echo fine";

impl Check {
    pub(super) fn run(self) -> Result<End> {
        let folder = match self.place()? {
            Place::Folder(folder) => folder,
            Place::Redis(url) => bail!(
                "cannot check `{}`: only a store in a folder can be checked, and this one is on Redis",
                url.address
            ),
        };
        let report = embedded::check(&folder)?;
        output(as_text(&folder, &report))?;
        Ok(if report.damage.is_empty() { End::Done } else { End::No })
    }

    /// Where the store is that is meant.
    fn place(self) -> Result<Place> {
        match self.folder {
            Some(folder) => match folder.to_str() {
                Some(text) => text.parse().map_err(Error::msg),
                None => Ok(folder.into()),
            },
            None => {
                let flags = ServeFlags { config: self.config, ..ServeFlags::default() };
                Ok(load(&flags)?.config.store)
            }
        }
    }
}

fn as_text(folder: &Path, report: &Report) -> String {
    let mut lines = Vec::new();
    for finding in &report.damage {
        lines
            .push(format!("damage: {} at byte {}: {}", finding.file, finding.offset, finding.what));
    }
    if report.damage_left_out > 0 {
        lines.push(format!("damage: {} findings more", report.damage_left_out));
    }
    lines.extend(report.warnings.iter().map(|warning| format!("warning: {warning}")));
    if report.is_torn {
        lines.push("note: the last batch was cut short; it was never acknowledged".into());
    }
    let log_end = report.log_end.as_ref().map(|(file, offset)| format!("{file} at byte {offset}"));
    for (name, value) in [
        ("jobs", report.jobs.to_string()),
        ("topics", report.topics.to_string()),
        ("keys", report.keys.to_string()),
        ("segments", report.segments.to_string()),
        ("live bytes", report.live_bytes.to_string()),
        ("checkpoint", report.checkpoint.clone().unwrap_or_else(|| "none".into())),
        ("log end", log_end.unwrap_or_else(|| "none".into())),
    ] {
        lines.push(format!("{name:<10}  {value}"));
    }
    let verdict = match report.damage.len() as u64 + report.damage_left_out {
        0 => "in good order".into(),
        1 => "damaged, 1 finding".into(),
        findings => format!("damaged, {findings} findings"),
    };
    lines.push(format!("{}: {verdict}", folder.display()));
    lines.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    })
}
