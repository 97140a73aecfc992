//! Popping jobs, and saying what became of them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::dice::Lease;
use linger::error::{Code, Error};
use linger::job::Id;
use linger::machine::Reach;
use linger::queue::{
    Action, Ask, Bulk, Change, Changed, Filter, Key, Lane, Mode, Queue, Settle, Source, Sweep,
    Terms, Verdict,
};
use linger::topic::Topic;
use serde_json::value::RawValue;

use super::App;
use super::error::{Refused, Result};
use super::jobs;
use super::read::{self, Fields};
use super::request::{InTopic, InTopicDo, OneJob, OneJobDo, Payload};
use super::shape;
use super::write::{json, json_answer, json_bytes};
use crate::auth::Caller;
use crate::front::handed_out::handed_out;

/// What a worker says if it says nothing.
const NO_REASON: &str = "failed without a word";

/// `POST /v1/topics/{topic}/pop`.
pub(crate) async fn pop(
    State(app): State<Arc<App>>,
    caller: Caller,
    InTopic(topic): InTopic,
    Payload(bytes): Payload,
) -> Result<Response> {
    pop_one(&app, &caller, topic, &bytes).await
}

/// Pops from one topic.
pub(crate) async fn pop_one(
    app: &Arc<App>,
    caller: &Caller,
    topic: Topic,
    bytes: &[u8],
) -> Result<Response> {
    pop_from(app, caller, vec![topic], Fields::of_request(read::utf8(bytes)?)?).await
}

/// `POST /v1/pop`: over several topics.
pub(crate) async fn pop_many(
    State(app): State<Arc<App>>,
    caller: Caller,
    Payload(bytes): Payload,
) -> Result<Response> {
    let mut fields = Fields::of_request(read::utf8(&bytes)?)?;
    let topics = fields.read_by("topics", topics)?.ok_or_else(|| {
        Refused::invalid("topics", "topics is missing; give a list such as [\"a\", \"b\"]")
    })?;
    app.check_topics(&topics)?;
    caller.check_topics(&topics)?;
    pop_from(&app, &caller, topics, fields).await
}

pub(crate) fn topics(name: &'static str, raw: &RawValue) -> Result<Vec<Topic>> {
    let names: Vec<String> = serde_json::from_str(raw.get())
        .map_err(|_| read::wrong(name, raw, "a list of topics such as [\"a\", \"b\"]"))?;
    let topics: std::result::Result<Vec<Topic>, Error> =
        names.iter().map(|name| name.parse()).collect();
    Ok(topics?)
}

async fn pop_from(
    app: &Arc<App>,
    caller: &Caller,
    topics: Vec<Topic>,
    mut fields: Fields<'_>,
) -> Result<Response> {
    let config = app.config();
    let limits = &config.limits;
    let max = fields.read_by("max", read::small)?.unwrap_or(1);
    let wait = fields.read_by("wait", read::duration)?.unwrap_or(Duration::ZERO);
    let ttr = fields.read_by("ttr", shape::ttr)?;
    fields.end()?;
    app.check_wait(wait)?;
    let terms = Terms { ttr, owner: None, grace: None };
    let ask = Ask { from: Source::These(topics), lane: Lane::Pull, max, wait, terms, room: None };
    let bytes_max = limits.answer_bytes;
    let mut jobs = app.take(caller, ask).await?;
    let mut given = 0;
    let answer = json_bytes(|out| {
        out.array("jobs", |out| {
            for delivery in &jobs {
                out.object(|out| shape::put_delivery(out, delivery));
                given += 1;
                if out.len() >= bytes_max {
                    break;
                }
            }
        });
    });
    app.give_back(&jobs[given..]).await?;
    jobs.truncate(given);
    Ok(json_answer(StatusCode::OK, handed_out(app, jobs, Body::from(answer))))
}

/// `POST /v1/topics/{topic}/jobs/{id}/{action}`.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    OneJobDo(job, action): OneJobDo,
    Payload(bytes): Payload,
) -> Result<Response> {
    act_on(&app, job, &action, &bytes).await
}

/// Does something to one job.
pub(crate) async fn act_on(app: &App, job: OneJob, action: &str, bytes: &[u8]) -> Result<Response> {
    let mut fields = Fields::of_request(read::utf8(bytes)?)?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let changed = match action {
        "finish" | "fail" | "release" | "touch" => {
            let lease = fields.read_by("lease", lease)?;
            let verdict = verdict(action, &mut fields)?;
            fields.end()?;
            settle(app, job, lease, verdict).await?
        }
        "run" | "hold" | "unhold" => {
            let if_version = fields.read_by("if_version", read::number)?;
            fields.end()?;
            let action = match action {
                "run" => Action::Run,
                "hold" => Action::Hold,
                _ => Action::Unhold,
            };
            // Apart: what is done all the time need not carry what this takes.
            Box::pin(jobs::change(app, job, action, if_version)).await?
        }
        other => {
            let message = format!(
                "a job has no `{}`; there are finish, fail, release, touch, run, hold, unhold and history",
                read::short(other)
            );
            return Err(Refused::new(Code::NotFound, message));
        }
    };
    Ok(json(StatusCode::OK, |out| shape::put_changed(out, &changed)))
}

fn lease(name: &'static str, raw: &RawValue) -> Result<Lease> {
    Ok(read::text(name, raw)?.parse()?)
}

fn verdict(action: &str, fields: &mut Fields<'_>) -> Result<Verdict> {
    Ok(match action {
        "finish" => Verdict::Finish,
        "fail" => {
            let error = fields.read_by("error", read::text)?;
            let retry_in = fields.read_by("retry_in", read::duration)?;
            match fields.read_by("again", read::flag)?.unwrap_or(false) {
                true => Verdict::Again { retry_in },
                false => {
                    let error = error.unwrap_or_else(|| NO_REASON.to_owned()).into();
                    Verdict::Fail { error, retry_in }
                }
            }
        }
        "release" => Verdict::Release {
            delay: fields.read_by("delay", read::duration)?.unwrap_or(Duration::ZERO),
            priority: fields.read_by("priority", read::small)?,
        },
        _ => Verdict::Touch { ttr: fields.read_by("ttr", shape::ttr)? },
    })
}

async fn settle(app: &App, job: OneJob, lease: Option<Lease>, verdict: Verdict) -> Result<Changed> {
    let settle = Settle { lease, ..Settle::key(job.key(), verdict) };
    let settled = app.store()?.settle(vec![settle]).await?;
    Ok(settled.into_iter().next().expect("one answer for one job")?)
}

/// `POST /v1/topics/{topic}/finish` and the other things that are done to many jobs.
pub(crate) async fn bulk(
    State(app): State<Arc<App>>,
    InTopicDo(topic, word): InTopicDo,
    Payload(bytes): Payload,
) -> Result<Response> {
    let bulk = match word.as_str() {
        "finish" => Bulk::Finish,
        "delete" => Bulk::Delete,
        "run" => Bulk::Run,
        "hold" => Bulk::Hold,
        "unhold" => Bulk::Unhold,
        "redrive" => Bulk::Redrive,
        other => {
            let message = format!(
                "a topic has no `{}`; there are pop, finish, delete, run, hold, unhold, redrive, pause, resume, empty and jobs",
                read::short(other)
            );
            return Err(Refused::new(Code::NotFound, message));
        }
    };
    let config = app.config();
    let _stay = app.gates.calls.enter(config.limits.requests, "requests")?;
    let mut fields = Fields::of_request(read::utf8(&bytes)?)?;
    let jobs = fields.given("jobs");
    let filter = fields.read_by("where", filter)?;
    let limit = fields.read_by("limit", read::number)?;
    let dry_run = fields.read_by("dry_run", read::flag)?;
    fields.end()?;
    if let Some(raw) = jobs {
        if filter.is_some() || limit.is_some() || dry_run.is_some() {
            let message =
                "jobs are given along with where, limit or dry_run; give one way of choosing";
            return Err(Refused::invalid("jobs", message));
        }
        return bulk_named(&app, &topic, bulk, named(raw, config.limits.batch_jobs)?).await;
    }
    let filter = match filter {
        Some(filter) => filter,
        None if bulk == Bulk::Redrive => Filter::default(),
        None => {
            let message = r#"say which: {"jobs":[{"id":"…"}]} or {"where":{"state":"…"}}; {"where":{}} is all of them"#;
            return Err(Refused::invalid("jobs", message));
        }
    };
    let mode = if dry_run == Some(true) { Mode::DryRun } else { Mode::Apply };
    let count = app.store()?.sweep(Sweep { topic, filter, bulk, limit, mode, by: None }).await?;
    Ok(json(StatusCode::OK, |out| {
        out.number("count", count);
        out.flag("dry_run", mode == Mode::DryRun);
    }))
}

/// Reads which jobs.
pub(crate) fn filter(name: &'static str, raw: &RawValue) -> Result<Filter> {
    let mut fields = Fields::within(name, raw)?;
    let stage = fields.read_by("state", |name, raw| {
        let text = read::text(name, raw)?;
        text.parse().map_err(|_| read::wrong(name, raw, STATES))
    })?;
    let filter = Filter {
        stage,
        due_after: fields.read_by("due_after", read::time)?,
        due_before: fields.read_by("due_before", read::time)?,
        id_prefix: fields.read_by("id_prefix", read::text)?.map(Into::into),
        error: fields.read_by("error", read::text)?.map(Into::into),
    };
    fields.end()?;
    Ok(filter)
}

/// The states there are.
pub(crate) const STATES: &str = "delayed, ready, reserved, retry, held, dead or finished";

fn named(raw: &RawValue, most: usize) -> Result<Vec<(Id, Option<Lease>)>> {
    let items: Vec<&RawValue> = serde_json::from_str(raw.get())
        .map_err(|_| read::wrong("jobs", raw, "a list such as [{\"id\": \"1\"}]"))?;
    if items.len() > most {
        let given = items.len();
        let message = format!("the request has {given} jobs, over the limit of {most}");
        return Err(Refused::new(Code::TooLarge, message));
    }
    let read = |raw: &RawValue| {
        let mut fields = Fields::within("jobs", raw)?;
        let id = fields.read_by("id", read::text)?;
        let lease = fields.read_by("lease", lease)?;
        fields.end()?;
        let id =
            id.ok_or_else(|| Refused::invalid("id", "a job of the list has no id; give one"))?;
        Ok((id.parse()?, lease))
    };
    items.into_iter().map(read).collect()
}

async fn bulk_named(
    app: &App,
    topic: &Topic,
    bulk: Bulk,
    jobs: Vec<(Id, Option<Lease>)>,
) -> Result<Response> {
    let store = app.store()?;
    let key = |id: Id| Key::Named(topic.clone(), id);
    let action = match bulk {
        Bulk::Finish => None,
        Bulk::Delete => Some(Action::Delete(Reach::Any)),
        Bulk::Run => Some(Action::Run),
        Bulk::Hold => Some(Action::Hold),
        Bulk::Unhold => Some(Action::Unhold),
        Bulk::Redrive => Some(Action::Redrive),
    };
    if action.is_some() && jobs.iter().any(|(_, lease)| lease.is_some()) {
        return Err(Refused::invalid("lease", "only finish takes a lease"));
    }
    let ids: Vec<Id> = jobs.iter().map(|(id, _)| id.clone()).collect();
    let results = match action {
        None => {
            let settle = |(id, lease)| Settle { lease, ..Settle::key(key(id), Verdict::Finish) };
            store.settle(jobs.into_iter().map(settle).collect()).await?
        }
        Some(action) => {
            let change = |(id, _)| Change::new(key(id), action.clone());
            store.change(jobs.into_iter().map(change).collect()).await?
        }
    };
    let results: Vec<Result<Changed>> =
        results.into_iter().map(|result| result.map_err(Refused::from)).collect();
    Ok(json(StatusCode::OK, |out| {
        out.array("results", |out| {
            for (id, result) in ids.iter().zip(&results) {
                out.object(|out| {
                    out.text("id", id.as_str());
                    match result {
                        Ok(changed) => shape::put_changed(out, changed),
                        Err(refused) => refused.write(out),
                    }
                });
            }
        });
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::store::Store;
    use linger::job::{Body as JobBody, NewJob};
    use linger::store::Options;
    use linger::store::embedded::{Embedded, Settings};
    use tokio_util::sync::CancellationToken;

    #[tokio::test(flavor = "multi_thread")]
    async fn jobs_of_an_answer_that_nobody_takes_are_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), Options::default(), Settings::default()).unwrap();
        let store = Arc::new(Store::from(store));
        let config = Config::defaults();
        let address = config.listen;
        let app = Arc::new(App::new(config, address, CancellationToken::new()));
        app.set_store(store.clone());
        let topic: Topic = "t".parse().unwrap();
        let job = NewJob::new(topic.clone(), "1".parse().unwrap(), JobBody::text("x"));
        store.add_all(vec![job]).await.unwrap();
        let caller = Caller::anyone(address.ip());
        drop(pop_one(&app, &caller, topic.clone(), b"").await.unwrap());
        let ask = Ask { wait: Duration::from_secs(30), ..Ask::one(topic) };
        let jobs = store.pop(ask).await.unwrap();
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].job.attempt, 1, "the attempt was not given back");
    }
}
