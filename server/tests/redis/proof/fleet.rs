//! Servers that come and go while others call them.

use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::watch;

use super::client::now_ms;
use super::ledger::Ledger;
use crate::fleet::until;
use crate::served::{Answer, Caller, PATIENCE, Served};

/// A few numbers from a seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed);
        rng.below(2);
        rng
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// What all who take part in a run share.
pub(crate) struct Run {
    /// Those that answer calls at present.
    callers: RwLock<Vec<(usize, Caller)>>,
    ledger: Mutex<Ledger>,
    progress: watch::Sender<u64>,
}

impl Run {
    pub(crate) fn new() -> Arc<Run> {
        let (callers, ledger) = (RwLock::default(), Mutex::default());
        Arc::new(Run { callers, ledger, progress: watch::Sender::new(0) })
    }

    /// Writes into the ledger, or reads it.
    pub(crate) fn note<T>(&self, act: impl FnOnce(&mut Ledger) -> T) -> T {
        let mut ledger = self.ledger.lock().expect("nobody panics with it");
        let noted = act(&mut ledger);
        let now = ledger.counts.progress();
        drop(ledger);
        self.progress.send_if_modified(|progress| std::mem::replace(progress, now) != now);
        noted
    }

    /// Does something by which Redis is away for a while.
    pub(crate) fn upset<T>(&self, act: impl FnOnce() -> T) -> T {
        self.note(|ledger| ledger.redis_goes());
        let done = tokio::task::block_in_place(act);
        self.note(|ledger| ledger.redis_is_back(now_ms()));
        done
    }

    pub(crate) fn progress(&self) -> u64 {
        *self.progress.borrow()
    }

    /// Waits until the work has come so far.
    pub(crate) async fn until_progress(&self, least: u64) {
        let mut heard = self.progress.subscribe();
        while *heard.borrow_and_update() < least {
            let more = tokio::time::timeout(PATIENCE, heard.changed()).await;
            more.expect("the work goes on").expect("this run lives on");
        }
    }

    /// Someone to call.
    pub(crate) fn caller(&self, rng: &mut Rng) -> Caller {
        let callers = self.callers.read().expect("nobody panics with it");
        rng.one_of(&callers).1.clone()
    }

    /// In place of the one before, which may still stand there.
    fn join(&self, slot: usize, caller: Caller) {
        let mut callers = self.callers.write().expect("nobody panics with it");
        callers.retain(|(of, _)| *of != slot);
        callers.push((slot, caller));
    }

    /// Unless it is the only one: then it is called in vain.
    fn leave(&self, slot: usize) {
        let mut callers = self.callers.write().expect("nobody panics with it");
        if callers.len() > 1 {
            callers.retain(|(of, _)| *of != slot);
        }
    }
}

/// The servers of a run.
pub(crate) struct Servers {
    run: Arc<Run>,
    url: String,
    settings: &'static [&'static str],
    slots: Vec<Slot>,
}

struct Slot {
    name: String,
    role: &'static str,
    served: Option<Served>,
}

impl Servers {
    /// One server for each of the roles, which all are told these settings.
    pub(crate) async fn start(
        run: &Arc<Run>,
        url: &str,
        roles: &[&'static str],
        settings: &'static [&'static str],
    ) -> Servers {
        let slot = |(at, role): (usize, &&'static str)| Slot {
            name: format!("s{at}"),
            role,
            served: None,
        };
        let slots = roles.iter().enumerate().map(slot).collect();
        let mut servers = Servers { run: run.clone(), url: url.to_owned(), settings, slots };
        for at in 0..servers.len() {
            servers.start_one(at).await;
        }
        servers
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether one that answers calls runs.
    pub(crate) fn can_go_on(&self) -> bool {
        self.slots.iter().any(|slot| slot.role.contains("api") && slot.served.is_some())
    }

    /// A caller of the first that runs and has the role api.
    pub(crate) fn caller(&self) -> Caller {
        let apis = self.slots.iter().filter(|slot| slot.role.contains("api"));
        let served = apis.filter_map(|slot| slot.served.as_ref()).next();
        served.expect("one runs").caller()
    }

    /// A caller of one that is not this.
    fn caller_beside(&self, at: usize) -> Caller {
        let others = self.slots.iter().enumerate().filter(|(other, _)| *other != at);
        let served = others.filter_map(|(_, slot)| slot.served.as_ref()).next();
        served.expect("another runs").caller()
    }

    pub(crate) async fn start_one(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        // Soon over, so that others take over soon.
        let args = ["--set", "store.lease=600ms", "--name", &slot.name, "--role", slot.role];
        let args = [&args, self.settings].concat();
        let served = Served::start(Path::new(&self.url), &args).await;
        if slot.role.contains("api") {
            self.run.join(at, served.caller());
        }
        slot.served = Some(served);
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.slots[at].served.take().expect("it runs").kill();
        self.run.leave(at);
    }

    /// Stops one in the midst of what it does, until the others think that it is gone, and lets it go on.
    pub(crate) async fn sleep_past_leases(&mut self, at: usize) {
        let slot = &self.slots[at];
        let served = slot.served.as_ref().expect("it runs");
        served.signal(Signal::STOP);
        self.run.leave(at);
        self.until_gone(at).await;
        served.signal(Signal::CONT);
        if slot.role.contains("api") {
            self.run.join(at, served.caller());
        }
    }

    /// Waits until the others think that this one is gone.
    pub(crate) async fn until_gone(&self, at: usize) {
        let is_gone =
            |nodes: &[Value]| nodes.iter().all(|node| node["name"] != self.slots[at].name);
        self.until_nodes(at, is_gone).await;
    }

    /// Waits until this one holds buckets.
    pub(crate) async fn until_holds(&self, at: usize) {
        let name = self.slots[at].name.as_str();
        let holds = |node: &Value| node["name"] == name && node["bucket_count"] != 0;
        self.until_nodes(at, |nodes| nodes.iter().any(holds)).await;
    }

    async fn until_nodes(&self, beside: usize, are_such: impl Fn(&[Value]) -> bool) {
        let is_so =
            |answer: &Answer| answer.json["nodes"].as_array().is_some_and(|it| are_such(it));
        until(&self.caller_beside(beside), "/v1/nodes", is_so).await;
    }
}
