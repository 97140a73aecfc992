//! From the callers to the decider: tasks in the order they came, in two bounded lanes, so that an
//! overload of adds never keeps anyone from finishing.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Semaphore;

use super::state::State;
use crate::error::{Code, Error, Result};
use crate::time::{Bell, Clock, Now, Tick};

/// Something for the decider to do.
pub(crate) struct Task {
    /// The most it may append to the log.
    pub(crate) log_bytes: usize,
    /// When it was put in line: what it does, it does at this moment.
    pub(crate) at: Now,
    act: Act,
}

type Act = Box<dyn FnOnce(&mut State, Now) + Send>;

impl Task {
    pub(crate) fn new(
        log_bytes: usize,
        act: impl FnOnce(&mut State, Now) + Send + 'static,
    ) -> Task {
        let at = Now { wall_us: 0, tick: Tick::default() };
        #[cfg(any(test, feature = "testkit"))]
        let act = {
            let caller = super::trace::asking();
            move |state: &mut State, now: Now| {
                state.trace.by(caller);
                act(state, now);
                state.trace.by(0);
            }
        };
        Task { log_bytes, at, act: Box::new(act) }
    }

    pub(crate) fn run(self, state: &mut State, now: Now) {
        (self.act)(state, now);
    }
}

/// The most bytes of new jobs that wait for the decider.
const ADD_BYTES_MAX: usize = 16 << 20;
/// The most other calls that wait for the decider.
const CALLS_MAX: usize = 1 << 16;

/// Which bound a task counts for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lane {
    /// New jobs, of so many bytes.
    Adds { bytes: usize },
    /// Everything else.
    Calls,
    /// What must get through: hang-ups, and the store's own work.
    Own,
}

/// What waits for the decider.
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    bell: Arc<Bell>,
    clock: Arc<dyn Clock>,
    adds: Semaphore,
    calls: Semaphore,
}

#[derive(Default)]
struct Queue {
    tasks: Vec<Task>,
    add_bytes: usize,
    calls: usize,
    stopping: bool,
}

/// What the decider takes.
pub(crate) struct Taken {
    pub(crate) tasks: Vec<Task>,
    pub(crate) stopping: bool,
}

impl Inbox {
    pub(crate) fn new(bell: Arc<Bell>, clock: Arc<dyn Clock>) -> Inbox {
        Inbox {
            queue: Mutex::default(),
            bell,
            clock,
            adds: Semaphore::new(ADD_BYTES_MAX),
            calls: Semaphore::new(CALLS_MAX),
        }
    }

    /// Puts a task at the end of the line, as soon as its lane has room. Somebody has to see to it.
    pub(crate) async fn submit(&self, lane: Lane, task: Task) -> Result<()> {
        let (semaphore, cost) = match lane {
            Lane::Adds { bytes } => (&self.adds, bytes.clamp(1, ADD_BYTES_MAX)),
            Lane::Calls => (&self.calls, 1),
            Lane::Own => return self.put(lane, task),
        };
        let permit = semaphore.acquire_many(cost as u32).await.map_err(|_| stopping())?;
        permit.forget();
        self.put(lane, task)
    }

    /// Puts a task at the end of the line, whatever its lane holds, for the decider's thread.
    pub(crate) fn push(&self, lane: Lane, task: Task) -> Result<()> {
        self.put(lane, task)?;
        self.bell.ring();
        Ok(())
    }

    fn put(&self, lane: Lane, mut task: Task) -> Result<()> {
        let mut queue = self.lock();
        // In line and in time are one order.
        task.at = self.clock.now();
        if queue.stopping {
            return Err(stopping());
        }
        match lane {
            Lane::Adds { bytes } => queue.add_bytes += bytes.clamp(1, ADD_BYTES_MAX),
            Lane::Calls => queue.calls += 1,
            Lane::Own => {}
        }
        queue.tasks.push(task);
        Ok(())
    }

    /// How many are in line.
    pub(crate) fn len(&self) -> usize {
        self.lock().tasks.len()
    }

    /// Whether nothing is in line.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Everything that waits, in order.
    pub(crate) fn take(&self) -> Taken {
        let mut queue = self.lock();
        let taken = Taken { tasks: std::mem::take(&mut queue.tasks), stopping: queue.stopping };
        let (bytes, calls) = (queue.add_bytes, queue.calls);
        (queue.add_bytes, queue.calls) = (0, 0);
        drop(queue);
        self.adds.add_permits(bytes);
        self.calls.add_permits(calls);
        taken
    }

    /// Takes nothing more; what is in line is still done.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.adds.close();
        self.calls.close();
        self.bell.ring();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nobody panics holding the inbox")
    }
}

fn stopping() -> Error {
    Error::new(Code::Unavailable, "the store is stopping")
}
