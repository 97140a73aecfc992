//! Settings that all who share the store have.

use serde_json::{Value, json};

use super::answers::object;
use super::{about, fields, flag, large, list_of, named, text};

pub(super) fn all() -> Value {
    let settings = about(
        "By their names, such as `limits.body`, as `linger.toml` would have them.",
        json!({"type": "object", "additionalProperties": true}),
    );
    let version = |words: &str| about(words, large());
    let in_force = json!({
        "type": "object",
        "additionalProperties": {
            "type": "object", "required": ["value", "from"],
            "properties": {"value": true, "from": {"type": "string"}},
        },
    });
    json!({
        "SharedConfig": object("What is shared.", &["version", "settings", "nodes"], json!({
            "version": version("Which write of them it is; 0 if there was none."),
            "settings": settings,
            "nodes": about("Who has told lately what it runs by.", list_of(named("SharedConfigNode"))),
            "in_force": about("What this instance runs by.", in_force),
        })),
        "SharedConfigNode": object("An instance.", &["id", "name", "this", "version"], json!({
            "id": text(),
            "name": text(),
            "this": about("Whether it is the one that answers.", flag()),
            "version": version("What it has taken on."),
            "refused": about("Why it has not taken on what is stored.", text()),
        })),
        "SharedConfigWish": with_settings(&settings, fields("What is to be shared.", json!({
            "if_version": about(
                "Only if they are still at this version; 0: if there are none.",
                large(),
            ),
        }))),
    })
}

/// They must be there, be they none.
fn with_settings(settings: &Value, mut wish: Value) -> Value {
    wish["properties"]["settings"] = settings.clone();
    wish["required"] = json!(["settings"]);
    wish
}
