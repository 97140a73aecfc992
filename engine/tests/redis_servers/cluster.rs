//! A cluster of six nodes: three primaries with a replica each.

use super::server::{Server, free_port};
use super::{Answer, wait_until};

pub(crate) struct Cluster {
    /// The first three begin as primaries, each of the others as the replica of one of them.
    pub(crate) nodes: Vec<Server>,
}

const PRIMARIES: usize = 3;
const SLOTS: usize = 16384;

impl Cluster {
    /// Starts six nodes and waits until all of them think that their cluster is well.
    pub(crate) fn start() -> Cluster {
        let nodes: Vec<_> = (0..2 * PRIMARIES).map(|_| node()).collect();
        let cluster = Cluster { nodes };
        cluster.give_out_slots();
        cluster.introduce();
        cluster.appoint_replicas();
        cluster.wait_until_well();
        cluster
    }

    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    pub(crate) fn slot_of(&self, key: &str) -> u16 {
        let slot = self.alive().ask(&["CLUSTER", "KEYSLOT", key]).int();
        u16::try_from(slot).expect("a slot")
    }

    /// Which of the nodes serves this slot.
    pub(crate) fn primary_of(&self, slot: u16) -> usize {
        let answer = self.alive().ask(&["CLUSTER", "SLOTS"]);
        let row = answer.list().iter().find(|row| {
            let row = row.list();
            (row[0].int()..=row[1].int()).contains(&i64::from(slot))
        });
        let port = row.expect("each slot is served").list()[2].list()[1].int();
        let at = self.nodes.iter().position(|node| i64::from(node.port) == port);
        at.expect("one of ours")
    }

    /// A key that the given node serves.
    pub(crate) fn key_on(&self, node: usize) -> String {
        let mut keys = (0..).map(|number| format!("key-{number}"));
        keys.find(|key| self.primary_of(self.slot_of(key)) == node).expect("it has slots")
    }

    /// Kills the node that has this key, waits for nothing, and says which it was.
    pub(crate) fn kill_primary_of(&mut self, key: &str) -> usize {
        let at = self.primary_of(self.slot_of(key));
        self.nodes[at].kill();
        at
    }

    /// Moves a slot with its keys to another primary.
    pub(crate) fn migrate_slot(&self, slot: u16, to: usize) {
        let from = self.begin_migration(slot, to);
        self.move_keys(slot, from, to);
        self.end_migration(slot, from, to);
    }

    /// From now on the slot's keys that are not there (any more) are asked for at `to`.
    pub(crate) fn begin_migration(&self, slot: u16, to: usize) -> usize {
        let from = self.primary_of(slot);
        let (slot, from_id, to_id) = (slot.to_string(), self.id(from), self.id(to));
        self.nodes[to].ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        self.nodes[from].ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
        from
    }

    pub(crate) fn move_keys(&self, slot: u16, from: usize, to: usize) {
        let (slot, port) = (slot.to_string(), self.nodes[to].port.to_string());
        let mut plain = self.nodes[from].plain();
        for key in plain.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]).list() {
            plain.ask(&["MIGRATE", "127.0.0.1", &port, key.text(), "0", "5000"]);
        }
    }

    pub(crate) fn end_migration(&self, slot: u16, from: usize, to: usize) {
        let (slot, id) = (slot.to_string(), self.id(to));
        for node in [to, from] {
            self.nodes[node].ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
        let slot = slot.parse().expect("a slot");
        wait_until("all nodes know", || {
            self.running().all(|node| owner_port(node, slot) == Some(self.nodes[to].port))
        });
    }

    fn id(&self, node: usize) -> String {
        self.nodes[node].ask(&["CLUSTER", "MYID"]).text().to_owned()
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter(|node| node.runs())
    }

    fn alive(&self) -> &Server {
        self.running().next().expect("a node runs")
    }

    fn give_out_slots(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            let mut plain = node.plain();
            // Each its own, or two that meet have to settle it first.
            plain.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
            if at < PRIMARIES {
                let first = (at * SLOTS / PRIMARIES).to_string();
                let last = ((at + 1) * SLOTS / PRIMARIES - 1).to_string();
                plain.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            }
        }
    }

    fn introduce(&self) {
        let mut first = self.nodes[0].plain();
        for node in &self.nodes[1..] {
            let bus = node.ask(&["CONFIG", "GET", "cluster-port"]).list()[1].text().to_owned();
            first.ask(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string(), &bus]);
        }
        for node in &self.nodes {
            wait_until("the node knows the others", || {
                let info = node.ask(&["CLUSTER", "INFO"]);
                let known = format!("cluster_known_nodes:{}\r\n", self.nodes.len());
                info.text().contains(&known) && info.text().contains("cluster_state:ok")
            });
        }
    }

    fn appoint_replicas(&self) {
        for at in 0..PRIMARIES {
            let replica = &self.nodes[PRIMARIES + at];
            replica.ask(&["CLUSTER", "REPLICATE", &self.id(at)]);
        }
    }

    fn wait_until_well(&self) {
        for replica in &self.nodes[PRIMARIES..] {
            wait_until("the replica follows", || {
                replica.ask(&["INFO", "replication"]).text().contains("master_link_status:up")
            });
        }
        for node in &self.nodes {
            wait_until("the node knows who follows whom", || {
                let slots = node.ask(&["CLUSTER", "SLOTS"]);
                slots.list().len() == PRIMARIES
                    && slots.list().iter().all(|row| row.list().len() == 4)
            });
        }
    }
}

fn node() -> Server {
    Server::start_with(|_, _| {
        let bus = free_port().to_string();
        let settings = [
            ("--cluster-enabled", "yes"),
            ("--cluster-port", &bus),
            ("--cluster-node-timeout", "1000"),
            ("--cluster-replica-validity-factor", "0"),
            ("--repl-diskless-sync-delay", "0"),
        ];
        settings.iter().flat_map(|(name, value)| [name.to_string(), value.to_string()]).collect()
    })
}

fn owner_port(node: &Server, slot: u16) -> Option<u16> {
    let answer = node.ask(&["CLUSTER", "SLOTS"]);
    let row = answer
        .list()
        .iter()
        .map(Answer::list)
        .find(|row| (row[0].int()..=row[1].int()).contains(&i64::from(slot)))?;
    u16::try_from(row[2].list()[1].int()).ok()
}
