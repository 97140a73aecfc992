//! What callers may ask for at most, and what becomes of those who are stuck or too many.

use std::time::Duration;

use hyper::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Server;

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(3600);
/// Only to fail rather than hang.
const PATIENCE: Duration = Duration::from_secs(60);
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).await.expect("it listens")
}

/// Reads until the server hangs up, in whatever way.
async fn to_the_end(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = async { while matches!(stream.read_buf(&mut answer).await, Ok(1..)) {} };
    tokio::time::timeout(PATIENCE, read).await.expect("the server hangs up");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Asks for something, and reads the whole answer.
async fn ask(stream: &mut TcpStream) {
    stream.write_all(REQUEST).await.expect("it is still open");
    let mut answer = Vec::new();
    let read = async {
        while !answer.ends_with(br#"{"ok":true}"#) {
            assert_ne!(stream.read_buf(&mut answer).await.expect("it is still open"), 0);
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("an answer");
}

#[tokio::test]
async fn names_and_numbers_are_held_to_their_limits() {
    let server = Server::with(|config| {
        config.limits.batch_jobs = 2;
        config.limits.wait = Duration::from_secs(1);
    })
    .await;
    let job = |topic: usize, id: usize| {
        format!(r#"{{"topic":"{}","id":"{}"}}"#, "t".repeat(topic), "i".repeat(id))
    };
    server.add(&job(200, 256)).await;
    server.post("/v1/jobs", &job(201, 1)).await.refused(400, "invalid", Some("topic"));
    server.post("/v1/jobs", &job(1, 257)).await.refused(400, "invalid", Some("id"));

    let pop = async |body: &str| server.post("/v1/topics/none/pop", body).await;
    pop(r#"{"max":1000,"wait":0}"#).await.ok(200);
    pop(r#"{"max":1001}"#).await.refused(400, "invalid", Some("max"));
    let message = pop(r#"{"wait":"1001ms"}"#).await.refused(400, "invalid", Some("wait"));
    assert_eq!(message, "wait is 1s1ms, over the limit of 1s");

    server.post("/v1/pop", r#"{"topics":["a","b"]}"#).await.ok(200);
    let topics = server.post("/v1/pop", r#"{"topics":["a","b","c"]}"#).await;
    topics.refused(413, "too_large", Some("topics"));
    let named = |count: usize| {
        let jobs: Vec<String> = (0..count).map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
        format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))
    };
    server.post("/v1/topics/t/delete", &named(2)).await.ok(200);
    server.post("/v1/topics/t/delete", &named(3)).await.refused(413, "too_large", None);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_without_requests_is_closed_after_a_while() {
    let server = Server::with(|config| config.limits.idle_time = SHORT).await;
    let mut stream = connect(&server).await;
    ask(&mut stream).await;
    assert_eq!(to_the_end(&mut stream).await, "");
    server.stop().await;
}

#[tokio::test]
async fn the_limit_for_a_head_begins_with_its_first_byte() {
    let server = Server::with(|config| {
        config.limits.header_time = SHORT;
        config.limits.idle_time = LONG;
    })
    .await;
    let (mut kept, mut stuck) = (connect(&server).await, connect(&server).await);
    ask(&mut kept).await;
    ask(&mut stuck).await;
    // Cut off when the limit is over, which began later than the silence of the other.
    stuck.write_all(b"GET /healthz HTTP/1.1\r\nhost: local").await.expect("it is open");
    assert_eq!(to_the_end(&mut stuck).await, "");
    ask(&mut kept).await;
    server.stop().await;
}

/// Sends one byte after the other, until the server answers or hangs up.
async fn trickle(server: &Server, begin: &[u8]) -> String {
    let mut stream = connect(server).await;
    stream.write_all(begin).await.expect("it is open");
    let (mut reader, mut writer) = stream.into_split();
    let (done, mut is_done) = tokio::sync::oneshot::channel::<()>();
    let writing = async {
        let mut pause = tokio::time::interval(Duration::from_millis(1));
        while is_done.try_recv().is_err() && writer.write_all(b"x").await.is_ok() {
            pause.tick().await;
        }
    };
    let reading = async {
        let mut answer = Vec::new();
        while matches!(reader.read_buf(&mut answer).await, Ok(1..)) {}
        let _ = done.send(());
        String::from_utf8_lossy(&answer).into_owned()
    };
    let both = async { tokio::join!(writing, reading) };
    tokio::time::timeout(PATIENCE, both).await.expect("the server hangs up").1
}

#[tokio::test]
async fn whoever_sends_a_byte_now_and_then_is_cut_off() {
    let server = Server::with(|config| {
        config.limits.header_time = SHORT;
        config.limits.body_time = SHORT;
    })
    .await;
    assert_eq!(trickle(&server, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\na: ").await, "");
    let head = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    let answer = trickle(&server, head).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn whoever_does_not_take_an_answer_is_cut_off() {
    let server = Server::with(|config| {
        config.limits.connections = 1;
        config.limits.idle_time = SHORT;
    })
    .await;
    let body = "x".repeat(1 << 20);
    for _ in 0..12 {
        server.add(&format!(r#"{{"topic":"t","body":"{body}"}}"#)).await;
    }
    // The one connection there may be: the client's own is closed when it has nothing to ask.
    let let_in = async || {
        loop {
            let mut stream = connect(&server).await;
            stream.write_all(REQUEST).await.expect("it is open");
            let mut answer = [0; 12];
            if stream.read_exact(&mut answer).await.is_ok() && &answer == b"HTTP/1.1 200" {
                return stream;
            }
        }
    };
    let mut greedy = tokio::time::timeout(PATIENCE, let_in()).await.expect("there is a place");
    greedy
        .write_all(b"GET /v1/topics/t/jobs?body=true HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .expect("it is open");
    tokio::time::timeout(PATIENCE, let_in()).await.expect("its place is free again");
    drop(greedy);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_adds_are_refused_at_once_while_the_rest_goes_on() {
    const ADDERS: usize = 32;
    let server = Server::with(|config| config.limits.requests = 1).await;
    let (mut taken, mut refused, mut finished) = (0, 0, 0);
    for round in 0.. {
        let add = async |n: usize| {
            let id = format!("{round}-{n}");
            let job = format!(r#"{{"topic":"t","id":"{id}"}}"#);
            (id, server.post("/v1/jobs", &job).await)
        };
        let adds = futures_of((0..ADDERS).map(add));
        // One who works meanwhile is never turned away.
        let work = async {
            let job = server.pop("t").await;
            let Some(id) = job["id"].as_str() else { return 0 };
            let lease = format!(r#"{{"lease":{}}}"#, job["lease"]);
            server.post(&format!("/v1/topics/t/jobs/{id}/finish"), &lease).await.ok(200);
            1
        };
        let (answers, done) = tokio::join!(adds, work);
        finished += done;
        for (id, answer) in answers {
            if answer.status == 201 {
                taken += 1;
                continue;
            }
            assert_eq!(answer.headers["retry-after"], "1");
            let message = answer.refused(503, "overloaded", None);
            assert_eq!(message, "adds are at the limit of 1; try again soon");
            let looked = server.get(&format!("/v1/topics/t/jobs/{id}")).await;
            looked.refused(404, "not_found", None);
            refused += 1;
        }
        if taken > 0 && refused > 0 && finished > 0 {
            break;
        }
        assert!(round < 1000, "{taken} taken, {refused} refused, {finished} finished");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_calls_are_refused_at_once_while_adds_go_on() {
    let server = Server::with(|config| config.limits.requests = 1).await;
    server.add(r#"{"topic":"t","id":"1","delay":"1h"}"#).await;
    for round in 0.. {
        let update = async |priority: usize| {
            let body = format!(r#"{{"priority":{priority}}}"#);
            server.call(Method::PATCH, "/v1/topics/t/jobs/1", &body).await
        };
        let updates = futures_of((0..32).map(update));
        let (answers, _) = tokio::join!(updates, server.add(r#"{"topic":"t"}"#));
        let refused: Vec<_> = answers.into_iter().filter(|answer| answer.status != 200).collect();
        let any = !refused.is_empty();
        for answer in refused {
            assert_eq!(answer.headers["retry-after"], "1");
            let message = answer.refused(503, "overloaded", None);
            assert_eq!(message, "requests are at the limit of 1; try again soon");
        }
        if any {
            break;
        }
        assert!(round < 1000, "nobody was refused");
    }
    server.stop().await;
}

/// All of them at once.
async fn futures_of<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test]
async fn large_requests_are_refused_when_they_are_too_much_in_all_while_small_ones_go_on() {
    let server = Server::with(|config| {
        config.limits.body_bytes = 8 << 20;
        config.limits.requests_bytes = 1 << 20;
        config.limits.body_time = LONG;
    })
    .await;
    let large =
        |id: &str| format!(r#"{{"topic":"t","id":"{id}","body":"{}"}}"#, "x".repeat(600 << 10));
    let mut slow = connect(&server).await;
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n";
    let head = format!("{head}content-length: {}\r\n\r\n", 600 << 10);
    slow.write_all(head.as_bytes()).await.expect("it is open");
    // Asked to go on, it is counted.
    let mut answer = Vec::new();
    let read = async {
        while slow.read_buf(&mut answer).await.expect("an answer") > 0
            && !answer.ends_with(b"\r\n\r\n")
        {}
    };
    tokio::time::timeout(PATIENCE, read).await.expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&answer));

    let refused = server.post("/v1/jobs", &large("1")).await;
    assert_eq!(refused.headers["retry-after"], "1");
    refused.refused(503, "overloaded", None);
    server.post("/v1/jobs", r#"{"topic":"t","id":"2"}"#).await.ok(201);
    drop(slow);
    let taken = async {
        while server.post("/v1/jobs", &large("1")).await.status != 201 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, taken).await.expect("there is room again");
    server.stop().await;
}

#[tokio::test]
async fn a_topic_takes_no_more_jobs_than_its_quota() {
    let server = Server::start().await;
    server.call(Method::PUT, "/v1/topics/t", r#"{"jobs_max":2}"#).await.ok(200);
    let shown = server.get("/v1/topics/t").await.ok(200);
    assert_eq!(shown["settings"]["jobs_max"], 2);
    let batch =
        r#"[{"topic":"t","id":"1"},{"topic":"t","id":"2"},{"topic":"t","id":"3"},{"topic":"u"}]"#;
    let answers = server.post("/v1/jobs", batch).await.ok(200);
    let codes: Vec<_> = (0..4).map(|at| answers[at]["error"]["code"].as_str()).collect();
    assert_eq!(codes, [None, None, Some("overloaded"), None]);
    let refused = server.post("/v1/jobs", r#"{"topic":"t","id":"3"}"#).await;
    assert_eq!(refused.headers["retry-after"], "1");
    let message = refused.refused(503, "overloaded", None);
    assert!(message.starts_with("topic `t` has 2 jobs, which is its limit jobs_max"), "{message}");
    server.call(Method::DELETE, "/v1/topics/t/jobs/1", "").await.ok(200);
    server.add(r#"{"topic":"t","id":"3"}"#).await;
    server.stop().await;
}

#[tokio::test]
async fn a_topic_takes_no_more_bytes_than_its_quota() {
    let server = Server::start().await;
    server.call(Method::PUT, "/v1/topics/t", r#"{"bytes_max":10}"#).await.ok(200);
    server.add(r#"{"topic":"t","id":"1","body":"1234567"}"#).await;
    let shown = server.get("/v1/topics/t").await.ok(200);
    assert_eq!((&shown["settings"]["bytes_max"], &shown["bytes"]), (&10.into(), &7.into()));
    let refused = server.post("/v1/jobs", r#"{"topic":"t","id":"2","body":"1234"}"#).await;
    assert_eq!(refused.headers["retry-after"], "1");
    let message = refused.refused(503, "overloaded", None);
    assert!(message.contains("more than 10 bytes of bodies"), "{message}");
    let update = r#"{"body":"12345678901"}"#;
    let refused = server.call(Method::PATCH, "/v1/topics/t/jobs/1", update).await;
    refused.refused(503, "overloaded", None);
    server.add(r#"{"topic":"t","id":"2","body":"123"}"#).await;
    let shown = server.get("/v1/topics/u").await;
    shown.refused(404, "not_found", None);
    server.stop().await;
}
