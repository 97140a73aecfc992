//! Who is registered, and whose turn it is: pure, with the time passed in.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use linger::error::{Code, Error, Result};
use linger::job::{Destination, Id};
use linger::time::{Now, Tick};
use linger::topic::Topic;

use super::worker::{
    AppName, By, Ended, Health, Instance, Registration, Said, State, Url, Worker, destination,
    excerpt,
};
use crate::auth::Topics;

/// How long an instance that failed is called after the others. Then it has its turn again: it
/// would never show that it is well if nobody called it.
const FAILED_LATELY: Duration = Duration::from_secs(10);

/// How many lines are remembered in which nobody was found. What is beyond waits for somebody to
/// register.
const MISSED_MAX: usize = 10_000;

/// All workers that are registered.
#[derive(Default)]
pub(super) struct Roster {
    workers: BTreeMap<Id, Entry>,
    /// When each is forgotten.
    ends: BTreeSet<(Tick, Id)>,
    /// Who is where: an instance is registered once.
    places: HashMap<(AppName, Url), Id>,
    /// Those who take turns.
    lines: HashMap<Line, Turns>,
    /// Where nobody was found.
    missed: HashSet<Line>,
}

struct Entry {
    said: Said,
    until: Tick,
    health: Health,
    /// When it last failed, if it has not answered since.
    failed: Option<Tick>,
}

/// The live workers for a topic: of one application, or of all.
type Line = (Option<AppName>, Topic);

/// By name, so that to come and to go costs the same with ten workers or ten thousand.
#[derive(Default)]
struct Turns {
    members: BTreeSet<Id>,
    /// Who was called first the last time; it may be gone.
    last: Option<Id>,
}

impl Turns {
    /// All of them, beginning after the last.
    fn in_turn(&self) -> impl Iterator<Item = &Id> {
        let (after, through) = match &self.last {
            Some(last) => (Bound::Excluded(last), Some((Bound::Unbounded, Bound::Included(last)))),
            None => (Bound::Unbounded, None),
        };
        let rest = through.into_iter().flat_map(|range| self.members.range::<Id, _>(range));
        self.members.range::<Id, _>((after, Bound::Unbounded)).chain(rest)
    }
}

/// What a registration did.
pub(super) struct Put {
    pub(super) worker: Worker,
    /// Whether it took the place of one.
    pub(super) replaced: bool,
    /// Another name by which the same instance was registered.
    pub(super) ousted: Option<Id>,
}

/// Which workers to list. All that is given must fit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) app: Option<AppName>,
    pub(crate) topic: Option<Topic>,
    /// Registered for none but these.
    pub(crate) within: Option<Topics>,
}

impl Roster {
    /// The name for a registration: the one it brings, or the one that this instance has.
    pub(super) fn id_for(&self, new: &Registration) -> Option<Id> {
        let own = |id: &&Id| self.check_own(id).is_ok();
        let place = || self.places.get(&new.place()).filter(own);
        new.id.as_ref().or_else(place).cloned()
    }

    /// Refuses one more than there may be.
    pub(super) fn check_room(&self, id: &Id, max: usize) -> Result<()> {
        if self.workers.len() < max || self.workers.contains_key(id) {
            return Ok(());
        }
        let message = format!("workers are at the limit of {max}; deregister those that are gone");
        Err(Error::new(Code::Overloaded, message))
    }

    /// Registers a worker, in place of whoever has its name or is where it is.
    pub(super) fn put(&mut self, id: Id, said: Said, now: Now) -> Put {
        let place = (said.app.clone(), said.url.clone());
        let ousted = self.places.get(&place).filter(|other| **other != id).cloned();
        let namesake = self.take(&id);
        let before = ousted.as_ref().and_then(|other| self.take(other)).or(namesake);
        let replaced = before.is_some();
        // What is known of an address says nothing of another one.
        let same =
            before.filter(|before| (&before.said.app, &before.said.url) == (&place.0, &place.1));
        let health = same.map(|before| before.health).unwrap_or_default();
        let until = end_of(said.lease, now);
        self.insert(id.clone(), Entry { said, until, health, failed: None });
        Put { worker: self.shown(&id, now), replaced, ousted }
    }

    /// Takes over one that was found in Eureka, and gives it a full lease. The answer is who comes
    /// to life by that, and for which topics; none if it registered here as well, which counts.
    pub(super) fn find(
        &mut self,
        id: Id,
        found: Registration,
        max: usize,
        now: Now,
    ) -> Result<Option<(Worker, Arc<[Topic]>)>> {
        if self.said(&id).is_some_and(|said| said.is_still(&found)) {
            return self.keep(&id, None, now).map(Some);
        }
        let there = self.places.get(&found.place());
        let is_own = |id: &Id| self.said(id).is_some_and(|said| said.by == By::Itself);
        if is_own(&id) || there.is_some_and(is_own) {
            return Ok(None);
        }
        self.check_room(&id, max)?;
        let said = Said { by: By::Eureka, ..Said::new(found, now.time()) };
        let worker = self.put(id, said, now).worker;
        let topics = worker.said.topics.clone();
        Ok(Some((worker, topics)))
    }

    /// The names of all that were found in Eureka.
    pub(super) fn found(&self) -> Vec<Id> {
        let found = self.workers.iter().filter(|(_, entry)| entry.said.by == By::Eureka);
        found.map(|(id, _)| id.clone()).collect()
    }

    /// Refuses to change one that was found in Eureka, where it would come from again.
    pub(super) fn check_own(&self, id: &Id) -> Result<()> {
        if self.said(id).is_none_or(|said| said.by == By::Itself) {
            return Ok(());
        }
        let id = excerpt(id.as_str());
        let message = format!("worker `{id}` is registered in Eureka; change it there");
        Err(Error::new(Code::WrongState, message))
    }

    /// Gives a worker a full lease anew, and maybe another state. The second answer is for which
    /// topics it comes to life by that.
    pub(super) fn keep(
        &mut self,
        id: &Id,
        state: Option<State>,
        now: Now,
    ) -> Result<(Worker, Arc<[Topic]>)> {
        let mut entry = self.take(id).ok_or_else(|| unknown(id))?;
        let before = entry.said.state;
        entry.said.state = state.unwrap_or(before);
        entry.until = end_of(entry.said.lease, now);
        let came = match (before, entry.said.state) {
            (_, State::Draining) => Arc::default(),
            (State::Draining, State::Live) => entry.said.topics.clone(),
            (State::Live, State::Live) => self.missed_of(&entry.said),
        };
        self.insert(id.clone(), entry);
        Ok((self.shown(id, now), came))
    }

    /// Those topics of a worker for which nobody was found when somebody was last looked for.
    ///
    /// Whoever found nobody may begin to wait only after one has come, and would not hear of it:
    /// so each heartbeat tells again, until somebody is found.
    fn missed_of(&self, said: &Said) -> Arc<[Topic]> {
        if self.missed.is_empty() {
            return Arc::default();
        }
        let is_missed = |topic: &&Topic| {
            let mut apps = [None].into_iter().chain(said.apps().map(Some));
            apps.any(|app| self.missed.contains(&(app, (*topic).clone())))
        };
        said.topics.iter().filter(is_missed).cloned().collect()
    }

    /// Forgets a worker, and answers how it stood.
    pub(super) fn remove(&mut self, id: &Id, now: Now) -> Result<Worker> {
        let entry = self.take(id).ok_or_else(|| unknown(id))?;
        Ok(entry.shown(id, now))
    }

    /// One worker.
    pub(super) fn get(&self, id: &Id, now: Now) -> Result<Worker> {
        let entry = self.workers.get(id).ok_or_else(|| unknown(id))?;
        Ok(entry.shown(id, now))
    }

    /// What a worker has said.
    pub(super) fn said(&self, id: &Id) -> Option<&Said> {
        self.workers.get(id).map(|entry| &entry.said)
    }

    /// Those who fit, by name, after that one, at most so many.
    pub(super) fn list(
        &self,
        filter: &Filter,
        after: Option<&Id>,
        limit: usize,
        now: Now,
    ) -> Vec<Worker> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = self.workers.range::<Id, _>((from, Bound::Unbounded));
        let fits = all.filter(|(_, entry)| filter.fits(&entry.said));
        fits.take(limit).map(|(id, entry)| entry.shown(id, now)).collect()
    }

    /// Whom to call for a job, at most so many: by turns, those that failed lately last.
    pub(super) fn choose(
        &mut self,
        app: Option<&AppName>,
        topic: &Topic,
        most: usize,
        now: Now,
    ) -> Vec<Instance> {
        let line = (app.cloned(), topic.clone());
        let Some(turns) = self.lines.get_mut(&line) else {
            if self.missed.len() < MISSED_MAX {
                self.missed.insert(line);
            }
            return Vec::new();
        };
        self.missed.remove(&line);
        let workers = &self.workers;
        let in_turn = || turns.in_turn().map(|id| (id, &workers[id]));
        let well = in_turn().filter(|(_, entry)| !entry.has_failed_lately(now));
        let failed = in_turn().filter(|(_, entry)| entry.has_failed_lately(now));
        let instance =
            |(id, entry): (&Id, &Entry)| Instance { id: id.clone(), url: entry.said.url.clone() };
        let chosen: Vec<_> = well.chain(failed).take(most).map(instance).collect();
        turns.last = chosen.first().map(|instance| instance.id.clone());
        chosen
    }

    /// Whether somebody is there for jobs of this topic, of one application or of any.
    pub(super) fn is_served(&self, app: Option<&AppName>, topic: &Topic) -> bool {
        self.lines.contains_key(&(app.cloned(), topic.clone()))
    }

    /// Where jobs go for whom somebody is there.
    pub(super) fn destinations(&self) -> Vec<Destination> {
        self.lines.keys().map(|(app, topic)| destination(app.as_ref(), topic)).collect()
    }

    /// Counts a call that begins.
    pub(super) fn begin(&mut self, id: &Id) {
        if let Some(entry) = self.workers.get_mut(id) {
            entry.health.under_way += 1;
        }
    }

    /// Counts how a call ended.
    pub(super) fn end(&mut self, id: &Id, ended: Ended, now: Now) {
        // It may have been forgotten meanwhile, or registered anew elsewhere.
        let Some(entry) = self.workers.get_mut(id) else { return };
        let health = &mut entry.health;
        health.under_way = health.under_way.saturating_sub(1);
        health.deliveries += 1;
        match ended {
            Ended::Answered => {
                health.last_success = Some(now.time());
                entry.failed = None;
            }
            Ended::Down(error) => {
                health.failures += 1;
                health.last_error = Some(error);
                health.last_failure = Some(now.time());
                entry.failed = Some(now.tick);
            }
        }
    }

    /// Forgets those whose lease is over.
    pub(super) fn lapse(&mut self, now: Now) {
        while let Some((_, id)) = self.ends.first().filter(|(end, _)| *end <= now.tick).cloned() {
            self.take(&id);
        }
    }

    fn insert(&mut self, id: Id, entry: Entry) {
        self.ends.insert((entry.until, id.clone()));
        self.places.insert((entry.said.app.clone(), entry.said.url.clone()), id.clone());
        if entry.said.state == State::Live {
            for line in lines_of(&entry.said) {
                self.lines.entry(line).or_default().members.insert(id.clone());
            }
        }
        self.workers.insert(id, entry);
    }

    fn take(&mut self, id: &Id) -> Option<Entry> {
        let entry = self.workers.remove(id)?;
        self.ends.remove(&(entry.until, id.clone()));
        self.places.remove(&(entry.said.app.clone(), entry.said.url.clone()));
        for line in lines_of(&entry.said) {
            if let Some(turns) = self.lines.get_mut(&line) {
                turns.members.remove(id);
                if turns.members.is_empty() {
                    self.lines.remove(&line);
                }
            }
        }
        Some(entry)
    }

    fn shown(&self, id: &Id, now: Now) -> Worker {
        self.workers[id].shown(id, now)
    }
}

impl Entry {
    fn has_failed_lately(&self, now: Now) -> bool {
        let lately_us = FAILED_LATELY.as_micros() as u64;
        self.failed.is_some_and(|failed| now.tick.us_since(failed) < lately_us)
    }

    fn shown(&self, id: &Id, now: Now) -> Worker {
        let (said, health) = (self.said.clone(), self.health.clone());
        Worker { id: id.clone(), said, expires: now.time_at(self.until), health }
    }
}

impl Filter {
    fn fits(&self, said: &Said) -> bool {
        self.app.as_ref().is_none_or(|app| said.apps().any(|own| own == *app))
            && self.topic.as_ref().is_none_or(|topic| said.topics.contains(topic))
            && self.within.as_ref().is_none_or(|all| said.topics.iter().all(|topic| all.has(topic)))
    }
}

/// Every line that a worker stands in when it is live.
fn lines_of(said: &Said) -> impl Iterator<Item = Line> {
    said.topics.iter().flat_map(|topic| {
        let apps = [None].into_iter().chain(said.apps().map(Some));
        apps.map(|app| (app, topic.clone()))
    })
}

fn end_of(lease: Duration, now: Now) -> Tick {
    now.tick.plus_ms(lease.as_millis() as u64)
}

fn unknown(id: &Id) -> Error {
    let id = excerpt(id.as_str());
    Error::new(Code::NotFound, format!("there is no worker `{id}`; register again"))
}
