//! Checkpoints as files: blocks, each with a check, and an end that says what the log must add.

use std::collections::{HashMap, hash_map};
use std::io;
use std::sync::Arc;

use crc32c::{crc32c, crc32c_append};

use super::batch::NUMBER_MAX;
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
    /// Jobs that lie in an earlier checkpoint, and have not changed since.
    Same = 5,
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAt {
    /// The checkpoint's number.
    pub(crate) checkpoint: u32,
    pub(crate) offset: u64,
    pub(crate) index: u64,
    /// The payload's.
    pub(crate) len: u64,
}

impl BlockAt {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for value in [self.checkpoint.into(), self.offset, self.index, self.len] {
            put_varint(&mut out, value);
        }
        out
    }

    fn decode(payload: &[u8]) -> Result<BlockAt> {
        whole(payload, |reader: &mut Reader<'_>| {
            Ok(BlockAt {
                checkpoint: reader.varint_u32()?,
                offset: reader.varint()?,
                index: reader.varint()?,
                len: reader.varint()?,
            })
        })
    }
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

pub(crate) const MAGIC: [u8; 8] = *b"LgrChk01";
/// Length, kind and check.
pub(crate) const HEAD_BYTES: usize = 9;
const NO_END: &str = "it has no end";
const OUT_OF_RANGE: Malformed = Malformed("a number of its end is out of range");
/// No store ever counts so far.
const COUNT_MAX: u64 = 1 << 62;
/// More than the last block ever takes: seven numbers.
const END_BYTES_MAX: u64 = 128;
/// No block is near this: a length beyond it is damage.
const BLOCK_BYTES_MAX: u32 = 1 << 30;

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
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

    pub(crate) fn decode(payload: &[u8]) -> Result<Manifest> {
        whole(payload, |reader: &mut Reader<'_>| {
            let first_batch = reader.varint()?;
            let position = Position { segment: reader.varint_u32()?, offset: reader.varint_u32()? };
            let manifest = Manifest {
                first_batch,
                position,
                last_batch: reader.varint()?,
                next_number: reader.varint()?,
                kv_version: reader.varint()?,
                blocks: reader.varint()?,
            };
            if manifest.is_in_range() { Ok(manifest) } else { Err(OUT_OF_RANGE) }
        })
    }

    /// Whether it can be counted on from there.
    fn is_in_range(&self) -> bool {
        let batches = 1..COUNT_MAX;
        batches.contains(&self.first_batch)
            && self.last_batch < COUNT_MAX
            && self.next_number <= NUMBER_MAX
            && self.kv_version < COUNT_MAX
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
    number: u32,
    name: String,
    offset: u64,
    blocks: u64,
    /// Bytes written since the last sync.
    unsynced: usize,
}

/// So much is written before it is synced: all at once would hold up the log's own syncs.
const SYNC_BYTES: usize = 1 << 20;

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
        Ok(Writer { file, number, name, offset: MAGIC.len() as u64, blocks: 0, unsynced: 0 })
    }

    /// Writes a block; answers where it lies.
    pub(crate) fn put(&mut self, kind: Block, payload: &[u8]) -> io::Result<BlockAt> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.push(kind as u8);
        bytes.extend_from_slice(&block_check(self.blocks, kind as u8, payload).to_le_bytes());
        bytes.extend_from_slice(payload);
        self.file.write_at(&bytes, self.offset)?;
        self.unsynced += bytes.len();
        if self.unsynced >= SYNC_BYTES {
            self.file.sync()?;
            self.unsynced = 0;
        }
        let at = BlockAt {
            checkpoint: self.number,
            offset: self.offset,
            index: self.blocks,
            len: payload.len() as u64,
        };
        self.offset += bytes.len() as u64;
        self.blocks += 1;
        Ok(at)
    }

    /// Names a block of an earlier checkpoint.
    pub(crate) fn put_same(&mut self, at: BlockAt) -> io::Result<()> {
        self.put(Block::Same, &at.encode()).map(|_| ())
    }

    /// Makes it the checkpoint. The log must be durable through its last batch before this.
    pub(crate) fn publish(&mut self, files: &dyn Files, manifest: Manifest) -> io::Result<u64> {
        let manifest = Manifest { blocks: self.blocks, ..manifest };
        self.put(Block::End, &manifest.encode())?;
        self.file.sync()?;
        self.read_back()?;
        files.rename(&format!("{}.tmp", self.name), &self.name)?;
        files.sync_folder()?;
        Ok(self.offset)
    }

    /// One that cannot be read must not take the place of one that can.
    fn read_back(&self) -> io::Result<()> {
        // What it names of earlier ones has been read back with those.
        read(&*self.file, |_, _| Ok(())).map(|_| ()).map_err(|why| {
            io::Error::other(format!("the checkpoint just written cannot be read: {why:?}"))
        })
    }

    /// Leaves it unfinished.
    pub(crate) fn abandon(self, files: &dyn Files) {
        // Left over at worst until the next opening, which removes what is temporary.
        let _ = files.remove(&format!("{}.tmp", self.name));
    }
}

/// Blocks are told apart by their place, so that none can stand for another.
pub(crate) fn block_check(index: u64, kind: u8, payload: &[u8]) -> u32 {
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

/// Reads a checkpoint from front to back and shows each block; answers its end. Blocks that lie in
/// earlier checkpoints are shown where they are named.
pub(crate) fn read(
    file: &dyn File,
    mut show: impl FnMut(Block, &[u8]) -> std::result::Result<(), Unusable>,
) -> std::result::Result<Manifest, Unusable> {
    let mut magic = [0; MAGIC.len()];
    file.read_at(&mut magic, 0)?;
    if magic != MAGIC {
        return Err(Unusable::Damaged("it does not begin like a checkpoint"));
    }
    let mut offset = MAGIC.len() as u64;
    let mut payload = Vec::new();
    for index in 0.. {
        let kind = read_block(file, offset, index, &mut payload)?;
        offset += (HEAD_BYTES + payload.len()) as u64;
        if kind == Block::End {
            let manifest = Manifest::decode(&payload)?;
            if manifest.blocks != index {
                return Err(Unusable::Damaged("blocks are missing"));
            }
            return Ok(manifest);
        }
        show(kind, &payload)?;
    }
    unreachable!("a file has an end")
}

/// What the end of a checkpoint says, without reading the rest; nothing if that cannot be told.
pub(crate) fn peek_end(file: &dyn File) -> io::Result<Option<Manifest>> {
    let size = file.size()?;
    let from = size.saturating_sub(END_BYTES_MAX);
    let mut tail = vec![0; (size - from) as usize];
    file.read_at(&mut tail, from)?;
    let end = (0..tail.len().saturating_sub(HEAD_BYTES)).rev().find_map(|at| {
        let (head, payload) = tail[at..].split_at(HEAD_BYTES);
        let whole = head[..4] == (payload.len() as u32).to_le_bytes();
        let manifest = Manifest::decode(payload).ok().filter(|_| whole)?;
        let check = block_check(manifest.blocks, Block::End as u8, payload);
        (head[4] == Block::End as u8 && head[5..] == check.to_le_bytes()).then_some(manifest)
    });
    Ok(end)
}

/// Looks at every block, whatever is wrong with those before, and tells what is and where.
pub(crate) fn look_over(
    file: &dyn File,
    mut wrong: impl FnMut(u64, &'static str),
) -> io::Result<()> {
    let mut magic = [0; MAGIC.len()];
    file.read_at(&mut magic, 0)?;
    if magic != MAGIC {
        wrong(0, "it does not begin like a checkpoint");
    }
    let (mut offset, mut payload, mut lost) = (MAGIC.len() as u64, Vec::new(), false);
    for index in 0.. {
        let read = read_block(file, offset, index, &mut payload);
        match read {
            Ok(Block::End) => return Ok(()),
            Ok(_) => lost = false,
            Err(Unusable::Io(cause)) => return Err(cause),
            Err(Unusable::Damaged(what)) => {
                wrong(offset, what);
                // Two in a row, or one that ends nowhere: what follows cannot be told apart.
                if lost || what == NO_END {
                    return Ok(());
                }
                lost = true;
            }
        }
        offset += (HEAD_BYTES + payload.len()) as u64;
    }
    Ok(())
}

fn read_block(
    file: &dyn File,
    offset: u64,
    index: u64,
    payload: &mut Vec<u8>,
) -> std::result::Result<Block, Unusable> {
    let mut head = [0; HEAD_BYTES];
    if file.read_at(&mut head, offset)? < HEAD_BYTES {
        return Err(Unusable::Damaged(NO_END));
    }
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let check = u32::from_le_bytes([head[5], head[6], head[7], head[8]]);
    let start = offset + HEAD_BYTES as u64;
    if len > BLOCK_BYTES_MAX || start + u64::from(len) > file.size()? {
        return Err(Unusable::Damaged(NO_END));
    }
    payload.resize(len as usize, 0);
    file.read_at(payload, start)?;
    if block_check(index, head[4], payload) != check {
        return Err(Unusable::Damaged("a block's check does not hold"));
    }
    [Block::Jobs, Block::Topics, Block::Kv, Block::End, Block::Same]
        .into_iter()
        .find(|kind| *kind as u8 == head[4])
        .ok_or(Unusable::Damaged("a block is of an unknown kind"))
}

/// The jobs that a block of an earlier checkpoint holds, by the block that names it.
pub(crate) struct Earlier<'a> {
    files: &'a dyn Files,
    open: HashMap<u32, Arc<dyn File>>,
    payload: Vec<u8>,
}

impl<'a> Earlier<'a> {
    pub(crate) fn new(files: &'a dyn Files) -> Earlier<'a> {
        Earlier { files, open: HashMap::new(), payload: Vec::new() }
    }

    /// The numbers of the checkpoints that were named.
    pub(crate) fn named(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn jobs(&mut self, named: &[u8]) -> std::result::Result<&[u8], Unusable> {
        let at = BlockAt::decode(named)?;
        let file = match self.open.entry(at.checkpoint) {
            hash_map::Entry::Occupied(open) => open.into_mut(),
            hash_map::Entry::Vacant(new) => {
                new.insert(self.files.open(&checkpoint_name(at.checkpoint))?)
            }
        };
        match read_block(&**file, at.offset, at.index, &mut self.payload)? {
            Block::Jobs => Ok(&self.payload),
            _ => Err(Unusable::Damaged("what it names in an earlier checkpoint is not there")),
        }
    }
}
