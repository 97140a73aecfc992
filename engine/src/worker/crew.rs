//! Which handlers serve which topic, and how many jobs they may have at once.

use std::collections::BTreeMap;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Boxed;
use crate::error::{Error, Result};
use crate::queue::{Delivery, POP_MAX, Source};
use crate::topic::Topic;

/// How many jobs of a topic are worked on at once, unless its worker says otherwise.
pub const CONCURRENCY_DEFAULT: usize = 1;
/// How many jobs a runner works on at once over all topics, unless it is told otherwise.
pub(super) const ALL_DEFAULT: usize = 256;

/// Where a crew stands: at one topic, or at all of them.
pub(super) type Post = Option<Topic>;

/// A worker and how it wants to be called.
pub(super) struct Handler {
    pub(super) worker: Box<dyn Boxed>,
    pub(super) keep_alive: bool,
}

impl Handler {
    /// Whether it wants this job together with others. A lease that is kept is kept by itself.
    pub(super) fn gathers(&self, job: &Delivery) -> bool {
        // A panic is no reason to end the runner: the job is worked on by itself.
        let asked = || catch_unwind(AssertUnwindSafe(|| self.worker.gathers(job)));
        !self.keep_alive && asked().unwrap_or(false)
    }
}

/// All handlers of a runner, with the slots that are free and taken.
pub(super) struct Crews {
    slots: usize,
    busy: usize,
    crews: BTreeMap<Post, Crew>,
}

/// The handlers of one topic. Each of its jobs goes to all of them.
#[derive(Default)]
struct Crew {
    handlers: Arc<[Arc<Handler>]>,
    slots: Option<usize>,
    busy: usize,
}

/// What there are free slots for.
pub(super) struct Open {
    pub(super) from: Source,
    pub(super) max: u32,
}

impl Crews {
    pub(super) fn new() -> Crews {
        Crews { slots: ALL_DEFAULT, busy: 0, crews: BTreeMap::new() }
    }

    pub(super) fn join(
        &mut self,
        post: Post,
        handler: Handler,
        slots: Option<usize>,
    ) -> Result<()> {
        // A pop from every topic cannot leave out the one whose crew has no slot left.
        if self.crews.keys().any(|taken| taken.is_none() != post.is_none()) {
            let message =
                "a runner serves named topics or all of them; make a second runner for the other";
            return Err(Error::invalid("topic", message));
        }
        let crew = self.crews.entry(post).or_default();
        crew.handlers = crew.handlers.iter().cloned().chain([Arc::new(handler)]).collect();
        crew.slots = crew.slots.into_iter().chain(slots).min();
        Ok(())
    }

    pub(super) fn set_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    pub(super) fn busy(&self) -> usize {
        self.busy
    }

    /// The topics with a free slot, and how many jobs fit whichever of them they are from.
    pub(super) fn open(&self) -> Option<Open> {
        let open = || self.crews.iter().filter(|(_, crew)| crew.free() > 0);
        let max = open().map(|(_, crew)| crew.free()).min()?.min(self.free()).min(POP_MAX as usize);
        let topics: Option<Vec<Topic>> = open().map(|(post, _)| post.clone()).collect();
        let from = topics.map_or(Source::Any, Source::These);
        (max > 0).then_some(Open { from, max: max as u32 })
    }

    /// Takes a slot for a job of this topic.
    pub(super) fn take(&mut self, topic: &Topic) -> (Post, Arc<[Arc<Handler>]>) {
        let named = Some(topic.clone());
        let post = if self.crews.contains_key(&named) { named } else { None };
        let crew = self.crews.get_mut(&post).expect("only topics with a crew are popped from");
        crew.busy += 1;
        self.busy += 1;
        (post, crew.handlers.clone())
    }

    /// Gives the slot back.
    pub(super) fn give_back(&mut self, post: &Post) {
        self.busy -= 1;
        if let Some(crew) = self.crews.get_mut(post) {
            crew.busy -= 1;
        }
    }

    /// Lets all handlers go; the caller drops them where no lock is held.
    #[must_use]
    pub(super) fn dismiss(&mut self) -> impl Sized + use<> {
        self.busy = 0;
        mem::take(&mut self.crews)
    }

    fn free(&self) -> usize {
        self.slots.saturating_sub(self.busy)
    }
}

impl Crew {
    fn free(&self) -> usize {
        self.slots.unwrap_or(CONCURRENCY_DEFAULT).saturating_sub(self.busy)
    }
}
