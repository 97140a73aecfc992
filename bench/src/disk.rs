//! What a folder takes on the disk.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a folder takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// What the disk gives for it.
    pub(crate) allocated: u64,
    /// What the files say they hold.
    pub(crate) apparent: u64,
    /// The part of it that is checkpoints.
    pub(crate) checkpoints: u64,
    /// The number of the newest checkpoint.
    pub(crate) checkpoint: u64,
}

/// What the disk gives for a folder and all that is in it.
pub(crate) fn allocated(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(file) if file.is_dir() => allocated(&entry.path()),
        Ok(file) => file.blocks() * 512,
        // It may be removed while we look.
        Err(_) => 0,
    };
    entries.map(of).sum()
}

pub(crate) fn taken(folder: &Path) -> io::Result<Taken> {
    let mut taken = Taken::default();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = match entry.metadata() {
            Ok(file) => file,
            // The store may remove one while we look.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(cause),
        };
        taken.allocated += file.blocks() * 512;
        taken.apparent += file.len();
        let name = entry.file_name();
        if let Some(number) = name.to_string_lossy().strip_prefix("checkpoint-") {
            taken.checkpoints += file.blocks() * 512;
            taken.checkpoint = taken.checkpoint.max(number.parse().unwrap_or(0));
        }
    }
    Ok(taken)
}
