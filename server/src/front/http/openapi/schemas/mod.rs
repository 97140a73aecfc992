//! The shapes that calls take and answer. `read` and `shape` decide what they truly are; tests hold
//! what stands here against them.

mod alarms;
mod answers;
mod config;
mod destinations;
mod events;
mod keys;
mod nodes;
mod pace;
mod requests;
mod stats;
mod words;
mod workers;

use serde_json::{Map, Value, json};

use super::calls::old;
use super::operation::named;

/// Every shape by its name.
pub(crate) fn schemas() -> Value {
    joined([
        words::all(),
        requests::all(),
        pace::all(),
        answers::all(),
        workers::all(),
        destinations::all(),
        keys::all(),
        nodes::all(),
        config::all(),
        events::all(),
        alarms::all(),
        stats::all(),
        old::schemas(),
    ])
}

/// The parts of paths that many calls have.
pub(crate) fn parameters() -> Value {
    json!({
        "topic": {
            "name": "topic", "in": "path", "required": true,
            "description": "The topic, percent-encoded.",
            "schema": named("Topic"), "example": "order.close",
        },
        "id": {
            "name": "id", "in": "path", "required": true,
            "description": "The job's id, percent-encoded.",
            "schema": named("Id"), "example": "1001",
        },
    })
}

/// The same, or null, which is the same as leaving it out.
fn or_null(schema: Value) -> Value {
    match schema["type"].as_str() {
        // Anything at all, null among it.
        None if schema == json!({}) => schema,
        Some(kind) if schema.get("enum").is_none() => {
            let kind = json!([kind, "null"]);
            with(schema, "type", kind)
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

/// All that is in these objects, in one.
fn joined<const N: usize>(objects: [Value; N]) -> Value {
    let mut all = Map::new();
    for object in objects {
        match object {
            Value::Object(fields) => all.extend(fields),
            other => unreachable!("{other} is no object"),
        }
    }
    all.into()
}

fn with(mut schema: Value, name: &str, value: Value) -> Value {
    schema[name] = value;
    schema
}

/// What it is, said where it is used.
fn about(text: &str, schema: Value) -> Value {
    joined([json!({"description": text}), schema])
}

/// An object of which every field may be left out or null, and none is unknown.
fn fields(text: &str, properties: Value) -> Value {
    let Value::Object(properties) = properties else { unreachable!("fields have names") };
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name, or_null_with_words(schema))).collect();
    json!({
        "description": text, "type": "object",
        "properties": properties, "additionalProperties": false,
    })
}

/// As `or_null`, with the description outside, where pages show it.
fn or_null_with_words(mut schema: Value) -> Value {
    let words = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    let deprecated = schema.as_object_mut().and_then(|schema| schema.remove("deprecated"));
    let mut whole = or_null(schema);
    for (name, value) in [("description", words), ("deprecated", deprecated)] {
        if let Some(value) = value {
            whole[name] = value;
        }
    }
    whole
}

/// It is there, and not null.
fn given(name: &str) -> Value {
    json!({"required": [name], "properties": {name: {"not": {"type": "null"}}}})
}

/// At most one of the two.
fn not_both(one: &str, other: &str) -> Value {
    json!({"not": {"allOf": [given(one), given(other)]}})
}

fn whole(least: u64, most: u64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

fn small() -> Value {
    whole(0, u32::MAX.into())
}

fn large() -> Value {
    whole(0, u64::MAX)
}

fn text() -> Value {
    json!({"type": "string"})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

fn list_of(schema: Value) -> Value {
    json!({"type": "array", "items": schema})
}
