//! The one door to the disk, so that tests can tear writes, fail syncs, fill the disk and cut
//! the power.

mod folder;

use std::io;
use std::sync::Arc;

pub use folder::Folder;

/// One flat folder of files.
pub trait Files: Send + Sync + 'static {
    /// A new file, empty; fails if the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// A file that is there, to read and write.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name, in one step; a file that had that name is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes every create, rename and remove so far durable.
    fn sync_folder(&self) -> io::Result<()>;

    /// How many bytes may still be written.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Keeps every other process out until the guard is dropped; `WouldBlock` if one is in.
    fn lock(&self) -> io::Result<Box<dyn Guard>>;
}

/// Keeps a folder locked for as long as it lives.
pub trait Guard: Send + Sync {}

/// One file. Reads and writes name their place, so that several threads can share it.
pub trait File: Send + Sync {
    /// Fills `buf` from `offset` on as far as the file goes; answers how much that was.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// As [`File::read_at`], but only what needs no disk: none if it would have to wait.
    fn read_cached(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>>;

    /// Writes all of `bytes`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the bytes written so far durable (and the length, if it has grown).
    fn sync(&self) -> io::Result<()>;

    /// How long the file is.
    fn size(&self) -> io::Result<u64>;
}
