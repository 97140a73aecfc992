//! What happens to jobs and topics.

use super::All;
use crate::error::Result;
use crate::job::{Body, NewJob, OnConflict, Spec};
use crate::machine::{Event, Next, Owner, Refusal, State, Step};
use crate::queue::{
    Added, Change, Changed, End, Filter, How, Key, LetGo, Mode, Settle, Sweep, TopicChange,
    UniqueIds, Verdict, Was, Whole,
};
use crate::record::{
    InForce, Move, Record, already_exists, check_version, ending, moved, no_topic, not_found, was,
};
use crate::time::{Now, Tick, duration_ms};
use crate::topic::{Bucket, Pause, Settings, Topic};

/// A job, and since when it is ready if it is.
pub(super) struct Kept {
    pub(super) record: Record,
    pub(super) ready_since: Tick,
}

impl Kept {
    pub(super) fn topic(&self) -> &Topic {
        &self.record.spec.topic
    }

    fn body_bytes(&self) -> u64 {
        self.record.body.as_bytes().len() as u64
    }

    pub(super) fn state(&self) -> State {
        self.record.life.state
    }
}

/// A topic.
#[derive(Default)]
pub(super) struct Place {
    pub(super) settings: Settings,
    pub(super) pause: Pause,
    pub(super) bucket: Bucket,
    pub(super) added: u64,
}

/// What the clock brings.
impl All {
    pub(super) fn expire(&mut self, now: Now) {
        for number in self.numbers(|_| true) {
            self.make(number, &Move::unasked(Event::Expire), now).expect("a lease may end");
        }
    }

    pub(super) fn promote(&mut self, now: Now) {
        for number in self.numbers(|_| true) {
            let due = self.job(number).record.life.due;
            if self.promote_one(number, now) {
                self.stats.due_to_ready.record(now.late_us(due));
            }
        }
    }

    pub(super) fn end_pauses(&mut self, now: Now) {
        for place in self.topics.values_mut().filter(|place| !place.pause.holds(now.tick)) {
            place.pause = Pause::No;
        }
    }

    pub(super) fn lapse(&mut self, now: Now) {
        for number in self.numbers(|job| self.is_over(job, now)) {
            self.make(number, &Move::plain(Event::Lapse), now).expect("what is over may go");
        }
    }

    fn is_over(&self, job: &Kept, now: Now) -> bool {
        let at = job.record.lapses_at(&self.settings(job.topic()));
        at.is_some_and(|at| at <= now.time())
    }

    pub(super) fn drop_empty_topics(&mut self) {
        let empty = |(topic, place): (&Topic, &Place)| {
            let bare = place.settings == Settings::default() && place.pause == Pause::No;
            let named = self.jobs.iter().any(|job| job.topic() == topic)
                || self.waiters.iter().any(|waiter| waiter.names(topic));
            (bare && !named).then(|| topic.clone())
        };
        for topic in self.topics.iter().filter_map(empty).collect::<Vec<_>>() {
            self.topics.remove(&topic);
        }
    }
}

/// What callers do to jobs.
impl All {
    pub(super) fn add(&mut self, new: NewJob, now: Now) -> Result<Added> {
        let on_conflict = new.on_conflict;
        let record = Record::new(self.numbers_used + 1, new, now)?;
        let spec = &record.spec;
        self.check_elsewhere(spec)?;
        let old = self.number(&Key::Named(spec.topic.clone(), spec.id.clone())).ok();
        match (old, on_conflict) {
            (None, _) => {
                let same = |job: &&Kept| job.topic() == &spec.topic;
                let jobs = || self.jobs.iter().filter(same).count() as u64;
                self.settings(&spec.topic).check_room(&spec.topic, jobs)?;
                self.check_bytes(&spec.topic, 0, &record.body)?;
                Ok(self.store(record, How::New, now))
            }
            (Some(_), OnConflict::Reject) => Err(already_exists(&spec.topic, &spec.id)),
            (Some(old), OnConflict::Keep) => {
                Ok(Added { how: How::Kept, job: self.job(old).record.info(now) })
            }
            (Some(old), OnConflict::Replace) => {
                self.check_bytes(&spec.topic, self.job(old).body_bytes(), &record.body)?;
                self.jobs.retain(|job| job.record.number != old);
                Ok(self.store(record, How::Replaced, now))
            }
        }
    }

    pub(super) fn restore(&mut self, whole: Whole, now: Now) -> Result<bool> {
        let record = Record::restored(self.numbers_used + 1, whole, now)?;
        let spec = &record.spec;
        self.check_elsewhere(spec)?;
        let is_new = self.number(&Key::Named(spec.topic.clone(), spec.id.clone())).is_err();
        if is_new {
            self.store(record, How::New, now);
        }
        Ok(is_new)
    }

    /// Refuses an id that stands in another topic, if that may not be.
    fn check_elsewhere(&self, spec: &Spec) -> Result<()> {
        if self.unique_ids == UniqueIds::Global
            && let Some(other) = self.jobs.iter().find(|job| {
                let taken = &job.record.spec;
                taken.id == spec.id && taken.topic != spec.topic
            })
        {
            return Err(already_exists(&other.record.spec.topic, &other.record.spec.id));
        }
        Ok(())
    }

    /// Refuses a body in place of one of `was` bytes that the topic has no room for.
    fn check_bytes(&self, topic: &Topic, was: u64, body: &Body) -> Result<()> {
        let is = body.as_bytes().len() as u64;
        self.settings(topic).check_bytes(topic, self.bytes(topic), was, is)
    }

    /// What the bodies of a topic's jobs take together.
    pub(super) fn bytes(&self, topic: &Topic) -> u64 {
        self.jobs.iter().filter(|job| job.topic() == topic).map(Kept::body_bytes).sum()
    }

    fn store(&mut self, record: Record, how: How, now: Now) -> Added {
        self.numbers_used = record.number;
        self.stats.added += 1;
        self.place(&record.spec.topic).added += 1;
        let number = record.number;
        self.jobs.push(Kept { record, ready_since: now.tick });
        self.promote_one(number, now);
        Added { how, job: self.job(number).record.info(now) }
    }

    pub(super) fn settle(&mut self, settle: Settle, now: Now) -> Result<Changed> {
        let number = self.number(&settle.key)?;
        let recalled = settle.verdict == Verdict::Recall;
        let changed = self.change_to(number, &Move::settle(settle), now)?;
        if recalled {
            let topic = self.job(number).topic().clone();
            self.give_token_back(&topic);
        }
        Ok(changed)
    }

    pub(super) fn change(&mut self, change: Change, now: Now) -> Result<Changed> {
        let (key, if_version) = (change.key.clone(), change.if_version);
        let made = Move::change(change, now)?;
        let number = self.number(&key)?;
        check_version(if_version, self.job(number).record.life.version)?;
        if let Some(body) = made.patch.as_ref().and_then(|patch| patch.body.as_ref()) {
            self.step(number, &made.event, now)?;
            let job = self.job(number);
            self.check_bytes(job.topic(), job.body_bytes(), body)?;
        }
        self.change_to(number, &made, now)
    }

    fn change_to(&mut self, number: u64, made: &Move, now: Now) -> Result<Changed> {
        let was = self.make(number, made, now)?;
        let left = self.jobs.iter().find(|job| job.record.number == number);
        let job = left.map(|job| job.record.standing(now));
        Ok(Changed { changed: was.is_some(), job, was })
    }

    pub(super) fn sweep(&mut self, sweep: &Sweep, now: Now) -> u64 {
        let made = Move::bulk(sweep.bulk, sweep.by.clone());
        let limit = sweep.limit.unwrap_or(u64::MAX);
        let mut count = 0;
        for number in self.in_order(&sweep.topic, &sweep.filter) {
            if count == limit {
                break;
            }
            let changed = match sweep.mode {
                Mode::Apply => self.make(number, &made, now).map(|was| was.is_some()),
                Mode::DryRun => {
                    self.step(number, &made.event, now).map(|step| step.next != Next::Same)
                }
            };
            count += u64::from(changed == Ok(true));
        }
        count
    }

    fn in_order(&self, topic: &Topic, filter: &Filter) -> Vec<u64> {
        self.fitting(topic, filter).iter().map(|job| job.record.number).collect()
    }

    pub(super) fn let_go(&mut self, owner: Owner, how: LetGo, now: Now) -> u64 {
        let mut count = 0;
        for number in self.numbers(|_| true) {
            let State::Reserved(hold) = self.job(number).state() else { continue };
            if hold.owner != Some(owner) {
                continue;
            }
            self.make(number, &Move::let_go(how), now).expect("what is held can be let go");
            count += 1;
        }
        count
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
        let place = self.place(topic);
        match change {
            TopicChange::Set(settings) => {
                place.settings = *settings;
                if let Some(rate) = place.settings.rate {
                    place.bucket.refit(rate, now.tick);
                }
            }
            TopicChange::Pause(None) => place.pause = Pause::Indefinitely,
            TopicChange::Pause(Some(length)) => {
                place.pause = Pause::Until(now.tick.plus_ms(duration_ms(length)));
            }
            TopicChange::Resume => place.pause = Pause::No,
            TopicChange::Empty => return Ok(self.empty(topic)),
            TopicChange::Forget => {
                (place.settings, place.pause) = Default::default();
                return Ok(self.empty(topic));
            }
        }
        self.end_pauses(now);
        Ok(0)
    }

    fn empty(&mut self, topic: &Topic) -> u64 {
        let before = self.jobs.len();
        self.jobs.retain(|job| job.topic() != topic);
        let gone = (before - self.jobs.len()) as u64;
        self.stats.deleted += gone;
        gone
    }
}

/// What all of that is made of.
impl All {
    /// Makes one move; says what the job was before if anything changed. The only place where a job
    /// moves.
    pub(super) fn make(
        &mut self,
        number: u64,
        made: &Move,
        now: Now,
    ) -> Result<Option<Was>, Refusal> {
        let step = self.step(number, &made.event, now)?;
        let before = self.job(number).record.life.clone();
        self.stats.count(&made.event, &before, &step);
        let ended = ending(&made.event, &before, &step.next);
        let was = was(number, &before, &step.next, now);
        if let (true, Some(moves), Some(was)) = (made.unasked, &self.moves, was) {
            let record = &self.job(number).record;
            moves.push(moved(&record.spec, was, step.note.as_ref(), made, now));
        }
        match step.next {
            Next::Same => {}
            Next::Gone => {
                self.archive(number, ended, made, now);
                self.jobs.retain(|job| job.record.number != number);
            }
            Next::Keep(life) => {
                let job = self.job_mut(number);
                if job.state() != State::Ready {
                    job.ready_since = now.tick;
                }
                job.record.turn_into(life, step.note, made, now);
                self.archive(number, ended, made, now);
                if made.event != Event::Due {
                    self.promote_one(number, now);
                }
            }
        }
        Ok(was)
    }

    fn archive(&self, number: u64, ended: Option<End>, made: &Move, now: Now) {
        let job = self.job(number);
        let archive = self.settings(job.topic()).archive.clone();
        if let (Some(how), Some(archive)) = (ended, archive) {
            self.leaving.push(job.record.ended(how, made, archive, now));
        }
    }

    /// Makes a job ready if it is due.
    fn promote_one(&mut self, number: u64, now: Now) -> bool {
        self.make(number, &Move::plain(Event::Due), now).expect("a job may be due").is_some()
    }

    fn step(&self, number: u64, event: &Event, now: Now) -> Result<Step, Refusal> {
        let record = &self.job(number).record;
        let settings = &self.settings(&record.spec.topic);
        record.step(event, self.in_force(settings), now)
    }

    pub(super) fn in_force<'a>(&'a self, settings: &'a Settings) -> InForce<'a> {
        InForce { settings, defaults: &self.defaults, dice: &self.dice }
    }

    pub(super) fn settings(&self, topic: &Topic) -> Settings {
        self.topics.get(topic).map(|place| place.settings.clone()).unwrap_or_default()
    }

    /// The topic, which comes to be by being named.
    pub(super) fn place(&mut self, topic: &Topic) -> &mut Place {
        self.topics.entry(topic.clone()).or_default()
    }

    fn numbers(&self, fits: impl Fn(&Kept) -> bool) -> Vec<u64> {
        self.jobs.iter().filter(|job| fits(job)).map(|job| job.record.number).collect()
    }

    pub(super) fn number(&self, key: &Key) -> Result<u64> {
        let named = |record: &Record| match key {
            Key::Named(topic, id) => record.spec.topic == *topic && record.spec.id == *id,
            Key::Number(number) => record.number == *number,
        };
        let found = self.jobs.iter().find(|job| named(&job.record));
        found.map(|job| job.record.number).ok_or_else(|| not_found(key))
    }

    pub(super) fn job(&self, number: u64) -> &Kept {
        let found = self.jobs.iter().find(|job| job.record.number == number);
        found.expect("the number was looked up")
    }

    fn job_mut(&mut self, number: u64) -> &mut Kept {
        let found = self.jobs.iter_mut().find(|job| job.record.number == number);
        found.expect("the number was looked up")
    }
}
