//! What becomes of a job is told, span by span, to a receiver of OTLP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hyper::Method;
use linger_server::config::Config;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use prost::Message;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::client::Server;
use crate::job;
use crate::receiver::{Receiver, Refusing};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn given(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

/// Takes spans until it is dropped.
struct Collector {
    endpoint: String,
    spans: Arc<Mutex<Vec<Span>>>,
    keys: Arc<Mutex<Vec<String>>>,
    taking: JoinHandle<()>,
}

impl Collector {
    async fn start() -> Collector {
        let mut receiver = Receiver::start().await;
        let endpoint = receiver.url("");
        let (spans, keys) = (Arc::new(Mutex::new(vec![])), Arc::new(Mutex::new(vec![])));
        let (taken, sent) = (spans.clone(), keys.clone());
        let taking = tokio::spawn(async move {
            loop {
                let got = receiver.next().await;
                assert_eq!(got.path, "/v1/traces");
                assert_eq!(got.header("content-type"), "application/x-protobuf");
                sent.lock().unwrap().push(got.header("x-key").to_owned());
                let request = ExportTraceServiceRequest::decode(got.body.clone()).unwrap();
                for resource in request.resource_spans {
                    let about = texts(&resource.resource.unwrap().attributes);
                    assert_eq!(about["service.name"], "linger");
                    assert_eq!(about["service.instance.id"], "default");
                    let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
                    taken.lock().unwrap().extend(spans);
                }
                got.answer(200);
            }
        });
        Collector { endpoint, spans, keys, taking }
    }

    async fn server(&self, change: impl FnOnce(&mut Config)) -> Server {
        Server::with(|config| {
            config.traces.endpoint = self.endpoint.parse().ok();
            config.node.name = Some(Default::default());
            change(config);
        })
        .await
    }

    /// All spans there were, after the server has stopped and so sent its last, in the order they began.
    async fn after(self, server: Server) -> Vec<Span> {
        server.stop().await;
        let mut spans = std::mem::take(&mut *self.spans.lock().unwrap());
        // A store knows milliseconds, by which jobs begin to wait.
        spans.sort_by_key(|span| (span.start_time_unix_nano / 1_000_000, rank(span)));
        spans
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.taking.abort();
    }
}

/// Two that begin in the same moment are in the order of the story.
fn rank(span: &Span) -> usize {
    let story = ["add", "wait", "deliver"];
    story.iter().position(|name| span.name.starts_with(name)).unwrap_or(story.len())
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |one: &KeyValue| match one.value.clone()?.value? {
        any_value::Value::StringValue(text) => Some(text),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    };
    attributes.iter().filter_map(|one| Some((one.key.clone(), text(one)?))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

fn failed(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

/// How each delivery ended, and whether that was an error.
fn outcomes(spans: &[Span]) -> Vec<(String, bool)> {
    let deliveries = spans.iter().filter(|span| span.name.starts_with("deliver"));
    let outcome = |span: &Span| (texts(&span.attributes)["linger.outcome"].clone(), failed(span));
    deliveries.map(outcome).collect()
}

fn add(target: Option<&str>, trace: Option<&str>) -> Value {
    let mut job = json!({"topic": "orders", "id": "1001", "retain": "1h", "delay": "20ms"});
    for (name, value) in [("target", target), ("traceparent", trace)] {
        if let Some(value) = value {
            job[name] = value.into();
        }
    }
    job
}

#[tokio::test]
async fn a_job_that_is_pushed_is_one_trace_from_add_to_finish() {
    let collector = Collector::start().await;
    let server = collector.server(|config| {
        config.traces.headers = "x-key=geheim".parse().unwrap();
    });
    let server = server.await;
    let mut receiver = Receiver::start().await;
    server.add(&add(Some(&receiver.url("/hook?geheim")), Some(&given("01"))).to_string()).await;
    let got = receiver.next().await;
    let travelled = got.header("traceparent").to_owned();
    got.answer(200);
    job::until(&server, "orders", "1001", "finished").await;
    let keys = collector.keys.clone();
    let spans = collector.after(server).await;
    assert_eq!(names(&spans), ["add orders", "wait orders", "deliver orders", "finish orders"]);
    assert!(keys.lock().unwrap().iter().all(|key| key == "geheim"));

    let [added, waited, delivered, finished] = &spans[..] else { unreachable!() };
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:#?}");
    assert!(spans.iter().all(|span| !failed(span)), "{spans:#?}");
    for span in [added, waited, delivered] {
        assert_eq!(hex(&span.parent_span_id), PARENT, "{span:#?}");
        let about = texts(&span.attributes);
        assert_eq!(about["messaging.system"], "linger");
        assert_eq!(about["messaging.destination.name"], "orders");
        assert_eq!(about["messaging.message.id"], "1001");
    }
    assert_eq!(finished.parent_span_id, delivered.span_id);
    assert_eq!(travelled, format!("00-{TRACE}-{}-01", hex(&delivered.span_id)));
    assert_eq!((added.kind(), delivered.kind()), (SpanKind::Server, SpanKind::Producer));

    let about = texts(&delivered.attributes);
    assert_eq!((&*about["linger.attempt"], &*about["linger.outcome"]), ("1", "finish"));
    // What follows a host is often a secret.
    assert_eq!(about["linger.target"], receiver.url(""));
    // It waited for its delay, and was due in between.
    let waited_ns = waited.end_time_unix_nano - waited.start_time_unix_nano;
    assert!(waited_ns >= 20_000_000, "{waited:#?}");
    let due = &waited.events[0];
    assert_eq!(due.name, "due");
    assert!(due.time_unix_nano <= waited.end_time_unix_nano);
    assert_eq!(waited.end_time_unix_nano, delivered.start_time_unix_nano);
    assert!(delivered.end_time_unix_nano >= finished.start_time_unix_nano);
}

#[tokio::test]
async fn a_job_that_is_popped_is_one_trace_and_gives_back_what_it_was_given() {
    let collector = Collector::start().await;
    let server = collector.server(|_| {}).await;
    // As a library sends it that its user knows nothing of.
    let headers = [("traceparent", &*given("01"))];
    let body = json!([{"topic": "orders", "id": "1001"}]).to_string();
    let added = server.send(Method::POST, "/v1/jobs", &headers, body.into()).await.ok(200);
    assert_eq!(added[0]["job"]["traceparent"], given("01"));
    let popped = server.pop("orders").await;
    assert_eq!(popped["traceparent"], given("01"));
    server.post("/v1/topics/orders/jobs/1001/finish", "").await.ok(200);
    let spans = collector.after(server).await;
    assert_eq!(names(&spans), ["add orders", "wait orders", "deliver orders", "finish orders"]);
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:#?}");
    assert_eq!(spans[2].kind(), SpanKind::Consumer);
    assert_eq!(spans[3].parent_span_id, spans[2].span_id);
}

#[tokio::test]
async fn every_attempt_has_spans_of_its_own_and_a_failure_shows() {
    let collector = Collector::start().await;
    let server = collector.server(|_| {}).await;
    let mut receiver = Receiver::start().await;
    let mut job = add(Some(&receiver.url("/")), Some(&given("01")));
    job["retry"] = json!({"ladder": ["0s"]});
    server.add(&job.to_string()).await;
    let first = receiver.next().await;
    let travelled = first.header("traceparent").to_owned();
    first.answer(500);
    let second = receiver.next().await;
    assert_ne!(second.header("traceparent"), travelled);
    second.answer(200);
    job::until(&server, "orders", "1001", "finished").await;
    let spans = collector.after(server).await;
    assert_eq!(outcomes(&spans), [("fail".to_owned(), true), ("finish".to_owned(), false)]);
    let first = spans.iter().find(|span| span.name.starts_with("deliver")).expect("there are two");
    let why = &first.status.as_ref().unwrap().message;
    assert!(why.contains("500"), "{why}");
    let said = |name| spans.iter().filter(|span| span.name.starts_with(name)).count();
    assert_eq!((said("add"), said("wait"), said("fail"), said("finish")), (1, 2, 1, 1));
}

#[tokio::test]
async fn a_delivery_whose_lease_ran_out_says_so() {
    let collector = Collector::start().await;
    let server = collector.server(|_| {}).await;
    server.add(&add(None, Some(&given("01"))).to_string()).await;
    for ttr in ["1ms", "1h"] {
        let ask = json!({"wait": "1m", "ttr": ttr}).to_string();
        let popped = server.post("/v1/topics/orders/pop", &ask).await.ok(200);
        assert_eq!(popped["jobs"][0]["id"], "1001");
    }
    server.post("/v1/topics/orders/jobs/1001/touch", "").await.ok(200);
    server.post("/v1/topics/orders/jobs/1001/finish", "").await.ok(200);
    let spans = collector.after(server).await;
    assert_eq!(outcomes(&spans), [("timed_out".to_owned(), true), ("finish".to_owned(), false)]);
    let touched = spans.iter().find(|span| span.name == "touch orders").expect("it was");
    let second = spans.iter().rfind(|span| span.name == "deliver orders").expect("there are two");
    assert_eq!(touched.parent_span_id, second.span_id);
}

#[tokio::test]
async fn a_refused_add_and_a_lost_lease_show_their_codes() {
    let collector = Collector::start().await;
    let server = collector.server(|_| {}).await;
    let job = json!({"topic": "orders", "id": "1001", "traceparent": given("01")}).to_string();
    server.post("/v1/jobs", &job).await.ok(201);
    server.post("/v1/jobs", &job).await.refused(409, "already_exists", Some("id"));
    server.pop("orders").await;
    let lost = r#"{"lease":"0000000000000001"}"#;
    let finish = server.post("/v1/topics/orders/jobs/1001/finish", lost).await;
    finish.refused(409, "lease_lost", None);
    let spans = collector.after(server).await;
    let codes: Vec<_> = spans
        .iter()
        .filter(|span| failed(span))
        .map(|span| (span.name.as_str(), texts(&span.attributes)["error.type"].clone()))
        .collect();
    assert!(codes.contains(&("add orders", "already_exists".to_owned())), "{codes:?}");
    assert!(codes.contains(&("finish orders", "lease_lost".to_owned())), "{codes:?}");
    assert!(!codes.iter().any(|(name, _)| name.starts_with("deliver")), "it goes on: {codes:?}");
}

#[tokio::test]
async fn a_job_without_a_trace_gets_one_by_the_ratio() {
    let collector = Collector::start().await;
    let server = collector.server(|_| {}).await;
    server.add(&add(None, None).to_string()).await;
    let look = server.get("/v1/topics/orders/jobs/1001").await.ok(200);
    let trace = look["traceparent"].as_str().expect("it has one").to_owned();
    let spans = collector.after(server).await;
    assert_eq!(names(&spans), ["add orders"]);
    assert!(spans[0].parent_span_id.is_empty());
    assert_eq!(trace, format!("00-{}-{}-01", hex(&spans[0].trace_id), hex(&spans[0].span_id)));

    let collector = Collector::start().await;
    let server = collector.server(|config| config.traces.ratio = "0".parse().unwrap()).await;
    server.add(&add(None, None).to_string()).await;
    let look = server.get("/v1/topics/orders/jobs/1001").await.ok(200);
    assert!(look.get("traceparent").is_none(), "{look}");
    assert!(collector.after(server).await.is_empty());
}

#[tokio::test]
async fn a_trace_that_its_caller_does_not_record_is_passed_on_and_not_sent() {
    let collector = Collector::start().await;
    let server = collector.server(|_| {}).await;
    let mut receiver = Receiver::start().await;
    server.add(&add(Some(&receiver.url("/")), Some(&given("00"))).to_string()).await;
    let got = receiver.next().await;
    assert_eq!(got.header("traceparent"), given("00"));
    got.answer(200);
    job::until(&server, "orders", "1001", "finished").await;
    assert!(collector.after(server).await.is_empty());
}

#[tokio::test]
async fn nobody_who_takes_traces_holds_up_nothing() {
    let nobody = Refusing::new();
    let server = Server::with(|config| config.traces.endpoint = nobody.url("").parse().ok()).await;
    server.add(&add(None, Some(&given("01"))).to_string()).await;
    let popped = server.post("/v1/topics/orders/pop", r#"{"wait":"1m"}"#).await.ok(200);
    assert_eq!(popped["jobs"][0]["traceparent"], given("01"));
    server.post("/v1/topics/orders/jobs/1001/finish", "").await.ok(200);
    server.stop().await;
}
