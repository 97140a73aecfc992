//! Where pushes go, and how that goes.

use serde_json::{Value, json};

use crate::client::Server;
use crate::job::until;
use crate::receiver::{Receiver, Refusing};

async fn add(server: &Server, id: &str, target: &str) {
    let job = json!({
        "topic": "t", "id": id, "target": target, "retain": "1h", "retry": {"attempts": 1},
    });
    server.add(&job.to_string()).await;
}

async fn destinations(server: &Server, more: &str) -> Value {
    server.get(&format!("/v1/destinations{more}")).await.ok(200)
}

#[tokio::test]
async fn how_pushes_go_is_told_by_destination() {
    let server = Server::with(|config| config.push.failures = 1).await;
    let none = json!({"destinations": [], "recent_failures": []});
    assert_eq!(destinations(&server, "").await, none);
    let mut receiver = Receiver::start().await;
    let (well, down) = (receiver.url(""), Refusing::new());

    add(&server, "1", &receiver.url("/a")).await;
    let got = receiver.next().await;
    let told = destinations(&server, "").await;
    let expected = json!({
        "destination": well, "state": "open", "under_way": 1, "deliveries": 0, "failures": 0,
    });
    assert_eq!(told["destinations"], json!([expected]));
    got.answer(200);
    until(&server, "t", "1", "finished").await;
    add(&server, "2", &receiver.url("/b")).await;
    receiver.next().await.answer(404);
    until(&server, "t", "2", "dead").await;
    add(&server, "3", &down.url("/c")).await;
    until(&server, "t", "3", "dead").await;

    let told = destinations(&server, "").await;
    let of = |name: &str| {
        let all = told["destinations"].as_array().unwrap();
        all.iter().find(|one| one["destination"] == name).cloned().expect("it is known")
    };
    let (well, closed) = (of(&well), of(&down.url("")));
    assert_eq!((&well["state"], &well["under_way"]), (&"open".into(), &0.into()));
    assert_eq!((&well["deliveries"], &well["failures"]), (&2.into(), &1.into()));
    assert!(well["latency_ms"]["p50"].as_f64() > Some(0.0), "{well}");
    assert!(well["latency_ms"]["p50"].as_f64() <= well["latency_ms"]["p99"].as_f64(), "{well}");
    assert_eq!(well["last_error"], "answered 404 Not Found");
    assert!(well["last_success"].as_str() <= well["last_failure"].as_str(), "{well}");
    assert_eq!((&closed["state"], &closed["failures"]), (&"closed".into(), &1.into()));
    assert!(closed["opens"].is_string() && closed.get("last_success").is_none(), "{closed}");

    let failures = told["recent_failures"].as_array().unwrap();
    let ids: Vec<&Value> = failures.iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, ["3", "2"]);
    assert_eq!((&failures[0]["topic"], &failures[0]["attempt"]), (&"t".into(), &1.into()));
    assert_eq!(failures[0]["destination"], closed["destination"]);
    assert_eq!(failures[0]["error"], closed["last_error"]);
    assert_eq!(failures[0]["time"], closed["last_failure"]);

    let page = destinations(&server, "?limit=1").await;
    let cursor = page["cursor"].as_str().expect("there is more");
    let rest = destinations(&server, &format!("?limit=5&cursor={cursor}")).await;
    assert_eq!(rest["destinations"].as_array().map(Vec::len), Some(1));
    assert_ne!(rest["destinations"][0]["destination"], cursor);
    assert!(rest.get("cursor").is_none(), "{rest}");
    for wrong in ["0", "1001"] {
        let answer = server.get(&format!("/v1/destinations?limit={wrong}")).await;
        answer.refused(400, "invalid", Some("limit"));
    }
    server.stop().await;
}
