//! Checkpoints as files: blocks, each with a check, and an end that says what the log must add.

use std::io;
use std::sync::Arc;

use crc32c::{crc32c, crc32c_append};

use super::codec::{Malformed, Reader, Result, put_varint, whole};
use super::files::{File, Files};
use super::scan::Position;

/// What a block of a checkpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Jobs = 1,
    Topics = 2,
    Kv = 3,
    End = 4,
}

/// The last block: from where the log is replayed, and what the checkpoint knows already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The first batch to replay, and where to look for it.
    pub(crate) first_batch: u64,
    pub(crate) position: Position,
    /// The last batch that may be part of what was copied: the log must reach it.
    pub(crate) last_batch: u64,
    pub(crate) next_number: u64,
    pub(crate) kv_version: u64,
    /// How many blocks come before the end.
    pub(crate) blocks: u64,
}

const MAGIC: [u8; 8] = *b"LgrChk01";
/// Length, kind and check.
const HEAD_BYTES: usize = 9;
/// No block is near this: a length beyond it is damage.
const BLOCK_BYTES_MAX: u32 = 1 << 30;

impl Manifest {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let Position { segment, offset } = self.position;
        for value in [
            self.first_batch,
            segment.into(),
            offset.into(),
            self.last_batch,
            self.next_number,
            self.kv_version,
            self.blocks,
        ] {
            put_varint(&mut out, value);
        }
        out
    }

    fn decode(payload: &[u8]) -> Result<Manifest> {
        whole(payload, |reader: &mut Reader<'_>| {
            let first_batch = reader.varint()?;
            let position = Position { segment: reader.varint_u32()?, offset: reader.varint_u32()? };
            Ok(Manifest {
                first_batch,
                position,
                last_batch: reader.varint()?,
                next_number: reader.varint()?,
                kv_version: reader.varint()?,
                blocks: reader.varint()?,
            })
        })
    }
}

/// The file name of a checkpoint.
pub(crate) fn checkpoint_name(number: u32) -> String {
    format!("checkpoint-{number:010}")
}

/// The number in a checkpoint's file name.
pub(crate) fn checkpoint_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("checkpoint-")?;
    if digits.len() == 10 { digits.parse().ok() } else { None }
}

/// Writes one checkpoint.
pub(crate) struct Writer {
    file: Arc<dyn File>,
    name: String,
    offset: u64,
    blocks: u64,
}

impl Writer {
    pub(crate) fn create(files: &dyn Files, number: u32) -> io::Result<Writer> {
        let name = checkpoint_name(number);
        let temporary = format!("{name}.tmp");
        match files.remove(&temporary) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        let file = files.create(&temporary)?;
        file.write_at(&MAGIC, 0)?;
        Ok(Writer { file, name, offset: MAGIC.len() as u64, blocks: 0 })
    }

    pub(crate) fn put(&mut self, kind: Block, payload: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.push(kind as u8);
        bytes.extend_from_slice(&block_check(self.blocks, kind as u8, payload).to_le_bytes());
        bytes.extend_from_slice(payload);
        self.file.write_at(&bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        self.blocks += 1;
        Ok(())
    }

    /// Makes it the checkpoint. The log must be durable through its last batch before this.
    pub(crate) fn publish(mut self, files: &dyn Files, manifest: Manifest) -> io::Result<u64> {
        let manifest = Manifest { blocks: self.blocks, ..manifest };
        self.put(Block::End, &manifest.encode())?;
        self.file.sync()?;
        files.rename(&format!("{}.tmp", self.name), &self.name)?;
        files.sync_folder()?;
        Ok(self.offset)
    }

    /// Leaves it unfinished.
    pub(crate) fn abandon(self, files: &dyn Files) {
        // Left over at worst until the next opening, which removes what is temporary.
        let _ = files.remove(&format!("{}.tmp", self.name));
    }
}

/// Blocks are told apart by their place, so that none can stand for another.
fn block_check(index: u64, kind: u8, payload: &[u8]) -> u32 {
    crc32c_append(crc32c(&[&index.to_le_bytes()[..], &[kind]].concat()), payload)
}

/// Why a checkpoint cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    Io(io::Error),
    Damaged(&'static str),
}

impl From<io::Error> for Unusable {
    fn from(cause: io::Error) -> Unusable {
        Unusable::Io(cause)
    }
}

impl From<Malformed> for Unusable {
    fn from(Malformed(what): Malformed) -> Unusable {
        Unusable::Damaged(what)
    }
}

/// Reads a checkpoint from front to back and shows each block; answers its end.
pub(crate) fn read(
    file: &dyn File,
    mut show: impl FnMut(Block, &[u8]) -> Result<()>,
) -> std::result::Result<Manifest, Unusable> {
    let mut magic = [0; MAGIC.len()];
    file.read_at(&mut magic, 0)?;
    if magic != MAGIC {
        return Err(Unusable::Damaged("it does not begin like a checkpoint"));
    }
    let size = file.size()?;
    let mut offset = MAGIC.len() as u64;
    let mut payload = Vec::new();
    for index in 0.. {
        let mut head = [0; HEAD_BYTES];
        if file.read_at(&mut head, offset)? < HEAD_BYTES {
            break;
        }
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let check = u32::from_le_bytes([head[5], head[6], head[7], head[8]]);
        offset += HEAD_BYTES as u64;
        if len > BLOCK_BYTES_MAX || offset + u64::from(len) > size {
            break;
        }
        payload.resize(len as usize, 0);
        file.read_at(&mut payload, offset)?;
        offset += u64::from(len);
        if block_check(index, head[4], &payload) != check {
            return Err(Unusable::Damaged("a block's check does not hold"));
        }
        match head[4] {
            1 => show(Block::Jobs, &payload)?,
            2 => show(Block::Topics, &payload)?,
            3 => show(Block::Kv, &payload)?,
            4 => {
                let manifest = Manifest::decode(&payload)?;
                if manifest.blocks != index {
                    return Err(Unusable::Damaged("blocks are missing"));
                }
                return Ok(manifest);
            }
            _ => return Err(Unusable::Damaged("a block is of an unknown kind")),
        }
    }
    Err(Unusable::Damaged("it has no end"))
}
