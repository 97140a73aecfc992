//! Files of `linger export` and `linger backup`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::taken::Importing;
use crate::cli::progress::Progress;
use crate::front::http::lines::{self, End, Line, Of, Sum};

/// The longest line that is read: what is longer is no job.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// What is read line by line.
pub(super) struct Source {
    reader: Box<dyn BufRead>,
    bytes: Option<u64>,
    /// The same file once more, if it can be read twice.
    again: Option<File>,
}

/// How far a file was read.
#[derive(Default)]
struct Place {
    line: u64,
    bytes: u64,
    jobs: u64,
    of: Option<Of>,
    /// What was before the last line, and what that says of it.
    sum: Sum,
    end: Option<End>,
}

impl Source {
    /// A file, or stdin.
    pub(super) fn open(path: &Path) -> Result<Source> {
        if path == Path::new("-") {
            let reader = Box::new(BufReader::new(std::io::stdin()));
            return Ok(Source { reader, bytes: None, again: None });
        }
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot open `{shown}`"))?;
        let about = file.metadata().ok();
        let again = about.as_ref().filter(|it| it.is_file()).and_then(|_| File::open(path).ok());
        let bytes = about.map(|it| it.len());
        Ok(Source { reader: Box::new(BufReader::new(file)), bytes, again })
    }

    /// Refuses a backup that is not whole before anything of it is taken in. What cannot be read twice is
    /// looked at as it comes.
    pub(super) fn check_whole(&mut self) -> Result<()> {
        let Some(file) = self.again.take() else { return Ok(()) };
        let reader = Box::new(BufReader::new(file));
        let mut source = Source { reader, bytes: None, again: None };
        let (mut place, mut sum, mut before) = (Place::default(), Sum::default(), Vec::new());
        while let Some(line) = source.next(&mut place)? {
            if place.line == 1 && !matches!(read(&line), Ok(Line::Head(Of::Backup))) {
                return Ok(());
            }
            sum.count(&std::mem::replace(&mut before, line));
        }
        match read(&before) {
            Ok(Line::End(end)) if end == sum.end() => Ok(()),
            Ok(Line::End(_)) => bail!(
                "the backup is not whole: it is not what its last line says of it; nothing was \
                 taken in (--skip-invalid takes what can be read)"
            ),
            _ => bail!(
                "the backup is not whole: it has no end after line {}; nothing was taken in \
                 (--skip-invalid takes what can be read)",
                place.line
            ),
        }
    }

    /// Takes in all there is.
    pub(super) async fn import(mut self, importing: &mut Importing<'_>) -> Result<()> {
        let (mut place, mut progress) = (Place::default(), Progress::of(self.bytes));
        while let Some(line) = self.next(&mut place)? {
            if place.end.is_some() {
                bail!("line {}: there is more after the end; is it two files?", place.line);
            }
            take(&line, &mut place, importing).await?;
            progress.at(place.bytes, importing.jobs());
        }
        match &place.end {
            Some(end) if end.jobs != place.jobs => {
                bail!(
                    "there are {} jobs and the last line tells of {}: some are missing",
                    place.jobs,
                    end.jobs
                )
            }
            Some(end) if place.of == Some(Of::Backup) && *end != place.sum.end() => {
                importing.altered()
            }
            Some(_) => Ok(()),
            None => bail!(
                "there is no end after line {}: the export was cut short, and jobs are missing",
                place.line
            ),
        }
    }

    fn next(&mut self, place: &mut Place) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let read = read.context("cannot read on")? as u64;
        place.line += 1;
        place.bytes += read;
        if read == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
            bail!("line {} is longer than any job; is it an export?", place.line);
        }
        if read == 0 {
            place.line -= 1;
            return Ok(None);
        }
        Ok(Some(line))
    }
}

/// What a line says, or why it cannot be read.
fn read(line: &[u8]) -> Result<Line, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    lines::read(text.trim_end()).map_err(|refused| match refused.field() {
        Some(field) => format!("{} (field `{field}`)", refused.message()),
        None => refused.message().to_owned(),
    })
}

async fn take(line: &[u8], place: &mut Place, importing: &mut Importing<'_>) -> Result<()> {
    let found = format!("line {}", place.line);
    let read = read(line);
    if !matches!(read, Ok(Line::End(_))) && (place.line == 1 || place.of == Some(Of::Backup)) {
        place.sum.count(line);
    }
    match read {
        Ok(Line::Head(of)) if place.line == 1 => {
            place.of = Some(of);
            Ok(())
        }
        Ok(Line::Head(_)) => bail!("{found}: an export begins anew; give one file at a time"),
        Ok(_) if place.line == 1 => {
            bail!("{found}: it is no export, which begins with its version")
        }
        Err(why) if place.line == 1 => bail!("{found}: it is no export of linger: {why}"),
        Ok(Line::Topic(topic)) => importing.topic(topic).await,
        Ok(Line::Key(key, value)) => importing.key(&found, key, value).await,
        Ok(Line::Job(job)) => {
            place.jobs += 1;
            importing.job(found, *job).await
        }
        Ok(Line::End(end)) => {
            place.end = Some(end);
            Ok(())
        }
        Err(why) => {
            // It was one, as far as the end is concerned.
            place.jobs += u64::from(lines::is_job(line));
            importing.invalid(&found, &why).await
        }
    }
}
