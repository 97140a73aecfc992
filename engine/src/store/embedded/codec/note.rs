//! One thing that happened to a job.

use super::wire::{Malformed, Reader, Result, flag, put_str, put_time, put_u16, put_varint};
use crate::history::{Entry, Report, What};

const WHAT: u8 = 0xf;
const TOOK: u8 = 1 << 4;
const ERROR: u8 = 1 << 5;
const REPORT: u8 = 1 << 6;
const BY: u8 = 1 << 7;

const STATUS: u8 = 1 << 0;
const EXCERPT: u8 = 1 << 1;

/// A kind's place is its number on disk: new ones go to the end.
const KINDS: [What; 14] = [
    What::Added,
    What::Updated,
    What::Held,
    What::Unheld,
    What::Run,
    What::Redriven,
    What::Released,
    What::Failed,
    What::Again,
    What::TimedOut,
    What::Lost,
    What::Died,
    What::Finished,
    What::Delivered,
];

pub(crate) fn encode_note(entry: &Entry, out: &mut Vec<u8>) {
    out.push(
        number(entry.what)
            | flag(TOOK, entry.took_ms.is_some())
            | flag(ERROR, entry.error.is_some())
            | flag(REPORT, entry.report.is_some())
            | flag(BY, entry.by.is_some()),
    );
    put_time(out, entry.at);
    put_varint(out, entry.attempt.into());
    if let Some(took_ms) = entry.took_ms {
        put_varint(out, took_ms);
    }
    if let Some(error) = &entry.error {
        put_str(out, error);
    }
    if let Some(report) = &entry.report {
        put_report(out, report);
    }
    if let Some(by) = &entry.by {
        put_str(out, by.as_str());
    }
}

/// Reads an entry. Texts come as long as they were written: `Notes::push` is what cuts them.
pub(crate) fn decode_note(reader: &mut Reader<'_>) -> Result<Entry> {
    let flags = reader.u8()?;
    let what = KINDS.get(usize::from(flags & WHAT));
    let what = *what.ok_or(Malformed("a note is of no kind"))?;
    let (at, attempt) = (reader.time()?, reader.varint_u32()?);
    let took_ms = reader.option(flags & TOOK != 0, Reader::varint)?;
    let error = reader.option(flags & ERROR != 0, Reader::str)?.map(Into::into);
    let report = reader.option(flags & REPORT != 0, report)?;
    let by = reader.option(flags & BY != 0, Reader::str)?;
    let by = by.map(|by| by.parse().map_err(|_| Malformed("a caller is not one"))).transpose()?;
    Ok(Entry { at, what, attempt, took_ms, error, report, by })
}

fn number(what: What) -> u8 {
    match what {
        What::Added => 0,
        What::Updated => 1,
        What::Held => 2,
        What::Unheld => 3,
        What::Run => 4,
        What::Redriven => 5,
        What::Released => 6,
        What::Failed => 7,
        What::Again => 8,
        What::TimedOut => 9,
        What::Lost => 10,
        What::Died => 11,
        What::Finished => 12,
        What::Delivered => 13,
    }
}

fn put_report(out: &mut Vec<u8>, report: &Report) {
    out.push(flag(STATUS, report.status.is_some()) | flag(EXCERPT, report.excerpt.is_some()));
    if let Some(status) = report.status {
        put_u16(out, status);
    }
    if let Some(excerpt) = &report.excerpt {
        put_str(out, excerpt);
    }
}

fn report(reader: &mut Reader<'_>) -> Result<Report> {
    let flags = reader.u8()?;
    if flags & !(STATUS | EXCERPT) != 0 {
        return Err(Malformed("a report has unknown flags"));
    }
    Ok(Report {
        status: reader.option(flags & STATUS != 0, Reader::u16)?,
        excerpt: reader.option(flags & EXCERPT != 0, Reader::str)?.map(Into::into),
    })
}
