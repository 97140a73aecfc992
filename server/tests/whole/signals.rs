//! What the binary does when it is told to stop or to read its settings again.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::served::{Caller, Served};

/// A client in the midst of a request: its head and half of its body have been sent.
struct Slow {
    stream: TcpStream,
    rest: &'static str,
}

impl Slow {
    /// Adds a job of this id, and gets stuck. Returns when the server has begun with it.
    async fn add(served: &Served, id: char) -> Slow {
        let mut stream = TcpStream::connect(&served.address).await.expect("it listens");
        let body = format!(r#"{{"topic":"slow","id":"{id}"#);
        let rest = r#""}"#;
        // The server says so when it wants to have the body: the request is in work then.
        let head = format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
             content-length: {}\r\n\r\n",
            body.len() + rest.len()
        );
        stream.write_all(head.as_bytes()).await.expect("it takes a head");
        let mut said = [0; 25];
        stream.read_exact(&mut said).await.expect("it answers");
        assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(body.as_bytes()).await.expect("it takes half of the body");
        Slow { stream, rest }
    }

    /// Sends the rest, and reads to the end.
    async fn go_on(mut self) -> String {
        self.stream.write_all(self.rest.as_bytes()).await.expect("it takes the rest");
        self.end().await
    }

    /// Reads until the server hangs up.
    async fn end(mut self) -> String {
        let mut answer = Vec::new();
        // A reset is a way of hanging up, too.
        let _ = self.stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

async fn add(caller: &Caller, id: &str) {
    caller.post("/v1/jobs", &json!({ "topic": "t", "id": id }).to_string()).await.ok(201);
}

async fn is_there(caller: &Caller, path: &str) -> bool {
    caller.get(&format!("/v1/topics/{path}")).await.status == 200
}

/// What is in the store after a stop of whatever kind.
async fn after(store: &Path, there: &[&str], gone: &[&str]) {
    let served = Served::start(store, &[]).await;
    let caller = served.caller();
    for path in there {
        assert!(is_there(&caller, path).await, "{path} is gone");
    }
    for path in gone {
        assert!(!is_there(&caller, path).await, "{path} is there");
    }
    served.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_everyone_end_in_good_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut served = Served::start(folder.path(), &[]).await;
        let caller = served.caller();
        add(&caller, "1").await;
        let waiting = {
            let caller = served.caller();
            tokio::spawn(async move {
                caller.post("/v1/topics/nothing/pop", r#"{"wait":"10m"}"#).await.ok(200)
            })
        };
        while !is_there(&caller, "nothing").await {}
        let slow = Slow::add(&served, 's').await;
        served.signal(signal);
        served.says("stopping").await;
        assert_eq!(waiting.await.expect("it is answered"), json!({ "jobs": [] }));
        let answer = slow.go_on().await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        served.says("stopped").await;
        assert_eq!(served.ended().await.code(), Some(0));
        after(folder.path(), &["t/jobs/1", "slow/jobs/s"], &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_client_is_cut_off_when_the_drain_is_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["--set", "drain=100ms", "--set", "limits.body_time=1h"];
    let mut served = Served::start(folder.path(), &args).await;
    add(&served.caller(), "1").await;
    let slow = Slow::add(&served, 's').await;
    served.signal(Signal::TERM);
    served.says("did not end in time").await;
    // The store was closed as it should be, so this is no failure.
    served.says("stopped").await;
    assert_eq!(served.ended().await.code(), Some(0));
    assert_eq!(slow.end().await, "");
    after(folder.path(), &["t/jobs/1"], &["slow/jobs/s"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["--set", "drain=1h", "--set", "limits.body_time=1h"];
    let mut served = Served::start(folder.path(), &args).await;
    add(&served.caller(), "1").await;
    let slow = Slow::add(&served, 's').await;
    served.signal(Signal::TERM);
    served.says("stopping").await;
    served.signal(Signal::INT);
    served.says("stopped at once").await;
    assert_eq!(served.ended().await.code(), Some(2));
    assert_eq!(slow.end().await, "");
    after(folder.path(), &["t/jobs/1"], &["slow/jobs/s"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beanstalkd_clients_are_drained_and_then_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut served = Served::listening(folder.path(), &["--beanstalkd", "127.0.0.1:0"]).await;
    let line = served.says("the beanstalkd protocol").await;
    let address = line.rsplit(' ').next().expect("an address").to_owned();
    // Not before the signal is minded, which would end it.
    served.says(" ready").await;
    let stream = TcpStream::connect(&address).await.expect("it listens");
    let mut stream = tokio::io::BufReader::new(stream);
    let mut ask = async |text: &str| {
        stream.write_all(text.as_bytes()).await.expect("it is taken");
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("an answer, or the end");
        line
    };
    let put = "put 0 0 60 1\r\nx\r\n";
    assert_eq!(ask(put).await, "INSERTED 1\r\n");
    served.signal(Signal::USR1);
    served.says("takes no new jobs").await;
    assert_eq!(ask(put).await, "DRAINING\r\n");
    served.signal(Signal::TERM);
    served.says("stopping").await;
    assert_eq!(ask("").await, "");
    assert_eq!(served.ended().await.code(), Some(0));
    after(folder.path(), &["default"], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_read_again_all_or_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("linger.toml");
    let write = |text: &str| fs::write(&file, text).expect("it can be written");
    write("[limits]\nbatch_jobs = 2\n");
    let (store, config) = (folder.path().join("data"), file.to_str().expect("UTF-8"));
    let mut served = Served::start(&store, &["--config", config]).await;
    let caller = served.caller();
    let taken = async |jobs: usize| {
        let jobs = vec![json!({ "topic": "t" }); jobs];
        caller.post("/v1/jobs", &json!(jobs).to_string()).await.status == 200
    };
    assert!(taken(2).await && !taken(3).await);

    write("durability = \"relaxed\"\n[limits]\nbatch_jobs = 3\n");
    served.signal(Signal::HUP);
    let line = served.says("limits.batch_jobs").await;
    assert!(line.contains("from=2") && line.contains("to=3"), "{line}");
    let line = served.says("needs a restart").await;
    assert!(line.contains("durability"), "{line}");
    while !taken(3).await {}
    assert!(!taken(4).await);

    // One line is right and one is wrong: neither counts.
    write("[limits]\nbatch_jobs = 1\nbodi = \"1MiB\"\n");
    served.signal(Signal::HUP);
    let line = served.says("the settings stay as they were").await;
    assert!(line.contains("limits.bodi") && line.contains("limits.body"), "{line}");
    assert!(taken(3).await);

    fs::remove_file(&file).expect("it is there");
    served.signal(Signal::HUP);
    served.says("the settings stay as they were").await;
    assert!(taken(3).await && !taken(4).await);
    served.kill();
}

#[tokio::test]
async fn a_key_outlives_a_kill_and_is_asked_for_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("data");
    let first = Served::start(&place, &[]).await;
    let made = r#"{"name":"root","scopes":["admin"]}"#;
    let made = first.caller().post("/v1/keys", made).await.ok(201);
    let key = made["key"].as_str().unwrap();
    first.kill();
    let again = Served::start(&place, &[]).await;
    assert_eq!(again.caller().get("/v1/topics").await.code(), "unauthorized");
    again.caller().by(key).get("/v1/topics").await.ok(200);
}
