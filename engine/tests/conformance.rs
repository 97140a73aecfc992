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
    let mut tests = suite("memory", || InMemory);
    tests.extend(suite("embedded", OnDisk::new));
    #[cfg(feature = "redis")]
    let server = redis_servers::there().then(|| redis_servers::Standalone::start(&[]));
    #[cfg(feature = "redis")]
    if let Some(server) = &server {
        let shared = Shared { url: server.url(), cases: Arc::default() };
        tests.extend(suite("redis", move || shared.clone()));
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), tests);
    // Ending the process drops nothing.
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

/// Each case in a folder of its own, which goes when the case is over: together they take gigabytes.
#[derive(Clone)]
struct OnDisk {
    root: Arc<TempDir>,
    stores: Arc<AtomicU32>,
}

impl OnDisk {
    fn new() -> OnDisk {
        let root = tempfile::tempdir().expect("a temporary folder can be made");
        OnDisk { root: Arc::new(root), stores: Arc::default() }
    }
}

impl Subject for OnDisk {
    type Store = Embedded;

    async fn open(&self, options: Options) -> Embedded {
        let store = self.stores.fetch_add(1, Ordering::Relaxed).to_string();
        let settings = Settings { segment_bytes: 4 << 20, ..Settings::default() };
        Embedded::open(self.root.path().join(store), options, settings).expect("it is empty")
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
fn suite<S: Subject>(store: &str, subject: impl Fn() -> S + Clone + Send + 'static) -> Vec<Trial> {
    cases::<S>()
        .into_iter()
        .map(|case| {
            let subject = subject.clone();
            Trial::test(format!("{store}::{}", case.name), move || {
                // Outlives the store, which writes into its folder until it is closed.
                let subject = subject();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    tokio::time::timeout(CASE_MAX, case.run(subject.clone()))
                        .await
                        .map_err(|_| "it waits for what never comes".into())
                })
            })
        })
        .collect()
}
