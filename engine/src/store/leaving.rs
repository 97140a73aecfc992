//! Jobs that have ended, on their way to an archive.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

/// The most that wait to be archived; when nobody takes them the oldest are let go.
const WAITING_MAX: usize = 100_000;

/// What has ended, oldest first, until someone takes it.
pub(crate) struct Leaving<T> {
    waiting: Mutex<VecDeque<T>>,
    bell: Notify,
    /// Whether it was said that some were let go.
    said: AtomicBool,
}

impl<T> Default for Leaving<T> {
    fn default() -> Leaving<T> {
        Leaving { waiting: Mutex::default(), bell: Notify::new(), said: AtomicBool::new(false) }
    }
}

impl<T> Leaving<T> {
    /// One more has ended.
    pub(crate) fn push(&self, one: T) {
        let mut waiting = self.waiting();
        let lost = if waiting.len() < WAITING_MAX { None } else { waiting.pop_front() };
        waiting.push_back(one);
        drop(waiting);
        if lost.is_some() && !self.said.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "jobs that have ended are not archived fast enough: the oldest are let go"
            );
        }
        self.bell.notify_one();
    }

    /// Takes up to `max`, waiting for the first.
    pub(crate) async fn take(&self, max: usize) -> Vec<T> {
        loop {
            let some: Vec<T> = {
                let mut waiting = self.waiting();
                let count = waiting.len().min(max);
                waiting.drain(..count).collect()
            };
            if !some.is_empty() {
                self.said.store(false, Ordering::Relaxed);
                return some;
            }
            self.bell.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.waiting.lock().expect("nobody panics holding it")
    }
}
