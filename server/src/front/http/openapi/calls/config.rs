//! The settings that all who share the store have.

use linger::error::Code;
use serde_json::{Value, json};

use super::super::operation::Operation;

pub(super) fn calls() -> Vec<Operation> {
    let show = Operation::new(
        "get",
        "/v1/config",
        "getConfig",
        "The settings that all who share the store have, and who runs by them",
    )
    .note(
        "They hold over the file of each instance, and below its environment and flags. `in_force` is what this \
         instance runs by, of the settings that can change while it runs.",
    )
    .answers(200, "What is stored, and which version each instance runs.", "SharedConfig", config())
    .reads(&[]);
    let set = Operation::new(
        "put",
        "/v1/config",
        "setConfig",
        "Shares these settings, in place of all that were shared",
    )
    .note(
        "Only settings that can change while a server runs, and no secrets. They are validated whole, by this \
         instance, before they are stored; each instance takes them on within `store.poll`, or tells why not.",
    )
    .needs(
        "SharedConfigWish",
        &[("A larger body", json!({"settings": {"limits.body": "2MiB"}}))],
    )
    .answers(200, "They are stored.", "SharedConfig", config())
    .writes(&[Code::VersionMismatch]);
    [show, set].into_iter().map(|call| call.tag("nodes")).collect()
}

fn config() -> Value {
    json!({
        "version": 12, "settings": {"limits.body": "2MiB"},
        "nodes": [{"id": "3f2a9c1d5e7b8046", "name": "queue-1", "this": true, "version": 12}],
    })
}
