//! Those who share a store, and its buckets.

use serde_json::{Value, json};

use super::answers::{moment, object};
use super::{about, flag, large, list_of, named, small, text};

pub(super) fn all() -> Value {
    json!({
        "Nodes": object("Who shares the store.", &["nodes", "buckets"], json!({
            "nodes": list_of(named("Node")),
            "buckets": about("All there are, by number; none in a folder.", list_of(named("Bucket"))),
            "warning": about(
                "Why jobs may be late: there if no live instance has the role `timer`.",
                text(),
            ),
        })),
        "Node": node(),
        "Bucket": bucket(),
    })
}

fn node() -> Value {
    let required = [
        "id",
        "name",
        "this",
        "roles",
        "group",
        "weight",
        "version",
        "started",
        "heard",
        "load",
        "bucket_count",
        "buckets",
    ];
    let properties = json!({
        "id": about("Made anew with every start.", text()),
        "name": text(),
        "this": about("Whether it is the one that answers.", flag()),
        "roles": about("What it does: `api`, `timer`, `worker`.", list_of(text())),
        "group": about("Those of one group take load off each other first.", text()),
        "weight": about("How large its share of the buckets is, against that of others.", small()),
        "threshold": about("The load over which it hands buckets to others.", large()),
        "address": about("Where it listens.", text()),
        "version": text(),
        "started": moment(),
        "heard": about("When it last said that it is alive.", moment()),
        "load": about("Jobs that it makes ready a second, and one for each bucket.", large()),
        "bucket_count": about("How many buckets it holds.", small()),
        "buckets": about("Which.", list_of(small())),
    });
    object("A server, or a program with the library.", &required, properties)
}

fn bucket() -> Value {
    let properties = json!({
        "number": small(),
        "holder": about("The `id` of who sees to it; missing while nobody does.", text()),
        "fence": about("Rises with every lease.", large()),
        "until": about("When the lease ends unless its holder says that it is alive.", moment()),
        "load": about("Jobs that are made ready in it a second.", large()),
    });
    object(
        "A part of the store: topics that one instance sees to.",
        &["number", "load"],
        properties,
    )
}
