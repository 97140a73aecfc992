//! API keys: made, listed and revoked; and who one is oneself. A key is shown once, to whoever made
//! it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use linger::queue::{PAGE_MAX, Queue};
use linger::time::{Time, duration_ms};
use serde_json::value::RawValue;

use super::App;
use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::request::{Asked, Payload};
use super::write::{Object, json};
use crate::auth::audit::About;
use crate::auth::{Caller, Key, New, Scope, Scopes, Topics, written};

/// How many are listed if nobody says.
const LIMIT_DEFAULT: usize = 100;
/// The longest name.
pub(crate) const NAME_BYTES_MAX: usize = 100;

/// `GET /v1/whoami`.
pub(crate) async fn whoami(
    State(app): State<Arc<App>>,
    caller: Caller,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    Ok(json(StatusCode::OK, |out| {
        out.flag("keys", app.auth().asks());
        match caller.key() {
            Some(key) => put_key(out, key),
            None => {
                put_scopes(out, Scope::ALL.into_iter().collect());
                put_topics(out, &Topics::All);
            }
        }
    }))
}

/// `POST /v1/keys`.
pub(crate) async fn add(State(app): State<Arc<App>>, Payload(bytes): Payload) -> Result<Response> {
    let store = app.store()?;
    let now = store.clock().now().time();
    let new = read_new(Fields::of_request(read::utf8(&bytes)?)?, now)?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let (key, text) = app.auth().add(&**store, new).await?;
    let mut answer = json(StatusCode::CREATED, |out| {
        put_key(out, &key);
        out.text("key", &text);
    });
    answer.extensions_mut().insert(About(key.label()));
    Ok(answer)
}

fn read_new(mut fields: Fields<'_>, now: Time) -> Result<New> {
    let name = fields.read_by("name", name)?;
    let scopes = fields.read_by("scopes", scopes)?;
    let topics = fields.read_by("topics", topics)?.unwrap_or(Topics::All);
    let expires = fields.read_by("expires", read::time)?;
    let expires_in = fields.read_by("expires_in", read::duration)?;
    let rate = fields.read_by("rate", |name, raw| Ok(read::word(name, raw)?.parse()?))?;
    fields.end()?;
    let missing = |name: &'static str, right: &str| {
        Refused::invalid(name, format!("{name} is missing; give {right}"))
    };
    let name = name.ok_or_else(|| missing("name", "what people shall call the key"))?;
    let scopes = scopes.ok_or_else(|| missing("scopes", "a list such as [\"add\", \"read\"]"))?;
    let expires = match (expires, expires_in) {
        (Some(_), Some(_)) => {
            let message = "expires and expires_in are given; give one of them";
            return Err(Refused::invalid("expires_in", message));
        }
        (None, Some(length)) => Some(now.saturating_add_ms(duration_ms(length))),
        (expires, None) => expires,
    };
    if expires.is_some_and(|expires| expires <= now) {
        return Err(Refused::invalid("expires", "the key would have expired already; give later"));
    }
    Ok(New { name: name.into(), scopes, topics, expires, rate })
}

fn name(field: &'static str, raw: &RawValue) -> Result<String> {
    let name = read::text(field, raw)?;
    let is_right = !name.trim().is_empty()
        && name.trim().len() == name.len()
        && name.len() <= NAME_BYTES_MAX
        && !name.chars().any(char::is_control);
    match is_right {
        true => Ok(name),
        false => Err(read::wrong(
            field,
            raw,
            "1 to 100 bytes without control characters, or blanks at the ends",
        )),
    }
}

fn list_of(field: &'static str, raw: &RawValue, right: &str) -> Result<Vec<String>> {
    serde_json::from_str(raw.get()).map_err(|_| read::wrong(field, raw, right))
}

fn scopes(field: &'static str, raw: &RawValue) -> Result<Scopes> {
    const RIGHT: &str = "a list of some of \"add\", \"consume\", \"read\", \"metrics\", \"admin\"";
    let words = list_of(field, raw, RIGHT)?;
    let scopes =
        words.iter().map(|word| word.parse()).collect::<linger::error::Result<Scopes>>()?;
    match scopes.is_empty() {
        true => Err(read::wrong(field, raw, RIGHT)),
        false => Ok(scopes),
    }
}

fn topics(field: &'static str, raw: &RawValue) -> Result<Topics> {
    let patterns = list_of(field, raw, "a list of patterns such as [\"order.*\", \"mail\"]")?;
    Ok(Topics::new(&patterns)?)
}

/// `GET /v1/keys`.
pub(crate) async fn list(State(app): State<Arc<App>>, mut asked: Asked) -> Result<Response> {
    let limit = asked.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    let after = asked.take("cursor");
    asked.end()?;
    if !(1..=PAGE_MAX).contains(&limit) {
        let message = format!("limit is {limit}; give 1 to {PAGE_MAX}");
        return Err(Refused::invalid("limit", message));
    }
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    app.store()?;
    let all = app.auth().list();
    let id_of = |key: &Key| key.id.map(|id| id.to_string()).unwrap_or_default();
    let begin = match after {
        None => 0,
        Some(id) => {
            let at = all.iter().position(|key| id_of(key) == id);
            let wrong = || Refused::invalid("cursor", "cursor is not one that was given out");
            at.ok_or_else(wrong)? + 1
        }
    };
    let page = &all[begin..all.len().min(begin.saturating_add(limit))];
    Ok(json(StatusCode::OK, |out| {
        out.array("keys", |out| page.iter().for_each(|key| out.object(|out| put_key(out, key))));
        if let Some(last) = page.last().filter(|_| begin + page.len() < all.len()) {
            out.text("cursor", &id_of(last));
        }
    }))
}

/// `DELETE /v1/keys/{key_id}`.
pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let gone = app.auth().revoke(&**app.store()?, &id).await?;
    let mut answer = json(StatusCode::OK, |out| put_key(out, &gone));
    answer.extensions_mut().insert(About(gone.label()));
    Ok(answer)
}

/// All but the key itself.
fn put_key(out: &mut Object<'_>, key: &Key) {
    if let Some(id) = key.id {
        out.text("id", &id.to_string());
    }
    out.text("name", &key.name);
    put_scopes(out, key.scopes);
    put_topics(out, &key.topics);
    if key.id.is_some() {
        out.time("created", key.created);
    }
    if let Some(expires) = key.expires {
        out.time("expires", expires);
    }
    if let Some(rate) = key.rate {
        out.text("rate", &written(rate));
    }
}

fn put_scopes(out: &mut Object<'_>, scopes: Scopes) {
    out.array("scopes", |out| scopes.iter().for_each(|scope| out.text(scope.as_str())));
}

fn put_topics(out: &mut Object<'_>, topics: &Topics) {
    out.array("topics", |out| topics.patterns().iter().for_each(|pattern| out.text(pattern)));
}
