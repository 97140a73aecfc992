//! What the hot path does for the log: it puts what happened into a bounded line in memory, and goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use linger::error::Result;
use linger::history::What;
use linger::job::Id;
use linger::machine::{BURIED, GAVE_UP};
use linger::queue::{
    Action, Added, Change, Changed, Delivery, How, Key, Moves, Settle, TopicChange, Verdict,
};
use linger::time::{Now, Time};
use linger::topic::Topic;
use tokio::sync::Notify;

use super::event::{Event, Kind, Of};
use crate::author::{Author, Front};

/// The most that wait to be written; what comes then is dropped, and counted.
const WAITING_MAX: usize = 100_000;

/// Takes down what happens.
#[derive(Default)]
pub(crate) struct Recorder {
    waiting: Mutex<Waiting>,
    pub(super) bell: Notify,
    dropped: AtomicU64,
    /// Nobody takes anything.
    is_off: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    /// How many were dropped since some were last taken.
    dropped: u64,
}

/// A settle or a change, as far as the log wants to know.
pub(crate) struct Asked {
    of: Of,
    kind: Kind,
    error: Option<Arc<str>>,
    status: Option<u16>,
}

impl Recorder {
    /// Takes down some, and never waits.
    pub(crate) fn tell(&self, events: impl IntoIterator<Item = Event>) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let mut waiting = self.waiting.lock().expect("nobody panics holding it");
        let was_empty = waiting.events.is_empty();
        let mut dropped = 0;
        for event in events {
            if waiting.events.len() < WAITING_MAX {
                waiting.events.push(event);
            } else {
                dropped += 1;
            }
        }
        waiting.dropped += dropped;
        // Once for all that comes until they are taken: to wake somebody is what costs.
        let ring = was_empty && !waiting.events.is_empty();
        drop(waiting);
        if dropped > 0 {
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        if ring {
            self.bell.notify_one();
        }
    }

    /// Takes down nothing any more.
    pub(crate) fn switch_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }

    /// What there is, and how many were dropped besides; `spare` takes its place.
    pub(super) fn take(&self, spare: Vec<Event>) -> (Vec<Event>, u64) {
        let mut waiting = self.waiting.lock().expect("nobody panics holding it");
        let events = std::mem::replace(&mut waiting.events, spare);
        (events, std::mem::take(&mut waiting.dropped))
    }

    /// Counts events that are lost, for a gap that is told of those and of what other gaps, which are
    /// lost as well, stood for.
    pub(super) fn count_lost(&self, events: u64, in_gaps: u64) {
        self.waiting.lock().expect("nobody panics holding it").dropped += events + in_gaps;
        self.dropped.fetch_add(events, Ordering::Relaxed);
    }

    /// How many were dropped since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Jobs were added.
    pub(crate) fn added(&self, answers: &[Result<Added>]) {
        let caller = Author::of_this_call();
        let event = |added: &Added| {
            let kind = match added.how {
                How::New => Kind::Added,
                How::Replaced => Kind::Replaced,
                How::Kept => return None,
            };
            let job = &added.job;
            let of = Of::Job(job.spec.topic.clone(), job.spec.id.clone());
            let event = Event::new(job.created.as_ms(), kind, of, caller.clone());
            Some(Event { number: Some(job.number), ..event })
        };
        self.tell(answers.iter().flatten().filter_map(event));
    }

    /// Jobs were handed out.
    pub(crate) fn handed_out(&self, jobs: &[Delivery], pushed: bool, now: Now) {
        if jobs.is_empty() {
            return;
        }
        let mut caller = Author::of_this_call();
        if pushed {
            caller = Author::by(Front::Push, None);
        }
        let at = now.time();
        self.tell(jobs.iter().map(|delivery| {
            let job = &delivery.job;
            let of = Of::Job(job.spec.topic.clone(), job.spec.id.clone());
            Event {
                number: Some(job.number),
                attempt: Some(job.attempt),
                latency_ms: Some(at.ms_since(job.due)),
                ..Event::new(at.as_ms(), Kind::HandedOut, of, caller.clone())
            }
        }));
    }

    /// Jobs were settled or changed, as it was asked.
    pub(crate) fn changed(
        &self,
        asked: Vec<Asked>,
        answers: &[Result<Changed>],
        by: Option<Front>,
        now: Now,
    ) {
        let mut caller = Author::of_this_call();
        caller.front = caller.front.or(by);
        let at_ms = now.time().as_ms();
        let pairs = asked.into_iter().zip(answers);
        let events = pairs.filter_map(|(asked, answer)| match answer {
            Ok(changed) if changed.changed => Some(asked.events(changed, at_ms, caller.clone())),
            _ => None,
        });
        self.tell(events.flatten().flatten());
    }

    /// Something was done to a topic.
    pub(crate) fn configured(&self, topic: &Topic, kind: Kind, jobs: u64, now: Now) {
        let of = Of::Topic(topic.clone());
        let event = Event::new(now.time().as_ms(), kind, of, Author::of_this_call());
        let count = matches!(kind, Kind::Emptied | Kind::Forgotten).then_some(jobs);
        self.tell([Event { count, ..event }]);
    }

    /// Something happened of which nobody was told.
    pub(super) fn moved(&self, moves: Moves) {
        if moves.lost > 0 {
            self.count_lost(moves.lost, 0);
        }
        let caller = Author::by(Front::Server, None);
        let events = moves.moves.into_iter().flat_map(|moved| {
            let kind = moved.what.map_or(Kind::Deleted, kind_of);
            let of = Of::Job(moved.topic, moved.id);
            let event = Event {
                number: Some(moved.was.number),
                attempt: Some(moved.was.attempt),
                latency_ms: moved.was.took_ms,
                error: moved.error,
                ..Event::new(moved.at.as_ms(), kind, of, caller.clone())
            };
            let died = moved.was.died.then(|| Event { kind: Kind::Died, ..event.clone() });
            [Some(event), died].into_iter().flatten()
        });
        self.tell(events);
    }
}

impl Asked {
    pub(crate) fn settle(settle: &Settle) -> Asked {
        let (kind, error) = match &settle.verdict {
            Verdict::Finish => (Kind::Finished, None),
            Verdict::Fail { error, .. } => (Kind::Failed, Some(error.clone())),
            Verdict::Again { .. } => (Kind::Again, None),
            Verdict::Release { .. } => (Kind::Released, None),
            Verdict::Touch { .. } => (Kind::Touched, None),
            Verdict::Leave => (Kind::Delivered, None),
            Verdict::Recall => (Kind::Recalled, None),
            Verdict::Bury { error, .. } => {
                (Kind::Died, error.clone().or_else(|| Some(BURIED.into())))
            }
        };
        let status = settle.report.as_ref().and_then(|report| report.status);
        Asked { of: Of::key(&settle.key), kind, error, status }
    }

    pub(crate) fn change(change: &Change, name: Option<(Topic, Id)>) -> Asked {
        let kind = match change.action {
            Action::Update(_) => Kind::Updated,
            Action::Hold => Kind::Held,
            Action::Unhold => Kind::Unheld,
            Action::Run => Kind::Run,
            Action::Redrive => Kind::Redriven,
            Action::Delete(_) => Kind::Deleted,
        };
        let of = match (name, &change.key) {
            (Some((topic, id)), _) => Of::Job(topic, id),
            (None, key) => Of::key(key),
        };
        Asked { of, kind, error: None, status: None }
    }

    /// What happened, and the death that came of it.
    fn events(self, changed: &Changed, at_ms: u64, caller: Author) -> [Option<Event>; 2] {
        let was = changed.was;
        let number = was.map(|was| was.number).or(match self.of {
            Of::Number(number) => Some(number),
            _ => None,
        });
        let event = Event {
            number,
            attempt: was.map(|was| was.attempt),
            latency_ms: was.and_then(|was| was.took_ms),
            error: self.error,
            status: self.status,
            ..Event::new(at_ms, self.kind, self.of, caller)
        };
        let died = was.is_some_and(|was| was.died) && event.kind != Kind::Died;
        let died = died.then(|| {
            let gave_up = (event.kind == Kind::Again).then(|| GAVE_UP.into());
            let error = event.error.clone().or(gave_up);
            Event { kind: Kind::Died, error, ..event.clone() }
        });
        [Some(event), died]
    }
}

/// What a change of a topic is called.
pub(crate) fn kind_of_change(change: &TopicChange) -> Kind {
    match change {
        TopicChange::Set(_) => Kind::Configured,
        TopicChange::Pause(_) => Kind::Paused,
        TopicChange::Resume => Kind::Resumed,
        TopicChange::Empty => Kind::Emptied,
        TopicChange::Forget => Kind::Forgotten,
    }
}

fn kind_of(what: What) -> Kind {
    match what {
        What::Added => Kind::Added,
        What::Updated => Kind::Updated,
        What::Held => Kind::Held,
        What::Unheld => Kind::Unheld,
        What::Run => Kind::Run,
        What::Redriven => Kind::Redriven,
        What::Released => Kind::Released,
        What::Failed => Kind::Failed,
        What::Again => Kind::Again,
        What::TimedOut => Kind::TimedOut,
        What::Lost => Kind::Lost,
        What::Died => Kind::Died,
        What::Finished => Kind::Finished,
        What::Delivered => Kind::Delivered,
    }
}

/// Jobs that are called by their numbers, of which the log wants the names.
pub(crate) fn unnamed(batch: &[Change]) -> impl Iterator<Item = &Key> {
    batch.iter().map(|change| &change.key).filter(|key| matches!(key, Key::Number(_)))
}

/// The beginning of the hour of a moment.
pub(super) fn hour_of(at_ms: u64) -> Time {
    Time::from_ms(at_ms - at_ms % 3_600_000).unwrap_or(Time::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_dropped_and_counted_and_nobody_waits() {
        let recorder = Recorder::default();
        let event = || Event::new(0, Kind::Gap, Of::Nothing, Author::default());
        recorder.tell((0..WAITING_MAX + 5).map(|_| event()));
        assert_eq!(recorder.dropped(), 5);
        let (events, dropped) = recorder.take(Vec::new());
        assert_eq!((events.len(), dropped), (WAITING_MAX, 5));
        recorder.tell([event()]);
        let (events, dropped) = recorder.take(Vec::new());
        assert_eq!((events.len(), dropped, recorder.dropped()), (1, 0, 5));
    }
}
