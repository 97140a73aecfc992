//! The calls that make up nearly all of the load, straight to what answers them: a way through the
//! router costs as much as reading and writing the JSON of a job.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::HttpBody;
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::error::Result;
use super::request::{OneJob, payload};
use super::{App, jobs, work};
use crate::auth::table;

/// One of these calls, with the names in its path.
#[derive(Debug, PartialEq, Eq)]
enum Call<'a> {
    Add,
    Pop { topic: &'a str },
    Finish { topic: &'a str, id: &'a str },
}

impl Call<'_> {
    /// Its path in the API's description.
    fn path(&self) -> &'static str {
        match self {
            Call::Add => "/v1/jobs",
            Call::Pop { .. } => "/v1/topics/{topic}/pop",
            Call::Finish { .. } => "/v1/topics/{topic}/jobs/{id}/finish",
        }
    }
}

/// Answers the request if it is one of these; gives it back if not.
pub(crate) async fn answer<B>(
    app: &Arc<App>,
    request: Request<B>,
    peer: IpAddr,
) -> Result<Response, Request<B>>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    if request.method() != Method::POST || request.uri().query().is_some() {
        return Err(request);
    }
    if call(request.uri().path()).is_none() {
        return Err(request);
    }
    Ok(act(app, request, peer).await.unwrap_or_else(IntoResponse::into_response))
}

async fn act<B>(app: &Arc<App>, request: Request<B>, peer: IpAddr) -> Result<Response>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    let (parts, body) = request.into_parts();
    let call = call(parts.uri.path()).expect("it is one of these");
    let needs = table::of_http(&parts.method, call.path()).unwrap_or(table::UNKNOWN);
    let caller = app.admit(needs, &parts.headers, peer)?;
    // In a box: it is moved at every level from here to the connection.
    let done = Box::pin(async {
        match call {
            Call::Add => {
                let bytes = payload(app, &parts, body).await?;
                jobs::add_all(app, &caller, &parts.headers, &bytes).await
            }
            Call::Pop { topic } => {
                let topic = topic.parse()?;
                caller.check_topic(&topic)?;
                work::pop_one(app, &caller, topic, &payload(app, &parts, body).await?).await
            }
            Call::Finish { topic, id } => {
                let topic = topic.parse()?;
                caller.check_topic(&topic)?;
                let job = OneJob(topic, id.parse()?);
                let bytes = payload(app, &parts, body).await?;
                work::act_on(app, job, "finish", &bytes).await
            }
        }
    });
    match caller.key() {
        None => done.await,
        Some(_) => caller.doing(done).await,
    }
}

/// Which of these calls a path is. Names that are written in code are left to the router.
fn call(path: &str) -> Option<Call<'_>> {
    if path == "/v1/jobs" {
        return Some(Call::Add);
    }
    let plain = |name: &str| !name.is_empty() && !name.contains('%');
    let (topic, rest) = path.strip_prefix("/v1/topics/")?.split_once('/')?;
    if !plain(topic) {
        return None;
    }
    if rest == "pop" {
        return Some(Call::Pop { topic });
    }
    let id = rest.strip_prefix("jobs/")?.strip_suffix("/finish")?;
    (plain(id) && !id.contains('/')).then_some(Call::Finish { topic, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_taken() {
        assert_eq!(call("/v1/jobs"), Some(Call::Add));
        assert_eq!(call("/v1/topics/a/pop"), Some(Call::Pop { topic: "a" }));
        let finish = Call::Finish { topic: "a", id: "b" };
        assert_eq!(call("/v1/topics/a/jobs/b/finish"), Some(finish));
        for path in [
            "/v1/jobs/",
            "/v1/jobs/b",
            "/v1/topics//pop",
            "/v1/topics/%61/pop",
            "/v1/topics/a/pop/",
            "/v1/topics/a/jobs//finish",
            "/v1/topics/a/jobs/b%2Fc/finish",
            "/v1/topics/a/jobs/b/c/finish",
            "/v1/topics/a/jobs/b/fail",
            "/v1/topics/a/finish",
        ] {
            assert_eq!(call(path), None, "{path}");
        }
    }
}
