//! Names, moments and lengths of time.

use linger::job::{DELAY_MAX, Id, Target, Ttr};
use linger::machine::Stage;
use linger::retry::WAIT_MAX;
use linger::schedule::EVERY_MAX;
use linger::topic::Topic;
use serde_json::{Value, json};

use super::{named, whole, with};
use crate::front::http::read::DURATION_MAX;

/// A number of days, hours and so on: together they fit into the milliseconds that the server can count.
pub(super) const NUMBER: &str = r"[0-9]{1,11}(\.[0-9]{1,9})?";
/// No control character.
const PLAIN: &str = r"[^\x00-\x1f\x7f-\x9f]";
/// Neither a control character nor a blank.
pub(super) const INK: &str = r"[^\s\x00-\x1f\x7f-\x9f]";

/// What a host may begin with.
pub(super) const HOST: &str = r"[^\s\x00-\x1f\x7f-\x9f/?#:]";

pub(super) fn all() -> Value {
    let states = Stage::ALL.map(Stage::as_str);
    json!({
        "Topic": {
            "description": format!(
                "A topic: 1 to {} bytes of UTF-8 without control characters, or blanks at its \
                    ends.",
                Topic::BYTES_MAX,
            ),
            "type": "string", "minLength": 1, "maxLength": Topic::BYTES_MAX,
            "pattern": format!("^{INK}({PLAIN}*{INK})?$"), "examples": ["order.close"],
        },
        "Id": {
            "description": format!(
                "A job's name within its topic: 1 to {} bytes of UTF-8 without control characters.",
                Id::BYTES_MAX,
            ),
            "type": "string", "minLength": 1, "maxLength": Id::BYTES_MAX,
            "pattern": format!("^{PLAIN}+$"), "examples": ["1001"],
        },
        "Lease": {
            "description": "What a pop gives along with a job, to be shown when the job is \
                settled.",
            "type": "string", "pattern": "^[0-9A-Fa-f]{16}$", "examples": ["964575cde7ee6985"],
        },
        "DurationText": {
            "description": "A length of time: `500ms`, `30s`, `2h30m`, `7d`, with units in falling \
                order; without one it is seconds.",
            "type": "string", "minLength": 1, "pattern": format!("^{NUMBER}$|^{}$", units()),
            "examples": ["30s", "2h30m"],
        },
        "Duration": length(
            "A length of time of up to 10,000,000 days",
            json!({"minimum": 0, "maximum": DURATION_MAX.as_secs()}),
        ),
        "Ttr": length(
            "A time to run, above 0 and up to 7 days",
            json!({"exclusiveMinimum": 0, "maximum": Ttr::MAX.as_secs()}),
        ),
        "Delay": length(
            "A delay of up to 36,600 days",
            json!({"minimum": 0, "maximum": DELAY_MAX.as_secs()}),
        ),
        "Wait": length(
            "A wait of up to 3,650 days",
            json!({"minimum": 0, "maximum": WAIT_MAX.as_secs()}),
        ),
        "Interval": length(
            "A length of time, above 0 and up to 36,500 days",
            json!({"exclusiveMinimum": 0, "maximum": EVERY_MAX.as_secs()}),
        ),
        "Time": {
            "description": "A moment from 1970 to 9999: RFC 3339, or Unix time as a number or \
                digits, of which 10 are seconds, 13 milliseconds and 16 microseconds.",
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "string", "pattern": "^([0-9]{10}|[0-9]{13}|[0-9]{16})$"},
                whole(1_000_000_000, 9_999_999_999),
                whole(1_000_000_000_000, 9_999_999_999_999),
                whole(1_000_000_000_000_000, 9_999_999_999_999_999),
            ],
            "examples": ["2026-12-01T09:00:00+08:00", 1_796_086_800],
        },
        "Target": {
            "description": "Where a job is pushed: `http(s)://…`, `grpc://host:port`, `worker:`, \
                `worker:APP` or `sink:NAME`.",
            "type": "string", "maxLength": Target::BYTES_MAX,
            "pattern": format!("^((https?|grpc)://{HOST}{INK}*|worker:{INK}*|sink:{INK}+)$"),
            "examples": ["https://shop.example/hooks/close"],
        },
        "Confirm": {
            "description": "When a push counts as finished: on delivery, or when someone calls \
                finish.",
            "type": "string", "enum": ["delivery", "finish"],
        },
        "Envelope": {
            "description": "What a push makes of the body: as it is, described by the headers of \
                a CloudEvent, or as the arguments of a callback of the task calls.",
            "type": "string", "enum": ["body", "cloudevents", "task"],
        },
        "State": {
            "description": "Where a job stands. `retry` is delayed after a failure, `held` set \
                aside by hand, `dead` out of attempts.",
            "type": "string", "enum": states,
        },
    })
}

/// Days, hours and so on, each once at most.
pub(super) fn units() -> String {
    ["d", "h", "m", "s", "ms"].map(|unit| format!("({NUMBER}{unit})?")).concat()
}

/// A length of time as text, or as a number of seconds within these bounds.
pub(super) fn length(what: &str, seconds: Value) -> Value {
    let seconds = with(seconds, "type", json!("number"));
    json!({
        "description": format!("{what}: text such as `500ms`, `30s`, `2h30m` or `7d`, or a number \
            of seconds."),
        "anyOf": [named("DurationText"), seconds],
        "examples": ["30s", "2h30m", 90],
    })
}
