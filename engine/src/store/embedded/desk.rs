//! Who decides: the decider's own thread, or whoever has something to be decided and finds nobody
//! at it. What would wake a thread, and be woken by it again, is then done on the spot.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::decider::{Decider, Turn};
use super::handover::Handover;
use super::inbox::Inbox;
use crate::time::{Bell, Clock, Wake};

/// Whoever holds the seat decides. One who finds it taken can leave: the one who has it looks into
/// the inbox once more after leaving it.
pub(crate) struct Desk {
    seat: Mutex<Seat>,
    inbox: Arc<Inbox>,
    handover: Arc<Handover>,
    clock: Arc<dyn Clock>,
    bell: Arc<Bell>,
}

struct Seat {
    decider: Decider,
    turn: fn(&mut Decider) -> Turn,
    /// Until when the decider's thread sleeps, if it does.
    sleeps_until: Wake,
}

/// How soon something is to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// At once.
    Now,
    /// Its answer rests on a sync: if one is under way, the end of that is soon enough.
    WithSync,
}

/// A caller decides for itself while no more than this is in line.
const LINE_MAX: usize = 64;
/// Or for a task that may append so much.
const BYTES_MAX: usize = 32 << 10;
/// So many in line are not left waiting for a sync to end: deciding them goes on beside it.
const GATHERED_MAX: usize = 32;

impl Desk {
    pub(crate) fn new(decider: Decider, turn: fn(&mut Decider) -> Turn) -> Desk {
        Desk {
            inbox: decider.inbox.clone(),
            handover: decider.handover.clone(),
            clock: decider.clock.clone(),
            bell: decider.bell.clone(),
            seat: Mutex::new(Seat { decider, turn, sleeps_until: Wake::default() }),
        }
    }

    /// Decides until the store stops.
    pub(crate) fn run(&self) {
        let _fallen = Fallen(self);
        loop {
            let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = seat.take_turn();
            if let Turn::Rest(wake) = turn {
                seat.sleeps_until = wake;
            }
            drop(seat);
            match turn {
                Turn::Rest(wake) if self.inbox.is_empty() => {
                    self.clock.park(&self.bell, wake);
                    // Whoever is about to call may do so first: the fewer turns, the fewer writes
                    // and changes of thread. Where a core is free this costs nothing.
                    std::thread::yield_now();
                }
                Turn::Rest(_) | Turn::More => {}
                Turn::Over => break,
            }
        }
        self.handover.stop();
    }

    /// Has a task decided that was just put in line and may append so much.
    pub(crate) async fn see_to(&self, log_bytes: usize, haste: Haste) {
        let waits = |len| haste == Haste::WithSync && len < GATHERED_MAX;
        if waits(self.inbox.len()) && self.handover.is_syncing() {
            return;
        }
        if log_bytes > BYTES_MAX {
            return self.bell.ring();
        }
        // Whoever is about to call on this thread may do so first: the fewer turns, the fewer writes.
        let unseen = Unseen(self);
        tokio::task::yield_now().await;
        std::mem::forget(unseen);
        match self.inbox.len() {
            0 => {}
            1..=LINE_MAX => self.decide(),
            _ => self.bell.ring(),
        }
    }

    /// Decides what is in line, unless somebody else is at it.
    pub(crate) fn decide(&self) {
        while !self.inbox.is_empty() {
            let mut seat = match self.seat.try_lock() {
                Ok(seat) => seat,
                Err(TryLockError::WouldBlock) => return,
                // The store has stopped; its thread tells those who wait.
                Err(TryLockError::Poisoned(_)) => return self.bell.ring(),
            };
            let _fallen = Fallen(self);
            let turn = seat.take_turn();
            let wakes = match turn {
                Turn::Rest(wake) => wake.is_before(seat.sleeps_until),
                Turn::More | Turn::Over => true,
            };
            drop(seat);
            if wakes {
                // What it sleeps for has changed, or is more than a caller should do.
                return self.bell.ring();
            }
        }
    }
}

/// A task that its caller was about to see to. Dropped, it is left to the thread.
struct Unseen<'a>(&'a Desk);

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        self.0.bell.ring();
    }
}

impl Seat {
    fn take_turn(&mut self) -> Turn {
        (self.turn)(&mut self.decider)
    }
}

/// Halts the store if whoever decides panics: half of a step must not be seen, and nobody may wait
/// for an answer for ever.
struct Fallen<'a>(&'a Desk);

impl Drop for Fallen<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Desk { handover, inbox, .. } = self.0;
            handover.halt("deciding failed", &std::io::Error::other("a panic, printed above"));
            inbox.stop();
            drop(inbox.take());
            handover.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::super::call::Embedded;
    use super::super::files::Folder;
    use super::super::handover::Given;
    use super::super::open::{Parts, Settings};
    use super::super::progress::Progress;
    use super::super::syncer::{Durability, release};
    use super::*;
    use crate::error::Result;
    use crate::job::{Body, NewJob, When};
    use crate::queue::{Added, Ask, Queue};
    use crate::store::Options;

    /// A store with a desk and no thread that sits at it.
    fn deserted(durability: Durability) -> (Embedded, Arc<Desk>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let files = Arc::new(Folder::open(folder.path()).unwrap());
        let settings = Settings { durability, ..Settings::default() };
        let parts = Parts::open(files, Options::default(), settings, &Progress::default()).unwrap();
        let Parts { shared, decider, mut keeper, guard, .. } = parts;
        keeper.turn();
        let desk = Arc::new(Desk::new(decider, Decider::turn));
        assert!(shared.desk.set(desk.clone()).is_ok());
        let (threads, keeper_bell) = (Mutex::default(), keeper.bell.clone());
        (Embedded { shared, threads, keeper_bell, guard: Some(guard) }, desk, folder)
    }

    /// Asks twice: a caller lets others go first.
    fn once<T>(call: impl Future<Output = T>) -> Poll<T> {
        let (mut call, mut context) = (pin!(call), Context::from_waker(Waker::noop()));
        match call.as_mut().poll(&mut context) {
            Poll::Pending => call.as_mut().poll(&mut context),
            ready => ready,
        }
    }

    fn job(id: &str, delay: Duration) -> Vec<NewJob> {
        let mut job = NewJob::new("t".parse().unwrap(), id.parse().unwrap(), Body::text("x"));
        job.when = Some(When::In(delay));
        vec![job]
    }

    fn is_done(answer: Poll<Result<Vec<Result<Added>>>>) -> bool {
        match answer {
            Poll::Ready(added) => {
                added.unwrap().remove(0).unwrap();
                true
            }
            Poll::Pending => false,
        }
    }

    #[test]
    fn who_finds_nobody_at_the_desk_decides() {
        let (store, _desk, _folder) = deserted(Durability::Relaxed);
        assert!(is_done(once(store.add_all(job("1", Duration::ZERO)))));
        let popped = once(store.pop(Ask::one("t".parse().unwrap())));
        assert!(matches!(popped, Poll::Ready(Ok(jobs)) if jobs.len() == 1));
    }

    #[test]
    fn who_leaves_the_desk_sees_to_those_who_found_it_taken() {
        let (store, desk, _folder) = deserted(Durability::Relaxed);
        let seat = desk.seat.lock().unwrap();
        let mut add = pin!(store.add_all(job("1", Duration::ZERO)));
        assert!(!is_done(once(add.as_mut())), "somebody else is at it");
        drop(seat);
        desk.decide();
        assert!(is_done(once(add)));
    }

    #[test]
    fn the_thread_is_woken_if_it_would_sleep_too_long() {
        let (store, desk, _folder) = deserted(Durability::Relaxed);
        let _ = desk.bell.was_rung();
        assert!(is_done(once(store.add_all(job("1", Duration::from_secs(100))))));
        assert!(desk.bell.was_rung(), "it sleeps for ever");
        let due = desk.seat.lock().unwrap().decider.state.wake();
        desk.seat.lock().unwrap().sleeps_until = due;
        assert!(is_done(once(store.add_all(job("2", Duration::from_secs(200))))));
        assert!(!desk.bell.was_rung(), "it wakes up in time for that");
        assert!(is_done(once(store.add_all(job("3", Duration::from_secs(50))))));
        assert!(desk.bell.was_rung(), "it would sleep through that");
    }

    #[test]
    fn what_needs_a_sync_waits_for_the_end_of_the_one_under_way() {
        let (store, desk, _folder) = deserted(Durability::Sync);
        let decided = |desk: &Desk| desk.inbox.is_empty();
        desk.handover.set_syncing(true);
        let mut add = pin!(store.add_all(job("1", Duration::ZERO)));
        assert!(!is_done(once(add.as_mut())));
        assert!(!decided(&desk), "it goes along with what comes meanwhile");
        let mut pop = pin!(store.pop(Ask::one("nothing".parse().unwrap())));
        let popped = once(pop.as_mut());
        assert!(decided(&desk), "a pop does not wait, and takes along what is in line before it");
        assert!(popped.is_pending(), "and yet it tells nobody of what is not safe");
        let mut adds: Vec<_> = (2..40)
            .map(|id| Box::pin(store.add_all(job(&id.to_string(), Duration::ZERO))))
            .collect();
        assert!(adds[..GATHERED_MAX - 1].iter_mut().all(|add| !is_done(once(add.as_mut()))));
        assert!(!decided(&desk));
        assert!(!is_done(once(adds[GATHERED_MAX - 1].as_mut())));
        assert!(decided(&desk), "so many are decided beside the sync");
    }

    #[test]
    fn a_lease_alone_is_not_worth_a_sync() {
        let (store, desk, _folder) = deserted(Durability::Sync);
        let mut add = pin!(store.add_all(job("1", Duration::ZERO)));
        assert!(!is_done(once(add.as_mut())));
        assert!(desk.handover.is_awaited(), "an add is answered when it is synced");
        let Given::Written(mut written) = desk.handover.next() else { panic!("it is written") };
        desk.handover.set_settled(written.batch.unwrap());
        release(std::mem::take(&mut written.answers));
        assert!(is_done(once(add)));
        let popped = once(store.pop(Ask::one("t".parse().unwrap())));
        assert!(matches!(popped, Poll::Ready(Ok(jobs)) if jobs.len() == 1));
        assert!(!desk.handover.is_awaited(), "a pop has its answer");
        let mut look = pin!(store.stats());
        assert!(once(look.as_mut()).is_pending(), "what is told rests on the lease");
        assert!(desk.handover.is_awaited(), "it goes along with what somebody waits for");
    }

    #[test]
    fn a_caller_who_goes_away_leaves_its_task_to_the_thread() {
        let (store, desk, _folder) = deserted(Durability::Relaxed);
        let _ = desk.bell.was_rung();
        {
            let mut add = pin!(store.add_all(job("1", Duration::ZERO)));
            assert!(add.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(!desk.bell.was_rung(), "it is about to decide itself");
        }
        assert!(desk.bell.was_rung() && !desk.inbox.is_empty());
    }

    #[test]
    fn a_large_task_is_left_to_the_thread() {
        let (store, desk, _folder) = deserted(Durability::Relaxed);
        let _ = desk.bell.was_rung();
        let many = (0..1000).flat_map(|id| job(&id.to_string(), Duration::ZERO)).collect();
        assert!(!is_done(once(store.add_all(many))));
        assert!(desk.bell.was_rung() && !desk.inbox.is_empty());
    }
}
