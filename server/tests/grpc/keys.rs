//! API keys over gRPC: who is let in, and to what.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use linger_server::proto::DESCRIPTIONS;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};
use serde_json::{Value, json};
use tonic::{Code, Request};

use crate::client::{PATIENCE, Server, pb};

const ADMIN_KEY: &str = "a-key-that-may-do-anything";

/// The calls of the descriptions, each with a request that names a topic and a job wherever it can.
fn calls() -> Vec<(String, Vec<u8>)> {
    let files = FileDescriptorSet::decode(DESCRIPTIONS).unwrap();
    let mut types = BTreeMap::new();
    // Moments and lengths of time are left out.
    for file in files.file.iter().filter(|file| !file.package().starts_with("google")) {
        for message in &file.message_type {
            types.insert(format!(".{}.{}", file.package(), message.name()), message);
        }
    }
    let mut calls = Vec::new();
    for file in &files.file {
        // Callbacks are served by others.
        for service in file.service.iter().filter(|service| service.name() != "Callback") {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                calls.push((path, request(&types, types[method.input_type()], 0)));
            }
        }
    }
    calls
}

fn request(
    types: &BTreeMap<String, &DescriptorProto>,
    of: &DescriptorProto,
    depth: u32,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |number: i32, kind: usize, value: &[u8]| {
        prost::encode_length_delimiter((number as usize) << 3 | kind, &mut bytes).unwrap();
        if kind == 2 {
            prost::encode_length_delimiter(value.len(), &mut bytes).unwrap();
        }
        bytes.extend_from_slice(value);
    };
    for field in &of.field {
        let text = match field.name() {
            "topic" | "topics" | "name" => "order.close",
            "id" | "uid" => "1001",
            "schema" => "http",
            "address" => "127.0.0.1:1",
            _ => "",
        };
        match field.r#type() {
            Type::String if !text.is_empty() => put(field.number(), 2, text.as_bytes()),
            Type::Enum if field.label() != Label::Repeated => put(field.number(), 0, &[1]),
            Type::Message if depth < 2 && field.name() != "repeat" && field.name() != "retry" => {
                if let Some(inner) = types.get(field.type_name()) {
                    put(field.number(), 2, &request(types, inner, depth + 1));
                }
            }
            _ => {}
        }
    }
    bytes
}

/// Someone who calls with bytes.
struct Raw {
    client: Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

impl Raw {
    fn new(server: &Server) -> Raw {
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        Raw { client, address: server.address() }
    }

    /// The status of a call, and the bytes of its answer.
    async fn call(&self, path: &str, message: &[u8], key: Option<&str>) -> (Code, Bytes) {
        let mut body = vec![0];
        body.extend_from_slice(&(message.len() as u32).to_be_bytes());
        body.extend_from_slice(message);
        let mut request = hyper::Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answer = self.client.request(request.body(Full::from(body)).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("it ends").unwrap();
        let status = |headers: &HeaderMap| {
            let status = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
            Some(Code::from_i32(status))
        };
        let told = status(&head.headers).or_else(|| body.trailers().and_then(status));
        (told.expect("a status"), body.to_bytes())
    }

    /// Calls over HTTP, as one who may do anything.
    async fn http(&self, method: &str, path: &str, body: &Value) -> Value {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let request = hyper::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("authorization", format!("Bearer {ADMIN_KEY}"))
            .body(Full::<Bytes>::from(body.to_string()))
            .unwrap();
        let answer = client.request(request).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    async fn make_key(&self, scopes: &[&str], topics: &[&str]) -> String {
        let new = json!({"name": "k", "scopes": scopes, "topics": topics});
        let made = self.http("POST", "/v1/keys", &new).await;
        made["key"].as_str().unwrap().to_owned()
    }
}

async fn keyed() -> Server {
    Server::with(|config| {
        config.bootstrap_key = Some(ADMIN_KEY.parse().unwrap());
        config.limits.failed_keys = 1_000_000;
    })
    .await
}

fn with_key<T>(message: T, key: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {key}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

#[tokio::test]
async fn no_call_of_the_descriptions_lets_anyone_in_who_may_not() {
    let server = keyed().await;
    let raw = Raw::new(&server);
    let job = json!({"topic": "order.close", "id": "1001", "body": "SECRET-BODY", "delay": "1h"});
    raw.http("POST", "/v1/jobs", &job).await;
    let elsewhere = raw.make_key(&["add", "consume", "read", "metrics"], &["other.*"]).await;
    let governor = raw.make_key(&["admin"], &["other.*"]).await;
    let mut single = Vec::new();
    for scope in ["add", "consume", "read", "metrics"] {
        single.push((scope, raw.make_key(&[scope], &["*"]).await));
    }
    let seen = async || {
        let nothing = json!({});
        let topics = raw.http("GET", "/v1/topics", &nothing).await;
        (topics, raw.http("GET", "/v1/topics/order.close/jobs?body=true", &nothing).await)
    };
    let (calls, before) = (calls(), seen().await);
    assert!(calls.len() > 20, "{calls:?}");
    for (path, message) in &calls {
        let ask = async |key: Option<&str>| raw.call(path, message, key).await;
        for key in [None, Some("x"), Some("lk_0000000000000000_x"), Some(&ADMIN_KEY[1..])] {
            assert_eq!(ask(key).await.0, Code::Unauthenticated, "{path} {key:?}");
        }
        for key in [&elsewhere, &governor] {
            let (status, bytes) = ask(Some(key)).await;
            let text = String::from_utf8_lossy(&bytes);
            let silent = !text.contains("order.close") && !text.contains("SECRET");
            let is_refused = match path.as_str() {
                // What is not there for the key is not told apart from what is not there.
                "/linger.v1.Topics/List" => status == Code::Ok && silent,
                "/pb.DelayQueue/Get" | "/pb.DelayQueue/Remove" => {
                    [Code::NotFound, Code::PermissionDenied].contains(&status)
                }
                // Item by item.
                "/linger.v1.Queue/AddMany" => {
                    status == Code::PermissionDenied || text.contains("forbidden")
                }
                _ => status == Code::PermissionDenied,
            };
            assert!(is_refused, "{path}: {status:?} {text}");
        }
    }
    assert_eq!(seen().await, before, "nothing has changed");
    for (path, message) in &calls {
        let mut let_in = Vec::new();
        for (scope, key) in &single {
            let (status, _) = raw.call(path, message, Some(key)).await;
            assert_ne!(status, Code::Unauthenticated, "{path} {scope}");
            if status != Code::PermissionDenied {
                let_in.push(*scope);
            }
        }
        let call = path.rsplit('/').next().unwrap();
        let expected = match call {
            "Get" | "List" | "Jobs" => vec!["read"],
            "Set" | "Pause" | "Resume" | "Empty" | "Forget" => vec![],
            "Pop" | "Consume" | "Finish" | "Fail" | "Release" | "Touch" => vec!["consume"],
            _ => vec!["add"],
        };
        // What is swept decides, and the first that there is to do is to finish.
        let expected = if call == "Sweep" { vec!["consume"] } else { expected };
        assert_eq!(let_in, expected, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_stream_settles_what_it_was_given_and_ends_with_its_key() {
    let server = keyed().await;
    let raw = Raw::new(&server);
    for topic in ["order.close", "mail"] {
        raw.http("POST", "/v1/jobs", &json!({"topic": topic, "id": "1"})).await;
    }
    let key = raw.make_key(&["consume"], &["order.*"]).await;
    let foreign = raw.http("POST", "/v1/topics/mail/pop", &json!({})).await["jobs"][0].clone();
    let (requests, stream) = tokio::sync::mpsc::channel(4);
    let subscribe = pb::Subscribe { topics: vec!["order.close".into()], ..Default::default() };
    let first = pb::ConsumeRequest { subscribe: Some(subscribe), credit: 1, ..Default::default() };
    requests.send(first).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    let mut answers = server.queue().consume(with_key(stream, &key)).await.unwrap().into_inner();
    let job = answers.message().await.unwrap().unwrap().jobs.remove(0);
    let finish = |number: u64, lease: &str| pb::Settlement {
        number,
        lease: lease.to_owned(),
        verdict: Some(pb::settlement::Verdict::Finish(pb::Finished {})),
    };
    let settlements = vec![
        finish(foreign["number"].as_u64().unwrap(), foreign["lease"].as_str().unwrap()),
        finish(job.job.as_ref().unwrap().number, &job.lease),
    ];
    requests.send(pb::ConsumeRequest { settlements, ..Default::default() }).await.unwrap();
    let mut settled = Vec::new();
    while settled.len() < 2 {
        settled.extend(answers.message().await.unwrap().unwrap().settled);
    }
    let codes: Vec<_> =
        settled.iter().map(|one| one.error.as_ref().map(|e| e.code.as_str())).collect();
    assert_eq!(codes, [Some("forbidden"), None]);
    let id = raw.http("GET", "/v1/keys", &json!({})).await["keys"][0]["id"].clone();
    raw.http("DELETE", &format!("/v1/keys/{}", id.as_str().unwrap()), &json!({})).await;
    let ended = tokio::time::timeout(PATIENCE, answers.message()).await.expect("it ends");
    assert_eq!(ended.unwrap_err().code(), Code::Unauthenticated);
    server.stop().await;
}

#[tokio::test]
async fn what_is_changed_is_taken_down_and_headers_are_masked() {
    let server = keyed().await;
    let raw = Raw::new(&server);
    let mut topics = server.topics();
    let settings = pb::Settings {
        headers: [("authorization".to_owned(), "hush".to_owned())].into(),
        ..Default::default()
    };
    let set = pb::SetTopicRequest { topic: "t".into(), settings: Some(settings) };
    let set = topics.set(with_key(set, ADMIN_KEY)).await.unwrap().into_inner();
    assert_eq!(set.settings.unwrap().headers["authorization"], "hush");
    let reader = raw.make_key(&["read"], &["*"]).await;
    let get = pb::GetTopicRequest { topic: "t".into() };
    let seen = topics.get(with_key(get, &reader)).await.unwrap().into_inner();
    assert_eq!(seen.settings.unwrap().headers["authorization"], "(set)");
    let changes = loop {
        let changes = raw.http("GET", "/v1/audit", &json!({})).await["changes"].clone();
        if changes.as_array().unwrap().len() == 2 {
            break changes;
        }
    };
    let mut all = changes.as_array().unwrap().iter();
    let set = all.find(|change| change["call"] == "linger.v1.Topics/Set").unwrap();
    assert_eq!((&set["about"], &set["name"]), (&json!("t"), &json!("bootstrap")));
    server.stop().await;
}
