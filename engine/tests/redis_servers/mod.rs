//! Real Redis servers for tests: alone, under sentinels, as a cluster. Each has a folder and a
//! port of its own and ends with the value that stands for it.

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]

mod cluster;
mod plain;
mod sentinel;
mod server;

pub(crate) use cluster::Cluster;
pub(crate) use plain::{Answer, Plain};
pub(crate) use sentinel::SentinelTrio;
pub(crate) use server::{Server, free_port};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long anything may take before a test fails. Far more than it ever does.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether there is a `redis-server`. Without one a test says so and is skipped, but fails in CI.
pub(crate) fn there() -> bool {
    let there = program().is_some();
    if !there {
        let in_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!in_ci, "redis-server is not installed");
        eprintln!("skipped: redis-server is not installed; `./test` gets it");
    }
    there
}

/// The one in PATH, or the one that `./test` gets.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin");
    let folders = std::env::split_paths(&path).chain([tools]);
    folders.map(|folder| folder.join("redis-server")).find(|program| program.is_file())
}

/// Asks again and again until it is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()))
}

/// Asks again and again until there is an answer.
pub(crate) fn wait_for<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(got) = get() {
            return got;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        // Between two questions, so that the one who is asked gets to run.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One server.
pub(crate) struct Standalone {
    pub(crate) server: Server,
}

impl Standalone {
    /// Starts a server with these arguments, and waits until it answers.
    pub(crate) fn start(args: &[&str]) -> Standalone {
        Standalone { server: Server::start(args) }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.server.port)
    }

    /// Ends it in good order; with `--appendonly yes` its data stays.
    pub(crate) fn stop(&mut self) {
        self.server.stop();
    }

    /// Starts it once more, on the same port and folder.
    pub(crate) fn start_again(&mut self) {
        self.server.start_again();
    }

    /// It stays connected and does nothing any more.
    pub(crate) fn pause(&self) {
        self.server.pause();
    }

    pub(crate) fn go_on(&self) {
        self.server.go_on();
    }

    /// How often a command was called so far, by scripts too.
    pub(crate) fn calls_of(&self, command: &str) -> u64 {
        let stats = self.plain().ask(&["INFO", "commandstats"]);
        let calls = stats.text().split(&format!("cmdstat_{command}:calls=")).nth(1);
        let calls = calls.and_then(|rest| rest.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }

    /// A connection beside the one under test.
    pub(crate) fn plain(&self) -> Plain {
        self.server.plain()
    }
}
