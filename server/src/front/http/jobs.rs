//! Adding, looking at, changing and cancelling jobs.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use linger::error::Code;
use linger::job::{Id, NewJob};
use linger::machine::Reach;
use linger::queue::{Action, Added, Change, Changed, How, JobInfo, Queue};

use super::App;
use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::request::{Asked, OneJob, Payload, payload};
use super::shape;
use super::write::{json, json_array};
use crate::auth::Caller;
use crate::front::unnamed::Unnamed;

/// `POST /v1/jobs`: one job, or many.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Request,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let bytes = payload(&app, &parts, body).await?;
    add_all(&app, &caller, &parts.headers, &bytes).await
}

/// Adds the job, or the jobs, of a request.
pub(crate) async fn add_all(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    bytes: &[u8],
) -> Result<Response> {
    let config = app.config();
    let limits = &config.limits;
    let _stay = app.gates.adds.enter(limits.requests, "adds")?;
    let store = app.store()?;
    let text = read::utf8(bytes)?;
    let (now, key) = (store.clock().now().time(), idempotency_key(headers)?);
    // Libraries send it unasked, so what is no trace is passed over.
    let trace = headers.get("traceparent").and_then(|given| given.to_str().ok()?.parse().ok());
    let read = |text: &str, unnamed: Unnamed<'_>| {
        let fields = Fields::of_request(text)?;
        let mut job = shape::new_job(fields, unnamed, now, limits.body_bytes)?;
        caller.check_topic(&job.spec.topic)?;
        job.spec.traceparent = job.spec.traceparent.or_else(|| trace.clone());
        Ok(job)
    };
    if !read::is_array(text) {
        let job = read(text, Unnamed { key, at: None })?;
        let added = store.add_all(vec![job]).await?.pop().expect("one answer for one job")?;
        let status = if added.how == How::Kept { StatusCode::OK } else { StatusCode::CREATED };
        return Ok(json(status, |out| shape::put_job(out, &added.job)));
    }
    let items = read::items(text)?;
    if items.len() > limits.batch_jobs {
        let (given, most) = (items.len(), limits.batch_jobs);
        let message = format!("the request has {given} jobs, over the limit of {most}");
        return Err(Refused::new(Code::TooLarge, message));
    }
    let jobs: Vec<Result<NewJob>> = items
        .iter()
        .enumerate()
        .map(|(at, item)| read(item.get(), Unnamed { key, at: Some(at) }))
        .collect();
    let (good, at): (Vec<NewJob>, Vec<Option<Refused>>) = split(jobs);
    let mut added = store.add_all(good).await?.into_iter();
    let results = at.into_iter().map(|refused| match refused {
        Some(refused) => Err(refused),
        None => added.next().expect("one answer a job").map_err(Refused::from),
    });
    let results: Vec<Result<Added>> = results.collect();
    Ok(json_array(StatusCode::OK, |out| {
        for result in &results {
            out.object(|out| match result {
                Ok(added) => out.object("job", |out| shape::put_job(out, &added.job)),
                Err(refused) => refused.write(out),
            });
        }
    }))
}

/// The good ones, and for each in order why it is not among them.
fn split(jobs: Vec<Result<NewJob>>) -> (Vec<NewJob>, Vec<Option<Refused>>) {
    let (mut good, mut refused) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for job in jobs {
        match job {
            Ok(job) => {
                good.push(job);
                refused.push(None);
            }
            Err(why) => refused.push(Some(why)),
        }
    }
    (good, refused)
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>> {
    const NAME: &str = "idempotency-key";
    let Some(key) = headers.get(NAME) else { return Ok(None) };
    // A header may have tabs.
    let fits =
        |key: &&str| (1..=200).contains(&key.len()) && !key.contains(|c: char| c.is_control());
    match key.to_str().ok().filter(fits) {
        Some(key) => Ok(Some(key)),
        None => Err(Refused::invalid(NAME, "Idempotency-Key is not 1 to 200 characters of ASCII")),
    }
}

/// `GET /v1/topics/{topic}/jobs/{id}`.
pub(crate) async fn look(
    State(app): State<Arc<App>>,
    job: OneJob,
    asked: Asked,
) -> Result<Response> {
    let job = look_at(&app, job, asked).await?;
    Ok(json(StatusCode::OK, |out| shape::put_job(out, &job)))
}

async fn look_at(app: &App, job: OneJob, asked: Asked) -> Result<JobInfo> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    Ok(app.store()?.get(&job.key()).await?)
}

/// `GET /v1/topics/{topic}/jobs/{id}/history`.
pub(crate) async fn history(
    State(app): State<Arc<App>>,
    job: OneJob,
    asked: Asked,
) -> Result<Response> {
    let job = look_at(&app, job, asked).await?;
    Ok(json(StatusCode::OK, |out| {
        out.array("history", |out| {
            job.history.iter().for_each(|entry| out.object(|out| shape::put_entry(out, entry)));
        });
    }))
}

/// `GET /v1/jobs/{id}`: the jobs of this id in all topics that the caller may see.
pub(crate) async fn find(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    let config = app.config();
    let _stay = app.gates.calls.enter(config.limits.requests, "requests")?;
    let id: Id = id.parse()?;
    let mut jobs = app.store()?.find(&id).await?;
    jobs.retain(|job| caller.sees(&job.spec.topic));
    Ok(json(StatusCode::OK, |out| {
        out.array("jobs", |out| {
            for job in &jobs {
                out.object(|out| shape::put_job(out, job));
                if out.len() >= config.limits.answer_bytes {
                    break;
                }
            }
        });
    }))
}

/// `PATCH /v1/topics/{topic}/jobs/{id}`.
pub(crate) async fn update(
    State(app): State<Arc<App>>,
    job: OneJob,
    Payload(bytes): Payload,
) -> Result<Response> {
    let config = app.config();
    let _stay = app.gates.calls.enter(config.limits.requests, "requests")?;
    let fields = Fields::of_request(read::utf8(&bytes)?)?;
    let (patch, if_version) = shape::patch(fields, config.limits.body_bytes)?;
    let changed = change(&app, job, Action::Update(patch), if_version).await?;
    Ok(json(StatusCode::OK, |out| shape::put_changed(out, &changed)))
}

/// `DELETE /v1/topics/{topic}/jobs/{id}`.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    job: OneJob,
    mut asked: Asked,
) -> Result<Response> {
    let if_version = asked.number("if_version")?;
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let changed = change(&app, job, Action::Delete(Reach::Any), if_version).await?;
    Ok(json(StatusCode::OK, |out| shape::put_changed(out, &changed)))
}

/// Changes one job.
pub(crate) async fn change(
    app: &App,
    job: OneJob,
    action: Action,
    if_version: Option<u64>,
) -> Result<Changed> {
    let change = Change { if_version, ..Change::new(job.key(), action) };
    let changed = app.store()?.change(vec![change]).await?.pop();
    Ok(changed.expect("one answer for one change")?)
}
