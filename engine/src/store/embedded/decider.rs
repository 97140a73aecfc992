//! What owns the state: it takes tasks in order, decides each, and never waits for the disk.

use std::collections::VecDeque;
use std::sync::Arc;

use super::handover::Handover;
use super::inbox::{Inbox, Task};
use super::space::{Room, Space};
use super::state::State;
use crate::time::{Bell, Clock, Now, Wake};

/// The deciding half of the store.
pub(crate) struct Decider {
    pub(crate) state: State,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) handover: Arc<Handover>,
    pub(crate) space: Arc<Space>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bell: Arc<Bell>,
    /// Tasks that wait for room in the log.
    pub(crate) backlog: VecDeque<Task>,
    /// The moment that was last acted at.
    pub(crate) now: Now,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is more to do at once.
    More,
    /// Nothing to do until then, or until the bell.
    Rest(Wake),
    /// The store has stopped.
    Over,
}

impl Decider {
    /// What came in, in order, each after what the clock had brought by then; then what it has
    /// brought by now.
    pub(crate) fn turn(&mut self) -> Turn {
        // Read before the tasks are taken: none that comes later is stamped before this.
        let now = self.clock.now();
        let taken = self.inbox.take();
        self.backlog.extend(taken.tasks);
        if self.handover.halted().is_some() {
            // What is in memory may be ahead of the disk: nobody may see it.
            self.backlog.clear();
            self.state.hang_up_all();
            return if taken.stopping { Turn::Over } else { Turn::Rest(Wake::default()) };
        }
        while let Some(task) = self.next_task() {
            // One that had to wait for room is done when there is room.
            self.now = later(self.now, task.at);
            if self.state.is_behind(self.now) {
                self.state.tick(self.now);
            }
            task.run(&mut self.state, self.now);
            self.state.serve(self.now);
        }
        self.now = later(self.now, now);
        let now = self.now;
        let mut left = self.state.tick(now);
        // Also where nothing but a cancel began one.
        self.state.know_begun();
        self.state.log.end_turn(now.tick);
        if taken.stopping && self.backlog.is_empty() {
            return Turn::Over;
        }
        left |= self.state.wake().reached(now) && !self.state.starved;
        if left { Turn::More } else { Turn::Rest(self.state.wake()) }
    }

    /// The next task, if the log has room for it.
    pub(crate) fn next_task(&mut self) -> Option<Task> {
        let task = self.backlog.front()?;
        let fits = task.log_bytes == 0 || self.state.log.has_room(task.log_bytes);
        if !fits && self.space.room() != Room::None {
            return None;
        }
        self.state.out_of_room = !fits;
        self.backlog.pop_front()
    }
}

/// Time never goes back, though the clock on the wall may.
fn later(one: Now, other: Now) -> Now {
    if other.tick >= one.tick { other } else { one }
}
