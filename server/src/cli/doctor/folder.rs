//! A store in a folder: its disk, and whether it can be opened.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use linger::time::format_duration;

use super::Findings;
use crate::config::Config;

/// With less a server refuses jobs: the log keeps three segments and a checkpoint in reserve.
const FREE_MIN: u64 = 512 << 20;
/// With less it will soon.
const FREE_ENOUGH: u64 = 4 << 30;
/// A sync that takes longer makes every answer late.
const SYNC_SLOW: Duration = Duration::from_millis(10);
const SYNCS: usize = 15;
const SYNC_BYTES: usize = 4096;
/// A file from the future says that the clock was set back.
const AHEAD_MAX: Duration = Duration::from_secs(60);

/// File systems by the number that the kernel knows them by, and what is wrong with them if anything is.
const KINDS: [(u64, &str, Option<&str>); 17] = [
    // The number is that of ext2 and ext3 too.
    (0xef53, "ext4", None),
    (0x5846_5342, "XFS", None),
    (0x9123_683e, "Btrfs", None),
    (0x2fc1_2fc1, "ZFS", None),
    (0xf2f5_2010, "F2FS", None),
    (0xca45_1a4e, "bcachefs", None),
    (0x3153_464a, "JFS", None),
    (0x6573_5546, "FUSE", None),
    (0x0102_1994, "tmpfs", Some(MEMORY)),
    (0x8584_58f6, "ramfs", Some(MEMORY)),
    (0x6969, "NFS", Some(NETWORK)),
    (0x517b, "SMB", Some(NETWORK)),
    (0xff53_4d42, "CIFS", Some(NETWORK)),
    (0xfe53_4d42, "SMB 2", Some(NETWORK)),
    (0x0102_1997, "9p", Some(NETWORK)),
    (0x00c3_6400, "CephFS", Some(NETWORK)),
    (0x794c_7630, "overlayfs", Some(CONTAINER)),
];
const MEMORY: &str = "in memory: a restart of the machine loses all jobs";
const NETWORK: &str = "on the network: locks and syncs may not hold there";
const CONTAINER: &str = "the layer of a container: its jobs are gone with the container";

pub(super) fn look(folder: &Path, config: &Config, findings: &mut Findings) {
    let there = match nearest(folder) {
        Ok(there) => there,
        Err(why) => {
            let remedy = "give the user of the server a folder that it may write";
            return findings.problem("store", why, remedy);
        }
    };
    kind(&there, findings);
    space(&there, findings);
    if there == folder {
        store(folder, findings);
    } else {
        findings.well("store", format!("`{}` will be made", folder.display()));
    }
    writing(&there, config, findings);
}

/// The folder, or that of its parents in which it would be made.
fn nearest(folder: &Path) -> Result<PathBuf, String> {
    for parent in folder.ancestors() {
        let parent = if parent == Path::new("") { Path::new(".") } else { parent };
        match fs::metadata(parent) {
            Ok(about) if about.is_dir() => return Ok(parent.to_owned()),
            Ok(_) => return Err(format!("`{}` is no folder", parent.display())),
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => return Err(format!("cannot look at `{}`: {cause}", parent.display())),
        }
    }
    Err(format!("there is nothing at `{}`", folder.display()))
}

fn kind(folder: &Path, findings: &mut Findings) {
    let Ok(found) = rustix::fs::statfs(folder) else { return };
    judge(folder, found.f_type as u64 & 0xffff_ffff, findings);
}

/// Says what there is to say of a file system of this number.
fn judge(folder: &Path, number: u64, findings: &mut Findings) {
    let about = "disk";
    match KINDS.iter().find(|(kind, ..)| *kind == number) {
        Some((_, name, Some(why))) => {
            let says = format!("`{}` is on {name}, {why}", folder.display());
            let remedy = "put the store on a disk of this machine, or a volume";
            match *why {
                MEMORY => findings.problem(about, says, remedy),
                _ => findings.warning(about, says, remedy),
            }
        }
        Some((_, name, None)) => findings.well(about, format!("file system {name}")),
        None => findings.well(about, format!("file system {number:#x}")),
    }
}

fn space(folder: &Path, findings: &mut Findings) {
    let about = "disk space";
    let Ok(found) = rustix::fs::statvfs(folder) else { return };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let says = format!("{} free", megabytes(free));
    if free < FREE_MIN {
        let needed = megabytes(FREE_MIN);
        let remedy = format!("make room: with less than about {needed} new jobs are refused");
        findings.problem(about, says, remedy);
    } else if free < FREE_ENOUGH {
        let remedy = "make room in time; the rule `disk` of [alarms] tells you when";
        findings.warning(about, says, remedy);
    } else {
        findings.well(about, says);
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Whether what is there is a store of ours, and who has it open.
fn store(folder: &Path, findings: &mut Findings) {
    let about = "store";
    let format = match linger::store::embedded::format(folder) {
        Ok(Some(format)) => format,
        Ok(None) if is_empty(folder) => {
            return findings.well(about, "the folder is empty: a store will be made");
        }
        Ok(None) => {
            let says = format!("`{}` has files in it and no store", folder.display());
            return findings.problem(about, says, "give a folder of its own, or one with a store");
        }
        Err(why) => {
            let remedy = "if it is of a newer version, use that; else restore a backup";
            return findings.problem(about, why.to_string(), remedy);
        }
    };
    match in_use(folder) {
        Ok(true) => findings.well(about, format!("format {format}, in use by a server")),
        Ok(false) => findings.well(about, format!("format {format}, not in use")),
        Err(cause) => {
            let says = format!("its file LOCK cannot be opened: {cause}");
            findings.problem(about, says, "give its files to the user of the server (chown)");
        }
    }
    files(folder, findings);
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether another process has the store open.
fn in_use(folder: &Path) -> io::Result<bool> {
    let lock = match OpenOptions::new().read(true).write(true).open(folder.join("LOCK")) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    match lock.try_lock() {
        Ok(()) => lock.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(cause)) => Err(cause),
    }
}

/// Whose the files are, and what time they are of.
fn files(folder: &Path, findings: &mut Findings) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let files: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?)))
        .filter(|(_, about)| about.is_file())
        .collect();
    let name = |name: &std::ffi::OsString| name.to_string_lossy().into_owned();
    if let Some((file, about)) = files.iter().find(|(_, about)| about.mode() & 0o077 != 0) {
        let says = format!("others may read `{}` (mode {:o})", name(file), about.mode() & 0o777);
        findings.warning("permissions", says, "chmod go= its files: jobs and secrets are in there");
    }
    let owner = fs::metadata(folder).map(|about| about.uid());
    if let Ok(owner) = owner
        && let Some((file, _)) = files.iter().find(|(_, about)| about.uid() != owner)
    {
        let says = format!("`{}` is not of the user whose the folder is", name(file));
        findings.problem("permissions", says, "give all files to the user of the server (chown)");
    }
    let newest = files.iter().filter_map(|(_, about)| about.modified().ok()).max();
    let ahead = newest.and_then(|newest| newest.duration_since(SystemTime::now()).ok());
    if let Some(ahead) = ahead.filter(|ahead| *ahead > AHEAD_MAX) {
        let ahead = format_duration(Duration::from_secs(ahead.as_secs()));
        let says = format!("the store was written {ahead} in the future: the clock was set back");
        findings.problem("clock", says, "set it right: jobs are due by it");
    }
}

/// Whether it can be written there, and how long that takes to be safe.
fn writing(folder: &Path, config: &Config, findings: &mut Findings) {
    let about = "writing";
    let path = folder.join(format!(".linger-doctor-{}", std::process::id()));
    let tried = sync_time(&path);
    // Whatever came of it.
    let _ = fs::remove_file(&path);
    match tried {
        Ok(took) => {
            let says = format!("a synced write takes {} µs", took.as_micros());
            if took > SYNC_SLOW && config.durability == linger::store::embedded::Durability::Sync {
                let remedy = "expect answers to changes to take as long; put the store on a faster \
                              disk, one with a cache that survives a power cut";
                findings.warning(about, says, remedy);
            } else {
                findings.well(about, says);
            }
        }
        Err(cause) => {
            let says = format!("cannot write in `{}`: {cause}", folder.display());
            findings.problem(
                about,
                says,
                "give it to the user of the server (chown), or make room",
            );
        }
    }
}

/// The median of some synced writes into a file that is there already, as the log writes.
fn sync_time(path: &Path) -> io::Result<Duration> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file: File = made?;
    file.write_all(&[0; SYNC_BYTES])?;
    file.sync_all()?;
    let mut took = Vec::with_capacity(SYNCS);
    for turn in 0..SYNCS {
        let start = Instant::now();
        file.write_all_at(&[turn as u8; SYNC_BYTES], 0)?;
        file.sync_data()?;
        took.push(start.elapsed());
    }
    took.sort();
    Ok(took[SYNCS / 2])
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn a_file_system_is_called_by_its_name_and_judged_by_it() {
        let says = |number| {
            let mut findings = Findings::default();
            judge(Path::new("/data"), number, &mut findings);
            let finding = findings.0.remove(0);
            (finding.level, finding.says)
        };
        assert_eq!(says(0xef53), (Level::Well, "file system ext4".to_owned()));
        assert_eq!(says(0x5846_5342), (Level::Well, "file system XFS".to_owned()));
        assert_eq!(says(0x1234), (Level::Well, "file system 0x1234".to_owned()));
        let (level, tmpfs) = says(0x0102_1994);
        assert_eq!(level, Level::Problem);
        assert!(tmpfs.starts_with("`/data` is on tmpfs, in memory"), "{tmpfs}");
        assert_eq!(says(0x6969).0, Level::Warning);
    }
}
