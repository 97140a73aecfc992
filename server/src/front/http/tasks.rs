//! The task calls of the second lineage. What is refused is a status and nothing else.

use std::sync::Arc;

use axum::body::Body as Bytes;
use axum::extract::{FromRequestParts, OptionalFromRequestParts, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use linger::error::Code;
use serde_json::value::RawValue;

use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::request::Asked;
use super::write::{Object, json};
use super::{App, Route, old, wrong_method};
use crate::auth::Caller;
use crate::front::task::{self, Count, Task, Wanted};

/// `/task/add`, `/task/get` and `/task/remove`.
pub(crate) fn routes() -> Vec<Route> {
    let (look, remove) = (get(look).post(look), delete(remove).post(remove));
    vec![
        ("/task/add", post(add).fallback(only_post)),
        ("/task/get", look.clone().fallback(only_get_post)),
        ("/task/get/{uid}", look.fallback(only_get_post)),
        ("/task/remove", remove.clone().fallback(only_delete_post)),
        ("/task/remove/{uid}", remove.fallback(only_delete_post)),
    ]
}

async fn only_post() -> Response {
    bare(wrong_method("POST"))
}

async fn only_get_post() -> Response {
    bare(wrong_method("GET, HEAD, POST"))
}

async fn only_delete_post() -> Response {
    bare(wrong_method("DELETE, POST"))
}

/// An answer without its words.
fn bare(mut answer: Response) -> Response {
    answer.headers_mut().remove(CONTENT_TYPE);
    *answer.body_mut() = Bytes::empty();
    answer
}

fn answer(result: Result<Response>) -> Response {
    result.unwrap_or_else(|refused| bare(refused.into_response()))
}

/// How it refuses.
pub(crate) fn refuse(refused: Refused) -> Response {
    answer(Err(refused))
}

async fn add(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    answer(try_add(&app, &caller, request).await)
}

async fn try_add(app: &Arc<App>, caller: &Caller, request: Request) -> Result<Response> {
    let bytes = old::payload(app, request).await?;
    let uid = wanted(Fields::of_request(read::utf8(&bytes)?)?)?.add(app, caller).await?;
    Ok(json(StatusCode::OK, |out| out.text("uid", &uid)))
}

fn wanted(mut fields: Fields<'_>) -> Result<Wanted> {
    let name = text(&mut fields, "name")?;
    let time = fields.read_by("time", time)?;
    let args = text(&mut fields, "args")?;
    let callback = fields.given("callback").ok_or_else(|| {
        Refused::invalid("callback", "callback is missing; give schema, address and path")
    })?;
    let mut callback = Fields::within("callback", callback)?;
    let schema = text(&mut callback, "schema")?;
    let address = text(&mut callback, "address")?;
    let path = text(&mut callback, "path")?;
    Ok(Wanted { name, time, schema, address, path, args })
}

/// Text; empty if it is missing.
fn text(fields: &mut Fields<'_>, name: &'static str) -> Result<String> {
    Ok(fields.read_by(name, read::text)?.unwrap_or_default())
}

fn time(name: &'static str, raw: &RawValue) -> Result<(u64, Count)> {
    let mut fields = Fields::within(name, raw)?;
    let seconds = fields.read_by("duration", |name, raw| {
        // In the JSON of protobuf a number of 64 bits is a string.
        let text = old::name(name, raw)?;
        text.parse().map_err(|_| read::wrong(name, raw, "a whole number of seconds"))
    })?;
    let relative = fields.read_by("relative", read::flag)?.unwrap_or(false);
    let count = if relative { Count::FromNow } else { Count::From1970 };
    Ok((seconds.unwrap_or(0), count))
}

async fn look(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    answer(try_look(&app, &caller, request).await)
}

async fn try_look(app: &Arc<App>, caller: &Caller, request: Request) -> Result<Response> {
    let task = task::look(app, caller, &uid(app, request).await?).await?;
    Ok(json(StatusCode::OK, |out| put_task(out, &task)))
}

async fn remove(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    answer(try_remove(&app, &caller, request).await)
}

async fn try_remove(app: &Arc<App>, caller: &Caller, request: Request) -> Result<Response> {
    task::remove(app, caller, &uid(app, request).await?).await?;
    Ok(StatusCode::OK.into_response())
}

/// The uid, from wherever it is given: the path, the query or the body, in this order.
async fn uid(app: &Arc<App>, request: Request) -> Result<String> {
    let (mut parts, body) = request.into_parts();
    let tail = <Path<String> as OptionalFromRequestParts<_>>::from_request_parts(&mut parts, app);
    let tail = tail.await.map_err(|cause| Refused::new(Code::Invalid, cause.body_text()))?;
    let mut asked = Asked::from_request_parts(&mut parts, app).await?;
    match tail.map(|Path(uid)| uid).or_else(|| asked.take("uid")) {
        Some(uid) => Ok(uid),
        None => {
            let bytes = old::payload(app, Request::from_parts(parts, body)).await?;
            text(&mut Fields::of_request(read::utf8(&bytes)?)?, "uid")
        }
    }
}

fn put_task(out: &mut Object<'_>, task: &Task) {
    out.number("id", task.number);
    out.text("uid", &task.uid);
    out.text("name", &task.name);
    out.number("type", task.kind.into());
    out.number("times", task.times.into());
    out.number("retry_times", task.retry_times.into());
    out.number("exec_time", task.exec_time);
    out.number("next_exec_time", task.next_exec_time);
    out.text("schema", &task.schema);
    out.text("address", &task.address);
    out.text("path", &task.path);
    out.number("created_at", task.created_at);
    out.number("updated_at", task.updated_at);
}
