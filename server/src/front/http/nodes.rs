//! Who shares the store, and who sees to which of its buckets.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use linger::store::redis::{BucketInfo, Fleet, NodeInfo};

use super::App;
use super::error::Result;
use super::request::Asked;
use super::write::{Object, json};

/// `GET /v1/nodes`.
pub(crate) async fn list(State(app): State<Arc<App>>, asked: Asked) -> Result<Response> {
    asked.end()?;
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let fleet = app.fleet().await?;
    Ok(json(StatusCode::OK, |out| {
        out.array("nodes", |out| {
            fleet.nodes.iter().for_each(|node| out.object(|out| put_node(out, &fleet, node)));
        });
        out.array("buckets", |out| {
            fleet
                .buckets
                .iter()
                .for_each(|bucket| out.object(|out| put_bucket(out, &fleet, bucket)));
        });
        if !fleet.has_timer() {
            out.text("warning", linger::store::redis::NO_TIMER);
        }
    }))
}

fn put_node(out: &mut Object<'_>, fleet: &Fleet, info: &NodeInfo) {
    let NodeInfo { id, node, timer, version, started, heard, until: _, is_this } = info;
    out.text("id", id);
    out.text("name", &node.name);
    out.flag("this", *is_this);
    let mut roles: Vec<&str> = node.roles.iter().map(String::as_str).collect();
    roles.extend(timer.then_some("timer"));
    roles.sort_unstable();
    out.array("roles", |out| roles.iter().for_each(|role| out.text(role)));
    out.text("group", &node.group);
    out.number("weight", node.weight.into());
    if let Some(threshold) = node.threshold {
        out.number("threshold", threshold);
    }
    if let Some(address) = &node.address {
        out.text("address", address);
    }
    out.text("version", version);
    out.time("started", *started);
    out.time("heard", *heard);
    out.number("load", fleet.load_of(id));
    out.number("bucket_count", fleet.held_by(id).count() as u64);
    out.array("buckets", |out| {
        fleet.held_by(id).for_each(|bucket| out.number(bucket.number.into()));
    });
}

fn put_bucket(out: &mut Object<'_>, fleet: &Fleet, bucket: &BucketInfo) {
    let BucketInfo { number, holder, fence, load } = bucket;
    out.number("number", (*number).into());
    if let Some(holder) = holder {
        out.text("holder", holder);
        out.number("fence", *fence);
        if let Some(node) = fleet.nodes.iter().find(|node| node.id == *holder) {
            out.time("until", node.until);
        }
    }
    out.number("load", *load);
}
