//! Several instances, one log; and a Redis that goes away.

use hyper::Method;
use serde_json::json;

use crate::redis_servers::{Standalone, there};
use crate::served::{PATIENCE, Served};
use crate::{add, events, kinds, pop, settle};

#[tokio::test(flavor = "multi_thread")]
async fn any_instance_tells_of_all() {
    if !there() {
        return;
    }
    let redis = Standalone::start(&[]);
    let url = redis.url();
    let one = Served::start(url.as_ref(), &["--set", "name=one"]).await;
    let two = Served::start(url.as_ref(), &["--set", "name=two"]).await;
    let other = Served::start(url.as_ref(), &["--set", "store.prefix=other"]).await;
    add(&one.caller(), r#"{"topic":"mail","id":"1"}"#).await;
    events(&two.caller(), "topic=mail", 1).await;
    // It waits at the one, and happens at the other.
    let end = crate::page(&one.caller(), "").await["end"].as_str().unwrap().to_owned();
    let waits = {
        let server = one.caller();
        tokio::spawn(async move {
            crate::page(&server, &format!("order=oldest&wait=60s&cursor={end}")).await
        })
    };
    let held = pop(&two.caller(), "mail").await;
    assert_eq!(waits.await.unwrap()["events"][0]["node"], "two");
    settle(&one.caller(), &held, "finish", "").await;
    for served in [&one, &two] {
        let all = events(&served.caller(), "topic=mail", 3).await;
        assert_eq!(kinds(&all), ["added", "handed_out", "finished"]);
        let nodes: Vec<_> = all.iter().map(|event| event["node"].clone()).collect();
        assert_eq!(nodes, [json!("one"), json!("two"), json!("one")]);
        // Whoever it was handed out by.
        assert_eq!(all[2]["attempt"], 1);
        assert!(all[2]["latency_ms"].is_u64());
    }
    assert_eq!(crate::page(&other.caller(), "").await["events"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_is_counted_and_the_log_says_that_it_is_missing() {
    if !there() {
        return;
    }
    // Room for jobs and no more: what a log would take is refused, and the jobs go on.
    let redis = Standalone::start(&[]);
    let url = redis.url();
    let served = Served::start(url.as_ref(), &[]).await;
    let server = served.caller();
    add(&server, r#"{"topic":"mail","id":"1"}"#).await;
    events(&server, "topic=mail", 1).await;
    redis.plain().ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let dropped = async |count: u64| {
        let looking = async {
            loop {
                let metrics = server.text(Method::GET, "/metrics", String::new()).await;
                let mut lines = metrics.lines();
                let line = lines.find(|line| line.starts_with("linger_events_dropped_total"));
                if line.is_some_and(|line| line.ends_with(&format!(" {count}"))) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("they are counted");
    };
    // Each by itself, so that the second is told of with the gap that the first has left, which is lost, too.
    let held = pop(&server, "mail").await;
    dropped(1).await;
    settle(&server, &held, "release", "").await;
    dropped(2).await;
    let held = pop(&server, "mail").await;
    dropped(3).await;
    settle(&server, &held, "finish", "").await;
    dropped(4).await;
    redis.plain().ask(&["CONFIG", "SET", "maxmemory", "0"]);
    add(&server, r#"{"topic":"mail","id":"2"}"#).await;
    let all = events(&server, "", 3).await;
    assert_eq!(kinds(&all), ["added", "gap", "added"]);
    assert_eq!(all[1]["count"], 4);
}
