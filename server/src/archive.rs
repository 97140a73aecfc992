//! The archive: jobs whose life is over are written to files, or pushed on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use linger::error::Result;
use linger::job::{Body, NewJob, OnConflict, Target};
use linger::queue::{Ended, Queue};
use linger::time::SECOND;
use linger::topic::{Archive, Topic};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config;
use crate::store::Store;

/// So many jobs are written at once.
const AT_ONCE: usize = 1000;
/// How long to wait after what could not be written.
const PAUSE: Duration = SECOND;
/// At a stop: nothing has ended any more when this long nothing comes.
const LAST_WAIT: Duration = Duration::from_millis(100);
/// The topic of the jobs by which others are pushed to an archive. It has none itself.
const TOPIC: &str = "linger.archive";

/// Writes a job whose life is over as one JSON object.
pub(crate) type Told = fn(&Ended) -> Vec<u8>;

/// Keeps what ends, until it is stopped.
pub(crate) struct Archiving {
    stopping: CancellationToken,
    task: JoinHandle<()>,
}

impl Archiving {
    /// Begins to keep what ends in this store.
    pub(crate) fn start(store: Arc<Store>, config: &config::Archive, told: Told) -> Archiving {
        let stopping = CancellationToken::new();
        let files = Files { config: config.clone(), open: None };
        let keeper = Keeper { store, files, told, stopping: stopping.clone() };
        Archiving { stopping, task: tokio::spawn(keeper.run()) }
    }

    /// Keeps what has ended by now, and no more.
    pub(crate) async fn stop(self) {
        self.stopping.cancel();
        // A panic there has been printed.
        let _ = self.task.await;
    }
}

struct Keeper {
    store: Arc<Store>,
    files: Files,
    told: Told,
    stopping: CancellationToken,
}

impl Keeper {
    async fn run(mut self) {
        while let Some(ended) = self.next().await {
            self.keep(ended).await;
        }
    }

    /// What has ended; none at a stop, when no more comes.
    async fn next(&self) -> Option<Vec<Ended>> {
        let next = self.store.ended(AT_ONCE);
        let found = tokio::select! {
            biased;
            found = next => found,
            () = async {
                self.stopping.cancelled().await;
                tokio::time::sleep(LAST_WAIT).await;
            } => return None,
        };
        match found {
            Ok(ended) => Some(ended),
            Err(error) => {
                tracing::error!(%error, "no more jobs are archived");
                None
            }
        }
    }

    /// Keeps them, however often that has to be tried: what is kept twice does no harm.
    async fn keep(&mut self, ended: Vec<Ended>) {
        let of_ours = |one: &Ended| one.job.spec.topic.as_str() == TOPIC;
        let ended: Vec<Ended> = ended.into_iter().filter(|one| !of_ours(one)).collect();
        loop {
            let Err(error) = self.try_to_keep(&ended).await else { return };
            let jobs = ended.len();
            tracing::error!(jobs, "jobs that have ended cannot be archived: {error:#}");
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    async fn try_to_keep(&mut self, ended: &[Ended]) -> anyhow::Result<()> {
        let (mut lines, mut jobs) = (Vec::new(), Vec::new());
        for one in ended {
            match &one.archive {
                Archive::Files => put_line(&mut lines, (self.told)(one)),
                Archive::Target(target) => jobs.push(self.pushed(one, target)?),
            }
        }
        if !jobs.is_empty() {
            self.store.add_all(jobs).await?;
        }
        if lines.is_empty() {
            return Ok(());
        }
        let mut files = std::mem::take(&mut self.files);
        let written = tokio::task::spawn_blocking(move || (files.write(&lines), files)).await;
        let (written, files) = written.context("writing broke off")?;
        self.files = files;
        written
    }

    /// The job by which one that has ended is pushed. It is named by its number, so that it is
    /// added once however often that is tried.
    fn pushed(&self, ended: &Ended, target: &Target) -> Result<NewJob> {
        let (topic, id) = (TOPIC.parse::<Topic>()?, ended.job.number.to_string().parse()?);
        let body = String::from_utf8((self.told)(ended)).expect("JSON is text");
        let mut job = NewJob::new(topic, id, Body::text(body));
        job.spec.target = Some(target.clone());
        job.on_conflict = OnConflict::Keep;
        Ok(job)
    }
}

/// Appends a line. A body is kept as it was written, which may have been on several.
fn put_line(lines: &mut Vec<u8>, object: Vec<u8>) {
    lines.extend(
        object.into_iter().map(|byte| if byte == b'\n' || byte == b'\r' { b' ' } else { byte }),
    );
    lines.push(b'\n');
}

/// Files of JSON lines, one after the other.
#[derive(Default)]
struct Files {
    config: config::Archive,
    open: Option<(File, u64)>,
}

impl Files {
    /// Writes whole lines, and has them on disk.
    fn write(&mut self, lines: &[u8]) -> anyhow::Result<()> {
        let folder = self.config.folder.clone();
        let written = self.append(lines);
        if written.is_err() {
            // Part of a line may be there: the next one begins elsewhere.
            self.open = None;
        }
        written.with_context(|| format!("cannot write to the archive in `{}`", folder.display()))
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let (mut file, bytes) = match self.open.take() {
            Some((file, bytes)) if bytes < self.config.file_bytes as u64 => (file, bytes),
            _ => (self.begin()?, 0),
        };
        file.write_all(lines)?;
        file.sync_data()?;
        self.open = Some((file, bytes + lines.len() as u64));
        Ok(())
    }

    /// Begins a file, and lets go of the oldest if there are too many.
    fn begin(&self) -> io::Result<File> {
        let folder = &self.config.folder;
        fs::create_dir_all(folder)?;
        let mut names = names(folder)?;
        let next = names.last().map_or(1, |(number, _)| number + 1);
        let path = folder.join(format!("{PREFIX}{next:08}{SUFFIX}"));
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        File::open(folder)?.sync_all()?;
        let too_many = (names.len() + 1).saturating_sub(self.config.files.max(1));
        if self.config.files > 0 {
            for (_, path) in names.drain(..too_many) {
                fs::remove_file(path)?;
            }
        }
        Ok(file)
    }
}

const PREFIX: &str = "ended-";
const SUFFIX: &str = ".jsonl";

/// The files there are, by their number.
fn names(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            names.push((number, path));
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path, file_bytes: usize, files: usize) -> Files {
        let folder = folder.join("archive");
        Files { config: config::Archive { folder, file_bytes, files }, open: None }
    }

    fn all(folder: &Path) -> Vec<(u64, String)> {
        let names = names(&folder.join("archive")).unwrap();
        names.into_iter().map(|(at, path)| (at, fs::read_to_string(path).unwrap())).collect()
    }

    #[test]
    fn a_full_file_is_followed_by_the_next_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let mut some = files(folder.path(), 4, 2);
        for line in ["1\n", "2\n", "3\n", "4\n", "5\n"] {
            some.write(line.as_bytes()).unwrap();
        }
        assert_eq!(all(folder.path()), [(2, "3\n4\n".into()), (3, "5\n".into())]);
        // Another process goes on in a file of its own.
        files(folder.path(), 4, 0).write(b"6\n").unwrap();
        let kept = [(2, "3\n4\n".into()), (3, "5\n".into()), (4, "6\n".into())];
        assert_eq!(all(folder.path()), kept);
    }

    #[test]
    fn what_cannot_be_written_says_where_and_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut some = files(folder.path(), 4, 0);
        fs::write(folder.path().join("archive"), "in the way").unwrap();
        let refused = some.write(b"1\n").unwrap_err().to_string();
        assert!(refused.starts_with("cannot write to the archive in `"), "{refused}");
        fs::remove_file(folder.path().join("archive")).unwrap();
        some.write(b"1\n").unwrap();
        assert_eq!(all(folder.path()), [(1, "1\n".into())]);
    }

    #[test]
    fn a_line_is_one_line() {
        let mut lines = Vec::new();
        put_line(&mut lines, b"{\"body\":{\r\n \"a\": 1\n}}".to_vec());
        assert_eq!(lines, b"{\"body\":{   \"a\": 1 }}\n");
    }
}
