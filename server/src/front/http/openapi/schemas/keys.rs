//! Keys that let callers in.

use serde_json::{Value, json};

use super::answers::{moment, object, page};
use super::{about, fields, flag, list_of, named, not_both, one_of, text, with};
use crate::auth::Scope;
use crate::front::http::keys::NAME_BYTES_MAX;

const TOPICS: &str = "The topics that it is for: names, or with a `*` at the end beginnings of \
    names; `*` is all.";

pub(super) fn all() -> Value {
    let scopes = about(
        "What it may do; `admin` is everything.",
        list_of(one_of(&Scope::ALL.map(Scope::as_str))),
    );
    let key = json!({
        "id": named("Id"), "name": text(), "scopes": scopes.clone(),
        "topics": about(TOPICS, list_of(text())),
        "created": moment(),
        "expires": about("From when on it does not hold; missing: it always does.", moment()),
        "rate": about("Requests that it may make.", text()),
    });
    const ALWAYS: [&str; 5] = ["id", "name", "scopes", "topics", "created"];
    let made = with(key.clone(), "key", about("The key itself, this once.", text()));
    let who = with(key.clone(), "keys", about("Whether keys are asked for.", flag()));
    let name = json!({
        "type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX,
        "pattern": r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
    });
    let pattern = json!({
        "type": "string", "minLength": 1, "maxLength": 200,
        "pattern": r"^([^\s\x00-\x1f\x7f-\x9f*]([^\x00-\x1f\x7f-\x9f*]*[^\s\x00-\x1f\x7f-\x9f*])?)?\*?$",
    });
    let rate = json!({
        "anyOf": [{"type": "integer", "minimum": 1, "maximum": u32::MAX}, {"type": "string"}],
    });
    let mut new = fields(
        "A key to be made.",
        json!({
            "name": about("What people call it.", name),
            "scopes": with(scopes, "minItems", json!(1)),
            "topics": about(TOPICS, json!({
                "type": "array", "items": pattern, "minItems": 1, "maxItems": 100,
            })),
            "expires": about("From when on it does not hold.", named("Time")),
            "expires_in": about("The same as a length of time from now.", named("Duration")),
            "rate": about(
                "Requests that it may make: 100 (a second), or text such as `600/m`.",
                rate,
            ),
        }),
    );
    new["required"] = json!(["name", "scopes"]);
    new["allOf"] = json!([not_both("expires", "expires_in")]);
    // Needed, so that null does not do.
    for field in ["name", "scopes"] {
        if let Some(kind) = new["properties"][field]["type"][0].as_str().map(str::to_owned) {
            new["properties"][field]["type"] = kind.into();
        }
    }
    let change = json!({
        "at": moment(),
        "key": about("The id of the key by which it was changed.", text()),
        "name": about("The key's name; missing where keys were not asked for.", text()),
        "address": about("Where the caller was.", text()),
        "call": about("What was called.", text()),
        "about": about("What it was about, if the call does not say.", text()),
    });
    json!({
        "ApiKey": object("A key, without what is secret.", &ALWAYS, key),
        "NewKey": new,
        "NewKeyMade": object("A key that was made.", &ALWAYS, made),
        "KeyPage": page("keys", "ApiKey"),
        "WhoAmI": object("Who calls.", &["keys", "scopes", "topics"], who),
        "Change": object("A change.", &["at", "address", "call"], change),
        "Changes": page("changes", "Change"),
    })
}
