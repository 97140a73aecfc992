//! The end of the log, where the decider appends. Writing goes to the page cache and does not wait
//! for the disk: the syncer does.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use super::batch::{
    DECIDED_BYTES, Decided, HEAD_BYTES, HEADER_BYTES, Header, Tag, put_cold, put_record,
};
use super::handover::{Handover, Release, Written};
use super::place::{DATA_START, Place, Segment};
use super::scan::{End, Position};
use super::syncer::{Durability, release};
use crate::stats::Sizes;
use crate::time::Tick;

/// A batch is written when it has grown to this; most are far smaller.
const BUFFER_BYTES: usize = 1 << 20;

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
    /// The check of the last batch: what the next one is chained to.
    before: u32,
    durability: Durability,
    /// Whether a batch is open, and where it begins.
    open: Option<u32>,
    /// How much of the step under way is yet to come: it lies in the open batch, however long that is.
    step_left: usize,
    /// The open batch: room for its header, then its records. Kept, to be filled again.
    buffer: Vec<u8>,
    /// What was written in this turn, and the answers that wait for it to be durable.
    written: Written,
    /// Answers that wait for this turn to be written.
    on_written: Vec<Release>,
    failed: Option<io::Error>,
    /// Segments begun since they were last asked for.
    begun: Vec<Arc<Segment>>,
    /// Records and bytes appended since the checkpoint that was opened.
    records: u64,
    bytes: u64,
    /// Those of the open batch, how many each batch before it had, and what was appended here.
    batch_records: u64,
    batches: Sizes,
    appended_bytes: u64,
}

/// What an answer rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rests {
    /// On what is in the log by now.
    All,
    /// As a hand-out, on a job whose last change is not durable yet.
    Added,
    /// On its own record being written.
    Written,
}

impl Log {
    /// A log with nothing in it yet.
    pub(crate) fn new(
        handover: Arc<Handover>,
        ready: Arc<Ready>,
        segment_bytes: u32,
        durability: Durability,
    ) -> Log {
        Log {
            handover,
            ready,
            segment_bytes,
            current: None,
            last: 0,
            resumed: Position::default(),
            before: 0,
            durability,
            open: None,
            step_left: 0,
            buffer: Vec::new(),
            written: Written::default(),
            on_written: Vec::new(),
            failed: None,
            begun: Vec::new(),
            records: 0,
            bytes: 0,
            batch_records: 0,
            batches: Sizes::default(),
            appended_bytes: 0,
        }
    }

    /// Goes on after the end of what was read back, in a fresh segment.
    pub(crate) fn resume(&mut self, end: End) {
        self.last = end.batch;
        self.before = end.check;
        self.resumed = end.position;
        (self.records, self.bytes) = (end.records, end.bytes);
    }

    /// Writes what was appended, hands it to the syncer, and lets go of what rests on no more than
    /// that.
    pub(crate) fn end_turn(&mut self, now: Tick) {
        self.flush();
        self.written.since = now;
        let (mut written, on_written) =
            (std::mem::take(&mut self.written), std::mem::take(&mut self.on_written));
        if let Some(cause) = self.failed.take() {
            // What is in memory is ahead of the disk: nothing of it may be answered.
            return self.handover.halt("writing to the log failed", &cause);
        }
        if self.durability == Durability::Relaxed {
            self.handover.set_settled(self.last);
            release(on_written);
            release(std::mem::take(&mut written.handed_out));
            release(std::mem::take(&mut written.answers));
            return self.handover.give(written);
        }
        // First, so that nobody who is answered by the syncer finds them unanswered.
        release(on_written);
        self.handover.give(written);
    }

    /// Writes the open batch.
    fn flush(&mut self) {
        self.step_left = 0;
        let Some(offset) = self.open.take() else { return };
        let (segment, _) = self.current.as_ref().expect("a batch is open in it");
        let (head, body) = self.buffer.split_at_mut(HEADER_BYTES);
        let durable = self.handover.durable();
        let header = Header::new(segment.number, self.last, durable, self.before, body);
        head.copy_from_slice(&header.to_bytes());
        self.before = header.check;
        if let Err(cause) = segment.file.write_at(&self.buffer, u64::from(offset)) {
            self.failed.get_or_insert(cause);
        }
        self.batches.record(std::mem::take(&mut self.batch_records));
        self.written.batch = Some(self.last);
        self.written.segments.push(segment.clone());
        self.buffer.clear();
        // One large job must not hold its size for ever.
        self.buffer.shrink_to(BUFFER_BYTES);
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

    /// What a segment takes on disk.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.into()
    }

    fn fits_current(&self, bytes: usize) -> bool {
        let header = if self.open.is_some() { 0 } else { HEADER_BYTES };
        self.current
            .as_ref()
            .is_some_and(|(_, end)| *end as usize + header + bytes <= self.segment_bytes as usize)
    }

    /// Begins a step whose records have so many bytes in all: they will lie in one batch.
    pub(crate) fn begin_step(&mut self, bytes: usize) {
        if !self.fits_current(bytes) {
            self.roll();
        }
        if self.buffer.len() > BUFFER_BYTES {
            self.flush();
        }
        if self.open.is_none() {
            let (_, end) = self.current.as_mut().expect("a segment was begun");
            self.last += 1;
            self.open = Some(*end);
            *end += HEADER_BYTES as u32;
            self.buffer.resize(HEADER_BYTES, 0);
        }
        self.step_left = bytes;
    }

    /// Goes on with the step under way, or begins one.
    fn go_on(&mut self, bytes: usize) {
        if self.step_left < bytes {
            self.begin_step(bytes);
        }
        self.step_left -= bytes;
    }

    /// Goes over to the next segment.
    fn roll(&mut self) {
        self.flush();
        let mut ready = self.ready.lock().expect("nobody panics holding it");
        let next = ready.pop_front().expect("room was asked for before");
        self.begun.push(next.clone());
        self.current = Some((next, DATA_START));
    }

    /// Appends a record.
    pub(crate) fn put(&mut self, tag: Tag, number: u64, payload: &[u8]) -> Place {
        self.go_on(HEAD_BYTES + payload.len());
        let segment = self.segment_number();
        let len = put_record(&mut self.buffer, segment, tag, number, payload);
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
        self.go_on(HEAD_BYTES + DECIDED_BYTES + payload.len());
        let segment = self.segment_number();
        let len = put_cold(&mut self.buffer, segment, number, decided, payload, payload_check);
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
        self.batch_records += 1;
        self.appended_bytes += len as u64;
        place
    }

    /// Lets an answer go when what it rests on is safe.
    pub(crate) fn answer(&mut self, release: Release, rests: Rests) {
        match rests {
            Rests::All if self.is_settled(self.last) => release(),
            Rests::All => self.written.answers.push(release),
            Rests::Added => self.written.handed_out.push(release),
            Rests::Written => self.on_written.push(release),
        }
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
        self.flush();
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

    /// How many records each batch had, and the bytes appended since the store was opened.
    pub(crate) fn measured(&self) -> (Sizes, u64) {
        (self.batches.clone(), self.appended_bytes)
    }

    /// Records and bytes appended since the checkpoint that was opened.
    pub(crate) fn appended_so_far(&self) -> (u64, u64) {
        (self.records, self.bytes)
    }
}
