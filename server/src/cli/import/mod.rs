//! `linger import`.

mod file;
mod foreign;
mod lmstfy;
mod msgpack;
mod ouqiang;
mod taken;

use std::path::PathBuf;

use anyhow::{Error, Result, bail};
use linger::store::redis::{Address, Foreign};

use super::store::{IfMissing, StoreFlags, with_store};
use super::{End, output};
use crate::config::Place;
use taken::Importing;

/// Take jobs into a store: from a file of `linger backup` or `linger export`, or from another delay queue
///
/// Jobs are as they were: state, attempts, history, leases. One that is in the store already, by topic
/// and id, is left alone and counted as kept, and so are topics that have settings: an import that was
/// cut short is simply begun again. Of a backup that is not whole nothing is taken. Opens the store itself: one in a folder must not be in use by a
/// server; one on Redis may be.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["file", "from_ouqiang", "from_lmstfy"]))]
pub(super) struct Import {
    /// What `linger backup` or `linger export` has written, or - for stdin
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Read the Redis of an ouqiang/delay-queue, and change nothing there
    #[arg(long, value_name = "URL")]
    from_ouqiang: Option<String>,
    /// Read the Redis of an lmstfy pool, and change nothing there
    #[arg(long, value_name = "URL")]
    from_lmstfy: Option<String>,
    /// Of lmstfy: the topic that a queue becomes
    #[arg(long, value_name = "TEMPLATE", default_value = "{namespace}.{queue}")]
    topic_of: String,
    /// Pass over what cannot be read, and count it
    #[arg(long)]
    skip_invalid: bool,
    /// Say what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

const EXAMPLES: &str = "\
Examples:
  linger import jobs.jsonl
  linger export --store /var/lib/linger | linger import --store redis://127.0.0.1 -
  linger import --from-lmstfy redis://127.0.0.1:6379/0 --topic-of '{queue}'
  linger import --from-ouqiang redis://127.0.0.1:6379/1 --store redis://127.0.0.1:6379/0

Stop the other queue first, or what it hands out meanwhile is handed out twice.";

impl Import {
    pub(super) fn run(self) -> Result<End> {
        let Import { file, from_ouqiang, from_lmstfy, topic_of, skip_invalid, json, store } = self;
        let config = store.load()?;
        let from = from_ouqiang.as_deref().or(from_lmstfy.as_deref()).map(address).transpose()?;
        let mut source = file.as_deref().map(file::Source::open).transpose()?;
        if let Some(source) = source.as_mut().filter(|_| !skip_invalid) {
            source.check_whole()?;
        }
        with_store(&config, IfMissing::Make, async |store| {
            let mut importing = Importing::new(store, skip_invalid);
            let read = match (source, from) {
                (Some(source), _) => source.import(&mut importing).await,
                (None, Some(from)) => {
                    let foreign = Foreign::open(&from).await?;
                    match from_lmstfy {
                        Some(_) => lmstfy::import(&foreign, &topic_of, &mut importing).await,
                        None => ouqiang::import(&foreign, &mut importing).await,
                    }
                }
                (None, None) => unreachable!("one of them is required"),
            };
            // What came before a fault is done all the same, and said.
            let done = importing.end().await;
            let (read, taken) = (read, done?);
            output(if json { taken.as_json() } else { taken.as_text() })?;
            read.map(|()| End::Done)
        })
    }
}

/// Where another queue has its jobs. A password in it is not shown.
fn address(text: &str) -> Result<Address> {
    match text.parse::<Place>().map_err(Error::msg)? {
        Place::Redis(url) => Ok(url.address),
        Place::Folder(_) => bail!("`{text}` is no address; give redis://HOST:PORT/DATABASE"),
    }
}
