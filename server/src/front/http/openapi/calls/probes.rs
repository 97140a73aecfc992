//! Whether the server is well, and what it offers.

use linger::error::Code;
use serde_json::json;

use super::super::operation::Operation;

pub(super) fn calls() -> Vec<Operation> {
    let is = |name: &str| {
        json!({
            "type": "object", "required": [name],
            "properties": {name: {"const": true}},
        })
    };
    let healthy = Operation::new("get", "/healthz", "isAlive", "Whether a restart is not needed")
        .answers_in("application/json", 200, "It is well.", is("ok"), json!({"ok": true}))
        .refuses(&[Code::StorageFailed]);
    let mut ready = is("ready");
    ready["properties"]["warning"] = json!({
        "type": "string",
        "description": "Why jobs may be late: no live instance has the role `timer`.",
    });
    let ready = Operation::new("get", "/readyz", "isReady", "Whether every stored job is loaded")
        .answers_in("application/json", 200, "It takes calls.", ready, json!({"ready": true}))
        .refuses(&[Code::Unavailable, Code::StorageFailed]);
    let metrics = Operation::new("get", "/metrics", "metrics", "Figures for Prometheus")
        .answers_in(
            "text/plain",
            200,
            "The figures, in the text format 0.0.4.",
            json!({"type": "string"}),
            json!("linger_topics 1\n"),
        )
        .refuses(&[Code::Unavailable, Code::Overloaded, Code::StorageFailed]);
    let document = Operation::new("get", "/openapi.json", "openapi", "This description")
        .answers_in(
            "application/json",
            200,
            "OpenAPI 3.1.",
            json!({"type": "object", "required": ["openapi", "paths"]}),
            json!({"openapi": "3.1.0", "paths": {}}),
        );
    let page = Operation::new("get", "/docs", "docs", "This description as a page").answers_in(
        "text/html",
        200,
        "A page that needs nothing from elsewhere.",
        json!({"type": "string"}),
        json!("<!doctype html>"),
    );
    let dashboard = Operation::new("get", "/", "dashboard", "The dashboard").answers_in(
        "text/html",
        200,
        "A page that needs nothing from elsewhere.",
        json!({"type": "string"}),
        json!("<!doctype html>"),
    );
    let calls = [healthy, ready, metrics, document, page, dashboard];
    calls.into_iter().map(|call| call.tag("probes")).collect()
}
