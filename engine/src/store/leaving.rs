//! What has happened, on its way to whoever keeps it: jobs that have ended, and moves.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::error::Result;
use crate::queue::{Moved, Moves};

/// The most that wait to be taken; when nobody takes them the oldest are let go.
const WAITING_MAX: usize = 100_000;

/// What has happened, oldest first, until someone takes it.
pub(crate) struct Leaving<T> {
    waiting: Mutex<Waiting<T>>,
    bell: Notify,
    /// What is said when some are let go.
    complaint: &'static str,
}

struct Waiting<T> {
    line: VecDeque<T>,
    /// How many were let go since some were last taken.
    lost: u64,
}

impl<T> Leaving<T> {
    /// For jobs that have ended.
    pub(crate) fn to_archive() -> Leaving<T> {
        Leaving::new("jobs that have ended are not archived fast enough: the oldest are let go")
    }

    /// For moves that nobody is told of.
    pub(crate) fn to_log() -> Leaving<T> {
        Leaving::new("what happens to jobs is not logged fast enough: the oldest of it is let go")
    }

    fn new(complaint: &'static str) -> Leaving<T> {
        let waiting = Waiting { line: VecDeque::new(), lost: 0 };
        Leaving { waiting: Mutex::new(waiting), bell: Notify::new(), complaint }
    }

    /// One more.
    pub(crate) fn push(&self, one: T) {
        let mut waiting = self.waiting();
        let lost = if waiting.line.len() < WAITING_MAX { None } else { waiting.line.pop_front() };
        waiting.line.push_back(one);
        waiting.lost += u64::from(lost.is_some());
        let is_first = waiting.lost == 1 && lost.is_some();
        drop(waiting);
        if is_first {
            tracing::error!("{}", self.complaint);
        }
        self.bell.notify_one();
    }

    /// Takes up to `max`, waiting for the first.
    pub(crate) async fn take(&self, max: usize) -> Vec<T> {
        self.take_counted(max).await.0
    }

    /// As [`Leaving::take`], and how many were let go before them.
    pub(crate) async fn take_counted(&self, max: usize) -> (Vec<T>, u64) {
        loop {
            let (some, lost) = {
                let mut waiting = self.waiting();
                let count = waiting.line.len().min(max);
                let some: Vec<T> = waiting.line.drain(..count).collect();
                (some, std::mem::take(&mut waiting.lost))
            };
            if !some.is_empty() {
                return (some, lost);
            }
            self.bell.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().expect("nobody panics holding it")
    }
}

/// Moves that wait to be told; of a store that keeps none there never are any.
pub(crate) async fn moves_of(moves: Option<&Leaving<Moved>>, max: usize) -> Result<Moves> {
    let Some(moves) = moves else { return std::future::pending().await };
    let (moves, lost) = moves.take_counted(max).await;
    Ok(Moves { moves, lost })
}
