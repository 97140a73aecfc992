//! The command protocol of the original design: every request is an object that names a command,
//! and every answer has the same four fields and status 200, whatever became of it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use linger::error::Code;
use linger::job::{Body, Id, NewJob, Ttr, When};
use linger::machine::Reach;
use linger::queue::{Action, Change, Key, Queue};
use linger::retry::Retry;
use linger::topic::Topic;
use serde_json::value::RawValue;

use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::write::json;
use super::{App, Route, old, only_post};
use crate::auth::{Caller, Scope};

/// `POST /` and `POST /v1/command`. What else comes to `/` is the dashboard's.
pub(crate) fn routes() -> Vec<Route> {
    vec![("/", post(call)), ("/v1/command", post(call).fallback(only_post))]
}

/// What a command that succeeded has to say.
#[derive(Default)]
struct Done {
    id: Option<String>,
    value: Option<String>,
}

impl Done {
    fn to(id: &Id) -> Done {
        Done { id: Some(id.as_str().to_owned()), value: None }
    }
}

/// How it refuses.
pub(crate) fn refuse(refused: Refused) -> Response {
    old::close_after(&refused, answer(Some(refused.message()), Done::default()))
}

async fn call(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    match obey(&app, &caller, request).await {
        Ok(done) => answer(None, done),
        Err(refused) => refuse(refused),
    }
}

fn answer(error: Option<&str>, done: Done) -> Response {
    json(StatusCode::OK, |out| {
        out.flag("success", error.is_none());
        out.text_or_null("error", error);
        out.text_or_null("id", done.id.as_deref());
        out.text_or_null("value", done.value.as_deref());
    })
}

/// What is unknown in a request is passed over: clients send what their servers made of it.
async fn obey(app: &Arc<App>, caller: &Caller, request: Request) -> Result<Done> {
    const COMMANDS: &str = "\"add\", \"pop\", \"finish\" or \"delete\"";
    let bytes = old::payload(app, request).await?;
    let mut fields = Fields::of_request(read::utf8(&bytes)?)?;
    let Some(command) = fields.given("command") else {
        return Err(Refused::invalid("command", format!("command is missing; give {COMMANDS}")));
    };
    match read::text("command", command).as_deref() {
        Ok("add") => add(app, caller, fields).await,
        Ok("pop") => pop(app, caller, fields).await,
        Ok("finish") => delete(app, caller, Scope::Consume, fields).await,
        Ok("delete") => delete(app, caller, Scope::Add, fields).await,
        _ => Err(read::wrong("command", command, COMMANDS)),
    }
}

async fn add(app: &App, caller: &Caller, mut fields: Fields<'_>) -> Result<Done> {
    caller.check(&[Scope::Add])?;
    let config = app.config();
    let _stay = app.gates.adds.enter(config.limits.requests, "adds")?;
    let topic = fields.read_by("topic", topic)?.unwrap_or_default();
    caller.check_topic(&topic)?;
    let id: Id = needed("id", fields.read_by("id", id)?)?;
    let delay = needed("delay", fields.read_by("delay", read::duration)?)?;
    let ttr = needed("TTR", fields.given_in_any_case("TTR"))?;
    let body = Body::json(needed("body", fields.given("body"))?.get().to_owned())?;
    body.check_size(config.limits.body_bytes)?;
    let mut job = NewJob::new(topic, id.clone(), body);
    job.when = Some(When::In(delay));
    job.spec.ttr = Some(Ttr::new(read::duration("TTR", ttr)?)?);
    job.spec.retry = Some(Retry::no_limit());
    app.store()?.add_all(vec![job]).await?.pop().expect("one answer for one job")?;
    Ok(Done::to(&id))
}

fn needed<T>(name: &'static str, given: Option<T>) -> Result<T> {
    given.ok_or_else(|| {
        let message = format!("{name} is missing; an add needs id, delay, TTR and body");
        Refused::invalid(name, message)
    })
}

fn topic(name: &'static str, raw: &RawValue) -> Result<Topic> {
    Ok(old::name(name, raw)?.parse()?)
}

fn id(name: &'static str, raw: &RawValue) -> Result<Id> {
    Ok(old::name(name, raw)?.parse()?)
}

async fn pop(app: &App, caller: &Caller, mut fields: Fields<'_>) -> Result<Done> {
    caller.check(&[Scope::Consume])?;
    let topic = fields.read_by("topic", topic)?.unwrap_or_default();
    let wait = fields.read_by("wait", read::duration)?.unwrap_or(Duration::ZERO);
    let Some(job) = old::pop_one(app, caller, vec![topic], wait).await? else {
        return Ok(Done::default());
    };
    Ok(Done { value: Some(old::text_of(job.body()).into_owned()), ..Done::to(job.id()) })
}

/// Finish and delete are the same here: the job is gone, whatever its state and whoever holds it.
async fn delete(app: &App, caller: &Caller, scope: Scope, mut fields: Fields<'_>) -> Result<Done> {
    caller.check(&[scope])?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let topic = fields.read_by("topic", topic)?;
    let id = fields.read_by("id", id)?.ok_or_else(|| {
        Refused::invalid("id", "id is missing; say which job, by its id and perhaps its topic")
    })?;
    let key = match topic {
        Some(topic) => {
            caller.check_topic(&topic)?;
            Key::Named(topic, id.clone())
        }
        None => only_one(app, caller, &id).await?,
    };
    let change = Change::new(key, Action::Delete(Reach::Any));
    app.store()?.change(vec![change]).await?.pop().expect("one answer for one change")?;
    Ok(Done::to(&id))
}

/// The one job of this id in all topics that the caller may see.
async fn only_one(app: &App, caller: &Caller, id: &Id) -> Result<Key> {
    let mut found = app.store()?.find(id).await?;
    found.retain(|job| caller.sees(&job.spec.topic));
    match &found[..] {
        // By its number: another of that id that has come since is not the one that was found.
        [job] => Ok(Key::Number(job.number)),
        [] => {
            let id = read::short(id.as_str());
            Err(Refused::new(Code::NotFound, format!("there is no job `{id}` in any topic")))
        }
        [one, other, ..] => {
            let (id, many) = (read::short(id.as_str()), found.len());
            let (one, other) = (&one.spec.topic, &other.spec.topic);
            let message = format!(
                "id `{id}` is ambiguous: it is in {many} topics, `{one}` and `{other}` among them; name the topic"
            );
            Err(Refused::invalid("topic", message))
        }
    }
}
