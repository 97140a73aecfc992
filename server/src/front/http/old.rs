//! What the older dialects have in common: a setting turns each off, none looks at the content
//! type, and to all of them a body is text.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use linger::job::Body;
use linger::queue::{Ask, Delivery, Lane, Source, Terms};
use linger::topic::Topic;
use serde_json::value::RawValue;

use super::error::{Refused, Result};
use super::request::Payload;
use super::{App, no_route, read};
use crate::auth::Caller;
use crate::config::Fronts;

/// Routes that are there only while a setting says so.
pub(crate) fn switched(
    app: &Arc<App>,
    routes: Router<Arc<App>>,
    is_on: fn(&Fronts) -> bool,
) -> Router<Arc<App>> {
    let switch = move |State(app): State<Arc<App>>, request: Request, next: Next| async move {
        match is_on(&app.config().fronts) {
            true => next.run(request).await,
            false => no_route(request.uri().clone()).await,
        }
    };
    routes.layer(from_fn_with_state(app.clone(), switch))
}

/// The bytes of a request, whatever it says they are and asks besides: the servers that these
/// clients were written for never looked. Pages of other sites are kept out by their origin.
pub(crate) async fn payload(app: &Arc<App>, mut request: Request) -> Result<Bytes> {
    request.headers_mut().remove(CONTENT_TYPE);
    *request.uri_mut() = Uri::default();
    let Payload(bytes) = Payload::from_request(request, app).await?;
    Ok(bytes)
}

/// Ends the connection after an answer, if what was refused has left it of no use.
pub(crate) fn close_after(refused: &Refused, mut answer: Response) -> Response {
    if refused.closes() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// A name: text, or a number as it was written.
pub(crate) fn name(field: &'static str, raw: &RawValue) -> Result<String> {
    match raw.get().as_bytes().first() {
        Some(b'-' | b'0'..=b'9') => Ok(raw.get().to_owned()),
        Some(b'"') => read::text(field, raw),
        _ => Err(read::wrong(field, raw, "a string or a number")),
    }
}

/// Pops one job, waiting for it as long as is asked for and allowed.
pub(crate) async fn pop_one(
    app: &App,
    caller: &Caller,
    topics: Vec<Topic>,
    wait: Duration,
) -> Result<Option<Delivery>> {
    caller.check_topics(&topics)?;
    let wait = wait.min(app.config().limits.wait);
    let (from, terms) = (Source::These(topics), Terms::default());
    let ask = Ask { from, lane: Lane::Pull, max: 1, wait, terms, room: None };
    Ok(app.take(caller, ask).await?.pop())
}

/// A body as text: JSON as it was written, and bytes that are no text in base64, since any
/// other text made of them could not be told from what was put in.
pub(crate) fn text_of(body: &Body) -> Cow<'_, str> {
    match body.as_str() {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(BASE64.encode(body.as_bytes())),
    }
}
