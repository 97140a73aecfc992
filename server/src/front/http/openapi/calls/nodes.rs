//! Who shares the store.

use serde_json::{Value, json};

use super::super::operation::Operation;
use super::MOMENT;

pub(super) fn calls() -> Vec<Operation> {
    let list = Operation::new(
        "get",
        "/v1/nodes",
        "listNodes",
        "Who shares the store, and who sees to which of its buckets",
    )
    .note(
        "A store in a folder is this server's alone and has no buckets. On Redis each instance with \
            the role `timer` holds leases on a share of them. Also answered by servers without the \
            role `api`.",
    )
    .answers(200, "Those who are alive, and the buckets.", "Nodes", nodes())
    .reads(&[])
    .tag("nodes");
    vec![list]
}

fn nodes() -> Value {
    let node = json!({
        "id": "3f2a9c1d5e7b8046", "name": "queue-1", "this": true,
        "roles": ["api", "timer", "worker"], "group": "default", "weight": 1,
        "address": "127.0.0.1:7300", "version": "0.1.0", "started": MOMENT, "heard": MOMENT,
        "load": 0, "bucket_count": 0, "buckets": [],
    });
    json!({"nodes": [node], "buckets": []})
}
