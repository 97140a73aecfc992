//! Batches and records as bytes.
//!
//! A record has a head and a payload; a batch has a header and records. A batch is replayed whole
//! or not at all, so whatever is decided as one step lies in one batch.

use crc32c::{crc32c, crc32c_append};

use super::place::{Kind, Place};

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// What the caller gave: id, topic, body and the rest.
    Cold = 1,
    /// The part of a job that moves.
    Hot = 2,
    /// One entry of a job's history.
    Note = 3,
    /// A job is gone.
    Gone = 4,
    /// All jobs of a topic up to a number are gone.
    Emptied = 5,
    /// A topic's settings and pause.
    Topic = 6,
    /// A write to the key-value side.
    Kv = 7,
    /// A record was moved to a survivor segment.
    Moved = 8,
}

impl Tag {
    fn from_byte(byte: u8) -> Option<Tag> {
        use Tag::*;
        [Cold, Hot, Note, Gone, Emptied, Topic, Kv, Moved]
            .into_iter()
            .find(|tag| *tag as u8 == byte)
    }
}

/// A record's head: length, check, tag and number.
pub(crate) const HEAD_BYTES: usize = 16;
/// The part of a cold record that the decider adds in front of what the caller encoded.
pub(crate) const DECIDED_BYTES: usize = 20;
/// A batch's header.
pub(crate) const HEADER_BYTES: usize = 40;

const BATCH_MAGIC: u32 = u32::from_le_bytes(*b"LgrB");
const SEGMENT_MAGIC: [u8; 8] = *b"LgrSeg01";
/// The highest number of a job: seven bytes.
pub(crate) const NUMBER_MAX: u64 = (1 << 56) - 1;

/// A record, found in bytes that were checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) tag: Tag,
    pub(crate) number: u64,
    pub(crate) payload: &'a [u8],
    /// From the start of the bytes it was found in.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// What the decider adds to what the caller gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) created_ms: u64,
    /// When the job was first due at all.
    pub(crate) base_ms: u64,
    /// Jobs ever added to the topic, this one included.
    pub(crate) added: u64,
}

impl Decided {
    fn to_bytes(self) -> [u8; DECIDED_BYTES] {
        let mut bytes = [0; DECIDED_BYTES];
        bytes[..6].copy_from_slice(&self.created_ms.to_le_bytes()[..6]);
        bytes[6..12].copy_from_slice(&self.base_ms.to_le_bytes()[..6]);
        bytes[12..].copy_from_slice(&self.added.to_le_bytes());
        bytes
    }

    /// Splits the payload of a cold record.
    pub(crate) fn split(payload: &[u8]) -> Option<(Decided, &[u8])> {
        let (head, rest) = payload.split_at_checked(DECIDED_BYTES)?;
        let six = |from: usize| {
            let mut eight = [0; 8];
            eight[..6].copy_from_slice(&head[from..from + 6]);
            u64::from_le_bytes(eight)
        };
        let added = u64::from_le_bytes(head[12..20].try_into().ok()?);
        Some((Decided { created_ms: six(0), base_ms: six(6), added }, rest))
    }
}

/// Appends a record and answers its length.
pub(crate) fn put_record(
    out: &mut Vec<u8>,
    segment: u32,
    tag: Tag,
    number: u64,
    payload: &[u8],
) -> usize {
    put(out, segment, tag, number, &[], payload, crc32c(payload))
}

/// Appends a cold record whose caller has made the payload and its check.
pub(crate) fn put_cold(
    out: &mut Vec<u8>,
    segment: u32,
    number: u64,
    decided: Decided,
    payload: &[u8],
    payload_check: u32,
) -> usize {
    put(out, segment, Tag::Cold, number, &decided.to_bytes(), payload, payload_check)
}

fn put(
    out: &mut Vec<u8>,
    segment: u32,
    tag: Tag,
    number: u64,
    decided: &[u8],
    payload: &[u8],
    payload_check: u32,
) -> usize {
    debug_assert!(number <= NUMBER_MAX, "numbers fit in seven bytes");
    let len = HEAD_BYTES + decided.len() + payload.len();
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&(len as u32).to_le_bytes());
    head[8..].copy_from_slice(&(number << 8 | tag as u64).to_le_bytes());
    let check = record_check(segment, &head[8..], decided, payload_check);
    head[4..8].copy_from_slice(&check.to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(decided);
    out.extend_from_slice(payload);
    len
}

/// The segment's number is part of it, so that nothing stale in a recycled file ever passes.
pub(crate) fn record_check(segment: u32, name: &[u8], decided: &[u8], payload_check: u32) -> u32 {
    // Gathered first: each call of the checksum costs more than these few bytes.
    let mut bytes = [0; 4 + 8 + DECIDED_BYTES];
    bytes[..4].copy_from_slice(&segment.to_le_bytes());
    bytes[4..12].copy_from_slice(name);
    bytes[12..12 + decided.len()].copy_from_slice(decided);
    crc32c(&bytes[..12 + decided.len()]) ^ payload_check
}

/// The record at the start of `bytes`, if it is one of this segment and whole.
pub(crate) fn read_record(bytes: &[u8], segment: u32) -> Option<Found<'_>> {
    let head = bytes.get(..HEAD_BYTES)?;
    let len = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let check = u32::from_le_bytes(head[4..8].try_into().ok()?);
    let name = u64::from_le_bytes(head[8..].try_into().ok()?);
    let tag = Tag::from_byte(name as u8)?;
    let payload = bytes.get(HEAD_BYTES..len)?;
    let decided = if tag == Tag::Cold { payload.get(..DECIDED_BYTES)? } else { &[] };
    let rest = &payload[decided.len()..];
    if record_check(segment, &head[8..], decided, crc32c(rest)) != check {
        return None;
    }
    Some(Found { tag, number: name >> 8, payload, at: 0, len })
}

/// The records of a batch's body; none at the end if one is broken.
pub(crate) fn records(body: &[u8], segment: u32) -> impl Iterator<Item = Option<Found<'_>>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= body.len() {
            return None;
        }
        let found = read_record(&body[at..], segment).map(|found| Found { at, ..found });
        at = found.map_or(body.len(), |found| at + found.len);
        Some(found)
    })
}

/// A batch's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) body_len: u32,
    /// Counts the batches of the log, from 1.
    pub(crate) batch: u64,
    /// The highest batch known durable when this one was written.
    pub(crate) durable: u64,
    /// The check of the batch before.
    pub(crate) before: u32,
    pub(crate) body_check: u32,
    /// The check of this header: what the next batch is chained to.
    pub(crate) check: u32,
}

impl Header {
    /// The header for a body, chained to the batch before.
    pub(crate) fn new(segment: u32, batch: u64, durable: u64, before: u32, body: &[u8]) -> Header {
        let mut header = Header {
            body_len: body.len() as u32,
            batch,
            durable,
            before,
            body_check: crc32c(body),
            check: 0,
        };
        header.check = header_check(segment, &header.to_bytes());
        header
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&BATCH_MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.batch.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.durable.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.before.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.body_check.to_le_bytes());
        bytes[36..].copy_from_slice(&self.check.to_le_bytes());
        bytes
    }

    /// The header at the start of `bytes`, if it is one of this segment.
    pub(crate) fn read(bytes: &[u8], segment: u32) -> Option<Header> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        if bytes[..4] != BATCH_MAGIC.to_le_bytes() {
            return None;
        }
        let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let header = Header {
            body_len: four(4),
            batch: eight(8),
            durable: eight(16),
            before: four(24),
            body_check: four(28),
            check: four(36),
        };
        (header.check == header_check(segment, bytes)).then_some(header)
    }
}

fn header_check(segment: u32, header: &[u8]) -> u32 {
    crc32c_append(crc32c(&segment.to_le_bytes()), &header[..36])
}

/// The first bytes of a segment's file.
pub(crate) fn segment_header(number: u32, kind: Kind) -> [u8; 17] {
    let mut bytes = [0; 17];
    bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    bytes[12] = kind as u8;
    let check = crc32c(&bytes[..13]);
    bytes[13..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// What the first bytes of a segment's file say: its number and kind.
pub(crate) fn read_segment_header(bytes: &[u8]) -> Option<(u32, Kind)> {
    let number = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?);
    [Kind::Log, Kind::Survivors]
        .into_iter()
        .find(|kind| bytes.get(..17) == Some(&segment_header(number, *kind)[..]))
        .map(|kind| (number, kind))
}

/// The place of a record found in a body that starts at `offset` of a segment.
pub(crate) fn place_of(found: &Found<'_>, segment: u32, offset: u32) -> Place {
    Place { segment, offset: offset + found.at as u32, len: found.len as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_in_no_other_segment() {
        let mut bytes = Vec::new();
        let decided = Decided { created_ms: 1_793_577_600_000, base_ms: (1 << 48) - 1, added: 7 };
        let len = put_cold(&mut bytes, 9, 42, decided, b"payload", crc32c(b"payload"));
        put_record(&mut bytes, 9, Tag::Gone, 43, b"");
        let found: Vec<_> = records(&bytes, 9).map(|found| found.expect("whole")).collect();
        assert_eq!((found[0].tag, found[0].number, found[0].len), (Tag::Cold, 42, len));
        assert_eq!(Decided::split(found[0].payload), Some((decided, &b"payload"[..])));
        assert_eq!((found[1].tag, found[1].number, found[1].at), (Tag::Gone, 43, len));
        assert!(read_record(&bytes, 8).is_none(), "the segment's number is part of the check");
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let mut bytes = Vec::new();
        put_record(&mut bytes, 1, Tag::Hot, 5, b"some state");
        let header = Header::new(1, 3, 2, 77, &bytes).to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(read_record(&broken, 1).is_none(), "bit {bit} of the record");
        }
        // Four bytes are spare, and covered by the check.
        for bit in 0..header.len() * 8 {
            let mut broken = header;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::read(&broken, 1).is_none(), "bit {bit} of the header");
        }
        assert!(Header::read(&header, 2).is_none());
    }
}
