//! The readers are given what nobody wrote: they must say so, and neither panic nor hang nor ask
//! for memory out of all proportion. `fuzz/` does the same for as long as one likes.

#[allow(dead_code, reason = "it has more to tell than is needed here")]
mod story;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linger::store::embedded::files::Files;
use linger::store::embedded::fuzzing::{checkpoint, log, mend_checkpoint, mend_log, payload};
use linger::testkit::SimDisk;

const COMMAND: &str = "cargo test -p linger --test fuzz_smoke";
/// Versions of each target's files, in all.
const VERSIONS: usize = 5_000;
/// All that the readers may have held at once, with all that a test has anyway.
const MEMORY_MAX_KB: u64 = 512 << 10;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target)
}

fn files(target: &str) -> Vec<(String, Vec<u8>)> {
    let listed = fs::read_dir(corpus(target)).expect("the corpus is there");
    let mut files: Vec<_> = listed
        .map(|entry| entry.expect("listed"))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .map(|(name, path)| (name, fs::read(path).expect("read")))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has a corpus");
    files
}

#[test]
fn the_corpus_can_be_read_and_is_what_the_store_writes() {
    if std::env::var_os("LINGER_WRITE_CORPUS").is_some() {
        write_corpus();
    }
    type Read = fn(&[u8]) -> bool;
    let targets: [(&str, Read); 3] =
        [("log", log), ("checkpoint", checkpoint), ("payload", payload)];
    for (target, read) in targets {
        for (name, bytes) in files(target) {
            assert!(
                read(&bytes),
                "{target}/{name} is out of date: LINGER_WRITE_CORPUS=1 {COMMAND}"
            );
        }
    }
}

#[test]
fn a_broken_log_is_told() {
    try_all("log", |bytes, mended| {
        if mended {
            mend_log(bytes);
        }
        log(bytes)
    });
}

#[test]
fn a_broken_checkpoint_is_told() {
    try_all("checkpoint", |bytes, mended| {
        if mended {
            mend_checkpoint(bytes);
        }
        checkpoint(bytes)
    });
}

#[test]
fn a_broken_payload_is_told() {
    try_all("payload", |bytes, _| payload(bytes));
}

/// Reads each file in many versions, and again with its checks made right.
fn try_all(target: &str, read: impl Fn(&mut Vec<u8>, bool) -> bool) {
    let seed = std::env::var("LINGER_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}; again: LINGER_SEED={seed} {COMMAND}");
    let versions = if std::env::var_os("LINGER_TEST_LONG").is_some() { 100 } else { 1 } * VERSIONS;
    let files = files(target);
    let mut chance = Chance(seed);
    let mut good = 0;
    for n in 0..versions {
        let (name, bytes) = &files[n % files.len()];
        let mut bytes = bytes.clone();
        let other = &files[chance.below(files.len())].1;
        for _ in 0..1 + chance.below(4) {
            change(&mut chance, &mut bytes, other);
        }
        println!("{target}/{name}, version {n}");
        good += u64::from(read(&mut bytes, chance.below(3) > 0));
    }
    // Too many or too few would mean that the checks were not passed, or not made.
    println!("{good} of {versions} could be read");
    assert!(good > versions as u64 / 100 && good < versions as u64, "{good} of {versions}");
    check_memory();
}

fn change(chance: &mut Chance, bytes: &mut Vec<u8>, other: &[u8]) {
    // A checkpoint's end says most in the fewest bytes.
    let from = if chance.below(4) == 0 { bytes.len().saturating_sub(16) } else { 0 };
    let at = from + chance.below(bytes.len() - from + 1);
    let len = chance.below(9).min(bytes.len() - at);
    match chance.below(7) {
        0 => bytes.truncate(at),
        1 => {
            let from = chance.below(other.len() + 1);
            let len = chance.below(other.len() - from + 1);
            bytes.splice(at..at, other[from..from + len].iter().copied());
        }
        2 => drop(bytes.drain(at..at + len)),
        3 => {
            let noise = chance.next().to_le_bytes();
            bytes.splice(at..at + len, noise);
        }
        // What numbers are wrong with: their ends.
        4 => bytes[at..at + len].fill(chance.pick(&[0, 1, 0x7f, 0x80, 0xff])),
        _ if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
        _ => bytes.push(chance.next() as u8),
    }
}

/// What the process has held at most, where that is known.
fn check_memory() {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return };
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.trim().split(' ').next()).expect("it is a line of it");
    let peak: u64 = peak.parse().expect("a number");
    assert!(peak < MEMORY_MAX_KB, "{peak} kB were held at once");
}

/// Chance that repeats (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Writes the corpus anew: a log, its checkpoint, and a payload of each kind.
fn write_corpus() {
    for target in ["log", "checkpoint", "payload"] {
        let _ = fs::remove_dir_all(corpus(target));
        fs::create_dir_all(corpus(target)).expect("made");
    }
    let disk = SimDisk::new();
    story::write_small(Arc::new(disk.clone()));
    let mut log = bytes(&disk, "segment-0000000001");
    let end = log.iter().rposition(|byte| *byte != 0).expect("it is written") + 1;
    log.truncate(end);
    fs::write(corpus("log").join("store"), &log).expect("written");
    let checkpoint = bytes(&disk, "checkpoint-0000000001");
    fs::write(corpus("checkpoint").join("store"), &checkpoint).expect("written");
    for (n, payload) in payloads(&log).into_iter().enumerate() {
        fs::write(corpus("payload").join(format!("{n:02}")), payload).expect("written");
    }
}

fn bytes(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).expect("it is there");
    let mut bytes = vec![0; file.size().expect("known") as usize];
    file.read_at(&mut bytes, 0).expect("read");
    bytes
}

/// The payloads of a log, the first few of each kind, behind the byte that says which.
fn payloads(log: &[u8]) -> Vec<Vec<u8>> {
    let four = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().expect("four")) as usize;
    let mut payloads = Vec::new();
    let (mut counts, mut batch) = ([0; 9], 512);
    while log.get(batch..batch + 4) == Some(b"LgrB") {
        let end = batch + 40 + four(batch + 4);
        let mut at = batch + 40;
        while at < end {
            let (len, tag) = (four(at), log[at + 8]);
            let payload = &log[at + if tag == 1 { 36 } else { 16 }..at + len];
            let kinds: &[u8] = match tag {
                1 => &[0, 1],
                2 => &[2],
                3 => &[3],
                5 => &[7],
                6 => &[4],
                7 => &[5],
                _ => &[],
            };
            for kind in kinds {
                counts[usize::from(*kind)] += 1;
                if counts[usize::from(*kind)] <= 3 || *kind == 0 && payload.len() > 80 {
                    payloads.push([&[*kind], payload].concat());
                }
            }
            at += len;
        }
        batch = end;
    }
    // Settings of its own, and a move, which this store has not made.
    let own: &[u8] =
        &[6, 0x26, 0, 0x10, 0xe8, 7, 0x80, 0xdd, 0xdb, 1, 0xc8, 1, 0x10, 0xe0, 0xd4, 3];
    payloads.push(own.to_vec());
    payloads.push(vec![8, 1, 0x80, 4, 60, 2, 0x80, 4, 60]);
    payloads
}
