//! Looking through the log: pages, filters, sums, and waiting for what comes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Place, add, events, kinds, list, page, pop, settle};

async fn add_many(server: &crate::Caller, topic: &str, count: usize) {
    let jobs: Vec<Value> =
        (0..count).map(|id| json!({"topic": topic, "id": id.to_string(), "delay": "1h"})).collect();
    server.post("/v1/jobs", &Value::from(jobs).to_string()).await.ok(200);
}

fn ids(page: &Value) -> Vec<String> {
    list(&page["events"]).iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_lead_to_all_that_happened_either_way() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        add_many(&server, "mail", 250).await;
        add_many(&server, "other", 50).await;
        events(&server, "topic=other", 50).await;
        let right: Vec<String> = (0..250).map(|id| id.to_string()).collect();
        for order in ["newest", "oldest"] {
            let (mut found, mut cursor) = (Vec::new(), String::new());
            loop {
                let query = format!("topic=mail&order={order}&limit=97&cursor={cursor}");
                let page = page(&server, &query).await;
                found.extend(ids(&page));
                match page["cursor"].as_str() {
                    Some(next) if page["cursor"] != page["end"] => cursor = next.to_owned(),
                    _ => break,
                }
            }
            if order == "newest" {
                found.reverse();
            }
            assert_eq!(found, right, "{order}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_found_by_what_they_are() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        add(&server, r#"{"topic":"a \"b\"","id":"支付\\1","retry":{"attempts":1}}"#).await;
        let held = server.post("/v1/topics/a%20%22b%22/pop", "").await.ok(200)["jobs"][0].clone();
        let lease = held["lease"].as_str().unwrap();
        let fail = format!(r#"{{"lease":"{lease}","error":"the \"bank\" is closed"}}"#);
        server.post("/v1/topics/a%20%22b%22/jobs/%E6%94%AF%E4%BB%98%5C1/fail", &fail).await.ok(200);
        add(&server, r#"{"topic":"mail","id":"1"}"#).await;
        events(&server, "", 5).await;
        for (query, right) in [
            ("topic=a%20%22b%22", &["added", "handed_out", "failed", "died"][..]),
            ("id=%E6%94%AF%E4%BB%98%5C1&kind=added,died", &["added", "died"]),
            ("kind=added", &["added", "added"]),
            ("error=%22bank%22", &["failed", "died"]),
            ("error=nothing", &[]),
            ("until=2020-01-01T00:00:00Z", &[]),
            ("since=2099-01-01T00:00:00Z", &[]),
            ("since=2020-01-01T00:00:00Z&topic=mail", &["added"]),
        ] {
            assert_eq!(kinds(&events(&server, query, right.len()).await), right, "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_when_it_happens() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        add(&server, r#"{"topic":"mail","id":"1"}"#).await;
        events(&server, "topic=mail", 1).await;
        let end = page(&server, "").await["end"].as_str().unwrap().to_owned();
        let query = format!("order=oldest&topic=mail&wait=60s&cursor={end}");
        let waits = {
            let (server, query) = (server.clone(), query.clone());
            tokio::spawn(async move { page(&server, &query).await })
        };
        // What does not fit wakes nobody for good.
        add(&server, r#"{"topic":"other","id":"1"}"#).await;
        events(&server, "topic=other", 1).await;
        assert!(!waits.is_finished());
        add(&server, r#"{"topic":"mail","id":"2"}"#).await;
        let woken = tokio::time::timeout(Duration::from_secs(50), waits).await;
        assert_eq!(ids(&woken.expect("it is told").unwrap()), ["2"]);
        let none = page(&server, &format!("order=oldest&wait=1ms&topic=none&cursor={end}")).await;
        assert_eq!((&none["events"], &none["cursor"]), (&json!([]), &none["end"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_are_by_topic_and_hour() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        add_many(&server, "mail", 3).await;
        add(&server, r#"{"topic":"bill","id":"1"}"#).await;
        let held = pop(&server, "bill").await;
        settle(&server, &held, "fail", r#","error":"no""#).await;
        events(&server, "", 6).await;
        let sums = |query: &str| {
            let (server, query) = (server.clone(), query.to_owned());
            async move { server.get(&format!("/v1/events/sums?{query}")).await.ok(200) }
        };
        let all = list(&sums("").await["sums"]);
        // The hour may have turned; what matters is what is in all of them.
        let count = |topic: &str, kind: &str| -> u64 {
            let of = all.iter().filter(|sum| sum["topic"] == topic);
            of.map(|sum| sum["kinds"][kind]["count"].as_u64().unwrap_or(0)).sum()
        };
        assert_eq!((count("mail", "added"), count("bill", "failed")), (3, 1));
        assert!(all.iter().all(|sum| sum["hour"].as_str().unwrap().ends_with(":00:00.000Z")));
        let topics = list(&sums("by=topic").await["sums"]);
        assert_eq!(topics.len(), 2);
        assert_eq!((&topics[0]["topic"], &topics[0]["count"]), (&json!("bill"), &json!(3)));
        assert_eq!((&topics[0]["errors"], &topics[1]["errors"]), (&json!(1), &json!(0)));
        assert!(topics[0]["kinds"]["handed_out"]["latency_ms"].is_number());
        let hours = list(&sums("by=hour").await["sums"]);
        let total: u64 = hours.iter().map(|sum| sum["count"].as_u64().unwrap()).sum();
        assert_eq!(total, 6);
        let first = sums("by=topic&limit=1").await;
        let cursor = first["cursor"].as_str().unwrap();
        let second = sums(&format!("by=topic&limit=1&cursor={cursor}")).await;
        assert_eq!(second["sums"][0]["topic"], "mail");
        assert_eq!(second["cursor"], json!(null));
        assert_eq!(sums("topic=mail&by=topic").await["sums"][0]["count"], 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_by_its_name() {
    let place = Place::folder();
    let served = place.serve(&[]).await;
    let server = served.caller();
    for (query, field) in [
        ("kind=eaten", "kind"),
        ("order=sideways", "order"),
        ("cursor=x", "cursor"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("wait=1s", "wait"),
        ("wait=1w&order=oldest", "wait"),
        ("since=yesterday", "since"),
        ("topics=a", "topics"),
    ] {
        let refused = server.get(&format!("/v1/events?{query}")).await;
        assert_eq!((refused.status, refused.code()), (400, "invalid"), "{query}");
        assert_eq!(refused.json["error"]["field"], field, "{query}");
    }
    for (query, field) in [
        ("by=week", "by"),
        ("cursor=x", "cursor"),
        ("until=2099-01-01T00:00:00Z", ""),
        ("since=1970-01-01T00:00:00Z&until=9999-01-01T00:00:00Z", "since"),
    ] {
        let answer = server.get(&format!("/v1/events/sums?{query}")).await;
        assert_eq!(answer.json["error"]["field"].as_str().unwrap_or_default(), field, "{query}");
    }
}
