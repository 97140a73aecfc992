//! What befalls the servers and their Redis in the midst of work: drawn from a seed, at moments of the
//! work and not of the clock.

use std::collections::BTreeMap;

use super::fleet::{Rng, Run, Servers};
use crate::redis_servers::Standalone;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blow {
    /// A server is killed, the others work on, and it is started again.
    Kill,
    /// A server is stopped until its leases are over, and goes on.
    Sleep,
    RedisRestart,
    RedisKill,
}

const BLOWS: [Blow; 4] = [Blow::Kill, Blow::Sleep, Blow::RedisRestart, Blow::RedisKill];
/// So much is done by the others before one that was killed comes back.
const MEANWHILE: u64 = 100;

/// Strikes so often with each blow while work goes on from here to `until`, and answers how often each was.
pub(crate) async fn strike(
    run: &Run,
    servers: &mut Servers,
    redis: &mut Standalone,
    rng: &mut Rng,
    (rounds, until): (u64, u64),
) -> BTreeMap<Blow, u64> {
    let (mut struck, start) = (BTreeMap::new(), run.progress());
    let blows = rounds * BLOWS.len() as u64;
    let gap = (until - start) / (blows + 1);
    for round in 0..rounds {
        let mut left = BLOWS.to_vec();
        while !left.is_empty() {
            let blow = left.swap_remove(rng.below(left.len() as u64) as usize);
            let done = struck.values().sum::<u64>();
            run.until_progress(start + gap * (done + 1)).await;
            let at = rng.below(servers.len() as u64) as usize;
            eprintln!("round {round}, {} done: {blow:?} (server {at})", run.progress());
            one(blow, at, run, servers, redis).await;
            *struck.entry(blow).or_default() += 1;
        }
    }
    struck
}

async fn one(blow: Blow, at: usize, run: &Run, servers: &mut Servers, redis: &mut Standalone) {
    match blow {
        Blow::Kill => {
            servers.kill(at);
            // If it was the only one that answers, nothing is done without it.
            if servers.can_go_on() {
                run.until_progress(run.progress() + MEANWHILE).await;
            }
            servers.start_one(at).await;
        }
        Blow::Sleep => servers.sleep_past_leases(at).await,
        Blow::RedisRestart => run.upset(|| {
            redis.stop();
            redis.start_again();
        }),
        Blow::RedisKill => run.upset(|| {
            redis.server.kill();
            redis.start_again();
        }),
    }
}
