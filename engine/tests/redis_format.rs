//! A store on Redis that was written once is read by every later version.
//!
//! `LINGER_WRITE_FIXTURE=1 cargo test -p linger --all-features --test redis_format` writes it anew: only
//! while the format may still change. Afterwards a new format gets a fixture of its own beside this one.

#![cfg(feature = "redis")]

mod redis_servers;
#[allow(dead_code, reason = "it has more to tell than is needed here")]
mod story;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use linger::dice::{Dice, Lease};
use linger::queue::{Ask, Queue, Settle, Verdict};
use linger::store::Options;
use linger::store::redis::{Redis, Repair, Settings, check};
use linger::testkit::SimClock;
use linger::time::{HOUR, MINUTE};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use redis_servers::{Server, Standalone, there};
use story::found::{self, Tied};
use story::{Called, time, topic};

/// What Redis wrote: the jobs, and the functions of the version that wrote them.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/redis-1.rdb")
}

/// The store, by a clock that stands still.
struct Shared {
    redis: Redis,
    clock: Arc<SimClock>,
    server: Standalone,
    runtime: Runtime,
}

impl Called for Shared {
    type Store = Redis;

    fn call<T>(&mut self, call: impl AsyncFnOnce(&Redis) -> T) -> T {
        self.runtime.block_on(call(&self.redis))
    }
}

impl Shared {
    fn open(server: Standalone, clock: &Arc<SimClock>) -> Shared {
        let runtime = Runtime::new().expect("a runtime");
        let options = Options { clock: clock.clone(), dice: Dice::seeded(7), ..Options::default() };
        let address = server.url().parse().expect("an address");
        let opened = Redis::open_on_clock(&address, options, Settings::default());
        let redis = runtime.block_on(opened).expect("the server is there");
        Shared { redis, clock: clock.clone(), server, runtime }
    }
}

/// The fixture in a Redis of its own, opened a while after it was written. None if there is no Redis.
fn opened() -> Option<Shared> {
    if !there() {
        return None;
    }
    if std::env::var_os("LINGER_WRITE_FIXTURE").is_some() {
        static WRITTEN: Once = Once::new();
        WRITTEN.call_once(write);
    }
    let with_dump = |_, folder: &TempDir| {
        fs::copy(fixture(), folder.path().join("dump.rdb")).expect("the fixture is there");
        vec!["--appendonly".to_owned(), "no".to_owned()]
    };
    let server = Standalone { server: Server::start_with(with_dump) };
    let clock = SimClock::new();
    clock.advance(HOUR);
    Some(Shared::open(server, &clock))
}

fn write() {
    let server = Standalone::start(&["--appendonly", "no"]);
    let clock = SimClock::new();
    let mut store = Shared::open(server, &clock);
    // As a server does first, by the clock of Redis: it makes the store, and is gone again.
    let address = store.server.url().parse().expect("an address");
    store.runtime.block_on(async {
        let made = Redis::open(&address, Options::default(), Settings::default()).await;
        made.expect("the server is there").leave().await;
    });
    let leases = story::tell(&mut store, &clock);
    store.server.server.ask(&["SAVE"]);
    let dump = store.server.server.folder.path().join("dump.rdb");
    fs::copy(dump, fixture()).expect("written");
    let lines = leases.iter().map(|(id, lease)| format!("{id} {lease}\n"));
    fs::write(leases_given(), lines.collect::<String>()).expect("written");
}

/// The leases that were given when the fixture was written, by chance: an id and a number a line.
fn leases_given() -> PathBuf {
    fixture().with_extension("leases")
}

#[test]
fn the_fixture_is_small_and_in_order() {
    let Some(store) = opened() else { return };
    let bytes = fs::metadata(fixture()).expect("it is there").len();
    assert!(bytes < 100 << 10, "the fixture has {bytes} bytes");
    let address = store.server.url().parse().expect("an address");
    let checking = check(&address, "linger", Repair::No, |_| {});
    let checked = store.runtime.block_on(checking).expect("it is checked");
    assert!(checked.faults.is_empty(), "{:?}", checked.faults);
    assert_eq!(checked.jobs, 18);
}

#[test]
fn bodies_are_weighed_that_were_written_before_they_were() {
    let Some(mut store) = opened() else { return };
    for name in ["own", "states"] {
        let (counted, bodies) = found::weighed(&mut store, name);
        assert_eq!(counted, bodies, "{name}");
        found::delete_each(&mut store, name);
        assert_eq!(found::bytes(&mut store, name), 0, "{name}");
    }
}

#[test]
fn every_state_is_read() {
    let Some(mut store) = opened() else { return };
    found::states(&mut store, Tied::Held);
}

#[test]
fn history_is_read() {
    let Some(mut store) = opened() else { return };
    found::history(&mut store, Tied::Held);
}

#[test]
fn settings_of_its_own_are_read() {
    let Some(mut store) = opened() else { return };
    found::own(&mut store);
}

#[test]
fn topics_and_keys_are_read() {
    let Some(mut store) = opened() else { return };
    found::topics_and_keys(&mut store, &["limited", "own", "paused", "resting", "states"]);
}

#[test]
fn leases_hold_and_work_goes_on() {
    let Some(mut store) = opened() else { return };
    let leases = fs::read_to_string(leases_given()).expect("they are there");
    assert_eq!(leases.lines().count(), 3);
    for (id, lease) in leases.lines().filter_map(|line| line.split_once(' ')) {
        let settle = Settle {
            lease: Some(Lease::from_u64(lease.parse().expect("a number"))),
            ..Settle::key(story::key("states", id), Verdict::Finish)
        };
        let settled = store.call(async |store| store.settle(vec![settle]).await);
        settled.expect("settled").remove(0).unwrap_or_else(|why| panic!("{id}: {why}"));
    }
    let before: Vec<u64> = found::jobs(&mut store, "states").iter().map(|job| job.number).collect();
    let new = linger::Job::new("states", "new").id("new").check(time(HOUR)).expect("right");
    let added = store.call(async |store| store.add_all(vec![new]).await);
    let number = added.expect("added").remove(0).expect("new").job.number;
    assert!(before.iter().all(|one| *one < number), "numbers go on: {number} after {before:?}");
    let popped = store.call(async |store| store.pop(Ask::one(topic("states"))).await);
    assert_eq!(popped.expect("popped")[0].id().as_str(), "new");
    // What waits is due in its time, by whichever version, and so is what nobody finished.
    store.clock.advance(23 * HOUR + MINUTE);
    let ask = Ask { max: 100, ..Ask::one(topic("states")) };
    let popped = store.call(async |store| store.pop(ask).await).expect("popped");
    let mut ids: Vec<_> = popped.iter().map(|job| job.id().as_str().to_owned()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["delayed", "late", "new", "released", "retry", "unheld", "updated"]);
}
