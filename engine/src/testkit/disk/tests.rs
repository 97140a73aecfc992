//! That the disk loses what it may lose, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use super::*;
use crate::store::embedded::files::Folder;

const SECTOR: usize = 512;
const SEEDS: u64 = 500;
/// With the seed at its end, repeats one random run.
const REPEAT: &str = "repeat by `cargo test -p linger --lib disk` with LINGER_SEED=";

/// The random runs: only the one of `LINGER_SEED` if that is set.
fn seeds() -> std::ops::Range<u64> {
    match std::env::var("LINGER_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("LINGER_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..2000,
    }
}

fn put(disk: &SimDisk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(name).expect("created");
    file.write_at(bytes, 0).expect("written");
    file
}

/// A file whose name and bytes are safe.
fn put_safe(disk: &SimDisk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = put(disk, name, bytes);
    file.sync().expect("synced");
    disk.sync_folder().expect("synced");
    file
}

fn bytes(files: &dyn Files, name: &str) -> Vec<u8> {
    let file = files.open(name).expect("there");
    let mut bytes = vec![0; file.size().expect("known") as usize];
    let got = file.read_at(&mut bytes, 0).expect("read");
    assert_eq!(got, bytes.len());
    bytes
}

fn names(files: &dyn Files) -> Vec<String> {
    let mut names = files.list().expect("listed");
    names.sort();
    names
}

/// Everything on a disk.
fn all(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    names(disk).into_iter().map(|name| (name.clone(), bytes(disk, &name))).collect()
}

/// All the ways `look` sees a disk after a crash.
fn ends<T: Ord>(disk: &SimDisk, look: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    (0..SEEDS).map(|seed| look(&disk.crash(seed))).collect()
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|cause| cause.kind())
}

fn code<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|cause| cause.raw_os_error())
}

#[test]
fn an_unsynced_sector_is_old_or_new_each_by_itself() {
    let disk = SimDisk::new();
    let file = put_safe(&disk, "x", &[1; 2 * SECTOR]);
    file.write_at(&[2; 2 * SECTOR], 0).expect("written");
    let ends = ends(&disk, |disk| {
        let bytes = bytes(disk, "x");
        bytes.chunks(SECTOR).for_each(|sector| assert!(sector.iter().all(|b| *b == sector[0])));
        (bytes.len(), bytes[0], bytes[SECTOR])
    });
    let size = 2 * SECTOR;
    assert_eq!(ends, [(size, 1, 1), (size, 1, 2), (size, 2, 1), (size, 2, 2)].into());
}

#[test]
fn a_sector_written_twice_may_hold_what_was_written_first() {
    let disk = SimDisk::new();
    let file = put_safe(&disk, "x", b"-----");
    file.write_at(b"ab", 0).expect("written");
    file.write_at(b"cd", 2).expect("written");
    let ends = ends(&disk, |disk| bytes(disk, "x"));
    assert_eq!(ends, [b"-----".to_vec(), b"ab---".to_vec(), b"abcd-".to_vec()].into());
}

#[test]
fn a_large_write_may_be_lost_or_kept_whole_or_but_for_a_few_sectors() {
    const SECTORS: usize = 256;
    let disk = SimDisk::new();
    let file = put_safe(&disk, "x", &[1; SECTORS * SECTOR]);
    file.write_at(&[2; SECTORS * SECTOR], 0).expect("written");
    let kept = ends(&disk, |disk| bytes(disk, "x").chunks(SECTOR).filter(|s| s[0] == 2).count());
    assert!(kept.contains(&0) && kept.contains(&SECTORS), "{kept:?}");
    for range in [1..10, 100..150, SECTORS - 10..SECTORS] {
        assert!(kept.range(range.clone()).next().is_some(), "none in {range:?}: {kept:?}");
    }
}

#[test]
fn unsynced_growth_may_be_lost_or_read_as_zeros() {
    let disk = SimDisk::new();
    let file = put_safe(&disk, "x", &[1; 100]);
    file.write_at(&[2; SECTOR], 1000).expect("written");
    let ends = ends(&disk, |disk| {
        let bytes = bytes(disk, "x");
        assert_eq!(bytes[..100], [1; 100]);
        assert!(bytes.iter().skip(100).take(900).all(|byte| *byte == 0), "the gap is zeros");
        let written = bytes.iter().skip(1000).filter(|byte| **byte == 2).count();
        (bytes.len().clamp(100, 1512) / 100, written)
    });
    let has = |sizes: std::ops::Range<usize>, written| {
        ends.iter().any(|(size, twos)| sizes.contains(size) && *twos == written)
    };
    assert!(has(1..2, 0), "all lost");
    assert!(has(15..16, 0), "only the length is kept");
    assert!(has(2..10, 0), "only some of the length is kept");
    assert!(has(10..11, 24), "the first sector is kept");
    assert!(has(15..16, 488), "the others are kept, which brings the length along");
    assert!(has(15..16, 512), "all kept");
}

#[test]
fn what_was_synced_is_never_lost() {
    let disk = SimDisk::new();
    let file = put_safe(&disk, "x", &[1; 3000]);
    file.write_at(&[2; 700], 100).expect("written");
    file.write_at(&[3; 700], 5000).expect("written");
    file.sync().expect("synced");
    let before = all(&disk);
    assert_eq!(ends(&disk, all), [before].into());
}

#[test]
fn a_file_that_was_not_named_durably_may_vanish_with_all_its_synced_bytes() {
    let disk = SimDisk::new();
    put(&disk, "x", b"safe").sync().expect("synced");
    let gone = BTreeMap::new();
    let kept = BTreeMap::from([("x".to_owned(), b"safe".to_vec())]);
    assert_eq!(ends(&disk, all), [gone, kept].into());
}

#[test]
fn a_rename_before_the_folder_is_synced_ends_either_way() {
    let disk = SimDisk::new();
    put_safe(&disk, "old", b"old");
    put_safe(&disk, "new", b"new");
    disk.rename("new", "old").expect("renamed");
    let undone = BTreeMap::from([("old", "old"), ("new", "new")]);
    let done = BTreeMap::from([("old", "new")]);
    let ways = [undone, done.clone()].map(owned);
    assert_eq!(ends(&disk, all), ways.into());
    let disk = disk.survives_kill();
    disk.sync_folder().expect("synced");
    assert_eq!(ends(&disk, all), [owned(done)].into());
}

fn owned(files: BTreeMap<&str, &str>) -> BTreeMap<String, Vec<u8>> {
    files.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect()
}

#[test]
fn a_move_that_rests_on_a_lost_one_is_lost() {
    let disk = SimDisk::new();
    put(&disk, "tmp", b"").sync().expect("synced");
    disk.rename("tmp", "x").expect("renamed");
    let seen = ends(&disk, |disk| names(disk).concat());
    assert_eq!(seen, ["", "tmp", "x"].map(str::to_owned).into());
}

#[test]
fn a_lost_rename_costs_no_file_its_name() {
    let disk = SimDisk::new();
    put_safe(&disk, "a", b"old");
    disk.rename("a", "b").expect("renamed");
    put(&disk, "a", b"new").sync().expect("synced");
    let ways = [vec![("a", "old")], vec![("b", "old")], vec![("a", "new"), ("b", "old")]];
    assert_eq!(ends(&disk, all), ways.map(|files| owned(files.into_iter().collect())).into());
}

#[test]
fn a_remove_is_of_one_file_not_of_a_name() {
    let disk = SimDisk::new();
    put_safe(&disk, "a", b"1");
    put_safe(&disk, "b", b"2");
    disk.rename("b", "a").expect("renamed");
    disk.remove("a").expect("removed");
    let ways = [vec![], vec![("a", "2")], vec![("a", "1"), ("b", "2")]];
    assert_eq!(ends(&disk, all), ways.map(|files| owned(files.into_iter().collect())).into());
}

#[test]
fn a_name_used_again_leads_to_the_old_file_the_new_one_or_none() {
    let disk = SimDisk::new();
    put_safe(&disk, "x", b"old");
    disk.remove("x").expect("removed");
    put(&disk, "x", b"new").sync().expect("synced");
    let ways = [vec![], vec![("x", "old")], vec![("x", "new")]];
    assert_eq!(ends(&disk, all), ways.map(|files| owned(files.into_iter().collect())).into());
}

#[test]
fn a_failed_sync_leaves_what_reads_well_and_may_be_lost() {
    let disk = SimDisk::new();
    let file = put_safe(&disk, "x", &[1; 4 * SECTOR]);
    disk.fail_sync_in(2);
    file.sync().expect("the first of two");
    file.write_at(&[2; 2 * SECTOR], 0).expect("written");
    assert_eq!(code(file.sync()), Some(EIO));
    assert_eq!(bytes(&disk, "x")[0], 2);

    // A second sync succeeds: for what was written since, not for what the first has dropped.
    file.write_at(&[3; 2 * SECTOR], SECTOR as u64).expect("written");
    file.sync().expect("once only");
    let ends = ends(&disk, |disk| {
        let bytes = bytes(disk, "x");
        (bytes[0], bytes[SECTOR], bytes[2 * SECTOR], bytes[3 * SECTOR])
    });
    assert_eq!(ends, [(1, 3, 3, 1), (2, 3, 3, 1)].into());
}

#[test]
fn a_failed_sync_of_the_folder_leaves_names_unsynced() {
    let disk = SimDisk::new();
    put_safe(&disk, "x", b"x");
    disk.fail_sync_folder_in(1);
    disk.rename("x", "y").expect("renamed");
    assert_eq!(code(disk.sync_folder()), Some(EIO));
    assert_eq!(
        ends(&disk, |disk| disk.list().expect("listed")),
        [vec!["x".into()], vec!["y".into()]].into()
    );
}

#[test]
fn a_failed_write_does_nothing() {
    let disk = SimDisk::new();
    let file = put(&disk, "x", b"abc");
    disk.fail_write_in(2);
    file.write_at(b"A", 0).expect("the first of two");
    assert_eq!(code(file.write_at(b"BB", 1)), Some(EIO));
    assert_eq!(bytes(&disk, "x"), b"Abc");
    file.write_at(b"B", 1).expect("once only");
}

#[test]
fn a_full_disk_takes_what_does_not_grow() {
    let disk = SimDisk::new();
    assert_eq!(disk.free_bytes().expect("known"), ROOMY);
    disk.capacity(1000);
    let file = put(&disk, "x", &[1; 600]);
    let other = put(&disk, "y", &[1; 300]);
    assert_eq!(disk.free_bytes().expect("known"), 100);
    assert_eq!(code(file.write_at(&[2; 200], 501)), Some(28));
    assert_eq!(bytes(&disk, "x"), [1; 600]);
    file.write_at(&[2; 200], 500).expect("it just fits");
    file.write_at(&[3; 700], 0).expect("nothing grows");
    assert_eq!(code(other.write_at(&[2], 300)), Some(28));
    assert_eq!(disk.crash(0).free_bytes().expect("known"), 1000 - sizes(&disk.crash(0)));
}

fn sizes(disk: &SimDisk) -> u64 {
    all(disk).values().map(|bytes| bytes.len() as u64).sum()
}

#[test]
fn a_removed_file_takes_room_until_its_last_handle_is_closed() {
    let disk = SimDisk::new();
    disk.capacity(1000);
    let file = put_safe(&disk, "x", &[1; 600]);
    disk.remove("x").expect("removed");
    disk.sync_folder().expect("synced");
    assert_eq!(disk.free_bytes().expect("known"), 400);
    assert_eq!(file.size().expect("still open"), 600);
    drop(file);
    assert_eq!(disk.free_bytes().expect("known"), 1000);
    disk.sync_folder().expect("synced");
    assert!(disk.state().nodes.is_empty());
}

/// One of each operation, in the order in which a store would make a file.
fn story(disk: &SimDisk) -> io::Result<()> {
    let file = disk.create("tmp")?;
    file.write_at(&[1; 2 * SECTOR], 0)?;
    file.sync()?;
    disk.rename("tmp", "x")?;
    disk.sync_folder()?;
    file.write_at(&[2; SECTOR], 0)?;
    file.sync()?;
    disk.remove("x")?;
    disk.sync_folder()
}

#[test]
fn the_power_can_be_cut_in_every_operation() {
    let whole = SimDisk::new();
    story(&whole).expect("nothing is in the way");
    assert_eq!(whole.operations(), 9);
    let expected: [&[&str]; 9] = [
        &["", "tmp:"],
        &["", "tmp:", "tmp:0", "tmp:0 0", "tmp:0 1", "tmp:1", "tmp:1 0", "tmp:1 1"],
        &["", "tmp:", "tmp:0", "tmp:0 0", "tmp:0 1", "tmp:1", "tmp:1 0", "tmp:1 1"],
        &["", "tmp:1 1", "x:1 1"],
        &["", "tmp:1 1", "x:1 1"],
        &["x:1 1", "x:2 1"],
        &["x:1 1", "x:2 1"],
        &["", "x:2 1"],
        &["", "x:2 1"],
    ];
    for (n, expected) in (1..).zip(expected) {
        let disk = SimDisk::new();
        disk.cut_power_after(n);
        story(&disk).expect_err("the power is cut");
        assert!(disk.is_off());
        assert_eq!(disk.operations(), n);
        let seen = ends(&disk, describe);
        assert_eq!(seen, expected.iter().map(ToString::to_string).collect(), "cut at {n}");
    }
}

#[test]
fn the_operation_in_which_the_power_is_cut_fails() {
    type Act = fn(&SimDisk, &dyn File) -> io::Result<()>;
    let acts: [Act; 6] = [
        |disk, _| disk.create("y").map(drop),
        |disk, _| disk.rename("x", "y"),
        |disk, _| disk.remove("x"),
        |disk, _| disk.sync_folder(),
        |_, file| file.write_at(b"x", 0),
        |_, file| file.sync(),
    ];
    for (n, act) in acts.into_iter().enumerate() {
        let disk = SimDisk::new();
        let file = put_safe(&disk, "x", b"abc");
        disk.cut_power_after(2);
        file.write_at(b"X", 0).expect("the first of two");
        assert_eq!(kind(act(&disk, file.as_ref())), Some(ErrorKind::Other), "operation {n}");
        assert!(disk.is_off());
    }
}

/// The only file, with the first byte of each sector.
fn describe(disk: &SimDisk) -> String {
    let sectors = |bytes: Vec<u8>| -> Vec<String> {
        bytes.chunks(SECTOR).map(|sector| sector[0].to_string()).collect()
    };
    let file = all(disk).pop_first();
    file.map_or(String::new(), |(name, bytes)| format!("{name}:{}", sectors(bytes).join(" ")))
}

#[test]
fn nothing_works_without_power() {
    for end in [|disk: &SimDisk| drop(disk.crash(0)), |disk: &SimDisk| drop(disk.survives_kill())] {
        let disk = SimDisk::new();
        let file = put_safe(&disk, "x", b"abc");
        let operations = disk.operations();
        assert!(!disk.is_off());
        end(&disk);
        assert!(disk.is_off());
        let answers = [
            file.read_at(&mut [0], 0).map(drop),
            file.read_cached(&mut [0], 0).map(drop),
            file.write_at(b"x", 0),
            file.sync(),
            file.size().map(drop),
            disk.create("y").map(drop),
            disk.open("x").map(drop),
            disk.rename("x", "y"),
            disk.remove("x"),
            disk.list().map(drop),
            disk.sync_folder(),
            disk.free_bytes().map(drop),
            Files::lock(&disk).map(drop),
        ];
        for (n, answer) in answers.into_iter().enumerate() {
            assert_eq!(kind(answer), Some(ErrorKind::Other), "call {n}");
        }
        assert_eq!(disk.operations(), operations);
    }
}

#[test]
fn a_kill_loses_nothing_but_a_later_crash_may() {
    let disk = SimDisk::new();
    let file = put_safe(&disk, "x", &[1; SECTOR]);
    file.write_at(&[2; SECTOR], 0).expect("written");
    put(&disk, "y", b"y");
    disk.remove("x").expect("removed");
    disk.rename("y", "x").expect("renamed");
    let killed = disk.survives_kill();
    assert_eq!(all(&killed), owned(BTreeMap::from([("x", "y")])));
    assert_eq!(ends(&killed, all), ends(&disk, all));
    assert!(ends(&killed, all).len() > 4);

    // What the next process does is not seen in the disk before it.
    let killed = disk.survives_kill();
    killed.open("x").expect("there").write_at(b"z", 0).expect("written");
    assert_eq!(bytes(&disk.survives_kill(), "x"), b"y");
}

#[test]
fn a_sync_after_a_kill_saves_what_the_killed_process_wrote() {
    let disk = SimDisk::new();
    put(&disk, "x", b"abc");
    let killed = disk.survives_kill();
    killed.open("x").expect("there").sync().expect("synced");
    killed.sync_folder().expect("synced");
    let before = all(&killed);
    assert_eq!(ends(&killed, all), [before].into());
}

#[test]
fn a_crash_repeats_from_its_seed_and_leaves_all_safe() {
    let disk = SimDisk::new();
    put(&disk, "x", &[1; 50 * SECTOR]);
    put_safe(&disk, "y", &[1; 50 * SECTOR]).write_at(&[2; 50 * SECTOR], 700).expect("written");
    for seed in 0..SEEDS {
        let once = disk.crash(seed);
        assert_eq!(all(&once), all(&disk.crash(seed)));
        assert_eq!(all(&once), all(&once.crash(seed + 1)));
    }
}

#[test]
fn life_goes_on_after_a_crash() {
    let disk = SimDisk::new();
    put_safe(&disk, "x", b"x");
    let disk = disk.crash(0);
    put_safe(&disk, "y", b"y");
    disk.open("x").expect("there").write_at(b"X", 0).expect("written");
    assert_eq!(all(&disk), owned(BTreeMap::from([("x", "X"), ("y", "y")])));
}

#[test]
fn corruption_is_on_the_disk_and_in_the_cache() {
    let disk = SimDisk::new();
    let file = put_safe(&disk, "x", &[0; 10]);
    disk.fail_sync_in(1);
    file.write_at(&[1; 10], 0).expect("written");
    file.sync().expect_err("it fails");
    file.write_at(&[2; 10], 0).expect("written");
    disk.corrupt("x", 3, 0x80);
    assert_eq!(bytes(&disk, "x")[2..5], [2, 0x82, 2]);
    let ends = ends(&disk, |disk| bytes(disk, "x")[2..5].to_vec());
    assert_eq!(ends, [[0, 0x80, 0].into(), [1, 0x81, 1].into(), [2, 0x82, 2].into()].into());
}

#[test]
fn a_cold_cache_answers_nothing() {
    let disk = SimDisk::new();
    let file = put_safe(&disk, "x", b"abc");
    let mut buf = [0; 8];
    assert_eq!(file.read_cached(&mut buf, 1).expect("read"), Some(2));
    disk.cold(true);
    assert_eq!(file.read_cached(&mut buf, 1).expect("read"), None);
    assert_eq!(file.read_at(&mut buf, 1).expect("read"), 2);
}

#[test]
fn a_lock_is_for_one_and_does_not_outlive_the_power() {
    let disk = SimDisk::new();
    let guard = Files::lock(&disk).expect("free");
    assert_eq!(kind(Files::lock(&disk)), Some(ErrorKind::WouldBlock));
    let next = disk.survives_kill();
    let held = Files::lock(&next).expect("free on the new disk");
    drop(guard);
    assert_eq!(kind(Files::lock(&next)), Some(ErrorKind::WouldBlock));
    drop(held);
    Files::lock(&next).expect("free again");
}

#[test]
fn the_simulated_disk_answers_as_a_real_one_does() {
    let dir = tempfile::tempdir().expect("a temp folder");
    let folder = Folder::open(dir.path()).expect("it is there");
    for seed in seeds().take(20) {
        let disk = SimDisk::new();
        assert_eq!(random_calls(&disk, seed), random_calls(&folder, seed), "{REPEAT}{seed}");
        names(&folder).iter().for_each(|name| folder.remove(name).expect("removed"));
    }
}

/// What comes of calls to a few names, errors and all.
fn random_calls(files: &dyn Files, seed: u64) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let mut open: Vec<Arc<dyn File>> = Vec::new();
    let mut said = Vec::new();
    let mut note = |what: &str, answer: io::Result<String>| {
        said.push(format!("{what}: {:?}", answer.map_err(|cause| cause.kind())));
    };
    for _ in 0..200 {
        let (name, other) = (rng.pick(&["a", "b", "c"]), rng.pick(&["a", "b", "c"]));
        let (offset, size) = (rng.below(3000) as u64, rng.below(2000));
        match rng.below(7) {
            0 => note("create", files.create(name).map(|file| open.push(file)).map(text)),
            1 => note("open", files.open(name).map(|file| open.push(file)).map(text)),
            2 => note("rename", files.rename(name, other).map(text)),
            3 => note("remove", files.remove(name).map(text)),
            4 => note("sync", files.sync_folder().map(text)),
            _ if open.is_empty() => {}
            5 => note("write", rng.pick(&open).write_at(&vec![size as u8; size], offset).map(text)),
            _ => note("read", read(rng.pick(&open).as_ref(), size, offset).map(text)),
        }
        note("list", Ok(text(names(files))));
    }
    said
}

fn read(file: &dyn File, size: usize, offset: u64) -> io::Result<(u64, Vec<u8>)> {
    let mut buf = vec![0; size];
    let got = file.read_at(&mut buf, offset)?;
    buf.truncate(got);
    if let Some(cached) = file.read_cached(&mut vec![0; size], offset)? {
        assert_eq!(cached, got);
    }
    file.sync()?;
    Ok((file.size()?, buf))
}

fn text(value: impl std::fmt::Debug) -> String {
    format!("{value:?}")
}

/// What one sector may hold after a crash.
#[derive(Clone)]
struct Expected {
    values: Vec<Vec<u8>>,
    dirty: bool,
}

/// A plain record of what one file may hold after a crash.
struct Book {
    now: Vec<u8>,
    size_min: usize,
    sectors: Vec<Expected>,
}

const BOOK_SECTORS: usize = 8;

impl Book {
    fn new() -> Book {
        let nothing = Expected { values: vec![vec![0; SECTOR]], dirty: false };
        Book { now: Vec::new(), size_min: 0, sectors: vec![nothing; BOOK_SECTORS] }
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        self.now.resize(self.now.len().max(end), 0);
        self.now[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR..=(end - 1) / SECTOR {
            let value = sector_of(&self.now, sector);
            self.sectors[sector].values.push(value);
            self.sectors[sector].dirty = true;
        }
    }

    fn sync(&mut self, answer: io::Result<()>) {
        for sector in self.sectors.iter_mut().filter(|sector| sector.dirty) {
            sector.dirty = false;
            if answer.is_ok() {
                sector.values.drain(..sector.values.len() - 1);
            }
        }
        if answer.is_ok() {
            self.size_min = self.now.len();
        }
    }

    fn check(&self, left: &[u8], seed: u64) {
        assert!((self.size_min..=self.now.len()).contains(&left.len()), "{REPEAT}{seed}: size");
        for (at, sector) in self.sectors.iter().enumerate() {
            let value = sector_of(left, at);
            assert!(sector.values.contains(&value), "{REPEAT}{seed}: sector {at} was never so");
        }
    }
}

/// A sector with zeros where the file does not reach.
fn sector_of(bytes: &[u8], sector: usize) -> Vec<u8> {
    let mut value: Vec<u8> = bytes.iter().skip(sector * SECTOR).take(SECTOR).copied().collect();
    value.resize(SECTOR, 0);
    value
}

#[test]
fn after_random_writes_and_syncs_each_sector_is_as_it_was_at_some_time() {
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let mut disk = SimDisk::new();
        let mut book = Book::new();
        let mut file = put_safe(&disk, "x", b"");
        for step in 0..rng.below(40) {
            let offset = rng.below(BOOK_SECTORS * SECTOR - 1);
            let size = 1 + rng.below(BOOK_SECTORS * SECTOR - offset);
            match rng.below(8) {
                0 => book.sync(file.sync()),
                1 => disk.fail_sync_in(1),
                2 => {
                    disk = disk.survives_kill();
                    file = disk.open("x").expect("there");
                }
                _ => {
                    let bytes = vec![step as u8 + 1; size];
                    file.write_at(&bytes, offset as u64).expect("written");
                    book.write(&bytes, offset);
                }
            }
            assert_eq!(bytes(&disk, "x"), book.now, "{REPEAT}{seed}");
        }
        (0..4).for_each(|end| book.check(&bytes(&disk.crash(4 * seed + end), "x"), seed));
    }
}

#[test]
fn after_random_moves_no_file_is_lost_doubled_or_where_it_never_was() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new();
        // Where each file has been since the folder was synced, by the byte it holds.
        let mut been: BTreeSet<(String, u8)> = BTreeSet::new();
        let mut touched: BTreeSet<u8> = BTreeSet::new();
        for step in 0..rng.below(30) as u8 {
            let (name, other) = (rng.pick(&NAMES), rng.pick(&NAMES));
            let before = places(&disk);
            match rng.below(5) {
                0 => drop(disk.create(name).map(|file| mark(file.as_ref(), step))),
                1 => drop(disk.remove(name)),
                2 => drop(disk.rename(name, other)),
                3 => {
                    disk.sync_folder().expect("synced");
                    (been, touched) = (BTreeSet::new(), BTreeSet::new());
                }
                _ => {}
            }
            let now = places(&disk);
            touched.extend(before.symmetric_difference(&now).map(|(_, file)| *file));
            been.extend(before.into_iter().chain(now));
        }
        for end in 0..4 {
            let left = places(&disk.crash(4 * seed + end));
            assert!(left.is_subset(&been), "{REPEAT}{seed}: {left:?} of {been:?}");
            let files: BTreeSet<u8> = left.iter().map(|(_, file)| *file).collect();
            assert_eq!(files.len(), left.len(), "{REPEAT}{seed}: a file has two names");
            let untouched = |(_, file): &&(String, u8)| !touched.contains(file);
            let safe: Vec<_> = been.iter().filter(untouched).collect();
            assert!(safe.iter().all(|place| left.contains(place)), "{REPEAT}{seed}: {safe:?} lost");
        }
    }
}

fn mark(file: &dyn File, byte: u8) {
    file.write_at(&[byte], 0).expect("written");
    file.sync().expect("synced");
}

/// Which file is where.
fn places(disk: &SimDisk) -> BTreeSet<(String, u8)> {
    all(disk).into_iter().map(|(name, bytes)| (name, bytes[0])).collect()
}
