//! Servers that share a store tell each incident, and its end, once.

use serde_json::Value;

use crate::fleet::{Fleet, add, until};
use crate::receiver::{Receiver, Refusing};
use crate::served::Served;

/// A server that watches by these rules, with a role.
async fn server(fleet: &Fleet, role: &str, rules: &[String]) -> Served {
    let rules = format!("alarms.rules=[{}]", rules.join(","));
    let quick =
        ["alarms.every=100ms", "push.failures=1", "push.pause=100ms", "push.pause_max=100ms"];
    let mut args = vec!["--role", role, "--set", &rules];
    args.extend(quick.iter().flat_map(|set| ["--set", set]));
    fleet.server(&args).await
}

fn rule(receiver: &Receiver, name: &str, fields: &str) -> String {
    let to = receiver.url("/ops");
    format!("{{ name = '{name}', kind = '{name}', quiet = '2s', to = '{to}'{fields} }}")
}

/// The next that is told: alarm and state.
async fn told(receiver: &mut Receiver) -> (String, String) {
    let request = receiver.next().await;
    let message: Value = serde_json::from_slice(&request.body).expect("JSON");
    request.answer(200);
    let text = |name: &str| message[name].as_str().expect("text").to_owned();
    (text("alarm"), text("state"))
}

fn of(alarm: &str, state: &str) -> (String, String) {
    (alarm.to_owned(), state.to_owned())
}

/// Returns when this server has looked for some seconds more.
async fn looked_on(server: &Served, seconds: usize) {
    for _ in 0..seconds * 10 {
        let caller = server.caller();
        let before = caller.get("/v1/alarms").await.json["looked"].clone();
        until(&caller, "/v1/alarms", |answer| answer.json["looked"] != before).await;
    }
}

#[tokio::test]
async fn two_servers_tell_once_and_the_one_that_is_left_tells_the_end() {
    let Some(fleet) = Fleet::start() else { return };
    let mut ops = Receiver::start().await;
    let rules = [rule(&ops, "backlog", ", threshold = 2")];
    let one = server(&fleet, "api,timer,worker", &rules).await;
    let other = server(&fleet, "api,timer,worker", &rules).await;
    for id in 0..3 {
        add(&one.caller(), &format!(r#"{{"topic":"t","id":"{id}"}}"#)).await;
    }
    assert_eq!(told(&mut ops).await, of("backlog", "firing"));
    for server in [&one, &other] {
        until(&server.caller(), "/v1/alarms", |answer| {
            answer.json["alarms"][0]["state"] == "firing"
        })
        .await;
        looked_on(server, 1).await;
    }
    one.kill();
    other.caller().delete("/v1/topics/t/jobs/0").await.ok(200);
    assert_eq!(told(&mut ops).await, of("backlog", "resolved"));
    looked_on(&other, 1).await;
    assert!(ops.is_empty());
}

#[tokio::test]
async fn what_one_server_alone_can_see_is_not_ended_by_others() {
    let Some(fleet) = Fleet::start() else { return };
    let mut ops = Receiver::start().await;
    let gone = Refusing::new();
    let rules = [rule(&ops, "destination", "")];
    let api = server(&fleet, "api", &rules).await;
    let _worker = server(&fleet, "api,timer,worker", &rules).await;
    let often = r#"{"ladder":["100ms"],"attempts":0}"#;
    let url = gone.url("/hooks");
    add(&api.caller(), &format!(r#"{{"id":"1","target":"{url}","retry":{often}}}"#)).await;
    assert_eq!(told(&mut ops).await, of("destination", "firing"));
    looked_on(&api, 3).await;
    assert!(ops.is_empty());
    gone.listen().next().await.answer(200);
    assert_eq!(told(&mut ops).await, of("destination", "resolved"));
}

#[tokio::test]
async fn that_there_is_no_timer_is_told_until_there_is() {
    let Some(fleet) = Fleet::start() else { return };
    let mut ops = Receiver::start().await;
    let rules = [rule(&ops, "timer", "")];
    let one = server(&fleet, "api,worker", &rules).await;
    assert_eq!(told(&mut ops).await, of("timer", "firing"));
    let _timer = server(&fleet, "timer", &[]).await;
    assert_eq!(told(&mut ops).await, of("timer", "resolved"));
    looked_on(&one, 1).await;
    assert!(ops.is_empty());
}
