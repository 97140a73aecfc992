//! The other ways to Redis: by sentinels, and to a cluster.

use std::path::Path;

use crate::fleet::{add, finish, pop};
use crate::redis_servers::{Cluster, SentinelTrio, there};
use crate::served::Served;

/// Has work done by two servers on one store, in so many topics that they lie far apart.
async fn work_on(url: &str) {
    let args = ["--set", "store.poll=1h"];
    let one = Served::start(Path::new(url), &args).await;
    let other = Served::start(Path::new(url), &args).await;
    let (one, other) = (one.caller(), other.caller());
    for number in 0..20 {
        let topic = format!("orders-{number}");
        add(&one, &format!(r#"{{"topic":"{topic}","id":"1","delay":"100ms"}}"#)).await;
        let jobs = pop(&other, &topic, r#"{"wait":"1m"}"#).await;
        finish(&one, &jobs[0]).await.ok(200);
    }
}

#[tokio::test]
async fn servers_share_what_sentinels_watch() {
    if there() {
        let trio = SentinelTrio::start();
        work_on(&trio.url()).await;
    }
}

#[tokio::test]
async fn servers_share_a_cluster() {
    if there() {
        let cluster = Cluster::start();
        work_on(&cluster.url()).await;
    }
}
