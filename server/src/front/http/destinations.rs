//! Where this server pushes to, and how that goes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::queue::PAGE_MAX;
use linger::worker::{DestinationInfo, DestinationState, FailedPush};

use super::App;
use super::error::{Refused, Result};
use super::request::Asked;
use super::write::{Object, json};

/// How many are listed if nobody says.
const LIMIT_DEFAULT: usize = 100;

/// `GET /v1/destinations`.
pub(crate) async fn list(State(app): State<Arc<App>>, mut asked: Asked) -> Result<Response> {
    let limit = asked.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    let after = asked.take("cursor").unwrap_or_default();
    asked.end()?;
    if !(1..=PAGE_MAX).contains(&limit) {
        let message = format!("limit is {limit}; give 1 to {PAGE_MAX}");
        return Err(Refused::invalid("limit", message));
    }
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    app.store()?;
    let (destinations, failed) = match app.runner() {
        Some(runner) => (runner.destinations(&after, limit), runner.failed_pushes()),
        None => Default::default(),
    };
    Ok(json(StatusCode::OK, |out| {
        out.array("destinations", |out| {
            destinations.iter().for_each(|info| out.object(|out| put_destination(out, info)));
        });
        if let Some(last) = destinations.last().filter(|_| destinations.len() == limit) {
            out.text("cursor", last.destination.as_str());
        }
        out.array("recent_failures", |out| {
            failed.iter().for_each(|failed| out.object(|out| put_failed(out, failed)));
        });
    }))
}

fn put_destination(out: &mut Object<'_>, info: &DestinationInfo) {
    out.text("destination", info.destination.as_str());
    out.text("state", state(info.state));
    out.number("under_way", info.under_way.into());
    out.number("deliveries", info.deliveries);
    out.number("failures", info.failures);
    if let Some(latency) = info.latency {
        out.object("latency_ms", |out| {
            out.decimal("p50", latency.p50.as_micros() as f64 / 1e3);
            out.decimal("p99", latency.p99.as_micros() as f64 / 1e3);
        });
    }
    if let Some(at) = info.last_success {
        out.time("last_success", at);
    }
    if let Some((at, error)) = &info.last_failure {
        out.time("last_failure", *at);
        out.text("last_error", error);
    }
    if let DestinationState::Closed { opens } = info.state {
        out.time("opens", opens);
    }
}

fn state(state: DestinationState) -> &'static str {
    match state {
        DestinationState::Open => "open",
        DestinationState::Closed { .. } => "closed",
        DestinationState::Probing => "probing",
    }
}

fn put_failed(out: &mut Object<'_>, failed: &FailedPush) {
    let FailedPush { at, topic, id, attempt, destination, error } = failed;
    out.time("time", *at);
    out.text("topic", topic.as_str());
    out.text("id", id.as_str());
    out.number("attempt", (*attempt).into());
    out.text("destination", destination.as_str());
    out.text("error", error);
}
