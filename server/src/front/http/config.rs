//! The settings that all who share the store have.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::value::RawValue;

use super::App;
use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::request::{Asked, Payload};
use super::write::{Object, json};
use crate::common::{self, Runs};
use crate::config::Common;

/// `GET /v1/config`.
pub(crate) async fn show(State(app): State<Arc<App>>, asked: Asked) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    shown(&app).await
}

/// `PUT /v1/config`: these in place of all that were shared.
pub(crate) async fn set(State(app): State<Arc<App>>, Payload(bytes): Payload) -> Result<Response> {
    let mut fields = Fields::of_request(read::utf8(&bytes)?)?;
    let if_version = fields.read_by("if_version", read::number)?;
    let settings = fields.read_by("settings", settings)?;
    fields.end()?;
    let missing =
        || Refused::invalid("settings", "settings is missing; give an object, be it empty");
    let common = Common { settings: settings.ok_or_else(missing)?, ..Common::default() };
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    app.commons().write(app.store()?, &common, if_version).await?;
    shown(&app).await
}

fn settings(
    name: &'static str,
    raw: &RawValue,
) -> Result<std::collections::BTreeMap<String, toml::Value>> {
    serde_json::from_str(raw.get())
        .map_err(|_| read::wrong(name, raw, "an object such as {\"limits.body\":\"2MiB\"}"))
}

async fn shown(app: &App) -> Result<Response> {
    let store = app.store()?;
    let stored = common::read(store).await?;
    let nodes = app.commons().nodes(store).await?;
    let this = app.commons().runs().id;
    let loaded = app.commons().loaded();
    Ok(json(StatusCode::OK, |out| {
        out.number("version", stored.version);
        out.object("settings", |out| {
            for (key, value) in &stored.settings {
                let value = serde_json::to_vec(value).expect("a setting is plain");
                out.pair(key, &value);
            }
        });
        out.array("nodes", |out| {
            nodes.iter().for_each(|node| out.object(|out| put_node(out, node, &this)));
        });
        if let Some(loaded) = &loaded {
            out.object("in_force", |out| {
                for setting in loaded.origins.iter().filter(|setting| setting.is_live()) {
                    let value = serde_json::to_vec(&setting.value).expect("a setting is plain");
                    out.object(setting.key, |out| {
                        out.raw("value", &value);
                        out.text("from", &setting.origin.to_string());
                    });
                }
            });
        }
    }))
}

fn put_node(out: &mut Object<'_>, node: &Runs, this: &str) {
    out.text("id", &node.id);
    out.text("name", &node.name);
    out.flag("this", node.id == this);
    out.number("version", node.version);
    if let Some(refused) = &node.refused {
        out.text("refused", refused);
    }
}
