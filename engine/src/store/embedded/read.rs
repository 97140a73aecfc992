//! Reading jobs back, on the callers' side.

use std::collections::VecDeque;

use bytes::Bytes;

use super::batch::{DECIDED_BYTES, Decided, HEAD_BYTES, Tag, read_record};
use super::codec::{Cold, Malformed, decode_note, whole};
use super::place::Pinned;
use super::state::Snapshot;
use crate::error::{Code, Error, Result};
use crate::history::Notes;
use crate::record::Record;
use crate::time::Time;

/// A job's cold record, read back.
pub(crate) struct ReadCold {
    pub(crate) decided: Decided,
    pub(crate) cold: Cold,
}

/// Most bytes that are read at once for several jobs. A body keeps all of them in memory.
const AHEAD_BYTES_MAX: u64 = 16 << 10;

/// Part of a segment, read once for several jobs that lie there side by side.
#[derive(Default)]
pub(crate) struct Ahead {
    segment: u32,
    from: u64,
    bytes: Bytes,
}

impl Ahead {
    /// The first of these jobs, as [`record`] has it; those that follow are likely to be asked for
    /// next.
    pub(crate) async fn record<'a>(
        &mut self,
        jobs: impl Iterator<Item = &'a Snapshot> + Clone,
    ) -> Result<Record> {
        let job = jobs.clone().next().expect("there is one to read");
        let found = self.find(&job.cold).or_else(|| {
            self.look(jobs.map(|job| &job.cold));
            self.find(&job.cold)
        });
        match found {
            Some(bytes) => {
                let payload = checked(bytes, Tag::Cold, job.number, &job.cold)?;
                Ok(made(job, split(payload, &job.cold)?))
            }
            None => record(job).await,
        }
    }

    fn find(&self, pinned: &Pinned) -> Option<Bytes> {
        let from = u64::from(pinned.place.offset).checked_sub(self.from)? as usize;
        let to = from + pinned.place.len as usize;
        let is_here = pinned.segment.number == self.segment && to <= self.bytes.len();
        is_here.then(|| self.bytes.slice(from..to))
    }

    /// Reads the first with as many of those that follow as lie behind it, if they lie close and
    /// nobody has to wait for the disk.
    fn look<'a>(&mut self, mut places: impl Iterator<Item = &'a Pinned>) {
        let Some(first) = places.next() else { return };
        let from = u64::from(first.place.offset);
        let (mut to, mut used) = (end(first), u64::from(first.place.len));
        let alone = to;
        for next in places {
            let used_then = used + u64::from(next.place.len);
            let is_behind = next.segment.number == first.segment.number && end(next) > to;
            if !is_behind || end(next) - from > (2 * used_then).min(AHEAD_BYTES_MAX) {
                break;
            }
            (to, used) = (end(next), used_then);
        }
        if to == alone {
            return;
        }
        let mut buf = vec![0; (to - from) as usize];
        if let Ok(Some(_)) = first.segment.file.read_cached(&mut buf, from) {
            *self = Ahead { segment: first.segment.number, from, bytes: buf.into() };
        }
    }
}

fn end(pinned: &Pinned) -> u64 {
    u64::from(pinned.place.offset) + u64::from(pinned.place.len)
}

/// The job as every store keeps it, without history.
pub(crate) async fn record(job: &Snapshot) -> Result<Record> {
    Ok(made(job, read_cold(job.number, &job.cold).await?))
}

fn made(job: &Snapshot, ReadCold { decided, cold }: ReadCold) -> Record {
    Record {
        number: job.number,
        spec: cold.spec,
        body: cold.body,
        created: Time::from_ms(decided.created_ms).unwrap_or(Time::MAX),
        by: cold.by,
        life: job.life.clone(),
        notes: Notes::kept(job.last_error.clone(), VecDeque::new()),
    }
}

/// The job as every store keeps it.
pub(crate) async fn record_in_full(job: &Snapshot) -> Result<Record> {
    with_notes(record(job).await?, job).await
}

/// A job that was read, with what happened to it.
pub(crate) async fn with_notes(record: Record, job: &Snapshot) -> Result<Record> {
    let mut entries = VecDeque::with_capacity(job.notes.len());
    for pinned in &job.notes {
        let bytes = read(Tag::Note, job.number, pinned).await?;
        let entry = whole(&bytes, decode_note).map_err(|Malformed(why)| unreadable(pinned, why))?;
        entries.push_back(entry);
    }
    let notes = Notes::kept(job.last_error.clone(), entries);
    Ok(Record { notes, ..record })
}

/// What the caller gave, and what was decided when it was added.
pub(crate) async fn read_cold(number: u64, pinned: &Pinned) -> Result<ReadCold> {
    split(read(Tag::Cold, number, pinned).await?, pinned)
}

fn split(bytes: Bytes, pinned: &Pinned) -> Result<ReadCold> {
    let (decided, _) = Decided::split(&bytes).ok_or_else(|| unreadable(pinned, "too short"))?;
    let cold = Cold::decode(bytes.slice(DECIDED_BYTES..))
        .map_err(|Malformed(why)| unreadable(pinned, why))?;
    Ok(ReadCold { decided, cold })
}

/// The payload of a record: on the spot if it needs no disk, else on a thread that may wait.
async fn read(tag: Tag, number: u64, pinned: &Pinned) -> Result<Bytes> {
    let mut buf = vec![0; pinned.place.len as usize];
    let offset = u64::from(pinned.place.offset);
    let cached = pinned.segment.file.read_cached(&mut buf, offset);
    let buf = match cached.map_err(|cause| failed(pinned, cause))? {
        Some(_) => buf,
        None => read_waiting(pinned, buf).await?,
    };
    checked(buf.into(), tag, number, pinned)
}

/// The payload of a record that was read.
fn checked(bytes: Bytes, tag: Tag, number: u64, pinned: &Pinned) -> Result<Bytes> {
    let found = read_record(&bytes, pinned.segment.number)
        .filter(|found| found.number == number && found.tag == tag && found.len == bytes.len());
    if found.is_none() {
        return Err(unreadable(pinned, "its check does not hold"));
    }
    Ok(bytes.slice(HEAD_BYTES..))
}

async fn read_waiting(pinned: &Pinned, mut buf: Vec<u8>) -> Result<Vec<u8>> {
    let (file, offset) = (pinned.segment.file.clone(), u64::from(pinned.place.offset));
    let read = tokio::task::spawn_blocking(move || file.read_at(&mut buf, offset).map(|_| buf));
    match read.await {
        Ok(read) => read.map_err(|cause| failed(pinned, cause)),
        Err(_) => Err(Error::new(Code::Unavailable, "the runtime is stopping")),
    }
}

fn failed(pinned: &Pinned, cause: std::io::Error) -> Error {
    let Pinned { segment, place } = pinned;
    let message = format!("reading segment {} at {} failed", segment.number, place.offset);
    Error::new(Code::StorageFailed, message).because(cause)
}

fn unreadable(pinned: &Pinned, why: &str) -> Error {
    let Pinned { segment, place } = pinned;
    let message = format!(
        "the record in segment {} at {} cannot be read: {why}; check the store",
        segment.number, place.offset
    );
    Error::new(Code::StorageFailed, message)
}
