//! Who shares the store: which instances are alive, what each does, and which buckets each sees to.
//!
//! Every instance beats: by one script it says that it is alive, hears who else is, and gives and takes
//! leases on buckets by a plan to which all come alike. Nothing that is right rests on it: two who see to
//! one bucket are wasteful, and a pop makes ready by itself what is due in its topics.

mod beat;
mod plan;
mod share;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(super) use self::beat::Beats;
pub use self::beat::NO_TIMER;
pub(super) use self::share::Share;
use super::core::Core;
use super::reply::{Reply, strange};
use super::scripts;
use crate::error::{Error, Result};
use crate::time::{Now, Tick, Time};

/// What an instance tells the others of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What people call it; the name of its machine unless set.
    pub name: String,
    /// Those of one group take load off each other first.
    pub group: String,
    /// How large its share of the buckets is, against that of others.
    pub weight: u32,
    /// Over this load it has others see to some of its buckets: jobs that it makes ready a second,
    /// and one for each bucket.
    pub threshold: Option<u64>,
    /// What it does besides seeing to buckets, such as `api`.
    pub roles: Vec<String>,
    /// Where it can be reached, if it can.
    pub address: Option<String>,
}

impl Node {
    /// The longest name, and the longest name of a group, in bytes.
    pub const NAME_BYTES_MAX: usize = 200;
    /// The largest weight.
    pub const WEIGHT_MAX: u32 = 10_000;

    fn check(&self) -> Result<()> {
        check_name("name", &self.name)?;
        check_name("group", &self.group)?;
        if !(1..=Node::WEIGHT_MAX).contains(&self.weight) {
            let message = format!("weight is {}; give 1 to {}", self.weight, Node::WEIGHT_MAX);
            return Err(Error::invalid("weight", message));
        }
        Ok(())
    }
}

impl Default for Node {
    fn default() -> Node {
        Node {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            group: "default".into(),
            weight: 1,
            threshold: None,
            roles: Vec::new(),
            address: None,
        }
    }
}

fn check_name(field: &'static str, name: &str) -> Result<()> {
    let is_right = (1..=Node::NAME_BYTES_MAX).contains(&name.len())
        && name.trim() == name
        && !name.chars().any(char::is_control);
    if is_right {
        return Ok(());
    }
    let message = format!(
        "{field} is {} bytes; give 1 to {}, without control characters and blanks at its ends",
        name.len(),
        Node::NAME_BYTES_MAX,
    );
    Err(Error::invalid(field, message))
}

/// All who share a store, and its buckets.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Those who are alive, by their names.
    pub nodes: Vec<NodeInfo>,
    /// The buckets, by their numbers.
    pub buckets: Vec<BucketInfo>,
}

/// One who shares a store.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Its id, which no other has had: a process that is started anew is another one.
    pub id: String,
    /// What it says of itself.
    pub node: Node,
    /// Whether it sees to buckets.
    pub timer: bool,
    /// The version that it runs.
    pub version: String,
    /// When it opened the store.
    pub started: Time,
    /// When it was last heard of.
    pub heard: Time,
    /// Until when its leases hold without another word.
    pub until: Time,
    /// Whether it is the one that was asked.
    pub is_this: bool,
}

/// A bucket: topics that one instance sees to.
#[derive(Clone, Debug)]
pub struct BucketInfo {
    /// Its number.
    pub number: u16,
    /// Who sees to it: the id of a node; nobody for a moment while it changes hands.
    pub holder: Option<String>,
    /// Rises with every lease.
    pub fence: u64,
    /// Jobs that its holder makes ready a second, smoothed.
    pub load: u64,
}

impl Fleet {
    /// Whether anybody sees to buckets.
    pub fn has_timer(&self) -> bool {
        self.nodes.iter().any(|node| node.timer)
    }

    /// The buckets that a node holds.
    pub fn held_by(&self, id: &str) -> impl Iterator<Item = &BucketInfo> {
        self.buckets.iter().filter(move |bucket| bucket.holder.as_deref() == Some(id))
    }

    /// The load of a node: jobs that it makes ready a second, and one for each bucket.
    pub fn load_of(&self, id: &str) -> u64 {
        self.held_by(id).map(|bucket| plan::BASE + bucket.load).sum()
    }
}

/// The shortest lease on buckets: less would be to beat without a pause.
pub(super) const LEASE_MIN: Duration = Duration::from_millis(100);
/// The longest: a bucket of one who died waits so long for another.
pub(super) const LEASE_MAX: Duration = Duration::from_secs(600);

/// What is stored of what a node says of itself. What is missing or new was written by another version.
#[derive(Debug, Deserialize, Serialize)]
#[serde(default)]
struct Said {
    name: String,
    group: String,
    weight: u32,
    threshold: Option<u64>,
    roles: Vec<String>,
    address: Option<String>,
    timer: bool,
    version: String,
    lease_ms: u64,
}

impl Default for Said {
    fn default() -> Said {
        let Node { name: _, group, weight, threshold, roles, address } = Node::default();
        let (name, version) = (String::new(), String::new());
        Said { name, group, weight, threshold, roles, address, timer: false, version, lease_ms: 0 }
    }
}

/// What a script answers of who is there.
struct Seen {
    now: Now,
    fleet: Fleet,
}

impl Seen {
    fn read(mut reply: Reply, buckets: u16, this: &str) -> Result<Seen> {
        let now = reply.now()?;
        let mut listed = reply.list()?;
        let mut nodes = Vec::new();
        while !listed.is_empty() {
            nodes.push(read_node(&mut listed.list()?, now, this)?);
        }
        nodes.sort_by(|a, b| (&a.node.name, &a.id).cmp(&(&b.node.name, &b.id)));
        let leases = pairs(&mut reply.list()?)?;
        let loads = pairs(&mut reply.list()?)?;
        let buckets: Vec<BucketInfo> = (0..buckets)
            .map(|number| {
                let lease = leases.get(&number).and_then(|lease| lease.split_once(' '));
                // A look forgets nobody: leases of the dead may still be there.
                let lease = lease.filter(|(holder, _)| nodes.iter().any(|node| node.id == *holder));
                BucketInfo {
                    number,
                    holder: lease.map(|(holder, _)| holder.to_owned()),
                    fence: lease.and_then(|(_, fence)| fence.parse().ok()).unwrap_or_default(),
                    load: loads.get(&number).and_then(|load| load.parse().ok()).unwrap_or_default(),
                }
            })
            .collect();
        Ok(Seen { now, fleet: Fleet { nodes, buckets } })
    }
}

impl Seen {
    /// Those among whom buckets are shared out, in the same order for all who look. One who has just come
    /// must have been there for a lease, unless nobody else is: it may be gone again in a moment, and
    /// what it held would wait until it is missed.
    fn timers(&self) -> Vec<&NodeInfo> {
        let now = self.now.time();
        let holders: HashSet<&str> =
            self.fleet.buckets.iter().filter_map(|bucket| bucket.holder.as_deref()).collect();
        let has_stayed = |node: &NodeInfo| {
            let lease_ms = node.until.ms_since(node.heard);
            holders.contains(&*node.id) || now.ms_since(node.started) >= lease_ms
        };
        let mut timers: Vec<&NodeInfo> =
            self.fleet.nodes.iter().filter(|node| node.timer).collect();
        if timers.iter().any(|timer| has_stayed(timer)) {
            timers.retain(|timer| has_stayed(timer));
        }
        timers.sort_by(|a, b| a.id.cmp(&b.id));
        timers
    }
}

fn read_node(reply: &mut Reply, now: Now, this: &str) -> Result<NodeInfo> {
    let id = reply.text()?;
    let said: Said = serde_json::from_slice(&reply.bytes()?).map_err(|_| strange())?;
    let started = Time::from_ms(reply.u64()?).ok_or_else(strange)?;
    let until = now.time_at(Tick::from_us(reply.u64()?));
    Ok(NodeInfo {
        is_this: id == this,
        id,
        node: Node {
            name: said.name,
            group: said.group,
            weight: said.weight,
            threshold: said.threshold,
            roles: said.roles,
            address: said.address,
        },
        timer: said.timer,
        version: said.version,
        started,
        heard: until.saturating_sub_ms(said.lease_ms),
        until,
    })
}

/// Texts by bucket, which are answered one after the other.
fn pairs(reply: &mut Reply) -> Result<HashMap<u16, String>> {
    let mut pairs = HashMap::new();
    while !reply.is_empty() {
        pairs.insert(reply.text()?.parse().map_err(|_| strange())?, reply.text()?);
    }
    Ok(pairs)
}

impl Core {
    /// Who is there, and what they hold.
    pub(super) async fn fleet(&self, this: &str) -> Result<Fleet> {
        Ok(self.ask_nodes(this, [b"look".to_vec()]).await?.fleet)
    }

    /// Says that an instance is gone: what it held is free at once.
    pub(super) async fn say_goodbye(&self, this: &str) -> Result<()> {
        self.ask_nodes(this, [b"leave".to_vec(), this.into()]).await.map(drop)
    }

    async fn ask_nodes(&self, this: &str, args: impl IntoIterator<Item = Vec<u8>>) -> Result<Seen> {
        let answer = self.eval_at(&scripts::NODES, self.keys.of_nodes(), Vec::new(), args).await?;
        Seen::read(Reply::of(answer)?, self.keys.count(), this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_cannot_be_shown_or_shared_with_is_refused() {
        let right = Node { name: "a".into(), ..Node::default() };
        right.check().unwrap();
        let long = "x".repeat(Node::NAME_BYTES_MAX + 1);
        for name in ["", " a", "a\n", long.as_str()] {
            let node = Node { name: name.into(), ..right.clone() };
            assert_eq!(node.check().unwrap_err().at_field(), Some("name"), "{name:?}");
            let node = Node { group: name.into(), ..right.clone() };
            assert_eq!(node.check().unwrap_err().at_field(), Some("group"), "{name:?}");
        }
        for weight in [0, Node::WEIGHT_MAX + 1] {
            let node = Node { weight, ..right.clone() };
            assert_eq!(node.check().unwrap_err().at_field(), Some("weight"));
        }
    }

    #[test]
    fn what_another_version_says_is_read_as_far_as_it_is_known() {
        let said: Said = serde_json::from_str(r#"{"name":"a","weight":3,"new":{}}"#).unwrap();
        assert_eq!((said.name.as_str(), said.weight, said.group.as_str()), ("a", 3, "default"));
    }
}
