//! Random calls against two stores that must answer alike.
//!
//! A seed makes up a story of calls and clock moves; both stores live through it, each on a clock
//! of its own that is moved alike, and every answer and the whole visible state are compared.
//! Numbers, leases and cursors are each store's own affair and are replaced by common names. If
//! the stores differ, the story is cut down to the few steps that it takes.

pub(super) mod chance;
mod op;
mod plan;
mod side;
mod state;
mod watch;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use self::op::{Op, Step, Then};
use self::plan::{Plan, View};
use self::side::{Answer, Pending, Served, Side, Unseen};
use self::state::same;
use self::watch::Watch;
use crate::dice::Dice;
use crate::error::Error;
use crate::queue::{Delivery, JobInfo, Queue, UniqueIds};
use crate::store::Options;
use crate::testkit::SimClock;
use crate::time::Clock;

/// One story, and how to have it told again.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// What it is made from.
    pub seed: u64,
    /// How long it is.
    pub steps: usize,
    /// The command that tells it again, given `LINGER_SEED`.
    pub command: &'static str,
    /// Whether the first store is expected to notice the time by itself.
    pub timer: Timer,
}

/// How a store notices that time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// By itself: those who wait are served without another call.
    Own,
    /// When it is called.
    None,
}

/// What happened in a story, how often: `settle` and `settle: lease_lost`, say.
pub type Happened = BTreeMap<String, u64>;

/// All is looked at after so many steps.
const LOOK_EVERY: usize = 8;
/// How long a store's own timer has to serve those who wait; only a broken one takes that long.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same while a story is cut down: too short a time leaves a step too many.
const LITTLE_PATIENCE: Duration = Duration::from_millis(100);

impl Story {
    /// Lets two stores live through the story; counts what happened, and panics if they differ.
    pub async fn compare<A: Queue, B: Queue>(
        self,
        open_a: impl AsyncFn(Options) -> A,
        open_b: impl AsyncFn(Options) -> B,
    ) -> Happened {
        let mut steps = Vec::new();
        let mut pair = self.open(&open_a, &open_b, PATIENCE).await;
        let told = Told(self);
        let mut plan = Plan::new(self.seed);
        let mut result = Ok(());
        while result.is_ok() && steps.len() < self.steps {
            let step = plan.next(&pair.view);
            steps.push(step.clone());
            result = pair.live_through(&step, steps.len() == self.steps).await;
        }
        if let Err(difference) = result {
            let mut text = self.tell(&steps, &difference);
            let few = self.cut_down(steps, &open_a, &open_b).await;
            for step in few {
                writeln!(text, "{step:?}").expect("a string takes any text");
            }
            drop(told);
            panic!("{text}--- again: {}", self.again());
        }
        pair.happened
    }

    async fn open<A: Queue, B: Queue>(
        self,
        open_a: &impl AsyncFn(Options) -> A,
        open_b: &impl AsyncFn(Options) -> B,
        patience: Duration,
    ) -> Pair<A, B> {
        let (clock_a, clock_b) = (SimClock::new(), SimClock::new());
        let options = |clock: &Arc<SimClock>| Options {
            clock: clock.clone(),
            dice: Dice::seeded(self.seed),
            unique_ids: match self.seed % 4 {
                0 => UniqueIds::Global,
                _ => UniqueIds::PerTopic,
            },
            ..Options::default()
        };
        let a = Side::new(open_a(options(&clock_a)).await, clock_a);
        let b = Side::new(open_b(options(&clock_b)).await, clock_b);
        let now = a.clock.now();
        let view = View { now, jobs: Vec::new(), handed_out: Vec::new(), unseen: Vec::new() };
        let pair = Pair {
            a,
            b,
            view,
            watch: Watch::default(),
            happened: Happened::new(),
            steps: 0,
            patience: (self.timer == Timer::Own).then_some(patience),
        };
        // Each has seen its clock before it is moved.
        let _ = (pair.a.queue.stats().await, pair.b.queue.stats().await);
        pair
    }

    /// Leaves out steps as long as the stores differ without them, though perhaps elsewhere.
    async fn cut_down<A: Queue, B: Queue>(
        self,
        mut steps: Vec<Step>,
        open_a: &impl AsyncFn(Options) -> A,
        open_b: &impl AsyncFn(Options) -> B,
    ) -> Vec<Step> {
        let mut size = steps.len() / 2;
        while size > 0 {
            let mut from = 0;
            while from < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(from..(from + size).min(steps.len()));
                if self.differs(&fewer, open_a, open_b).await {
                    steps = fewer;
                } else {
                    from += size;
                }
            }
            size /= 2;
        }
        steps
    }

    async fn differs<A: Queue, B: Queue>(
        self,
        steps: &[Step],
        open_a: &impl AsyncFn(Options) -> A,
        open_b: &impl AsyncFn(Options) -> B,
    ) -> bool {
        let mut pair = self.open(open_a, open_b, LITTLE_PATIENCE).await;
        for step in steps {
            if pair.live_through(step, true).await.is_err() {
                return true;
            }
        }
        false
    }

    fn tell(self, steps: &[Step], difference: &Difference) -> String {
        let Difference { what, a, b } = difference;
        let (seed, step) = (self.seed, steps.len());
        let op = steps.last().map(|step| &step.op);
        format!(
            "seed {seed}, step {step}: {what}\n--- one:\n{a}\n--- other:\n{b}\n--- after {op:?}\n\
             --- the fewest steps after which they differ somehow:\n"
        )
    }

    fn again(self) -> String {
        format!("LINGER_SEED={} {}", self.seed, self.command)
    }
}

/// Says how to tell a story again in which a store panicked.
struct Told(Story);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("a store panicked; again: {}", self.0.again());
        }
    }
}

/// In what two stores differ.
#[derive(Debug)]
struct Difference {
    what: String,
    a: String,
    b: String,
}

impl From<Error> for Difference {
    fn from(error: Error) -> Difference {
        let a = format!("{error:?}");
        Difference { what: "a store that cannot be looked at".into(), a, b: String::new() }
    }
}

/// Two stores and what is known of them.
struct Pair<A, B> {
    a: Side<A>,
    b: Side<B>,
    view: View,
    watch: Watch,
    happened: Happened,
    steps: usize,
    /// How long the first store has to serve those who wait by itself, if it is expected to.
    patience: Option<Duration>,
}

impl<A: Queue, B: Queue> Pair<A, B> {
    async fn live_through(&mut self, step: &Step, look_at_all: bool) -> Result<(), Difference> {
        self.steps += 1;
        let op = &step.op;
        let (one, other) = (self.a.apply(op).await, self.b.apply(op).await);
        self.view.now = self.a.clock.now();
        self.watch.look_at(&*self.a.clock);
        same("the answer", &one, &other)?;
        self.answered(op, &one)?;
        if self.a.walk.is_none() || self.b.walk.is_none() {
            // Whether the last page says that it is the last is each store's own affair.
            (self.a.walk, self.b.walk) = (None, None);
        }
        self.look(look_at_all || self.steps.is_multiple_of(LOOK_EVERY)).await?;
        match step.then {
            Then::Poll => self.poll()?,
            Then::Leave => {
                self.a.pops.iter_mut().chain(&mut self.b.pops).for_each(|pop| pop.fresh = false);
            }
        }
        let told = |(_, pop): &(usize, &Pending)| pop.unseen() == Unseen::Something;
        let unseen = self.a.pops.iter().enumerate().filter(told).map(|(place, _)| place);
        self.view.unseen = unseen.collect();
        Ok(())
    }

    /// Compares what can be seen from outside. Both stores have noticed the time after this.
    async fn look(&mut self, at_all: bool) -> Result<(), Difference> {
        let counters = self.b.counters().await?;
        self.wait_for_timer().await?;
        self.a.counters().await?.compare(&counters)?;
        if at_all {
            let (one, other) = (self.a.state(&counters).await?, self.b.state(&counters).await?);
            one.compare(&other)?;
            self.watch.all_jobs(&one.jobs)?;
            self.count_histories(&one.jobs);
        }
        self.view.jobs = self.a.jobs(&counters).await?;
        Ok(())
    }

    /// Those who were served by the second store must be served by the first without a call.
    async fn wait_for_timer(&self) -> Result<(), Difference> {
        let Some(patience) = self.patience else { return Ok(()) };
        for (place, (one, other)) in self.a.pops.iter().zip(&self.b.pops).enumerate() {
            if other.unseen() == Unseen::Something {
                let what = format!("what pop {place} of those that wait was told by itself");
                same(&what, &one.told(patience).await, &Unseen::Something)?;
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), Difference> {
        let (one, other) = (self.a.poll(), self.b.poll());
        same("the waiting pops that were served", &one, &other)?;
        for Served { unseen, fresh, answer, .. } in one {
            if unseen == Unseen::Nothing {
                let a = format!("{answer:#?}");
                let what = "a waiting pop was answered and nobody woken".into();
                return Err(Difference { what, a, b: String::new() });
            }
            self.note_answer("waited", &answer);
            if let (Answer::Popped(Ok(popped)), true) = (&answer, fresh) {
                self.watch.popped(popped, self.view.now)?;
            }
        }
        Ok(())
    }

    fn answered(&mut self, op: &Op, answer: &Answer) -> Result<(), Difference> {
        self.note_answer(op.kind(), answer);
        self.watch.answered(op, answer, self.view.now)
    }

    /// Counts what the histories tell.
    fn count_histories(&mut self, jobs: &[JobInfo]) {
        for entry in jobs.iter().flat_map(|job| &job.history) {
            self.count(format!("history: {:?}", entry.what));
        }
    }

    /// Keeps what was handed out in mind, and counts what happened.
    fn note_answer(&mut self, kind: &str, answer: &Answer) {
        let handed_out: &[Delivery] = match answer {
            Answer::Popped(Ok(popped)) => popped,
            Answer::Reserved(Ok(delivery)) => std::slice::from_ref(delivery),
            _ => &[],
        };
        let names = handed_out.iter().map(|one| (one.topic().clone(), one.id().clone()));
        self.view.handed_out.extend(names);
        self.count(kind.into());
        if *answer == Answer::HungUp(Unseen::Something) {
            self.count("hang_up: recalled".into());
        }
        for code in answer.refusals() {
            self.count(format!("{kind}: {code}"));
        }
        if !handed_out.is_empty() {
            self.count(format!("{kind}: handed out"));
        }
    }

    fn count(&mut self, what: String) {
        *self.happened.entry(what).or_default() += 1;
    }
}
