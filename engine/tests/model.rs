//! Random stories that two stores must live through alike.

#[cfg(feature = "redis")]
mod redis_servers;

use std::ops::Range;
use std::sync::Arc;

use linger::store::embedded::{Embedded, Settings};
use linger::store::memory::Memory;
use linger::testkit::{Happened, Naive, SimDisk, Story, Timer};

const COMMAND: &str = "cargo test -p linger --test model";
const STEPS: usize = 80;
const STORIES: u64 = 300;
/// Each call of the embedded store goes through three threads.
const EMBEDDED_STORIES: u64 = 60;

#[tokio::test]
async fn memory_and_the_naive_queue_agree() {
    let mut happened = Happened::new();
    for seed in seeds(STORIES) {
        let story = Story { seed, steps: STEPS, command: COMMAND, timer: Timer::Own };
        let story = story.compare(async |o| Memory::new(o), async |o| Naive::new(o)).await;
        for (what, count) in story {
            *happened.entry(what).or_default() += count;
        }
    }
    if seeds(STORIES).count() > 1 {
        assert_eq!(missing(&happened), Vec::<&str>::new(), "never happened, of {happened:#?}");
    }
}

#[tokio::test]
async fn the_embedded_store_and_the_naive_queue_agree() {
    let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
    let open = async |options| {
        let disk = Arc::new(SimDisk::new());
        Embedded::open_files(disk, options, settings).expect("an empty disk is a new store")
    };
    for seed in seeds(EMBEDDED_STORIES) {
        let story = Story { seed, steps: STEPS, command: COMMAND, timer: Timer::Own };
        story.compare(open, async |o| Naive::new(o)).await;
    }
}

/// Each call takes several calls to the server.
#[cfg(feature = "redis")]
const REDIS_STORIES: u64 = 15;

#[cfg(feature = "redis")]
#[tokio::test]
async fn the_shared_store_and_the_naive_queue_agree() {
    use linger::store::redis::{Redis, Settings};
    if !redis_servers::there() {
        return;
    }
    let server = redis_servers::Standalone::start(&[]);
    let address = server.url().parse().unwrap();
    let stores = std::sync::atomic::AtomicU64::new(0);
    let open = async |options| {
        let store = stores.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // In one bucket, since between buckets jobs that are due at the same time have no order.
        let settings =
            Settings { prefix: format!("story-{store}"), buckets: 1, ..Settings::default() };
        Redis::open_on_clock(&address, options, settings).await.expect("the server is there")
    };
    for seed in seeds(REDIS_STORIES) {
        let story = Story { seed, steps: STEPS, command: COMMAND, timer: Timer::Own };
        story.compare(open, async |o| Naive::new(o)).await;
    }
}

/// The stories to tell: only the one of `LINGER_SEED` if that is set.
fn seeds(stories: u64) -> Range<u64> {
    if let Ok(seed) = std::env::var("LINGER_SEED") {
        let seed = seed.parse().expect("LINGER_SEED is a number");
        return seed..seed + 1;
    }
    0..if std::env::var_os("LINGER_TEST_LONG").is_some() { 10 * stories } else { stories }
}

/// What must happen in some story or other, or the comparison is worth little.
fn missing(happened: &Happened) -> Vec<&'static str> {
    let wanted = [
        "add: already_exists",
        "add: invalid",
        "browse: invalid",
        "change: invalid",
        "change: not_found",
        "change: version_mismatch",
        "change: wrong_state",
        "configure: not_found",
        "dead_by_error",
        "find",
        "forecast",
        "get: not_found",
        "hang_up: recalled",
        "history: Again",
        "history: Died",
        "history: Failed",
        "history: Finished",
        "history: Held",
        "history: Lost",
        "history: Redriven",
        "history: Released",
        "history: Run",
        "history: TimedOut",
        "history: Unheld",
        "history: Updated",
        "jump",
        "kv_read",
        "kv_write: already_exists",
        "kv_write: not_found",
        "kv_write: version_mismatch",
        "let_go",
        "pop: handed out",
        "pop: invalid",
        "reserve: handed out",
        "reserve: wrong_state",
        "set_defaults",
        "settle: lease_lost",
        "settle: not_found",
        "settle: wrong_state",
        "sweep",
        "topics",
        "waited: handed out",
    ];
    wanted.into_iter().filter(|what| !happened.contains_key(*what)).collect()
}
