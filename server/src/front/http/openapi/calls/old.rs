//! The older dialects, which pass over what they do not know and have their own ways to refuse.

use axum::http::StatusCode;
use linger::error::Code;
use serde_json::{Value, json};

use super::super::operation::Operation;
use crate::front::http::error::status_of;

pub(super) fn command() -> Vec<Operation> {
    let call = |path, id| {
        Operation::new("post", path, id, "Obeys a command")
            .needs(
                "Command",
                &[
                    (
                        "Add",
                        json!({
                            "command": "add", "topic": "order.close", "id": "1002", "delay": 30,
                            "TTR": 60, "body": "close it",
                        }),
                    ),
                    ("Pop", json!({"command": "pop", "topic": "order.close", "wait": 0})),
                    ("Finish", json!({"command": "finish", "topic": "order.close", "id": "1001"})),
                    ("Delete", json!({"command": "delete", "id": "1001"})),
                ],
            )
            .answers(
                200,
                "What became of it.",
                "Obeyed",
                json!({"success": true, "error": null, "id": "1002", "value": null}),
            )
            .tag("command")
    };
    vec![call("/", "commandAtRoot"), call("/v1/command", "command")]
}

pub(super) fn ouqiang() -> Vec<Operation> {
    let by_id = || [("By id", json!({"id": "1001"}))];
    let call = |path, id, summary, schema, examples: &[(&str, Value)], data: Value| {
        Operation::new("post", path, id, summary)
            .needs(schema, examples)
            .answers(
                200,
                "`code` is 0 if it was done.",
                "Told",
                json!({"code": 0, "message": "ok", "data": data}),
            )
            .tag("ouqiang")
    };
    vec![
        call(
            "/push",
            "push",
            "Adds a job, or replaces it",
            "Push",
            &[(
                "Close an order",
                json!({
                    "topic": "order.close", "id": "1001", "delay": 1800, "ttr": 60,
                    "body": "close it",
                }),
            )],
            Value::Null,
        ),
        call(
            "/pop",
            "pop",
            "Waits for a job of some topics",
            "PopTopics",
            &[("Of two topics", json!({"topic": "order.close,mail"}))],
            json!({"id": "1001", "body": "close it"}),
        ),
        call("/finish", "finish", "Removes a job", "ById", &by_id(), Value::Null),
        call("/delete", "delete", "Removes a job", "ById", &by_id(), Value::Null),
        call(
            "/get",
            "get",
            "A job",
            "ById",
            &by_id(),
            json!({
                "topic": "order.close", "id": "1001", "delay": 1_796_117_400, "ttr": 60,
                "body": "close it",
            }),
        ),
    ]
}

pub(super) fn tasks() -> Vec<Operation> {
    let refused = |call: Operation, more: &[Code]| {
        let codes = [
            Code::Invalid,
            Code::Overloaded,
            Code::Unavailable,
            Code::StorageFailed,
            Code::StorageFull,
            Code::TooLarge,
        ];
        let statuses = codes.iter().chain(more).map(|code| status_of(*code));
        let statuses = statuses.chain([StatusCode::REQUEST_TIMEOUT]);
        let call = statuses.fold(call, |call, status| call.answers_bare(status, "Refused."));
        call.tag("tasks")
    };
    let task = json!({
        "name": "mail", "time": {"duration": 3600, "relative": true},
        "callback": {
            "schema": "http", "address": "127.0.0.1:8080", "path": "/sent",
        }, "args": "to=7",
    });
    let add = Operation::new("post", "/task/add", "addTask", "Adds a task")
        .needs("NewTask", &[("In an hour", task)])
        .answers(200, "Its uid, made of the request.", "Uid", json!({"uid": UID}));
    let mut calls = vec![refused(add, &[])];
    let seen = json!({
        "id": 3, "uid": UID, "name": "mail", "type": 2, "times": 0, "retry_times": 0,
        "exec_time": 1_794_804_806, "next_exec_time": 1_794_804_806, "schema": "http",
        "address": "127.0.0.1:8080", "path": "/sent", "created_at": 1_794_801_206,
        "updated_at": 1_794_801_206,
    });
    let uid = || json!({"type": "string", "minLength": 1, "maxLength": 256});
    let known = [Code::NotFound, Code::WrongState];
    for (method, path, id) in [
        ("get", "/task/get", "getTaskByQuery"),
        ("post", "/task/get", "getTaskByBody"),
        ("get", "/task/get/{uid}", "getTask"),
        ("post", "/task/get/{uid}", "getTaskByPost"),
        ("delete", "/task/remove", "removeTaskByQuery"),
        ("post", "/task/remove", "removeTaskByBody"),
        ("delete", "/task/remove/{uid}", "removeTask"),
        ("post", "/task/remove/{uid}", "removeTaskByPost"),
    ] {
        let looks = path.starts_with("/task/get");
        let summary = if looks { "A task" } else { "Removes a task" };
        let call = Operation::new(method, path, id, summary);
        let call = match (path.ends_with("{uid}"), method) {
            (true, _) => call.in_path("uid", "Which task.", uid(), UID),
            (false, "post") => call.needs("Uid", &[("Which task", json!({"uid": UID}))]),
            (false, _) => call.asks("uid", "Which task.", uid(), json!(UID)),
        };
        let call = match looks {
            true => call.answers(200, "The task.", "Task", seen.clone()),
            false => call.answers_bare(StatusCode::OK, "It is gone."),
        };
        calls.push(refused(call, &known));
    }
    calls
}

/// What the task of the examples is called.
const UID: &str = "bf39dbac93abea6192b29099ee07763f";

/// The shapes of the older dialects.
pub(crate) fn schemas() -> Value {
    let text = || json!({"type": "string"});
    let perhaps = || json!({"type": ["string", "null"]});
    let name = || json!({"type": ["string", "integer"]});
    let number = || json!({"type": "integer", "minimum": 0});
    let seconds = || json!({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]});
    json!({
        "Command": {
            "type": "object", "required": ["command"],
            "properties": {
                "command": {"type": "string", "enum": ["add", "pop", "finish", "delete"]},
                "topic": name(), "id": name(), "delay": seconds(), "TTR": seconds(),
                "wait": seconds(), "body": {"description": "Any JSON but null."},
            },
        },
        "Obeyed": {
            "type": "object", "required": ["success", "error", "id", "value"],
            "properties": {
                "success": {"type": "boolean"}, "error": {"type": ["string", "null"]},
                "id": {"type": ["string", "null"]}, "value": {"type": ["string", "null"]},
            },
        },
        "Push": {
            "type": "object", "required": ["topic", "id", "delay", "ttr"],
            "properties": {
                "topic": text(), "id": text(), "body": text(),
                "delay": {"type": "integer", "minimum": 1, "maximum": 1_u64 << 31},
                "ttr": {"type": "integer", "minimum": 1, "maximum": 86_400},
            },
        },
        "PopTopics": {
            "type": "object", "required": ["topic"],
            "properties": {
                "topic": {
                    "type": "string", "description": "One, or several with commas between them.",
                },
            },
        },
        "ById": {"type": "object", "required": ["id"], "properties": {"id": text()}},
        "Told": {
            "type": "object", "required": ["code", "message", "data"],
            "properties": {
                "code": {"type": "integer", "enum": [0, 1]}, "message": text(),
                "data": {
                    "type": ["object", "null"],
                    "properties": {
                        "topic": text(), "id": text(), "delay": number(), "ttr": number(),
                        "body": text(),
                    },
                },
            },
        },
        "NewTask": {
            "type": "object", "required": ["name", "callback"],
            "properties": {
                "name": text(), "args": perhaps(),
                "time": {
                    "type": ["object", "null"],
                    "properties": {
                        "duration": {
                            "type": ["integer", "string", "null"], "minimum": 0,
                            "pattern": "^[0-9]+$",
                            "description": "Seconds: from now if `relative`, else since 1970.",
                        },
                        "relative": {"type": ["boolean", "null"]},
                    },
                },
                "callback": {
                    "type": "object", "required": ["schema", "address"],
                    "properties": {
                        "schema": {"type": "string", "enum": ["http", "https", "grpc"]},
                        "address": {"type": "string", "minLength": 1}, "path": perhaps(),
                    },
                },
            },
        },
        "Uid": {"type": "object", "required": ["uid"], "properties": {"uid": text()}},
        "Task": {
            "type": "object",
            "required": [
                "id", "uid", "name", "type", "times", "retry_times", "exec_time", "next_exec_time",
                "schema", "address", "path", "created_at", "updated_at",
            ],
            "properties": {
                "id": number(), "uid": text(), "name": text(),
                "type": {
                    "type": "integer", "minimum": 1, "maximum": 6,
                    "description": "1 held, 2 delayed, 3 ready, 4 reserved, 5 ended, 6 waiting \
                        after a failure.",
                },
                "times": number(), "retry_times": number(),
                "exec_time": number(), "next_exec_time": number(),
                "schema": text(), "address": text(), "path": text(),
                "created_at": number(), "updated_at": number(),
            },
        },
    })
}
