//! When a job runs next.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::queue::Queue;

use super::App;
use super::error::{Refused, Result};
use super::request::{Asked, OneJob};
use super::write::json;

/// How many times are told if nobody says.
pub(crate) const COUNT_DEFAULT: usize = 5;
/// The most that are told.
pub(crate) const COUNT_MAX: usize = 100;

/// `GET /v1/topics/{topic}/jobs/{id}/upcoming`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    job: OneJob,
    mut asked: Asked,
) -> Result<Response> {
    let count = asked.number("count")?.unwrap_or(COUNT_DEFAULT);
    asked.end()?;
    if !(1..=COUNT_MAX).contains(&count) {
        let message = format!("count is {count}; give 1 to {COUNT_MAX}");
        return Err(Refused::invalid("count", message));
    }
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let store = app.store()?;
    let job = store.get(&job.key()).await?;
    let times = job.upcoming(store.clock().now().time(), count);
    Ok(json(StatusCode::OK, |out| {
        out.array("upcoming", |out| times.iter().for_each(|time| out.time(*time)));
    }))
}
