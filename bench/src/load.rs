//! How callers are driven: each does one thing at a time, all of them at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::runtime::Runtime;

/// When a load is over, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) turns: u64,
    pub(crate) time: Duration,
}

/// What a load came to.
pub(crate) struct Driven {
    pub(crate) turns: u64,
    pub(crate) took: Duration,
    /// How long each turn took, in nanoseconds.
    pub(crate) turn_ns: Histogram<u64>,
}

impl Driven {
    pub(crate) fn per_second(&self, per_turn: u64) -> f64 {
        (self.turns * per_turn) as f64 / self.took.as_secs_f64()
    }

    /// Of a time what each had, in microseconds.
    pub(crate) fn us_of(&self, time: Duration, per_turn: u64) -> f64 {
        time.as_secs_f64() * 1e6 / (self.turns * per_turn) as f64
    }
}

/// Has so many callers take turns, numbered from 0; one that answers false had nothing to do and
/// ends its caller's part.
pub(crate) fn drive<F, Done>(runtime: &Runtime, callers: usize, limit: Limit, turn: F) -> Driven
where
    F: Fn(u64) -> Done + Clone + Send + 'static,
    Done: Future<Output = bool> + Send,
{
    drive_with(runtime, vec![(); callers], limit, move |(), number| {
        let turn = turn(number);
        async move { turn.await.then_some(()) }
    })
}

/// As [`drive`], each caller with something of its own, which it takes from turn to turn.
pub(crate) fn drive_with<C, F, Done>(
    runtime: &Runtime,
    callers: Vec<C>,
    limit: Limit,
    turn: F,
) -> Driven
where
    C: Send + 'static,
    F: Fn(C, u64) -> Done + Clone + Send + 'static,
    Done: Future<Output = Option<C>> + Send,
{
    let next = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let callers: Vec<_> = callers
        .into_iter()
        .map(|mut own| {
            let (turn, next) = (turn.clone(), next.clone());
            runtime.spawn(async move {
                let mut turn_ns = histogram();
                let mut began = Instant::now();
                while began - start < limit.time {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= limit.turns {
                        break;
                    }
                    own = match turn(own, number).await {
                        Some(own) => own,
                        None => break,
                    };
                    let ended = Instant::now();
                    turn_ns.saturating_record((ended - began).as_nanos() as u64);
                    began = ended;
                }
                turn_ns
            })
        })
        .collect();
    let mut turn_ns = histogram();
    runtime.block_on(async {
        for caller in callers {
            turn_ns.add(caller.await.expect("a caller does not panic")).expect("all are alike");
        }
    });
    Driven { turns: turn_ns.len(), took: start.elapsed(), turn_ns }
}

/// Up to a minute, in nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 2).expect("these bounds are right")
}
