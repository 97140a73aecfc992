//! `linger check`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, bail};
use linger::store::embedded::{self, Report};
use linger::store::redis::{self, Checked, Repair};

use super::progress::Progress;
use super::{End, load, output};
use crate::config::{Place, ServeFlags};

/// Verify a store
///
/// One in a folder, which no server may have open: reads every record that a job needs, and changes
/// nothing. One on Redis, which may be in use: looks whether every job stands where it should, and
/// nothing stands anywhere without a job.
///
/// Exit code 0: in good order, or it is now; 1: damaged; 2: not checked.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Check {
    /// The store: a folder, or redis://HOST:PORT [default: the setting `store`]
    #[arg(value_name = "FOLDER|URL")]
    store: Option<PathBuf>,
    /// On Redis: put right what is wrong. No job is removed
    #[arg(long)]
    repair: bool,
    /// Take settings from this file [env: LINGER_CONFIG] [default: ./linger.toml if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set any other setting, such as store.prefix=shop (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  linger check
  linger check /var/lib/linger && echo fine
  linger check redis://127.0.0.1 --repair";

impl Check {
    pub(super) fn run(self) -> Result<End> {
        let repair = if self.repair { Repair::Yes } else { Repair::No };
        match self.named()? {
            // No settings have a say in it, so that none can be in the way.
            Some(Place::Folder(folder)) => folder_checked(&folder, repair),
            named => {
                let flags =
                    ServeFlags { config: self.config, set: self.set, ..ServeFlags::default() };
                let config = load(&flags)?.config;
                match named.unwrap_or(config.store) {
                    Place::Folder(folder) => folder_checked(&folder, repair),
                    Place::Redis(url) => {
                        redis_checked(&url.address, config.shared.prefix.as_str(), repair)
                    }
                }
            }
        }
    }

    /// The store that is named, if one is.
    fn named(&self) -> Result<Option<Place>> {
        let place = self.store.as_ref().map(|store| match store.to_str() {
            Some(text) => text.parse().map_err(Error::msg),
            None => Ok(store.clone().into()),
        });
        place.transpose()
    }
}

fn folder_checked(folder: &Path, repair: Repair) -> Result<End> {
    if repair == Repair::Yes {
        bail!("a store in a folder cannot be repaired; restore a copy of it");
    }
    let report = embedded::check(folder)?;
    output(as_text(folder, &report))?;
    Ok(if report.damage.is_empty() { End::Done } else { End::No })
}

fn redis_checked(address: &redis::Address, prefix: &str, repair: Repair) -> Result<End> {
    let checked = check_redis(address, prefix, repair)?;
    output(of_redis(&address.to_string(), &checked))?;
    Ok(if checked.is_faulty() { End::No } else { End::Done })
}

fn check_redis(address: &redis::Address, prefix: &str, repair: Repair) -> Result<Checked> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut progress = None;
    let seen = |checked: &Checked| {
        let (done, all) = checked.buckets;
        let progress = progress.get_or_insert_with(|| Progress::of(Some(all.into())));
        progress.at(done.into(), checked.jobs);
    };
    Ok(runtime.block_on(redis::check(address, prefix, repair, seen))?)
}

/// What a kind of fault means.
fn meaning(kind: &str) -> &str {
    match kind {
        "entry_without_job" => "entries whose jobs are gone",
        "entry_misplaced" => "entries where their jobs do not belong",
        "job_out_of_order" => "jobs that do not stand where their state says",
        "job_without_id" => "jobs that are not found by their ids",
        "job_without_topic" => "jobs whose topics are gone",
        "job_twice" => "jobs of the same topic and id: delete one by its number",
        "job_unreadable" => "jobs that cannot be read",
        "id_without_job" => "ids whose jobs are gone",
        "topic_misnamed" => "topics whose names lead elsewhere",
        "topic_unlisted" => "topics that are not listed as they are",
        "topic_not_ready" => "topics that are listed as ready and are not, or the other way round",
        "destination_unlisted" | "destination_empty" => {
            "destinations that are not listed as they are"
        }
        "clock_asleep" => "jobs that nobody wakes up for",
        "clock_astray" => "times of topics that are gone",
        "errors_miscounted" => "errors of dead jobs that are counted wrongly",
        "bytes_miscounted" => "topics whose bodies are counted wrongly",
        "counter_behind" => "counters that are behind",
        other => other,
    }
}

fn of_redis(address: &str, checked: &Checked) -> String {
    let mut text = String::new();
    for fault in &checked.faults {
        let (kind, means) = (&fault.kind, meaning(&fault.kind));
        let _ =
            writeln!(text, "fault: {kind}: {}, {} repaired: {means}", fault.found, fault.repaired);
        for example in &fault.examples {
            let _ = writeln!(text, "  {example}");
        }
    }
    for (name, value) in [
        ("jobs", checked.jobs),
        ("topics", checked.topics),
        ("entries", checked.entries),
        ("ids", checked.ids),
        ("buckets", checked.buckets.0.into()),
    ] {
        let _ = writeln!(text, "{name:<10}  {value}");
    }
    let found: u64 = checked.faults.iter().map(|fault| fault.found).sum();
    let repaired: u64 = checked.faults.iter().map(|fault| fault.repaired).sum();
    let verdict = match (found, found - repaired) {
        (0, _) => "in good order".to_owned(),
        (_, 0) => format!("in good order now, {repaired} faults repaired"),
        (_, left) if repaired > 0 => format!("damaged, {left} faults, {repaired} repaired"),
        (_, left) => format!("damaged, {left} faults; put right what can be with --repair"),
    };
    let _ = writeln!(text, "{address}: {verdict}");
    text
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
