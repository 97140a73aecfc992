//! Keys that sign what is pushed.

use linger::error::Code;
use linger::queue::PAGE_MAX;
use serde_json::{Value, json};

use super::super::operation::{Operation, named};
use super::MOMENT;

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const ID: &str = "sec_05f1c2d3e4a5b697";

pub(super) fn calls() -> Vec<Operation> {
    let limit = json!({"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": 100});
    let list =
        Operation::new("get", "/v1/secrets", "listSecrets", "Secrets, without what is secret")
            .asks("limit", "At most so many.", limit, json!(100))
            .asks(
                "cursor",
                "Where the page before left off: what that page said.",
                json!({"type": "string"}),
                json!(""),
            )
            .answers(200, "The secrets, newest first for each owner.", "SecretPage", page())
            .reads(&[]);
    let add = Operation::new(
        "post",
        "/v1/secrets",
        "addSecret",
        "Makes a secret that signs what is pushed, or takes yours",
    )
    .note(
        "For the jobs of a topic, or for targets that begin alike, up to a `/` or `?`; the longest \
         beginning has the say, then the topic, then the settings. The secret is shown this once; \
         of ed25519 the public key alone. Older ones of the same owner sign as well for a while, \
         so that receivers can change over; at most 10 sign, and the oldest goes.",
    )
    .needs(
        "NewSecret",
        &[
            ("For a topic", json!({"topic": "order.close"})),
            (
                "For targets, by a key of which receivers know the public half",
                json!({"target": "https://shop.example/", "kind": "ed25519", "keep_old": "1h"}),
            ),
            ("Your own", json!({"topic": "order.close", "kind": "hmac", "secret": SECRET})),
        ],
    )
    .answers(201, "The secret.", "NewSecretMade", made())
    .writes(&[]);
    let delete = Operation::new(
        "delete",
        "/v1/secrets/{secret}",
        "deleteSecret",
        "Removes a secret: nothing is signed by it any more",
    )
    .in_path("secret", "Its id.", named("Id"), ID)
    .answers(200, "The secret that is gone.", "Secret", secret())
    .writes(&[Code::NotFound]);
    [list, add, delete].into_iter().map(|call| call.tag("secrets")).collect()
}

fn secret() -> Value {
    json!({"id": ID, "topic": "order.close", "kind": "hmac", "created": MOMENT})
}

fn made() -> Value {
    let mut made = secret();
    made["secret"] = json!(SECRET);
    made
}

fn page() -> Value {
    json!({"secrets": [secret()]})
}
