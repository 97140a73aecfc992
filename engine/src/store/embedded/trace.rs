//! What simulations see of the inside: what was decided, in order, and who asked for it.
//!
//! In an ordinary build all of this is empty.

#[cfg(any(test, feature = "testkit"))]
pub(crate) use recorded::*;

#[cfg(any(test, feature = "testkit"))]
mod recorded {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use bytes::Bytes;

    use crate::history::Entry;
    use crate::machine::Life;
    pub(crate) use crate::store::embedded::batch::Decided;
    pub(crate) use crate::store::embedded::codec::Cold;
    pub(crate) use crate::store::embedded::state::Peeked;
    use crate::time::Tick;
    use crate::topic::{Pause, Settings, Topic};

    /// One step of the state, and the batch that its records lie in.
    #[derive(Clone, Debug)]
    pub(crate) struct Step {
        pub(crate) batch: u64,
        /// Who asked for it: see [`ask_as`]. Zero is the store itself.
        pub(crate) by: u64,
        pub(crate) what: What,
    }

    /// What became of something.
    #[derive(Clone, Debug)]
    pub(crate) enum What {
        Added { number: u64, life: Life, decided: Decided, cold: Bytes },
        Moved { number: u64, life: Life, hand_out: bool, cold: Option<Bytes>, note: Option<Entry> },
        Gone { number: u64 },
        Emptied { topic: Topic, through: u64 },
        Topic { name: Topic, added: u64, settings: Arc<Settings>, pause: Pause },
        Kv { key: Arc<str>, value: Option<Bytes>, version: u64, end: Option<Tick> },
    }

    thread_local! {
        static ASKING: Cell<u64> = const { Cell::new(0) };
        static COUNTS: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
    }

    /// Whatever this thread asks for from now on is asked for by this caller.
    pub(crate) fn ask_as(caller: u64) {
        ASKING.set(caller);
    }

    /// Who asks for something on this thread.
    pub(crate) fn asking() -> u64 {
        ASKING.get()
    }

    /// Counts that something happened on this thread.
    pub(crate) fn happened(what: &'static str) {
        COUNTS.with_borrow_mut(|counts| *counts.entry(what).or_default() += 1);
    }

    /// What was counted on this thread since this was last asked.
    pub(crate) fn take_counts() -> BTreeMap<&'static str, u64> {
        COUNTS.take()
    }

    /// The steps of one state, if it is watched.
    #[derive(Default)]
    pub(crate) struct Trace {
        steps: Option<Vec<Step>>,
        by: u64,
    }

    impl Trace {
        /// Begins to watch.
        pub(crate) fn watch(&mut self) {
            self.steps = Some(Vec::new());
        }

        /// The steps since this was last asked.
        pub(crate) fn take(&mut self) -> Vec<Step> {
            self.steps.as_mut().map(std::mem::take).unwrap_or_default()
        }

        /// What comes is asked for by this caller.
        pub(crate) fn by(&mut self, caller: u64) {
            self.by = caller;
        }

        pub(crate) fn step(&mut self, batch: u64, what: impl FnOnce() -> What) {
            if let Some(steps) = &mut self.steps {
                steps.push(Step { batch, by: self.by, what: what() });
            }
        }
    }
}

#[cfg(not(any(test, feature = "testkit")))]
pub(crate) use ordinary::*;

#[cfg(not(any(test, feature = "testkit")))]
mod ordinary {
    #[inline]
    pub(crate) fn happened(_what: &'static str) {}
}
