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
