//! The task calls of the second lineage: a task is a job with a callback, known by a uid that is
//! made of the request itself. What is refused is a status and nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as Bytes;
use axum::extract::{FromRequestParts, OptionalFromRequestParts, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use linger::error::Code;
use linger::job::{Body, Id, NewJob, OnConflict, Target, When};
use linger::machine::{Reach, Stage};
use linger::queue::{Action, Change, JobInfo, Key, Queue};
use linger::time::{DAY, Time};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::request::Asked;
use super::write::{Object, json};
use super::{App, Route, old, wrong_method};

/// How long a task that has ended can be looked at.
const RETAIN: Duration = DAY;

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

async fn add(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(try_add(&app, request).await)
}

async fn try_add(app: &Arc<App>, request: Request) -> Result<Response> {
    let bytes = old::payload(app, request).await?;
    let config = app.config();
    let _stay = app.gates.adds.enter(config.limits.requests, "adds")?;
    let wanted = Wanted::read(Fields::of_request(read::utf8(&bytes)?)?)?;
    let uid = wanted.uid();
    let job = wanted.job(uid.parse()?)?;
    job.body.check_size(config.limits.body_bytes)?;
    app.store()?.add_all(vec![job]).await?.pop().expect("one answer for one job")?;
    Ok(json(StatusCode::OK, |out| out.text("uid", &uid)))
}

/// A task as it is asked for.
struct Wanted {
    name: String,
    /// In seconds: from now, or since 1970.
    time: Option<(u64, Count)>,
    schema: String,
    address: String,
    path: String,
    args: String,
}

/// From where seconds are counted.
#[derive(Clone, Copy, PartialEq)]
enum Count {
    FromNow,
    From1970,
}

impl Wanted {
    fn read(mut fields: Fields<'_>) -> Result<Wanted> {
        let name = trimmed(&mut fields, "name")?;
        let time = fields.read_by("time", time)?;
        let args = fields.read_by("args", read::text)?.unwrap_or_default();
        let callback = fields.given("callback").ok_or_else(|| {
            Refused::invalid("callback", "callback is missing; give schema, address and path")
        })?;
        let mut callback = Fields::within("callback", callback)?;
        let schema = trimmed(&mut callback, "schema")?.to_ascii_lowercase();
        let address = trimmed(&mut callback, "address")?;
        let path = trimmed(&mut callback, "path")?;
        if !["http", "https", "grpc"].contains(&schema.as_str()) {
            let message = format!("schema is `{}`; give http, https or grpc", read::short(&schema));
            return Err(Refused::invalid("callback.schema", message));
        }
        if address.is_empty() || address.contains(['/', '?', '#', '\\']) {
            let message = format!("address is `{}`; give host:port", read::short(&address));
            return Err(Refused::invalid("callback.address", message));
        }
        Ok(Wanted { name, time, schema, address, path, args })
    }

    /// What the task is called. The same request makes the same one, so that sending it again
    /// adds nothing.
    fn uid(&self) -> String {
        let (seconds, count) = match self.time {
            None => (String::new(), "now"),
            Some((seconds, Count::FromNow)) => (seconds.to_string(), "relative"),
            Some((seconds, Count::From1970)) => (seconds.to_string(), "absolute"),
        };
        let mut hash = Sha256::new();
        let parts = [&self.name, &seconds, count, &self.schema, &self.address, &self.path];
        for part in parts.into_iter().chain([self.args.as_str()]) {
            // With its length, so that no two requests run together into the same bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn job(self, uid: Id) -> Result<NewJob> {
        let target = self.target()?;
        let mut job = NewJob::new(self.name.parse()?, uid, Body::text(self.args));
        job.when = match self.time {
            None => None,
            Some((seconds, Count::FromNow)) => Some(When::In(Duration::from_secs(seconds))),
            Some((seconds, Count::From1970)) => Some(When::At(moment(seconds)?)),
        };
        job.on_conflict = OnConflict::Keep;
        job.spec.target = Some(target);
        job.spec.retain = Some(RETAIN);
        Ok(job)
    }

    fn target(&self) -> Result<Target> {
        let (schema, address) = (&self.schema, &self.address);
        Ok(match self.path.trim_start_matches('/') {
            "" => format!("{schema}://{address}").parse()?,
            path => format!("{schema}://{address}/{path}").parse()?,
        })
    }
}

/// Text without blanks at its ends; empty if it is missing.
fn trimmed(fields: &mut Fields<'_>, name: &'static str) -> Result<String> {
    Ok(fields.read_by(name, read::text)?.unwrap_or_default().trim().to_owned())
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

fn moment(seconds: u64) -> Result<Time> {
    seconds.checked_mul(1000).and_then(Time::from_ms).ok_or_else(|| {
        let message = format!("duration is {seconds}, past the year 9999; give Unix seconds");
        Refused::invalid("time.duration", message)
    })
}

async fn look(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(try_look(&app, request).await)
}

async fn try_look(app: &Arc<App>, request: Request) -> Result<Response> {
    let uid = uid(app, request).await?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let task = only_one(app, &uid).await?;
    Ok(json(StatusCode::OK, |out| put_task(out, &task)))
}

async fn remove(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(try_remove(&app, request).await)
}

async fn try_remove(app: &Arc<App>, request: Request) -> Result<Response> {
    let uid = uid(app, request).await?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let key = Key::Number(only_one(app, &uid).await?.number);
    let change = Change::new(key, Action::Delete(Reach::Any));
    app.store()?.change(vec![change]).await?.pop().expect("one answer for one change")?;
    Ok(StatusCode::OK.into_response())
}

/// The uid, from wherever it is given: the path, the query or the body, in this order.
async fn uid(app: &Arc<App>, request: Request) -> Result<Id> {
    let (mut parts, body) = request.into_parts();
    let tail = <Path<String> as OptionalFromRequestParts<_>>::from_request_parts(&mut parts, app);
    let tail = tail.await.map_err(|cause| Refused::new(Code::Invalid, cause.body_text()))?;
    let mut asked = Asked::from_request_parts(&mut parts, app).await?;
    let uid = match tail.map(|Path(uid)| uid).or_else(|| asked.take("uid")) {
        Some(uid) => uid,
        None => {
            let bytes = old::payload(app, Request::from_parts(parts, body)).await?;
            trimmed(&mut Fields::of_request(read::utf8(&bytes)?)?, "uid")?
        }
    };
    Ok(uid.trim().parse()?)
}

/// The one job of this id in all topics. A uid that was made here has its name in it, so that two
/// of them are other people's jobs, and it is not for this call to choose.
async fn only_one(app: &App, uid: &Id) -> Result<JobInfo> {
    let mut found = app.store()?.find(uid).await?;
    match (found.pop(), found.is_empty()) {
        (Some(task), true) => Ok(task),
        (Some(_), false) => Err(Refused::new(Code::WrongState, "the uid is in several topics")),
        (None, _) => Err(Refused::new(Code::NotFound, "there is no such task")),
    }
}

fn put_task(out: &mut Object<'_>, job: &JobInfo) {
    let callback = job.spec.target.as_ref().and_then(|target| target.as_str().split_once("://"));
    let (schema, rest) = callback.unwrap_or_default();
    let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let updated = job.history.last().map_or(job.created, |entry| entry.at.max(job.created));
    out.number("id", job.number);
    out.text("uid", job.spec.id.as_str());
    out.text("name", job.spec.topic.as_str());
    out.number("type", kind(job.stage));
    out.number("times", job.attempt.into());
    out.number("retry_times", job.attempt.saturating_sub(1).into());
    out.number("exec_time", unix_seconds(job.base));
    out.number("next_exec_time", unix_seconds(job.due));
    out.text("schema", schema);
    out.text("address", address);
    out.text("path", path);
    out.number("created_at", unix_seconds(job.created));
    out.number("updated_at", unix_seconds(updated));
}

fn unix_seconds(time: Time) -> u64 {
    time.as_ms() / 1000
}

/// The number of a `TaskType`.
fn kind(stage: Stage) -> u64 {
    match stage {
        // Stored, and not on its way.
        Stage::Held => 1,
        Stage::Delayed => 2,
        Stage::Ready => 3,
        Stage::Reserved => 4,
        // That lineage has no shelf for the dead: they have ended.
        Stage::Finished | Stage::Dead => 5,
        Stage::Retry => 6,
    }
}
