//! Why the jobs of a topic died.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::queue::Queue;

use super::App;
use super::error::Result;
use super::request::{Asked, InTopic};
use super::write::json;

/// `GET /v1/topics/{topic}/errors`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    InTopic(topic): InTopic,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let errors = app.store()?.dead_by_error(&topic).await?;
    Ok(json(StatusCode::OK, |out| {
        out.array("errors", |out| {
            for (error, count) in &errors {
                out.object(|out| {
                    out.text("error", error);
                    out.number("count", *count);
                });
            }
        });
    }))
}
