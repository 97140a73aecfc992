//! The dialect of ouqiang's delay-queue: a path for each call, and every answer has a code, a
//! message, data and status 200, whatever became of it.
//!
//! It is read as strictly as there: text is text and numbers are numbers, names of fields are
//! known in any case, and what is unknown is passed over.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::any;
use linger::error::Code;
use linger::job::{Body, Id, NewJob, OnConflict, Ttr, When};
use linger::machine::{Reach, Stage};
use linger::queue::{Action, Change, Delivery, JobInfo, Key, Queue, Topics};
use linger::retry::Retry;
use linger::topic::Topic;

use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::write::{Object, json};
use super::{App, Route, old};
use crate::auth::Caller;

/// How long a pop waits for a job: what the clients' own time limits allow for.
const WAIT: Duration = Duration::from_secs(178);
/// The delays that are taken, in seconds.
const DELAY: RangeInclusive<u64> = 1..=1 << 31;
/// The times to run that are taken, in seconds.
const TTR: RangeInclusive<u64> = 1..=86_400;

/// `POST /push`, `/pop`, `/finish`, `/delete` and `/get`.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        ("/push", any(push)),
        ("/pop", any(pop)),
        ("/finish", any(delete)),
        ("/delete", any(delete)),
        ("/get", any(get)),
    ]
}

/// An answer: what `data` writes is the field of that name.
fn answer<T>(result: Result<T>, data: impl FnOnce(&mut Object<'_>, T)) -> Response {
    match result {
        Ok(done) => json(StatusCode::OK, |out| {
            out.number("code", 0);
            out.text("message", "ok");
            data(out, done);
        }),
        Err(refused) => {
            let told = json(StatusCode::OK, |out| {
                out.number("code", 1);
                out.text("message", refused.message());
                no_data(out, ());
            });
            old::close_after(&refused, told)
        }
    }
}

/// How it refuses.
pub(crate) fn refuse(refused: Refused) -> Response {
    answer(Err(refused), no_data)
}

fn no_data(out: &mut Object<'_>, (): ()) {
    out.raw("data", b"null");
}

async fn payload(app: &Arc<App>, request: Request) -> Result<axum::body::Bytes> {
    if request.method() != Method::POST {
        return Err(Refused::new(Code::Invalid, "this path takes POST"));
    }
    old::payload(app, request).await
}

/// Text without blanks at its ends; empty if it is missing.
fn trimmed(fields: &mut Fields<'_>, name: &'static str) -> Result<String> {
    let given = fields.given_in_any_case(name).map(|raw| read::text(name, raw)).transpose()?;
    Ok(given.unwrap_or_default().trim().to_owned())
}

/// A number of seconds; 0 if it is missing, as there.
fn seconds(
    fields: &mut Fields<'_>,
    name: &'static str,
    range: RangeInclusive<u64>,
) -> Result<Duration> {
    let given = fields.given_in_any_case(name).map_or("0", |raw| raw.get());
    match given.parse().ok().filter(|seconds| range.contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => {
            let (given, least, most) = (read::short(given), range.start(), range.end());
            let message = format!("{name} is {given}; give {least} to {most} seconds");
            Err(Refused::invalid(name, message))
        }
    }
}

async fn push(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    answer(add(&app, &caller, request).await, no_data)
}

async fn add(app: &Arc<App>, caller: &Caller, request: Request) -> Result<()> {
    let bytes = payload(app, request).await?;
    let config = app.config();
    let _stay = app.gates.adds.enter(config.limits.requests, "adds")?;
    let mut fields = Fields::of_request(read::utf8(&bytes)?)?;
    let id: Id = trimmed(&mut fields, "id")?.parse()?;
    let topic: Topic = trimmed(&mut fields, "topic")?.parse()?;
    caller.check_topic(&topic)?;
    let delay = seconds(&mut fields, "delay", DELAY)?;
    let ttr = seconds(&mut fields, "ttr", TTR)?;
    let body = fields.given_in_any_case("body").map(|raw| read::text("body", raw)).transpose()?;
    let body = Body::text(body.unwrap_or_default());
    body.check_size(config.limits.body_bytes)?;
    let mut job = NewJob::new(topic, id, body);
    job.when = Some(When::In(delay));
    job.on_conflict = OnConflict::Replace;
    job.spec.ttr = Some(Ttr::new(ttr)?);
    job.spec.retry = Some(Retry::no_limit());
    app.store()?.add_all(vec![job]).await?.pop().expect("one answer for one job")?;
    Ok(())
}

async fn pop(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    answer(take(&app, &caller, request).await, |out, job| match job {
        None => no_data(out, ()),
        Some(job) => out.object("data", |out| {
            out.text("id", job.id().as_str());
            out.text("body", &old::text_of(job.body()));
        }),
    })
}

async fn take(app: &Arc<App>, caller: &Caller, request: Request) -> Result<Option<Delivery>> {
    let bytes = payload(app, request).await?;
    let mut fields = Fields::of_request(read::utf8(&bytes)?)?;
    let list = trimmed(&mut fields, "topic")?;
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let topics: Vec<Topic> = names.map(str::parse).collect::<Result<_, _>>()?;
    if topics.is_empty() {
        let message = "topic is empty; give one, or several with commas between them";
        return Err(Refused::invalid("topic", message));
    }
    old::pop_one(app, caller, topics, WAIT).await
}

/// Finish and delete are the same here, and so is whether there was such a job.
async fn delete(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    answer(remove(&app, &caller, request).await, no_data)
}

async fn remove(app: &Arc<App>, caller: &Caller, request: Request) -> Result<()> {
    let id = id(app, request).await?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let store = app.store()?;
    // An id is known without its topic here: whatever is called so is meant, of what may be seen.
    let change = |job: JobInfo| Change::new(Key::Number(job.number), Action::Delete(Reach::Any));
    let mut found = store.find(&id).await?;
    found.retain(|job| caller.sees(&job.spec.topic));
    let changes: Vec<Change> = found.into_iter().map(change).collect();
    for changed in store.change(changes).await? {
        match changed {
            Err(error) if error.code() != Code::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

async fn id(app: &Arc<App>, request: Request) -> Result<Id> {
    let bytes = payload(app, request).await?;
    let mut fields = Fields::of_request(read::utf8(&bytes)?)?;
    Ok(trimmed(&mut fields, "id")?.parse()?)
}

async fn get(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    answer(look(&app, &caller, request).await, |out, found| match found {
        None => no_data(out, ()),
        Some((job, ttr)) => out.object("data", |out| {
            out.text("topic", job.spec.topic.as_str());
            out.text("id", job.spec.id.as_str());
            out.number("delay", job.due.as_ms() / 1000);
            out.number("ttr", ttr.as_ms().div_ceil(1000));
            out.text("body", &job.body.as_ref().map(old::text_of).unwrap_or_default());
        }),
    })
}

/// The job that was pushed last by this id, and its time to run.
async fn look(app: &Arc<App>, caller: &Caller, request: Request) -> Result<Option<(JobInfo, Ttr)>> {
    let id = id(app, request).await?;
    let config = app.config();
    let _stay = app.gates.calls.enter(config.limits.requests, "requests")?;
    let store = app.store()?;
    let mut found = store.find(&id).await?;
    // What is finished is gone in this dialect, though it be kept for others to see.
    found.retain(|job| job.stage != Stage::Finished && caller.sees(&job.spec.topic));
    let Some(job) = found.pop() else { return Ok(None) };
    if let Some(ttr) = job.spec.ttr {
        return Ok(Some((job, ttr)));
    }
    let topic = store.topics(Topics::One(job.spec.topic.clone())).await?.pop();
    let ttr = topic.and_then(|topic| topic.settings.ttr).unwrap_or(config.defaults.ttr);
    Ok(Some((job, ttr)))
}
