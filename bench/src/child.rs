//! A store in a process of its own: its memory and idle CPU are nobody else's, and it can be
//! killed. Told what to do line by line, it answers in lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use linger::machine::Reach;
use linger::queue::{Action, Change, Queue};
use linger::store::Options;
use linger::store::embedded::{Durability, Embedded, Settings};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::work::{Maker, Takes, mix};
use crate::{Result, process};

/// Jobs that are added or deleted at once when it is not the rate that matters.
pub(crate) const MANY: u64 = 1000;
/// The thread that every job has to pass.
const DECIDER: &str = "linger-decider";
/// Callers that do so.
const CALLERS: usize = 4;

/// The other end: what the one who measures holds.
pub(crate) struct Child {
    process: Process,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// What it said when the store was open.
    pub(crate) opened: Value,
}

impl Child {
    pub(crate) fn start(folder: &Path, segment_bytes: u32) -> Result<Child> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("child")
            .arg(folder)
            .arg(segment_bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = process.stdin.take().ok_or("the child has no input")?;
        let from = BufReader::new(process.stdout.take().ok_or("the child has no output")?);
        let mut child = Child { process, to, from, opened: Value::Null };
        child.opened = child.answer()?;
        Ok(child)
    }

    pub(crate) fn ask(&mut self, line: &str) -> Result<Value> {
        writeln!(self.to, "{line}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Err("the child has ended".into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Ends it in good order.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.ask("stop")?;
        self.process.wait()?;
        Ok(())
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // None is left behind if the one who measures gives up.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The child's own part.
pub(crate) fn run(folder: &Path, segment_bytes: u32) -> Result<()> {
    let runtime = Runtime::new()?;
    let maker = Maker::new()?;
    let resident = process::resident_bytes();
    let start = Instant::now();
    let settings =
        Settings { durability: Durability::Relaxed, segment_bytes, ..Settings::default() };
    let store = Arc::new(Embedded::open(folder, Options::default(), settings)?);
    let stats = runtime.block_on(store.stats())?;
    let open_s = start.elapsed().as_secs_f64();
    let grown = || process::resident_bytes().saturating_sub(resident);
    say(&json!({ "open_s": open_s, "waiting": stats.counts.total(), "grown": grown() }))?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        match words[0] {
            "fill" => {
                let (from, count) = (number(1).unwrap_or(0), number(2).unwrap_or(0));
                let before = process::cpu_of(DECIDER);
                fill(&runtime, &store, &maker, from, count);
                let decider_s = (process::cpu_of(DECIDER) - before).as_secs_f64();
                let peak = process::resident_bytes_peak();
                say(&json!({ "grown": grown(), "peak": peak, "decider_s": decider_s }))?;
            }
            "thin" => {
                thin(&runtime, &store, &maker, number(1).unwrap_or(0));
                let stats = runtime.block_on(store.stats())?;
                say(&json!({ "waiting": stats.counts.total(), "grown": grown() }))?;
            }
            "idle" => {
                let (cpu, start) = (process::cpu(), Instant::now());
                std::thread::sleep(Duration::from_millis(number(1).unwrap_or(0)));
                let used = process::cpu() - cpu;
                let share = used.as_secs_f64() / start.elapsed().as_secs_f64();
                say(&json!({ "cpu": share, "grown": grown() }))?;
            }
            _ => break,
        }
    }
    drop(store);
    say(&json!({}))
}

fn say(value: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}

/// Adds the jobs from this number on, many at once.
pub(crate) fn fill(runtime: &Runtime, store: &Arc<Embedded>, maker: &Maker, from: u64, count: u64) {
    let (store, maker) = (store.clone(), maker.clone());
    in_slices(runtime, "adding", count, move |begin, end| {
        let (store, maker) = (store.clone(), maker.clone());
        async move {
            store.take((from + begin..from + end).map(|n| maker.waiting(n)).collect()).await;
        }
    });
}

/// Has so many jobs wait in a store that nobody has open.
pub(crate) fn fill_folder(
    runtime: &Runtime,
    folder: &Path,
    maker: &Maker,
    count: u64,
) -> Result<()> {
    let settings = Settings { durability: Durability::Relaxed, ..Settings::default() };
    let store = Arc::new(Embedded::open(folder, Options::default(), settings)?);
    fill(runtime, &store, maker, 0, count);
    Ok(())
}

/// Deletes nine of ten of the jobs up to this number, here and there.
fn thin(runtime: &Runtime, store: &Arc<Embedded>, maker: &Maker, count: u64) {
    let (store, maker) = (store.clone(), maker.clone());
    in_slices(runtime, "deleting", count, move |begin, end| {
        let (store, maker) = (store.clone(), maker.clone());
        async move {
            let gone =
                (begin..end).filter(|n| !mix(*n).is_multiple_of(10)).map(|n| delete(&maker, n));
            // Some may be gone already.
            store.change(gone.collect()).await.expect("the store deletes");
        }
    });
}

/// The change that deletes job number `n`.
pub(crate) fn delete(maker: &Maker, n: u64) -> Change {
    Change::new(maker.key(n), Action::Delete(Reach::Any))
}

/// Does something for all numbers below `count`, in slices, and shows how far it is.
fn in_slices<F, Done>(runtime: &Runtime, what: &'static str, count: u64, slice: F)
where
    F: Fn(u64, u64) -> Done + Clone + Send + 'static,
    Done: Future<Output = ()> + Send,
{
    let next = Arc::new(AtomicU64::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (slice, next) = (slice.clone(), next.clone());
            runtime.spawn(async move {
                loop {
                    let begin = next.fetch_add(MANY, Ordering::Relaxed);
                    if begin >= count {
                        break;
                    }
                    slice(begin, count.min(begin + MANY)).await;
                    if begin % 1_000_000 == 0 && begin > 0 {
                        eprintln!(
                            "  {what}: {} of {} million",
                            begin / 1_000_000,
                            count / 1_000_000
                        );
                    }
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for caller in callers {
            caller.await.expect("a caller does not panic");
        }
    });
}
