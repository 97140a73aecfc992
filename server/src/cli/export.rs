//! `linger export`.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use linger::queue::{KvQuery, PAGE_MAX, Query, Queue, TopicInfo, Topics};
use linger::topic::{Settings, Topic};
use serde_json::json;

use super::progress::Progress;
use super::store::{IfMissing, StoreFlags, with_store};
use super::{End, note, output};
use crate::front::http::lines;
use crate::secrets;
use crate::store::Store;

/// Write the jobs of a store to a file, for `linger import`
///
/// Every job with all that is kept of it, its lease included, as lines of JSON; topics with their
/// settings. Opens the store itself: one in a folder must not be in use by a server. One on Redis may
/// be, but what changes meanwhile may be missed, or be there twice with its older state.
///
/// Exit code 1: a topic that was named is not there.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Export {
    /// Only this topic (repeatable)
    #[arg(long, value_name = "TOPIC")]
    topic: Vec<Topic>,
    /// Write to this file, which must not be there yet [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The secrets that deliveries are signed with, too: keep the file as you keep those
    #[arg(long)]
    secrets: bool,
    /// With --out: say what was done as JSON
    #[arg(long, requires = "out")]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

const EXAMPLES: &str = "\
Examples:
  linger export --out jobs.jsonl
  linger export --store redis://127.0.0.1 --topic mail | gzip > mail.jsonl.gz
  linger export --store /var/lib/linger | linger import --store redis://127.0.0.1 -

Workers are not exported: they register anew.";

/// How many jobs are read at once. Each may have a large body.
const AT_ONCE: usize = 100;

/// What was written.
#[derive(Default)]
struct Written {
    jobs: u64,
    topics: u64,
    secrets: u64,
}

impl Export {
    pub(super) fn run(self) -> Result<End> {
        let Export { topic, out, secrets, json, store } = self;
        let config = store.load()?;
        with_store(&config, IfMissing::Refuse, async |store| {
            let topics = match &topic[..] {
                [] => all_topics(store).await?,
                named => match these_topics(store, named).await? {
                    Ok(topics) => topics,
                    Err(missing) => {
                        note(&format!("there is no topic `{missing}`"));
                        return Ok(End::No);
                    }
                },
            };
            let mut writer = writer(out.as_deref())?;
            let written = match write(store, &topics, secrets, &mut *writer).await {
                Err(why) if is_broken_pipe(&why) => return Ok(End::Done),
                written => written?,
            };
            drop(writer);
            told(&written, out.as_deref(), json)?;
            Ok(End::Done)
        })
    }
}

async fn all_topics(store: &Store) -> Result<Vec<TopicInfo>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = Topics::Page { prefix: "".into(), after, limit: PAGE_MAX };
        let page = store.topics(page).await?;
        let is_last = page.len() < PAGE_MAX;
        after = page.last().map(|info| info.topic.clone());
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// These topics, or the first that is not there.
async fn these_topics(store: &Store, named: &[Topic]) -> Result<Result<Vec<TopicInfo>, Topic>> {
    let mut found = Vec::new();
    for topic in named {
        match store.topics(Topics::One(topic.clone())).await?.pop() {
            Some(info) => found.push(info),
            None => return Ok(Err(topic.clone())),
        }
    }
    Ok(Ok(found))
}

/// A new file that its owner alone may read, or stdout.
fn writer(out: Option<&Path>) -> Result<Box<dyn Write>> {
    let Some(path) = out else { return Ok(Box::new(BufWriter::new(std::io::stdout()))) };
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = match made {
        Err(why) if why.kind() == ErrorKind::AlreadyExists => {
            bail!("`{}` is there already; give another name, or remove it", path.display())
        }
        made => made.with_context(|| format!("cannot make `{}`", path.display()))?,
    };
    Ok(Box::new(Synced(BufWriter::new(file))))
}

/// A file that is on disk when it is flushed.
struct Synced(BufWriter<File>);

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()?;
        self.0.get_ref().sync_all()
    }
}

async fn write(
    store: &Store,
    topics: &[TopicInfo],
    secrets: bool,
    out: &mut dyn Write,
) -> Result<Written> {
    let now = store.clock().now().time();
    let total = topics.iter().map(|info| info.counts.total()).sum();
    let (mut written, mut progress) = (Written::default(), Progress::of(Some(total)));
    out.write_all(&lines::head(now))?;
    for info in topics.iter().filter(|info| says_something(info)) {
        out.write_all(&lines::topic(info, now))?;
        written.topics += 1;
    }
    if secrets {
        written.secrets = write_secrets(store, out).await?;
    }
    for info in topics {
        let mut query = Query { limit: AT_ONCE, ..Query::all(info.topic.clone()) };
        loop {
            let page = store.dump(query.clone()).await?;
            for job in &page.jobs {
                out.write_all(&lines::job(job))?;
                written.jobs += 1;
            }
            progress.at(written.jobs, written.jobs);
            match page.cursor {
                Some(cursor) => query.cursor = Some(cursor),
                None => break,
            }
        }
    }
    out.write_all(&lines::end(&lines::End { jobs: written.jobs, sha256: None }))?;
    out.flush()?;
    Ok(written)
}

/// A topic without settings comes to be by its jobs.
fn says_something(info: &TopicInfo) -> bool {
    info.paused.is_some() || info.settings != Settings::default()
}

async fn write_secrets(store: &Store, out: &mut dyn Write) -> Result<u64> {
    let (mut count, mut after) = (0, None);
    loop {
        let prefix = secrets::PREFIX.into();
        let page = store.kv_read(KvQuery::Prefix { prefix, after, limit: PAGE_MAX }).await?;
        for entry in &page {
            out.write_all(&lines::key(entry))?;
            count += 1;
        }
        after = page.last().map(|entry| entry.key.clone());
        if page.len() < PAGE_MAX {
            return Ok(count);
        }
    }
}

/// A reader that has seen enough, such as `head`, is no failure.
fn is_broken_pipe(why: &anyhow::Error) -> bool {
    let cause = why.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

fn told(written: &Written, out: Option<&Path>, as_json: bool) -> Result<()> {
    let Written { jobs, topics, secrets } = written;
    let text = format!("exported {jobs} jobs, settings of {topics} topics and {secrets} secrets");
    match out {
        None => note(&text),
        Some(_) if as_json => {
            let told = json!({ "jobs": jobs, "topics": topics, "secrets": secrets });
            output(format!("{told}\n"))?;
        }
        Some(_) => {
            output(format!("{text}\n"))?;
        }
    }
    Ok(())
}
