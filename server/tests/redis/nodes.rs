//! Roles that are split over servers, and servers that take each other's work over.

use std::process::Command;

use hyper::Method;
use rustix::process::Signal;
use serde_json::Value;

use crate::fleet::{Fleet, add, finish, pop, until};
use crate::receiver::Receiver;
use crate::served::{Answer, Caller, Served};

/// Soon over, so that nobody waits long for the work of one that is gone.
const SOON: [&str; 2] = ["--set", "store.lease=600ms"];
/// So long that nothing is owed to its end.
const LATE: [&str; 2] = ["--set", "store.lease=10m"];

async fn server(fleet: &Fleet, name: &str, lease: [&str; 2], more: &[&str]) -> Served {
    fleet.server(&[&["--name", name][..], &lease[..], more].concat()).await
}

/// Whether each of these holds so many buckets, and nobody else is there.
fn hold(answer: &Answer, shares: &[(&str, u64)]) -> bool {
    let nodes = answer.json["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let holds = |(name, count): &(&str, u64)| {
        nodes.iter().any(|node| node["name"] == *name && node["bucket_count"] == *count)
    };
    nodes.len() == shares.len() && shares.iter().all(holds)
}

async fn until_hold(server: &Caller, shares: &[(&str, u64)]) {
    until(server, "/v1/nodes", |answer| hold(answer, shares)).await;
}

/// A verb of the command line, run against a server: its exit code, and what it printed.
async fn linger(server: &Served, args: &[&str]) -> (i32, String, String) {
    let url = format!("http://{}", server.address);
    let mut command = Command::new(env!("CARGO_BIN_EXE_linger"));
    command.env_clear().args(args).args(["--server", &url]);
    let ran = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (ran.status.code().expect("it ends"), text(ran.stdout), text(ran.stderr))
}

#[tokio::test]
async fn servers_with_a_role_each_deliver_a_push_and_a_pop() {
    let Some(fleet) = Fleet::start() else { return };
    let timer = server(&fleet, "t", SOON, &["--role", "timer"]).await;
    let worker = server(&fleet, "w", SOON, &["--role", "worker"]).await;
    let api = server(&fleet, "a", SOON, &["--role", "api"]).await;
    let caller = api.caller();
    let mut receiver = Receiver::start().await;
    let url = receiver.url("/hooks");
    let job = format!(r#"{{"topic":"pushed","id":"1","delay":"200ms","target":"{url}"}}"#);
    add(&caller, &job).await;
    receiver.next().await.answer(200);
    until(&caller, "/v1/topics/pushed/jobs/1", |answer| answer.code() == "not_found").await;
    add(&caller, r#"{"topic":"popped","id":"1","delay":"200ms"}"#).await;
    let jobs = pop(&caller, "popped", r#"{"wait":"1m"}"#).await;
    finish(&caller, &jobs[0]).await.ok(200);

    for other in [&timer, &worker] {
        let other = other.caller();
        for path in ["/healthz", "/readyz", "/v1/nodes"] {
            other.get(path).await.ok(200);
        }
        assert!(other.text(Method::GET, "/metrics", String::new()).await.contains("linger_topics"));
        let refused = other.post("/v1/jobs", r#"{"topic":"orders"}"#).await;
        assert_eq!((refused.status, refused.code()), (503, "unavailable"));
        assert!(refused.json.to_string().contains("role api"), "{}", refused.json);
        assert_eq!(other.get("/v1/topics").await.code(), "unavailable");
    }
}

#[tokio::test]
async fn a_server_without_a_timer_anywhere_says_so_until_there_is_one() {
    let Some(fleet) = Fleet::start() else { return };
    let store = fleet.redis.url();
    let args = [&["--role", "api", "--name", "a"][..], &SOON].concat();
    let mut api = Served::listening(std::path::Path::new(&store), &args).await;
    let said = api.says("no live instance has the role timer").await;
    assert!(said.contains("ERROR"), "{said}");
    api.says(" ready").await;
    let caller = api.caller();
    for path in ["/readyz", "/v1/nodes"] {
        let told = caller.get(path).await.ok(200);
        assert!(told["warning"].as_str().is_some_and(|why| why.contains("role timer")), "{told}");
    }
    let metrics = caller.text(Method::GET, "/metrics", String::new()).await;
    assert!(metrics.contains("\nlinger_without_timer 1\n"), "{metrics}");
    let (code, table, note) = linger(&api, &["nodes"]).await;
    assert!(code == 0 && table.contains("\na ") && note.contains("role timer"), "{table}{note}");
    let (code, buckets, _) = linger(&api, &["buckets", "a"]).await;
    assert_eq!((code, buckets.as_str()), (1, ""));

    let _timer = server(&fleet, "t", SOON, &["--role", "timer"]).await;
    api.says("there is an instance with the role timer again").await;
    for path in ["/readyz", "/v1/nodes"] {
        until(&caller, path, |answer| answer.json["warning"] == Value::Null).await;
    }
}

#[tokio::test]
async fn the_command_line_shows_who_is_there_and_what_each_holds() {
    let Some(fleet) = Fleet::start() else { return };
    let more = ["--group", "eu", "--weight", "3", "--set", "threshold=5000"];
    let one = server(&fleet, "one", SOON, &more).await;
    let _other = server(&fleet, "other", SOON, &["--role", "api,timer"]).await;
    until_hold(&one.caller(), &[("one", 192), ("other", 64)]).await;
    let (code, table, note) = linger(&one, &["nodes"]).await;
    assert_eq!((code, note.as_str()), (0, ""), "{table}");
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = ["NAME", "ID", "ROLES", "GROUP", "WEIGHT", "BUCKETS", "LOAD", "ADDRESS"];
    assert_eq!(rows[0][..8], head);
    assert_eq!(rows[1][0], "one");
    assert_eq!(rows[1][2..6], ["api,timer,worker", "eu", "3", "192"]);
    assert_eq!(rows[1][7], one.address);
    assert_eq!(rows[2][0], "other");
    assert_eq!(rows[2][2..6], ["api,timer", "default", "1", "64"]);

    let (_, buckets, _) = linger(&one, &["buckets"]).await;
    assert_eq!(buckets.lines().count(), 257, "{buckets}");
    let (_, buckets, _) = linger(&one, &["buckets", "other"]).await;
    assert_eq!(buckets.lines().count(), 65, "{buckets}");
    assert!(buckets.lines().skip(1).all(|line| line.contains(" other ")), "{buckets}");

    let told = one.caller().get("/v1/nodes").await.ok(200);
    let this: Vec<_> = told["nodes"].as_array().unwrap().iter().map(|node| &node["this"]).collect();
    assert_eq!(this, [true, false], "{told}");
    assert_eq!(told["nodes"][0]["threshold"], 5000);
    let (_, json, _) = linger(&one, &["nodes", "--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["buckets"].as_array().unwrap().len(), 256);
}

#[tokio::test]
async fn what_a_killed_timer_held_another_takes_over() {
    let Some(fleet) = Fleet::start() else { return };
    let one = server(&fleet, "one", SOON, &[]).await;
    let other = server(&fleet, "other", SOON, &[]).await;
    let caller = other.caller();
    until_hold(&caller, &[("one", 128), ("other", 128)]).await;
    for number in 0..20 {
        add(&caller, &format!(r#"{{"topic":"t{number}","id":"1","delay":"1s"}}"#)).await;
    }
    one.kill();
    for number in 0..20 {
        let jobs = pop(&caller, &format!("t{number}"), r#"{"wait":"5m"}"#).await;
        assert_eq!(jobs.len(), 1);
    }
    until_hold(&caller, &[("other", 256)]).await;
}

#[tokio::test]
async fn what_a_server_held_that_is_told_to_stop_another_takes_over_at_once() {
    let Some(fleet) = Fleet::start() else { return };
    let one = server(&fleet, "one", LATE, &[]).await;
    let other = server(&fleet, "other", LATE, &[]).await;
    one.signal(Signal::TERM);
    assert_eq!(one.ended().await.code(), Some(0));
    until_hold(&other.caller(), &[("other", 256)]).await;
}

#[tokio::test]
async fn a_server_that_slept_past_its_leases_gets_a_share_anew() {
    let Some(fleet) = Fleet::start() else { return };
    let one = server(&fleet, "one", SOON, &[]).await;
    let other = server(&fleet, "other", SOON, &[]).await;
    let caller = other.caller();
    until_hold(&caller, &[("one", 128), ("other", 128)]).await;
    one.signal(Signal::STOP);
    until_hold(&caller, &[("other", 256)]).await;
    one.signal(Signal::CONT);
    until_hold(&caller, &[("one", 128), ("other", 128)]).await;
    until_hold(&one.caller(), &[("one", 128), ("other", 128)]).await;
}
