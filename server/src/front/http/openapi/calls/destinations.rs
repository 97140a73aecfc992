//! Where pushes go.

use linger::queue::PAGE_MAX;
use serde_json::{Value, json};

use super::super::operation::Operation;
use super::{DUE, MOMENT};

pub(super) fn calls() -> Vec<Operation> {
    let limit = json!({"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": 100});
    let text = json!({"type": "string"});
    let list = Operation::new(
        "get",
        "/v1/destinations",
        "listDestinations",
        "Where this server pushes to, and how that goes",
    )
    .note(
        "A destination is a host, a sink, or the workers of a topic. Known to the server that answers \
            alone: those it pushes to now or that are closed, and of others the 1,000 it pushed to last.",
    )
    .asks("limit", "At most so many.", limit, json!(100))
    .asks("cursor", "Where the page before left off: what that page said.", text, json!(""))
    .answers(200, "The destinations, by name.", "Destinations", destinations())
    .reads(&[])
    .tag("destinations");
    vec![list]
}

fn destinations() -> Value {
    let to = "https://shop.example";
    let error = "connection refused";
    json!({
        "destinations": [{
            "destination": to, "state": "open", "under_way": 0, "deliveries": 120, "failures": 4,
            "latency_ms": {"p50": 12.0, "p99": 85.0}, "last_failure": MOMENT, "last_error": error,
        }],
        "recent_failures": [{
            "time": DUE, "topic": "order.close", "id": "1001", "attempt": 1, "destination": to,
            "error": error,
        }],
    })
}
