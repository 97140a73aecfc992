//! Crashes of the embedded store: is anything acknowledged lost, anything invented?

mod every_operation;
mod house;
mod scenarios;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use linger::testkit::{Happened, Simulation};

const COMMAND: &str = "cargo test --profile simulation -p linger --test simulation";
/// As many as `./test` runs, by `LINGER_TEST_ALL`.
const RUNS: u64 = 10_000;
/// As many as fit into a minute beside the other tests.
const FEW_RUNS: u64 = 300;

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_invented() {
    let (first, runs) = seeds();
    let next = AtomicU64::new(first);
    let happened = Mutex::new(Happened::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _failed = Failed(&next);
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < first + runs
                {
                    let one = Simulation { seed, command: COMMAND }.run();
                    let mut all = happened.lock().expect("nobody panics holding it");
                    for (what, count) in one {
                        *all.entry(what).or_default() += count;
                    }
                }
            });
        }
    });
    let happened = happened.into_inner().expect("nobody panicked holding it");
    if runs >= RUNS {
        assert_eq!(missing(&happened), Vec::<&str>::new(), "never happened, of {happened:#?}");
    }
}

/// Lets the other threads end when one has found something.
struct Failed<'a>(&'a AtomicU64);

impl Drop for Failed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(u64::MAX / 2, Ordering::Relaxed);
        }
    }
}

/// The first seed and how many: only the one of `LINGER_SEED` if that is set.
fn seeds() -> (u64, u64) {
    if let Ok(seed) = std::env::var("LINGER_SEED") {
        return (seed.parse().expect("LINGER_SEED is a number"), 1);
    }
    let is_set = |name| std::env::var_os(name).is_some();
    match (is_set("LINGER_TEST_LONG"), is_set("LINGER_TEST_ALL")) {
        (true, _) => (0, 100 * RUNS),
        (false, true) => (0, RUNS),
        (false, false) => (0, FEW_RUNS),
    }
}

/// What must happen in some run or other, or they are worth little.
fn missing(happened: &Happened) -> Vec<&'static str> {
    let wanted = [
        "added",
        "handed out",
        "hung up",
        "power cut",
        "kill",
        "cut in the midst",
        "crash while opening",
        "failed sync while opening",
        "halted",
        "storage_full",
        "room again",
        "checkpoint published",
        "segment recycled",
        "survivor moved",
        "torn batch cut",
        "looked at all",
        "acknowledged was lost, relaxed",
        "unacknowledged was lost",
        "unacknowledged was kept",
        "owned lease was let go",
        "lease survived",
    ];
    wanted.into_iter().filter(|what| !happened.contains_key(*what)).collect()
}
