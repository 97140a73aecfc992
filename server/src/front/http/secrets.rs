//! Secrets: keys that sign what is pushed. A secret is shown once, to whoever made it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::queue::{PAGE_MAX, Queue};
use linger::time::DAY;
use linger::topic::Topic;
use serde_json::value::RawValue;

use super::App;
use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::request::{Asked, OneSecret, Payload};
use super::write::{Object, json};
use crate::secrets::{Kind, New, Owner, Secret, SigningKey};

/// How many are listed if nobody says.
const LIMIT_DEFAULT: usize = 100;
/// How long older keys sign as well if nobody says.
const KEEP_OLD_DEFAULT: Duration = DAY;

/// `POST /v1/secrets`.
pub(crate) async fn add(State(app): State<Arc<App>>, Payload(bytes): Payload) -> Result<Response> {
    let new = read_new(Fields::of_request(read::utf8(&bytes)?)?)?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let made = app.secrets().add(&**app.store()?, new).await?;
    Ok(json(StatusCode::CREATED, |out| {
        put_secret(out, &made);
        if made.key.key.kind() == Kind::Hmac {
            out.text("secret", &made.key.key.reveal());
        }
    }))
}

fn read_new(mut fields: Fields<'_>) -> Result<New> {
    let topic: Option<Topic> =
        fields.read_by("topic", |name, raw| Ok(read::text(name, raw)?.parse()?))?;
    let target =
        fields.read_by("target", |name, raw| Ok(Owner::target(&read::text(name, raw)?)?))?;
    let kind = fields.read_by("kind", kind)?;
    let secret = fields.read_by("secret", secret)?;
    let keep_old = fields.read_by("keep_old", read::duration)?.unwrap_or(KEEP_OLD_DEFAULT);
    fields.end()?;
    let owner = match (topic, target) {
        (Some(topic), None) => Owner::topic(&topic),
        (None, Some(target)) => target,
        (Some(_), Some(_)) => {
            return Err(Refused::invalid("target", "give a topic or a target, not both"));
        }
        (None, None) => {
            return Err(Refused::invalid(
                "topic",
                "topic and target are missing; give one of them",
            ));
        }
    };
    let key = match (secret, kind) {
        (Some(key), Some(kind)) if key.kind() != kind => {
            let (kind, true_kind) = (kind.as_str(), key.kind().as_str());
            let message = format!("kind is `{kind}`, and the secret one for `{true_kind}`");
            return Err(Refused::invalid("kind", message));
        }
        (Some(key), _) => key,
        (None, kind) => SigningKey::generate(kind.unwrap_or(Kind::Hmac)),
    };
    Ok(New { owner, key, keep_old })
}

fn kind(name: &'static str, raw: &RawValue) -> Result<Kind> {
    match read::text(name, raw)?.as_str() {
        "hmac" => Ok(Kind::Hmac),
        "ed25519" => Ok(Kind::Ed25519),
        _ => Err(read::wrong(name, raw, "hmac or ed25519")),
    }
}

/// Whatever is wrong with it, it is not repeated.
fn secret(name: &'static str, raw: &RawValue) -> Result<SigningKey> {
    let text: String = serde_json::from_str(raw.get())
        .map_err(|_| Refused::invalid(name, "secret is not a string; give whsec_… or whsk_…"))?;
    Ok(text.parse()?)
}

/// `GET /v1/secrets`.
pub(crate) async fn list(State(app): State<Arc<App>>, mut asked: Asked) -> Result<Response> {
    let limit = asked.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    let after = asked.take("cursor");
    asked.end()?;
    if limit == 0 || limit > PAGE_MAX {
        let message = format!("limit is {limit}; give 1 to {PAGE_MAX}");
        return Err(Refused::invalid("limit", message));
    }
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let all = app.secrets().list(app.store()?.clock().now().time());
    let begin = match after {
        None => 0,
        Some(id) => {
            let at = all.iter().position(|secret| *secret.key.id == *id);
            let wrong = || Refused::invalid("cursor", "cursor is not one that was given out");
            at.ok_or_else(wrong)? + 1
        }
    };
    let page = &all[begin..all.len().min(begin.saturating_add(limit))];
    Ok(json(StatusCode::OK, |out| {
        out.array("secrets", |out| {
            page.iter().for_each(|secret| out.object(|out| put_secret(out, secret)));
        });
        if begin + page.len() < all.len()
            && let Some(last) = page.last()
        {
            out.text("cursor", &last.key.id);
        }
    }))
}

/// `DELETE /v1/secrets/{secret}`.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    OneSecret(id): OneSecret,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let gone = app.secrets().delete(&**app.store()?, id.as_str()).await?;
    Ok(json(StatusCode::OK, |out| put_secret(out, &gone)))
}

/// All but the secret itself.
fn put_secret(out: &mut Object<'_>, secret: &Secret) {
    out.text("id", &secret.key.id);
    match &secret.owner {
        Owner::Topic(topic) => out.text("topic", topic),
        Owner::Target(target) => out.text("target", target),
    }
    out.text("kind", secret.key.key.kind().as_str());
    out.time("created", secret.key.created);
    if let Some(expires) = secret.key.expires {
        out.time("expires", expires);
    }
    if let Some(public) = secret.key.key.public() {
        out.text("public_key", &public);
    }
}
