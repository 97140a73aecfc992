//! The registry: workers that applications run, which are called for jobs.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::error::Error;
use linger::job::Id;
use linger::queue::PAGE_MAX;
use linger::topic::Topic;
use serde_json::value::RawValue;

use super::App;
use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::request::{Asked, OneWorker, Payload};
use super::work::topics;
use super::write::{Object, json};
use crate::auth::Caller;
use crate::registry::{self, Filter, Registered, Registration, Worker};

/// How many are listed if nobody says.
const LIMIT_DEFAULT: usize = 100;

/// `POST /v1/workers`.
pub(crate) async fn register(
    State(app): State<Arc<App>>,
    caller: Caller,
    Payload(bytes): Payload,
) -> Result<Response> {
    let (new, max) = {
        let config = app.config();
        (read_registration(&bytes, config.workers.lease)?, config.workers.max)
    };
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    caller.check_topics(new.topics())?;
    let registry = app.registry()?;
    if let Some(there) = registry.in_place_of(&new) {
        caller.check_topics(&there.said.topics)?;
    }
    let (worker, how) = registry.register(new, max).await?;
    let status = match how {
        Registered::New => StatusCode::CREATED,
        Registered::Replaced => StatusCode::OK,
    };
    Ok(shown(status, &worker))
}

fn read_registration(bytes: &[u8], lease: Duration) -> Result<Registration> {
    let mut fields = Fields::of_request(read::utf8(bytes)?)?;
    let id = fields.read_by("id", parsed)?;
    let app = fields.read_by("app", parsed)?;
    let topics = fields.read_by("topics", topics)?;
    let url = fields.read_by("url", parsed)?;
    let lease = fields.read_by("lease", read::duration)?.unwrap_or(lease);
    fields.end()?;
    let missing = |name: &'static str, right: &str| {
        Refused::invalid(name, format!("{name} is missing; give {right}"))
    };
    let app = app.ok_or_else(|| missing("app", "the name of the application"))?;
    let topics = topics.ok_or_else(|| missing("topics", "a list such as [\"a\", \"b\"]"))?;
    let url = url.ok_or_else(|| missing("url", "where it is called, such as http://host:8080/"))?;
    Ok(Registration::new(id, app, topics, url, lease)?)
}

fn parsed<T: FromStr<Err = Error>>(name: &'static str, raw: &RawValue) -> Result<T> {
    Ok(read::text(name, raw)?.parse()?)
}

/// `GET /v1/workers`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut asked: Asked,
) -> Result<Response> {
    let filter = Filter {
        app: asked.take("app").map(|text| text.parse()).transpose()?,
        topic: asked.take("topic").map(|text| text.parse::<Topic>()).transpose()?,
        within: Some(caller.topics().clone()),
    };
    let limit = asked.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    let after = asked.take("cursor").map(|text| text.parse()).transpose();
    let after: Option<Id> =
        after.map_err(|_| Refused::invalid("cursor", "cursor is not one that was given out"))?;
    asked.end()?;
    if !(1..=PAGE_MAX).contains(&limit) {
        let message = format!("limit is {limit}; give 1 to {PAGE_MAX}");
        return Err(Refused::invalid("limit", message));
    }
    let config = app.config();
    let _stay = app.gates.calls.enter(config.limits.requests, "requests")?;
    let workers = app.registry()?.list(&filter, after.as_ref(), limit);
    Ok(json(StatusCode::OK, |out| {
        let mut last = None;
        out.array("workers", |out| {
            for worker in &workers {
                if last.is_some() && out.len() >= config.limits.answer_bytes {
                    break;
                }
                out.object(|out| put_worker(out, worker));
                last = Some(&worker.id);
            }
        });
        let is_whole = workers.len() < limit && last == workers.last().map(|worker| &worker.id);
        if let Some(last) = last.filter(|_| !is_whole) {
            out.text("cursor", last.as_str());
        }
    }))
}

/// `GET /v1/workers/{worker}`.
pub(crate) async fn look(
    State(app): State<Arc<App>>,
    caller: Caller,
    OneWorker(id): OneWorker,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    Ok(shown(StatusCode::OK, &seen(&app, &caller, &id)?))
}

/// `PUT /v1/workers/{worker}/heartbeat`.
pub(crate) async fn heartbeat(
    State(app): State<Arc<App>>,
    caller: Caller,
    OneWorker(id): OneWorker,
    Payload(bytes): Payload,
) -> Result<Response> {
    let mut fields = Fields::of_request(read::utf8(&bytes)?)?;
    let state = fields.read_by("draining", read::flag)?.map(|draining| match draining {
        true => registry::State::Draining,
        false => registry::State::Live,
    });
    fields.end()?;
    keep(&app, &caller, &id, state).await
}

/// `POST /v1/workers/{worker}/drain`.
pub(crate) async fn drain(
    State(app): State<Arc<App>>,
    caller: Caller,
    OneWorker(id): OneWorker,
    Payload(bytes): Payload,
) -> Result<Response> {
    Fields::of_request(read::utf8(&bytes)?)?.end()?;
    keep(&app, &caller, &id, Some(registry::State::Draining)).await
}

async fn keep(
    app: &App,
    caller: &Caller,
    id: &Id,
    state: Option<registry::State>,
) -> Result<Response> {
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    seen(app, caller, id)?;
    Ok(shown(StatusCode::OK, &app.registry()?.heartbeat(id, state).await?))
}

/// `DELETE /v1/workers/{worker}`.
pub(crate) async fn deregister(
    State(app): State<Arc<App>>,
    caller: Caller,
    OneWorker(id): OneWorker,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    seen(&app, &caller, &id)?;
    Ok(shown(StatusCode::OK, &app.registry()?.deregister(&id).await?))
}

/// A worker, if the caller's key is for all its topics.
fn seen(app: &App, caller: &Caller, id: &Id) -> Result<Worker> {
    let worker = app.registry()?.get(id)?;
    caller.check_topics(&worker.said.topics)?;
    Ok(worker)
}

fn shown(status: StatusCode, worker: &Worker) -> Response {
    json(status, |out| put_worker(out, worker))
}

fn put_worker(out: &mut Object<'_>, worker: &Worker) {
    let Worker { id, said, expires, health } = worker;
    out.text("id", id.as_str());
    out.text("app", said.app.as_str());
    out.array("topics", |out| said.topics.iter().for_each(|topic| out.text(topic.as_str())));
    out.text("url", said.url.as_str());
    out.text("state", said.state.as_str());
    out.duration("lease", said.lease);
    out.time("registered", said.registered);
    out.time("expires", *expires);
    out.number("under_way", health.under_way);
    out.number("deliveries", health.deliveries);
    out.number("failures", health.failures);
    if let Some(at) = health.last_success {
        out.time("last_success", at);
    }
    if let (Some(at), Some(error)) = (health.last_failure, &health.last_error) {
        out.time("last_failure", at);
        out.text("last_error", error);
    }
}
