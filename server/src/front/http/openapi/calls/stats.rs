//! What is counted.

use linger::stats::BOUNDS_US;
use serde_json::{Value, json};

use super::super::operation::Operation;
use super::{DUE, MOMENT};

pub(super) fn calls() -> Vec<Operation> {
    let show = Operation::new("get", "/v1/stats", "getStats", "What the server and its store count")
        .note(
            "Cheap enough to be asked every two seconds. Totals and histograms are since the store was \
                opened, on Redis by this server: rates and percentiles are differences of two answers. \
                A refusal because a store on Redis is away has `store` beside its error.",
        )
        .answers(200, "What is counted.", "Stats", stats())
        .reads(&[])
        .tag("stats");
    vec![show]
}

fn stats() -> Value {
    let classes = |first: u64| {
        let mut counts = vec![0; BOUNDS_US.len() + 1];
        counts[0] = first;
        counts
    };
    let bounds: Vec<f64> = BOUNDS_US.iter().map(|us| *us as f64 / 1e3).collect();
    json!({
        "now": MOMENT, "version": "0.1.0", "started": MOMENT,
        "counts": {
            "delayed": 7, "ready": 1, "reserved": 0, "retry": 0, "held": 0, "dead": 0,
            "finished": 0,
        },
        "topics": 2, "waiting": 0,
        "totals": {
            "added": 9, "handed_out": 1, "finished": 1, "failed": 0, "again": 0, "timed_out": 0,
            "died": 0, "deleted": 0,
        },
        "lateness": {
            "bounds_ms": bounds, "due_to_ready": classes(2), "ready_to_handed_out": classes(1),
        },
        "oldest_ready": {"topic": "order.close", "id": "1001", "due": DUE},
        "store": {
            "kind": "folder", "durability": "sync", "log_bytes": 67108864, "live_bytes": 1024,
            "checkpoint_bytes": 4096, "free_bytes": 734003200, "full": false,
        },
        "pushes": {
            "running": 0, "closed": 0,
            "totals": {
                "done": 0, "failed": 0, "again": 0, "dead": 0, "left": 0, "released": 0,
                "nobody_there": 0, "lost": 0,
            },
        },
    })
}
