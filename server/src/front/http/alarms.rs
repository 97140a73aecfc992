//! What is watched, and what is not well.

use std::sync::Arc;

use axum::extract;
use axum::http::StatusCode;
use axum::response::Response;

use super::App;
use super::error::Result;
use super::request::Asked;
use super::write::{Object, json};
use crate::alarms::{Shown, State, Subject};
use crate::config::{Kind, Rule, shown_target};

/// `GET /v1/alarms`.
pub(crate) async fn list(
    extract::State(app): extract::State<Arc<App>>,
    asked: Asked,
) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let (settings, looked) = (app.alarms()?.settings(), app.alarms()?.looked());
    Ok(json(StatusCode::OK, |out| {
        if let Some(at) = looked.at {
            out.time("looked", at);
        }
        out.array("alarms", |out| {
            for rule in &settings.rules {
                let of_rule = looked.shown.iter().filter(|one| one.alarm == rule.name);
                out.object(|out| put_rule(out, rule, &of_rule.collect::<Vec<_>>()));
            }
        });
    }))
}

fn put_rule(out: &mut Object<'_>, rule: &Rule, shown: &[&Shown]) {
    let Rule { name, kind, of, threshold, holds, quiet, to } = rule;
    out.text("name", name);
    out.text("kind", kind.as_str());
    if let Some(pattern) = of.pattern() {
        let name = if kind.is_of_topics() { "topic" } else { "destination" };
        out.text(name, pattern.as_str());
    }
    put_value(out, "threshold", *kind, *threshold);
    out.duration("for", *holds);
    out.duration("quiet", *quiet);
    out.text("to", &shown_target(to));
    let worst = shown.iter().map(|one| one.state).max().unwrap_or(State::Ok);
    out.text("state", worst.as_str());
    out.array("incidents", |out| {
        shown.iter().for_each(|one| out.object(|out| put_incident(out, *kind, one)));
    });
}

fn put_incident(out: &mut Object<'_>, kind: Kind, shown: &Shown) {
    let Shown { alarm: _, of, state, value, since } = shown;
    match of {
        Subject::All => {}
        Subject::Topic(topic) => out.text("topic", topic),
        Subject::Destination(destination) => out.text("destination", destination),
    }
    out.text("state", state.as_str());
    put_value(out, "value", kind, *value);
    out.time("since", *since);
}

fn put_value(out: &mut Object<'_>, name: &'static str, kind: Kind, value: u64) {
    out.raw(name, kind.shown(value).to_string().as_bytes());
}
