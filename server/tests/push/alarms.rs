//! Alarms, by the shipped binary to real receivers: each incident is told once, and its end once,
//! whatever happens in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use hyper::Method;
use linger_server::config::{Config, ServeFlags};
use serde_json::Value;

use crate::client::{Caller, Server};
use crate::disk::SmallDisk;
use crate::receiver::{PATIENCE, Receiver, Refusing};
use crate::shipped::Shipped;

/// What every rule here has besides its kind.
const QUICK: &str = "[alarms]\nevery = '100ms'\n\
                     [push]\nfailures = 1\npause = '100ms'\npause_max = '200ms'\n";

/// Writes the settings of a server: these rules, each with its fields.
fn write(folder: &Path, to: &str, rules: &[(&str, &str)]) {
    let rule = |(name, fields): &(&str, &str)| {
        format!("[[alarms.rules]]\nname = '{name}'\nto = '{to}'\nquiet = '3s'\n{fields}\n")
    };
    let rules: String = rules.iter().map(rule).collect();
    fs::write(folder.join("linger.toml"), format!("{QUICK}{rules}")).unwrap();
}

/// What was told: how often, by alarm and state, and the last message of each.
#[derive(Default)]
struct Told {
    messages: BTreeMap<(String, String), (u32, Value)>,
    /// What was taken, since a server that is killed may send the same again.
    known: BTreeSet<String>,
}

impl Told {
    /// Takes messages until so many alarms are in this state.
    async fn until(&mut self, receiver: &mut Receiver, state: &str, alarms: usize) {
        while self.messages.keys().filter(|(_, told)| told == state).count() < alarms {
            self.take(receiver).await;
        }
    }

    async fn take(&mut self, receiver: &mut Receiver) {
        let request = receiver.next().await;
        assert_eq!(
            (request.path.as_str(), request.header("linger-topic")),
            ("/ops", "linger.alarms")
        );
        assert_eq!(request.header("content-type"), "application/json");
        let message: Value = serde_json::from_slice(&request.body).expect("JSON");
        let is_new = self.known.insert(request.header("webhook-id").to_owned());
        request.answer(200);
        if !is_new {
            return;
        }
        let text = |name: &str| message[name].as_str().expect("text").to_owned();
        let told = self.messages.entry((text("alarm"), text("state"))).or_default();
        *told = (told.0 + 1, message);
    }

    fn message(&self, alarm: &str, state: &str) -> &Value {
        &self.messages[&(alarm.to_owned(), state.to_owned())].1
    }

    fn counts(&self) -> Vec<u32> {
        self.messages.values().map(|(count, _)| *count).collect()
    }
}

/// Returns when it was looked so often from now on.
async fn looks(server: &Caller, times: usize) {
    let looked = async || server.get("/v1/alarms").await.ok(200)["looked"].clone();
    let wait = async {
        let mut last = looked().await;
        for _ in 0..times {
            let before = last.clone();
            while last == before || last.is_null() {
                last = looked().await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it looks");
}

/// How each alarm stands.
async fn states(server: &Caller) -> Vec<String> {
    let shown = server.get("/v1/alarms").await.ok(200);
    let alarms = shown["alarms"].as_array().expect("a list").iter();
    alarms.map(|alarm| alarm["state"].as_str().expect("text").to_owned()).collect()
}

#[tokio::test]
async fn each_kind_is_told_once_and_its_end_once_with_a_kill_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let mut ops = Receiver::start().await;
    let rules = [
        ("dead", "kind = 'dead'\ntopic = 'd.*'"),
        ("late", "kind = 'late'\ntopic = 'l'\nthreshold = '300ms'\nfor = '200ms'"),
        ("backlog", "kind = 'backlog'\ntopic = 'b*'\nthreshold = 2"),
        ("worker", "kind = 'worker'\ntopic = '*'"),
        ("destination", "kind = 'destination'\ndestination = 'http://127.0.0.1*'"),
    ];
    write(folder.path(), &ops.url("/ops"), &rules);
    let server = Shipped::start(folder.path());
    looks(&server, 1).await;
    assert_eq!(states(&server).await, ["ok"; 5]);

    server.add(r#"{"topic":"d.1","id":"1","retry":{"attempts":1}}"#).await;
    server.pop("d.1").await;
    server.post("/v1/topics/d.1/jobs/1/fail", "").await.ok(200);
    server.add(r#"{"topic":"l","id":"1"}"#).await;
    for id in 1..=3 {
        server.add(&format!(r#"{{"topic":"bulk","id":"{id}"}}"#)).await;
    }
    let target = r#"{"target":"worker:shop"}"#;
    server.call(Method::PUT, "/v1/topics/w", target).await.ok(200);
    server.add(r#"{"topic":"w","id":"1"}"#).await;
    let gone = Refusing::new();
    let url = gone.url("/hooks");
    let often = r#"{"ladder":["100ms"],"attempts":0}"#;
    server.add(&format!(r#"{{"topic":"p","id":"1","target":"{url}","retry":{often}}}"#)).await;

    let mut told = Told::default();
    told.until(&mut ops, "firing", 5).await;
    for (alarm, topic, least) in
        [("dead", "d.1", 1.0), ("late", "l", 0.3), ("backlog", "bulk", 3.0), ("worker", "w", 1.0)]
    {
        let message = told.message(alarm, "firing");
        assert_eq!((&message["kind"], &message["topic"]), (&alarm.into(), &topic.into()));
        assert!(message["value"].as_f64().unwrap() >= least, "{message}");
        assert!(message["until"].is_null() && !message["instance"].is_null(), "{message}");
    }
    assert_eq!(told.message("late", "firing")["threshold"], 0.3);
    let broken = &told.message("destination", "firing")["destination"];
    assert_eq!(broken, url.strip_suffix("/hooks").unwrap());

    // Nothing more is told of what goes on, and a start tells nothing anew.
    server.kill();
    let server = Shipped::start(folder.path());
    looks(&server, 40).await;
    assert_eq!(states(&server).await[1..], ["firing"; 4]);
    let metrics = server.get("/metrics").await.text;
    let line = r#"linger_alarms{alarm="late",kind="late",state="firing"} 1"#;
    assert!(metrics.contains(line), "{metrics}");

    server.pop("l").await;
    server.post("/v1/topics/bulk/empty", "").await.ok(200);
    let mut shop = Receiver::start().await;
    let worker = format!(r#"{{"app":"shop","topics":["w"],"url":"{}"}}"#, shop.url("/"));
    server.post("/v1/workers", &worker).await.ok(201);
    shop.next().await.answer(200);
    let mut back = gone.listen();
    back.next().await.answer(200);
    told.until(&mut ops, "resolved", 5).await;
    let over = told.message("late", "resolved");
    assert_eq!(over["since"], told.message("late", "firing")["since"]);
    assert!(over["until"].as_str().unwrap() > over["since"].as_str().unwrap(), "{over}");
    looks(&server, 5).await;
    assert_eq!(states(&server).await, ["ok"; 5]);
    assert!(ops.is_empty());
    let metrics = server.get("/metrics").await.text;
    let line = r#"linger_alarms{alarm="late",kind="late",state="firing"} 0"#;
    assert!(metrics.contains(line), "{metrics}");
    assert_eq!(told.counts(), [1; 10]);
}

#[tokio::test]
async fn little_room_on_the_disk_is_told_and_that_there_is_more_again() {
    const DISK_BYTES: u64 = 1 << 30;
    let Some(disk) = SmallDisk::new(DISK_BYTES) else { return };
    let mut ops = Receiver::start().await;
    let folder = disk.path("data");
    fs::create_dir(&folder).unwrap();
    write(&folder, &ops.url("/ops"), &[("disk", "kind = 'disk'\nthreshold = '512MiB'")]);
    let server = Shipped::start(&folder);
    looks(&server, 2).await;
    assert_eq!(states(&server).await, ["ok"]);
    // Some is left for the store to tell it by.
    disk.take(500 << 20);
    let mut told = Told::default();
    told.until(&mut ops, "firing", 1).await;
    let message = told.message("disk", "firing");
    assert!(message["value"].as_u64().unwrap() < 512 << 20, "{message}");
    disk.give_back();
    told.until(&mut ops, "resolved", 1).await;
    assert_eq!(told.counts(), [1, 1]);
}

#[tokio::test]
async fn what_a_rule_has_told_ends_though_the_rule_be_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut ops = Receiver::start().await;
    write(folder.path(), &ops.url("/ops"), &[("many", "kind = 'backlog'\nthreshold = 0")]);
    let server = Shipped::start(folder.path());
    server.add(r#"{"topic":"t","id":"1"}"#).await;
    let mut told = Told::default();
    told.until(&mut ops, "firing", 1).await;
    assert_eq!(told.message("many", "firing")["topic"], Value::Null);
    server.kill();
    write(folder.path(), &ops.url("/ops"), &[]);
    let server = Shipped::start(folder.path());
    told.until(&mut ops, "resolved", 1).await;
    looks(&server, 2).await;
    assert_eq!(told.counts(), [1, 1]);
}

#[tokio::test]
async fn rules_change_while_it_runs_and_many_incidents_are_not_all_told() {
    const TOPICS: usize = 101;
    let mut ops = Receiver::start().await;
    let mut server = Server::start().await;
    for n in 0..TOPICS {
        server.add(&format!(r#"{{"topic":"t{n}","id":"1"}}"#)).await;
    }
    let toml = tempfile::tempdir().unwrap();
    write(
        toml.path(),
        &ops.url("/ops"),
        &[("many", "kind = 'backlog'\nthreshold = 0\ntopic = '*'")],
    );
    let loaded = Config::load(&ServeFlags::default(), [], toml.path()).unwrap();
    server.set(|config| config.alarms = loaded.config.alarms);
    for _ in 0..TOPICS - 1 {
        ops.next().await.answer(200);
    }
    looks(&server, 2).await;
    let shown = server.get("/v1/alarms").await.ok(200);
    let incidents = shown["alarms"][0]["incidents"].as_array().unwrap();
    let firing = incidents.iter().filter(|incident| incident["state"] == "firing").count();
    assert_eq!((incidents.len(), firing), (TOPICS, TOPICS - 1));
    assert!(ops.is_empty());
    server.stop().await;
}

/// The example of the page on alarms.
fn pasted() -> String {
    let page = include_str!("../../../docs/operate.md");
    let section = page.split("\n## Alarms\n").nth(1).expect("there is a section");
    let example = section.split("```toml\n").nth(1).expect("there is an example");
    example.split("```").next().expect("it ends").to_owned()
}

#[tokio::test]
async fn the_example_of_the_page_works_as_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let mut ops = Receiver::start().await;
    let example = pasted();
    let target = "https://ops.example/hooks/linger";
    assert!(example.contains(target), "{example}");
    let example = example.replace(target, &ops.url("/ops"));
    fs::write(folder.path().join("linger.toml"), format!("[alarms]\nevery = '100ms'\n{example}"))
        .unwrap();
    let server = Shipped::start(folder.path());
    looks(&server, 1).await;
    server.add(r#"{"topic":"orders","id":"1","retry":{"attempts":1}}"#).await;
    server.pop("orders").await;
    server.post("/v1/topics/orders/jobs/1/fail", "").await.ok(200);
    let mut told = Told::default();
    // The machine may be short of disk as well.
    while !told.messages.values().any(|(_, message)| message["kind"] == "dead") {
        told.take(&mut ops).await;
    }
    let dead = told.messages.values().find(|(_, message)| message["kind"] == "dead").unwrap();
    assert_eq!((&dead.1["topic"], &dead.1["value"]), (&"orders".into(), &1.into()));
}
