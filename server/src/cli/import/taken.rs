//! What is taken into a store, in batches, and how much that was.

use std::fmt::Write;

use anyhow::{Result, bail};
use bytes::Bytes;
use linger::error::{Code, Error};
use linger::queue::{Expect, KvWrite, Queue, TopicChange, Topics, Whole};
use linger::topic::Settings;
use serde_json::json;

use crate::cli::note;
use crate::front::http::lines::{Paused, TopicLine};
use crate::registry;
use crate::secrets;
use crate::store::Store;

/// The most jobs, and the most bytes of bodies, that a store is given at once.
const BATCH_JOBS: usize = 500;
const BATCH_BYTES: usize = 4 << 20;
/// How many of those that are passed over are told one by one.
const TOLD_MAX: u64 = 20;

/// How much was taken in, and how much was there.
#[derive(Default)]
pub(super) struct Taken {
    jobs: Counted,
    topics: Counted,
    secrets: Counted,
    keys: Counted,
    skipped: u64,
    remarks: Vec<(String, u64)>,
}

#[derive(Clone, Copy, Default)]
struct Counted {
    new: u64,
    kept: u64,
}

impl Counted {
    fn count(&mut self, is_new: bool) {
        match is_new {
            true => self.new += 1,
            false => self.kept += 1,
        }
    }
}

/// An import under way.
pub(super) struct Importing<'a> {
    store: &'a Store,
    skip_invalid: bool,
    /// Jobs that the store has not been given yet, and where each was found.
    batch: Vec<(String, Whole)>,
    batch_bytes: usize,
    taken: Taken,
}

impl<'a> Importing<'a> {
    pub(super) fn new(store: &'a Store, skip_invalid: bool) -> Importing<'a> {
        let taken = Taken::default();
        Importing { store, skip_invalid, batch: Vec::new(), batch_bytes: 0, taken }
    }

    pub(super) fn store(&self) -> &'a Store {
        self.store
    }

    /// How many jobs have been seen.
    pub(super) fn jobs(&self) -> u64 {
        self.taken.jobs.new + self.taken.jobs.kept + self.batch.len() as u64
    }

    /// A job that was found there.
    pub(super) async fn job(&mut self, found: String, job: Whole) -> Result<()> {
        self.batch_bytes += job.body.as_bytes().len();
        self.batch.push((found, job));
        if self.batch.len() >= BATCH_JOBS || self.batch_bytes >= BATCH_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// A topic that was found there. One that has a say already keeps it.
    pub(super) async fn topic(&mut self, line: TopicLine) -> Result<()> {
        let TopicLine { topic, settings, pause } = line;
        let there = self.store.topics(Topics::One(topic.clone())).await?.pop();
        let is_new =
            there.is_none_or(|info| info.paused.is_none() && info.settings == Settings::default());
        self.taken.topics.count(is_new);
        if !is_new {
            return Ok(());
        }
        // First, so that nothing is handed out in between.
        let left = match pause {
            None => None,
            Some(Paused::Ever) => Some(None),
            Some(Paused::Until(until)) => {
                let left_ms = until.ms_since(self.store.clock().now().time());
                (left_ms > 0).then(|| Some(std::time::Duration::from_millis(left_ms)))
            }
        };
        if let Some(left) = left {
            self.store.configure(&topic, TopicChange::Pause(left)).await?;
        }
        if settings != Settings::default() {
            self.store.configure(&topic, TopicChange::Set(Box::new(settings))).await?;
        }
        Ok(())
    }

    /// Something of the key-value side that was found there. What is kept only for a while does not
    /// go along: workers register anew.
    pub(super) async fn key(&mut self, found: &str, key: String, value: Bytes) -> Result<()> {
        if key.starts_with(registry::PREFIX) {
            let why = format!("key begins with {}; workers register anew", registry::PREFIX);
            return self.invalid(found, &format!("{why} (field `key`)")).await;
        }
        let is_secret = key.starts_with(secrets::PREFIX);
        let write =
            KvWrite { key: key.into(), value: Some(value), expect: Expect::Absent, ttl: None };
        let is_new = match self.store.kv_write(write).await {
            Ok(_) => true,
            Err(there) if there.code() == Code::AlreadyExists => false,
            Err(why) => return Err(why.into()),
        };
        match is_secret {
            true => self.taken.secrets.count(is_new),
            false => self.taken.keys.count(is_new),
        }
        Ok(())
    }

    /// The lines are not those that were written: an error, unless such is passed over.
    pub(super) fn altered(&self) -> Result<()> {
        let why = "the backup was altered: it is not what its last line says of it";
        if !self.skip_invalid {
            bail!("{why}");
        }
        note(why);
        Ok(())
    }

    /// Something that cannot be read: the end, unless such is passed over.
    pub(super) async fn invalid(&mut self, found: &str, why: &str) -> Result<()> {
        if !self.skip_invalid {
            // What came before it is not to be lost for it.
            self.flush().await?;
            bail!("{found}: {why}; mend it, or pass over such with --skip-invalid");
        }
        self.taken.skipped += 1;
        match self.taken.skipped {
            few if few <= TOLD_MAX => note(&format!("passed over {found}: {why}")),
            few if few == TOLD_MAX + 1 => note("passed over more, which are only counted"),
            _ => {}
        }
        Ok(())
    }

    /// Something that is true of so many jobs, and has to be said.
    pub(super) fn remark(&mut self, text: &str, jobs: u64) {
        if jobs > 0 {
            self.taken.remarks.push((text.to_owned(), jobs));
        }
    }

    async fn flush(&mut self) -> Result<()> {
        self.batch_bytes = 0;
        let (found, jobs): (Vec<_>, Vec<_>) = std::mem::take(&mut self.batch).into_iter().unzip();
        let answers = self.store.restore(jobs).await?;
        let mut refused = Vec::new();
        for (found, answer) in found.into_iter().zip(answers) {
            match answer {
                Ok(is_new) => self.taken.jobs.count(is_new),
                Err(why) => refused.push((found, why)),
            }
        }
        for (found, why) in refused {
            Box::pin(self.invalid(&found, &with_field(&why))).await?;
        }
        Ok(())
    }

    /// Gives the store what is left, and answers what was done.
    pub(super) async fn end(mut self) -> Result<Taken> {
        self.flush().await?;
        Ok(self.taken)
    }
}

fn with_field(why: &Error) -> String {
    match why.at_field() {
        Some(field) => format!("{} (field `{field}`)", why.message()),
        None => why.message().to_owned(),
    }
}

impl Taken {
    pub(super) fn as_text(&self) -> String {
        let Taken { jobs, topics, secrets, keys, skipped, remarks } = self;
        let mut text = format!("imported {} jobs, kept {} that were there\n", jobs.new, jobs.kept);
        for (name, counted) in [("topics", topics), ("secrets", secrets), ("keys", keys)] {
            if counted.new + counted.kept > 0 {
                let (new, kept) = (counted.new, counted.kept);
                let _ = writeln!(text, "set {name}: {new}; left as they were: {kept}");
            }
        }
        if *skipped > 0 {
            let _ = writeln!(text, "passed over {skipped} that cannot be read");
        }
        for (remark, count) in remarks {
            let _ = writeln!(text, "{count} jobs: {remark}");
        }
        text
    }

    pub(super) fn as_json(&self) -> String {
        let both = |counted: &Counted| json!({ "new": counted.new, "kept": counted.kept });
        let remarks: Vec<_> = self
            .remarks
            .iter()
            .map(|(text, jobs)| json!({ "remark": text, "jobs": jobs }))
            .collect();
        let told = json!({
            "jobs": both(&self.jobs),
            "topics": both(&self.topics),
            "secrets": both(&self.secrets),
            "keys": both(&self.keys),
            "skipped": self.skipped,
            "remarks": remarks,
        });
        format!("{told}\n")
    }
}
