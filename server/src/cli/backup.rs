//! `linger backup`.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;

use super::client::Remote;
use super::progress::Progress;
use super::{End, note, output};
use crate::front::http::lines::{self, Line, Of, Sum};
use crate::secrets;

/// Copy the whole store of a running server to a file, for `linger import`
///
/// Every job with all that is kept of it, topics with their settings, and what is kept beside jobs. A store
/// in a folder is copied as it is at one moment. On Redis each job that is there from beginning to end is in
/// the copy once, as it was at some moment between. The file is there under its name only when it is whole.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Backup {
    /// The file, which must not be there yet; - for stdout
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The secrets that deliveries are signed with, too: keep the file as you keep those
    #[arg(long)]
    secrets: bool,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger backup linger.backup
  linger backup --secrets \"/backups/linger-$(date +%F)\" --server http://10.0.0.5:7300
  linger backup - | gzip > linger.backup.gz
  linger import linger.backup --store redis://127.0.0.1

Workers are not in it: they register anew.";

impl Backup {
    pub(super) fn run(self) -> Result<End> {
        let client = self.remote.client()?;
        let path = if self.secrets { "/v1/backup?secrets=true" } else { "/v1/backup" };
        let mut copy = Copy::default();
        if self.file == Path::new("-") {
            let mut stdout = std::io::stdout().lock();
            client.download(path, |piece| {
                copy.take(piece)?;
                stdout.write_all(piece).context("cannot write to stdout")
            })?;
            copy.check()?;
            note(&copy.told());
            return Ok(End::Done);
        }
        let mut file = Unfinished::new(&self.file)?;
        client.download(path, |piece| {
            copy.take(piece)?;
            file.write(piece)
        })?;
        copy.check()?;
        file.finish()?;
        copy.progress = None;
        if client.prints_json() {
            let Copy { jobs, topics, keys, secrets, bytes, .. } = copy;
            let told = json!({
                "file": self.file, "bytes": bytes, "jobs": jobs, "topics": topics, "keys": keys,
                "secrets": secrets,
            });
            output(format!("{told}\n"))?;
        } else {
            output(format!("{}\n", copy.told()))?;
        }
        if !self.secrets {
            note("the keys that sign deliveries are not in it; --secrets takes them along");
        }
        Ok(End::Done)
    }
}

/// What has come of a backup so far.
#[derive(Default)]
struct Copy {
    /// All lines but the last.
    sum: Sum,
    /// The last one that is whole, and what came after it.
    last: Vec<u8>,
    rest: Vec<u8>,
    jobs: u64,
    topics: u64,
    keys: u64,
    secrets: u64,
    bytes: u64,
    progress: Option<Progress>,
}

impl Copy {
    fn take(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes += piece.len() as u64;
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.line()?;
            }
        }
        if let Some(progress) = &mut self.progress {
            progress.at(self.jobs, self.jobs);
        }
        Ok(())
    }

    /// A line is whole.
    fn line(&mut self) -> Result<()> {
        let before = std::mem::replace(&mut self.last, std::mem::take(&mut self.rest));
        self.sum.count(&before);
        if before.is_empty() {
            return self.begin();
        }
        self.jobs += u64::from(lines::is_job(&self.last));
        self.topics += u64::from(self.last.starts_with(br#"{"kind":"topic""#));
        if self.last.starts_with(br#"{"kind":"key""#) {
            let is_secret = matches!(read(&self.last), Some(Line::Key(key, _)) if key.starts_with(secrets::PREFIX));
            self.keys += u64::from(!is_secret);
            self.secrets += u64::from(is_secret);
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        let Some(Line::Head(Of::Backup)) = read(&self.last) else {
            bail!("the server's answer is no backup; is it an older version?");
        };
        #[derive(serde::Deserialize)]
        struct Head {
            jobs: u64,
        }
        let total = serde_json::from_slice::<Head>(&self.last).ok().map(|head| head.jobs);
        self.progress = Some(Progress::of(total));
        Ok(())
    }

    /// Refuses what is not whole.
    fn check(&self) -> Result<()> {
        match read(&self.last) {
            Some(Line::End(end)) if end == self.sum.clone().end() && self.rest.is_empty() => Ok(()),
            _ => bail!("the backup broke off before its end, or was altered on its way"),
        }
    }

    fn told(&self) -> String {
        let Copy { jobs, topics, keys, secrets, bytes, .. } = self;
        format!(
            "backed up {jobs} jobs, settings of {topics} topics, {keys} keys and {secrets} secrets: \
             {bytes} bytes"
        )
    }
}

fn read(line: &[u8]) -> Option<Line> {
    lines::read(std::str::from_utf8(line).ok()?.trim_end()).ok()
}

/// A file that gets its name when it is whole, and is gone if that is never.
struct Unfinished {
    name: PathBuf,
    part: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl Unfinished {
    fn new(name: &Path) -> Result<Unfinished> {
        check_free(name)?;
        let shown = name.display();
        let file = name.file_name().with_context(|| format!("`{shown}` is no name of a file"))?;
        let part = name.with_file_name(format!("{}.part", file.to_string_lossy()));
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
        let writer = match made {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                let part = part.display();
                bail!(
                    "`{part}` is there already: another backup writes it, or one was killed; \
                       remove it, or give another name"
                )
            }
            made => made.with_context(|| format!("cannot make `{}`", part.display()))?,
        };
        Ok(Unfinished { name: name.into(), part, writer: Some(BufWriter::new(writer)) })
    }

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        let writer = self.writer.as_mut().expect("it is not finished");
        writer.write_all(piece).with_context(|| format!("cannot write `{}`", self.part.display()))
    }

    /// On disk first, then under its name.
    fn finish(mut self) -> Result<()> {
        let mut writer = self.writer.take().expect("it is not finished");
        let finished = (|| {
            writer.flush()?;
            writer.get_ref().sync_all()
        })();
        let finished = finished.map_err(anyhow::Error::from).and_then(|()| {
            check_free(&self.name)?;
            std::fs::rename(&self.part, &self.name)?;
            let folder = self.name.parent().filter(|folder| *folder != Path::new(""));
            Ok(File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?)
        });
        if finished.is_err() {
            let _ = std::fs::remove_file(&self.part);
        }
        finished.with_context(|| format!("cannot finish `{}`", self.name.display()))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.writer.is_some() {
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

fn check_free(name: &Path) -> Result<()> {
    match name.symlink_metadata() {
        Ok(_) => {
            Err(anyhow!("`{}` is there already; give another name, or remove it", name.display()))
        }
        Err(_) => Ok(()),
    }
}
