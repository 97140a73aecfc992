//! What is kept, and for how long.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::served::Served;
use crate::{Place, add, events, kinds, list, page, pop, settle};

#[tokio::test(flavor = "multi_thread")]
async fn events_are_there_after_a_stop_and_after_a_kill() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        add(&server, r#"{"topic":"mail","id":"1"}"#).await;
        let held = pop(&server, "mail").await;
        settle(&server, &held, "finish", "").await;
        // At once: what has not been written by now is written at the stop.
        served.signal(Signal::TERM);
        assert!(served.ended().await.success());

        let served = place.serve(&[]).await;
        let server = served.caller();
        assert_eq!(
            kinds(&events(&server, "topic=mail", 3).await),
            ["added", "handed_out", "finished"]
        );
        add(&server, r#"{"topic":"mail","id":"2","delay":"1h"}"#).await;
        events(&server, "topic=mail", 4).await;
        served.kill();

        let served = place.serve(&[]).await;
        let server = served.caller();
        events(&server, "topic=mail", 4).await;
        let sums = server.get("/v1/events/sums?by=topic").await.ok(200);
        assert_eq!(sums["sums"][0]["kinds"]["added"]["count"], 2);
        add(&server, r#"{"topic":"mail","id":"3","delay":"1h"}"#).await;
        events(&server, "topic=mail", 5).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_keeps_to_its_size_and_the_oldest_goes() {
    for place in Place::both() {
        let small = ["--set", "events.size=64KiB", "--set", "events.redis_size=64KiB"];
        let served = place.serve(&small).await;
        let server = served.caller();
        for round in 0..20 {
            let jobs: Vec<Value> = (0..100)
                .map(|id| json!({"topic": "mail", "id": format!("{round}-{id}"), "delay": "1h"}))
                .collect();
            server.post("/v1/jobs", &Value::from(jobs).to_string()).await.ok(200);
            // Written before the next come, so that there are many pieces.
            events(&server, &format!("id={round}-99"), 1).await;
        }
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = page(&server, &format!("limit=1000&cursor={cursor}")).await;
            found.extend(list(&page["events"]));
            match page["cursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        assert!((100..1000).contains(&found.len()), "{}", found.len());
        assert_eq!(found[0]["id"], "19-99");
        let sums = server.get("/v1/events/sums?by=topic").await.ok(200);
        assert_eq!(sums["sums"][0]["kinds"]["added"]["count"], 2000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_off_says_so_and_nothing_is_kept() {
    let place = Place::folder();
    let served = place.serve(&["--set", "events.enabled=false"]).await;
    let server = served.caller();
    add(&server, r#"{"topic":"mail","id":"1"}"#).await;
    for path in ["/v1/events", "/v1/events/sums"] {
        let refused = server.get(path).await;
        assert_eq!((refused.status, refused.code()), (404, "not_found"));
        assert!(refused.json["error"]["message"].as_str().unwrap().contains("events.enabled"));
    }
    assert!(!place.path().join("events").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_opened_keeps_nobody_from_working() {
    let place = Place::folder();
    std::fs::create_dir_all(place.path()).expect("a folder");
    std::fs::write(place.path().join("events"), "in the way").expect("a file");
    let mut served = Served::listening(&place.path(), &[]).await;
    served.says("the event log cannot be opened, and nothing is logged").await;
    served.says(" ready").await;
    let server = served.caller();
    add(&server, r#"{"topic":"mail","id":"1"}"#).await;
    assert_eq!(server.get("/v1/events").await.code(), "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_a_log_is_in_good_order() {
    let place = Place::folder();
    let served = place.serve(&[]).await;
    let server = served.caller();
    add(&server, r#"{"topic":"mail","id":"1"}"#).await;
    events(&server, "", 1).await;
    served.signal(Signal::TERM);
    assert!(served.ended().await.success());
    assert!(place.path().join("events/events-00000001.jsonl").is_file());
    let checked = std::process::Command::new(env!("CARGO_BIN_EXE_linger"))
        .arg("check")
        .arg(place.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && !said.contains("events"), "{said}");
}
