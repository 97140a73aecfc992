//! Every store must pass the conformance suite, case by case.

#[cfg(feature = "redis")]
mod redis_servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use linger::store::Options;
use linger::store::embedded::{Embedded, Settings};
use linger::store::memory::Memory;
use linger::testkit::conformance::{Subject, cases};
use tempfile::TempDir;

/// Far more than any case takes: one that hangs is to fail by its name.
const CASE_MAX: Duration = Duration::from_secs(60);

fn main() {
    let root = Arc::new(tempfile::tempdir().expect("a temporary folder can be made"));
    let mut tests = suite("memory", InMemory);
    tests.extend(suite("embedded", OnDisk { root: root.clone(), cases: Arc::default() }));
    #[cfg(feature = "redis")]
    let server = redis_servers::there().then(|| redis_servers::Standalone::start(&[]));
    #[cfg(feature = "redis")]
    if let Some(server) = &server {
        tests.extend(suite("redis", Shared { url: server.url(), cases: Arc::default() }));
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), tests);
    // Ending the process drops nothing.
    let _ = std::fs::remove_dir_all(root.path());
    #[cfg(feature = "redis")]
    drop(server);
    conclusion.exit();
}

#[derive(Clone)]
struct InMemory;

impl Subject for InMemory {
    type Store = Memory;

    async fn open(&self, options: Options) -> Memory {
        Memory::new(options)
    }
}

/// Each case in a folder of its own.
#[derive(Clone)]
struct OnDisk {
    root: Arc<TempDir>,
    cases: Arc<AtomicU32>,
}

impl Subject for OnDisk {
    type Store = Embedded;

    async fn open(&self, options: Options) -> Embedded {
        let case = self.cases.fetch_add(1, Ordering::Relaxed).to_string();
        let settings = Settings { segment_bytes: 4 << 20, ..Settings::default() };
        Embedded::open(self.root.path().join(case), options, settings).expect("it is empty")
    }
}

/// Each case under a prefix of its own.
#[cfg(feature = "redis")]
#[derive(Clone)]
struct Shared {
    url: String,
    cases: Arc<AtomicU32>,
}

#[cfg(feature = "redis")]
impl Subject for Shared {
    type Store = linger::store::redis::Redis;

    async fn open(&self, options: Options) -> Self::Store {
        use linger::store::redis::{Redis, Settings};
        let case = self.cases.fetch_add(1, Ordering::Relaxed);
        // In one bucket, since between buckets jobs that are due at the same time have no order.
        let settings =
            Settings { prefix: format!("case-{case}"), buckets: 1, ..Settings::default() };
        let address = self.url.parse().expect("it is an address");
        Redis::open_on_clock(&address, options, settings).await.expect("the server is there")
    }
}

/// One test for each case, under the store's name.
fn suite<S: Subject>(store: &str, subject: S) -> Vec<Trial> {
    cases::<S>()
        .into_iter()
        .map(|case| {
            let subject = subject.clone();
            Trial::test(format!("{store}::{}", case.name), move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    tokio::time::timeout(CASE_MAX, case.run(subject))
                        .await
                        .map_err(|_| "it waits for what never comes".into())
                })
            })
        })
        .collect()
}
