//! Retries and repeats.

use linger::retry::STEPS_MAX;
use linger::schedule::{CATCH_UP_MAX, EXPRESSION_BYTES_MAX};
use serde_json::{Value, json};

use super::{about, fields, given, named, not_both, one_of, small, whole};

pub(super) fn all() -> Value {
    json!({"Backoff": backoff(), "Retry": retry(), "Repeat": repeat()})
}

fn backoff() -> Value {
    fields(
        "Doubling waits.",
        json!({
            "base": about("The first; 1 s unless given.", named("Wait")),
            "max": about("The longest; an hour unless given.", named("Wait")),
            "jitter": about(
                "The share by which each is moved at random.",
                json!({"type": "number", "minimum": 0, "maximum": 1, "default": 0.2}),
            ),
        }),
    )
}

fn retry() -> Value {
    let mut retry = fields(
        "How many attempts, and the waits between them: a backoff or a ladder.",
        json!({
            "attempts": about(
                "0 is no limit; 16 unless given, or one more than the ladder has steps.", small(),
            ),
            "backoff": named("Backoff"),
            "ladder": about("These waits, one after the other.", json!({
                "type": "array", "items": named("Wait"), "minItems": 1, "maxItems": STEPS_MAX,
            })),
            "from": about(
                "Whether a ladder's steps count from each failure or from the first due time.",
                one_of(&["failure", "due"]),
            ),
        }),
    );
    retry["allOf"] = json!([
        not_both("backoff", "ladder"),
        {"anyOf": [given("attempts"), given("backoff"), given("ladder")]},
        {
            "anyOf": [
                given("ladder"),
                {"not": {"required": ["from"], "properties": {"from": {"const": "due"}}}},
            ],
        },
    ]);
    retry["examples"] = json!([
        {"attempts": 5, "backoff": {"base": "1s", "max": "1h", "jitter": 0.2}},
        {"ladder": ["15s", "3m", "10m"]},
    ]);
    retry
}

fn repeat() -> Value {
    let mut repeat = fields(
        "When it runs again: `every` so often, or by `cron` in a time zone.",
        json!({
            "every": named("Interval"),
            "cron": about(
                "Five fields, or six with seconds in front, or a name such as `@daily`.",
                json!({
                    "type": "string", "minLength": 1, "maxLength": EXPRESSION_BYTES_MAX,
                    "examples": ["0 9 * * *"],
                }),
            ),
            "tz": about(
                "An IANA name, for `cron`; UTC unless given.",
                json!({"type": "string", "examples": ["Asia/Shanghai"]}),
            ),
            "until": about("The last moment at which it may be due.", named("Time")),
            "count": about("After so many it is over.", whole(1, u32::MAX.into())),
            "misfire": about("What to do about times that were missed: run once, none, or so \
                many.", json!({
                "anyOf": [
                    one_of(&["once", "skip"]),
                    {
                        "type": "object", "required": ["all"], "additionalProperties": false,
                        "properties": {"all": whole(1, CATCH_UP_MAX.into())},
                    },
                ],
            })),
            "on_dead": about("What to do when one of them dies.", one_of(&["go_on", "stop"])),
        }),
    );
    repeat["allOf"] = json!([
        not_both("every", "cron"),
        not_both("every", "tz"),
        {"anyOf": [given("every"), given("cron")]},
    ]);
    repeat["examples"] = json!([{"every": "60s"}, {"cron": "0 9 * * *", "tz": "Asia/Shanghai"}]);
    repeat
}
