//! Workers, as they register and as they are shown.

use serde_json::{Value, json};

use super::answers::{moment, object, page};
use super::words::{HOST, INK, length};
use super::{about, fields, flag, large, list_of, named, one_of, text, with};
use crate::registry::{AppName, LEASE_MAX, LEASE_MIN, State, TOPICS_MAX, Url};

pub(super) fn all() -> Value {
    let url = json!({
        "type": "string", "maxLength": Url::BYTES_MAX,
        "pattern": format!("^(https?|grpc)://{HOST}{INK}*$"),
        "examples": ["http://10.0.0.7:8080/jobs"],
    });
    let topics = with(list_of(named("Topic")), "minItems", json!(1));
    let topics = about("Which it serves.", with(topics, "maxItems", TOPICS_MAX.into()));
    let lease = length(
        "A lease of 1 second to 10 minutes",
        json!({"minimum": LEASE_MIN.as_secs(), "maximum": LEASE_MAX.as_secs()}),
    );
    let about_url = "Where it is called: `http://`, `https://` or `grpc://`, without a user.";
    let mut new = fields(
        "A worker to register.",
        json!({
            "id": about("Its name; the one it had or one that is made unless given.", named("Id")),
            "lease": about("How long it is known without a heartbeat.", lease),
        }),
    );
    // Those that must be there cannot be null.
    new["properties"]["app"] = named("App");
    new["properties"]["topics"] = topics.clone();
    new["properties"]["url"] = about(about_url, url);
    new["required"] = json!(["app", "topics", "url"]);
    json!({
        "App": {
            "description": format!(
                "The name of an application: 1 to {} bytes of UTF-8 without control characters, \
                    blanks and slashes.",
                AppName::BYTES_MAX,
            ),
            "type": "string", "minLength": 1, "maxLength": AppName::BYTES_MAX,
            "pattern": r"^[^\s\x00-\x1f\x7f-\x9f/]+$", "examples": ["shop"],
        },
        "NewWorker": new,
        "Heartbeat": fields("What a worker has to say.", json!({
            "draining": about("Whether it takes no new jobs; as before unless given.", flag()),
        })),
        "Worker": worker(topics),
        "WorkerPage": page("workers", "Worker"),
    })
}

fn worker(topics: Value) -> Value {
    let required = [
        "id",
        "app",
        "topics",
        "url",
        "state",
        "lease",
        "registered",
        "expires",
        "under_way",
        "deliveries",
        "failures",
    ];
    let properties = json!({
        "id": named("Id"),
        "app": named("App"),
        "topics": topics,
        "url": about("Where it is called.", text()),
        "state": about("`draining` is called for no new jobs.", one_of(&State::ALL.map(State::as_str))),
        "lease": about("How long it is known without a heartbeat.", named("DurationText")),
        "registered": about("When it last registered.", moment()),
        "expires": about("When it is forgotten unless a heartbeat comes.", moment()),
        "under_way": about("Deliveries that it has not answered yet.", large()),
        "deliveries": about("Deliveries that have ended, since the server started.", large()),
        "failures": about(
            "Those of them it is at fault for: it could not be reached, took too long, or could \
                not serve.",
            large(),
        ),
        "last_success": about("When it last answered otherwise.", moment()),
        "last_failure": about("When the last of its failures was.", moment()),
        "last_error": about("What that was.", text()),
    });
    object("A worker that is registered.", &required, properties)
}
