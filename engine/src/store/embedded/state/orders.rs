//! The orders in which a topic's jobs stand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::entry::Entry;
use crate::job::{Destination, PRIORITY_DEFAULT};
use crate::machine::{Life, Stage, State as At};
use crate::queue::{Ask, Lane, PausedFor, Taken, TopicInfo};
use crate::store::embedded::index::{Arena, Tree};
use crate::time::{Now, Tick, Time};
use crate::topic::{Bucket, Counts, Pause, Settings, Topic};

/// By due time and number. The number is looked up, for ties only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueKey {
    high: u32,
    low: u32,
    pub(crate) slot: u32,
}

/// By priority, due time and number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyKey {
    pub(crate) priority: u32,
    pub(crate) slot: u32,
    pub(crate) due_ms: u64,
    pub(crate) number: u64,
    /// When it became ready.
    pub(crate) since: Tick,
}

/// By some moment and number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtKey {
    pub(crate) at: u64,
    pub(crate) number: u64,
    pub(crate) slot: u32,
}

/// Where a job stands among those of its state: what it is sorted by, its number last.
pub(crate) type SortKey = [u64; 3];

/// So many keys of an order are walked over in the time in which one edge is found.
const STEPS_PER_EDGE: usize = 4;

impl DueKey {
    pub(crate) fn new(due: Time, slot: u32) -> DueKey {
        let ms = due.as_ms();
        DueKey { high: (ms >> 32) as u32, low: ms as u32, slot }
    }

    pub(crate) fn due_ms(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

impl ReadyKey {
    pub(crate) fn place(&self) -> SortKey {
        [self.priority.into(), self.due_ms, self.number]
    }
}

/// Where one job stands, as far as its topic's orders care.
#[derive(Clone, Debug)]
pub(crate) struct Stand {
    pub(crate) stage: Stage,
    pub(crate) due: Time,
    pub(crate) priority: u32,
    /// Reserved: when the lease ends, in microseconds. Dead or finished: since when.
    pub(crate) at: u64,
    pub(crate) number: u64,
    pub(crate) slot: u32,
    pub(crate) own_target: bool,
    /// Ready, and with a target of its own: where that is.
    pub(crate) destination: Option<Destination>,
    /// Ready: since when.
    pub(crate) since: Tick,
}

impl Stand {
    pub(crate) fn new(entry: &Entry, slot: u32, life: &Life) -> Stand {
        let at = match life.state {
            At::Reserved(hold) => hold.until.as_us(),
            At::Dead { at } | At::Finished { at, .. } => at.as_ms(),
            At::Waiting { .. } | At::Ready => 0,
        };
        Stand {
            stage: life.stage(),
            due: life.due,
            priority: life.priority,
            at,
            number: entry.number,
            slot,
            own_target: entry.has_own_target(),
            destination: None,
            since: Tick::default(),
        }
    }
}

/// A topic and its jobs, in every order that something asks for.
pub(crate) struct Orders {
    pub(crate) name: Topic,
    pub(crate) settings: Arc<Settings>,
    pub(crate) pause: Pause,
    pub(crate) bucket: Bucket,
    /// Jobs ever added.
    pub(crate) added: u64,
    /// What the bodies of its jobs take together.
    pub(crate) bytes: u64,
    /// All jobs up to this number are gone, though not all of them are freed yet.
    pub(crate) gone_through: u64,
    /// Jobs that are gone and not freed yet.
    pub(crate) unfreed: u64,
    /// Whether it can be found by its name.
    pub(crate) named: bool,
    /// Waiting calls that name this topic, by lane.
    pub(crate) waiters: [BTreeSet<u64>; 2],
    /// The heads by which this topic stands among those with ready jobs, by lane.
    pub(crate) listed: [Option<SortKey>; 2],
    /// The due time by which it stands among the topics with waiting jobs.
    pub(crate) listed_due: Option<Time>,
    /// Jobs that wait and never failed: most of them, so they stand nowhere else.
    delayed: Tree<DueKey>,
    /// All the others, by due time.
    others: Tree<DueKey>,
    retry: Tree<DueKey>,
    held: Tree<DueKey>,
    ready_with_target: Tree<ReadyKey>,
    /// The same once more, by where they go.
    ready_by_destination: Lanes,
    ready_without: Tree<ReadyKey>,
    reserved: Tree<AtKey>,
    dead: Tree<AtKey>,
    finished: Tree<AtKey>,
    errors: BTreeMap<Arc<str>, u64>,
    urgent: u64,
}

impl Orders {
    pub(crate) fn new(name: Topic) -> Orders {
        Orders {
            name,
            settings: Arc::default(),
            pause: Pause::No,
            bucket: Bucket::default(),
            added: 0,
            bytes: 0,
            gone_through: 0,
            unfreed: 0,
            named: true,
            waiters: Default::default(),
            listed: [None; 2],
            listed_due: None,
            delayed: Tree::new(),
            others: Tree::new(),
            retry: Tree::new(),
            held: Tree::new(),
            ready_with_target: Tree::new(),
            ready_by_destination: Lanes::default(),
            ready_without: Tree::new(),
            reserved: Tree::new(),
            dead: Tree::new(),
            finished: Tree::new(),
            errors: BTreeMap::new(),
            urgent: 0,
        }
    }

    /// Puts a job into all the orders it belongs to.
    pub(crate) fn enter(&mut self, arena: &Arena<Entry>, stand: &Stand) {
        let by_due =
            if stand.stage == Stage::Delayed { &mut self.delayed } else { &mut self.others };
        insert_due(by_due, arena, stand);
        match stand.stage {
            Stage::Delayed => {}
            Stage::Retry => insert_due(&mut self.retry, arena, stand),
            Stage::Held => insert_due(&mut self.held, arena, stand),
            Stage::Ready => {
                let key = ReadyKey {
                    priority: stand.priority,
                    slot: stand.slot,
                    due_ms: stand.due.as_ms(),
                    number: stand.number,
                    since: stand.since,
                };
                insert_ready(self.ready_tree(stand.own_target), key);
                if let Some(destination) = &stand.destination {
                    self.ready_by_destination.insert(destination, key);
                }
                self.urgent += u64::from(stand.priority < PRIORITY_DEFAULT);
            }
            Stage::Reserved => insert_at(&mut self.reserved, stand),
            Stage::Dead => insert_at(&mut self.dead, stand),
            Stage::Finished => insert_at(&mut self.finished, stand),
        }
    }

    /// Takes up all jobs that wait, in order, where there were none.
    pub(crate) fn fill_delayed(&mut self, sorted: Vec<DueKey>) {
        debug_assert!(self.delayed.is_empty(), "the topic was not loaded yet");
        self.delayed = Tree::from_sorted(sorted);
    }

    /// Takes a job out of all of them; answers since when it was ready, if it was.
    pub(crate) fn leave(&mut self, arena: &Arena<Entry>, stand: &Stand) -> Option<Tick> {
        let by_due =
            if stand.stage == Stage::Delayed { &mut self.delayed } else { &mut self.others };
        remove_due(by_due, arena, stand);
        match stand.stage {
            Stage::Delayed => {}
            Stage::Retry => remove_due(&mut self.retry, arena, stand),
            Stage::Held => remove_due(&mut self.held, arena, stand),
            Stage::Ready => {
                let place = [stand.priority.into(), stand.due.as_ms(), stand.number];
                let removed = remove_ready(self.ready_tree(stand.own_target), place, stand.slot);
                if let Some(destination) = &stand.destination {
                    self.ready_by_destination.remove(destination, place, stand.slot);
                }
                self.urgent -= u64::from(stand.priority < PRIORITY_DEFAULT);
                debug_assert!(removed.is_some(), "a ready job stands among the ready");
                return removed.map(|key| key.since);
            }
            Stage::Reserved => remove_at(&mut self.reserved, stand),
            Stage::Dead => remove_at(&mut self.dead, stand),
            Stage::Finished => remove_at(&mut self.finished, stand),
        }
        None
    }

    fn ready_tree(&mut self, own_target: bool) -> &mut Tree<ReadyKey> {
        if own_target { &mut self.ready_with_target } else { &mut self.ready_without }
    }

    /// Counts the last error of a dead job, or no longer.
    pub(crate) fn count_error(&mut self, error: &Arc<str>, more: bool) {
        let count = self.errors.entry(error.clone()).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.errors.remove(error);
        }
    }

    /// The first ready job of a lane.
    pub(crate) fn head(&self, lane: Lane) -> Option<ReadyKey> {
        let own = self.ready_with_target.first();
        let plain = self.ready_without.first();
        match (lane, &self.settings.target) {
            (Lane::Pull, None) => plain,
            (Lane::Pull, Some(_)) => None,
            (Lane::Push, None) => own,
            (Lane::Push, Some(_)) => own.into_iter().chain(plain).min_by_key(ReadyKey::place),
        }
    }

    /// The first ready job that fits an ask of which something was taken already.
    pub(crate) fn head_for(&self, ask: &Ask, taken: &Taken) -> Option<ReadyKey> {
        let Some(room) = &ask.room else { return self.head(ask.lane) };
        if !room.has_topic(&self.name, taken) {
            return None;
        }
        let own = self.ready_by_destination.first(|to| room.has_destination(to, taken));
        let plain = self.ready_without.first().filter(|_| {
            self.settings.target.as_ref().is_some_and(|target| {
                room.has_destination(&Destination::of(&self.name, target), taken)
            })
        });
        own.into_iter().chain(plain).min_by_key(ReadyKey::place)
    }

    /// The first waiting job that is not held.
    pub(crate) fn first_due(&self) -> Option<DueKey> {
        match (self.delayed.first(), self.retry.first()) {
            (Some(one), Some(other)) => {
                Some(if one.due_ms() <= other.due_ms() { one } else { other })
            }
            (one, other) => one.or(other),
        }
    }

    /// The slots of one stage, or of all by due time, from the first whose place is not before
    /// `from` on, with their places.
    pub(crate) fn walk<'a>(
        &'a self,
        arena: &'a Arena<Entry>,
        stage: Option<Stage>,
        from: SortKey,
    ) -> Box<dyn Iterator<Item = (SortKey, u32)> + 'a> {
        let by_due = |tree: &'a Tree<DueKey>| walk_due(tree, arena, from);
        match stage {
            None => Box::new(merge(by_due(&self.delayed), by_due(&self.others))),
            Some(Stage::Delayed) => Box::new(by_due(&self.delayed)),
            Some(Stage::Retry) => Box::new(by_due(&self.retry)),
            Some(Stage::Held) => Box::new(by_due(&self.held)),
            Some(Stage::Ready) => Box::new(merge(
                walk_ready(&self.ready_with_target, from),
                walk_ready(&self.ready_without, from),
            )),
            Some(Stage::Reserved) => Box::new(walk_at(&self.reserved, from)),
            Some(Stage::Dead) => Box::new(walk_at(&self.dead, from)),
            Some(Stage::Finished) => Box::new(walk_at(&self.finished, from)),
        }
    }

    /// Adds to each count how many waiting jobs are due from its edge until before the next one.
    pub(crate) fn count_due(&self, edges: &[u64], counts: &mut [u64]) {
        count_due(&self.delayed, edges, counts);
        count_due(&self.retry, edges, counts);
    }

    /// The last errors of the dead jobs, and how many have each.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.errors.iter().map(|(error, count)| (error, *count))
    }

    /// How many jobs are in each state.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            delayed: self.delayed.len(),
            retry: self.retry.len(),
            held: self.held.len(),
            ready: self.ready_with_target.len() + self.ready_without.len(),
            urgent: self.urgent,
            reserved: self.reserved.len(),
            dead: self.dead.len(),
            finished: self.finished.len(),
        }
    }

    /// The topic as callers see it.
    pub(crate) fn info(&self, now: Now) -> TopicInfo {
        TopicInfo {
            topic: self.name.clone(),
            settings: Settings::clone(&self.settings),
            paused: PausedFor::of(self.pause, now.tick),
            counts: self.counts(),
            waiting: self.waiters.iter().map(|waiters| waiters.len() as u64).sum(),
            added: self.added,
            bytes: self.settings.bytes_max.map(|_| self.bytes),
        }
    }

    /// All jobs there are.
    pub(crate) fn len(&self) -> u64 {
        self.delayed.len() + self.others.len()
    }

    /// Whether a hand-out is allowed now: not paused, and within both limits.
    pub(crate) fn may_hand_out(&self, now: Now) -> bool {
        let reserved = self.reserved.len();
        !self.pause.holds(now.tick)
            && self.settings.concurrency.is_none_or(|limit| reserved < u64::from(limit.get()))
            && self.next_token().is_none_or(|at| at <= now.tick)
    }

    /// When the rate allows the next hand-out, if there is a rate.
    pub(crate) fn next_token(&self) -> Option<Tick> {
        self.settings.rate.map(|rate| self.bucket.next_at(rate))
    }

    /// The slots of the dead jobs.
    pub(crate) fn dead(&self) -> Vec<u32> {
        self.dead.iter().map(|key| key.slot).collect()
    }

    /// Whether nothing names this topic any more.
    pub(crate) fn is_nothing(&self) -> bool {
        self.len() == 0
            && self.pause == Pause::No
            && self.waiters.iter().all(BTreeSet::is_empty)
            && *self.settings == Settings::default()
    }

    /// Forgets all jobs at once; the slots that are to be freed are in what it answers.
    pub(crate) fn empty(&mut self) -> [Tree<DueKey>; 2] {
        let old = std::mem::replace(self, Orders::new(self.name.clone()));
        self.settings = old.settings;
        self.pause = old.pause;
        self.bucket = old.bucket;
        self.added = old.added;
        self.gone_through = old.gone_through;
        self.unfreed = old.unfreed;
        self.named = old.named;
        self.waiters = old.waiters;
        self.listed = old.listed;
        self.listed_due = old.listed_due;
        [old.delayed, old.others]
    }
}

/// Ready jobs by where they go, so that one destination does not stand in the way of another.
#[derive(Default)]
struct Lanes {
    lanes: BTreeMap<Destination, Tree<ReadyKey>>,
    /// Each lane by its first job.
    heads: BTreeSet<(SortKey, Destination)>,
}

impl Lanes {
    fn insert(&mut self, destination: &Destination, key: ReadyKey) {
        self.change(destination, |lane| insert_ready(lane, key));
    }

    fn remove(&mut self, destination: &Destination, place: SortKey, slot: u32) {
        self.change(destination, |lane| _ = remove_ready(lane, place, slot));
    }

    fn change(&mut self, destination: &Destination, change: impl FnOnce(&mut Tree<ReadyKey>)) {
        let lane = self.lanes.entry(destination.clone()).or_insert_with(Tree::new);
        let before = lane.first().map(|key| key.place());
        change(lane);
        let after = lane.first().map(|key| key.place());
        if after.is_none() {
            self.lanes.remove(destination);
        }
        if before != after {
            before.map(|place| self.heads.remove(&(place, destination.clone())));
            self.heads.extend(after.map(|place| (place, destination.clone())));
        }
    }

    /// The first of all that go where there is room: the lanes without are passed over.
    fn first(&self, has_room: impl Fn(&Destination) -> bool) -> Option<ReadyKey> {
        let (_, destination) = self.heads.iter().find(|(_, destination)| has_room(destination))?;
        self.lanes[destination].first()
    }
}

fn insert_ready(tree: &mut Tree<ReadyKey>, key: ReadyKey) {
    let place = key.place();
    tree.insert(key, |other| other.place() < place);
}

fn remove_ready(tree: &mut Tree<ReadyKey>, place: SortKey, slot: u32) -> Option<ReadyKey> {
    tree.remove(|other| other.place() < place, |found| found.slot == slot)
}

fn insert_due(tree: &mut Tree<DueKey>, arena: &Arena<Entry>, stand: &Stand) {
    tree.insert(DueKey::new(stand.due, stand.slot), |key| is_before(key, arena, stand));
}

fn remove_due(tree: &mut Tree<DueKey>, arena: &Arena<Entry>, stand: &Stand) {
    let removed = tree.remove(|key| is_before(key, arena, stand), |found| found.slot == stand.slot);
    debug_assert!(removed.is_some(), "a job stands in each of its orders");
}

fn is_before(key: &DueKey, arena: &Arena<Entry>, stand: &Stand) -> bool {
    let due_ms = stand.due.as_ms();
    // The number is a memory access away: only ties are worth it.
    key.due_ms() < due_ms || key.due_ms() == due_ms && arena[key.slot].number < stand.number
}

fn insert_at(tree: &mut Tree<AtKey>, stand: &Stand) {
    let key = AtKey { at: stand.at, number: stand.number, slot: stand.slot };
    tree.insert(key, |other| (other.at, other.number) < (key.at, key.number));
}

fn remove_at(tree: &mut Tree<AtKey>, stand: &Stand) {
    let removed = tree.remove(
        |other| (other.at, other.number) < (stand.at, stand.number),
        |found| found.slot == stand.slot,
    );
    debug_assert!(removed.is_some(), "a job stands in each of its orders");
}

fn walk_due<'a>(
    tree: &'a Tree<DueKey>,
    arena: &'a Arena<Entry>,
    from: SortKey,
) -> impl Iterator<Item = (SortKey, u32)> + 'a {
    tree.from(move |key| {
        let due_ms = key.due_ms();
        due_ms < from[0] || due_ms == from[0] && [due_ms, arena[key.slot].number, 0] < from
    })
    .map(|key| ([key.due_ms(), arena[key.slot].number, 0], key.slot))
}

fn walk_ready(tree: &Tree<ReadyKey>, from: SortKey) -> impl Iterator<Item = (SortKey, u32)> + '_ {
    tree.from(move |key| key.place() < from).map(|key| (key.place(), key.slot))
}

fn walk_at(tree: &Tree<AtKey>, from: SortKey) -> impl Iterator<Item = (SortKey, u32)> + '_ {
    tree.from(move |key| [key.at, key.number, 0] < from)
        .map(|key| ([key.at, key.number, 0], key.slot))
}

/// Two walks as one.
fn merge<'a>(
    one: impl Iterator<Item = (SortKey, u32)> + 'a,
    other: impl Iterator<Item = (SortKey, u32)> + 'a,
) -> impl Iterator<Item = (SortKey, u32)> + 'a {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(a), Some(b)) if b.0 < a.0 => other.next(),
        (None, Some(_)) => other.next(),
        _ => one.next(),
    })
}

/// By a walk over those within, or by finding every edge, whichever is less: with many topics, most have
/// little or nothing in a span.
fn count_due(due: &Tree<DueKey>, edges: &[u64], counts: &mut [u64]) {
    let (Some(start), Some(end)) = (edges.first(), edges.last()) else { return };
    if due.is_empty() {
        return;
    }
    let before = |edge: u64| due.rank(|key| key.due_ms() < edge);
    let mut below = before(*start);
    let within = (before(*end) - below) as usize;
    if within <= counts.len() * STEPS_PER_EDGE {
        for key in due.from(|key| key.due_ms() < *start).take(within) {
            let bucket = edges.partition_point(|edge| *edge <= key.due_ms()) - 1;
            counts[bucket] += 1;
        }
        return;
    }
    for (count, edge) in counts.iter_mut().zip(&edges[1..]) {
        let next = before(*edge);
        *count += next - below;
        below = next;
    }
}
