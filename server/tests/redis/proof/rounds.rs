//! The runs.

use std::sync::Arc;

use super::chaos;
use super::fleet::{Rng, Run, Servers};
use super::work::Work;
use crate::redis_servers::{Standalone, there};

pub(super) const ALL: &str = "api,timer,worker";
const SPLIT: [&str; 4] = ["api", "timer", "timer", "worker"];
const COMMAND: &str = "cargo test -p linger-server --test redis proof";

/// What is large with `./test --long`.
struct Size {
    jobs: u64,
    /// How often each blow falls.
    rounds: u64,
}

fn size(jobs: u64, long: u64) -> Size {
    match std::env::var_os("LINGER_TEST_LONG") {
        None => Size { jobs, rounds: 3 },
        Some(_) => Size { jobs: long, rounds: 15 },
    }
}

pub(super) fn seed() -> u64 {
    let given = std::env::var("LINGER_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("seed {seed}; again: LINGER_SEED={seed} {COMMAND}");
    seed
}

/// One at a time: each has as many processes as there are cores, and more.
pub(super) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub(super) fn check(run: &Arc<Run>) {
    run.note(|ledger| {
        eprintln!("{:?}", ledger.counts);
        assert!(ledger.wrongs().is_empty(), "{:#?}", ledger.wrongs());
    });
}

/// Has work done by these servers while all kinds of blows fall.
async fn round(roles: &[&'static str], Size { jobs, rounds }: Size) {
    let _alone = ALONE.lock().await;
    if !there() {
        return;
    }
    let seed = seed();
    let mut redis = Standalone::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let run = Run::new();
    let mut servers = Servers::start(&run, &redis.url(), roles, &[]).await;
    let work = Work::start(&run, &servers, seed).await;
    let mut rng = Rng::new(seed);
    // About when all is added. A blow takes its time while others work on, so that more may be by the last.
    let until = jobs * 3 / 2;
    let struck = chaos::strike(&run, &mut servers, &mut redis, &mut rng, (rounds, until)).await;
    eprintln!("struck: {struck:?}");
    work.enough(jobs);
    work.end(&servers, &redis.server).await;
    check(&run);
    let least = struck.values().min();
    assert!(struck.len() == 4 && least.is_some_and(|least| *least >= rounds), "{struck:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_lose_nothing_while_they_and_redis_are_killed() {
    round(&[ALL; 4], size(5_000, 100_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_with_a_role_each_lose_nothing_while_they_and_redis_are_killed() {
    round(&SPLIT, size(1_500, 20_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_timer_is_killed_that_holds_the_buckets_jobs_go_on_being_delivered() {
    let _alone = ALONE.lock().await;
    if !there() {
        return;
    }
    let redis = Standalone::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let run = Run::new();
    let mut servers = Servers::start(&run, &redis.url(), &SPLIT, &[]).await;
    let work = Work::start(&run, &servers, seed()).await;
    for killed in [1, 2] {
        servers.until_holds(killed).await;
        run.until_progress(run.progress() + 200).await;
        servers.kill(killed);
        servers.until_gone(killed).await;
        let before = run.note(|ledger| ledger.counts.pushed);
        // Only timers make ready what is pushed.
        while run.note(|ledger| ledger.counts.pushed) < before + 20 {
            run.until_progress(run.progress() + 1).await;
        }
        servers.start_one(killed).await;
    }
    work.enough(0);
    work.end(&servers, &redis.server).await;
    check(&run);
}
