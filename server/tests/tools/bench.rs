//! A load that leaves nothing behind.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::run;
use crate::served::{Caller, Served};

/// The topics of loads that are there.
async fn topics(server: &Caller) -> Vec<Value> {
    let mut listed = server.get("/v1/topics?prefix=linger.bench.").await.ok(200);
    serde_json::from_value(listed["topics"].take()).expect("a list")
}

async fn served(args: &[&str]) -> (tempfile::TempDir, Served, String) {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(&folder.path().join("store"), args).await;
    let url = format!("http://{}", server.address);
    (folder, server, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_job_of_a_load_is_finished_and_its_topic_is_gone() {
    let (_folder, server, url) = served(&[]).await;
    server.caller().post("/v1/jobs", r#"{"topic":"mail","id":"1","delay":"1h"}"#).await.ok(201);
    let load = ["--rate", "500", "--time", "400ms", "--delay", "50ms", "--server", &url];
    let ran = run(&[&["bench", "--json"], &load[..]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    for (name, count) in [("jobs", 200), ("added", 200), ("finished", 200), ("left", 0)] {
        assert_eq!(told[name], count, "{told}");
    }
    for name in ["add", "finish", "late"] {
        let at = |share: &str| told[name][share].as_f64().unwrap_or_else(|| panic!("{told}"));
        assert!(at("p50_ms") <= at("p99_ms") && at("p99_ms") <= at("max_ms"), "{told}");
    }
    assert!(topics(&server.caller()).await.is_empty());
    server.caller().get("/v1/topics/mail/jobs/1").await.ok(200);

    let few = ["--rate", "1000", "--jobs", "5", "--delay", "0s", "--server", &url];
    let ran = run(&[&["bench"], &few[..]].concat());
    assert!(ran.out.starts_with("added     5 of 5 jobs, "), "{ran:?}");
    assert!(ran.err.contains("5 jobs in the topic linger.bench."), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_interrupted_or_refused_leaves_nothing() {
    let (_folder, server, url) = served(&["--set", "limits.body=1KiB"]).await;
    let caller = server.caller();
    let load: Child = Command::new(env!("CARGO_BIN_EXE_linger"))
        .args(["bench", "--rate", "50", "--time", "10m", "--delay", "9m", "--server", &url])
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    while topics(&caller).await.is_empty() {
        tokio::task::yield_now().await;
    }
    kill_process(Pid::from_child(&load), Signal::INT).expect("it runs");
    let ended = load.wait_with_output().expect("it ends");
    let [out, err] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(ended.status.code(), Some(2), "{err}");
    assert!(err.contains("it ended early: interrupted"), "{err}");
    assert!(out.contains("the topic is forgotten, with "), "{out}");
    assert!(topics(&caller).await.is_empty());

    let ran = run(&["bench", "--body", "2000", "--server", &url]);
    assert!(ran.code == 2 && ran.err.contains("over the limit of 1024"), "{ran:?}");
    assert!(topics(&caller).await.is_empty());
    let ran = run(&["bench", "--rate", "10000000", "--time", "1h", "--server", &url]);
    assert!(ran.code == 2 && ran.err.contains("lower --rate or --time"), "{ran:?}");
}
