//! The readers, for bytes that anybody may have written. No part of the interface.
//!
//! Each answers whether the bytes could be read to their end, and must answer, whatever they are.
//! To get past the checks, which nobody hits by chance, the `mend_` functions make them right.

use std::sync::Arc;

use bytes::Bytes;
use crc32c::crc32c;

use super::batch::{
    DECIDED_BYTES, HEAD_BYTES, HEADER_BYTES, Header, Tag, place_of, record_check, records,
    segment_header,
};
use super::check::blank;
use super::checkpoint::{
    self, Block, Earlier, Manifest, block_check, checkpoint_name, read as read_checkpoint,
};
use super::codec::{Cold, Own, StoredKv, decode_life, decode_note, whole};
use super::files::{File, Files};
use super::payload::{NamedTopic, decode_emptied, decode_moved};
use super::place::{DATA_START, Kind, Segment};
use super::scan::{Position, scan};
use super::space::IdHasher;
use super::state::State;
use crate::testkit::SimDisk;
use crate::time::{Now, Tick};

/// The number of the segment and of the checkpoint that the bytes are taken for.
const NUMBER: u32 = 1;

fn now() -> Now {
    Now { wall_us: 1_793_577_600_000_000, tick: Tick::default() }
}

/// Reads a segment of the log, and takes up what it says.
pub fn log(bytes: &[u8]) -> bool {
    let disk = SimDisk::new();
    let file = file(&disk, "segment", bytes);
    let segments = [Arc::new(Segment { number: NUMBER, kind: Kind::Log, file })];
    let mut state = blank(IdHasher::new([0; 16]), &segments);
    let end = scan(&segments, Position::default(), 1, |segment, body, record| {
        state.replay(record, place_of(record, segment.number, body), now())
    });
    live(&mut state);
    end.is_ok_and(|(end, _)| end.batch > 0)
}

/// Reads a checkpoint, and takes up what it says.
pub fn checkpoint(bytes: &[u8]) -> bool {
    let disk = SimDisk::new();
    // It may name blocks of its own, and none of others.
    let file = file(&disk, &checkpoint_name(NUMBER), bytes);
    let mut state = blank(IdHasher::new([0; 16]), &[]);
    let mut earlier = Earlier::new(&disk);
    let manifest = read_checkpoint(&*file, |block, payload| match block {
        Block::Same => Ok(state.load_block(Block::Jobs, earlier.jobs(payload)?, now())?),
        block => Ok(state.load_block(block, payload, now())?),
    });
    let Ok(manifest) = manifest else { return false };
    state.load_end(&manifest);
    let end = scan(&[], manifest.position, manifest.first_batch, |_, _, _| Ok(()));
    live(&mut state);
    end.is_ok()
}

/// Reads one payload; the first byte says of which kind.
pub fn payload(bytes: &[u8]) -> bool {
    let Some((kind, payload)) = bytes.split_first() else { return false };
    match kind % 10 {
        0 => Cold::decode(Bytes::copy_from_slice(payload)).is_ok(),
        1 => Cold::peek(payload).is_ok(),
        2 => whole(payload, |reader| decode_life(reader, now())).is_ok(),
        3 => whole(payload, decode_note).is_ok(),
        4 => whole(payload, NamedTopic::decode).is_ok(),
        5 => whole(payload, StoredKv::decode).is_ok(),
        6 => whole(payload, Own::decode).is_ok(),
        7 => decode_emptied(payload).is_ok(),
        8 => decode_moved(payload).is_ok(),
        // Within a log a batch's check stands before these.
        _ => records(payload, NUMBER).all(|record| record.is_some()),
    }
}

fn file(disk: &SimDisk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(name).expect("the disk is empty");
    file.write_at(bytes, 0).expect("the disk has room");
    file
}

/// What was taken up is looked at, and copied as for a checkpoint.
fn live(state: &mut State) {
    state.replayed(now());
    let places = state.indexed().map(|job| 1 + job.notes.len()).sum::<usize>();
    let mut cursor = super::state::Cursor::Jobs(0);
    while !matches!(cursor, super::state::Cursor::End) {
        cursor = state.copy_chunk(cursor, super::state::Earlier::Unknown, now()).next;
    }
    std::hint::black_box(places);
}

/// Makes the checks of a segment right, and its lengths as far as they must be.
pub fn mend_log(bytes: &mut [u8]) {
    let Some((head, mut rest)) = bytes.split_at_mut_checked(DATA_START as usize) else { return };
    let header = segment_header(NUMBER, Kind::Log);
    head[..header.len()].copy_from_slice(&header);
    let (mut batch, mut before) = (1, 0);
    while let Some((header, following)) = rest.split_at_mut_checked(HEADER_BYTES) {
        let len = length(&header[4..8], following.len());
        let (body, next) = following.split_at_mut(len);
        mend_records(body);
        let mended = Header::new(NUMBER, batch, batch - 1, before, body);
        header.copy_from_slice(&mended.to_bytes());
        (batch, before) = (batch + 1, mended.check);
        rest = next;
    }
}

fn mend_records(mut body: &mut [u8]) {
    while body.len() >= HEAD_BYTES {
        let len = length(&body[..4], body.len()).max(HEAD_BYTES);
        let (record, next) = body.split_at_mut(len);
        let (head, payload) = record.split_at_mut(HEAD_BYTES);
        head[8] = (head[8].wrapping_sub(1)) % 8 + 1;
        if head[8] == Tag::Cold as u8 && payload.len() < DECIDED_BYTES {
            head[8] = Tag::Hot as u8;
        }
        let decided = if head[8] == Tag::Cold as u8 { DECIDED_BYTES } else { 0 };
        let (decided, payload) = payload.split_at(decided);
        let check = record_check(NUMBER, &head[8..], decided, crc32c(payload));
        head[..4].copy_from_slice(&(len as u32).to_le_bytes());
        head[4..8].copy_from_slice(&check.to_le_bytes());
        body = next;
    }
}

/// Makes the checks of a checkpoint right, its lengths as far as they must be, and ends it.
pub fn mend_checkpoint(bytes: &mut Vec<u8>) {
    let mut out = checkpoint::MAGIC.to_vec();
    let (mut index, mut rest) = (0, bytes.get(out.len()..).unwrap_or_default());
    let mut manifest = None;
    while let Some((head, following)) = rest.split_at_checked(checkpoint::HEAD_BYTES) {
        let (payload, next) = following.split_at(length(&head[..4], following.len()));
        rest = next;
        if head[4] == Block::End as u8 {
            manifest = Manifest::decode(payload).ok();
            continue;
        }
        put_block(&mut out, index, head[4], payload);
        index += 1;
    }
    let first = Manifest::decode(&[1, 0, 0, 0, 1, 0, 0]).expect("a manifest of a new store");
    let manifest = Manifest { blocks: index, ..manifest.unwrap_or(first) };
    put_block(&mut out, index, Block::End as u8, &manifest.encode());
    *bytes = out;
}

fn put_block(out: &mut Vec<u8>, index: u64, kind: u8, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&block_check(index, kind, payload).to_le_bytes());
    out.extend_from_slice(payload);
}

/// The length that is written there, if there is as much.
fn length(written: &[u8], max: usize) -> usize {
    let len = u32::from_le_bytes(written.try_into().expect("four bytes")) as usize;
    if len <= max { len } else { max }
}
