//! `linger nodes` and `linger buckets`.

use std::collections::HashMap;

use anyhow::Result;
use serde::Deserialize;

use super::client::Remote;
use super::json::Object;
use super::text::Table;
use super::{End, note};

/// List the instances that share the store, and what each does
#[derive(clap::Args)]
#[command(after_help = NODES_EXAMPLES)]
pub(super) struct Nodes {
    #[command(flatten)]
    remote: Remote,
}

const NODES_EXAMPLES: &str = "\
Examples:
  linger nodes
  linger nodes --json | jq -r '.nodes[] | select(.roles | index(\"timer\")) | .name'";

/// List the buckets of a store on Redis, and which instance sees to each
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
#[command(after_help = BUCKETS_EXAMPLES)]
pub(super) struct Buckets {
    /// Only those of the instance with this name or id
    node: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

const BUCKETS_EXAMPLES: &str = "\
Examples:
  linger buckets
  linger buckets queue-1
  linger buckets --json | jq '[.buckets[].load] | add'";

const PATH: &str = "/v1/nodes";

#[derive(Deserialize)]
struct Fleet {
    nodes: Vec<Object>,
    buckets: Vec<Object>,
    warning: Option<String>,
}

const NODE_HEADS: [&str; 11] = [
    "NAME", "ID", "ROLES", "GROUP", "WEIGHT", "BUCKETS", "LOAD", "ADDRESS", "VERSION", "STARTED",
    "HEARD",
];
const BUCKET_HEADS: [&str; 6] = ["BUCKET", "NAME", "HOLDER", "FENCE", "LOAD", "UNTIL"];

impl Nodes {
    pub(super) fn run(self) -> Result<End> {
        let answer = self.remote.client()?.get(PATH)?;
        let fleet: Fleet = answer.read()?;
        let rows = fleet.nodes.iter().map(node_row).collect();
        answer.print(|| Table::new(&NODE_HEADS).rows(rows))?;
        fleet.warn();
        Ok(End::Done)
    }
}

impl Buckets {
    pub(super) fn run(self) -> Result<End> {
        let answer = self.remote.client()?.get(PATH)?;
        let fleet: Fleet = answer.read()?;
        let names: HashMap<String, String> =
            fleet.nodes.iter().map(|node| (node.shown("id"), node.shown("name"))).collect();
        let is_meant = |holder: &String| match &self.node {
            Some(node) => node == holder || names.get(holder) == Some(node),
            None => true,
        };
        let buckets = fleet.buckets.iter().filter(|bucket| is_meant(&bucket.shown("holder")));
        let rows: Vec<_> = buckets.map(|bucket| bucket_row(bucket, &names)).collect();
        let end = if rows.is_empty() { End::No } else { End::Done };
        answer.print(|| Table::new(&BUCKET_HEADS).rows(rows))?;
        if end == End::No {
            note("no such buckets");
        }
        fleet.warn();
        Ok(end)
    }
}

impl Fleet {
    fn warn(&self) {
        if let Some(warning) = &self.warning {
            note(warning);
        }
    }
}

fn node_row(node: &Object) -> Vec<String> {
    let roles: Vec<String> = serde_json::from_str(&node.shown("roles")).unwrap_or_default();
    let mut row = vec![node.shown("name"), node.shown("id"), roles.join(",")];
    let rest =
        ["group", "weight", "bucket_count", "load", "address", "version", "started", "heard"];
    row.extend(rest.map(|name| node.shown(name)));
    row
}

fn bucket_row(bucket: &Object, names: &HashMap<String, String>) -> Vec<String> {
    let name = names.get(&bucket.shown("holder")).cloned().unwrap_or_default();
    let mut row = vec![bucket.shown("number"), name];
    row.extend(["holder", "fence", "load", "until"].map(|field| bucket.shown(field)));
    row
}
