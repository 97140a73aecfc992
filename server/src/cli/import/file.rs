//! Files of `linger export`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::taken::Importing;
use crate::cli::progress::Progress;
use crate::front::http::lines::{self, Line};

/// The longest line that is read: what is longer is no job.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// What is read line by line.
pub(super) struct Source {
    reader: Box<dyn BufRead>,
    bytes: Option<u64>,
}

/// How far a file was read.
#[derive(Default)]
struct Place {
    line: u64,
    bytes: u64,
    jobs: u64,
    /// How many jobs the last line has told of.
    end: Option<u64>,
}

impl Source {
    /// A file, or stdin.
    pub(super) fn open(path: &Path) -> Result<Source> {
        if path == Path::new("-") {
            return Ok(Source { reader: Box::new(BufReader::new(std::io::stdin())), bytes: None });
        }
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot open `{shown}`"))?;
        let bytes = file.metadata().ok().map(|it| it.len());
        Ok(Source { reader: Box::new(BufReader::new(file)), bytes })
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
        match place.end {
            Some(jobs) if jobs == place.jobs => Ok(()),
            Some(jobs) => {
                bail!(
                    "there are {} jobs and the last line tells of {jobs}: some are missing",
                    place.jobs
                )
            }
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

async fn take(line: &[u8], place: &mut Place, importing: &mut Importing<'_>) -> Result<()> {
    let found = format!("line {}", place.line);
    let read = match std::str::from_utf8(line) {
        Ok(text) => lines::read(text.trim_end()).map_err(|refused| match refused.field() {
            Some(field) => format!("{} (field `{field}`)", refused.message()),
            None => refused.message().to_owned(),
        }),
        Err(_) => Err("it is not UTF-8".to_owned()),
    };
    match read {
        Ok(Line::Head) if place.line == 1 => Ok(()),
        Ok(Line::Head) => bail!("{found}: an export begins anew; give one file at a time"),
        Ok(_) if place.line == 1 => {
            bail!("{found}: it is no export, which begins with its version")
        }
        Err(why) if place.line == 1 => bail!("{found}: it is no export of linger: {why}"),
        Ok(Line::Topic(topic)) => importing.topic(topic).await,
        Ok(Line::Key(key, value)) => importing.secret(&found, key, value).await,
        Ok(Line::Job(job)) => {
            place.jobs += 1;
            importing.job(found, *job).await
        }
        Ok(Line::End(jobs)) => {
            place.end = Some(jobs);
            Ok(())
        }
        Err(why) => {
            // It was one, as far as the end is concerned.
            place.jobs += u64::from(line.starts_with(br#"{"kind":"job""#));
            importing.invalid(&found, &why).await
        }
    }
}
