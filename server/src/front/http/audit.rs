//! Who has changed what.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::time::Time;

use super::App;
use super::error::{Refused, Result};
use super::request::Asked;
use super::write::{Object, json};
use crate::auth::audit::{self, ENTRIES_MAX, Entry};

/// How many are listed if nobody says.
const LIMIT_DEFAULT: usize = 100;

/// `GET /v1/audit`.
pub(crate) async fn list(State(app): State<Arc<App>>, mut asked: Asked) -> Result<Response> {
    let limit = asked.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    let after = asked.take("cursor");
    asked.end()?;
    if !(1..=ENTRIES_MAX).contains(&limit) {
        let message = format!("limit is {limit}; give 1 to {ENTRIES_MAX}");
        return Err(Refused::invalid("limit", message));
    }
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let all = audit::list(&**app.store()?).await?;
    // Newest first: what comes after is older, be the one that was named still there or not.
    let begin = match &after {
        None => 0,
        Some(cursor) => all.partition_point(|(at, _)| **at >= **cursor),
    };
    let page = &all[begin..all.len().min(begin.saturating_add(limit))];
    Ok(json(StatusCode::OK, |out| {
        out.array("changes", |out| {
            page.iter().for_each(|(_, entry)| out.object(|out| put_entry(out, entry)));
        });
        if let Some((last, _)) = page.last().filter(|_| begin + page.len() < all.len()) {
            out.text("cursor", last);
        }
    }))
}

fn put_entry(out: &mut Object<'_>, entry: &Entry) {
    let Entry { at, key, name, address, call, about } = entry;
    out.time("at", Time::from_ms(*at).unwrap_or(Time::MIN));
    for (field, text) in [("key", key), ("name", name)] {
        if let Some(text) = text {
            out.text(field, text);
        }
    }
    out.text("address", &address.to_string());
    out.text("call", call);
    if let Some(about) = about {
        out.text("about", about);
    }
}
