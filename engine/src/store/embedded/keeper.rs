//! Keeps the house, in the background: segments made ahead of need, checkpoints, and space that
//! comes back. Does one small thing a turn.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::batch::segment_header;
use super::call::Shared;
use super::checkpoint::{Block, BlockAt, Manifest, Writer, checkpoint_name};
use super::compact::{Compaction, Filling};
use super::files::{File, Files};
use super::inbox::{Lane, Task};
use super::log::Ready;
use super::place::{DATA_START, Kind, Segment, segment_name};
use super::scan::Position;
use super::space::{Room, Space};
use super::state::{Copied, Cursor, Earlier, State, Usage};
use super::trace::happened;
use crate::time::{Bell, Now, Tick, Wake};

/// How many segments are kept ready for the log. The next is made while this one fills.
const READY: usize = 1;
/// How many files are kept to become segments.
const SPARES: usize = 1;
/// Before it is closed, a checkpoint is made of less, so that opening it again is quick.
const CLOSING_RECORDS: u64 = 10_000;
const CLOSING_BYTES: u64 = 8 << 20;
/// How often the house is looked over when nothing calls for it.
const LOOK_MS: u64 = 1000;
/// What the names of files begin with that may become segments.
pub(crate) const SPARE: &str = "spare-";
/// Zeros are written in pieces.
const ZEROS: usize = 1 << 20;

/// The store's housekeeping.
pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) ready: Arc<Ready>,
    pub(crate) space: Arc<Space>,
    pub(crate) bell: Arc<Bell>,
    /// Rung when the decider may have room again.
    pub(crate) decider: Arc<Bell>,
    pub(crate) segment_bytes: u32,
    pub(crate) checkpoint_records: u64,
    /// The number of the next segment.
    pub(crate) next_segment: u32,
    /// Names of files that may become segments.
    pub(crate) spares: Vec<String>,
    pub(crate) spare_number: u32,
    /// Segments that nothing lies in, until nobody reads them any more.
    pub(crate) retired: Vec<Retired>,
    /// The checkpoint in force: its number, its size, and what it says.
    pub(crate) checkpoint: Option<(u32, u64, Manifest)>,
    /// Where each chunk of the index lies in the checkpoints that are kept.
    pub(crate) chunks: Vec<BlockAt>,
    /// The checkpoints that the one that was opened names, until there is a newer one.
    pub(crate) named: Vec<u32>,
    /// The checkpoints that are kept, with their sizes.
    pub(crate) kept: BTreeMap<u32, u64>,
    pub(crate) next_checkpoint: u32,
    pub(crate) making: Option<Making>,
    pub(crate) compaction: Option<Compaction>,
    pub(crate) filling: Option<Filling>,
    /// A question that the decider has not answered yet.
    pub(crate) asked: Option<oneshot::Receiver<Told>>,
    pub(crate) looked: Option<Tick>,
    /// Whether the store is about to be closed, and whether all is left as it should be.
    pub(crate) closing: bool,
    pub(crate) is_tidy: bool,
    /// Records and bytes in the log when the checkpoint in force was begun.
    pub(crate) counted: (u64, u64),
}

/// A segment that nothing lies in.
pub(crate) struct Retired {
    pub(crate) segment: Arc<Segment>,
    /// The batch that tells of it. Until it is durable, the log may still lose it and point here.
    pub(crate) since: u64,
}

/// A checkpoint that is being made.
pub(crate) struct Making {
    number: u32,
    writer: Writer,
    manifest: Option<Manifest>,
    /// What the log held when it was begun.
    counted: (u64, u64),
    cursor: Cursor,
    /// Where its chunks lie so far.
    chunks: Vec<BlockAt>,
    /// Earlier checkpoints whose chunks may be named.
    dense: Vec<u32>,
    done: bool,
}

/// What the decider answers.
pub(crate) enum Told {
    Begun(Manifest, (u64, u64)),
    Copied(Copied, Manifest),
    Look(Look),
    Retired(Vec<Retired>),
    Alive(Vec<bool>),
    Moved,
}

/// How the house looks.
pub(crate) struct Look {
    usage: Vec<Usage>,
    /// Records and bytes appended so far.
    counted: (u64, u64),
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Worked,
    Idle,
}

impl Keeper {
    /// Keeps the house until the store stops, and leaves it so that opening it again is quick.
    pub(crate) fn run(mut self) {
        loop {
            if !self.closing && self.shared.closing.load(Ordering::Acquire) {
                self.closing = true;
                self.compaction = None;
                self.look_soon();
            }
            if self.is_tidy || self.shared.handover.halted().is_some() {
                return;
            }
            if self.turn() == Turn::Idle {
                let tick = self.shared.clock.now().tick.plus_ms(LOOK_MS);
                self.shared.clock.park(&self.bell, Wake { wall: None, tick: Some(tick) });
            }
        }
    }

    /// Does one small thing.
    pub(crate) fn turn(&mut self) -> Turn {
        let done = self.try_turn();
        done.unwrap_or_else(|cause| {
            tracing::warn!(%cause, "keeping house failed; it is tried again");
            self.abandon();
            // A store that is to be closed is closed, tidy or not.
            self.is_tidy = self.closing;
            Turn::Idle
        })
    }

    fn try_turn(&mut self) -> io::Result<Turn> {
        if self.ready_count() < READY && self.make_ready()? {
            return Ok(Turn::Worked);
        }
        if let Some(answer) = &mut self.asked {
            match answer.try_recv() {
                Ok(told) => {
                    self.asked = None;
                    self.told(told)?;
                    return Ok(Turn::Worked);
                }
                Err(TryRecvError::Empty) => return Ok(Turn::Idle),
                // The store has stopped, or is about to.
                Err(TryRecvError::Closed) => {
                    self.abandon();
                    return Ok(Turn::Idle);
                }
            }
        }
        if self.recycle()? {
            return Ok(Turn::Worked);
        }
        if self.making.is_some() {
            return self.go_on_with_checkpoint();
        }
        if self.compaction.is_some() {
            return self.go_on_with_compaction();
        }
        self.look_over()
    }

    fn told(&mut self, told: Told) -> io::Result<()> {
        match told {
            Told::Begun(manifest, counted) => {
                if let Some(making) = &mut self.making {
                    making.manifest = Some(manifest);
                    making.counted = counted;
                }
                Ok(())
            }
            Told::Copied(copied, manifest) => self.take_chunk(copied, manifest),
            Told::Look(look) => self.decide(look),
            Told::Retired(segments) => {
                self.retired.extend(segments);
                Ok(())
            }
            Told::Alive(alive) => self.take_alive(&alive),
            Told::Moved => Ok(()),
        }
    }

    /// Asks the decider something; the bell rings when the answer is there.
    pub(crate) fn ask(
        &mut self,
        log_bytes: usize,
        act: impl FnOnce(&mut State, Now) -> Told + Send + 'static,
    ) {
        let (sender, answer) = oneshot::channel();
        let bell = self.bell.clone();
        let task = Task::new(log_bytes, move |state, now| {
            let told = act(state, now);
            state.answer(Box::new(move || {
                drop(sender.send(told));
                bell.ring();
            }));
        });
        // A store that stops needs no housekeeping.
        if self.shared.inbox.push(Lane::Own, task).is_ok() {
            self.asked = Some(answer);
        }
    }

    fn ready_count(&self) -> usize {
        self.ready.lock().expect("nobody panics holding it").len()
    }

    /// Makes a segment ready for the log; answers whether there was room for it.
    fn make_ready(&mut self) -> io::Result<bool> {
        match self.make_segment(Kind::Log) {
            Ok(segment) => {
                self.ready.lock().expect("nobody panics holding it").push_back(segment);
                self.measure()?;
                self.decider.ring();
                Ok(true)
            }
            // The rest of the house is kept all the same: it may make room.
            Err(cause) if cause.kind() == io::ErrorKind::StorageFull => {
                let room = if self.ready_count() == 0 { Room::None } else { Room::Reserve };
                self.space.set(room);
                self.decider.ring();
                Ok(false)
            }
            Err(cause) => Err(cause),
        }
    }

    /// A segment whose bytes are all written, so that syncing it never has to move metadata.
    pub(crate) fn make_segment(&mut self, kind: Kind) -> io::Result<Arc<Segment>> {
        let (spare, file) = match self.spares.pop() {
            Some(spare) => (spare.clone(), self.files.open(&spare)?),
            None => self.make_spare()?,
        };
        let number = self.next_segment;
        self.next_segment += 1;
        let mut sector = [0; DATA_START as usize];
        let header = segment_header(number, kind);
        sector[..header.len()].copy_from_slice(&header);
        file.write_at(&sector, 0)?;
        file.sync()?;
        self.files.rename(&spare, &segment_name(number))?;
        self.files.sync_folder()?;
        Ok(Arc::new(Segment { number, kind, file }))
    }

    fn make_spare(&mut self) -> io::Result<(String, Arc<dyn File>)> {
        let spare = self.spare_name();
        let name = format!("{spare}.tmp");
        let file = self.files.create(&name)?;
        let zeros = vec![0; ZEROS.min(self.segment_bytes as usize)];
        let mut offset = 0;
        while offset < self.segment_bytes as usize {
            let len = zeros.len().min(self.segment_bytes as usize - offset);
            // Synced at each step: all at once would hold up the log's own syncs.
            let written = file.write_at(&zeros[..len], offset as u64).and_then(|()| file.sync());
            if let Err(cause) = written {
                // Half a file is of no use, and its room may be needed.
                let _ = self.files.remove(&name);
                return Err(cause);
            }
            offset += len;
        }
        self.files.rename(&name, &spare)?;
        Ok((spare, file))
    }

    fn spare_name(&mut self) -> String {
        self.spare_number += 1;
        format!("{SPARE}{:010}", self.spare_number)
    }

    /// Looks how much room is left: new jobs need more than what finishes old ones.
    fn measure(&self) -> io::Result<()> {
        let checkpoint = self.checkpoint.map_or(0, |(_, bytes, _)| bytes) * 5 / 4;
        let segments = 3 * u64::from(self.segment_bytes);
        // A file that is kept to become a segment is room that nobody else can take.
        let spare = self.spares.len() as u64 * u64::from(self.segment_bytes);
        let free = self.files.free_bytes()?;
        self.shared.meter.set_free_bytes(free);
        let room = match free {
            free if free >= checkpoint + segments.saturating_sub(spare) => Room::Plenty,
            _ if self.ready_count() > 0 => Room::Reserve,
            _ => Room::None,
        };
        self.space.set(room);
        Ok(())
    }

    /// Gives the files of retired segments back, once nobody reads them.
    fn recycle(&mut self) -> io::Result<bool> {
        self.remove_outdated()?;
        let durable = self.shared.handover.durable();
        let is_free = |one: &Retired| Arc::strong_count(&one.segment) == 1 && one.since <= durable;
        let free = self.retired.iter().position(is_free);
        let Some(at) = free else { return Ok(false) };
        let Retired { segment, .. } = self.retired.swap_remove(at);
        let name = segment_name(segment.number);
        if self.spares.len() >= SPARES {
            self.files.remove(&name)?;
            self.files.sync_folder()?;
            return Ok(true);
        }
        let spare = self.spare_name();
        self.files.rename(&name, &spare)?;
        // Before its bytes become another segment's: no name may stand for both.
        self.files.sync_folder()?;
        self.spares.push(spare);
        happened("segment recycled");
        Ok(true)
    }

    /// Asks how things are, now and then.
    fn look_over(&mut self) -> io::Result<Turn> {
        let now = self.shared.clock.now().tick;
        if self.looked.is_some_and(|looked| now.ms_since(looked) < LOOK_MS) {
            return Ok(Turn::Idle);
        }
        self.looked = Some(now);
        self.measure()?;
        self.ask(0, |state, _| {
            let counted = state.log.appended_so_far();
            Told::Look(Look { usage: state.segments.usage(), counted })
        });
        Ok(Turn::Idle)
    }

    /// Looks again at once.
    pub(crate) fn look_soon(&mut self) {
        self.looked = None;
    }

    /// What most needs to be done.
    fn decide(&mut self, look: Look) -> io::Result<()> {
        if self.checkpoint_is_due(&look) {
            return self.begin_checkpoint();
        }
        if self.closing {
            self.is_tidy = true;
            return Ok(());
        }
        let replayed_from = self.replayed_from();
        let old = |usage: &&Usage| {
            usage.segment.kind == Kind::Survivors || usage.segment.number < replayed_from.segment
        };
        let empty: Vec<u32> = look
            .usage
            .iter()
            .filter(old)
            .filter(|usage| usage.live_bytes == 0 && !self.is_filling(usage.segment.number))
            .map(|usage| usage.segment.number)
            .collect();
        if !empty.is_empty() {
            self.ask(0, move |state, _| {
                let since = state.log.last_batch();
                let retire = |one: &u32| state.segments.retire(*one);
                let retired = empty.iter().filter_map(retire);
                Told::Retired(retired.map(|segment| Retired { segment, since }).collect())
            });
            return Ok(());
        }
        let sparse = look
            .usage
            .iter()
            .filter(old)
            .filter(|usage| !self.is_filling(usage.segment.number))
            .filter(|usage| self.is_sparse(usage))
            .min_by_key(|usage| usage.live_bytes);
        if let Some(usage) = sparse {
            self.begin_compaction(usage.segment.clone())?;
        }
        Ok(())
    }

    /// From where the log would be replayed.
    fn replayed_from(&self) -> Position {
        self.checkpoint.map_or(Position::default(), |(_, _, manifest)| manifest.position)
    }

    /// Due after many records, or when the log has outgrown what it is replayed onto.
    fn checkpoint_is_due(&self, look: &Look) -> bool {
        let records = look.counted.0 - self.counted.0;
        let bytes = look.counted.1 - self.counted.1;
        if self.closing {
            return records >= CLOSING_RECORDS || bytes >= CLOSING_BYTES;
        }
        let checkpoint = self.checkpoint.map_or(0, |(_, bytes, _)| bytes);
        records >= self.checkpoint_records
            || bytes > checkpoint.max(u64::from(self.segment_bytes) * 2)
            || self.checkpoint_makes_room(look)
    }

    /// Whether new jobs are refused while segments could be given back if the log were not to be
    /// replayed from before them: waiting for it to grow would be waiting for ever.
    fn checkpoint_makes_room(&self, look: &Look) -> bool {
        let from = self.replayed_from().segment;
        let log = || look.usage.iter().filter(|usage| usage.segment.kind == Kind::Log);
        let Some(current) = log().map(|usage| usage.segment.number).max() else { return false };
        self.space.room() != Room::Plenty
            && log()
                .filter(|usage| (from..current).contains(&usage.segment.number))
                .any(|usage| self.is_sparse(usage))
    }

    fn is_sparse(&self, usage: &Usage) -> bool {
        usage.live_bytes < u64::from(self.segment_bytes) / 2
    }

    fn begin_checkpoint(&mut self) -> io::Result<()> {
        let number = self.next_checkpoint;
        self.next_checkpoint += 1;
        let writer = Writer::create(&*self.files, number)?;
        self.making = Some(Making {
            number,
            writer,
            manifest: None,
            counted: self.counted,
            cursor: Cursor::Jobs(0),
            chunks: Vec::new(),
            dense: self.dense(),
            done: false,
        });
        self.ask(0, |state, _| {
            let counted = state.log.appended_so_far();
            Told::Begun(state.begin_checkpoint(), counted)
        });
        Ok(())
    }

    fn go_on_with_checkpoint(&mut self) -> io::Result<Turn> {
        let making = self.making.as_ref().expect("one is being made");
        let manifest = making.manifest.expect("it was begun");
        if !making.done {
            let cursor = making.cursor.clone();
            let earlier = self.earlier(making);
            self.ask(0, move |state, now| {
                let copied = state.copy_chunk(cursor, earlier, now);
                Told::Copied(copied, state.end_checkpoint(manifest))
            });
            return Ok(Turn::Idle);
        }
        // Ahead of the log it would tell of jobs that the log may lose.
        if self.shared.handover.durable() < manifest.last_batch {
            return Ok(Turn::Idle);
        }
        // Still the one being made if this fails: its chunks must not count as copied then.
        let making = self.making.as_mut().expect("one is being made");
        let bytes = making.writer.publish(&*self.files, manifest)?;
        let making = self.making.take().expect("one is being made");
        happened("checkpoint published");
        self.checkpoint = Some((making.number, bytes, manifest));
        self.kept.insert(making.number, bytes);
        self.measure_checkpoints();
        self.chunks = making.chunks;
        self.named.clear();
        self.counted = making.counted;
        self.look_soon();
        Ok(Turn::Worked)
    }

    fn take_chunk(&mut self, copied: Copied, manifest: Manifest) -> io::Result<()> {
        let Some(making) = &mut self.making else { return Ok(()) };
        match copied.block {
            Some((Block::Same, _)) => {
                let at = self.chunks[making.chunks.len()];
                making.writer.put_same(at)?;
                making.chunks.push(at);
            }
            Some((block, payload)) => {
                let at = making.writer.put(block, &payload)?;
                making.chunks.extend((block == Block::Jobs).then_some(at));
            }
            None => {}
        }
        making.done = matches!(copied.next, Cursor::End);
        making.manifest = Some(manifest);
        making.cursor = copied.next;
        Ok(())
    }

    /// Whether the next chunk may be named instead of copied.
    fn earlier(&self, making: &Making) -> Earlier {
        let at = match making.cursor {
            Cursor::Jobs(chunk) => self.chunks.get(chunk),
            _ => None,
        };
        match at {
            Some(at) if making.dense.contains(&at.checkpoint) => Earlier::Known,
            _ => Earlier::Unknown,
        }
    }

    /// The checkpoints of which at least half is still in force: naming chunks of the others would
    /// keep their files for little.
    fn dense(&self) -> Vec<u32> {
        let mut live: BTreeMap<u32, u64> = BTreeMap::new();
        for at in &self.chunks {
            *live.entry(at.checkpoint).or_default() += at.len;
        }
        let dense = |(number, bytes): &(&u32, &u64)| {
            self.kept.get(number).is_some_and(|size| **bytes * 2 >= *size)
        };
        live.iter().filter(dense).map(|(number, _)| *number).collect()
    }

    /// Removes the checkpoints that are not in force and of which no chunk is named.
    fn remove_outdated(&mut self) -> io::Result<()> {
        let Some((in_force, _, _)) = self.checkpoint else { return Ok(()) };
        let named = |number: u32| {
            self.named.contains(&number) || self.chunks.iter().any(|at| at.checkpoint == number)
        };
        let outdated = self.kept.keys().copied().filter(|one| *one != in_force && !named(*one));
        for number in outdated.collect::<Vec<_>>() {
            self.files.remove(&checkpoint_name(number))?;
            self.kept.remove(&number);
            self.measure_checkpoints();
        }
        Ok(())
    }

    fn measure_checkpoints(&self) {
        self.shared.meter.set_checkpoint_bytes(self.kept.values().sum());
    }

    fn abandon(&mut self) {
        if let Some(making) = self.making.take() {
            making.writer.abandon(&*self.files);
            // Chunks that were copied for nothing are no longer as the checkpoint in force has them.
            let task = Task::new(0, |state, _| state.touch_all());
            let _ = self.shared.inbox.push(Lane::Own, task);
        }
        self.compaction = None;
        self.asked = None;
    }
}
