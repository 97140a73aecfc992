//! Reading the log back.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::batch::{Found, HEADER_BYTES, Header, records};
use super::codec::Malformed;
use super::place::{DATA_START, Segment};
use super::trace::happened;

/// A position in the log: where a batch begins or would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The last batch, and its check.
    pub(crate) batch: u64,
    pub(crate) check: u32,
    pub(crate) position: Position,
    /// What there was to replay.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// A batch that no later one says to be durable.
pub(crate) struct Loose {
    segment: Arc<Segment>,
    batch: u64,
    offset: u32,
    len: u32,
}

impl Loose {
    /// Writes it once more. After a sync that failed its bytes can still be read though they
    /// never reached the disk, and no later sync would bring them there.
    pub(crate) fn write_again(&self) -> io::Result<()> {
        let mut bytes = vec![0; self.len as usize];
        self.segment.file.read_at(&mut bytes, u64::from(self.offset))?;
        self.segment.file.write_at(&bytes, u64::from(self.offset))
    }
}

/// Why the log cannot be read.
#[derive(Debug)]
pub(crate) enum Broken {
    Io(io::Error),
    /// Bytes that had been durable are not what was written.
    Corrupt {
        segment: u32,
        offset: u32,
        what: &'static str,
    },
}

impl From<io::Error> for Broken {
    fn from(cause: io::Error) -> Broken {
        Broken::Io(cause)
    }
}

/// Reads every batch from `from` on, whose first is number `first`, and shows each record.
///
/// A batch that is broken is a torn tail and is cut, unless a later one says that it had been
/// durable. Answers where the log ends, and the batches that may not be durable.
pub(crate) fn scan(
    segments: &[Arc<Segment>],
    from: Position,
    first: u64,
    mut show: impl FnMut(&Segment, u32, &Found<'_>) -> Result<(), Malformed>,
) -> Result<(End, VecDeque<Loose>), Broken> {
    let end = End { batch: first - 1, check: 0, position: from, records: 0, bytes: 0 };
    let mut walk = Walk { end, begun: false, loose: VecDeque::new() };
    let mut rest = &segments[segments.partition_point(|one| one.number < from.segment)..];
    while let Some((segment, later)) = rest.split_first() {
        let bytes = read_all(segment)?;
        let begin = if segment.number == from.segment { from.offset } else { 0 };
        let offset = walk.through(segment, &bytes, begin.max(DATA_START), &mut show)?;
        let Some(next) = walk.goes_on_in(later)? else {
            walk.check_end(segment, &bytes, offset, later)?;
            break;
        };
        rest = &later[next..];
    }
    Ok((walk.end, walk.loose))
}

/// How far a scan has come.
struct Walk {
    end: End,
    /// Whether a batch was read, so that the next one must be chained to it.
    begun: bool,
    loose: VecDeque<Loose>,
}

impl Walk {
    /// Reads the batches of one segment; answers where the first that is none begins.
    fn through(
        &mut self,
        segment: &Arc<Segment>,
        bytes: &[u8],
        mut offset: u32,
        show: &mut impl FnMut(&Segment, u32, &Found<'_>) -> Result<(), Malformed>,
    ) -> Result<u32, Broken> {
        while let Some(batch) = Read::at(bytes, offset, segment.number)
            && self.is_next(&batch)
        {
            let body = offset + HEADER_BYTES as u32;
            for found in records(batch.body, segment.number) {
                let corrupt = |what, at: usize| Broken::Corrupt {
                    segment: segment.number,
                    offset: body + at as u32,
                    what,
                };
                let found = found.ok_or_else(|| corrupt("a record is broken", 0))?;
                show(segment, body, &found).map_err(|Malformed(what)| corrupt(what, found.at))?;
                self.end.records += 1;
            }
            self.note_loose(segment, offset, &batch.header);
            offset = body + batch.header.body_len;
            self.end.batch = batch.header.batch;
            self.end.check = batch.header.check;
            self.end.position = Position { segment: segment.number, offset };
            self.end.bytes += u64::from(batch.header.body_len);
            self.begun = true;
        }
        Ok(offset)
    }

    fn note_loose(&mut self, segment: &Arc<Segment>, offset: u32, header: &Header) {
        while self.loose.front().is_some_and(|loose| loose.batch <= header.durable) {
            self.loose.pop_front();
        }
        let (segment, batch) = (segment.clone(), header.batch);
        let len = HEADER_BYTES as u32 + header.body_len;
        self.loose.push_back(Loose { segment, batch, offset, len });
    }

    /// Whether a batch is the next one: by number, and by the chain.
    fn is_next(&self, batch: &Read<'_>) -> bool {
        let chained = !self.begun || batch.header.before == self.end.check;
        batch.header.batch == self.end.batch + 1 && chained
    }

    /// The segment in which the log goes on. Those passed over were torn before they were begun.
    fn goes_on_in(&self, later: &[Arc<Segment>]) -> Result<Option<usize>, Broken> {
        for (index, segment) in later.iter().enumerate() {
            let bytes = read_all(segment)?;
            let first = Read::at(&bytes, DATA_START, segment.number);
            if first.is_some_and(|batch| self.is_next(&batch)) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Where the log seems to end it must have ended: no later batch may say otherwise.
    fn check_end(
        &self,
        segment: &Segment,
        bytes: &[u8],
        offset: u32,
        later: &[Arc<Segment>],
    ) -> Result<(), Broken> {
        if bytes.get(offset as usize..).and_then(|at| Header::read(at, segment.number)).is_some() {
            happened("torn batch cut");
        }
        let next = self.end.batch + 1;
        let mut lost = says_durable(bytes, offset, segment.number, next);
        for segment in later {
            lost |= says_durable(&read_all(segment)?, DATA_START, segment.number, next);
        }
        if lost {
            let what = "a batch that had been durable is broken or missing";
            return Err(Broken::Corrupt { segment: segment.number, offset, what });
        }
        Ok(())
    }
}

/// A batch that is whole.
struct Read<'a> {
    header: Header,
    body: &'a [u8],
}

impl<'a> Read<'a> {
    fn at(bytes: &'a [u8], offset: u32, segment: u32) -> Option<Read<'a>> {
        let rest = bytes.get(offset as usize..)?;
        let header = Header::read(rest, segment)?;
        let body = rest.get(HEADER_BYTES..HEADER_BYTES + header.body_len as usize)?;
        (crc32c::crc32c(body) == header.body_check).then_some(Read { header, body })
    }
}

/// Whether a header somewhere from `offset` on says that `batch` had been durable.
fn says_durable(bytes: &[u8], offset: u32, segment: u32, batch: u64) -> bool {
    let mut at = offset as usize;
    while at < bytes.len() {
        let page = &bytes[at..bytes.len().min(at + 4096)];
        // Most of a segment that was never full is zeros, in which no header begins.
        let durable = page.iter().any(|byte| *byte != 0)
            && (at..at + page.len())
                .filter_map(|at| Header::read(&bytes[at..], segment))
                .any(|header| header.durable >= batch);
        if durable {
            return true;
        }
        at += page.len();
    }
    false
}

/// The whole of a segment's file.
pub(crate) fn read_all(segment: &Segment) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; segment.file.size()? as usize];
    let read = segment.file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::batch::{Tag, put_record, segment_header};
    use crate::store::embedded::files::Files;
    use crate::store::embedded::place::Kind;
    use crate::testkit::SimDisk;

    /// A segment with batches of one record each: the record's number, the batch's, and the check
    /// of the batch before, if it is not the right one.
    fn segment(number: u32, batches: &[(u64, u64, Option<u32>)]) -> Arc<Segment> {
        let file = SimDisk::new().create("segment").unwrap();
        file.write_at(&segment_header(number, Kind::Log), 0).unwrap();
        let (mut offset, mut before) = (DATA_START, 0);
        for (record, batch, other) in batches {
            let mut body = Vec::new();
            put_record(&mut body, number, Tag::Gone, *record, &[]);
            let header = Header::new(number, *batch, 0, other.unwrap_or(before), &body);
            file.write_at(&[&header.to_bytes()[..], &body].concat(), offset.into()).unwrap();
            before = header.check;
            offset += (HEADER_BYTES + body.len()) as u32;
        }
        Arc::new(Segment { number, kind: Kind::Log, file })
    }

    fn read(segments: &[Arc<Segment>]) -> Vec<u64> {
        let mut seen = Vec::new();
        let show = |_: &Segment, _, found: &Found<'_>| {
            seen.push(found.number);
            Ok(())
        };
        scan(segments, Position::default(), 1, show).unwrap();
        seen
    }

    #[test]
    fn a_batch_that_is_not_chained_to_the_one_before_ends_the_log() {
        let stale = segment(1, &[(10, 1, None), (11, 2, None), (12, 3, Some(7)), (13, 4, None)]);
        assert_eq!(read(&[stale]), [10, 11]);
    }

    #[test]
    fn a_log_begins_with_the_batch_that_it_is_replayed_from() {
        assert_eq!(read(&[segment(1, &[(10, 2, None), (11, 3, None)])]), [0; 0]);
    }

    #[test]
    fn what_a_file_held_under_another_number_is_not_replayed() {
        let stale = segment(1, &[(10, 1, None), (11, 2, None)]);
        // As the keeper does it: a new head, and all that was there before.
        stale.file.write_at(&segment_header(2, Kind::Log), 0).unwrap();
        let recycled = Segment { number: 2, kind: Kind::Log, file: stale.file.clone() };
        assert_eq!(read(&[Arc::new(recycled)]), [0; 0]);
    }

    #[test]
    fn a_segment_whose_first_batch_is_not_the_next_is_passed_over() {
        let first = segment(1, &[(10, 1, None)]);
        let check =
            Header::read(&read_all(&first).unwrap()[DATA_START as usize..], 1).unwrap().check;
        let (ahead, unchained) = (segment(2, &[(12, 3, None)]), segment(3, &[(13, 2, None)]));
        let next = segment(4, &[(14, 2, Some(check)), (15, 3, None)]);
        assert_eq!(read(&[first, ahead, unchained, next]), [10, 14, 15]);
    }
}
