//! The end of the log, where the decider appends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::batch::{DECIDED_BYTES, Decided, HEAD_BYTES, HEADER_BYTES, Tag, put_cold, put_record};
use super::handover::{Batch, Handover, Release, Spot};
use super::place::{DATA_START, Place, Segment};
use super::scan::{End, Position};

/// Segments that are made ahead of need, in the order they will be used.
pub(crate) type Ready = Mutex<VecDeque<Arc<Segment>>>;

/// The end of the log. Knows every place before it is written.
pub(crate) struct Log {
    handover: Arc<Handover>,
    ready: Arc<Ready>,
    segment_bytes: u32,
    /// The segment that is written to, and where its next batch begins.
    current: Option<(Arc<Segment>, u32)>,
    /// The number of the last batch that has a record.
    last: u64,
    /// Where the log ended when it was opened.
    resumed: Position,
    open: Batch,
    sealed: Vec<Batch>,
    /// Segments begun since they were last asked for.
    begun: Vec<Arc<Segment>>,
    /// Records and bytes appended since the checkpoint that was opened.
    records: u64,
    bytes: u64,
}

/// What an answer rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rests {
    /// On what is in the log by now.
    All,
    /// As a hand-out, on a job that was added or changed in the same batch.
    Added,
    /// On its own record being written, and on all of the batches before being durable.
    Written,
}

impl Log {
    /// A log with nothing in it yet.
    pub(crate) fn new(handover: Arc<Handover>, ready: Arc<Ready>, segment_bytes: u32) -> Log {
        Log {
            handover,
            ready,
            segment_bytes,
            current: None,
            last: 0,
            resumed: Position::default(),
            open: Batch::default(),
            sealed: Vec::new(),
            begun: Vec::new(),
            records: 0,
            bytes: 0,
        }
    }

    /// Goes on after the end of what was read back, in a fresh segment.
    pub(crate) fn resume(&mut self, end: End) {
        self.last = end.batch;
        self.resumed = end.position;
        (self.records, self.bytes) = (end.records, end.bytes);
    }

    /// Takes up what the syncer has not taken yet.
    pub(crate) fn begin_turn(&mut self) {
        self.open = self.handover.take_open().unwrap_or_default();
    }

    /// Hands over what was appended and answered.
    pub(crate) fn end_turn(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.handover.give(self.sealed.drain(..), Some(open));
    }

    /// Whether records of so many bytes in all can be appended. What is left of the current
    /// segment comes on top of a whole one, so one change of segments is always enough.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let ready = || !self.ready.lock().expect("nobody panics holding it").is_empty();
        self.fits_current(bytes) || bytes <= self.step_bytes_max() && ready()
    }

    /// The most that one step may append.
    pub(crate) fn step_bytes_max(&self) -> usize {
        (self.segment_bytes - DATA_START) as usize - HEADER_BYTES
    }

    fn fits_current(&self, bytes: usize) -> bool {
        let header = if self.open.spot.is_some() { 0 } else { HEADER_BYTES };
        self.current
            .as_ref()
            .is_some_and(|(_, end)| *end as usize + header + bytes <= self.segment_bytes as usize)
    }

    /// Begins a step whose records have so many bytes in all: they will lie in one batch.
    pub(crate) fn begin_step(&mut self, bytes: usize) {
        if !self.fits_current(bytes) {
            self.roll();
        }
        if self.open.spot.is_none() {
            let (segment, end) = self.current.as_mut().expect("a segment was begun");
            self.last += 1;
            let spot = Spot { number: self.last, segment: segment.clone(), offset: *end };
            *end += HEADER_BYTES as u32;
            self.open.spot = Some(spot);
            self.open.bytes.resize(HEADER_BYTES, 0);
        }
    }

    /// Goes over to the next segment.
    fn roll(&mut self) {
        if self.open.spot.is_some() {
            self.sealed.push(std::mem::take(&mut self.open));
        }
        let mut ready = self.ready.lock().expect("nobody panics holding it");
        let next = ready.pop_front().expect("room was asked for before");
        self.begun.push(next.clone());
        self.current = Some((next, DATA_START));
    }

    /// Appends a record.
    pub(crate) fn put(&mut self, tag: Tag, number: u64, payload: &[u8]) -> Place {
        self.begin_step(HEAD_BYTES + payload.len());
        let segment = self.segment_number();
        let len = put_record(&mut self.open.bytes, segment, tag, number, payload);
        self.appended(len)
    }

    /// Appends a cold record.
    pub(crate) fn put_cold(
        &mut self,
        number: u64,
        decided: Decided,
        payload: &[u8],
        payload_check: u32,
    ) -> Place {
        self.begin_step(HEAD_BYTES + DECIDED_BYTES + payload.len());
        let segment = self.segment_number();
        let bytes = &mut self.open.bytes;
        let len = put_cold(bytes, segment, number, decided, payload, payload_check);
        self.appended(len)
    }

    fn segment_number(&self) -> u32 {
        self.current.as_ref().expect("a step was begun").0.number
    }

    fn appended(&mut self, len: usize) -> Place {
        let (segment, end) = self.current.as_mut().expect("a step was begun");
        let place = Place { segment: segment.number, offset: *end, len: len as u32 };
        *end += len as u32;
        self.records += 1;
        self.bytes += len as u64;
        place
    }

    /// Lets an answer go when what it rests on is safe.
    pub(crate) fn answer(&mut self, release: Release, rests: Rests) {
        match rests {
            // With no record of its own, the batch only waits for those before it.
            Rests::All if self.open.spot.is_none() && self.is_settled(self.last) => release(),
            Rests::All if self.open.spot.is_none() => self.open.on_written.push(release),
            Rests::All => self.open.on_durable.push(release),
            Rests::Added => self.open.handed_out.push(release),
            Rests::Written => self.open.on_written.push(release),
        }
    }

    /// The batch that the next record will be part of.
    pub(crate) fn batch(&self) -> u64 {
        self.last + u64::from(self.open.spot.is_none())
    }

    /// The number of the last batch that has a record.
    pub(crate) fn last_batch(&self) -> u64 {
        self.last
    }

    /// Whether the answers of this batch may be let go.
    pub(crate) fn is_settled(&self, batch: u64) -> bool {
        batch <= self.handover.settled()
    }

    /// Seals what is open, so that the next record begins a batch; answers that batch's number
    /// and the place from where it is found.
    pub(crate) fn cut(&mut self) -> (u64, Position) {
        if self.open.spot.is_some() {
            self.sealed.push(std::mem::take(&mut self.open));
        }
        let position = match &self.current {
            Some((segment, end)) => Position { segment: segment.number, offset: *end },
            None => self.resumed,
        };
        (self.last + 1, position)
    }

    /// The segments begun since this was last asked.
    pub(crate) fn take_begun(&mut self) -> Vec<Arc<Segment>> {
        std::mem::take(&mut self.begun)
    }

    /// Records and bytes appended since the checkpoint that was opened.
    pub(crate) fn appended_so_far(&self) -> (u64, u64) {
        (self.records, self.bytes)
    }
}
