//! The HTTP front: JSON in, JSON out.

mod alarms;
mod audit;
mod backup;
mod command;
mod config;
mod dashboard;
mod destinations;
mod error;
mod errors;
mod events;
mod guard;
mod hot;
mod jobs;
mod keys;
pub(crate) mod lines;
mod metrics;
mod nodes;
mod old;
mod openapi;
mod ouqiang;
mod read;
mod request;
mod secrets;
mod shape;
mod stats;
mod tasks;
mod topics;
mod upcoming;
mod work;
mod workers;
mod write;

pub(crate) use hot::answer as answer_hot;
pub(crate) use shape::ended;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use hyper::body::Incoming;
use linger::error::{Code, Error};
use tower::Service;

use super::app::App;
use error::Refused;
use guard::{Peer, guarded};
use write::json;

/// What a server answers that does not have the role api.
const WITHOUT_API: [&str; 4] = ["/healthz", "/readyz", "/metrics", "/v1/nodes"];

/// A path, and what is served there.
type Route = (&'static str, MethodRouter<Arc<App>>);

/// All the routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    let guarded = |routes, refuse| guarded(&app, routes, refuse);
    let command = guarded(command::routes(), command::refuse);
    let ouqiang = guarded(ouqiang::routes(), ouqiang::refuse);
    let tasks = guarded(tasks::routes(), tasks::refuse);
    guarded(routes(), IntoResponse::into_response)
        .merge(old::switched(&app, command, |fronts| fronts.command))
        .merge(old::switched(&app, ouqiang, |fronts| fronts.ouqiang))
        .merge(old::switched(&app, tasks, |fronts| fronts.tasks))
        .fallback(no_route)
        .with_state(app)
}

/// Has a request done.
pub(crate) async fn answer(
    app: &Arc<App>,
    router: &Router,
    request: Request<Incoming>,
    peer: IpAddr,
) -> Response {
    if !WITHOUT_API.contains(&request.uri().path())
        && let Err(why) = app.check_api()
    {
        return refusal(why);
    }
    match hot::answer(app, request, peer).await {
        Ok(answer) => answer,
        Err(request) => {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            match router.clone().call(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            }
        }
    }
}

/// The answer to a request that is refused before anyone looks what it wants.
pub(crate) fn refusal(why: Error) -> Response {
    Refused::from(why).into_response()
}

fn routes() -> Vec<Route> {
    let job = get(jobs::look).patch(jobs::update).delete(jobs::delete);
    let topic = get(topics::look).put(topics::set).delete(topics::forget);
    let worker = get(workers::look).delete(workers::deregister);
    let mut routes = vec![
        ("/v1/jobs", post(jobs::add).fallback(only_post)),
        ("/v1/jobs/{id}", get(jobs::find).fallback(only_get)),
        ("/v1/pop", post(work::pop_many).fallback(only_post)),
        ("/v1/due", get(topics::due).fallback(only_get)),
        ("/v1/keys", get(keys::list).post(keys::add).fallback(only_list)),
        ("/v1/keys/{key_id}", delete(keys::revoke).fallback(only_delete)),
        ("/v1/whoami", get(keys::whoami).fallback(only_get)),
        ("/v1/audit", get(audit::list).fallback(only_get)),
        ("/v1/secrets", get(secrets::list).post(secrets::add).fallback(only_list)),
        ("/v1/secrets/{secret}", delete(secrets::delete).fallback(only_delete)),
        ("/v1/topics", get(topics::list).fallback(only_get)),
        ("/v1/topics/{topic}", topic.fallback(only_topic)),
        ("/v1/topics/{topic}/pop", post(work::pop).fallback(only_post)),
        ("/v1/topics/{topic}/pause", post(topics::pause).fallback(only_post)),
        ("/v1/topics/{topic}/resume", post(topics::resume).fallback(only_post)),
        ("/v1/topics/{topic}/empty", post(topics::empty).fallback(only_post)),
        ("/v1/topics/{topic}/errors", get(errors::list).fallback(only_get)),
        ("/v1/topics/{topic}/{bulk}", post(work::bulk).fallback(only_post)),
        ("/v1/topics/{topic}/jobs", get(topics::browse).fallback(only_get)),
        ("/v1/topics/{topic}/jobs/{id}", job.fallback(only_job)),
        ("/v1/topics/{topic}/jobs/{id}/history", get(jobs::history).fallback(only_get)),
        ("/v1/topics/{topic}/jobs/{id}/upcoming", get(upcoming::list).fallback(only_get)),
        ("/v1/topics/{topic}/jobs/{id}/{action}", post(work::act).fallback(only_post)),
        ("/v1/workers", get(workers::list).post(workers::register).fallback(only_list)),
        ("/v1/workers/{worker}", worker.fallback(only_worker)),
        ("/v1/workers/{worker}/heartbeat", put(workers::heartbeat).fallback(only_put)),
        ("/v1/workers/{worker}/drain", post(workers::drain).fallback(only_post)),
        ("/v1/destinations", get(destinations::list).fallback(only_get)),
        ("/v1/nodes", get(nodes::list).fallback(only_get)),
        ("/v1/backup", get(backup::stream).fallback(only_get)),
        ("/v1/config", get(config::show).put(config::set).fallback(only_config)),
        ("/v1/events", get(events::list).fallback(only_get)),
        ("/v1/events/sums", get(events::sums).fallback(only_get)),
        ("/v1/stats", get(stats::show).fallback(only_get)),
        ("/v1/alarms", get(alarms::list).fallback(only_get)),
        ("/healthz", get(healthz).fallback(only_get)),
        ("/readyz", get(readyz).fallback(only_get)),
        ("/metrics", get(metrics::show).fallback(only_get)),
    ];
    routes.extend(openapi::routes());
    routes.extend(dashboard::routes());
    routes
}

/// The paths of all routes.
#[cfg(test)]
fn paths() -> std::collections::BTreeSet<&'static str> {
    let routes = [routes(), command::routes(), ouqiang::routes(), tasks::routes()];
    routes.into_iter().flatten().map(|(path, _)| path).collect()
}

/// Well as long as a restart would not help.
async fn healthz(State(app): State<Arc<App>>) -> Response {
    match app.halted() {
        Some(why) => Refused::from(why).into_response(),
        None => json(StatusCode::OK, |out| out.flag("ok", true)),
    }
}

async fn readyz(State(app): State<Arc<App>>) -> Response {
    if let Some(why) = app.halted().or_else(|| app.away()) {
        return Refused::from(why).into_response();
    }
    match app.store() {
        Ok(_) if app.stopping.is_cancelled() => {
            Refused::new(Code::Unavailable, "the server is stopping").into_response()
        }
        Ok(store) => json(StatusCode::OK, |out| {
            out.flag("ready", true);
            if let Some(warning) = store.without_timer() {
                out.text("warning", warning);
            }
        }),
        Err(why) => {
            // Down to hundredths, so that nobody reads all before it is all.
            let loaded = (app.loading().share().min(0.99) * 100.0).floor() / 100.0;
            Refused::from(why).respond_with(|out| out.raw("loaded", loaded.to_string().as_bytes()))
        }
    }
}

async fn no_route(uri: Uri) -> Response {
    let path = read::short(uri.path());
    Refused::new(Code::NotFound, format!("there is nothing at `{path}`")).into_response()
}

fn wrong_method(methods: &'static str) -> Response {
    Refused::new(Code::Invalid, format!("this path takes {methods}"))
        .status(StatusCode::METHOD_NOT_ALLOWED)
        .allow(methods)
        .into_response()
}

async fn only_get() -> Response {
    wrong_method("GET, HEAD")
}

async fn only_post() -> Response {
    wrong_method("POST")
}

async fn only_delete() -> Response {
    wrong_method("DELETE")
}

async fn only_list() -> Response {
    wrong_method("GET, HEAD, POST")
}

async fn only_put() -> Response {
    wrong_method("PUT")
}

async fn only_config() -> Response {
    wrong_method("GET, HEAD, PUT")
}

async fn only_worker() -> Response {
    wrong_method("GET, HEAD, DELETE")
}

async fn only_topic() -> Response {
    wrong_method("GET, HEAD, PUT, DELETE")
}

async fn only_job() -> Response {
    wrong_method("GET, HEAD, PATCH, DELETE")
}
