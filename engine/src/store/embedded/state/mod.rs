//! All there is, and the one way in which a job moves. Owned by the decider.

mod add;
mod backup;
mod beyond;
mod browse;
mod bulk;
mod chunk;
mod clock;
mod entry;
mod find;
mod fresh;
mod garbage;
mod kv;
mod orders;
#[cfg(any(test, feature = "testkit"))]
mod peek;
mod pop;
mod replay;
mod restore;
mod segments;
mod survey;
mod topics;

pub(crate) use add::{Decision, Prepared};
pub(crate) use backup::Begun;
pub(crate) use beyond::{Beyond, More, Owns, Slab};
pub(crate) use chunk::{Copied, Cursor, Earlier};
pub(crate) use entry::{Entry, IdHash};
pub(crate) use orders::{Orders, SortKey, Stand};
#[cfg(any(test, feature = "testkit"))]
pub(crate) use peek::Peeked;
pub(crate) use pop::{Call, Handed, recall};
pub(crate) use restore::Returning;
pub(crate) use segments::{Segments, Usage};
pub(crate) use survey::Indexed;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::batch::{Decided, HEAD_BYTES, Tag};
use super::codec::{Own, encode_life, encode_note};
use super::handover::Release;
use super::inbox::Inbox;
use super::index::{Arena, Table};
use super::log::{Log, Rests};
use super::place::{Pinned, Place};
use super::space::{IdHasher, Space};
use crate::dice::{Dice, Lease};
use crate::error::Result;
use crate::history::Entry as Noted;
use crate::job::Destination;
use crate::machine::{
    Event, Hold, Life, Next, Note, Owner, Refusal, Rules, Stage, State as At, Step, step,
};
use crate::queue::{
    Changed, End, Key, Lane, LetGo, Settle, Standing, Terms, UniqueIds, Verdict, Was,
};
use crate::record::{Move, check_version, ending, not_found, was};
use crate::stats::Stats;
use crate::store::Options;
use crate::store::kv::Kv;
use crate::store::leaving::Leaving;
use crate::time::{Bell, Now, StepWatch, Tick, Time, duration_ms};
use crate::topic::{Archive, Defaults, Settings, Topic};

use backup::{Backup, Then};
use fresh::Fresh;
use garbage::Garbage;
use orders::ReadyKey;
use pop::Waiters;

/// The most that one turn does of what can be put off.
const SLICE: usize = 1000;
/// More than a hot record, a note without texts and their heads ever take.
const MOVE_BYTES: usize = 512;

pub(crate) struct State {
    pub(crate) log: Log,
    pub(crate) segments: Segments,
    /// Jobs that have ended, for the archive.
    pub(crate) leaving: Arc<Leaving<Left>>,
    /// Moves that nobody is told of, if somebody wants to know.
    pub(crate) moves: Option<Arc<Leaving<Shifted>>>,
    pub(crate) defaults: Defaults,
    /// The ids' and leases' chance.
    dice: Dice,
    unique_ids: UniqueIds,
    hasher: IdHasher,
    inbox: Arc<Inbox>,
    keeper: Arc<Bell>,
    space: Arc<Space>,
    arena: Arena<Entry>,
    mores: Slab,
    owns: Owns,
    ids: Table,
    numbers: Table,
    pub(crate) next_number: u64,
    topics: Vec<Option<Orders>>,
    free_topics: Vec<u32>,
    names: HashMap<Topic, u32>,
    sorted: BTreeMap<Topic, u32>,
    /// Topics that changed and have to be looked at by `serve`.
    dirty: BTreeSet<u32>,
    /// Topics with ready jobs by the first of these, by lane.
    with_ready: [BTreeMap<SortKey, u32>; 2],
    /// Topics with waiting jobs by when the first of these is due.
    due_heads: BTreeSet<(Time, u32)>,
    waiters: Waiters,
    pub(crate) kv: Kv,
    /// Every lease by its end.
    leases: BTreeSet<(Tick, u64)>,
    /// Every lease that is tied to a connection, by that.
    owned: BTreeSet<(Owner, u64)>,
    /// Every dead or finished job that is not kept for ever, by when it goes.
    lapses: BTreeSet<(Time, u64)>,
    /// When a pause ends, or a used-up rate has its next token.
    opens: BTreeSet<(Tick, u32)>,
    /// Jobs of emptied topics that are to be freed.
    garbage: Garbage,
    /// Jobs that were held by connections of the process before.
    orphans: VecDeque<u64>,
    /// The copy of all jobs that is under way.
    backup: Option<Box<Backup>>,
    /// The last batch that changed a job, hand-outs apart, as long as it may not be durable.
    fresh: Fresh,
    watch: StepWatch,
    stats: Stats,
    scratch: Vec<u8>,
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) trace: super::trace::Trace,
    /// Whether the task at hand finds no room in the log.
    pub(crate) out_of_room: bool,
    /// Whether someone could not be served for want of room in the log.
    pub(crate) starved: bool,
}

/// What a caller has made of a job that it wants to change.
pub(crate) struct Rewritten {
    pub(crate) payload: Vec<u8>,
    pub(crate) check: u32,
    pub(crate) decided: Decided,
    pub(crate) own: Option<Arc<Own>>,
    pub(crate) body_bytes: usize,
    /// Only if the job still lies here.
    pub(crate) was: Place,
}

/// A job as it is now, with the places of what is on disk.
pub(crate) struct Snapshot {
    pub(crate) number: u64,
    pub(crate) life: Life,
    pub(crate) last_error: Option<Arc<str>>,
    pub(crate) cold: Pinned,
    pub(crate) notes: Vec<Pinned>,
}

/// A job that has ended, as it was then.
pub(crate) struct Left {
    pub(crate) job: Snapshot,
    pub(crate) how: End,
    pub(crate) made: Move,
    pub(crate) archive: Archive,
    pub(crate) now: Now,
}

/// A move that nobody is told of, and where the name of its job lies.
pub(crate) struct Shifted {
    pub(crate) cold: Pinned,
    pub(crate) was: Was,
    pub(crate) note: Option<Note>,
    pub(crate) made: Move,
    pub(crate) now: Now,
}

/// What a change came to.
pub(crate) enum Outcome {
    Done(Changed),
    /// The job was rewritten or moved meanwhile: read it again.
    Stale,
}

/// What the store around the state brings.
pub(crate) struct Around {
    pub(crate) log: Log,
    pub(crate) segments: Segments,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) space: Arc<Space>,
    pub(crate) hasher: IdHasher,
    /// Rung when there is something for the keeper.
    pub(crate) keeper: Arc<Bell>,
}

impl State {
    pub(crate) fn new(options: &Options, around: Around) -> State {
        State {
            log: around.log,
            segments: around.segments,
            leaving: Arc::new(Leaving::to_archive()),
            moves: options.tells_moves.then(|| Arc::new(Leaving::to_log())),
            defaults: options.defaults.clone(),
            dice: options.dice.clone(),
            unique_ids: options.unique_ids,
            hasher: around.hasher,
            inbox: around.inbox,
            keeper: around.keeper,
            space: around.space,
            arena: Arena::new(),
            mores: Slab::default(),
            owns: Owns::default(),
            ids: Table::new(),
            numbers: Table::new(),
            next_number: 1,
            topics: Vec::new(),
            free_topics: Vec::new(),
            names: HashMap::new(),
            sorted: BTreeMap::new(),
            dirty: BTreeSet::new(),
            with_ready: Default::default(),
            due_heads: BTreeSet::new(),
            waiters: Waiters::default(),
            kv: Kv::default(),
            leases: BTreeSet::new(),
            owned: BTreeSet::new(),
            lapses: BTreeSet::new(),
            opens: BTreeSet::new(),
            garbage: Garbage::default(),
            orphans: VecDeque::new(),
            backup: None,
            fresh: Fresh::default(),
            watch: StepWatch::default(),
            stats: Stats::default(),
            scratch: Vec::new(),
            #[cfg(any(test, feature = "testkit"))]
            trace: super::trace::Trace::default(),
            out_of_room: false,
            starved: false,
        }
    }

    /// Lets an answer go when all that is in the log by now is safe.
    pub(crate) fn answer(&mut self, release: Release) {
        self.log.answer(release, Rests::All);
    }

    /// Puts a job into the index.
    fn enter(&mut self, entry: Entry, life: Life, own: Option<Arc<Own>>, now: Now) -> u32 {
        let (hash, number) = (entry.id, entry.number);
        let slot = self.keep(entry, life, own);
        let arena = &self.arena;
        self.ids.insert(hash[0], slot, |slot| arena[slot].id[0]);
        self.numbers.insert(spread(number), slot, |slot| spread(arena[slot].number));
        self.orders_mut(slot).bytes += entry.body_bytes();
        self.stand_up(slot, now.tick);
        slot
    }

    /// Keeps a job that nothing can find yet.
    fn keep(&mut self, mut entry: Entry, life: Life, own: Option<Arc<Own>>) -> u32 {
        entry.set_own_target(own.as_ref().is_some_and(|own| own.target.is_some()));
        let plain = entry.take_on(&life);
        entry.set_beyond(if plain {
            self.beyond_of(life, own)
        } else {
            Beyond::More(self.mores.insert(More::new(life, own)))
        });
        self.segments.born(entry.cold);
        self.arena.insert(entry)
    }

    /// Takes a job out of the index.
    fn remove(&mut self, slot: u32) {
        self.stand_down(slot);
        let bytes = self.arena[slot].body_bytes();
        self.orders_mut(slot).bytes -= bytes;
        self.forget(slot);
    }

    /// Takes a job out of the index that stands nowhere any more.
    fn forget(&mut self, slot: u32) {
        self.set_aside(slot, Then::Gone);
        let entry @ Entry { id, number, cold, .. } = self.arena[slot];
        let arena = &self.arena;
        self.ids.remove(id[0], |other| other == slot, |slot| arena[slot].id[0]);
        let rehash = |slot: u32| spread(arena[slot].number);
        self.numbers.remove(spread(number), |other| other == slot, rehash);
        self.segments.died(cold);
        match entry.beyond() {
            Beyond::Nothing => {}
            Beyond::Own(at) => drop(self.owns.let_go(at)),
            Beyond::More(at) => {
                for place in self.mores.remove(at).notes {
                    self.segments.died(place);
                }
            }
        }
        self.arena.remove(slot);
    }

    pub(crate) fn settle(&mut self, settle: Settle, now: Now) -> Result<Changed> {
        let slot = self.slot_of(&settle.key).ok_or_else(|| not_found(&settle.key))?;
        let recalled = settle.verdict == Verdict::Recall;
        let changed = self.make_and_show(slot, &Move::settle(settle), now)?;
        if recalled {
            self.give_token_back(slot);
        }
        Ok(changed)
    }

    /// Changes a job by hand. A rewritten one only if nothing has changed since it was read.
    pub(crate) fn change(
        &mut self,
        key: &Key,
        if_version: Option<u64>,
        made: &Move,
        rewritten: Option<Rewritten>,
        now: Now,
    ) -> Result<Outcome> {
        let slot = self.slot_of(key).ok_or_else(|| not_found(key))?;
        check_version(if_version, self.life(slot).version)?;
        if let Some(rewritten) = &rewritten {
            if self.arena[slot].cold != rewritten.was {
                return Ok(Outcome::Stale);
            }
            self.step(slot, &self.life(slot), &made.event, now)?;
            let (orders, was) = (self.orders_of(slot), self.arena[slot].body_bytes());
            let is = rewritten.body_bytes as u64;
            orders.settings.check_bytes(&orders.name, orders.bytes, was, is)?;
            self.space.check_growth()?;
        }
        let was = self.make_rewritten(slot, made, rewritten, now)?;
        Ok(Outcome::Done(self.shown(slot, was, now)))
    }

    fn make_and_show(&mut self, slot: u32, made: &Move, now: Now) -> Result<Changed> {
        let was = self.make_rewritten(slot, made, None, now)?;
        Ok(self.shown(slot, was, now))
    }

    fn shown(&self, slot: u32, was: Option<Was>, now: Now) -> Changed {
        // A job that is gone leaves its slot free until the next insert, so this is still it.
        let job = self.arena.get(slot).map(|entry| standing(entry.number, &self.life(slot), now));
        Changed { changed: was.is_some(), job, was }
    }

    /// Lets go of some leases of an owner; answers how many, and whether there are more.
    pub(crate) fn let_go(&mut self, owner: Owner, how: LetGo, now: Now) -> (u64, bool) {
        let mut gone = 0;
        for _ in 0..SLICE {
            let mut owned = self.owned.range((owner, 0)..=(owner, u64::MAX));
            let Some((_, number)) = owned.next().copied() else { return (gone, false) };
            if !self.log.has_room(MOVE_BYTES) {
                break;
            }
            if let Some(slot) = self.numbered(number) {
                self.make(slot, &Move::let_go(how), now).expect("an owned job is reserved");
                gone += 1;
            } else {
                self.owned.remove(&(owner, number));
            }
        }
        (gone, true)
    }

    /// The one way in which a job moves: decided by the machine, then carried out as a whole.
    pub(crate) fn make(&mut self, slot: u32, made: &Move, now: Now) -> Result<bool, Refusal> {
        self.make_rewritten(slot, made, None, now).map(|was| was.is_some())
    }

    /// Answers what the job was before, unless nothing changed.
    fn make_rewritten(
        &mut self,
        slot: u32,
        made: &Move,
        rewritten: Option<Rewritten>,
        now: Now,
    ) -> Result<Option<Was>, Refusal> {
        let before = self.life(slot);
        let step = self.step(slot, &before, &made.event, now)?;
        self.stats.count(&made.event, &before, &step);
        let ended = ending(&made.event, &before, &step.next);
        let was = was(self.arena[slot].number, &before, &step.next, now);
        let told = self.to_tell(slot, was, &step, made, now);
        match step.next {
            Next::Same => {}
            Next::Gone => {
                self.archive(slot, ended, made, now);
                self.log_gone(slot);
                self.remove(slot);
            }
            Next::Keep(life) => {
                self.turn(slot, before, life, step.note, made, rewritten, now);
                self.archive(slot, ended, made, now);
            }
        }
        if let (Some(told), Some(moves)) = (told, self.moves.clone()) {
            // When all of this is safe.
            self.log.answer(Box::new(move || moves.push(told)), Rests::All);
        }
        Ok(was)
    }

    /// What is to be told of a move that nobody is answered for.
    fn to_tell(
        &self,
        slot: u32,
        was: Option<Was>,
        step: &Step,
        made: &Move,
        now: Now,
    ) -> Option<Shifted> {
        if !made.unasked || self.moves.is_none() {
            return None;
        }
        let cold = self.segments.pin(self.arena[slot].cold);
        Some(Shifted { cold, was: was?, note: step.note.clone(), made: made.clone(), now })
    }

    /// Sends a job on its way to the archive, if it has ended and its topic names one. It leaves
    /// when all of this is safe.
    fn archive(&mut self, slot: u32, ended: Option<End>, made: &Move, now: Now) {
        let Some(how) = ended else { return };
        let Some(archive) = self.orders_of(slot).settings.archive.clone() else { return };
        let job = self.snapshot(slot);
        let made = Move { patch: None, ..made.clone() };
        let leaving = self.leaving.clone();
        let release = move || leaving.push(Left { job, how, made, archive, now });
        self.log.answer(Box::new(release), Rests::All);
    }

    #[expect(clippy::too_many_arguments, reason = "one step, told whole")]
    fn turn(
        &mut self,
        slot: u32,
        before: Life,
        life: Life,
        note: Option<Note>,
        made: &Move,
        rewritten: Option<Rewritten>,
        now: Now,
    ) {
        // That a job has become due can be seen from its due time.
        if made.event != Event::Due {
            self.set_aside(slot, Then::Changed);
        }
        let since = self.stand_down(slot);
        let hand_out = matches!(made.event, Event::Reserve(_) | Event::ReserveNamed(_));
        if hand_out && before.state == At::Ready {
            let ready_us = since.map_or(0, |since| now.tick.as_us().saturating_sub(since.as_us()));
            self.stats.ready_to_handed_out.record(ready_us);
        }
        let noted = note.map(|note| noted(note, &before, made, now));
        if made.event != Event::Due {
            #[cfg(any(test, feature = "testkit"))]
            let cold = rewritten.as_ref().map(|cold| cold.payload.clone().into());
            self.log_move(slot, &life, noted.as_ref(), rewritten, now);
            #[cfg(any(test, feature = "testkit"))]
            self.trace.step(self.log.last_batch(), || super::trace::What::Moved {
                number: self.arena[slot].number,
                life: life.clone(),
                hand_out,
                cold,
                note: noted.clone(),
            });
            if !hand_out {
                let (number, batch) = (self.arena[slot].number, self.log.last_batch());
                self.fresh.change(number, batch, |batch| self.log.is_settled(batch));
            }
        }
        let since = if before.state == At::Ready { since.unwrap_or(now.tick) } else { now.tick };
        self.set_life(slot, life);
        if let Some(error) = noted.and_then(|noted| noted.error) {
            self.more_mut(slot).last_error = Some(error);
        }
        self.stand_up(slot, since);
        if made.event != Event::Due {
            self.promote(slot, now);
        }
    }

    /// Writes down what a job has become: its records lie in one batch.
    fn log_move(
        &mut self,
        slot: u32,
        life: &Life,
        noted: Option<&Noted>,
        rewritten: Option<Rewritten>,
        now: Now,
    ) {
        let number = self.arena[slot].number;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        encode_life(life, now, &mut scratch);
        let hot = scratch.len();
        if let Some(noted) = noted {
            encode_note(noted, &mut scratch);
        }
        let cold_len = rewritten.as_ref().map_or(0, |cold| cold.payload.len() + 64);
        self.log.begin_step(scratch.len() + 2 * HEAD_BYTES + cold_len);
        if let Some(cold) = rewritten {
            self.rewrite(slot, cold);
        }
        self.log.put(Tag::Hot, number, &scratch[..hot]);
        if noted.is_some() {
            let place = self.log.put(Tag::Note, number, &scratch[hot..]);
            self.know_begun();
            self.note(slot, place);
        }
        self.scratch = scratch;
    }

    fn rewrite(&mut self, slot: u32, cold: Rewritten) {
        let number = self.arena[slot].number;
        let place = self.put_cold(number, cold.decided, &cold.payload, cold.check);
        self.give_body(slot, place, cold.body_bytes);
        self.set_own(slot, cold.own);
    }

    fn note(&mut self, slot: u32, place: Place) {
        self.segments.born(place);
        if let Some(forgotten) = self.more_mut(slot).note(place) {
            self.segments.died(forgotten);
        }
    }

    fn log_gone(&mut self, slot: u32) {
        let number = self.arena[slot].number;
        self.log.put(Tag::Gone, number, &[]);
        #[cfg(any(test, feature = "testkit"))]
        self.trace.step(self.log.last_batch(), || super::trace::What::Gone { number });
    }

    /// Whether what was last done to a job may not be durable yet.
    fn is_fresh(&self, number: u64) -> bool {
        self.fresh.has(number, |batch| self.log.is_settled(batch))
    }

    fn step(&self, slot: u32, life: &Life, event: &Event, now: Now) -> Result<Step, Refusal> {
        let own = self.own(slot);
        let settings = &self.orders_of(slot).settings;
        let retain = own.and_then(|own| own.retain).or(settings.retain).or(self.defaults.retain);
        let rules = Rules {
            retry: own
                .and_then(|own| own.retry.as_ref())
                .or(settings.retry.as_ref())
                .unwrap_or(&self.defaults.retry),
            repeat: own.and_then(|own| own.repeat.as_ref()),
            retain_ms: retain.map(duration_ms),
            chance: self.dice.jitter(self.arena[slot].number, life.attempt),
        };
        step(life, event, &rules, now)
    }

    /// The hold that a hand-out on these terms would make.
    fn hold(&self, slot: u32, terms: Terms, now: Now) -> Hold {
        let own = self.own(slot).and_then(|own| own.ttr);
        let settings = &self.orders_of(slot).settings;
        let ttr = terms.ttr.or(own).or(settings.ttr).unwrap_or(self.defaults.ttr);
        Hold {
            // By version, not by hand-outs: a recalled one must not share a lease with the next.
            lease: self.lease(slot),
            since: now.tick,
            until: now.tick.plus_ms(terms.lease_ms(ttr, settings)),
            ttr,
            owner: terms.owner,
        }
    }

    fn lease(&self, slot: u32) -> Lease {
        self.dice.lease(self.arena[slot].number, self.life(slot).version)
    }

    /// Makes a job ready if it is due.
    fn promote(&mut self, slot: u32, now: Now) {
        self.make(slot, &Move::plain(Event::Due), now).expect("the clock is never refused");
    }

    /// Puts a job into every order there is.
    fn stand_up(&mut self, slot: u32, since: Tick) {
        let (life, entry) = (self.life(slot), self.arena[slot]);
        let stand = Stand { since, ..self.stand(slot, &entry, &life) };
        let orders = self.topics[entry.topic as usize].as_mut().expect("a job's topic is there");
        orders.enter(&self.arena, &stand);
        // Most only wait, behind others that are due before: nobody has to look at their topic.
        if stand.stage == Stage::Delayed && orders.listed_due.is_some_and(|due| due <= life.due) {
            return;
        }
        match life.state {
            At::Reserved(hold) => {
                self.leases.insert((hold.until, entry.number));
                self.owned.extend(hold.owner.map(|owner| (owner, entry.number)));
            }
            At::Dead { .. } => {
                if let Some(error) = self.last_error(slot) {
                    self.orders_mut(slot).count_error(&error, true);
                }
            }
            _ => {}
        }
        let lapses = self.lapses_at(slot, &life);
        self.lapses.extend(lapses.map(|at| (at, entry.number)));
        self.look_again(entry.topic);
    }

    /// Where a job stands in its topic.
    fn stand(&self, slot: u32, entry: &Entry, life: &Life) -> Stand {
        let mut stand = Stand::new(entry, slot, life);
        if stand.stage == Stage::Ready && stand.own_target {
            let target = self.own(slot).and_then(|own| own.target.as_ref());
            let topic = &self.orders_of(slot).name;
            stand.destination = target.map(|target| Destination::of(topic, target));
        }
        stand
    }

    /// Takes a job out of the same; answers since when it was ready, if it was.
    fn stand_down(&mut self, slot: u32) -> Option<Tick> {
        let (life, entry) = (self.life(slot), self.arena[slot]);
        let stand = self.stand(slot, &entry, &life);
        let orders = self.topics[entry.topic as usize].as_mut().expect("a job's topic is there");
        let since = orders.leave(&self.arena, &stand);
        self.unlist(slot, &entry, &life);
        if matches!(life.state, At::Dead { .. })
            && let Some(error) = self.last_error(slot)
        {
            self.orders_mut(slot).count_error(&error, false);
        }
        self.look_again(entry.topic);
        since
    }

    /// Takes a job out of the orders that span topics.
    fn unlist(&mut self, slot: u32, entry: &Entry, life: &Life) {
        if let At::Reserved(hold) = life.state {
            self.leases.remove(&(hold.until, entry.number));
            if let Some(owner) = hold.owner {
                self.owned.remove(&(owner, entry.number));
            }
        }
        if let Some(at) = self.lapses_at(slot, life) {
            self.lapses.remove(&(at, entry.number));
        }
    }

    /// When it is no longer kept, dead or finished; none if it is neither, or is kept for ever.
    fn lapses_at(&self, slot: u32, life: &Life) -> Option<Time> {
        match life.state {
            At::Finished { until, .. } => Some(until),
            At::Dead { at } => {
                let retain = self.orders_of(slot).settings.retain_dead;
                retain.map(|retain| at.saturating_add_ms(duration_ms(retain)))
            }
            _ => None,
        }
    }

    /// Notes that a topic has changed.
    fn look_again(&mut self, topic: u32) {
        let orders = self.topics[topic as usize].as_mut().expect("the topic is there");
        for (lane, with_ready) in [Lane::Pull, Lane::Push].into_iter().zip(&mut self.with_ready) {
            let head = orders.head(lane).as_ref().map(ReadyKey::place);
            let before = std::mem::replace(&mut orders.listed[lane as usize], head);
            if before != head {
                before.map(|place| with_ready.remove(&place));
                head.map(|place| with_ready.insert(place, topic));
            }
        }
        let due = orders.first_due().map(|key| Time::from_ms(key.due_ms()).unwrap_or(Time::MAX));
        let before = std::mem::replace(&mut orders.listed_due, due);
        if before != due {
            before.map(|due| self.due_heads.remove(&(due, topic)));
            self.due_heads.extend(due.map(|due| (due, topic)));
        }
        self.dirty.insert(topic);
    }

    fn put_cold(&mut self, number: u64, decided: Decided, payload: &[u8], check: u32) -> Place {
        let place = self.log.put_cold(number, decided, payload, check);
        self.know_begun();
        place
    }

    /// Takes note of the segments that the log has begun.
    pub(crate) fn know_begun(&mut self) {
        for segment in self.log.take_begun() {
            self.segments.insert(segment);
            // The next one is to be made before it is needed.
            self.keeper.ring();
        }
    }

    /// The job as it is now.
    pub(crate) fn snapshot(&self, slot: u32) -> Snapshot {
        let entry = &self.arena[slot];
        let notes = self.notes(entry).iter().map(|note| self.segments.pin(*note)).collect();
        Snapshot {
            number: entry.number,
            life: self.life(slot),
            last_error: self.last_error(slot),
            cold: self.segments.pin(entry.cold),
            notes,
        }
    }

    /// A topic's settings, for an answer.
    fn settings_of(&self, slot: u32) -> Arc<Settings> {
        self.orders_of(slot).settings.clone()
    }
}

/// Spreads numbers over a table, 64 that follow one another side by side: those are added, and
/// often finished, one after the other, and then most are found where the one before was.
fn spread(number: u64) -> u64 {
    const RUN: u64 = 63;
    let run = number >> 6;
    let mixed = (run ^ run >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ mixed >> 29;
    // The table tells neighbours apart by the highest bits.
    (mixed & !RUN | number & RUN) ^ number << 57
}

fn noted(note: Note, before: &Life, made: &Move, now: Now) -> Noted {
    Noted {
        at: now.time(),
        what: note.what,
        attempt: before.attempt,
        took_ms: note.took_ms,
        error: made.error.clone().or(note.error.map(Arc::from)),
        report: made.report.clone(),
        by: made.by.clone(),
    }
    .clipped()
}

fn standing(number: u64, life: &Life, now: Now) -> Standing {
    let reserved_until = match life.state {
        At::Reserved(hold) => Some(now.time_at(hold.until)),
        _ => None,
    };
    Standing {
        number,
        stage: life.stage(),
        due: life.due,
        priority: life.priority,
        attempt: life.attempt,
        occurrence: life.occurrence,
        version: life.version,
        reserved_until,
    }
}
