//! What is particular to brokers. What holds for every target is the contract's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hyper::Method;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::{Value, json};

use crate::broker::{Broker, Got, Kafka, Nats, RabbitMq, Redis, Sink};
use crate::client::{Caller, Server};
use crate::job;
use crate::peer::{Answer, Peer};
use crate::receiver::{PATIENCE, Refusing};
use crate::shipped::Shipped;

const TOPIC: &str = "order.close";
const DONE: &str = r#"linger_pushes_total{outcome="done"}"#;

async fn server_with(settings: &str) -> Server {
    Server::with(|config| config.sinks = settings.parse().unwrap()).await
}

/// Adds a job for `sink:events`, with these fields besides.
async fn add(server: &Caller, id: &str, more: Value) {
    let mut job = json!({"topic": TOPIC, "id": id, "body": {"order": 1}, "retain": "1h",
        "target": "sink:events", "retry": {"attempts": 1}});
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.add(&job.to_string()).await;
}

async fn last_error(server: &Caller, id: &str) -> String {
    let dead = job::until(server, TOPIC, id, "dead").await;
    dead["last_error"].as_str().unwrap().to_owned()
}

async fn next(messages: &mut tokio::sync::mpsc::UnboundedReceiver<Got>) -> Got {
    let next = tokio::time::timeout(PATIENCE, messages.recv()).await;
    next.expect("a message comes").expect("it listens")
}

/// A test of the same name for every kind.
macro_rules! of_each_kind {
    ($($fact:ident)+) => {
        of_each_kind! { rabbitmq: RabbitMq, $($fact)+ }
        of_each_kind! { redis: Redis, $($fact)+ }
        of_each_kind! { nats: Nats, $($fact)+ }
        of_each_kind! { kafka: Kafka, $($fact)+ }
    };
    ($kind:ident: $broker:ty, $($fact:ident)+) => {
        mod $kind {
            use super::*;
            $(#[tokio::test]
            async fn $fact() {
                super::$fact::<$broker>().await;
            })+
        }
    };
}

of_each_kind! {
    who_the_job_is_travels_along
    every_job_arrives_though_the_broker_is_restarted
    what_the_documents_say_works_as_it_is_pasted
}

async fn who_the_job_is_travels_along<B: Broker>() {
    let Some(broker) = B::start().await else { return };
    let server = server_with(&broker.settings(broker.port())).await;
    let mut messages = broker.consume().await;
    let topic = json!({"headers": {"x-shop": "eu"}}).to_string();
    server.call(Method::PUT, "/v1/topics/order.close", &topic).await.ok(200);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    add(&server, "a 1", json!({"traceparent": trace, "at": "2026-01-02T03:04:05.678Z"})).await;
    let got = next(&mut messages).await;
    for (name, value) in [
        ("linger-topic", TOPIC),
        ("linger-job", "a%201"),
        ("linger-attempt", "1"),
        ("linger-due", "2026-01-02T03:04:05.678Z"),
        ("traceparent", trace),
        ("webhook-id", "lg_1_0"),
        ("content-type", "application/json"),
        ("x-shop", "eu"),
    ] {
        assert_eq!(got.header(name), value, "{got:?}");
    }
    assert!(!got.header("linger-lease").is_empty());
    assert_eq!(got.body, br#"{"order":1}"#);
    server.stop().await;
}

async fn every_job_arrives_though_the_broker_is_restarted<B: Broker>() {
    const JOBS: usize = 5000;
    let Some(mut broker) = B::start_own().await else { return };
    let server = Server::with(|config| {
        config.sinks = broker.settings(broker.port()).parse().unwrap();
        // There is no need to spare it.
        config.push.pause = Duration::from_millis(100);
        config.push.pause_max = Duration::from_millis(200);
    })
    .await;
    let topic = json!({"target": "sink:events",
        "retry": {"attempts": 0, "backoff": {"base": "50ms", "max": "200ms", "jitter": 0.5}}});
    server.call(Method::PUT, "/v1/topics/order.close", &topic.to_string()).await.ok(200);
    for batch in 0..JOBS / 1000 {
        let ids = batch * 1000..(batch + 1) * 1000;
        let jobs: Vec<Value> =
            ids.map(|id| json!({"topic": TOPIC, "id": id.to_string()})).collect();
        server.post("/v1/jobs", &json!(jobs).to_string()).await.ok(200);
    }
    job::until_counted(&server, DONE, 500).await;
    broker.end();
    job::until_counted(&server, r#"linger_pushes_total{outcome="failed"}"#, 1).await;
    broker.start_again();
    job::until_counted(&server, DONE, JOBS as u64).await;
    let stored: BTreeSet<String> = broker.stored().await.into_iter().collect();
    assert_eq!(stored, (0..JOBS).map(|id| id.to_string()).collect());
    server.stop().await;
}

/// The section of a kind in the documents, as it is to be pasted.
fn documented(kind: &str) -> &'static str {
    let page = include_str!("../../../docs/delivery.md");
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut of_kind = blocks.filter(|block| block.contains(&format!("type = \"{kind}\"")));
    of_kind.next().unwrap_or_else(|| panic!("no block for {kind}"))
}

async fn what_the_documents_say_works_as_it_is_pasted<B: Broker>() {
    let Some(broker) = B::start().await else { return };
    let mut messages = broker.consume().await;
    let ours = broker.settings(broker.port());
    let kind = ours.split('\'').nth(1).unwrap();
    // Only the port is another, and the queue or topic, of which there are several here.
    let port = [("rabbitmq", "5672"), ("redis", "6379"), ("nats", "4222"), ("kafka", "9092")];
    let port = port.iter().find(|(of, _)| *of == kind).unwrap().1;
    let pasted = documented(kind);
    assert!(pasted.lines().count() <= 5, "{pasted}");
    let mut settings = pasted.replacen(port, &broker.port().to_string(), 1);
    for name in ["routing_key", "topic"] {
        let start = format!("{name} = ");
        let Some(route) = ours.lines().find(|line| line.starts_with(&start)) else { continue };
        settings = settings.replacen(&format!("{start}\"{{topic}}\""), route, 1);
        assert!(settings.contains(route), "{settings}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("linger.toml"), &settings).unwrap();
    let server = Shipped::start(folder.path());
    add(&server, "1001", json!({})).await;
    assert_eq!(next(&mut messages).await.header("linger-job"), "1001");
    job::until(&server, TOPIC, "1001", "finished").await;
}

#[tokio::test]
async fn a_sink_that_is_not_in_the_settings_is_named_with_those_that_are() {
    let server = server_with("[sinks.a]\ntype='redis'\nurl='redis://127.0.0.1:1'").await;
    add(&server, "1", json!({})).await;
    let expected = "no sink `events` is in the settings; there are a";
    assert_eq!(last_error(&server, "1").await, expected);
    server.stop().await;
}

#[tokio::test]
async fn while_a_broker_is_down_its_jobs_wait_and_use_no_attempts() {
    let nobody = Refusing::new();
    let port = nobody.port();
    let kinds = [("rabbitmq", "amqp"), ("redis", "redis"), ("nats", "nats"), ("kafka", "kafka")];
    for (kind, url) in kinds {
        let settings =
            format!("[sinks.events]\ntype='{kind}'\nurl='{url}://u:geheim@127.0.0.1:{port}'");
        let server = Server::with(|config| {
            config.sinks = settings.parse().unwrap();
            (config.push.failures, config.push.per_destination) = (2, 1);
            config.push.pause = Duration::from_secs(3600);
            config.push.pause_max = Duration::from_secs(3600);
        })
        .await;
        for id in 0..10 {
            add(&server, &id.to_string(), json!({})).await;
        }
        job::until_counted(&server, "linger_destinations_closed", 1).await;
        let dead = server.get("/v1/topics/order.close/jobs?state=dead").await.ok(200);
        let dead = dead["jobs"].as_array().unwrap();
        assert_eq!(dead.len(), 2, "{kind}: {dead:?}");
        let error = last_error(&server, dead[0]["id"].as_str().unwrap()).await;
        assert!(error.starts_with("sink `events`: ") && error.contains("efused"), "{error}");
        assert!(error.contains(&port.to_string()) && !error.contains("geheim"), "{error}");
        let waiting = server.get("/v1/topics/order.close/jobs?state=ready").await.ok(200);
        assert_eq!(waiting["jobs"].as_array().unwrap().len(), 8);
        server.stop().await;
    }
}

#[tokio::test]
async fn what_rabbitmq_returns_or_refuses_has_failed_and_nothing_else_has() {
    const JOBS: usize = 300;
    let Some(broker) = RabbitMq::start().await else { return };
    // The topic is the routing key, so that each can lead somewhere else.
    let settings = broker.settings(broker.port()).replace(&broker.queue, "{topic}");
    let server = server_with(&settings).await;
    let full = format!("{}-full", broker.queue);
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    broker.declare(&full, arguments).await;
    let gone = format!("{}-gone", broker.queue);
    // All at once: what comes back must not be taken for another's.
    let jobs: Vec<Value> = (0..JOBS)
        .map(|id| {
            let topic = [&broker.queue, &gone, &full][id % 3];
            json!({"topic": topic, "id": id.to_string(), "target": "sink:events", "retain": "1h",
                "retry": {"attempts": 1}})
        })
        .collect();
    server.post("/v1/jobs", &json!(jobs).to_string()).await.ok(200);
    for id in (0..JOBS).map(|id| id.to_string()) {
        match id.parse::<usize>().unwrap() % 3 {
            0 => drop(job::until(&server, &broker.queue, &id, "finished").await),
            1 => {
                let error = &job::until(&server, &gone, &id, "dead").await["last_error"];
                let expected = format!("sink `events`: returned `{gone}`: 312 NO_ROUTE");
                assert_eq!(*error, expected);
            }
            _ => {}
        }
    }
    // It takes one or two, and says of the others that it does not.
    let path = format!("/v1/topics/{full}/jobs?state=dead&limit=1000");
    let dead = server.get(&path).await.ok(200);
    let dead = dead["jobs"].as_array().unwrap();
    assert!(dead.len() > JOBS / 3 - 10, "{}", dead.len());
    assert_eq!(dead[0]["last_error"], "sink `events`: the broker did not take it");
    assert_eq!(broker.stored().await.len(), JOBS / 3);
    server.stop().await;
}

#[tokio::test]
async fn an_exchange_that_is_not_there_is_named() {
    let Some(broker) = RabbitMq::start().await else { return };
    let settings = format!("{}exchange = 'nowhere'\n", broker.settings(broker.port()));
    let server = server_with(&settings).await;
    add(&server, "1", json!({})).await;
    let error = last_error(&server, "1").await;
    assert!(error.contains("no exchange 'nowhere' in vhost '/'"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn a_password_that_is_refused_is_said_and_not_shown() {
    let Some(broker) = RabbitMq::start().await else { return };
    let settings = broker.settings(broker.port()).replace("guest:guest", "guest:geheim");
    let server = server_with(&settings).await;
    add(&server, "1", json!({})).await;
    let error = last_error(&server, "1").await;
    assert!(error.contains("ACCESS_REFUSED") && !error.contains("geheim"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn rabbitmq_is_spoken_to_over_tls() {
    let Some(broker) = RabbitMq::start().await else { return };
    let mut messages = broker.consume().await;
    let (port, ca) = &broker.tls;
    let plain = format!("amqp://guest:guest@127.0.0.1:{port}");
    let secure =
        broker.settings(*port).replace(&plain, &format!("amqps://guest:guest@localhost:{port}"));
    let trusting = format!("{secure}ca = '{}'\n", ca.display());
    let server = server_with(&trusting).await;
    add(&server, "1", json!({})).await;
    assert_eq!(next(&mut messages).await.header("linger-job"), "1");
    server.stop().await;
    let server = server_with(&secure).await;
    add(&server, "2", json!({})).await;
    let error = last_error(&server, "2").await;
    assert!(error.contains("certificate"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn nats_is_spoken_to_over_tls_with_a_password_from_a_file() {
    let Some(broker) = Nats::start_with(true).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "geheim\n").unwrap();
    let secure = format!(
        "[sinks.events]\ntype='nats'\nurl='tls://localhost:{}'\nuser='app'\npassword_file='{}'\n",
        broker.port(),
        file.display()
    );
    let trusting = format!("{secure}ca = '{}'\n", broker.ca.display());
    let server = server_with(&trusting).await;
    add(&server, "1", json!({})).await;
    job::until(&server, TOPIC, "1", "finished").await;
    server.stop().await;
    let server = server_with(&secure).await;
    add(&server, "2", json!({})).await;
    let error = last_error(&server, "2").await;
    assert!(error.contains("certificate"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn without_a_stream_nats_has_nobody_who_keeps_a_job() {
    let Some(broker) = Nats::start().await else { return };
    let settings = format!("{}subject = 'other.{{topic}}'\n", broker.settings(broker.port()));
    let server = server_with(&settings).await;
    add(&server, "1", json!({})).await;
    let error = last_error(&server, "1").await;
    assert_eq!(error, "sink `events`: no stream of JetStream has the subject `other.order.close`");
    server.stop().await;
}

#[tokio::test]
async fn nats_keeps_once_what_comes_twice_but_every_lease_of_what_somebody_is_to_finish() {
    let Some(mut peer) = Sink::<Nats>::start().await else { return };
    let server = server_with(&peer.settings()).await;
    let again = json!({"ladder": ["10ms"]});
    add(&server, "1", json!({"retry": again})).await;
    peer.next().await.drop_connection();
    peer.next().await.answer(Answer::Ok);
    assert_eq!(job::until(&server, TOPIC, "1", "finished").await["attempt"], 2);
    assert_eq!(peer.broker.stored().await, ["1"]);
    add(&server, "2", json!({"retry": again, "confirm": "finish", "ttr": "1s"})).await;
    peer.next().await.answer(Answer::Ok);
    peer.next().await.answer(Answer::Ok);
    job::until_counted(&server, r#"linger_pushes_total{outcome="left"}"#, 2).await;
    assert_eq!(peer.broker.stored().await, ["1", "2", "2"]);
    server.stop().await;
}

#[tokio::test]
async fn a_stream_of_redis_is_kept_to_its_length_and_a_key_that_is_none_is_named() {
    let Some(broker) = Redis::start().await else { return };
    let settings = format!("{}length = 10\n", broker.settings(broker.port()));
    let server = server_with(&settings).await;
    for id in 0..500 {
        add(&server, &id.to_string(), json!({})).await;
    }
    job::until_counted(&server, DONE, 500).await;
    // About: whole nodes of the stream go, of a hundred each.
    assert!(broker.stored().await.len() < 200);
    broker.0.plain().ask(&["DEL", TOPIC]);
    broker.0.plain().ask(&["SET", TOPIC, "x"]);
    add(&server, "last", json!({})).await;
    assert!(last_error(&server, "last").await.contains("WRONGTYPE"));
    server.stop().await;
}

#[tokio::test]
async fn a_topic_that_kafka_does_not_have_is_named_and_not_made() {
    let Some(broker) = Kafka::start().await else { return };
    let settings = broker.settings(broker.port()).replace(&broker.topic, "other.{topic}");
    let server = server_with(&settings).await;
    add(&server, "1", json!({})).await;
    let error = last_error(&server, "1").await;
    assert_eq!(error, "sink `events`: Kafka has no topic `other.order.close`");
    server.stop().await;
}

#[tokio::test]
async fn one_record_that_kafka_refuses_does_not_fail_those_sent_with_it() {
    let Some(broker) = Kafka::start().await else { return };
    let server = server_with(&broker.settings(broker.port())).await;
    let big = "x".repeat(Kafka::RECORD_BYTES_MAX);
    let jobs: Vec<Value> = (0..100)
        .map(|id| {
            let body = if id % 10 == 0 { &*big } else { "small" };
            json!({"topic": TOPIC, "id": id.to_string(), "target": "sink:events", "retain": "1h",
                "body": body, "retry": {"attempts": 1}})
        })
        .collect();
    server.post("/v1/jobs", &json!(jobs).to_string()).await.ok(200);
    for id in 0..100 {
        let state = if id % 10 == 0 { "dead" } else { "finished" };
        let job = job::until(&server, TOPIC, &id.to_string(), state).await;
        if state == "dead" {
            assert_eq!(job["last_error"], "sink `events`: MessageTooLarge");
        }
    }
    assert_eq!(broker.stored().await.len(), 90);
    server.stop().await;
}

#[tokio::test]
async fn a_job_goes_to_the_partition_of_kafka_that_java_would_choose() {
    const JOBS: usize = 30;
    let Some(broker) = Kafka::start().await else { return };
    let mut messages = broker.consume().await;
    let ids: Vec<String> = (0..JOBS).map(|id| format!("订单 {id}")).collect();
    let server = server_with(&broker.settings(broker.port())).await;
    for id in &ids {
        add(&server, id, json!({})).await;
    }
    let mut chosen = async || {
        let mut partitions = BTreeMap::new();
        for _ in 0..JOBS {
            let got = next(&mut messages).await;
            partitions
                .insert(got.header("record-key").to_owned(), got.header("partition").to_owned());
        }
        partitions
    };
    let ours = chosen().await;
    assert_eq!(ours.keys().cloned().collect::<BTreeSet<_>>(), ids.iter().cloned().collect());
    broker.produce_by_java(ids).await;
    assert_eq!(chosen().await, ours);
    assert!(ours.values().collect::<BTreeSet<_>>().len() > 1, "{ours:?}");
    server.stop().await;
}

#[tokio::test]
async fn kafka_is_spoken_to_over_tls_with_a_password() {
    let Some(broker) = Kafka::start().await else { return };
    let (port, ca) = &broker.secure;
    let secure = |sasl: &str, password: &str| {
        format!(
            "[sinks.events]\ntype='kafka'\nurl='kafkas://localhost:{port}'\nuser='app'\n\
             password='{password}'\nsasl='{sasl}'\ntopic='{}'\n",
            broker.topic
        )
    };
    let trusting = |settings: String| format!("{settings}ca='{}'\n", ca.display());
    for sasl in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let server = server_with(&trusting(secure(sasl, "geheim"))).await;
        add(&server, "1", json!({})).await;
        job::until(&server, TOPIC, "1", "finished").await;
        server.stop().await;
        let server = server_with(&trusting(secure(sasl, "falsch"))).await;
        add(&server, "2", json!({})).await;
        let error = last_error(&server, "2").await;
        assert!(error.contains("SaslAuthenticationFailed") && !error.contains("falsch"), "{error}");
        server.stop().await;
    }
    let server = server_with(&secure("PLAIN", "geheim")).await;
    add(&server, "3", json!({})).await;
    let error = last_error(&server, "3").await;
    assert!(error.contains("certificate"), "{error}");
    server.stop().await;
}
