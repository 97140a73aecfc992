//! The API's description, held against a running server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hyper::Method;
use linger_server::config::{Alarms, Kind, Of, Rule};
use serde_json::{Value, json};

use crate::client::Server;

/// A field that no call knows, unlike any that one does.
const UNKNOWN: &str = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";
/// The lease of the examples, in place of which a true one is given.
const LEASE: &str = "964575cde7ee6985";

/// Likewise of a secret.
const SECRET_ID: &str = "sec_05f1c2d3e4a5b697";
/// Likewise of a key.
const KEY_ID: &str = "key_05f1c2d3e4a5b697";

/// The description, and a way to walk through it.
pub(crate) struct Document(pub(crate) Value);

/// One call of it.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) about: &'a Value,
}

impl Document {
    pub(crate) async fn of(server: &Server) -> Document {
        Document(server.get("/openapi.json").await.ok(200))
    }

    pub(crate) fn calls(&self) -> Vec<Call<'_>> {
        let paths = self.0["paths"].as_object().expect("paths").iter();
        let calls = paths.flat_map(|(path, calls)| {
            calls.as_object().expect("calls").iter().map(move |(method, about)| {
                let method = method.to_uppercase().parse().expect("a method");
                Call { method, path, about }
            })
        });
        calls.collect()
    }

    /// What a reference stands for.
    fn meant<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(reference) => self.0.pointer(&reference[1..]).expect("it leads somewhere"),
            None => value,
        }
    }

    /// The objects with fields of their own that a value of this shape may be.
    fn objects<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        let schema = self.meant(schema);
        let mut found: Vec<&Value> = schema.get("properties").map(|_| schema).into_iter().collect();
        for some in ["anyOf", "oneOf"] {
            // A choice beside fields only says which of them go together.
            let choices = schema[some].as_array().filter(|_| found.is_empty());
            let choices: Vec<_> = choices.into_iter().flatten().collect();
            found.extend(choices.into_iter().flat_map(|choice| self.objects(choice)));
        }
        found
    }

    /// The shape of the items, if a value of this shape may be a list.
    fn items<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        let schema = self.meant(schema);
        let choices = schema["anyOf"].as_array().into_iter().flatten();
        schema.get("items").or_else(|| choices.filter_map(|choice| self.items(choice)).next())
    }

    /// Asserts that whatever is in a value has a place in its shape.
    fn assert_known(&self, schema: &Value, value: &Value, place: &str) {
        match value {
            Value::Object(fields) => {
                let objects = self.objects(schema);
                if objects.is_empty() {
                    return;
                }
                let knows = |object: &&&Value| {
                    fields.keys().all(|name| object["properties"].get(name).is_some())
                };
                let object = objects.iter().find(knows);
                let object =
                    object.unwrap_or_else(|| panic!("{place}: no shape has all of {value}"));
                for (name, value) in fields {
                    self.assert_known(
                        &object["properties"][name],
                        value,
                        &format!("{place}.{name}"),
                    );
                }
            }
            Value::Array(items) => {
                let Some(schema) = self.items(schema) else { return };
                items.iter().for_each(|item| self.assert_known(schema, item, place));
            }
            _ => {}
        }
    }
}

impl Call<'_> {
    pub(crate) fn name(&self) -> &str {
        self.about["operationId"].as_str().expect("a name")
    }

    fn is_old(&self) -> bool {
        ["command", "ouqiang", "tasks"].iter().any(|tag| self.about["tags"][0] == *tag)
    }

    /// The path of the examples, with all parameters.
    pub(crate) fn path_and_query(&self, document: &Document) -> String {
        let mut path = self.path.to_owned();
        let mut query = Vec::new();
        for parameter in self.about["parameters"].as_array().into_iter().flatten() {
            let parameter = document.meant(parameter);
            let (name, example) = (parameter["name"].as_str().unwrap(), &parameter["example"]);
            let example = example.as_str().map_or(example.to_string(), str::to_owned);
            match parameter["in"].as_str().unwrap() {
                "path" => path = path.replace(&format!("{{{name}}}"), &example),
                "query" => query.push(format!("{name}={example}")),
                _ => {}
            }
        }
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// The examples of its body; one that is empty if it takes none.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        let examples = &self.content()["examples"];
        let examples = examples
            .as_object()
            .map(|examples| examples.values().map(|example| example["value"].clone()).collect());
        examples.unwrap_or_else(|| vec![Value::Null])
    }

    fn content(&self) -> &Value {
        &self.about["requestBody"]["content"]["application/json"]
    }
}

pub(crate) fn text_of(body: &Value) -> String {
    if body.is_null() { String::new() } else { body.to_string() }
}

/// Makes what an example needs, in a topic that is otherwise empty, and answers its lease or
/// the id of a secret.
async fn prepare(server: &Server, call: &Call<'_>) -> String {
    server.call(Method::DELETE, "/v1/workers/shop-1", "").await;
    for topic in ["order.close", "mail", "poll", "report"] {
        server.call(Method::DELETE, &format!("/v1/topics/{topic}"), "").await;
    }
    let add =
        r#"{"topic":"order.close","id":"1001","body":{"order":1001},"ttr":"1h","retain":"0s""#;
    let ready = ["popJobs", "popFromTopics", "pop", "finish", "fail", "release", "touch"];
    let is_due = ready.iter().any(|word| call.name().starts_with(word))
        || ["getHistory", "redriveJobs", "listErrors", "getStats", "listEvents"]
            .contains(&call.name());
    let due = if is_due { "}" } else { r#","delay":"30m"}"# };
    match call.name() {
        "addJobs" | "push" | "addTask" | "registerWorker" => return String::new(),
        name if name.contains("Worker") => {
            let worker = json!({
                "id": "shop-1", "app": "shop", "topics": ["order.close"],
                "url": "http://10.0.0.7:8080/jobs",
            });
            server.post("/v1/workers", &worker.to_string()).await.ok(201);
            return String::new();
        }
        name if name.contains("Task") => {
            let callback = json!({"schema": "http", "address": "127.0.0.1:8080", "path": "/sent"});
            let time = json!({"duration": 3600, "relative": true});
            let task = json!({"name": "mail", "time": time, "callback": callback, "args": "to=7"});
            server.post("/task/add", &task.to_string()).await.ok(200);
            return String::new();
        }
        _ => {}
    }
    server.add(&format!("{add}{due}")).await;
    match call.name() {
        "listSecrets" | "deleteSecret" => {
            let made = server.post("/v1/secrets", r#"{"topic":"order.close"}"#).await.ok(201);
            return made["id"].as_str().unwrap().to_owned();
        }
        "listKeys" | "revokeKey" => {
            let new = json!({
                "name": "k", "scopes": ["add"], "topics": ["a"], "expires_in": "1h", "rate": 9,
            });
            let made = server.post("/v1/keys", &new.to_string()).await.ok(201);
            return made["id"].as_str().unwrap().to_owned();
        }
        "listChanges" => {
            let call = "PUT /v1/topics/order.close";
            server.call(Method::PUT, "/v1/topics/order.close", "{}").await.ok(200);
            while server.get("/v1/audit").await.ok(200)["changes"][0]["call"] != call {}
        }
        "listAlarms" => while !server.get("/v1/alarms").await.text.contains("since") {},
        "unholdJob" | "unholdJobs" => {
            server.post("/v1/topics/order.close/jobs/1001/hold", "").await.ok(200);
        }
        "listDestinations" => {
            // Nobody listens there.
            server.add(r#"{"topic":"report","target":"http://127.0.0.1:1/"}"#).await;
            while !server.get("/v1/destinations").await.text.contains("last_error") {}
        }
        "getStats" => while !server.get("/metrics").await.text.contains("disk_free_bytes") {},
        "redriveJobs" | "listErrors" => {
            let once = r#"{"retry":{"attempts":1}}"#;
            let job = "/v1/topics/order.close/jobs/1001";
            server.call(Method::PATCH, job, once).await.ok(200);
            server.pop("order.close").await;
            server.post(&format!("{job}/fail"), "").await.ok(200);
        }
        "getHistory" | "listEvents" => {
            server.pop("order.close").await;
            let why = r#"{"error":"no answer"}"#;
            server.post("/v1/topics/order.close/jobs/1001/fail", why).await.ok(200);
            let events = "/v1/events?kind=failed&error=answer";
            while !server.get(events).await.text.contains("no answer") {}
        }
        "sumEvents" => while !server.get("/v1/events/sums").await.text.contains("order.close") {},
        "finishJob" | "finishJobs" | "failJob" | "releaseJob" | "touchJob" => {
            return server.pop("order.close").await["lease"].as_str().unwrap().to_owned();
        }
        _ => {}
    }
    String::new()
}

/// A rule by which something is not well, and that not for long enough to be told.
fn never_told() -> Alarms {
    let rule = Rule {
        name: "disk".into(),
        kind: Kind::Disk,
        of: Of::All,
        threshold: u64::MAX,
        holds: Duration::from_secs(86_400),
        quiet: Duration::from_secs(60),
        to: "https://ops.example/hooks".parse().unwrap(),
    };
    Alarms { every: Duration::from_millis(100), rules: vec![rule] }
}

#[tokio::test]
async fn every_example_works_and_is_answered_as_described() {
    let server = Server::with_keys(|config| config.alarms = never_told()).await;
    let document = Document::of(&server).await;
    let mut seen = 0;
    for call in document.calls() {
        for (n, body) in call.bodies().iter().enumerate() {
            let lease = prepare(&server, &call).await;
            let mut body = body.clone();
            if let Some(version) = body.get_mut("if_version") {
                let job = server.get("/v1/topics/order.close/jobs/1001").await.ok(200);
                *version = job["version"].clone();
            }
            let path = call.path_and_query(&document).replace("if_version=1", "if_version=");
            let path = path.replace(SECRET_ID, &lease).replace(KEY_ID, &lease);
            let text = text_of(&body).replace(LEASE, &lease);
            let answer = server.call(call.method.clone(), &path, &text).await;
            let row = format!("{} {path} {text}: {} {}", call.method, answer.status, answer.text);
            let described = &call.about["responses"][answer.status.as_str()];
            assert!(answer.status.is_success() && !described.is_null(), "{row}");
            seen += 1;
            let Some(content) = described.get("content") else {
                assert_eq!(answer.text, "", "{row}");
                continue;
            };
            let kind = answer.headers["content-type"].to_str().unwrap().split(';').next().unwrap();
            let Some(json) = content.get("application/json") else {
                assert!(content.get(kind).is_some(), "{row}");
                continue;
            };
            assert_eq!(kind, "application/json", "{row}");
            document.assert_known(&json["schema"], &answer.json(), &row);
            document.assert_known(&json["schema"], &json["example"], call.name());
            // The first is the one that the description shows the answer of.
            if n == 0 && call.name() != "openapi" {
                let shown = shape_of(&json["example"]);
                assert_eq!(shape_of(&answer.json()), shown, "{row}");
            }
            if call.is_old() && call.name().contains("ommand") {
                assert_eq!(answer.json()["success"], true, "{row}");
            }
        }
    }
    assert!(seen > 70, "only {seen} examples");
    server.stop().await;
}

/// The names in a value, without what hangs on the moment or on how many there are.
fn shape_of(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let given = ["ttr", "retain", "settings", "body", "error", "kinds"];
            let fields = fields.iter().filter(|(name, _)| !given.contains(&name.as_str()));
            let fields: BTreeMap<_, _> = fields.map(|(k, v)| (k.clone(), shape_of(v))).collect();
            json!(fields)
        }
        Value::Array(items) => json!(items.iter().take(1).map(shape_of).collect::<Vec<_>>()),
        _ => Value::Null,
    }
}

/// Every place within a value where an object stands, as a pointer, with the fields it may have.
fn places<'a>(
    document: &'a Document,
    schema: &'a Value,
    value: &Value,
    at: String,
    into: &mut Vec<(String, BTreeSet<&'a str>)>,
) {
    match value {
        Value::Object(fields) => {
            let objects = document.objects(schema);
            let Some(object) = objects.first() else { return };
            let known = object["properties"].as_object().unwrap();
            into.push((at.clone(), known.keys().map(String::as_str).collect()));
            for (name, value) in fields {
                let schema = &object["properties"][name];
                places(document, schema, value, format!("{at}/{name}"), into);
            }
        }
        Value::Array(items) if !at.is_empty() => {
            let Some(schema) = document.items(schema) else { return };
            for (n, item) in items.iter().enumerate() {
                places(document, schema, item, format!("{at}/{n}"), into);
            }
        }
        _ => {}
    }
}

/// The names that a refusal lists.
fn listed(message: &str) -> BTreeSet<&str> {
    match message.split_once("known here: ") {
        Some((_, list)) => list.split(", ").filter(|name| !name.is_empty()).collect(),
        None => BTreeSet::new(),
    }
}

#[tokio::test]
async fn the_fields_that_are_described_are_those_that_are_read() {
    let server = Server::with_keys(|_| {}).await;
    let document = Document::of(&server).await;
    let mut shapes = BTreeSet::new();
    for call in document.calls().iter().filter(|call| !call.is_old()) {
        let path = call.path_and_query(&document);
        let schema = &call.content()["schema"];
        for body in call.bodies() {
            let mut found = Vec::new();
            places(&document, schema, &body, String::new(), &mut found);
            for (at, described) in found {
                let mut body = body.clone();
                body.pointer_mut(&at).unwrap()[UNKNOWN] = json!(1);
                let answer = server.call(call.method.clone(), &path, &body.to_string()).await;
                let told = answer.json();
                let message = told["error"]["message"].as_str().unwrap_or_default();
                assert!(message.contains("unknown field"), "{path} {body}: {told}");
                assert_eq!(listed(message), described, "{path} {body}");
                shapes.insert(described.into_iter().collect::<Vec<_>>().join(" "));
            }
        }
    }
    assert!(shapes.len() >= 17, "{shapes:#?}");
    server.stop().await;
}

#[tokio::test]
async fn the_parameters_that_are_described_are_those_that_are_read() {
    let server = Server::start().await;
    let document = Document::of(&server).await;
    let calls = document.calls();
    for call in calls.iter().filter(|call| !call.is_old() && call.path.starts_with("/v1/")) {
        let path = call.path_and_query(&document);
        let (path, given) = path.split_once('?').unwrap_or((&path, ""));
        let described: BTreeSet<&str> =
            given.split('&').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
        let path = format!("{path}?{UNKNOWN}=1");
        let answer = server.call(call.method.clone(), &path, &text_of(&call.bodies()[0])).await;
        let message = answer.refused(400, "invalid", Some(UNKNOWN));
        assert_eq!(listed(&message), described, "{} {path}: {message}", call.method);
    }
    server.stop().await;
}

#[tokio::test]
async fn the_methods_that_are_described_are_those_that_are_served() {
    let server = Server::start().await;
    let document = Document::of(&server).await;
    let mut methods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // The paths of ouqiang's dialect answer every method.
    for call in document.calls().iter().filter(|call| call.about["tags"][0] != "ouqiang") {
        let path = call.path_and_query(&document);
        let path = path.split('?').next().unwrap().to_owned();
        methods.entry(path).or_default().insert(call.method.to_string());
    }
    for (path, described) in methods {
        let answer = server.call(Method::TRACE, &path, "").await;
        assert_eq!(answer.status, 405, "{path}");
        let allowed = answer.headers["allow"].to_str().unwrap().split(", ");
        let allowed: BTreeSet<_> =
            allowed.filter(|method| *method != "HEAD").map(str::to_owned).collect();
        assert_eq!(allowed, described, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_description_follows_the_dialects_that_are_switched_on() {
    let mut server = Server::start().await;
    let has = |document: &Document, path: &str| !document.0["paths"][path].is_null();
    assert!(has(&Document::of(&server).await, "/push"));
    server.set(|config| config.fronts.ouqiang = false);
    assert!(!has(&Document::of(&server).await, "/push"));
    server.stop().await;
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let server = Server::start().await;
    let page = server.get("/docs").await;
    assert_eq!(page.status, 200);
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(
        page.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'")
    );
    assert!(!page.text.contains("://"), "{}", page.text);
    let named = page.text.split('"').filter(|word| word.starts_with("docs/"));
    let named: Vec<&str> = named.collect();
    assert!(named.len() >= 4, "{named:?}");
    for file in named.iter().filter(|file| !file.ends_with(".png")) {
        let answer = server.get(&format!("/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(!answer.text.is_empty(), "{file}");
    }
    server.get("/docs/none.js").await.refused(404, "not_found", None);
    for path in ["/docs", "/openapi.json", "/docs/page.js"] {
        let foreign = [("host", "evil.example")];
        let answer = server.send(Method::GET, path, &foreign, Vec::new()).await;
        answer.refused(403, "forbidden", None);
    }
    server.stop().await;
}
