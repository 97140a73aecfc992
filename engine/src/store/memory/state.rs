//! All there is, and the one way in which a job moves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::dice::Dice;
use crate::error::Result;
use crate::job::{Body, Id, NewJob, OnConflict, Spec};
use crate::machine::{Event, Next, Owner, Refusal, State as At, Step};
use crate::queue::{
    Added, Change, Changed, End, Ended, How, Key, Lane, LetGo, Mode, Moved, Settle, Sweep,
    TopicChange, UniqueIds, Verdict, Was, Whole,
};
use crate::record::{
    InForce, Move, Record, already_exists, check_version, ending, moved, no_topic, not_found, was,
};
use crate::stats::Stats;
use crate::store::Options;
use crate::time::{Now, StepWatch, Tick, Time, Wake, duration_ms};
use crate::topic::{Counts, Defaults, Pause, Settings, Topic};

use super::orders::{Counted, Orders, Place, Stands, set};
use super::pop::Waiters;
use crate::store::kv::Kv;
use crate::store::leaving::Leaving;

pub(super) struct State {
    pub(super) defaults: Defaults,
    pub(super) stopping: bool,
    /// Jobs that have ended, for the archive.
    pub(super) leaving: Arc<Leaving<Ended>>,
    /// Moves that nobody is told of, if somebody wants to know.
    pub(super) moves: Option<Arc<Leaving<Moved>>>,
    dice: Dice,
    unique_ids: UniqueIds,
    jobs: HashMap<u64, Kept>,
    /// By topic and id: looked up whole, as one id may stand in any number of topics.
    names: HashMap<(Topic, Id), u64>,
    ids: HashMap<Id, BTreeSet<u64>>,
    next_number: u64,
    pub(super) topics: BTreeMap<Topic, Orders>,
    /// Topics that changed and have to be looked at by `serve`.
    pub(super) dirty: BTreeSet<Topic>,
    /// Topics with ready jobs by the first of these, by lane.
    pub(super) with_ready: [BTreeMap<Place, Topic>; 2],
    pub(super) waiters: Waiters,
    pub(super) kv: Kv,
    /// Every job that waits for its due time.
    pub(super) due: Counted,
    /// Every lease by its end.
    leases: BTreeSet<(Tick, u64)>,
    /// Every lease that is tied to a connection, by that.
    owned: BTreeSet<(Owner, u64)>,
    /// Every dead or finished job that is not kept for ever, by when it goes.
    lapses: BTreeSet<(Time, u64)>,
    /// When a pause ends, or a used-up rate has its next token.
    pub(super) opens: BTreeSet<(Tick, Topic)>,
    watch: StepWatch,
    stats: Stats,
    armed: Wake,
}

struct Kept {
    record: Record,
    ready_since: Tick,
}

impl State {
    pub(super) fn new(options: Options) -> State {
        State {
            defaults: options.defaults,
            stopping: false,
            leaving: Arc::new(Leaving::to_archive()),
            moves: options.tells_moves.then(|| Arc::new(Leaving::to_log())),
            dice: options.dice,
            unique_ids: options.unique_ids,
            jobs: HashMap::new(),
            names: HashMap::new(),
            ids: HashMap::new(),
            next_number: 1,
            topics: BTreeMap::new(),
            dirty: BTreeSet::new(),
            with_ready: Default::default(),
            waiters: Waiters::default(),
            kv: Kv::default(),
            due: Counted::default(),
            leases: BTreeSet::new(),
            owned: BTreeSet::new(),
            lapses: BTreeSet::new(),
            opens: BTreeSet::new(),
            watch: StepWatch::default(),
            stats: Stats::default(),
            armed: Wake::default(),
        }
    }

    pub(super) fn add(&mut self, new: NewJob, now: Now) -> Result<Added> {
        let on_conflict = new.on_conflict;
        let record = Record::new(self.next_number, new, now)?;
        let mut how = How::New;
        if let Some(taken) = self.conflicting(&record)? {
            match on_conflict {
                OnConflict::Reject => {
                    return Err(already_exists(&record.spec.topic, &record.spec.id));
                }
                OnConflict::Keep => {
                    return Ok(Added { how: How::Kept, job: self.job(taken).info(now) });
                }
                OnConflict::Replace => {
                    self.check_growth(taken, &record.body)?;
                    self.remove(taken);
                    how = How::Replaced;
                }
            }
        } else if let Some(orders) = self.topics.get(&record.spec.topic) {
            orders.settings.check_room(&record.spec.topic, || orders.counts().total())?;
            let bytes = record.body.as_bytes().len() as u64;
            orders.settings.check_bytes(&record.spec.topic, orders.bytes, 0, bytes)?;
        }
        let number = self.insert(record, now);
        Ok(Added { how, job: self.job(number).info(now) })
    }

    /// Refuses a body in place of a job's own that its topic has no room for.
    fn check_growth(&self, number: u64, body: &Body) -> Result<()> {
        let Record { spec, body: was, .. } = self.job(number);
        let orders = &self.topics[&spec.topic];
        let [was, is] = [was, body].map(|body| body.as_bytes().len() as u64);
        orders.settings.check_bytes(&spec.topic, orders.bytes, was, is)
    }

    pub(super) fn restore(&mut self, whole: Whole, now: Now) -> Result<bool> {
        let record = Record::restored(self.next_number, whole, now)?;
        let is_new = self.conflicting(&record)?.is_none();
        if is_new {
            self.insert(record, now);
        }
        Ok(is_new)
    }

    /// The job that has this topic and id, or a refusal if the id may not be in a second topic.
    fn conflicting(&self, record: &Record) -> Result<Option<u64>> {
        let same = self.named(&record.spec.topic, &record.spec.id);
        match (self.unique_ids, self.by_id(&record.spec.id).next()) {
            (UniqueIds::Global, Some(other)) if same.is_none() => {
                Err(already_exists(&other.spec.topic, &other.spec.id))
            }
            _ => Ok(same),
        }
    }

    fn insert(&mut self, record: Record, now: Now) -> u64 {
        let number = record.number;
        self.next_number += 1;
        self.stats.added += 1;
        self.topics.entry(record.spec.topic.clone()).or_default().added += 1;
        self.names.insert((record.spec.topic.clone(), record.spec.id.clone()), number);
        self.ids.entry(record.spec.id.clone()).or_default().insert(number);
        self.jobs.insert(number, Kept { record, ready_since: now.tick });
        self.stand(number, Stands::Yes);
        self.promote(number, now);
        number
    }

    fn remove(&mut self, number: u64) {
        self.stand(number, Stands::No);
        let Spec { topic, id, .. } =
            self.jobs.remove(&number).expect("the job is there").record.spec;
        let same_id = self.ids.get_mut(&id).expect("its id is there");
        same_id.remove(&number);
        if same_id.is_empty() {
            self.ids.remove(&id);
        }
        self.names.remove(&(topic, id));
    }

    pub(super) fn settle(&mut self, settle: Settle, now: Now) -> Result<Changed> {
        let number = self.number_of(&settle.key).ok_or_else(|| not_found(&settle.key))?;
        let recalled = settle.verdict == Verdict::Recall;
        let changed = self.make_and_show(number, &Move::settle(settle), now)?;
        if recalled {
            self.give_token_back(number);
        }
        Ok(changed)
    }

    pub(super) fn change(&mut self, change: Change, now: Now) -> Result<Changed> {
        let (key, if_version) = (change.key.clone(), change.if_version);
        let made = Move::change(change, now)?;
        let number = self.number_of(&key).ok_or_else(|| not_found(&key))?;
        check_version(if_version, self.job(number).life.version)?;
        if let Some(body) = made.patch.as_ref().and_then(|patch| patch.body.as_ref()) {
            self.step(number, &made.event, now)?;
            self.check_growth(number, body)?;
        }
        self.make_and_show(number, &made, now)
    }

    fn make_and_show(&mut self, number: u64, made: &Move, now: Now) -> Result<Changed> {
        let was = self.make(number, made, now)?;
        let job = self.jobs.get(&number).map(|kept| kept.record.standing(now));
        Ok(Changed { changed: was.is_some(), job, was })
    }

    pub(super) fn sweep(&mut self, sweep: Sweep, now: Now) -> u64 {
        let made = Move::bulk(sweep.bulk, sweep.by);
        let limit = sweep.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let numbers: Vec<u64> = self
            .fitting(&sweep.topic, &sweep.filter)
            .filter(|number| self.step(*number, &made.event, now).is_ok_and(|step| step.changes()))
            .take(limit)
            .collect();
        if sweep.mode == Mode::Apply {
            for number in &numbers {
                self.make(*number, &made, now).expect("no job's step depends on another's");
            }
        }
        numbers.len() as u64
    }

    pub(super) fn let_go(&mut self, owner: Owner, how: LetGo, now: Now) -> u64 {
        let owned = self.owned.range((owner, 0)..=(owner, u64::MAX));
        let numbers: Vec<u64> = owned.map(|(_, number)| *number).collect();
        for number in &numbers {
            self.make(*number, &Move::let_go(how), now).expect("an owned job is reserved");
        }
        numbers.len() as u64
    }

    /// The one way in which a job moves: decided by the machine, then carried out as a whole. Answers
    /// what it was before, unless nothing changed.
    pub(super) fn make(
        &mut self,
        number: u64,
        made: &Move,
        now: Now,
    ) -> Result<Option<Was>, Refusal> {
        let step = self.step(number, &made.event, now)?;
        let was = was(number, &self.job(number).life, &step.next, now);
        self.tell(number, was, &step, made, now);
        self.count(number, &made.event, &step, now);
        let ended = ending(&made.event, &self.job(number).life, &step.next);
        match step.next {
            Next::Same => {}
            Next::Gone => {
                self.archive(number, ended, made, now);
                self.remove(number);
            }
            Next::Keep(life) => {
                self.stand(number, Stands::No);
                let kept = self.jobs.get_mut(&number).expect("the job is there");
                if life.state == At::Ready && kept.record.life.state != At::Ready {
                    kept.ready_since = now.tick;
                }
                kept.record.turn_into(life, step.note, made, now);
                self.stand(number, Stands::Yes);
                self.archive(number, ended, made, now);
                if made.event != Event::Due {
                    self.promote(number, now);
                }
            }
        }
        Ok(was)
    }

    /// Tells of a move that nobody is answered for.
    fn tell(&self, number: u64, was: Option<Was>, step: &Step, made: &Move, now: Now) {
        if let (true, Some(moves), Some(was)) = (made.unasked, &self.moves, was) {
            moves.push(moved(&self.job(number).spec, was, step.note.as_ref(), made, now));
        }
    }

    /// Sends a job on its way to the archive, if it has ended and its topic names one.
    fn archive(&self, number: u64, ended: Option<End>, made: &Move, now: Now) {
        let job = self.job(number);
        let archive = self.topics[&job.spec.topic].settings.archive.clone();
        if let (Some(how), Some(archive)) = (ended, archive) {
            self.leaving.push(job.ended(how, made, archive, now));
        }
    }

    fn step(&self, number: u64, event: &Event, now: Now) -> Result<Step, Refusal> {
        let job = self.job(number);
        job.step(event, self.in_force(job), now)
    }

    /// Makes a job ready if it is due.
    fn promote(&mut self, number: u64, now: Now) {
        self.make(number, &Move::plain(Event::Due), now).expect("the clock is never refused");
    }

    fn count(&mut self, number: u64, event: &Event, step: &Step, now: Now) {
        let Kept { record, ready_since } = &self.jobs[&number];
        self.stats.count(event, &record.life, step);
        let hand_out = matches!(event, Event::Reserve(_) | Event::ReserveNamed(_));
        if hand_out && record.life.state == At::Ready {
            let late_us = now.tick.as_us() - ready_since.as_us();
            self.stats.ready_to_handed_out.record(late_us);
        }
    }

    /// Puts a job into every order there is, or takes it out of the same.
    fn stand(&mut self, number: u64, stands: Stands) {
        let record = &self.jobs[&number].record;
        let topic = &record.spec.topic;
        let orders = self.topics.get_mut(topic).expect("a job's topic is there");
        orders.stand(record, stands);
        match record.life.state {
            At::Waiting { held: false, .. } => self.due.stand((record.life.due, number), stands),
            At::Reserved(hold) => {
                set(&mut self.leases, (hold.until, number), stands);
                if let Some(owner) = hold.owner {
                    set(&mut self.owned, (owner, number), stands);
                }
            }
            _ => {}
        }
        if let Some(at) = record.lapses_at(&orders.settings) {
            set(&mut self.lapses, (at, number), stands);
        }
        let topic = topic.clone();
        self.look_again(topic);
    }

    /// Notes that a topic has changed.
    fn look_again(&mut self, topic: Topic) {
        let orders = self.topics.get_mut(&topic).expect("the topic is there");
        for (lane, with_ready) in [Lane::Pull, Lane::Push].into_iter().zip(&mut self.with_ready) {
            let head = orders.head(lane);
            let before = std::mem::replace(&mut orders.listed[lane as usize], head);
            if before != head {
                before.map(|place| with_ready.remove(&place));
                head.map(|place| with_ready.insert(place, topic.clone()));
            }
        }
        self.dirty.insert(topic);
    }

    /// Does what the clock has brought, in this order: leases that ran out, jobs that are due,
    /// pauses and keeping times that are over, those who wait, and those who waited long enough.
    pub(super) fn tick(&mut self, now: Now) {
        if let Some(step_ms) = self.watch.observe(now) {
            self.stats.clock_steps += 1;
            tracing::warn!(step_ms, "the wall clock was set");
        }
        self.expire(now);
        self.promote_due(now);
        self.open(now);
        self.lapse(now);
        self.kv.lapse(now);
        self.serve(now);
        self.end_waits(now);
        self.serve(now);
    }

    fn expire(&mut self, now: Now) {
        while let Some((until, number)) = self.leases.first().copied()
            && until <= now.tick
        {
            self.make(number, &Move::unasked(Event::Expire), now).expect("a lease may run out");
        }
    }

    fn promote_due(&mut self, now: Now) {
        while let Some((due, number)) = self.due.first()
            && due <= now.time()
        {
            self.stats.due_to_ready.record(now.late_us(due));
            self.promote(number, now);
        }
    }

    fn open(&mut self, now: Now) {
        while let Some((at, topic)) = self.opens.first().cloned()
            && at <= now.tick
        {
            self.opens.pop_first();
            if let Some(orders) = self.topics.get_mut(&topic) {
                if !orders.pause.holds(now.tick) {
                    orders.pause = Pause::No;
                }
                self.dirty.insert(topic);
            }
        }
    }

    fn lapse(&mut self, now: Now) {
        while let Some((at, number)) = self.lapses.first().copied()
            && at <= now.time()
        {
            self.make(number, &Move::plain(Event::Lapse), now).expect("what is over may go");
        }
    }

    pub(super) fn configure(
        &mut self,
        topic: &Topic,
        change: TopicChange,
        now: Now,
    ) -> Result<u64> {
        if !change.makes_topic() && !self.topics.contains_key(topic) {
            return Err(no_topic(topic));
        }
        let mut gone = 0;
        match change {
            TopicChange::Set(settings) => self.set(topic, *settings, now),
            TopicChange::Pause(length) => {
                let pause = length.map_or(Pause::Indefinitely, |length| {
                    Pause::Until(now.tick.plus_ms(duration_ms(length)))
                });
                self.pause(topic, pause);
            }
            TopicChange::Resume => self.pause(topic, Pause::No),
            TopicChange::Empty => gone = self.empty(topic),
            TopicChange::Forget => {
                gone = self.empty(topic);
                self.pause(topic, Pause::No);
                self.orders(topic).settings = Settings::default();
            }
        }
        self.look_again(topic.clone());
        Ok(gone)
    }

    fn pause(&mut self, topic: &Topic, pause: Pause) {
        let orders = self.topics.entry(topic.clone()).or_default();
        if let Pause::Until(end) = std::mem::replace(&mut orders.pause, pause) {
            self.opens.remove(&(end, topic.clone()));
        }
        if let Pause::Until(end) = pause {
            self.opens.insert((end, topic.clone()));
        }
    }

    fn set(&mut self, topic: &Topic, settings: Settings, now: Now) {
        // How long dead jobs are kept is part of where they stand.
        let numbers = self.topics.entry(topic.clone()).or_default().dead();
        for number in &numbers {
            self.stand(*number, Stands::No);
        }
        let orders = self.orders(topic);
        if let Some(rate) = settings.rate {
            orders.bucket.refit(rate, now.tick);
        }
        orders.settings = settings;
        for number in &numbers {
            self.stand(*number, Stands::Yes);
        }
    }

    fn empty(&mut self, topic: &Topic) -> u64 {
        let numbers = self.topics[topic].numbers();
        for number in &numbers {
            self.remove(*number);
        }
        self.stats.deleted += numbers.len() as u64;
        numbers.len() as u64
    }

    pub(super) fn drop_if_nothing(&mut self, topic: &Topic) {
        if self.topics.get(topic).is_some_and(Orders::is_nothing) {
            self.topics.remove(topic);
        }
    }

    pub(super) fn look(&self, key: &Key) -> Option<&Record> {
        self.number_of(key).map(|number| self.job(number))
    }

    pub(super) fn number_of(&self, key: &Key) -> Option<u64> {
        match key {
            Key::Number(number) => self.exists(*number).then_some(*number),
            Key::Named(topic, id) => self.named(topic, id),
        }
    }

    fn named(&self, topic: &Topic, id: &Id) -> Option<u64> {
        self.names.get(&(topic.clone(), id.clone())).copied()
    }

    pub(super) fn by_id(&self, id: &Id) -> impl Iterator<Item = &Record> {
        self.ids.get(id).into_iter().flatten().map(|number| self.job(*number))
    }

    pub(super) fn exists(&self, number: u64) -> bool {
        self.jobs.contains_key(&number)
    }

    pub(super) fn job(&self, number: u64) -> &Record {
        &self.jobs[&number].record
    }

    pub(super) fn in_force(&self, job: &Record) -> InForce<'_> {
        let settings = &self.topics[&job.spec.topic].settings;
        InForce { settings, defaults: &self.defaults, dice: &self.dice }
    }

    pub(super) fn orders_of(&mut self, number: u64) -> &mut Orders {
        let topic = self.jobs[&number].record.spec.topic.clone();
        self.orders(&topic)
    }

    fn orders(&mut self, topic: &Topic) -> &mut Orders {
        self.topics.get_mut(topic).expect("the topic is there")
    }

    pub(super) fn stats(&self) -> Stats {
        let mut counts = Counts::default();
        for orders in self.topics.values() {
            counts += orders.counts();
        }
        let (topics, waiting) = (self.topics.len() as u64, self.waiters.popping() as u64);
        Stats { counts, topics, waiting, ..self.stats.clone() }
    }

    /// Whether the timer sleeps too long for what is there now.
    pub(super) fn must_wake_earlier(&mut self) -> bool {
        let wake = self.wake();
        let earlier =
            is_earlier(wake.wall, self.armed.wall) || is_earlier(wake.tick, self.armed.tick);
        if earlier {
            self.armed = wake;
        }
        earlier
    }

    /// When the timer must look again.
    pub(super) fn arm(&mut self) -> Wake {
        self.armed = self.wake();
        self.armed
    }

    fn wake(&self) -> Wake {
        let due = self.due.first().map(|(due, _)| due);
        let lapse = self.lapses.first().map(|(at, _)| *at);
        let lease = self.leases.first().map(|(until, _)| *until);
        let open = self.opens.first().map(|(at, _)| *at);
        let ticks = [lease, open, self.waiters.next_end(), self.kv.next_end()];
        Wake { wall: due.into_iter().chain(lapse).min(), tick: ticks.into_iter().flatten().min() }
    }
}

fn is_earlier<T: Ord>(new: Option<T>, old: Option<T>) -> bool {
    match (new, old) {
        (Some(new), Some(old)) => new < old,
        (new, _) => new.is_some(),
    }
}
