//! What the server and its store count.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::queue::Queue;
use linger::stats::{BOUNDS_US, Lateness, Stats};
use linger::store::embedded::{Durability, Measured};

use super::error::{Refused, Result};
use super::request::Asked;
use super::topics::put_counts;
use super::write::{Array, Object, json};
use super::{App, metrics};
use crate::store::Store;

/// `GET /v1/stats`.
pub(crate) async fn show(State(app): State<Arc<App>>, asked: Asked) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let store = app.store()?;
    // Of a store that is away nothing else is known.
    if let Some(why) = app.away() {
        let away = |out: &mut Object<'_>| out.object("store", |out| put_shared(out, store));
        return Ok(Refused::from(why).respond_with(away));
    }
    let stats = store.stats().await?;
    let measured = match store.embedded() {
        Some(embedded) => Some(embedded.measured().await?),
        None => None,
    };
    let oldest = app.oldest.get(store).await?;
    Ok(json(StatusCode::OK, |out| {
        out.time("now", store.clock().now().time());
        out.text("version", env!("CARGO_PKG_VERSION"));
        out.time("started", app.started());
        put_stats(out, &stats);
        if let Some(job) = &oldest {
            out.object("oldest_ready", |out| {
                out.text("topic", job.topic.as_str());
                out.text("id", job.id.as_str());
                out.time("due", job.due);
            });
        }
        out.object("store", |out| match &measured {
            Some(measured) => put_folder(out, app.config().durability, measured),
            None => put_shared(out, store),
        });
        put_pushes(out, &app);
    }))
}

fn put_stats(out: &mut Object<'_>, stats: &Stats) {
    out.object("counts", |out| put_counts(out, &stats.counts));
    out.number("topics", stats.topics);
    out.number("waiting", stats.waiting);
    out.object("totals", |out| {
        out.number("added", stats.added);
        out.number("handed_out", stats.handed_out);
        out.number("finished", stats.finished);
        out.number("failed", stats.failed);
        out.number("again", stats.again);
        out.number("timed_out", stats.timed_out);
        out.number("died", stats.died);
        out.number("deleted", stats.deleted);
    });
    out.object("lateness", |out| {
        out.array("bounds_ms", |out| BOUNDS_US.iter().for_each(|us| out.decimal(*us as f64 / 1e3)));
        out.array("due_to_ready", |out| put_classes(out, &stats.due_to_ready));
        out.array("ready_to_handed_out", |out| put_classes(out, &stats.ready_to_handed_out));
    });
}

fn put_classes(out: &mut Array<'_>, lateness: &Lateness) {
    lateness.counts().iter().for_each(|count| out.number(*count));
}

fn put_folder(out: &mut Object<'_>, durability: Durability, measured: &Measured) {
    out.text("kind", "folder");
    let durability = match durability {
        Durability::Sync => "sync",
        Durability::Relaxed => "relaxed",
    };
    out.text("durability", durability);
    out.number("log_bytes", measured.log_bytes);
    out.number("live_bytes", measured.live_bytes);
    out.number("checkpoint_bytes", measured.checkpoint_bytes);
    if let Some(bytes) = measured.free_bytes {
        out.number("free_bytes", bytes);
    }
    out.flag("full", measured.full);
}

fn put_shared(out: &mut Object<'_>, store: &Store) {
    out.text("kind", "redis");
    out.number("away_seconds", store.away_for().unwrap_or_default().as_secs());
}

fn put_pushes(out: &mut Object<'_>, app: &App) {
    let Some(runner) = app.runner() else { return };
    let totals = runner.totals();
    out.object("pushes", |out| {
        out.number("running", totals.running);
        out.number("closed", runner.closed().len() as u64);
        out.object("totals", |out| {
            metrics::outcomes(&totals).iter().for_each(|(name, count)| out.number(name, *count));
        });
    });
}
