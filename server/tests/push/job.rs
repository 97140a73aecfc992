//! What becomes of a job, as everyone can see it.

use serde_json::Value;

use crate::client::Caller;
use crate::receiver::PATIENCE;

/// Waits until a job is in this state.
pub(crate) async fn until(server: &Caller, topic: &str, id: &str, state: &str) -> Value {
    let mut last = Value::Null;
    let there = async {
        while last["state"] != state {
            last = look(server, topic, id).await;
        }
    };
    let is_there = tokio::time::timeout(PATIENCE, there).await.is_ok();
    assert!(is_there, "{topic}/{id} is not {state}: {last}");
    last
}

/// A job as it is now; an error if it is not there.
pub(crate) async fn look(server: &Caller, topic: &str, id: &str) -> Value {
    server.get(&format!("/v1/topics/{topic}/jobs/{id}")).await.json()
}

/// What happened to a job, from first to last, without that it was added.
pub(crate) async fn history(server: &Caller, topic: &str, id: &str) -> Vec<Value> {
    let path = format!("/v1/topics/{topic}/jobs/{id}/history");
    let mut told = server.get(&path).await.ok(200);
    let mut told: Vec<Value> = serde_json::from_value(told["history"].take()).unwrap();
    told.retain(|event| event["what"] != "added");
    told
}

/// Waits until a line of the metrics, such as `linger_destinations_closed`, is at least so much.
pub(crate) async fn until_counted(server: &Caller, line: &str, least: u64) {
    let mut last = String::new();
    let counted = async {
        while value(&last, line).is_none_or(|value| value < least) {
            last = server.get("/metrics").await.text;
        }
    };
    let is_counted = tokio::time::timeout(PATIENCE, counted).await.is_ok();
    assert!(is_counted, "{line} is not {least}: {last}");
}

fn value(metrics: &str, line: &str) -> Option<u64> {
    metrics.lines().find_map(|said| said.strip_prefix(line)?.trim().parse().ok())
}
