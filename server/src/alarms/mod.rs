//! Alarms: looks every few seconds whether all is well, and has it told once when something is not,
//! and once when it is over.
//!
//! An incident is told by a job of its own, of the topic `linger.alarms`: so that what is known about
//! delivering, trying again, signing and looking back holds for it too.

mod book;
mod facts;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use linger::error::{Error, Result};
use linger::queue::Queue;
use linger::time::{Now, Time};
use linger::worker::Runner;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::ALARMS_TOPIC as TOPIC;
pub(crate) use book::Subject;

use crate::config::{self, Kind, Rule};
use crate::registry::Registry;
use crate::store::Store;
use book::{Book, Incident, Kept};
use facts::Facts;
use watch::{Patience, Shelf, Step, Watch};

/// The most incidents of one rule at a time: who is told of a hundred knows enough.
const INCIDENTS_MAX: usize = 100;

/// Looks whether all is well.
pub(crate) struct Alarms {
    store: Arc<Store>,
    registry: Arc<Registry>,
    /// Who pushes, if this server does.
    runner: Option<Arc<Runner<Store>>>,
    book: Book<Store>,
    settings: ArcSwap<config::Alarms>,
    looked: ArcSwap<Looked>,
}

/// What a look has shown.
#[derive(Default)]
pub(crate) struct Looked {
    /// When that was; none if it was never looked.
    pub(crate) at: Option<Time>,
    /// What is not well.
    pub(crate) shown: Vec<Shown>,
}

/// Something that is not well.
pub(crate) struct Shown {
    pub(crate) alarm: String,
    pub(crate) of: Subject,
    pub(crate) state: State,
    pub(crate) value: u64,
    pub(crate) since: Time,
}

impl Shown {
    /// Whether it is this rule's, and stands so.
    pub(crate) fn is(&self, rule: &Rule, state: State) -> bool {
        self.alarm == rule.name && self.state == state
    }
}

/// How a rule or an incident stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// All is well.
    Ok,
    /// It has not held for long enough to be told.
    Pending,
    /// It is told, and its end is not.
    Firing,
}

impl State {
    /// All there are.
    pub(crate) const ALL: [State; 3] = [State::Ok, State::Pending, State::Firing];

    /// Its name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Pending => "pending",
            State::Firing => "firing",
        }
    }
}

/// What is watched: by which rule, and what of.
type Key = (String, Subject);

/// What a server knows by having looked before.
#[derive(Default)]
struct Memory {
    watches: BTreeMap<Key, Watch>,
    shelves: BTreeMap<Key, Shelf>,
    /// The rules by which it was looked last.
    rules: BTreeSet<String>,
    /// Whether the last look failed.
    failing: bool,
}

/// How something stands at a look.
struct Reading<'a> {
    rule: &'a Rule,
    value: u64,
    is_bad: bool,
    /// The dead shelf before this look: it shows that it has grown only once.
    shelf: Option<Shelf>,
}

impl Alarms {
    pub(crate) fn new(
        store: Arc<Store>,
        registry: Arc<Registry>,
        runner: Option<Arc<Runner<Store>>>,
        settings: config::Alarms,
        instance: String,
    ) -> Alarms {
        Alarms {
            book: Book::new(store.clone(), instance),
            store,
            registry,
            runner,
            settings: ArcSwap::from_pointee(settings),
            looked: ArcSwap::default(),
        }
    }

    /// Takes on other settings.
    pub(crate) fn set_config(&self, settings: config::Alarms) {
        self.settings.store(Arc::new(settings));
    }

    /// The rules in force.
    pub(crate) fn settings(&self) -> Arc<config::Alarms> {
        self.settings.load_full()
    }

    /// What the last look has shown.
    pub(crate) fn looked(&self) -> Arc<Looked> {
        self.looked.load_full()
    }

    /// Looks again and again, until it is told to stop.
    pub(crate) fn start(self: &Arc<Self>, stopping: CancellationToken) -> JoinHandle<()> {
        let alarms = self.clone();
        tokio::spawn(async move {
            // Whatever it is at may be broken off: what is to be told is stored before it is told.
            stopping.run_until_cancelled(alarms.run()).await;
        })
    }

    async fn run(&self) {
        let mut memory = Memory::default();
        loop {
            let looked = self.look(&mut memory).await;
            if let Err(why) = &looked
                && !memory.failing
            {
                tracing::error!("alarms cannot be looked after: {why}");
            }
            if looked.is_ok() && memory.failing {
                tracing::info!("alarms are looked after again");
            }
            memory.failing = looked.is_err();
            tokio::time::sleep(self.settings().every).await;
        }
    }

    /// Looks once. What fails for one incident does not keep others from being told.
    async fn look(&self, memory: &mut Memory) -> Result<()> {
        let settings = self.settings();
        let (facts, kept) = match self.gather(&settings.rules).await {
            Ok(found) => found,
            Err(why) => {
                memory.watches.values_mut().for_each(Watch::missed);
                return Err(why);
            }
        };
        let now = self.store.clock().now();
        let readings = memory.readings(&settings.rules, &facts, now);
        let keys: BTreeSet<Key> = readings.keys().chain(kept.keys()).cloned().collect();
        memory.watches.retain(|key, _| keys.contains(key));
        let mut under_way: BTreeMap<String, usize> = BTreeMap::new();
        for (alarm, _) in kept.keys() {
            *under_way.entry(alarm.clone()).or_default() += 1;
        }
        let (mut shown, mut failed): (Vec<Shown>, Option<Error>) = Default::default();
        for key in keys {
            let (reading, there) = (readings.get(&key), kept.get(&key));
            let watch = memory.watches.entry(key.clone()).or_default();
            let step = watch.step(reading, there, now);
            let count = under_way.entry(key.0.clone()).or_default();
            let is_one_more = matches!(step, Step::Begin { .. });
            let is_too_many = is_one_more && *count >= INCIDENTS_MAX;
            let step = if is_too_many { Step::Nothing } else { step };
            *count += usize::from(is_one_more && !is_too_many);
            shown.extend(seen(&key, reading, there, step, watch));
            let acted = self.act(&key, reading, there, step, now).await;
            if let Some(shelf) = reading.and_then(|reading| reading.shelf)
                && (acted.is_err() || is_too_many)
            {
                memory.shelves.insert(key, shelf);
            }
            failed = failed.or(acted.err());
        }
        self.looked.store(Arc::new(Looked { at: Some(now.time()), shown }));
        failed.map_or(Ok(()), Err)
    }

    async fn gather(&self, rules: &[Rule]) -> Result<(Facts, BTreeMap<Key, Kept>)> {
        let kept = self.book.load().await?;
        if rules.is_empty() {
            return Ok((Facts::default(), kept));
        }
        let closed = self.runner.as_ref().map(|runner| runner.closed()).unwrap_or_default();
        Ok((Facts::gather(&self.store, &self.registry, closed, rules).await?, kept))
    }

    /// Does what a look has led to.
    async fn act(
        &self,
        (alarm, of): &Key,
        reading: Option<&Reading<'_>>,
        there: Option<&Kept>,
        step: Step,
        now: Now,
    ) -> Result<()> {
        let done = async {
            match (step, reading, there) {
                // Someone was cut short.
                (_, _, Some(kept)) if kept.0.is_untold() => self.book.tell(kept.clone()).await?,
                (Step::Begin { since }, Some(Reading { rule, value, .. }), None) => {
                    let found = Incident::new(rule, of.clone(), *value, since, now.time());
                    let is_ours = self.book.put(found, None).await?;
                    if is_ours {
                        let (kind, of) = (rule.kind.as_str(), of.as_str());
                        tracing::warn!(%alarm, kind, of, value, "an alarm");
                    }
                }
                (Step::Renew, Some(Reading { rule, value, .. }), Some((incident, version))) => {
                    let renewed = incident.renewed(*value, rule.quiet, now.time());
                    self.book.put(renewed, Some(*version)).await?;
                }
                (Step::End, _, Some((incident, version))) => {
                    let is_ours = self.book.put(incident.over(), Some(*version)).await?;
                    if is_ours {
                        tracing::info!(%alarm, of = of.as_str(), "an alarm is over");
                    }
                }
                _ => {}
            }
            Ok(())
        };
        done.await.map_err(|why: Error| {
            Error::new(why.code(), format!("alarm `{alarm}`: {}", why.message()))
        })
    }
}

impl Memory {
    /// How everything stands that the rules watch.
    fn readings<'a>(
        &mut self,
        rules: &'a [Rule],
        facts: &Facts,
        now: Now,
    ) -> BTreeMap<Key, Reading<'a>> {
        let (mut readings, mut shelves) = (BTreeMap::new(), BTreeMap::new());
        for rule in rules {
            for (of, mut value) in facts.read(rule) {
                let key = (rule.name.clone(), of);
                let mut before = None;
                let is_bad = match rule.kind {
                    Kind::Disk => value < rule.threshold,
                    Kind::Dead => {
                        // What has come since the last look was empty then.
                        let is_new = !self.rules.contains(&rule.name);
                        let unknown = || Shelf::new(if is_new { value } else { 0 });
                        let mut shelf = self.shelves.remove(&key).unwrap_or_else(unknown);
                        before = Some(shelf);
                        let grown = shelf.look(value, rule.quiet, now.tick);
                        shelves.insert(key.clone(), shelf);
                        value = grown.unwrap_or_default();
                        value > rule.threshold
                    }
                    _ => value > rule.threshold,
                };
                readings.insert(key, Reading { rule, value, is_bad, shelf: before });
            }
        }
        self.shelves = shelves;
        self.rules = rules.iter().map(|rule| rule.name.clone()).collect();
        readings
    }
}

impl Watch {
    fn step(&mut self, reading: Option<&Reading<'_>>, there: Option<&Kept>, now: Now) -> Step {
        let kept = there.map(|(incident, _)| incident);
        let patience = match (reading, kept) {
            (Some(reading), _) => Patience { holds: reading.rule.holds, quiet: reading.rule.quiet },
            // Its rule is gone, or what it is of.
            (None, kept) => {
                let quiet = kept.map(Incident::quiet).unwrap_or_default();
                Patience { holds: quiet, quiet }
            }
        };
        let is_bad = reading.is_some_and(|reading| reading.is_bad);
        self.look(is_bad, kept.map(Incident::seen), patience, now)
    }
}

impl Subject {
    /// What it is, for people; empty if it is all.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Subject::All => "",
            Subject::Topic(name) | Subject::Destination(name) => name,
        }
    }
}

/// What is to be shown of something, if it is not well.
fn seen(
    (alarm, of): &Key,
    reading: Option<&Reading<'_>>,
    there: Option<&Kept>,
    step: Step,
    watch: &Watch,
) -> Option<Shown> {
    let bad = reading.filter(|reading| reading.is_bad);
    let (state, value, since) = match (there, step) {
        (Some(_), Step::End) => return None,
        (Some((incident, _)), _) => {
            (State::Firing, bad.map_or(incident.value, |bad| bad.value), incident.since())
        }
        (None, Step::Begin { since }) => (State::Firing, bad?.value, since),
        (None, _) => (State::Pending, bad?.value, watch.bad_since()?),
    };
    Some(Shown { alarm: alarm.clone(), of: of.clone(), state, value, since })
}
