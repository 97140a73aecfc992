//! Connections to the nodes of a cluster, and the way to the one that has a key.
//!
//! The crate's own cluster connection repeats a call whose reply was lost, or else follows no
//! redirects, and while it learns about one node's end it serves none of the others: hence ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use redis::{Cmd, Value};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::dial::{Dialer, Request, Task};
use super::fault::{Fault, Then};
use super::link::{Link, Place};
use super::slots::{Slots, slot};
use super::{LOOK_GAP, REDIRECTS_MAX, WAIT_MAX};
use crate::error::{Code, Error, Result};
use crate::store::redis::address::Node;

/// The nodes of a cluster. It ends with its last clone.
#[derive(Clone)]
pub(super) struct Cluster {
    shared: Arc<Shared>,
    _scout: Arc<Task>,
}

struct Shared {
    dialer: Dialer,
    /// The nodes that the address names.
    seeds: Vec<Node>,
    slots: RwLock<Slots>,
    links: Mutex<HashMap<Node, Link>>,
    /// Rung when the slots may not be where they were.
    look: Notify,
}

impl Cluster {
    /// Connects to all primaries.
    pub(super) async fn open(seeds: &[Node], dialer: Dialer) -> Result<Cluster> {
        let slots = first_look(seeds, &dialer).await?;
        let shared = Arc::new(Shared {
            dialer,
            seeds: seeds.to_vec(),
            slots: RwLock::new(Slots::default()),
            links: Mutex::default(),
            look: Notify::new(),
        });
        for node in shared.learn(slots) {
            shared.link(&node).opened().await?;
        }
        let scout = Task(tokio::spawn(Arc::clone(&shared).scout()));
        Ok(Cluster { shared, _scout: Arc::new(scout) })
    }

    /// One command on the node that has this key.
    pub(super) async fn call(&self, key: &[u8], request: Request<'_>) -> Result<Value, Fault> {
        let slot = slot(key);
        let owner = self.shared.slots().owner(slot).cloned();
        let node = owner.ok_or_else(|| self.shared.unserved(slot))?;
        let mut answer = self.shared.link(&node).call(request).await;
        for _ in 0..REDIRECTS_MAX {
            answer = match answer.as_ref().err().map(|fault| fault.then.clone()) {
                Some(Then::Follow(to)) => {
                    self.shared.moved(slot, &to);
                    self.shared.link(&to).call(request).await
                }
                Some(Then::Ask(to)) => self.shared.link(&to).call_asking(request).await,
                Some(Then::LookAround | Then::Reconnect) => {
                    self.shared.look.notify_one();
                    return answer;
                }
                Some(Then::Nothing | Then::SendLibrary(_)) | None => return answer,
            };
        }
        answer
    }

    /// One command on this very node.
    pub(super) async fn call_at(&self, node: &Node, command: &Cmd) -> Result<Value, Fault> {
        self.shared.link(node).call(command.into()).await
    }

    /// Who has this channel.
    pub(super) fn owner(&self, channel: &[u8]) -> Option<Node> {
        self.shared.slots().owner(slot(channel)).cloned()
    }

    /// Has the slots looked up soon.
    pub(super) fn look(&self) {
        self.shared.look.notify_one();
    }

    /// Since when there has been a primary that cannot be reached.
    pub(super) fn away_since(&self) -> Option<Instant> {
        self.shared.away_since()
    }
}

impl Shared {
    fn slots(&self) -> std::sync::RwLockReadGuard<'_, Slots> {
        self.slots.read().expect(NO_PANIC)
    }

    fn links(&self) -> MutexGuard<'_, HashMap<Node, Link>> {
        self.links.lock().expect(NO_PANIC)
    }

    fn link(&self, node: &Node) -> Link {
        let mut links = self.links();
        let new = || Link::to(node.clone(), self.dialer.clone());
        links.entry(node.clone()).or_insert_with(new).clone()
    }

    fn unserved(&self, slot: u16) -> Fault {
        self.look.notify_one();
        let message = format!("no node of the Redis cluster serves slot {slot} at present");
        Fault::new(Then::LookAround, Code::Unavailable, message)
    }

    fn moved(&self, slot: u16, to: &Node) {
        self.slots.write().expect(NO_PANIC).assign(slot..=slot, to.clone());
        self.look.notify_one();
    }

    fn away_since(&self) -> Option<Instant> {
        let primaries = self.slots().primaries().to_vec();
        let links = self.links();
        primaries.iter().filter_map(|node| links.get(node)?.away_since()).min()
    }

    /// Takes over what was learnt, and gives the primaries that serve something.
    fn learn(&self, slots: Slots) -> Vec<Node> {
        let primaries = slots.primaries().to_vec();
        *self.slots.write().expect(NO_PANIC) = slots;
        self.links().retain(|node, _| primaries.contains(node));
        // Dialled ahead of the first call, and seen if they are away.
        for node in &primaries {
            self.link(node);
        }
        primaries
    }

    /// Looks where the slots are, whenever someone found that they may have moved.
    async fn scout(self: Arc<Self>) {
        loop {
            let rung = tokio::time::timeout(WAIT_MAX, self.look.notified()).await.is_ok();
            if !rung && self.away_since().is_none() {
                continue;
            }
            if let Some(slots) = self.ask_around().await {
                self.learn(slots);
            }
            // Many calls fail at once, and each rings.
            tokio::time::sleep(LOOK_GAP).await;
        }
    }

    /// The word of the first node that is well; if none is, of the first that answers.
    async fn ask_around(&self) -> Option<Slots> {
        let mut second_best = None;
        let known = self.slots().primaries().to_vec();
        for node in known.iter().chain(self.seeds.iter().filter(|seed| !known.contains(seed))) {
            match ask(&self.link(node), node).await {
                Ok((slots, true)) => return Some(slots),
                // Cut off from the others, it may keep telling what was true before.
                Ok((slots, false)) => _ = second_best.get_or_insert(slots),
                Err(_) => {}
            }
        }
        second_best
    }
}

const NO_PANIC: &str = "nothing panics while it holds this lock";

async fn first_look(seeds: &[Node], dialer: &Dialer) -> Result<Slots> {
    let mut first = None;
    for node in seeds {
        let looked = async {
            let line = dialer.dial(node).await?;
            ask(&Link::over(line, Place::At(node.clone()), dialer.clone()), node).await
        };
        match looked.await {
            Ok((slots, _)) if slots.primaries().is_empty() => {
                let message = format!(
                    "the Redis cluster at `{node}` serves no slots yet; create it first, as by \
                     `redis-cli --cluster create`"
                );
                first.get_or_insert(Error::new(Code::Unavailable, message));
            }
            Ok((slots, _)) => return Ok(slots),
            Err(fault) => _ = first.get_or_insert(fault.error),
        }
    }
    Err(first.expect("an address names a node"))
}

/// Which slots are where, and whether the node thinks that its cluster is well.
async fn ask(link: &Link, node: &Node) -> Result<(Slots, bool), Fault> {
    let answer = link.call((&*redis::cmd("CLUSTER").arg("SLOTS")).into()).await.map_err(|fault| {
        if !fault.error.message().contains("cluster support disabled") {
            return fault;
        }
        let message = format!(
            "Redis at `{node}` is not part of a cluster; write `redis://` or `redis+sentinel://`"
        );
        Fault { then: Then::Nothing, error: Error::invalid("store", message), lost: false }
    })?;
    let slots = Slots::read(&answer, node).ok_or_else(|| {
        let message = format!("Redis at `{node}` answered CLUSTER SLOTS in a form not known");
        Fault::new(Then::Nothing, Code::Unavailable, message)
    })?;
    let info = link.call((&*redis::cmd("CLUSTER").arg("INFO")).into()).await?;
    let info = redis::from_redis_value::<String>(info).unwrap_or_default();
    Ok((slots, info.contains("cluster_state:ok")))
}
