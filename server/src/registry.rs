//! The registry of workers: which applications serve which topics, and where.
//!
//! An instance registers, keeps alive by heartbeats, and is called for jobs whose target is
//! `worker:` or `worker:APP`. Who is there is known in memory; what was said is also in the store's
//! key-value side, so that it outlives a restart. Those that are found in Eureka are in memory alone.

mod roster;
mod worker;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use linger::error::{Code, Error, Result};
use linger::job::{Destination, Id, made_id};
use linger::queue::{Expect, KvQuery, KvWrite, PAGE_MAX, Queue};
use linger::time::Now;
use linger::topic::Topic;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

pub(crate) use roster::Filter;
use roster::Roster;
pub(crate) use worker::{
    AppName, Ended, Instance, LEASE_MAX, LEASE_MIN, Registration, State, TOPICS_MAX, Url, Worker,
};
use worker::{Came, Said};

use crate::store::Store;

/// The keys of workers begin so.
pub(crate) const PREFIX: &str = "workers/";
/// How many of those that came to life are kept for one who is slow to ask for them.
const CAME_MAX: usize = 1024;

/// The workers that are registered.
pub(crate) struct Registry<S = Store> {
    store: Arc<S>,
    roster: Mutex<Roster>,
    came: broadcast::Sender<Came>,
    /// What of the store's key-value side is known already, by the version of each.
    seen: Mutex<HashMap<Id, u64>>,
    /// Whether the last heartbeat could not be stored.
    unsaved: AtomicBool,
}

/// What a registration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// There is a worker more.
    New,
    /// It took the place of one.
    Replaced,
}

impl<S: Queue> Registry<S> {
    /// The registry of a store, with those who were registered before, each for a full lease.
    pub(crate) async fn open(store: Arc<S>) -> Result<Registry<S>> {
        let (came, _) = broadcast::channel(CAME_MAX);
        let registry = Registry {
            store,
            roster: Mutex::default(),
            came,
            seen: Mutex::default(),
            unsaved: AtomicBool::new(false),
        };
        registry.refresh().await?;
        Ok(registry)
    }

    /// Takes over what others have stored since it was last looked: who came, who was heard of, who
    /// is gone.
    pub(crate) async fn refresh(&self) -> Result<()> {
        let before: HashSet<Id> = self.seen().keys().cloned().collect();
        let mut there = HashSet::new();
        let mut after = None;
        loop {
            let page = KvQuery::Prefix { prefix: PREFIX.into(), after, limit: PAGE_MAX };
            let page = self.store.kv_read(page).await?;
            let now = self.now();
            for entry in &page {
                let id = entry.key[PREFIX.len()..].parse::<Id>();
                match id.and_then(|id| Ok((id, Said::decode(&entry.value)?))) {
                    Ok((id, said)) => {
                        there.insert(id.clone());
                        self.hear(id, said, entry.version, now);
                    }
                    Err(why) => tracing::warn!(key = %entry.key, "a worker cannot be read: {why}"),
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE_MAX => after = Some(last.key.clone()),
                _ => break,
            }
        }
        for gone in before.difference(&there) {
            self.seen().remove(gone);
            // Whoever lapsed here is gone already.
            let _ = self.roster().remove(gone, self.now());
        }
        Ok(())
    }

    /// Takes over what was stored of a worker, unless it is what is known.
    fn hear(&self, id: Id, said: Said, version: u64, now: Now) {
        if self.seen().insert(id.clone(), version) == Some(version) {
            return;
        }
        let mut roster = self.roster_at(now);
        let as_before = roster.said(&id) == Some(&said);
        let heard = match as_before {
            true => roster.keep(&id, None, now),
            false => {
                let worker = roster.put(id, said, now).worker;
                let lives = worker.said.state == State::Live;
                let came = if lives { worker.said.topics.clone() } else { Arc::default() };
                Ok((worker, came))
            }
        };
        drop(roster);
        if let Ok((worker, came)) = heard
            && !came.is_empty()
        {
            self.tell(&worker, came);
        }
    }

    /// Registers a worker, of which there may be `max`.
    ///
    /// One with the same id, or of the same application at the same url, is replaced.
    pub(crate) async fn register(
        &self,
        new: Registration,
        max: usize,
    ) -> Result<(Worker, Registered)> {
        let (id, said) = {
            let now = self.now();
            let roster = self.roster_at(now);
            let id = roster.id_for(&new).unwrap_or_else(|| made_id(now.time()));
            roster.check_room(&id, max)?;
            (id, Said::new(new, now.time()))
        };
        // Stored first, so that one that is refused for want of room was not made; and again when
        // it is known, since others may have written in between.
        self.write(&id, &said).await?;
        let put = {
            let now = self.now();
            let mut roster = self.roster_at(now);
            roster.check_room(&id, max).map(|()| roster.put(id.clone(), said, now))
        };
        self.keep_stored(&id).await;
        let put = put?;
        if let Some(ousted) = put.ousted {
            self.keep_stored(&ousted).await;
        }
        self.tell(&put.worker, put.worker.said.topics.clone());
        Ok((put.worker, if put.replaced { Registered::Replaced } else { Registered::New }))
    }

    /// Gives a worker a full lease anew, and maybe another state; `not_found` if it is not known.
    pub(crate) async fn heartbeat(&self, id: &Id, state: Option<State>) -> Result<Worker> {
        let now = self.now();
        let (worker, came) = {
            let mut roster = self.roster_at(now);
            roster.check_own(id)?;
            roster.keep(id, state, now)?
        };
        if !came.is_empty() {
            self.tell(&worker, came);
        }
        self.keep_stored(id).await;
        Ok(worker)
    }

    /// Forgets a worker, and answers how it stood.
    pub(crate) async fn deregister(&self, id: &Id) -> Result<Worker> {
        let now = self.now();
        let worker = {
            let mut roster = self.roster_at(now);
            roster.check_own(id)?;
            roster.remove(id, now)?
        };
        self.save(id).await?;
        Ok(worker)
    }

    /// Takes over who is in Eureka: these, and nobody else who was there before. At most `max` are
    /// registered in all; the answer is why some were left out.
    pub(crate) fn set_found(&self, found: Vec<(Id, Registration)>, max: usize) -> Vec<Error> {
        let now = self.now();
        let (mut came, mut refused) = (Vec::new(), Vec::new());
        let mut roster = self.roster_at(now);
        let there: HashSet<&Id> = found.iter().map(|(id, _)| id).collect();
        for gone in roster.found().iter().filter(|id| !there.contains(id)) {
            let _ = roster.remove(gone, now);
        }
        for (id, one) in found {
            match roster.find(id, one, max, now) {
                Ok(one) => came.extend(one),
                Err(why) => refused.push(why),
            }
        }
        drop(roster);
        self.tell_all(came);
        refused
    }

    /// Keeps who was last found in Eureka.
    pub(crate) fn keep_found(&self) {
        let now = self.now();
        let mut roster = self.roster_at(now);
        let found = roster.found();
        let came = found.iter().filter_map(|id| roster.keep(id, None, now).ok()).collect();
        drop(roster);
        self.tell_all(came);
    }

    fn tell_all(&self, came: Vec<(Worker, Arc<[Topic]>)>) {
        for (worker, topics) in came {
            if !topics.is_empty() {
                self.tell(&worker, topics);
            }
        }
    }

    /// One worker; `not_found` if it is not known.
    pub(crate) fn get(&self, id: &Id) -> Result<Worker> {
        let now = self.now();
        self.roster_at(now).get(id, now)
    }

    /// Whom a registration would take the place of.
    pub(crate) fn in_place_of(&self, new: &Registration) -> Option<Worker> {
        let now = self.now();
        let roster = self.roster_at(now);
        roster.id_for(new).and_then(|id| roster.get(&id, now).ok())
    }

    /// Those who fit, by id, after that one, at most so many.
    pub(crate) fn list(&self, filter: &Filter, after: Option<&Id>, limit: usize) -> Vec<Worker> {
        let now = self.now();
        self.roster_at(now).list(filter, after, limit, now)
    }

    /// Whom to call for a job of this topic, at most so many, the first to be tried first: those of
    /// one application or of any, by turns, and those that failed lately after the others.
    pub(crate) fn instances(
        &self,
        app: Option<&AppName>,
        topic: &Topic,
        most: usize,
    ) -> Vec<Instance> {
        let now = self.now();
        self.roster_at(now).choose(app, topic, most, now)
    }

    /// Whether somebody is there for jobs of this topic, of one application or of any.
    pub(crate) fn is_served(&self, app: Option<&AppName>, topic: &Topic) -> bool {
        let now = self.now();
        self.roster_at(now).is_served(app, topic)
    }

    /// Counts a call to an instance until it says how it ended.
    pub(crate) fn calling(self: &Arc<Self>, id: &Id) -> Calling<S> {
        self.roster().begin(id);
        Calling { registry: self.clone(), id: id.clone(), ended: None }
    }

    /// Tells where jobs may go because somebody comes to life, from now on.
    pub(crate) fn changes(self: &Arc<Self>) -> Changes<S> {
        Changes { registry: self.clone(), came: self.came.subscribe() }
    }

    fn tell(&self, worker: &Worker, topics: Arc<[Topic]>) {
        // Nobody may want to know.
        let _ = self.came.send(Came { apps: worker.said.apps().collect(), topics });
    }

    /// Stores what is known of a worker, if that can be.
    ///
    /// On a full disk it cannot, and it is by finishing jobs that room is made: who is alive stays
    /// so. What is lost with a restart, the next heartbeat brings back.
    async fn keep_stored(&self, id: &Id) {
        let saved = self.save(id).await;
        let was_unsaved = self.unsaved.swap(saved.is_err(), Ordering::Relaxed);
        match saved {
            Err(why) if !was_unsaved => tracing::warn!("workers cannot be stored: {why}"),
            Ok(()) if was_unsaved => tracing::info!("workers are stored again"),
            _ => {}
        }
    }

    /// Writes until what was written is what is known: of two who change one worker at once, the
    /// first to know may be the last to write.
    async fn save(&self, id: &Id) -> Result<()> {
        let mut known = self.roster().said(id).cloned();
        loop {
            match &known {
                Some(said) => self.write(id, said).await?,
                None => self.erase(id).await?,
            }
            let written = known;
            known = self.roster().said(id).cloned();
            if known == written {
                return Ok(());
            }
        }
    }

    async fn write(&self, id: &Id, said: &Said) -> Result<()> {
        let (value, ttl) = (Some(said.encode()), Some(said.lease));
        let write = KvWrite { key: key(id), value, expect: Expect::Any, ttl };
        let version = self.store.kv_write(write).await?;
        self.seen().insert(id.clone(), version);
        Ok(())
    }

    async fn erase(&self, id: &Id) -> Result<()> {
        let write = KvWrite { key: key(id), value: None, expect: Expect::Any, ttl: None };
        match self.store.kv_write(write).await {
            // Its time was over.
            Err(why) if why.code() == Code::NotFound => Ok(()),
            erased => erased.map(drop),
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<Id, u64>> {
        self.seen.lock().expect("nobody panics holding it")
    }

    fn now(&self) -> Now {
        self.store.clock().now()
    }

    /// Those who are registered, without those whose lease is over.
    fn roster_at(&self, now: Now) -> MutexGuard<'_, Roster> {
        let mut roster = self.roster();
        roster.lapse(now);
        roster
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().expect("nobody panics holding the roster")
    }
}

fn key(id: &Id) -> Arc<str> {
    format!("{PREFIX}{id}").into()
}

/// A call to an instance under way. Dropped before it has ended, it took too long.
pub(crate) struct Calling<S: Queue = Store> {
    registry: Arc<Registry<S>>,
    id: Id,
    ended: Option<Ended>,
}

impl<S: Queue> Calling<S> {
    /// Says how it ended.
    pub(crate) fn ended(mut self, how: Ended) {
        self.ended = Some(how);
    }
}

impl<S: Queue> Drop for Calling<S> {
    fn drop(&mut self) {
        let how = self.ended.take();
        let how = how.unwrap_or_else(|| Ended::Down("it did not answer in time".into()));
        let now = self.registry.now();
        self.registry.roster().end(&self.id, how, now);
    }
}

/// Where jobs go to whom somebody came to life.
pub(crate) struct Changes<S = Store> {
    registry: Arc<Registry<S>>,
    came: broadcast::Receiver<Came>,
}

impl<S: Queue> Changes<S> {
    /// Waits until somebody comes to life, and answers where jobs may go by that.
    pub(crate) async fn next(&mut self) -> Vec<Destination> {
        match self.came.recv().await {
            Ok(came) => came.destinations().collect(),
            Err(RecvError::Lagged(_)) => {
                let now = self.registry.now();
                self.registry.roster_at(now).destinations()
            }
            Err(RecvError::Closed) => unreachable!("the registry is held"),
        }
    }
}

#[cfg(test)]
mod tests;
