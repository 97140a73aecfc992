//! The same work while the master of a Redis under sentinels changes. What is undone when one dies is
//! counted: its replica has all that was answered, but for hand-outs, which do not wait for it.

use super::fleet::{Run, Servers};
use super::ledger::{STUCK, TWICE};
use super::rounds::{ALL, ALONE, check, seed};
use super::work::Work;
use crate::redis_servers::{SentinelTrio, there};

/// How often the master changes.
const CHANGES: u64 = 2;
/// So much is done before each change, and after the last.
const BETWEEN: u64 = 500;
/// A master without its replica takes no writes.
const REDIS: [&str; 6] =
    ["--appendonly", "yes", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "10"];
/// What is answered its replica has.
const SETTINGS: [&str; 2] = ["--set", "store.wait=1"];
/// What no failover excuses.
const NEVER: [&str; 6] =
    [STUCK, TWICE, "not in order", "invented", "handed out early", "pushed early"];

/// Has work done while the master changes; nothing if there is no Redis.
async fn changed(change: impl Fn(&mut SentinelTrio)) -> Option<std::sync::Arc<Run>> {
    if !there() {
        return None;
    }
    let seed = seed();
    let mut trio = tokio::task::block_in_place(|| SentinelTrio::start_with(&REDIS));
    let run = Run::new();
    let servers = Servers::start(&run, &trio.url(), &[ALL, ALL], &SETTINGS).await;
    let work = Work::start(&run, &servers, seed).await;
    for _ in 0..CHANGES {
        run.until_progress(run.progress() + BETWEEN).await;
        run.upset(|| change(&mut trio));
    }
    run.until_progress(run.progress() + BETWEEN).await;
    work.enough(0);
    work.end(&servers, trio.master_server()).await;
    Some(run)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_in_good_order_undoes_nothing() {
    let _alone = ALONE.lock().await;
    let Some(run) = changed(SentinelTrio::failover_without_loss).await else { return };
    check(&run);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_master_that_is_killed_undoes_is_counted_and_nothing_is_stuck() {
    let _alone = ALONE.lock().await;
    let Some(run) = changed(SentinelTrio::replace_master).await else { return };
    run.note(|ledger| {
        let wrongs = ledger.wrongs();
        let undone: usize = wrongs.iter().map(|(_, count, _)| count).sum();
        let kinds: Vec<_> = wrongs.iter().map(|(what, count, _)| (what, count)).collect();
        eprintln!("{CHANGES} masters killed: {undone} undone {kinds:?}, {:?}", ledger.counts);
        let never: Vec<_> = wrongs.iter().filter(|(what, ..)| NEVER.contains(what)).collect();
        assert!(never.is_empty(), "{never:#?}");
    });
}
