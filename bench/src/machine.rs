//! Where the figures are from.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Facts about this machine and this tree, each with its name.
pub(crate) fn facts(folder: &Path) -> Vec<(&'static str, String)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    vec![
        ("cores", format!("{cores}, {}", processor(&read("/proc/cpuinfo")))),
        ("memory", memory(&read("/proc/meminfo"))),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("file system", file_system(&read("/proc/self/mounts"), folder)),
        ("commit", commit()),
    ]
}

fn processor(text: &str) -> &str {
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, name)| name)
}

fn memory(text: &str) -> String {
    let kb = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kb.map_or("unknown".into(), |kb| format!("{} GiB", (kb + (1 << 19)) >> 20))
}

/// The type of the file system that a folder is on: that of the longest mount point above it.
fn file_system(mounts: &str, folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?))
        })
        .filter(|(point, _)| folder.starts_with(point))
        .max_by_key(|(point, _)| point.len())
        .map_or("unknown".into(), |(_, kind)| kind.to_owned())
}

fn commit() -> String {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(args);
        let output = command.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".into() };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}, and changes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_point_counts() {
        let mounts = "a / ext4 rw 0 0\nb /proc proc rw 0 0\nc /data xfs rw 0 0";
        assert_eq!(file_system(mounts, Path::new("/data/x")), "xfs");
        assert_eq!(file_system(mounts, Path::new("/database")), "ext4");
    }
}
