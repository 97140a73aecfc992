//! Keys that let callers in, and what was changed by them.

use linger::error::Code;
use linger::queue::PAGE_MAX;
use serde_json::{Value, json};

use super::super::operation::{Operation, named};
use super::MOMENT;
use crate::auth::audit::ENTRIES_MAX;

const ID: &str = "key_05f1c2d3e4a5b697";

pub(super) fn calls() -> Vec<Operation> {
    let limit =
        |most: usize| json!({"type": "integer", "minimum": 1, "maximum": most, "default": 100});
    let cursor = |call: Operation| {
        call.asks(
            "cursor",
            "Where the page before left off: what that page said.",
            json!({"type": "string"}),
            json!(""),
        )
    };
    let list = Operation::new("get", "/v1/keys", "listKeys", "API keys, without what is secret")
        .asks("limit", "At most so many.", limit(PAGE_MAX), json!(100));
    let list = cursor(list)
        .answers(200, "The keys, oldest first.", "KeyPage", json!({"keys": [key()]}))
        .reads(&[]);
    let add = Operation::new("post", "/v1/keys", "addKey", "Makes an API key")
        .note(
            "It is shown this once. Keys are asked for as soon as there is one, so that the first \
             must have the scope `admin` and all topics.",
        )
        .needs(
            "NewKey",
            &[
                (
                    "For a producer of orders",
                    json!({
                        "name": "shop", "scopes": ["add", "read"], "topics": ["order.*"],
                        "expires_in": "90d", "rate": "100",
                    }),
                ),
                (
                    "For Prometheus, until a moment",
                    json!({
                        "name": "prometheus", "scopes": ["metrics"],
                        "expires": "2099-12-01T09:00:00Z",
                    }),
                ),
            ],
        )
        .answers(201, "The key.", "NewKeyMade", made())
        .writes(&[Code::TooLarge]);
    let revoke = Operation::new(
        "delete",
        "/v1/keys/{key_id}",
        "revokeKey",
        "Revokes an API key: nobody is let in by it any more",
    )
    .note(
        "What waits or streams by it ends. Other servers on the same store hear of it within \
         `store.poll`. The last that may administer stays while there are others.",
    )
    .in_path("key_id", "Its id.", named("Id"), ID)
    .answers(200, "The key that is gone.", "ApiKey", key())
    .writes(&[Code::NotFound, Code::WrongState]);
    let whoami =
        Operation::new("get", "/v1/whoami", "whoAmI", "What the key of this very call may do")
            .answers(
                200,
                "The key; everything where keys are not asked for.",
                "WhoAmI",
                json!({"keys": true, "name": "bootstrap", "scopes": ["admin"], "topics": ["*"]}),
            )
            .refuses(&[Code::Invalid, Code::Unavailable]);
    let audit = Operation::new(
        "get",
        "/v1/audit",
        "listChanges",
        "Who has changed what of late: all that takes the scope `admin`",
    )
    .asks("limit", "At most so many.", limit(ENTRIES_MAX), json!(100));
    let change = json!({
        "at": MOMENT, "name": "bootstrap", "address": "127.0.0.1",
        "call": "PUT /v1/topics/order.close",
    });
    let audit = cursor(audit)
        .answers(200, "The changes, newest first.", "Changes", json!({"changes": [change]}))
        .reads(&[]);
    [list, add, revoke, whoami, audit].into_iter().map(|call| call.tag("keys")).collect()
}

fn key() -> Value {
    json!({
        "id": ID, "name": "shop", "scopes": ["add", "read"], "topics": ["order.*"],
        "created": MOMENT, "expires": "2027-03-01T09:00:00.000Z", "rate": "100/1s",
    })
}

fn made() -> Value {
    let mut made = key();
    made["key"] = json!("lk_05f1c2d3e4a5b697_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
    made
}
