//! A server whose Redis is not there, or goes away and comes back.

use std::path::Path;

use crate::fleet::{Fleet, add, pop, until};
use crate::served::Served;

#[tokio::test]
async fn a_start_without_redis_says_so_and_fails() {
    // Nobody listens there, and only root could.
    let store = Path::new("redis://app:geheim@127.0.0.1:1");
    let mut served = Served::listening(store, &[]).await;
    let said = served.says("linger: ").await;
    let why = "cannot open the store in `redis://app:***@127.0.0.1:1`: ";
    assert!(said.contains(why) && !said.contains("geheim"), "{said}");
    assert_eq!(served.ended().await.code(), Some(2), "{said}");
}

#[tokio::test]
async fn the_greeting_says_which_store_it_is() {
    let Some(fleet) = Fleet::start() else { return };
    fleet.redis.plain().ask(&["ACL", "SETUSER", "app", "on", ">geheim", "~*", "&*", "+@all"]);
    let store = fleet.redis.url().replace("://", "://app:geheim@");
    let mut served = Served::listening(Path::new(&store), &[]).await;
    let greeting = served.greeting.clone();
    let shown = fleet.redis.url().replace("://", "://app:***@");
    assert!(greeting.ends_with(&format!("its data is in {shown}")), "{greeting}");
    served.says(" ready").await;
}

#[tokio::test]
async fn while_redis_is_away_calls_are_refused_and_all_is_well_when_it_is_back() {
    let Some(mut fleet) = Fleet::start() else { return };
    let served = fleet.server(&[]).await;
    let caller = served.caller();
    add(&caller, r#"{"topic":"orders","id":"1"}"#).await;
    caller.get("/readyz").await.ok(200);
    fleet.redis.stop();
    until(&caller, "/readyz", |answer| answer.status == 503).await;
    let away = caller.get("/readyz").await;
    assert_eq!(away.code(), "unavailable");
    let says = away.json.to_string();
    assert!(says.contains("cannot be reached since 20"), "{says}");
    let metrics = caller.text(hyper::Method::GET, "/metrics", String::new()).await;
    let seconds = metrics.lines().find_map(|line| line.strip_prefix("linger_store_away_seconds "));
    assert!(seconds.unwrap().parse::<f64>().unwrap() > 0.0, "{metrics}");
    assert!(!metrics.contains("linger_jobs"), "nobody knows: {metrics}");
    let stats = caller.get("/v1/stats").await;
    assert_eq!((stats.code(), &stats.json["store"]["kind"]), ("unavailable", &"redis".into()));
    assert!(stats.json["store"]["away_seconds"].is_u64(), "{}", stats.json);
    let refused = caller.post("/v1/jobs", r#"{"topic":"orders","id":"2"}"#).await;
    assert_eq!((refused.status, refused.code()), (503, "unavailable"));
    // A restart would not help.
    caller.get("/healthz").await.ok(200);
    fleet.redis.start_again();
    until(&caller, "/readyz", |answer| answer.status == 200).await;
    assert_eq!(pop(&caller, "orders", r#"{"wait":"1m"}"#).await.len(), 1);
}

#[tokio::test]
async fn metrics_of_a_disk_are_left_out() {
    let Some(fleet) = Fleet::start() else { return };
    let served = fleet.server(&[]).await;
    add(&served.caller(), r#"{"topic":"orders","id":"1"}"#).await;
    let metrics = served.caller().text(hyper::Method::GET, "/metrics", String::new()).await;
    let ready = r#"linger_jobs{topic="orders",state="ready"} 1"#;
    assert!(metrics.contains(ready) && !metrics.contains("linger_disk_full"), "{metrics}");
    let stats = served.caller().get("/v1/stats").await.ok(200);
    assert_eq!(stats["store"], serde_json::json!({"kind": "redis", "away_seconds": 0}));
    assert_eq!((&stats["counts"]["ready"], &stats["oldest_ready"]["id"]), (&1.into(), &"1".into()));
}
