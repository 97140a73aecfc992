//! A real folder.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::retry_on_intr;

use super::{File, Files, Guard};

/// The file that a process holds locked while it uses the folder.
const LOCK: &str = "LOCK";

/// A folder of the file system, held open: it stays the same one if its path is given to another.
#[derive(Debug)]
pub struct Folder {
    fd: fs::File,
    access: OFlags,
}

impl Folder {
    /// The folder at `path`, made with its parents if it is not there.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Folder> {
        let path = path.as_ref();
        let missing: Vec<_> = path.ancestors().take_while(|folder| !is_there(folder)).collect();
        fs::create_dir_all(path)?;
        // A folder whose own entry is lost takes everything in it along.
        missing.into_iter().try_for_each(sync_entry)?;
        Ok(Folder { fd: fs::File::open(path)?, access: OFlags::RDWR })
    }

    /// The folder at `path` if it is there, only to look: its files cannot be written.
    pub fn look(path: impl AsRef<Path>) -> io::Result<Folder> {
        Ok(Folder { fd: fs::File::open(path)?, access: OFlags::RDONLY })
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<fs::File> {
        let flags = flags | self.access | OFlags::CLOEXEC;
        // Jobs and secrets are in there: for nobody else to read.
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = retry_on_intr(|| rustix::fs::openat(&self.fd, name, flags, mode))?;
        Ok(fd.into())
    }
}

/// The parent of a one-part path is the empty path, which is always there.
fn is_there(folder: &Path) -> bool {
    folder.as_os_str().is_empty() || folder.exists()
}

fn sync_entry(folder: &Path) -> io::Result<()> {
    match folder.parent() {
        Some(parent) if parent.as_os_str().is_empty() => fs::File::open(".")?.sync_all(),
        Some(parent) => fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

impl Files for Folder {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(self.open_file(name, OFlags::CREATE | OFlags::EXCL)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(self.open_file(name, OFlags::empty())?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::renameat(&self.fd, from, &self.fd, to))?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()))?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            // A name that is not UTF-8 is none of ours, whatever it is changed to.
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.fd.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let space = retry_on_intr(|| rustix::fs::fstatvfs(&self.fd))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        let file = self.open_file(LOCK, OFlags::CREATE)?;
        file.try_lock()?;
        Ok(Box::new(Locked { file }))
    }
}

/// The lock is the open file's: a process that is killed lets go.
struct Locked {
    file: fs::File,
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Not left to the close: a process that another thread is just starting has the file too,
        // until it runs its program. Closing lets go in any case, if a little later.
        let _ = self.file.unlock();
    }
}

impl Guard for Locked {}

impl File for fs::File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match FileExt::read_at(self, &mut buf[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(filled)
    }

    fn read_cached(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let asked = buf.len();
        match read_nowait(self, buf, offset)? {
            Some(got) if got == asked => Ok(Some(got)),
            // Short, for want of file or for want of cache?
            Some(got) if offset + got as u64 >= self.size()? => Ok(Some(got)),
            _ => Ok(None),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// None if it would wait, and where the file system or kernel cannot tell.
#[cfg(target_os = "linux")]
fn read_nowait(file: &fs::File, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let mut bufs = [io::IoSliceMut::new(buf)];
    match retry_on_intr(|| preadv2(file, &mut bufs, offset, ReadWriteFlags::NOWAIT)) {
        Ok(got) => Ok(Some(got)),
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(None),
        Err(cause) => Err(cause.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn read_nowait(_: &fs::File, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn folder() -> (TempDir, Folder) {
        let dir = tempfile::tempdir().expect("a temp folder");
        let folder = Folder::open(dir.path()).expect("it is there");
        (dir, folder)
    }

    #[test]
    fn a_missing_folder_is_made_with_its_parents() {
        let (dir, _) = folder();
        let path = dir.path().join("a/b/c");
        for _ in 0..2 {
            Folder::open(&path).expect("made, then found").create("x").map(drop).ok();
        }
        assert!(path.join("x").is_file());
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        let (dir, _) = folder();
        let path = dir.path().join("a");
        fs::write(&path, "").expect("written");
        assert!(Folder::open(&path).is_err());
        assert!(Folder::open(path.join("b")).is_err());
    }

    #[test]
    fn a_look_makes_and_changes_nothing() {
        let (dir, folder) = folder();
        assert!(Folder::look(dir.path().join("missing")).is_err());
        assert!(!dir.path().join("missing").exists());
        folder.create("x").and_then(|file| file.write_at(b"abc", 0)).expect("written");
        let file = Folder::look(dir.path()).expect("there").open("x").expect("there");
        assert!(file.write_at(b"d", 0).is_err());
        let mut read = [0; 3];
        assert_eq!((file.read_at(&mut read, 0).expect("read"), &read), (3, b"abc"));
    }

    #[test]
    fn a_folder_that_was_moved_is_still_the_same() {
        let (dir, _) = folder();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let folder = Folder::open(&old).expect("made");
        fs::rename(&old, &new).expect("moved");
        folder.create("x").map(drop).expect("created");
        folder.sync_folder().expect("synced");
        assert!(new.join("x").is_file());
    }

    #[test]
    fn only_the_owner_reads_a_file() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, folder) = folder();
        folder.create("x").map(drop).expect("created");
        let mode = fs::metadata(dir.path().join("x")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// A file of so many bytes that are all in the cache, where cached reads are to be had.
    fn cached(folder: &Folder, size: usize) -> Option<Arc<dyn File>> {
        let file = folder.create("x").expect("created");
        file.write_at(&vec![7; size], 0).expect("written");
        file.sync().expect("synced");
        let got = file.read_cached(&mut vec![0; size], 0).expect("no error");
        if got.is_none() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no RWF_NOWAIT here");
            eprintln!("skipped: the file system of the temp folder has no RWF_NOWAIT");
        }
        got.map(|_| file)
    }

    #[test]
    fn a_cached_read_says_where_the_file_ends() {
        let (_dir, folder) = folder();
        let Some(file) = cached(&folder, 6000) else { return };
        let mut buf = [0; 4096];
        for (offset, expected) in [(0, 4096), (4096, 1904), (6000, 0), (9000, 0)] {
            let got = file.read_cached(&mut buf, offset).expect("no error");
            assert_eq!(got, Some(expected), "at {offset}");
            assert!(buf[..expected].iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn a_cached_read_answers_none_if_it_is_not_cached() {
        use rustix::fs::{Advice, fadvise};
        const SIZE: usize = 4 << 20;
        let (dir, folder) = folder();
        let Some(file) = cached(&folder, SIZE) else { return };
        let fd = fs::File::open(dir.path().join("x")).expect("there");
        fadvise(&fd, 0, None, Advice::DontNeed).expect("dropped");
        let mut buf = vec![0; SIZE];
        assert_eq!(file.read_cached(&mut buf, 0).expect("no error"), None, "none is cached");
        assert_eq!(file.read_at(&mut buf, 0).expect("read"), SIZE);
        assert!(buf.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn free_bytes_are_what_the_file_system_says() {
        let (_dir, folder) = folder();
        assert!(folder.free_bytes().expect("known") > 0);
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let (dir, folder) = folder();
        let other = Folder::open(dir.path()).expect("it is there");
        let guard = folder.lock().expect("free");
        assert_eq!(other.lock().err().map(|e| e.kind()), Some(io::ErrorKind::WouldBlock));
        drop(guard);
        other.lock().expect("free again");
        assert_eq!(folder.list().expect("listed"), [LOCK]);
    }
}
