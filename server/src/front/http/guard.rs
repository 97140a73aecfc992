//! Lets calls in that their key allows, before any route looks at them.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use linger::error::Code;
use linger::topic::Topic;

use super::error::{Refused, Result};
use super::{App, Route};
use crate::auth::audit::About;
use crate::auth::{Caller, table};

/// Where a request comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// How a dialect refuses.
pub(crate) type Refuse = fn(Refused) -> Response;

/// Routes that are called by those alone whose keys say so.
pub(crate) fn guarded(app: &Arc<App>, routes: Vec<Route>, refuse: Refuse) -> Router<Arc<App>> {
    routes.into_iter().fold(Router::new(), |router, (path, methods)| {
        let at = At { app: app.clone(), path, refuse };
        router.route(path, methods.layer(from_fn_with_state(at, guard)))
    })
}

/// What the guard of a route knows.
#[derive(Clone)]
struct At {
    app: Arc<App>,
    path: &'static str,
    refuse: Refuse,
}

async fn guard(
    State(At { app, path: route, refuse }): State<At>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
    let (caller, is_admin) = match admit(&app, route, &mut parts).await {
        Ok(admitted) => admitted,
        Err(refused) => return refuse(refused),
    };
    parts.extensions.insert(caller.clone());
    let mut answer = caller.doing(next.run(Request::from_parts(parts, body))).await;
    let is_change = is_admin && !matches!(method, Method::GET | Method::HEAD);
    if is_change && answer.status().is_success() {
        let about = answer.extensions_mut().remove::<About>();
        app.changed(&caller, format!("{method} {path}"), about);
    }
    answer
}

/// Who calls, and whether what is called is for administrators alone.
async fn admit(app: &Arc<App>, route: &str, parts: &mut Parts) -> Result<(Caller, bool)> {
    let Some(Peer(peer)) = parts.extensions.get().copied() else {
        return Err(Refused::new(Code::Forbidden, "it is not known where this comes from"));
    };
    let names = RawPathParams::from_request_parts(parts, app).await;
    let names = names.iter().flatten().collect::<Vec<_>>();
    // Words that stand for calls of their own in the table.
    let mut path = route.to_owned();
    for (name, word) in names.iter().filter(|(name, _)| ["bulk", "action"].contains(name)) {
        path = path.replace(&format!("{{{name}}}"), word);
    }
    let needs = table::of_http(&parts.method, &path).unwrap_or(table::UNKNOWN);
    let caller = app.admit(needs, &parts.headers, peer)?;
    let topic = names.iter().find(|(name, _)| *name == "topic");
    // One that cannot be read is refused by the route, with what is wrong with it.
    if let Some(topic) = topic.and_then(|(_, topic)| topic.parse::<Topic>().ok()) {
        caller.check_topic(&topic)?;
    }
    Ok((caller, needs.is_admin()))
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Caller> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| Refused::new(Code::Forbidden, "nobody has looked who calls"))
    }
}
