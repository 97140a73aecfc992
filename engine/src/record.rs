//! A job as a store keeps it, and how the words of [`crate::queue`] become events of
//! [`crate::machine`]. What every store does the same way, done once.

use std::sync::Arc;
use std::time::Duration;

use crate::dice::{Dice, Lease};
use crate::error::{Code, Error, Result};
use crate::history::{Entry, Notes, Report, What};
use crate::job::{
    Body, Caller, DELAY_MAX, Destination, Id, NewJob, Patch, Spec, Target, Ttr, When,
};
use crate::machine::{
    Event, Hold, Life, Next, Note, Reach, Refusal, Rules, Stage, State, Step, step,
};
use crate::queue::{
    Action, Bulk, Change, Delivery, End, Ended, JobInfo, Key, Lane, LetGo, Moved, Settle, Standing,
    Terms, Verdict, Was, Whole,
};
use crate::schedule::Repeat;
use crate::time::{Now, Tick, Time, duration_ms, format_duration};
use crate::topic::{Archive, Defaults, Settings, Topic};

/// A job as a store keeps it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its number.
    pub number: u64,
    /// What the caller said.
    pub spec: Spec,
    /// What it carries.
    pub body: Body,
    /// When it was added.
    pub created: Time,
    /// Who added it.
    pub by: Option<Caller>,
    /// The part that moves.
    pub life: Life,
    /// What happened to it.
    pub notes: Notes,
}

/// What is in force around a job: its topic's settings, the store's defaults, its dice.
#[derive(Clone, Copy, Debug)]
pub struct InForce<'a> {
    /// The topic's settings.
    pub settings: &'a Settings,
    /// What holds where they are silent.
    pub defaults: &'a Defaults,
    /// The store's dice.
    pub dice: &'a Dice,
}

/// Something that is to happen to a job, with what the history will say about it.
#[derive(Clone, Debug)]
pub struct Move {
    /// What happens.
    pub event: Event,
    /// What went wrong, in the caller's words.
    pub error: Option<Arc<str>>,
    /// What the receiver answered.
    pub report: Option<Report>,
    /// Who does it.
    pub by: Option<Caller>,
    /// The parts that change, if any.
    pub patch: Option<Patch>,
    /// Whether nobody is answered for this very job.
    pub unasked: bool,
}

impl Record {
    /// A new job, or why it can never be due.
    pub fn new(number: u64, new: NewJob, now: Now) -> Result<Record> {
        let due = first_due(new.when, new.spec.repeat.as_ref(), now)?;
        let life = Life::new(due, new.priority, new.held);
        let (created, notes) = (now.time(), Notes::default());
        Ok(Record { number, spec: new.spec, body: new.body, created, by: new.by, life, notes })
    }

    /// A job of another store, as it was there.
    pub fn restored(number: u64, whole: Whole, now: Now) -> Result<Record> {
        whole.check()?;
        let mut notes = Notes::default();
        whole.notes().into_iter().for_each(|entry| notes.push(entry));
        let life = restored_life(&whole, now);
        let Whole { spec, body, created, by, .. } = whole;
        Ok(Record { number, spec, body, created, by, life, notes })
    }

    /// What `event` makes of it; nothing is changed yet.
    pub fn step(&self, event: &Event, force: InForce<'_>, now: Now) -> Result<Step, Refusal> {
        let rules = Rules {
            retry: self
                .spec
                .retry
                .as_ref()
                .or(force.settings.retry.as_ref())
                .unwrap_or(&force.defaults.retry),
            repeat: self.spec.repeat.as_ref(),
            retain_ms: self.retain(force).map(duration_ms),
            chance: force.dice.jitter(self.number, self.life.attempt),
        };
        step(&self.life, event, &rules, now)
    }

    /// Takes on the life that a step led to, with the changes and the history that go with it.
    pub fn turn_into(&mut self, life: Life, note: Option<Note>, made: &Move, now: Now) {
        if let Some(note) = note {
            self.notes.push(Entry {
                at: now.time(),
                what: note.what,
                attempt: self.life.attempt,
                took_ms: note.took_ms,
                error: made.error.clone().or(note.error.map(Arc::from)),
                report: made.report.clone(),
                by: made.by.clone(),
            });
        }
        if let Some(patch) = &made.patch {
            self.apply(patch);
        }
        self.life = life;
    }

    fn apply(&mut self, patch: &Patch) {
        if let Some(body) = &patch.body {
            self.body = body.clone();
        }
        patch.ttr.apply(&mut self.spec.ttr);
        patch.retry.apply(&mut self.spec.retry);
        patch.target.apply(&mut self.spec.target);
    }

    /// The hold that a hand-out on these terms would make.
    pub fn hold(&self, terms: Terms, force: InForce<'_>, now: Now) -> Hold {
        let ttr = terms.ttr.or(self.spec.ttr).or(force.settings.ttr).unwrap_or(force.defaults.ttr);
        Hold {
            lease: self.next_lease(force.dice),
            since: now.tick,
            until: now.tick.plus_ms(terms.lease_ms(ttr, force.settings)),
            ttr,
            owner: terms.owner,
        }
    }

    fn next_lease(&self, dice: &Dice) -> Lease {
        // By version, not by hand-outs: one that was recalled must not share a lease with the next.
        dice.lease(self.number, self.life.version)
    }

    /// When it is no longer kept, dead or finished; none if it is neither, or is kept for ever.
    pub fn lapses_at(&self, settings: &Settings) -> Option<Time> {
        match self.life.state {
            State::Finished { until, .. } => Some(until),
            State::Dead { at } => {
                settings.retain_dead.map(|retain| at.saturating_add_ms(duration_ms(retain)))
            }
            _ => None,
        }
    }

    /// Which lane it is handed out through.
    pub fn lane(&self, settings: &Settings) -> Lane {
        if self.target(settings).is_some() { Lane::Push } else { Lane::Pull }
    }

    /// Where it is pushed to, if it is pushed.
    pub fn destination(&self, settings: &Settings) -> Option<Destination> {
        self.target(settings).map(|target| Destination::of(&self.spec.topic, target))
    }

    fn target<'a>(&'a self, settings: &'a Settings) -> Option<&'a Target> {
        self.spec.target.as_ref().or(settings.target.as_ref())
    }

    fn retain(&self, force: InForce<'_>) -> Option<Duration> {
        self.spec.retain.or(force.settings.retain).or(force.defaults.retain)
    }

    /// Where the job stands.
    pub fn standing(&self, now: Now) -> Standing {
        Standing {
            number: self.number,
            stage: self.life.stage(),
            due: self.life.due,
            priority: self.life.priority,
            attempt: self.life.attempt,
            occurrence: self.life.occurrence,
            version: self.life.version,
            reserved_until: self.reserved_until(now),
        }
    }

    fn reserved_until(&self, now: Now) -> Option<Time> {
        match &self.life.state {
            State::Reserved(hold) => Some(now.time_at(hold.until)),
            _ => None,
        }
    }

    /// The job as callers see it, without body and history.
    pub fn info(&self, now: Now) -> JobInfo {
        JobInfo {
            number: self.number,
            spec: self.spec.clone(),
            body: None,
            stage: self.life.stage(),
            due: self.life.due,
            priority: self.life.priority,
            base: self.life.base,
            attempt: self.life.attempt,
            occurrence: self.life.occurrence,
            version: self.life.version,
            created: self.created,
            reserved_until: self.reserved_until(now),
            last_error: self.notes.last_error().cloned(),
            tally: self.life.tally,
            history: Vec::new(),
        }
    }

    /// The job as callers see it, with its body.
    pub fn info_with_body(&self, now: Now) -> JobInfo {
        JobInfo { body: Some(self.body.clone()), ..self.info(now) }
    }

    /// The job as callers see it, with its body and history.
    pub fn info_in_full(&self, now: Now) -> JobInfo {
        let added = Entry {
            at: self.created,
            what: What::Added,
            attempt: 0,
            took_ms: None,
            error: None,
            report: None,
            by: self.by.clone(),
        };
        let history = std::iter::once(added).chain(self.notes.entries().cloned()).collect();
        JobInfo { history, ..self.info_with_body(now) }
    }

    /// The job with all that is kept of it, for another store.
    pub fn whole(&self, now: Now) -> Whole {
        let mut life = self.life.clone();
        if let State::Reserved(hold) = &mut life.state {
            (hold.since, hold.until, hold.owner) = (Tick::default(), Tick::default(), None);
        }
        Whole {
            spec: self.spec.clone(),
            body: self.body.clone(),
            created: self.created,
            by: self.by.clone(),
            life,
            reserved_until: self.reserved_until(now),
            last_error: self.notes.last_error().cloned(),
            history: self.notes.entries().cloned().collect(),
        }
    }

    /// The job at the end of its life.
    pub fn ended(&self, how: End, made: &Move, archive: Archive, now: Now) -> Ended {
        let mut job = JobInfo { reserved_until: None, ..self.info_in_full(now) };
        match how {
            End::Finished => job.stage = Stage::Finished,
            End::Dead => job.stage = Stage::Dead,
            End::Deleted => {}
        }
        Ended {
            job,
            how,
            at: now.time(),
            report: made.report.clone(),
            by: made.by.clone(),
            archive,
        }
    }

    /// The job as its new holder sees it.
    pub fn delivery(&self, hold: Hold, settings: &Settings, now: Now) -> Delivery {
        Delivery {
            job: self.info_with_body(now),
            lease: hold.lease,
            until: now.time_at(hold.until),
            ttr: hold.ttr,
            within: settings.attempt_time(hold.ttr),
            target: self.target(settings).cloned(),
            confirm: self.spec.confirm.or(settings.confirm).unwrap_or_default(),
            envelope: self.spec.envelope.or(settings.envelope).unwrap_or_default(),
            headers: settings.headers.clone(),
        }
    }
}

impl Move {
    /// An event that nobody asked for.
    pub fn plain(event: Event) -> Move {
        Move { event, error: None, report: None, by: None, patch: None, unasked: false }
    }

    /// Something that the clock or the end of a connection brings, of which nobody is told.
    pub fn unasked(event: Event) -> Move {
        Move { unasked: true, ..Move::plain(event) }
    }

    /// The end of an attempt, as the holder says it.
    pub fn settle(settle: Settle) -> Move {
        let lease = settle.lease;
        let retry_ms = |retry_in: Option<Duration>| retry_in.map(duration_ms);
        let (event, error) = match settle.verdict {
            Verdict::Finish => (Event::Finish(lease), None),
            Verdict::Fail { error, retry_in } => {
                (Event::Fail { lease, retry_in_ms: retry_ms(retry_in) }, Some(error))
            }
            Verdict::Again { retry_in } => {
                (Event::Again { lease, retry_in_ms: retry_ms(retry_in) }, None)
            }
            Verdict::Release { delay, priority } => {
                (Event::Release { lease, delay_ms: duration_ms(delay), priority }, None)
            }
            Verdict::Touch { ttr } => (Event::Touch { lease, ttr }, None),
            Verdict::Bury { error, priority } => (Event::Bury { lease, priority }, error),
            Verdict::Leave => (Event::Leave(lease), None),
            Verdict::Recall => (Event::Recall(lease), None),
        };
        Move { error, report: settle.report, by: settle.by, ..Move::plain(event) }
    }

    /// A change by hand, or why it can never be made.
    pub fn change(change: Change, now: Now) -> Result<Move> {
        let mut patched = None;
        let event = match change.action {
            Action::Update(patch) => {
                let due = patch.when.map(|when| due_of(when, now)).transpose()?;
                let priority = patch.priority;
                patched = Some(patch);
                Event::Update { due, priority }
            }
            Action::Hold => Event::Hold,
            Action::Unhold => Event::Unhold,
            Action::Run => Event::Run,
            Action::Redrive => Event::Redrive,
            Action::Delete(reach) => Event::Delete(reach),
        };
        Ok(Move { by: change.by, patch: patched, ..Move::plain(event) })
    }

    /// The end of a lease together with its owner's others.
    pub fn let_go(how: LetGo) -> Move {
        Move::unasked(match how {
            LetGo::Lost => Event::Lost,
            LetGo::Released => Event::Release { lease: None, delay_ms: 0, priority: None },
        })
    }

    /// What a sweep does to each job.
    pub fn bulk(bulk: Bulk, by: Option<Caller>) -> Move {
        let event = match bulk {
            Bulk::Finish => Event::Finish(None),
            Bulk::Delete => Event::Delete(Reach::Any),
            Bulk::Run => Event::Run,
            Bulk::Hold => Event::Hold,
            Bulk::Unhold => Event::Unhold,
            Bulk::Redrive => Event::Redrive,
        };
        Move { by, ..Move::unasked(event) }
    }
}

/// What a job was that is moved; none if nothing changes.
pub fn was(number: u64, before: &Life, next: &Next, now: Now) -> Option<Was> {
    let took_ms = match before.state {
        State::Reserved(hold) => Some(now.tick.ms_since(hold.since)),
        _ => None,
    };
    let died = match next {
        Next::Same => return None,
        Next::Gone => false,
        Next::Keep(after) => after.tally.deaths > before.tally.deaths,
    };
    Some(Was { number, attempt: before.attempt, took_ms, died })
}

/// What is told of a move of a job that nobody is answered for.
pub fn moved(spec: &Spec, was: Was, note: Option<&Note>, made: &Move, now: Now) -> Moved {
    Moved {
        topic: spec.topic.clone(),
        id: spec.id.clone(),
        was,
        what: happened(&made.event, note),
        at: now.time(),
        error: made.error.clone().or(note.and_then(|note| note.error).map(Arc::from)),
        by: made.by.clone(),
    }
}

/// What an event and its note come to; none if the job was deleted by it. A death is told besides: this
/// is what led to it.
fn happened(event: &Event, note: Option<&Note>) -> Option<What> {
    match event {
        Event::Expire => Some(What::TimedOut),
        Event::Lost => Some(What::Lost),
        Event::Finish(_) => Some(What::Finished),
        _ => note.map(|note| note.what),
    }
}

/// The life of a job of another store, by the clock of this one.
pub(crate) fn restored_life(whole: &Whole, now: Now) -> Life {
    let mut life = whole.life.clone();
    if let (State::Reserved(hold), Some(until)) = (&mut life.state, whole.reserved_until) {
        // No lease lasts longer than a ttr may be, whatever the clocks of the two show.
        let until_us = i128::from(now.tick.as_us()) + i128::from(until.as_ms()) * 1000
            - i128::from(now.wall_us);
        let longest = now.tick.plus_ms(duration_ms(Ttr::MAX));
        hold.until = Tick::from_us(u64::try_from(until_us.max(0)).unwrap_or(u64::MAX)).min(longest);
        // As if it had not been touched.
        let since_us = hold.until.as_us().saturating_sub(hold.ttr.as_ms() * 1000);
        hold.since = Tick::from_us(since_us).min(now.tick);
        hold.owner = None;
    }
    life
}

/// What became of a job, if this step is the end of its life.
///
/// One that had ended before, and is now only seen no more, is not told again.
pub fn ending(event: &Event, before: &Life, next: &Next) -> Option<End> {
    let had_ended = matches!(before.state, State::Dead { .. } | State::Finished { .. });
    match (event, next) {
        (_, Next::Same) => None,
        (_, Next::Keep(Life { state: State::Dead { .. }, .. })) if !had_ended => Some(End::Dead),
        (Event::Finish(_), Next::Gone) => Some(End::Finished),
        (_, Next::Keep(Life { state: State::Finished { .. }, .. })) => Some(End::Finished),
        (Event::Delete(_), Next::Gone) if !had_ended => Some(End::Deleted),
        _ => None,
    }
}

/// Refuses a change to a job that is not at the version the caller has seen.
pub fn check_version(if_version: Option<u64>, version: u64) -> Result<()> {
    match if_version {
        Some(seen) if seen != version => Err(Error::new(
            Code::VersionMismatch,
            format!("the job is at version {version}, not {seen}; look at it again"),
        )
        .field("if_version")),
        _ => Ok(()),
    }
}

/// The answer when no job has this key.
pub fn not_found(key: &Key) -> Error {
    let message = match key {
        Key::Named(topic, id) => format!("topic `{topic}` has no job `{id}`"),
        Key::Number(number) => format!("there is no job number {number}"),
    };
    Error::new(Code::NotFound, message)
}

/// The answer when there is no such topic.
pub fn no_topic(topic: &Topic) -> Error {
    Error::new(Code::NotFound, format!("there is no topic `{topic}`"))
}

/// The answer when the id of a new job is taken in this topic.
pub fn already_exists(topic: &Topic, id: &Id) -> Error {
    let message = format!("topic `{topic}` has a job `{id}` already");
    Error::new(Code::AlreadyExists, message).field("id")
}

/// When a new job is first due, or why it can never be.
pub(crate) fn first_due(when: Option<When>, repeat: Option<&Repeat>, now: Now) -> Result<Time> {
    let asked = when.map(|when| due_of(when, now)).transpose()?;
    match repeat {
        None => Ok(asked.unwrap_or(now.time())),
        Some(repeat) => repeat.first(asked, now).ok_or_else(|| {
            Error::invalid(
                "repeat",
                "the repeat is over before its first due time; give a later until or an earlier first time",
            )
        }),
    }
}

fn due_of(when: When, now: Now) -> Result<Time> {
    match when {
        When::At(at) => Ok(at),
        When::In(Duration::ZERO) => Ok(now.time()),
        When::In(delay) => {
            now.after_ms(duration_ms(delay)).filter(|_| delay <= DELAY_MAX).ok_or_else(|| {
                let (delay, max) = (format_duration(delay), format_duration(DELAY_MAX));
                Error::invalid("delay", format!("delay is {delay}, over the limit of {max}"))
            })
        }
    }
}
