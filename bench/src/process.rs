//! What the kernel says about this process.

use std::fs;
use std::time::Duration;

const PAGE_BYTES: u64 = 4096;
/// The kernel tells times in these, whatever its own clock's pace.
const TICKS_A_SECOND: f64 = 100.0;

/// Memory that is in use, in bytes.
pub(crate) fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
}

/// The most memory that was ever in use, in bytes.
pub(crate) fn resident_bytes_peak() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0)
        * 1024
}

/// The time that all threads have run for.
pub(crate) fn cpu() -> Duration {
    cpu_in(&fs::read_to_string("/proc/self/stat").unwrap_or_default())
}

/// The time that all threads of another process have run for.
pub(crate) fn cpu_of_process(id: u32) -> Duration {
    cpu_in(&fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default())
}

/// A process and all that descend from it.
pub(crate) fn tree(id: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
        let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()?;
        Some((id, parent))
    });
    let all: Vec<(u32, u32)> = all.collect();
    let mut tree = vec![id];
    let mut at = 0;
    while at < tree.len() {
        let children = all.iter().filter(|(_, parent)| *parent == tree[at]).map(|(id, _)| *id);
        tree.extend(children.collect::<Vec<_>>());
        at += 1;
    }
    tree
}

/// Memory that processes have in use, in bytes; what they share is counted once.
pub(crate) fn bytes_of(processes: &[u32]) -> u64 {
    let of = |id: &u32| {
        let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?.trim();
        line.trim_end_matches(" kB").parse::<u64>().ok()
    };
    processes.iter().filter_map(of).sum::<u64>() * 1024
}

/// The time that the threads of this name have run for.
pub(crate) fn cpu_of(name: &str) -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let stats =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    stats.filter(|stat| stat.contains(&format!("({name})"))).map(|stat| cpu_in(&stat)).sum()
}

fn cpu_in(text: &str) -> Duration {
    // The name may have blanks; it ends at the last bracket.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 =
        rest.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<f64>().ok()).sum();
    Duration::from_secs_f64(ticks / TICKS_A_SECOND)
}
