//! The API's description in OpenAPI 3.1, and a page to read and try it.
//!
//! Requests are read field by field, not into types that a macro could describe, so the description
//! is written down here: its codes, states and limits come from the code, and tests hold the rest
//! against the routes, the reader and a running server.

mod calls;
mod operation;
mod schemas;

use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Uri};
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, Value, json};
use swagger_ui_redist::{SwaggerUi, SwaggerUiStaticFile};

use super::{App, Route, no_route, only_get};
use crate::config::Fronts;

/// `GET /openapi.json`, `/docs` and what that page is made of.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        ("/openapi.json", get(show).fallback(only_get)),
        ("/docs", get(page).fallback(only_get)),
        ("/docs/{file}", get(file).fallback(only_get)),
    ]
}

/// One for each choice of dialects, made when it is first asked for.
static DOCUMENTS: [OnceLock<Bytes>; 8] = [const { OnceLock::new() }; 8];

async fn show(State(app): State<Arc<App>>) -> Response {
    let fronts = &app.config().fronts;
    let bits = [fronts.command, fronts.ouqiang, fronts.tasks].map(usize::from);
    let document = &DOCUMENTS[bits[0] | bits[1] << 1 | bits[2] << 2];
    let bytes = document.get_or_init(|| document_of(fronts).to_string().into());
    answer("application/json", bytes.clone())
}

async fn page() -> Response {
    // Whatever the page is told to load from elsewhere, the browser will not.
    const ONLY_US: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; \
         style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let page = Bytes::from_static(include_bytes!("page.html"));
    let mut answer = answer("text/html; charset=utf-8", page);
    let only_us = HeaderValue::from_static(ONLY_US);
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, only_us);
    answer
}

async fn file(Path(name): Path<String>, uri: Uri) -> Response {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    let (kind, bytes) = match name.as_str() {
        "page.js" => (SCRIPT, &include_bytes!("page.js")[..]),
        "swagger-ui.js" => (SCRIPT, ready_made(SwaggerUiStaticFile::Js)),
        "swagger-ui.css" => ("text/css; charset=utf-8", ready_made(SwaggerUiStaticFile::Css)),
        "favicon.png" => ("image/png", ready_made(SwaggerUiStaticFile::Favicon32)),
        _ => return no_route(uri).await,
    };
    answer(kind, Bytes::from_static(bytes))
}

fn ready_made(wanted: SwaggerUiStaticFile) -> &'static [u8] {
    let mut files = SwaggerUi::static_files().iter();
    files.find(|(file, _)| *file == wanted).map_or(&[], |(_, bytes)| *bytes)
}

fn answer(kind: &'static str, bytes: Bytes) -> Response {
    let mut answer = Response::new(Body::from(bytes));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

const ABOUT: &str = "\
A delay queue: add a job, say when it is due, and it is handed out then, again and again until \
someone finishes it.

Durations are text such as `30s` or `2h30m`, or a number of seconds. Times are RFC 3339 or Unix \
time. A `POST` without a body is `{}`. Unknown fields and parameters are refused by name, and null \
is the same as leaving a field out unless said otherwise. Every refusal has a stable `code`, a \
`message` for people, and the `field` at fault; a wrong method is 405 and an unknown path 404. \
Limits named here are the defaults. A request's `X-Request-Id` comes back with its answer, or one that was made for it.";

/// What the description calls a key.
const KEY: &str = "key";

/// The whole description.
fn document_of(fronts: &Fronts) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let calls = calls::calls(fronts);
    for call in calls {
        let (method, path) = (call.method, call.path);
        paths.entry(path).or_insert_with(|| json!({}))[method] = call.written();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Linger",
            "summary": "A delay queue over HTTP",
            "description": ABOUT,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server"}],
        "tags": calls::tags(),
        "paths": paths,
        "components": {
            "parameters": schemas::parameters(),
            "schemas": schemas::schemas(),
            "securitySchemes": {KEY: {
                "type": "http", "scheme": "bearer", "bearerFormat": "lk_…",
                "description": "An API key, if the server has any. What a call needs is a key with \
                    one of the scopes that it names; `admin` is all of them.",
            }},
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::auth::table::{self, Needs};

    fn whole() -> Value {
        document_of(&Fronts { command: true, ouqiang: true, tasks: true })
    }

    /// Whether a route serves a path of the description: `{bulk}` and `{action}` stand for words.
    fn serves(route: &str, path: &str) -> bool {
        let (route, path): (Vec<_>, Vec<_>) =
            (route.split('/').collect(), path.split('/').collect());
        let fits = |(part, word): (&&str, &&str)| {
            part == word || (["{bulk}", "{action}"].contains(part) && !word.starts_with('{'))
        };
        route.len() == path.len() && route.iter().zip(&path).all(fits)
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let whole = whole();
        let described: BTreeSet<&str> =
            whole["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        // What the pages are made of is not for clients.
        let mut routes = crate::front::http::paths();
        routes.remove("/docs/{file}");
        routes.remove("/dashboard/{*file}");
        for route in &routes {
            assert!(described.iter().any(|path| serves(route, path)), "{route} is not described");
        }
        for path in &described {
            assert!(routes.iter().any(|route| serves(route, path)), "{path} is not served");
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_shape_is_used() {
        let whole = whole();
        let mut seen = BTreeSet::new();
        collect(&whole, &mut seen);
        for reference in &seen {
            assert!(whole.pointer(&reference[1..]).is_some(), "{reference} leads nowhere");
        }
        for name in whole["components"]["schemas"].as_object().unwrap().keys() {
            let reference = format!("#/components/schemas/{name}");
            assert!(seen.contains(&reference), "nothing uses {name}");
        }
    }

    fn collect(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    into.insert(reference.clone());
                }
                fields.values().for_each(|value| collect(value, into));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, into)),
            _ => {}
        }
    }

    #[test]
    fn every_call_has_a_name_of_its_own_and_is_complete() {
        let whole = whole();
        let mut names = BTreeSet::new();
        for (path, calls) in whole["paths"].as_object().unwrap() {
            for (method, call) in calls.as_object().unwrap() {
                let name = call["operationId"].as_str().unwrap();
                assert!(names.insert(name.to_owned()), "{name} is there twice");
                assert!(!call["summary"].as_str().unwrap().is_empty(), "{method} {path}");
                assert_eq!(call["tags"].as_array().unwrap().len(), 1, "{method} {path}");
                let statuses = call["responses"].as_object().unwrap();
                let done = ["200", "201"].iter().any(|status| statuses.contains_key(*status));
                assert!(done, "{method} {path}");
                assert!(statuses.contains_key("403"), "{method} {path}");
            }
        }
    }

    #[test]
    fn every_call_says_what_it_needs() {
        let whole = whole();
        for (path, calls) in whole["paths"].as_object().unwrap() {
            for (method, call) in calls.as_object().unwrap() {
                let security = call["security"].as_array().unwrap();
                let method = method.to_uppercase().parse().unwrap();
                let needs = table::of_http(&method, path).unwrap();
                assert_eq!(security.is_empty(), needs == Needs::Nothing, "{method} {path}");
                let scopes = needs.scopes().iter().map(|scope| scope.as_str());
                assert!(scopes.eq(security.iter().filter_map(|one| one[KEY][0].as_str())));
                let is_old = ["command", "ouqiang"].contains(&call["tags"][0].as_str().unwrap());
                let told = call["responses"].as_object().unwrap().contains_key("401");
                assert_eq!(told, needs != Needs::Nothing && !is_old, "{method} {path}");
            }
        }
    }

    #[test]
    fn a_dialect_that_is_switched_off_is_not_described() {
        let paths = |command, ouqiang, tasks| {
            let document = document_of(&Fronts { command, ouqiang, tasks });
            document["paths"].as_object().unwrap().clone()
        };
        assert!(!paths(false, true, true).contains_key("/v1/command"));
        assert!(!paths(true, false, true).contains_key("/push"));
        assert!(!paths(true, true, false).contains_key("/task/add"));
        let none = paths(false, false, false);
        assert!(none.keys().all(|path| path.starts_with("/v1/") || !path[1..].contains('/')));
    }
}
