//! A process that works on a store is killed at any moment, again and again: whatever it was
//! answered is there when the folder is opened next.

mod judge;
mod words;
mod writer;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use linger::dice::Lease;
use linger::machine::Owner;
use linger::queue::{
    Ask, Bodies, Expect, Key, KvQuery, KvWrite, LetGo, PAGE_MAX, POP_MAX, Query, Queue, Settle,
    Terms, Verdict,
};
use linger::store::Options;
use linger::store::embedded::{Durability, Embedded, Settings, check};

use judge::{Found, Judge};
use words::{Chance, Line, Name, SHARED, TASKS, own_topic};

const COMMAND: &str = "cargo test -p linger --test kill";
/// For each durability.
const ROUNDS: u64 = 40;
const ROUNDS_LONG: u64 = 500;
/// Far more than any answer takes: a writer that hangs is to fail.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Who pops on the judge's behalf.
const JUDGE: Owner = Owner(7_777);
/// The judge's own key.
const MINE: &str = "judge";

fn main() {
    if let Ok(folder) = std::env::var("LINGER_KILL_FOLDER") {
        let durability = std::env::var("LINGER_KILL_DURABILITY").expect("the judge sets it");
        let durability = if durability == "sync" { Durability::Sync } else { Durability::Relaxed };
        writer::run(|| open(Path::new(&folder), durability), seed().expect("the judge sets it"));
    }
    let tests = [("sync", Durability::Sync), ("relaxed", Durability::Relaxed)];
    let tests = tests.map(|(name, durability)| {
        let name = format!("what_was_answered_survives_a_kill::{name}");
        Trial::test(name, move || {
            rounds(durability);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), tests.into()).exit();
}

fn seed() -> Option<u64> {
    std::env::var("LINGER_SEED").ok().map(|seed| seed.parse().expect("LINGER_SEED is a number"))
}

fn open(folder: &Path, durability: Durability) -> Embedded {
    let settings = Settings { durability, segment_bytes: 1 << 20, checkpoint_records: 1_000 };
    Embedded::open(folder, Options::default(), settings).expect("the folder can be opened")
}

fn rounds(durability: Durability) {
    let long = std::env::var_os("LINGER_TEST_LONG").is_some();
    let seed = seed().unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}; again: LINGER_SEED={seed} {COMMAND}");
    let temp = tempfile::tempdir().expect("a temporary folder");
    // Each kind of store has its own story.
    let seed = seed << 1 | u64::from(durability == Durability::Sync);
    let mut chance = Chance::new(seed);
    let (mut judge, mut house) = (Judge::default(), House::default());
    let rounds = if long { ROUNDS_LONG } else { ROUNDS };
    // When the house is cleared depends on the machine's pace: there are more until that was seen.
    for round in 0..3 * rounds {
        if round >= rounds && house.is_cleared() {
            break;
        }
        let lines = match chance.below(10) {
            0 => 1,
            1 => 2,
            2 => 3 + chance.below(50),
            _ => chance.below(6_000),
        };
        let mut writer = Writer::start(temp.path(), durability, seed << 16 | round, &judge);
        writer.hear(&mut judge, lines);
        house.look(temp.path());
        if house.is_begun() {
            let report = check(temp.path()).expect("nobody has it open");
            assert!(report.is_in_order(), "{report}");
        }
        // Now and then the next one finds what two have left.
        if chance.below(4) > 0 {
            inspect(temp.path(), durability, &mut judge, &mut chance);
        }
    }
    println!("{} answers; {house:?}", judge.answered);
    house.check();
}

/// A process that is to be killed.
struct Writer {
    child: Child,
    lines: Receiver<String>,
}

impl Writer {
    fn start(folder: &Path, durability: Durability, seed: u64, judge: &Judge) -> Writer {
        let mut child = Command::new(std::env::current_exe().expect("this test has a file"))
            .env("LINGER_KILL_FOLDER", folder)
            .env("LINGER_KILL_DURABILITY", format!("{durability:?}").to_lowercase())
            .env("LINGER_SEED", seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be run again");
        let told = serde_json::to_vec(&judge.tell()).expect("words are plain");
        child.stdin.take().expect("piped").write_all(&told).expect("it listens");
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("piped"));
        // Ends with the child.
        std::thread::spawn(move || {
            for line in out.split(b'\n') {
                let line = String::from_utf8(line.expect("the pipe can be read")).expect("text");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Writer { child, lines }
    }

    /// Hears so many lines, kills it, and hears what it had said by then.
    fn hear(&mut self, judge: &mut Judge, lines: u64) {
        for _ in 0..lines {
            match self.lines.recv_timeout(SILENCE_MAX) {
                Ok(line) => judge.hear(serde_json::from_str(&line).expect("a whole line")),
                Err(RecvTimeoutError::Timeout) => panic!("the writer hangs"),
                Err(RecvTimeoutError::Disconnected) => panic!("the writer ended by itself"),
            }
        }
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is dead");
        while let Ok(line) = self.lines.recv() {
            // The last may have been cut short.
            if let Ok(line) = serde_json::from_str::<Line>(&line) {
                judge.hear(line);
            }
        }
        judge.killed();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Dead already, unless the test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens what a kill has left, compares it with what was answered, and tries the leases.
fn inspect(folder: &Path, durability: Durability, judge: &mut Judge, chance: &mut Chance) {
    let store = open(folder, durability);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        // A write waits for room in the log: from then on the leases of the dead are let go.
        store.kv_write(write_of_mine()).await.expect("written");
        judge.check(jobs(&store).await, keys(&store).await);
        only_ready_ones_are_handed_out(&store).await;
        let held = judge.held();
        for (name, number, lease) in &held {
            let verdict = match chance.below(4) {
                0 => Verdict::Finish,
                1 => Verdict::Touch { ttr: None },
                _ => continue,
            };
            let lease = Some(Lease::from_u64(*lease));
            let settle = Settle { lease, ..Settle::key(Key::Number(*number), verdict) };
            let settled = store.settle(vec![settle]).await.expect("settled").remove(0);
            settled.unwrap_or_else(|refused| panic!("the lease of {name:?} is gone: {refused}"));
        }
        // Whoever was handed these was killed before it could say so.
        for (name, job) in jobs(&store).await {
            let known = held.iter().any(|(_, number, _)| *number == job.seen.number);
            if job.seen.stage == "reserved" && !known {
                let settle = Settle::key(Key::Number(job.seen.number), Verdict::Finish);
                let settled = store.settle(vec![settle]).await.expect("settled").remove(0);
                settled.unwrap_or_else(|refused| panic!("{name:?}: {refused}"));
            }
        }
        judge.take_over(jobs(&store).await);
    });
}

fn write_of_mine() -> KvWrite {
    KvWrite { key: MINE.into(), value: Some("x".into()), expect: Expect::Any, ttl: None }
}

fn topics() -> Vec<String> {
    (0..TASKS).map(own_topic).chain([SHARED.to_owned()]).collect()
}

/// Every job there is, read in full.
async fn jobs(store: &Embedded) -> BTreeMap<Name, Found> {
    let mut jobs = BTreeMap::new();
    for topic in topics() {
        let name = topic.parse().expect("a topic");
        let mut query = Query { bodies: Bodies::With, limit: PAGE_MAX, ..Query::all(name) };
        loop {
            let page = store.browse(query.clone()).await.expect("browsed");
            for job in page.jobs {
                store.get(&Key::Number(job.number)).await.expect("its history can be read");
                let seen = writer::seen_of(&job);
                let body = job.body.expect("asked for").as_bytes().to_vec();
                let name = Name { topic: topic.clone(), id: job.spec.id.as_str().into() };
                assert!(jobs.insert(name, Found { seen, body }).is_none(), "{:?}", job.spec);
            }
            query.cursor = page.cursor;
            if query.cursor.is_none() {
                break;
            }
        }
    }
    let total = store.stats().await.expect("counted").counts.total();
    assert_eq!(total, jobs.len() as u64, "counts and lists agree");
    jobs
}

async fn keys(store: &Embedded) -> BTreeMap<String, (u64, Vec<u8>)> {
    let query = KvQuery::Prefix { prefix: "".into(), after: None, limit: PAGE_MAX };
    let found = store.kv_read(query).await.expect("read");
    let theirs = found.into_iter().filter(|one| *one.key != *MINE);
    theirs.map(|one| (one.key.to_string(), (one.version, one.value.to_vec()))).collect()
}

/// Pops all there is: each ready job once, and none that somebody holds.
async fn only_ready_ones_are_handed_out(store: &Embedded) {
    let jobs = jobs(store).await;
    let mut ready: Vec<u64> =
        jobs.values().filter(|job| job.seen.stage == "ready").map(|job| job.seen.number).collect();
    let mut popped = Vec::new();
    for topic in topics() {
        let terms = Terms { ttr: None, owner: Some(JUDGE), grace: None };
        let ask = Ask { max: POP_MAX, terms, ..Ask::one(topic.parse().expect("a topic")) };
        loop {
            let some = store.pop(ask.clone()).await.expect("popped");
            if some.is_empty() {
                break;
            }
            popped.extend(some.iter().map(|one| one.job.number));
        }
    }
    popped.sort_unstable();
    ready.sort_unstable();
    assert_eq!(popped, ready, "all that is ready, and nothing else, is handed out");
    let let_go = store.let_go(JUDGE, LetGo::Released).await.expect("let go");
    assert_eq!(let_go, popped.len() as u64);
}

/// What the store's own housekeeping has done over all rounds.
#[derive(Debug, Default)]
struct House {
    segments: u64,
    checkpoints: u64,
    /// Looks that found a segment of survivors.
    survivors: u64,
}

impl House {
    fn look(&mut self, folder: &Path) {
        let files: Vec<PathBuf> = std::fs::read_dir(folder)
            .expect("there")
            .map(|entry| entry.expect("listed").path())
            .collect();
        for file in files {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            let number =
                name.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
            if name.starts_with("segment-") {
                self.segments = self.segments.max(number);
                // Its kind is told by the thirteenth byte.
                self.survivors += u64::from(std::fs::read(&file).expect("there")[12]);
            } else if name.starts_with("checkpoint-") {
                self.checkpoints = self.checkpoints.max(number);
            }
        }
    }

    fn is_begun(&self) -> bool {
        self.segments > 0
    }

    fn is_cleared(&self) -> bool {
        self.survivors > 0
    }

    /// Or the kills are worth little.
    fn check(&self) {
        assert!(self.segments > 20, "segments were filled: {self:?}");
        assert!(self.checkpoints > 5, "checkpoints were made: {self:?}");
        assert!(self.is_cleared(), "sparse segments were cleared: {self:?}");
    }
}
