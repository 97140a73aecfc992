//! Moving what is still wanted out of sparse segments, into segments of survivors.

use std::io;
use std::sync::Arc;

use super::batch::{Decided, Found, HEADER_BYTES, Header, Tag, put_cold, put_record, records};
use super::call::CHANGE_BYTES;
use super::keeper::{Keeper, Told, Turn};
use super::payload::encode_moved;
use super::place::{DATA_START, Kind, Place, Segment};
use super::scan::read_all;
use super::state::State;
use super::trace::happened;

/// The most records that are moved at once.
const SLICE: usize = 128;
/// The most bytes that are moved at once.
const SLICE_BYTES: usize = 1 << 20;

/// A segment whose survivors are being moved.
pub(crate) struct Compaction {
    bytes: Vec<u8>,
    /// The records that may be wanted, in order.
    candidates: Vec<(Tag, u64, Place)>,
    /// How many of them have been looked at.
    seen: usize,
    /// Those that the decider was asked about.
    asked: usize,
}

/// The segment that survivors are written to.
pub(crate) struct Filling {
    segment: Arc<Segment>,
    end: u32,
}

impl Keeper {
    pub(crate) fn begin_compaction(&mut self, segment: Arc<Segment>) -> io::Result<()> {
        let bytes = read_all(&segment)?;
        let candidates = candidates(&segment, &bytes);
        self.compaction = Some(Compaction { bytes, candidates, seen: 0, asked: 0 });
        Ok(())
    }

    /// Whether survivors are being written to this segment.
    pub(crate) fn is_filling(&self, number: u32) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.segment.number == number)
    }

    pub(crate) fn go_on_with_compaction(&mut self) -> io::Result<Turn> {
        let compaction = self.compaction.as_mut().expect("one is under way");
        let rest = &compaction.candidates[compaction.seen..];
        if rest.is_empty() {
            self.compaction = None;
            self.look_soon();
            return Ok(Turn::Worked);
        }
        let mut bytes = 0;
        let slice: Vec<(u64, Place)> = rest
            .iter()
            .take(SLICE)
            .take_while(|(_, _, place)| {
                bytes += place.len as usize;
                bytes <= SLICE_BYTES || bytes == place.len as usize
            })
            .map(|(_, number, place)| (*number, *place))
            .collect();
        compaction.asked = slice.len();
        self.ask(0, move |state, _| {
            Told::Alive(
                slice.iter().map(|(number, place)| state.lies_at(*number, *place)).collect(),
            )
        });
        Ok(Turn::Idle)
    }

    /// Copies what is alive, and has the decider point to the copies.
    pub(crate) fn take_alive(&mut self, alive: &[bool]) -> io::Result<()> {
        let Some(compaction) = &mut self.compaction else { return Ok(()) };
        let from = compaction.seen;
        compaction.seen += compaction.asked;
        let wanted: Vec<(Tag, u64, Place)> = compaction.candidates[from..compaction.seen]
            .iter()
            .zip(alive)
            .filter(|(_, alive)| **alive)
            .map(|(candidate, _)| *candidate)
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let bytes: usize = wanted.iter().map(|(_, _, place)| place.len as usize).sum();
        let (segment, start) = self.room_for(bytes)?;
        let compaction = self.compaction.as_ref().expect("it is under way");
        let (mut copies, mut moves) = (Vec::with_capacity(bytes), Vec::new());
        for (tag, number, place) in wanted {
            let record = &compaction.bytes[place.offset as usize..][..place.len as usize];
            let offset = start + copies.len() as u32;
            copy(&mut copies, segment.number, tag, number, record);
            moves.push((number, place, Place { segment: segment.number, offset, len: place.len }));
        }
        segment.file.write_at(&copies, u64::from(start))?;
        // Durable before anything points to them.
        segment.file.sync()?;
        self.filling = Some(Filling { segment: segment.clone(), end: start + copies.len() as u32 });
        let log_bytes = moves.len() * CHANGE_BYTES / 8;
        self.ask(log_bytes, move |state, _| {
            if !state.out_of_room {
                move_all(state, segment, &moves);
            }
            Told::Moved
        });
        Ok(())
    }

    /// A segment of survivors with room for so many bytes, and where they go.
    fn room_for(&mut self, bytes: usize) -> io::Result<(Arc<Segment>, u32)> {
        match &self.filling {
            Some(Filling { segment, end })
                if *end as usize + bytes <= self.segment_bytes as usize =>
            {
                Ok((segment.clone(), *end))
            }
            _ => Ok((self.make_segment(Kind::Survivors)?, DATA_START)),
        }
    }
}

/// Points to the copies, where nothing has changed since they were made.
fn move_all(state: &mut State, segment: Arc<Segment>, moves: &[(u64, Place, Place)]) {
    state.segments.insert(segment);
    let mut payload = Vec::new();
    for (number, from, to) in moves {
        if state.moved(*number, *from, *to) {
            payload.clear();
            encode_moved(*from, *to, &mut payload);
            state.log.put(Tag::Moved, *number, &payload);
            happened("survivor moved");
        }
    }
}

/// A record under another segment's number.
fn copy(out: &mut Vec<u8>, segment: u32, tag: Tag, number: u64, record: &[u8]) {
    let payload = &record[super::batch::HEAD_BYTES..];
    match Decided::split(payload).filter(|_| tag == Tag::Cold) {
        Some((decided, rest)) => {
            put_cold(out, segment, number, decided, rest, crc32c::crc32c(rest));
        }
        None => {
            put_record(out, segment, tag, number, payload);
        }
    }
}

/// The records of a segment that a job may point to.
fn candidates(segment: &Segment, bytes: &[u8]) -> Vec<(Tag, u64, Place)> {
    let mut found = Vec::new();
    let mut keep = |body: usize, record: &Found<'_>| {
        if matches!(record.tag, Tag::Cold | Tag::Note) {
            let offset = (body + record.at) as u32;
            let place = Place { segment: segment.number, offset, len: record.len as u32 };
            found.push((record.tag, record.number, place));
        }
    };
    match segment.kind {
        Kind::Survivors => {
            let body = DATA_START as usize;
            let whole = records(&bytes[body..], segment.number).map_while(|record| record);
            whole.for_each(|record| keep(body, &record));
        }
        Kind::Log => {
            let mut at = DATA_START as usize;
            while let Some(header) = bytes.get(at..).and_then(|b| Header::read(b, segment.number)) {
                let body = at + HEADER_BYTES;
                let Some(batch) = bytes.get(body..body + header.body_len as usize) else { break };
                let whole = records(batch, segment.number).map_while(|record| record);
                whole.for_each(|record| keep(body, &record));
                at = body + batch.len();
            }
        }
    }
    found
}
