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

/// The job as every store keeps it, without history.
pub(crate) async fn record(job: &Snapshot) -> Result<Record> {
    let ReadCold { decided, cold } = read_cold(job.number, &job.cold).await?;
    Ok(Record {
        number: job.number,
        spec: cold.spec,
        body: cold.body,
        created: Time::from_ms(decided.created_ms).unwrap_or(Time::MAX),
        by: cold.by,
        life: job.life.clone(),
        notes: Notes::kept(job.last_error.clone(), VecDeque::new()),
    })
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
    let bytes = read(Tag::Cold, number, pinned).await?;
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
    let found = read_record(&buf, pinned.segment.number)
        .filter(|found| found.number == number && found.tag == tag && found.len == buf.len());
    if found.is_none() {
        return Err(unreadable(pinned, "its check does not hold"));
    }
    Ok(Bytes::from(buf).slice(HEAD_BYTES..))
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
