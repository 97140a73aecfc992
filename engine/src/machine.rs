//! One job's life as a pure function. Every store must agree with [`step`].

mod event;
mod life;
#[cfg(test)]
mod tests;

pub use event::{
    BURIED, CONNECTION_LOST, Event, GAVE_UP, Next, Note, Reach, Refusal, Rules, Step, TTR_RAN_OUT,
};
pub use life::{Hold, Life, Owner, Stage, State, Tally};

use crate::dice::Lease;
use crate::history::What;
use crate::job::Ttr;
use crate::schedule::OnDead;
use crate::time::{Now, Time};

/// The whole life of a job: what it becomes when `event` happens at `now`, or why that may not be.
pub fn step(life: &Life, event: &Event, rules: &Rules<'_>, now: Now) -> Result<Step, Refusal> {
    let walk = Walk { life, rules, now };
    match event {
        Event::Due => Ok(walk.due()),
        Event::Reserve(hold) => walk.reserve(*hold),
        Event::ReserveNamed(hold) => walk.reserve_named(*hold),
        Event::Recall(lease) => walk.recall(*lease),
        Event::Expire => walk.expire(),
        Event::Lost => walk.lost(),
        Event::Finish(lease) => walk.finish(*lease),
        Event::Fail { lease, retry_in_ms } => walk.fail(*lease, *retry_in_ms),
        Event::Again { lease, retry_in_ms } => walk.again(*lease, *retry_in_ms),
        Event::Release { lease, delay_ms, priority } => walk.release(*lease, *delay_ms, *priority),
        Event::Touch { lease, ttr } => walk.touch(*lease, *ttr),
        Event::Leave(lease) => walk.leave(*lease),
        Event::Bury { lease, priority } => walk.bury(*lease, *priority),
        Event::Update { due, priority } => walk.update(*due, *priority),
        Event::Run => walk.run(),
        Event::Redrive => walk.redrive(),
        Event::Hold => walk.hold(),
        Event::Unhold => walk.unhold(),
        Event::Delete(reach) => walk.delete(*reach),
        Event::Lapse => walk.lapse(),
    }
}

const SAME: Step = Step { next: Next::Same, note: None };
const GONE: Step = Step { next: Next::Gone, note: None };
const READY: State = State::Ready;
const DELAYED: State = State::Waiting { retry: false, held: false };

/// How an attempt that did not finish ended.
struct Ending {
    what: What,
    took_ms: u64,
    error: Option<&'static str>,
}

struct Walk<'a> {
    life: &'a Life,
    rules: &'a Rules<'a>,
    now: Now,
}

type Walked = Result<Step, Refusal>;

impl Walk<'_> {
    fn due(&self) -> Step {
        match self.life.state {
            State::Waiting { held: false, .. } if self.is_due() => {
                // Derived from the clock, so not a change: the version stays.
                Step { next: Next::Keep(Life { state: READY, ..self.life.clone() }), note: None }
            }
            _ => SAME,
        }
    }

    fn reserve(&self, hold: Hold) -> Walked {
        match self.life.state {
            State::Ready => Ok(self.handed_out(self.life.clone(), hold)),
            _ => self.wrong_state(),
        }
    }

    fn reserve_named(&self, hold: Hold) -> Walked {
        match self.life.state {
            State::Ready => Ok(self.handed_out(self.life.clone(), hold)),
            State::Waiting { held: false, .. } => Ok(self.handed_out(self.brought_forward(), hold)),
            State::Dead { .. } => Ok(self.handed_out(self.revived(), hold)),
            _ => self.wrong_state(),
        }
    }

    fn handed_out(&self, mut life: Life, hold: Hold) -> Step {
        life.state = State::Reserved(hold);
        for counter in [&mut life.attempt, &mut life.tally.reserves, &mut life.hand_outs] {
            count(counter);
        }
        keep(life, None)
    }

    fn recall(&self, lease: Option<Lease>) -> Walked {
        self.holder(lease)?;
        let mut life = self.attempt_given_back();
        life.tally.reserves -= 1;
        // Nobody saw it, so nobody may finish it by its id alone.
        life.hand_outs -= 1;
        life.state = READY;
        Ok(keep(life, None))
    }

    fn expire(&self) -> Walked {
        match self.life.state {
            State::Reserved(hold) if hold.until <= self.now.tick => {
                let ended = self.ended(hold, What::TimedOut, Some(TTR_RAN_OUT));
                let mut life = self.life.clone();
                count(&mut life.tally.timeouts);
                Ok(self.ready_or_dead(life, ended))
            }
            _ => Ok(SAME),
        }
    }

    fn lost(&self) -> Walked {
        match self.life.state {
            State::Reserved(hold) => {
                let ended = self.ended(hold, What::Lost, Some(CONNECTION_LOST));
                Ok(self.ready_or_dead(self.life.clone(), ended))
            }
            _ => self.wrong_state(),
        }
    }

    /// A lease that ended by itself: the job is ready at once, or has had its last attempt.
    fn ready_or_dead(&self, mut life: Life, ended: Ending) -> Step {
        if self.rules.retry.used_up(life.attempt) {
            return self.die(life, ended);
        }
        life.state = READY;
        keep(life, Some(ended.note()))
    }

    fn finish(&self, lease: Option<Lease>) -> Walked {
        match (self.life.state, lease) {
            (State::Reserved(hold), None) => Ok(self.done(Some(hold))),
            (State::Reserved(_), Some(_)) => self.holder(lease).map(|hold| self.done(Some(hold))),
            (State::Finished { .. }, None) => Ok(SAME),
            (State::Finished { lease: by, .. }, _) if by == lease => Ok(SAME),
            (_, Some(_)) => Err(Refusal::LeaseLost),
            // The older protocols finish by id alone, often after the lease ran out.
            (State::Waiting { .. } | State::Ready, None) if self.life.hand_outs > 0 => {
                Ok(self.done(None))
            }
            _ => self.wrong_state(),
        }
    }

    /// This occurrence is done: on to the next one, or to the end.
    fn done(&self, hold: Option<Hold>) -> Step {
        let took_ms = hold.map(|hold| self.now.tick.ms_since(hold.since));
        let note = Some(Note { what: What::Finished, took_ms, error: None });
        if let Some(life) = self.next_occurrence(self.life.clone()) {
            return keep(life, note);
        }
        match self.rules.retain_ms {
            None | Some(0) => GONE,
            Some(retain_ms) => {
                let at = self.now.time();
                let until = at.saturating_add_ms(retain_ms);
                let lease = hold.map(|hold| hold.lease);
                let state = State::Finished { at, until, lease };
                keep(Life { state, ..self.life.clone() }, note)
            }
        }
    }

    fn next_occurrence(&self, life: Life) -> Option<Life> {
        let repeat = self.rules.repeat?;
        let ended = life.occurrence.saturating_add(1);
        if repeat.count_max().is_some_and(|count| ended >= count.get()) {
            return None;
        }
        let next = repeat.next(life.base, life.slot, self.now.time())?;
        Some(Life {
            state: DELAYED,
            due: next.due,
            first_due: next.due,
            slot: next.slot,
            attempt: 0,
            occurrence: ended,
            hand_outs: 0,
            ..life
        })
    }

    fn fail(&self, lease: Option<Lease>, retry_in_ms: Option<u64>) -> Walked {
        let ended = self.ended(self.holder(lease)?, What::Failed, None);
        Ok(self.retry_or_dead(ended, retry_in_ms))
    }

    fn again(&self, lease: Option<Lease>, retry_in_ms: Option<u64>) -> Walked {
        let ended = self.ended(self.holder(lease)?, What::Again, None);
        if self.rules.retry.used_up(self.life.attempt) {
            return Ok(self.die(self.life.clone(), Ending { error: Some(GAVE_UP), ..ended }));
        }
        Ok(self.retry_or_dead(ended, retry_in_ms))
    }

    fn retry_or_dead(&self, ended: Ending, retry_in_ms: Option<u64>) -> Step {
        let Rules { retry, chance, .. } = *self.rules;
        let mut life = self.life.clone();
        if retry.used_up(life.attempt) {
            return self.die(life, ended);
        }
        life.due = match retry_in_ms {
            Some(ms) => self.now.after_ms(ms).unwrap_or(Time::MAX),
            None => retry.next_due(life.attempt, life.first_due, self.now, chance),
        };
        life.state = State::Waiting { retry: true, held: false };
        keep(life, Some(ended.note()))
    }

    /// The job is dead, unless it repeats and may go on.
    fn die(&self, mut life: Life, ended: Ending) -> Step {
        let note = Some(Ending { what: What::Died, ..ended }.note());
        count(&mut life.tally.deaths);
        let goes_on = self.rules.repeat.is_some_and(|repeat| repeat.when_dead() == OnDead::GoOn);
        if let Some(next) = goes_on.then(|| self.next_occurrence(life.clone())).flatten() {
            return keep(next, note);
        }
        life.state = State::Dead { at: self.now.time() };
        keep(life, note)
    }

    fn release(&self, lease: Option<Lease>, delay_ms: u64, priority: Option<u32>) -> Walked {
        let ended = self.ended(self.holder(lease)?, What::Released, None);
        let mut life = self.attempt_given_back();
        count(&mut life.tally.releases);
        life.priority = priority.unwrap_or(life.priority);
        life.state = READY;
        if delay_ms > 0 {
            life.state = DELAYED;
            life.due = self.now.after_ms(delay_ms).unwrap_or(Time::MAX);
        }
        Ok(keep(life, Some(ended.note())))
    }

    fn touch(&self, lease: Option<Lease>, ttr: Option<Ttr>) -> Walked {
        let mut hold = self.holder(lease)?;
        hold.until = self.now.tick.plus_ms(ttr.unwrap_or(hold.ttr).as_ms());
        Ok(keep(Life { state: State::Reserved(hold), ..self.life.clone() }, None))
    }

    fn leave(&self, lease: Option<Lease>) -> Walked {
        let mut hold = self.holder(lease)?;
        let left = self.ended(hold, What::Delivered, None);
        hold.until = self.now.tick.plus_ms(hold.ttr.as_ms());
        hold.owner = None;
        let life = Life { state: State::Reserved(hold), ..self.life.clone() };
        Ok(keep(life, Some(left.note())))
    }

    fn bury(&self, lease: Option<Lease>, priority: Option<u32>) -> Walked {
        let ended = self.ended(self.holder(lease)?, What::Died, Some(BURIED));
        let mut life = self.life.clone();
        count(&mut life.tally.buries);
        life.priority = priority.unwrap_or(life.priority);
        Ok(self.die(life, ended))
    }

    fn update(&self, due: Option<Time>, priority: Option<u32>) -> Walked {
        let mut life = self.life.clone();
        life.priority = priority.unwrap_or(life.priority);
        match (life.state, due) {
            (State::Dead { .. } | State::Finished { .. }, _) | (State::Reserved(_), Some(_)) => {
                return self.wrong_state();
            }
            (State::Ready, Some(_)) => life.state = DELAYED,
            _ => {}
        }
        if let Some(due) = due {
            life.due = due;
            if life.attempt == 0 {
                life.first_due = due;
            }
            // Put off past later slots, it stands for them too: nobody wants it twice in a row.
            life.slot = life.slot.max(due);
        }
        Ok(keep(life, Some(Note::of(What::Updated))))
    }

    fn run(&self) -> Walked {
        match self.life.state {
            State::Waiting { .. } => {
                let mut life = self.brought_forward();
                life.due = self.now.time();
                count(&mut life.tally.kicks);
                Ok(keep(life, Some(Note::of(What::Run))))
            }
            State::Ready => Ok(SAME),
            State::Dead { .. } => self.redrive(),
            State::Reserved(_) | State::Finished { .. } => self.wrong_state(),
        }
    }

    fn redrive(&self) -> Walked {
        match self.life.state {
            State::Dead { .. } => {
                let mut life = self.revived();
                count(&mut life.tally.kicks);
                Ok(keep(life, Some(Note::of(What::Redriven))))
            }
            _ => self.wrong_state(),
        }
    }

    fn hold(&self) -> Walked {
        match self.life.state {
            State::Waiting { held: true, .. } => Ok(SAME),
            State::Waiting { retry, held: false } => {
                Ok(self.moved(State::Waiting { retry, held: true }, What::Held))
            }
            State::Ready => Ok(self.moved(State::Waiting { retry: false, held: true }, What::Held)),
            _ => self.wrong_state(),
        }
    }

    fn unhold(&self) -> Walked {
        match self.life.state {
            State::Waiting { held: true, .. } if self.is_due() => {
                Ok(self.moved(READY, What::Unheld))
            }
            State::Waiting { retry, held: true } => {
                Ok(self.moved(State::Waiting { retry, held: false }, What::Unheld))
            }
            State::Waiting { held: false, .. } | State::Ready => Ok(SAME),
            _ => self.wrong_state(),
        }
    }

    fn delete(&self, reach: Reach) -> Walked {
        match (self.life.state, reach) {
            (State::Reserved(_), Reach::Unreserved) => self.wrong_state(),
            _ => Ok(GONE),
        }
    }

    fn lapse(&self) -> Walked {
        match self.life.state {
            State::Dead { .. } | State::Finished { .. } => Ok(GONE),
            _ => self.wrong_state(),
        }
    }

    /// A waiting job that is wanted before its time.
    fn brought_forward(&self) -> Life {
        let mut life = self.life.clone();
        life.state = READY;
        life.due = life.due.min(self.now.time());
        if life.attempt == 0 {
            life.first_due = life.due;
            // Asked for by hand, it serves no slot: the one it waited for still comes.
            if self.rules.repeat.is_some() && life.slot > self.now.time() {
                life.slot = life.slot.saturating_sub_ms(1);
            }
        }
        life
    }

    /// A dead job with its attempts anew.
    fn revived(&self) -> Life {
        let now = self.now.time();
        Life { state: READY, attempt: 0, due: now, first_due: now, ..self.life.clone() }
    }

    fn attempt_given_back(&self) -> Life {
        Life { attempt: self.life.attempt.saturating_sub(1), ..self.life.clone() }
    }

    /// The hold of whoever calls: by its lease, or by naming the job alone.
    fn holder(&self, lease: Option<Lease>) -> Result<Hold, Refusal> {
        match (self.life.state, lease) {
            // A late holder must not settle a job that someone else may hold by now.
            (State::Reserved(hold), Some(by))
                if by != hold.lease || hold.until <= self.now.tick =>
            {
                Err(Refusal::LeaseLost)
            }
            (State::Reserved(hold), _) => Ok(hold),
            (_, Some(_)) => Err(Refusal::LeaseLost),
            (_, None) => Err(Refusal::WrongState(self.life.stage())),
        }
    }

    fn ended(&self, hold: Hold, what: What, error: Option<&'static str>) -> Ending {
        Ending { what, took_ms: self.now.tick.ms_since(hold.since), error }
    }

    fn moved(&self, state: State, what: What) -> Step {
        keep(Life { state, ..self.life.clone() }, Some(Note::of(what)))
    }

    fn is_due(&self) -> bool {
        self.life.due <= self.now.time()
    }

    fn wrong_state(&self) -> Walked {
        Err(Refusal::WrongState(self.life.stage()))
    }
}

/// A change: the version counts it.
fn keep(mut life: Life, note: Option<Note>) -> Step {
    life.version += 1;
    Step { next: Next::Keep(life), note }
}

/// One more. A job that is popped and given back in a loop gets to the end of a counter in hours.
fn count(counter: &mut u32) {
    *counter = counter.saturating_add(1);
}

impl Ending {
    fn note(self) -> Note {
        Note { what: self.what, took_ms: Some(self.took_ms), error: self.error }
    }
}
