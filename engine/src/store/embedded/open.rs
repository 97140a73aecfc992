//! Opening a folder: what it holds is read back, and the store's threads are started.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock};

use super::batch::{place_of, read_segment_header};
use super::call::{Embedded, Shared};
use super::checkpoint::{
    Block, Earlier, Manifest, Unusable, checkpoint_name, checkpoint_number, peek_end, read,
};
use super::decider::{Decider, Turn};
use super::desk::Desk;
use super::files::{File, Files, Folder, Guard};
use super::format::{self, failed};
use super::handover::Handover;
use super::inbox::Inbox;
use super::keeper::{Keeper, Retired, SPARE};
use super::log::{Log, Ready};
use super::place::{Kind, Segment, segment_name, segment_number};
use super::progress::{Course, Progress};
use super::scan::{Broken, End, Position, scan};
use super::space::{IdHasher, Space};
use super::state::{Around, Segments, State};
use super::syncer::{Durability, Syncer};
use crate::error::{Code, Error, Result};
use crate::store::Options;
use crate::time::{Bell, Now};

/// What an embedded store is opened with, besides what every store is.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// When an answer may leave.
    pub durability: Durability,
    /// How large the log's files are, in bytes: 64 MiB unless set, 64 KiB at least.
    pub segment_bytes: u32,
    /// A checkpoint is made after at most so many records: 2 million unless set.
    pub checkpoint_records: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            durability: Durability::Sync,
            segment_bytes: 64 << 20,
            checkpoint_records: 2_000_000,
        }
    }
}

/// The smallest segments there may be: what the store does in one step must fit into one.
const SEGMENT_BYTES_MIN: u32 = 64 << 10;

impl Settings {
    fn check(&self) -> Result<()> {
        if self.segment_bytes >= SEGMENT_BYTES_MIN {
            return Ok(());
        }
        let bytes = self.segment_bytes;
        let message =
            format!("segment_bytes is {bytes}, under the smallest there is, {SEGMENT_BYTES_MIN}");
        Err(Error::invalid("segment_bytes", message))
    }
}

impl Embedded {
    /// Opens the store in this folder, made if it is not there.
    pub fn open(path: impl AsRef<Path>, options: Options, settings: Settings) -> Result<Embedded> {
        Embedded::open_watched(path, options, settings, &Progress::default())
    }

    /// As [`Embedded::open`], and tells how far it has come: of use where there are millions of
    /// jobs to load.
    pub fn open_watched(
        path: impl AsRef<Path>,
        options: Options,
        settings: Settings,
        progress: &Progress,
    ) -> Result<Embedded> {
        let path = path.as_ref();
        let what = format!("opening `{}`", path.display());
        let folder = Folder::open(path).map_err(|cause| failed(&what, cause))?;
        Parts::open(Arc::new(folder), options, settings, progress)?.start()
    }

    /// Opens the store in these files.
    pub fn open_files(
        files: Arc<dyn Files>,
        options: Options,
        settings: Settings,
    ) -> Result<Embedded> {
        Parts::open(files, options, settings, &Progress::default())?.start()
    }
}

/// A store whose parts have not been started.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) decider: Decider,
    pub(crate) syncer: Syncer,
    pub(crate) keeper: Keeper,
    pub(crate) guard: Box<dyn Guard>,
}

impl Parts {
    pub(crate) fn open(
        files: Arc<dyn Files>,
        options: Options,
        settings: Settings,
        progress: &Progress,
    ) -> Result<Parts> {
        settings.check()?;
        let guard = lock(&*files)?;
        let hasher = IdHasher::new(known_key(&*files)?);
        let found = find(&*files, settings.segment_bytes)?;
        let (bell, keeper_bell) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let (handover, ready) = (Arc::new(Handover::new(bell.clone())), Arc::new(Ready::default()));
        let (inbox, space) =
            (Arc::new(Inbox::new(bell.clone(), options.clock.clone())), Arc::new(Space::default()));
        let log =
            Log::new(handover.clone(), ready.clone(), settings.segment_bytes, settings.durability);
        let step_bytes_max = log.step_bytes_max();
        let mut segments = Segments::default();
        found.segments.iter().for_each(|segment| segments.insert(segment.clone()));
        let around = Around {
            log,
            segments,
            inbox: inbox.clone(),
            space: space.clone(),
            hasher,
            keeper: keeper_bell.clone(),
        };
        let mut state = State::new(&options, around);
        let now = options.clock.now();
        let mut course = found.course(&*files, progress, settings.segment_bytes)?;
        let loaded = load(&*files, &found, &mut state, now, &mut course)?;
        state.log.resume(loaded.end);
        state.replayed(now);
        course.end();
        let retired = leftovers(&found, &loaded, &mut state);
        let shared = Arc::new(Shared {
            inbox: inbox.clone(),
            desk: OnceLock::new(),
            handover: handover.clone(),
            hasher,
            clock: options.clock.clone(),
            tickets: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            meter: Arc::default(),
            step_bytes_max,
        });
        let meter = shared.meter.clone();
        meter.set_checkpoint_bytes(loaded.kept.values().sum());
        let syncer = Syncer::new(
            handover.clone(),
            settings.durability,
            options.clock.clone(),
            meter,
            loaded.end.batch,
        );
        let decider = Decider {
            state,
            inbox,
            handover,
            space: space.clone(),
            clock: options.clock.clone(),
            bell: bell.clone(),
            backlog: VecDeque::new(),
            now,
        };
        let keeper = Keeper {
            shared: shared.clone(),
            files,
            ready,
            space,
            bell: keeper_bell,
            decider: bell,
            segment_bytes: settings.segment_bytes,
            checkpoint_records: settings.checkpoint_records,
            next_segment: found.next_segment,
            spares: found.spares,
            spare_number: found.spare_number,
            retired,
            checkpoint: loaded.checkpoint,
            next_checkpoint: found.checkpoints.iter().max().map_or(1, |last| last + 1),
            chunks: Vec::new(),
            named: loaded.named,
            kept: loaded.kept,
            making: None,
            compaction: None,
            filling: None,
            asked: None,
            looked: None,
            closing: false,
            is_tidy: false,
            counted: (0, 0),
        };
        Ok(Parts { shared, decider, syncer, keeper, guard })
    }

    fn start(self) -> Result<Embedded> {
        self.start_with(Decider::turn)
    }

    pub(crate) fn start_with(self, turn: fn(&mut Decider) -> Turn) -> Result<Embedded> {
        let Parts { shared, decider, syncer, mut keeper, guard } = self;
        // The first segment before the first call.
        keeper.turn();
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(format!("linger-{name}")).spawn(run);
            thread.map_err(|cause| failed("starting a thread", cause))
        };
        let keeper_bell = keeper.bell.clone();
        let desk = Arc::new(Desk::new(decider, turn));
        let (deciding, after_sync) = (desk.clone(), desk.clone());
        let _ = shared.desk.set(desk);
        let threads = vec![
            start("keeper", Box::new(move || keeper.run()))?,
            start("decider", Box::new(move || deciding.run()))?,
            start("syncer", Box::new(move || syncer.run(&after_sync)))?,
        ];
        let (threads, guard) = (Mutex::new(threads), Some(guard));
        Ok(Embedded { shared, threads, keeper_bell, guard })
    }
}

pub(crate) fn lock(files: &dyn Files) -> Result<Box<dyn Guard>> {
    files.lock().map_err(|cause| match cause.kind() {
        std::io::ErrorKind::WouldBlock => Error::new(
            Code::Unavailable,
            "another process has this store open; end it, or open another folder",
        ),
        _ => failed("locking the store", cause),
    })
}

/// The store's own key; a new folder gets one.
fn known_key(files: &dyn Files) -> Result<format::HashKey> {
    if let Some(key) = format::read(files)? {
        return Ok(key);
    }
    let names = files.list().map_err(|cause| failed("listing the store", cause))?;
    let data = |name: &&String| segment_number(name).or(checkpoint_number(name)).is_some();
    if let Some(name) = names.iter().find(data) {
        let message = format!("the folder has `{name}` but no FORMAT; it is no whole store");
        return Err(Error::new(Code::StorageFailed, message));
    }
    let key = uuid::Uuid::new_v4().into_bytes();
    format::create(files, key)?;
    Ok(key)
}

/// What lies in the folder.
struct Lying {
    /// By number.
    segments: Vec<Arc<Segment>>,
    checkpoints: Vec<u32>,
    spares: Vec<String>,
    spare_number: u32,
    next_segment: u32,
}

impl Lying {
    /// What is to be loaded.
    fn course<'a>(
        &self,
        files: &dyn Files,
        progress: &'a Progress,
        segment_bytes: u32,
    ) -> Result<Course<'a>> {
        let unread = |cause| failed("reading a checkpoint", cause);
        let (mut bytes, mut newest) = (0, None);
        for number in &self.checkpoints {
            let file = files.open(&checkpoint_name(*number)).map_err(unread)?;
            bytes += file.size().map_err(unread)?;
            if self.checkpoints.iter().max() == Some(number) {
                newest = peek_end(&*file).map_err(unread)?;
            }
        }
        let logs = self.segments.iter().filter(|segment| segment.kind == Kind::Log);
        let logs = logs.map(|segment| segment.number);
        Ok(Course::new(progress, (bytes, newest), logs, segment_bytes))
    }
}

fn find(files: &dyn Files, segment_bytes: u32) -> Result<Lying> {
    let mut lying = Lying {
        segments: Vec::new(),
        checkpoints: Vec::new(),
        spares: Vec::new(),
        spare_number: 0,
        next_segment: 1,
    };
    let mut names = files.list().map_err(|cause| failed("listing the store", cause))?;
    names.sort();
    for name in names {
        if let Some(number) = segment_number(&name) {
            lying.segments.push(open_segment(files, &name, number)?);
            lying.next_segment = lying.next_segment.max(number + 1);
        } else if let Some(number) = checkpoint_number(&name) {
            lying.checkpoints.push(number);
        } else if is_spare(files, &name, segment_bytes) {
            lying.spare_number = name[SPARE.len()..].parse().unwrap_or(0);
            lying.spares.push(name);
        } else if name.ends_with(".tmp") || name.starts_with(SPARE) {
            // Begun and not finished: nothing needs it.
            files.remove(&name).map_err(|cause| failed("removing what was not finished", cause))?;
        }
    }
    // A process that was killed leaves names unsynced, and more is about to rest on them.
    files.sync_folder().map_err(|cause| failed("syncing the folder", cause))?;
    Ok(lying)
}

/// Whether a file can become a segment as it is.
fn is_spare(files: &dyn Files, name: &str, segment_bytes: u32) -> bool {
    let digits = name.strip_prefix(SPARE).is_some_and(|rest| rest.parse::<u32>().is_ok());
    let whole = || files.open(name)?.size().map(|size| size == u64::from(segment_bytes));
    digits && whole().unwrap_or(false)
}

pub(crate) fn open_segment(files: &dyn Files, name: &str, number: u32) -> Result<Arc<Segment>> {
    let what = || format!("reading `{name}`");
    let file = files.open(name).map_err(|cause| failed(&what(), cause))?;
    let mut head = [0; 64];
    file.read_at(&mut head, 0).map_err(|cause| failed(&what(), cause))?;
    match read_segment_header(&head) {
        Some((found, kind)) if found == number => Ok(Arc::new(Segment { number, kind, file })),
        _ => Err(corrupt(name, 0, "it does not begin like the segment it is named after")),
    }
}

/// What was read back.
struct Loaded {
    end: End,
    checkpoint: Option<(u32, u64, Manifest)>,
    /// Earlier checkpoints that it names.
    named: Vec<u32>,
    /// The checkpoints in the folder, with their sizes.
    kept: BTreeMap<u32, u64>,
}

/// Takes up the newest checkpoint and what the log adds to it.
fn load(
    files: &dyn Files,
    found: &Lying,
    state: &mut State,
    now: Now,
    course: &mut Course<'_>,
) -> Result<Loaded> {
    let newest = found.checkpoints.iter().max().copied();
    let loaded = newest
        .map(|number| load_checkpoint(files, number, state, now, || course.took_block()))
        .transpose()?;
    let (checkpoint, named) = loaded.unzip();
    let (from, first) = checkpoint.map_or((Position::default(), 1), |(_, _, manifest)| {
        (manifest.position, manifest.first_batch)
    });
    let logs: Vec<_> =
        found.segments.iter().filter(|segment| segment.kind == Kind::Log).cloned().collect();
    if from.segment > 0 && !logs.iter().any(|segment| segment.number == from.segment) {
        let what = "it is missing, and the log is to be read from here on";
        return Err(corrupt(&segment_name(from.segment), from.offset, what));
    }
    let (end, loose) = scan(&logs, from, first, |segment, body, record| {
        course.took_record(segment.number, body);
        state.replay(record, place_of(record, segment.number, body), now)
    })
    .map_err(broken)?;
    if let Some((number, _, manifest)) = checkpoint
        && end.batch < manifest.last_batch
    {
        let what = "it knows more than the log, which has lost what had been durable";
        return Err(corrupt(&checkpoint_name(number), 0, what));
    }
    if let Some(segment) = state.segments.first_missing() {
        return Err(corrupt(&segment_name(segment), 0, "it is missing, and jobs lie in it"));
    }
    // A process that was killed leaves written bytes unsynced, and more is about to rest on them.
    for batch in &loose {
        batch.write_again().map_err(|cause| failed("writing the end of the log again", cause))?;
    }
    for segment in logs.iter().filter(|segment| segment.number >= from.segment) {
        segment.file.sync().map_err(|cause| failed("syncing the log", cause))?;
    }
    let size = |number: &u32| Ok((*number, files.open(&checkpoint_name(*number))?.size()?));
    let kept: std::io::Result<_> = found.checkpoints.iter().map(size).collect();
    let kept = kept.map_err(|cause| failed("reading a checkpoint", cause))?;
    Ok(Loaded { end, checkpoint, named: named.unwrap_or_default(), kept })
}

pub(crate) fn load_checkpoint(
    files: &dyn Files,
    number: u32,
    state: &mut State,
    now: Now,
    mut took_block: impl FnMut(),
) -> Result<((u32, u64, Manifest), Vec<u32>)> {
    let name = checkpoint_name(number);
    let what = format!("reading `{name}`");
    let file = files.open(&name).map_err(|cause| failed(&what, cause))?;
    let bytes = file.size().map_err(|cause| failed(&what, cause))?;
    let (manifest, named) = read_ahead(files, &*file, |block, payload| {
        state.load_block(block, payload, now)?;
        took_block();
        Ok(())
    })
    .map_err(|why| match why {
        Unusable::Io(cause) => failed(&what, cause),
        Unusable::Damaged(what) => corrupt(&name, 0, what),
    })?;
    state.load_end(&manifest);
    Ok(((number, bytes, manifest), named))
}

/// How many blocks are read before they are taken up.
const BLOCKS_AHEAD: usize = 8;

/// Reads a checkpoint and the earlier ones that it names, a few blocks ahead of those that are
/// shown; answers its end, and the names.
fn read_ahead(
    files: &dyn Files,
    file: &dyn File,
    mut show: impl FnMut(Block, &[u8]) -> std::result::Result<(), Unusable>,
) -> std::result::Result<(Manifest, Vec<u32>), Unusable> {
    let (blocks, ahead) = sync_channel::<(Block, Vec<u8>)>(BLOCKS_AHEAD);
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut earlier = Earlier::new(files);
            let manifest = read(file, |block, payload| {
                let block = match block {
                    Block::Same => (Block::Jobs, earlier.jobs(payload)?.to_vec()),
                    block => (block, payload.to_vec()),
                };
                blocks.send(block).map_err(|_| Unusable::Damaged("it was not taken up"))
            })?;
            Ok((manifest, earlier.named()))
        });
        let shown = ahead.iter().try_for_each(|(block, payload)| show(block, &payload));
        // One that is not taken up any more is not read to its end.
        drop(ahead);
        let read = reading.join().expect("reading does not panic");
        shown.and(read)
    })
}

/// Segments that were made ready and not used, or torn before they were: nothing lies in them.
fn leftovers(found: &Lying, loaded: &Loaded, state: &mut State) -> Vec<Retired> {
    let end = loaded.end.position.segment;
    let beyond = |segment: &&Arc<Segment>| segment.kind == Kind::Log && segment.number > end;
    let unused = found.segments.iter().filter(beyond).map(|segment| segment.number);
    let retired = unused.filter_map(|number| state.segments.retire(number));
    retired.map(|segment| Retired { segment, since: 0 }).collect()
}

fn broken(broken: Broken) -> Error {
    match broken {
        Broken::Io(cause) => failed("reading the log", cause),
        Broken::Corrupt { segment, offset, what } => corrupt(&segment_name(segment), offset, what),
    }
}

/// The answer when bytes that had been durable are not what was written.
fn corrupt(name: &str, offset: u32, what: &str) -> Error {
    let message = format!(
        "`{name}` is damaged at byte {offset}: {what}; nothing was changed, restore the folder from a copy"
    );
    Error::new(Code::StorageFailed, message)
}
