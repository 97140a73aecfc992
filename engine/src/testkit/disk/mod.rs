//! A disk in memory that fails when it is told to.

mod content;
mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use self::content::Content;
use self::names::{FileId, Names};
use crate::store::embedded::files::{File, Files, Guard};
use crate::testkit::rng::Rng;

/// A disk in memory: what a power cut leaves of it, a seed decides.
///
/// Writes and changes of names are seen at once and are safe once synced, each file by its own
/// sync, the names by that of the folder. A crash keeps any subset of the rest: a sector of 512
/// bytes holds its last safe value or one written since, never parts of both; a create, rename or
/// remove got through or did not (and not if it rests on one that did not).
///
/// Clones are the same disk. A disk that was crashed or killed stays off; what was on it goes on
/// in the new one.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<Mutex<State>>,
}

struct State {
    names: Names,
    nodes: BTreeMap<FileId, Node>,
    next: FileId,
    power: Power,
    locked: bool,
    operations: u64,
    cut: Fuse,
    fail_sync: Fuse,
    fail_sync_folder: Fuse,
    fail_write: Fuse,
    settings: Settings,
}

/// What a disk is like; a crash does not change it.
#[derive(Clone, Copy, Default)]
struct Settings {
    capacity: Option<u64>,
    cold: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    Off,
}

/// One file. Disks share its content until one writes, so that killing one copies nothing.
struct Node {
    content: Arc<Content>,
    /// Held by every handle too: a file without a name lives on until the last is closed.
    open: Arc<()>,
}

/// Something that goes wrong at the n-th time; at zero it is not set.
#[derive(Default)]
struct Fuse(u64);

/// What a disk without a set capacity says is free.
const ROOMY: u64 = 1 << 50;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

impl SimDisk {
    /// An empty disk.
    pub fn new() -> SimDisk {
        SimDisk::with(Names::default(), BTreeMap::new(), Settings::default())
    }

    fn with(names: Names, contents: BTreeMap<FileId, Arc<Content>>, settings: Settings) -> SimDisk {
        let next = contents.last_key_value().map_or(0, |(file, _)| file + 1);
        let nodes = contents.into_iter().map(|(file, content)| (file, Node::new(content)));
        let state = State {
            names,
            nodes: nodes.collect(),
            next,
            power: Power::On,
            locked: false,
            operations: 0,
            cut: Fuse::default(),
            fail_sync: Fuse::default(),
            fail_sync_folder: Fuse::default(),
            fail_write: Fuse::default(),
            settings,
        };
        SimDisk { shared: Arc::new(Mutex::new(state)) }
    }

    /// Cuts the power now, if it is on, and answers the disk as it is when the power is back.
    ///
    /// The same disk can be crashed again with another seed, for another way it may have ended.
    pub fn crash(&self, rng_seed: u64) -> SimDisk {
        let mut rng = Rng::new(rng_seed);
        let mut state = self.state();
        state.power = Power::Off;
        let names = state.names.after_crash(&mut rng);
        let mut contents = BTreeMap::new();
        for file in names.values() {
            contents.insert(*file, after_crash(&state.nodes[file].content, &mut rng));
        }
        SimDisk::with(Names::of(names), contents, state.settings)
    }

    /// Kills the process that uses the disk, and answers the disk for the next one.
    ///
    /// All that was written is seen, but a crash may still take what was not synced. After
    /// [`SimDisk::cut_power_after`] it is as if the process was killed in that operation.
    pub fn survives_kill(&self) -> SimDisk {
        let mut state = self.state();
        state.power = Power::Off;
        let contents = state.nodes.iter().map(|(file, node)| (*file, node.content.clone()));
        SimDisk::with(state.names.clone(), contents.collect(), state.settings)
    }

    /// Cuts the power in the middle of the n-th following operation that changes something; 1 is
    /// the next one. It fails, and so does everything from then on.
    pub fn cut_power_after(&self, n: u64) {
        self.state().cut.set(n);
    }

    /// Whether the power is off: cut, crashed or killed.
    pub fn is_off(&self) -> bool {
        self.state().power == Power::Off
    }

    /// How many operations there have been that change something: create, rename, remove,
    /// `write_at`, `sync` and `sync_folder`, those that failed included.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Lets the n-th following `sync` of a file fail, once; 1 is the next one.
    ///
    /// What it should have made safe still reads as written, but later syncs leave it out.
    pub fn fail_sync_in(&self, n: u64) {
        self.state().fail_sync.set(n);
    }

    /// Lets the n-th following `sync_folder` fail, once; 1 is the next one. The names are as
    /// unsynced as before, and a later one makes them safe.
    pub fn fail_sync_folder_in(&self, n: u64) {
        self.state().fail_sync_folder.set(n);
    }

    /// Lets the n-th following write fail, once, with nothing written; 1 is the next one.
    pub fn fail_write_in(&self, n: u64) {
        self.state().fail_write.set(n);
    }

    /// Sets how many bytes fit, over all files. Overwriting what is there always fits.
    pub fn capacity(&self, bytes: u64) {
        self.state().settings.capacity = Some(bytes);
    }

    /// Flips bits of one byte of a file, on the disk and in the cache.
    ///
    /// # Panics
    ///
    /// If there is no such byte.
    pub fn corrupt(&self, name: &str, offset: u64, xor: u8) {
        let mut state = self.state();
        let file = state.names.get(name).expect("a file to corrupt");
        state.content(file).corrupt(offset as usize, xor);
    }

    /// Sets whether the cache is empty, always: every read needs the disk.
    pub fn cold(&self, cold: bool) {
        self.state().settings.cold = cold;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().expect("nobody panics holding the disk")
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> io::Result<T>) -> io::Result<T> {
        let state = self.state();
        state.has_power()?;
        look(&state)
    }

    /// A change that is only seen. If the power is cut in its midst it is done all the same: how
    /// much of it got through is for the crash to pick.
    fn change<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        state.begin()?;
        let done = act(&mut state);
        state.has_power().and(done)
    }

    /// A change that makes others safe. If the power is cut in its midst nothing is: the crash
    /// picks from what was unsynced anyway.
    fn settle(&self, act: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        state.begin()?;
        state.has_power()?;
        act(&mut state)
    }

    fn handle(&self, state: &State, file: FileId) -> Arc<dyn File> {
        let open = state.nodes[&file].open.clone();
        Arc::new(SimFile { disk: self.clone(), file, _open: open })
    }
}

impl Default for SimDisk {
    fn default() -> SimDisk {
        SimDisk::new()
    }
}

impl Files for SimDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.change(|state| {
            let file = state.next;
            state.names.create(name, file)?;
            state.next += 1;
            state.nodes.insert(file, Node::new(Arc::default()));
            Ok(self.handle(state, file))
        })
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.look(|state| Ok(self.handle(state, state.names.get(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(|state| state.names.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(|state| state.names.remove(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.look(|state| Ok(state.names.list()))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.settle(|state| {
            if state.fail_sync_folder.blows() {
                return Err(io::Error::from_raw_os_error(EIO));
            }
            state.names.sync();
            let State { names, nodes, .. } = state;
            nodes.retain(|file, node| node.is_open() || names.holds(*file));
            Ok(())
        })
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.look(|state| Ok(state.free_bytes()))
    }

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        let mut state = self.state();
        state.has_power()?;
        if state.locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        Ok(Box::new(Locked { disk: self.clone() }))
    }
}

struct Locked {
    disk: SimDisk,
}

impl Guard for Locked {}

impl Drop for Locked {
    fn drop(&mut self) {
        self.disk.state().locked = false;
    }
}

struct SimFile {
    disk: SimDisk,
    file: FileId,
    _open: Arc<()>,
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.look(|state| Ok(state.nodes[&self.file].content.read(buf, offset as usize)))
    }

    fn read_cached(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        if self.disk.look(|state| Ok(state.settings.cold))? {
            return Ok(None);
        }
        self.read_at(buf, offset).map(Some)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.change(|state| state.write(self.file, bytes, offset as usize))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.settle(|state| state.sync(self.file))
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.look(|state| Ok(state.nodes[&self.file].content.size() as u64))
    }
}

impl State {
    fn has_power(&self) -> io::Result<()> {
        match self.power {
            Power::On => Ok(()),
            Power::Off => Err(io::Error::other("the power of the simulated disk is off")),
        }
    }

    /// Counts an operation. The power may be off after it, cut in its midst.
    fn begin(&mut self) -> io::Result<()> {
        self.has_power()?;
        self.operations += 1;
        if self.cut.blows() {
            self.power = Power::Off;
        }
        Ok(())
    }

    fn write(&mut self, file: FileId, bytes: &[u8], offset: usize) -> io::Result<()> {
        if self.fail_write.blows() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let size = self.nodes[&file].content.size();
        let growth = (offset + bytes.len()).saturating_sub(size) as u64;
        if growth > 0 && growth > self.free_bytes() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        self.content(file).write(bytes, offset);
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> io::Result<()> {
        if self.fail_sync.blows() {
            self.content(file).fail_sync();
            return Err(io::Error::from_raw_os_error(EIO));
        }
        // Content that a disk before this one still holds is not copied for nothing.
        if !self.nodes[&file].content.is_safe() {
            self.content(file).sync();
        }
        Ok(())
    }

    fn content(&mut self, file: FileId) -> &mut Content {
        let node = self.nodes.get_mut(&file).expect("a file that has a name or a handle");
        Arc::make_mut(&mut node.content)
    }

    fn free_bytes(&self) -> u64 {
        let Some(capacity) = self.settings.capacity else { return ROOMY };
        let taken = |(file, node): &(&FileId, &Node)| node.is_open() || self.names.holds(**file);
        let used: usize =
            self.nodes.iter().filter(taken).map(|(_, node)| node.content.size()).sum();
        capacity.saturating_sub(used as u64)
    }
}

impl Node {
    fn new(content: Arc<Content>) -> Node {
        Node { content, open: Arc::default() }
    }

    fn is_open(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }
}

impl Fuse {
    fn set(&mut self, n: u64) {
        assert!(n > 0, "faults are counted from 1, the next operation");
        self.0 = n;
    }

    fn blows(&mut self) -> bool {
        let last = self.0 == 1;
        self.0 = self.0.saturating_sub(1);
        last
    }
}

fn after_crash(content: &Arc<Content>, rng: &mut Rng) -> Arc<Content> {
    if content.is_safe() { content.clone() } else { Arc::new(content.after_crash(rng)) }
}
